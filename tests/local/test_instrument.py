"""The facts that a bench gives of itself: its clocks, its boards, and what it costs them. Real processes."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from by_chance import assert_by_chance
from forked_commands import roambench
from roambench.contract.events import EventKind
from roambench.contract.phases import ACTIVE_PHASES
from roambench.energy.clocks.clock_fit import ClockVerdict
from roambench.rounds.records import ClockProbed, FleetEvent
from roambench.runs.folder import RunFolder
from roambench.runs.measured.clocks import ReaderCase, board_clocks

from .conftest import SMALL, processes_of

pytestmark = pytest.mark.timeout(600)

BASELINE_S = 2.0  # as SMALL has it
NAMES = ("pi-01", "pi-02")


@pytest.fixture(scope="module")
def run(launch) -> Iterator[RunFolder]:
    driven = launch(
        "fleet.agents=2", "local.cpu_slowdown=400", "clock.period_s=0.001", "host.period_s=1"
    ).finish()
    folder = RunFolder.open(driven.folder())
    yield folder
    folder.close()


def bursts(run: RunFolder) -> list[ClockProbed]:
    return [record for record in run.read_log() if isinstance(record, ClockProbed)]


def test_every_device_is_probed_at_hello_before_between_the_steps_and_after(run):
    for device in range(2):
        mine = [burst for burst in bursts(run) if burst.device == device]
        assert [burst.occasion for burst in mine] == [*("hello", "before"), *["during"] * 6, "after"]
        assert [burst.step for burst in mine] == [-1, -1, 0, 1, 2, 3, 4, 5, 6]
        assert {burst.probes for burst in mine} == {8}
        assert {burst.time_scale for burst in mine} == {4.0}


def test_no_burst_falls_into_a_measured_phase_or_an_idle_baseline(run):
    start_ns, end_ns = run.info.start_device_ns, run.info.end_device_ns
    margin_ns = round(BASELINE_S * 1e9)
    seen = 0
    for device, name in enumerate(NAMES):
        spans = [span for span in run.records.spans(name) if span.phase in ACTIVE_PHASES]
        assert len(spans) >= 12
        for burst in bursts(run):
            if burst.device != device:
                continue
            t0_ns, _, _, t3_ns = burst.stamps_ns
            assert not any(span.start_ns < t3_ns and t0_ns < span.end_ns for span in spans)
            if burst.occasion == "during":
                assert start_ns + margin_ns < t0_ns
                assert t3_ns < end_ns - margin_ns
                seen += 1
            elif burst.occasion in ("hello", "before"):
                assert t3_ns < start_ns
            else:
                assert t0_ns > end_ns
    assert seen == 12


def test_emulated_boards_share_the_controllers_clock_and_the_offset_says_so_within_its_bound(run):
    clocks = board_clocks(
        run.info.device_names,
        run.read_log(),
        {name: run.records.events(name) for name in NAMES},
        run.info.start_device_ns,
        run.info.end_device_ns,
    )
    for clock in clocks:
        assert clock.case is ReaderCase.LOCAL
        assert not clock.refused
        assert clock.verdict in (ClockVerdict.GOOD, ClockVerdict.FLAGGED)  # a crowded machine answers late
        assert clock.bursts == 9
        assert "reads its own meter, so no offset is needed" in clock.sentence()
        assert "of device time" in clock.sentence()
    for burst in bursts(run):
        assert abs(burst.offset_ns) <= burst.bound_ns


def test_host_samples_arrive_through_the_spool_and_claim_nothing_of_the_laptops(run):
    seconds = (run.info.end_device_ns - run.info.start_device_ns) * 1e-9
    exported = Counter(row["device"] for row in pq.read_table(run.path / "host.parquet").to_pylist())
    for name in NAMES:
        samples = run.records.host_table(name).view(np.recarray)
        assert (
            len(samples) >= 0.5 * seconds
        )  # a sample that costs more than 0.5 % of a core is taken less often
        assert exported[name] == len(samples)
        assert all(math.isnan(sample.temperature_c) and sample.throttle_bits == -1 for sample in samples)
        used_s = [sample.agent_cpu_s for sample in samples]
        assert used_s[-1] > used_s[0] > 0.0


@pytest.fixture(scope="module")
def overhead(tmp_path_factory) -> dict:
    """`roambench overhead` as users have it; its folder must hold no process afterwards."""
    base = tmp_path_factory.mktemp("overhead")
    file = base / "small.toml"
    file.write_text(SMALL)
    words = ["--agents", "2", "--minutes", "1.2", "--set", "local.time_scale=8", "--json"]
    words += ["--set", 'local.power_shape="steady"']  # milliwatts are looked for
    words += [
        "--set",
        "local.cpu_slowdown=48",
    ]  # a board a quarter as fast as usual draws four times as much for its agent
    done = roambench("overhead", str(file), "--runs-dir", str(base / "runs"), *words, cwd=base)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result == json.loads((base / "runs" / "small-overhead" / "overhead.json").read_text())
    assert processes_of(base) == []
    return {**result, "path": base / "runs" / "small-overhead"}


@pytest.mark.alone  # what agents cost grows where others keep the machine busy
def test_the_instruments_cost_is_what_the_emulated_boards_drew_for_it(overhead):
    """The boards draw the agents' own CPU seconds; the meters must find what the emulator put in."""
    assert (overhead["blocks"], overhead["block_s"]) == (6, pytest.approx(12.0))
    off_u = {}
    for board in overhead["boards"]:
        found, true_w = board["instrument"], board["true_instrument_w"]
        assert true_w > 0.003  # streaming costs CPU: without it there would be nothing to find
        off_u[board["device"]] = (found["watts"] - true_w) / found["u_watts"]
        assert found["u_watts"] < 0.030  # a minute on a busy machine
        assert 1.9 <= board["idle_w"]["reader"] < 2.1
    assert_by_chance(off_u)


@pytest.mark.alone  # where others keep the machine busy, lines come late
def test_readings_go_on_while_no_session_is_held(overhead):
    folder = RunFolder.open(Path(overhead["path"]))
    for name in NAMES:
        ns = folder.records.readings(name).ns
        # One a second: a line that is late is none that is missing.
        assert len(ns) == pytest.approx((ns[-1] - ns[0]) * 1e-9 + 1, abs=2.5)
        assert (ns[1:] - ns[:-1]).max() < 5e9
        began = [event for event in folder.records.events(name) if event.kind == EventKind.DUTY_BEGAN]
        assert [event.detail for event in began] == [
            *("reader", "agent", "streaming", "streaming", "agent", "reader", "over")
        ]
        seen = [record for record in folder.read_log() if isinstance(record, FleetEvent)]
        farewells = [
            event.detail for event in seen if (event.name, event.kind) == (name, EventKind.SESSION_CLOSED)
        ]
        assert farewells == ["duty: reader", "duty: reader", "the run is over"]
        assert sum((event.name, event.kind) == (name, EventKind.SESSION_OPENED) for event in seen) == 3
        samples = folder.records.host_table(name).view(np.recarray)
        for first, last in ((0, 1), (5, 6)):
            quiet = [
                sample
                for sample in samples
                if began[first].monotonic_ns < sample.monotonic_ns < began[last].monotonic_ns
            ]
            assert quiet == []
    folder.close()
