"""REFL against its rules, computed again from a run's records: movement, batteries, late updates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.rounds.records import (
    BatteriesSeen,
    CloudAggregated,
    EdgeAggregated,
    OrderGiven,
    OutcomeDecided,
    StepOpened,
)
from roambench.systems.catalogue import make_system
from roambench.systems.options import SystemOptions

PERIOD = 6


def chances(run, step):
    """By device, of being there at the next step: from who was there at the steps up to now."""
    there = {record.step: set(record.devices) for record in run.of(StepOpened) if record.step <= step}
    found = {}
    for device in range(len(run.trace.device_names)):
        overall = (sum(device in there[s] for s in there) + 1) / (len(there) + 2)
        alike = [s for s in there if s % PERIOD == (step + 1) % PERIOD]
        found[device] = (sum(device in there[s] for s in alike) + overall) / (len(alike) + 1)
    return found


@pytest.mark.parametrize("hold_off", [0, 2])
def test_the_least_available_of_those_that_were_left_alone_train(played, hold_off) -> None:
    run = played("refl", {"period_steps": PERIOD, "hold_off_steps": hold_off}, devices=16, per_ap=1)
    last: dict[int, int] = {}
    passed_over = 0
    for step, here in run.steps():
        if step == run.trace.steps - 1:
            assert not run.trained(step)
            continue
        chance, trained = chances(run, step), run.trained(step)
        for ap in set(here.values()):
            at = [d for d in here if here[d] == ap and (d not in last or step - last[d] > hold_off)]
            got = [chance[device] for device in at if device in trained]
            assert got == pytest.approx(sorted(chance[device] for device in at)[:1])
            passed_over += len(at) > 1
        assert all(step - last[device] > hold_off for device in trained if device in last)
        last.update(dict.fromkeys(trained, step))
    assert passed_over > 20
    assert any(record.off for record in run.of(BatteriesSeen))


@pytest.mark.parametrize("beta", [0.35, 0.0, 1.0])
def test_late_updates_weigh_by_age_and_by_how_far_they_are_from_fresh_ones(played, beta) -> None:
    run = played("refl", {"beta": beta, "hold_off_steps": 1, "period_steps": PERIOD}, devices=16, per_ap=3)
    models = run.devices.models
    step_of = {one.order_id: one.step for one in run.of(OrderGiven) if one.kind == "train"}
    at_ap: dict[int, np.ndarray] = {}
    boosted = 0
    for record in run.records:
        if isinstance(record, CloudAggregated) and record.aps:
            at_ap = dict.fromkeys(range(3), models[record.digest])
        if not isinstance(record, EdgeAggregated):
            continue
        reference = np.float64(at_ap.get(record.ap, np.ones(6)))
        updates = [np.float64(models[order]) - reference for order in record.train_order_ids]
        late = [record.step - step_of[order] - 1 for order in record.train_order_ids]
        fresh = [update for update, steps in zip(updates, late, strict=True) if steps == 0]
        deviations = {}
        if fresh:
            mean = np.mean(fresh, axis=0)
            for index, (update, steps) in enumerate(zip(updates, late, strict=True)):
                if steps > 0:
                    with_it = (update + len(fresh) * mean) / (len(fresh) + 1)
                    deviations[index] = np.sum((mean - with_it) ** 2) / np.sum(mean**2)
        raw = []
        for index, steps in enumerate(late):
            boost = (
                1.0 - math.exp(-deviations[index] / max(deviations.values())) if index in deviations else 0.0
            )
            raw.append(1.0 if steps == 0 else (1.0 - beta) / (steps + 1) + beta * boost)
        raw = raw if sum(raw) else [1.0] * len(raw)
        assert record.weights == pytest.approx([one / sum(raw) for one in raw], rel=1e-4)
        new = reference + sum(w * update for w, update in zip(record.weights, updates, strict=True))
        assert models[record.digest] == pytest.approx(new, rel=1e-4)
        at_ap[record.ap] = models[record.digest]
        boosted += bool(deviations) and len(fresh) >= 1
    assert boosted >= 5
    assert max(late) >= 0


def test_no_late_update_is_lost_unless_one_may_be_too_old(played) -> None:
    def wasted(**numbers) -> list[OutcomeDecided]:
        run = played("refl", numbers, devices=16, per_ap=3)
        return [
            one for one in run.of(OutcomeDecided) if one.outcome == "wasted" and one.reason != "end of run"
        ]

    assert not wasted()
    assert wasted(stale_steps=1)


def test_the_cloud_weighs_access_points_by_their_models(played) -> None:
    run = played("refl", {"hold_off_steps": 0}, devices=16, per_ap=3)
    since: dict[int, int] = {}
    for record in run.records:
        if isinstance(record, EdgeAggregated):
            since[record.ap] = since.get(record.ap, 0) + len(record.train_order_ids)
        elif isinstance(record, CloudAggregated):
            counts = [since[ap] for ap in record.aps]
            assert record.weights == pytest.approx([count / sum(counts) for count in counts])
            since = {}


def test_numbers_out_of_range_are_named() -> None:
    with pytest.raises(ConfigError, match=r"beta: expected a share of 0 to 1, got -1"):
        make_system("refl", SystemOptions(), {"beta": -1.0})
    with pytest.raises(ConfigError, match=r"period_steps: expected 1 or more, got 0"):
        make_system("refl", SystemOptions(), {"period_steps": 0})
