"""What virtual devices hold between iterations, with half steps made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import NO_MODEL_HELD, ExchangeOrder, LeftOut
from roambench.fleet.simulated.job import TrainingJob, TrainingOutcome
from roambench.fleet.simulated.model_rows import ModelRows
from roambench.fleet.simulated.peer_models import PeerModels
from roambench.fleet.simulated.simulated_fleet import VirtualDevice, exchange_reply

pytestmark = pytest.mark.asyncio


class Bench:
    """Half steps double the start model; devices in `diverge` do not manage theirs."""

    def __init__(self, folder: Path, *, has_momentum: bool = False) -> None:
        self.rows = ModelRows(folder / "rows.bin", 2, 60, create=True)
        self.peers = PeerModels(self.rows, has_momentum=has_momentum)
        self.published = {
            name: self.rows.store(np.array(values, np.float32))
            for name, values in {"a": (1.0, 8.0), "b": (3.0, 0.0), "c": (5.0, 4.0)}.items()
        }
        self.diverge: set[int] = set()
        self.jobs: list[TrainingJob] = []

    async def compute(self, jobs: Sequence[TrainingJob]) -> list[TrainingOutcome]:
        self.jobs = list(jobs)
        for job in jobs:
            self.rows.write(job.out_row, 2.0 * self.rows.row(job.ap_row))
            if job.velocity_out_row >= 0:
                before = self.rows.row(job.velocity_row)[0] if job.velocity_row >= 0 else 0.0
                self.rows.write(job.velocity_out_row, np.full(2, before + 1.0, np.float32))
        return [
            TrainingOutcome("diverged" if job.device in self.diverge else "", samples=1, sgd_steps=3)
            for job in jobs
        ]

    async def step(self, *orders: ExchangeOrder) -> list[tuple[str, tuple[LeftOut, ...], int]]:
        done = await self.peers.exchange(orders, self.published, self.compute)
        return [(each.refused, each.left_out, each.received) for each in done]

    def held(self, device: int) -> list[float] | None:
        model = self.peers.model(device)
        return None if model is None else model.tolist()


def order(device: int, weights: dict[int, float], own: float, start: str = "") -> ExchangeOrder:
    name, shares = f"r/0/{device}/exchange", tuple(weights.values())
    return ExchangeOrder(name, device, 0, tuple(weights), shares, own, LocalTraining(), start_digest=start)


def triangle(start: bool) -> list[ExchangeOrder]:
    return [
        order(device, {n: 0.25 for n in range(3) if n != device}, 0.5, "abc"[device] if start else "")
        for device in range(3)
    ]


async def test_three_devices_mix_their_half_steps(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert await bench.step(*triangle(True)) == [("", (), 2)] * 3
    # Halves (2, 16), (6, 0), (10, 8): half of one's own and a quarter of each other's.
    assert [bench.held(device) for device in range(3)] == [[5.0, 10.0], [6.0, 6.0], [7.0, 8.0]]
    await bench.step(*triangle(False))
    assert bench.held(0) == [11.5, 17.0]  # 2 (5/2 + 6/4 + 7/4), 2 (10/2 + 6/4 + 8/4)


async def test_who_diverges_is_left_out_with_its_weight_and_keeps_what_it_held(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    await bench.step(*triangle(True))
    bench.diverge = {1}
    done = await bench.step(*triangle(False))
    missing = (LeftOut(1, "refused: diverged"),)
    assert done == [("", missing, 1), ("diverged", (), 2), ("", missing, 1)]
    # Halves (10, 20) and (14, 16): three quarters of one's own, a quarter of the other's.
    assert [bench.held(device) for device in range(3)] == [[11.0, 19.0], [6.0, 6.0], [13.0, 17.0]]


async def test_a_neighbour_without_an_order_is_left_out(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    ((refused, left_out, received),) = await bench.step(order(0, {1: 0.25}, 0.75, "a"))
    assert (refused, left_out, received) == ("", (LeftOut(1, "lost: no order"),), 0)
    assert bench.held(0) == [2.0, 16.0]


async def test_a_model_of_weight_0_is_not_added(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.published["c"] = bench.rows.store(np.array([np.inf, np.nan], np.float32))
    await bench.step(order(0, {2: 0.0}, 1.0, "a"), order(2, {0: 1.0}, 0.0, "c"))
    assert (bench.held(0), bench.held(2)) == ([2.0, 16.0], [2.0, 16.0])


async def test_a_device_without_a_model_is_refused(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    assert await bench.step(order(0, {}, 1.0)) == [(NO_MODEL_HELD, (), 0)]
    assert bench.held(0) is None


async def test_velocities_go_on_but_not_past_a_new_start(tmp_path: Path) -> None:
    bench = Bench(tmp_path, has_momentum=True)
    velocities = []
    for start in ("a", "", "", "b"):
        await bench.step(order(0, {}, 1.0, start))
        velocities.append(float(bench.rows.row(bench.jobs[0].velocity_out_row)[0]))
    assert velocities == [1.0, 2.0, 3.0, 1.0]


async def test_no_row_is_lost_however_often_devices_exchange_or_diverge(tmp_path: Path) -> None:
    bench = Bench(tmp_path, has_momentum=True)
    await bench.step(*triangle(True))
    used = bench.rows.in_use
    for step in range(30):
        bench.diverge = {step % 4}
        await bench.step(*triangle(False))
    assert bench.rows.in_use == used == 3 + 3 + 3  # published, held, velocities


async def test_one_radio_sends_then_receives(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    orders = triangle(True)
    bench.diverge = {1}
    done = await bench.peers.exchange(orders, bench.published, bench.compute)
    reply = exchange_reply(orders[0], done[0], 1_000_000, VirtualDevice(0.5, 8.0, 4.0))
    # Two models sent at 4 Mbit/s, one received at 8: 4 s and 1 s; the start model 1 s at 8.
    assert (reply.sent_bytes, reply.received_bytes, reply.exchange_s) == (2_000_000, 1_000_000, 5.0)
    assert (reply.downloaded_bytes, reply.download_s, reply.device_s) == (1_000_000, 1.0, 1.5)
