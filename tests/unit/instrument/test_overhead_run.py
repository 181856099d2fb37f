"""`roambench overhead` before and after its fleet: blocks from events, what a folder lacks, wrong words."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from roambench.cli.main import main
from roambench.contract.duty import DutyLevel
from roambench.contract.errors import FleetError
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, Reading, RecordKind
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.instrument.overhead import DutyBlock
from roambench.instrument.overhead_run import duty_blocks, overhead_of
from roambench.meters.traits import TRAITS, UNCALIBRATED_RAIL, MeterDescription
from roambench.runs.folder import RunFolder

_ROW = replace(UNCALIBRATED_RAIL, nominal_s=1.0)

S = 1_000_000_000
A, B, C = DutyLevel
LEVELS = ("reader", "agent", "streaming", "streaming", "agent", "reader", "over")


def began(at_s: int, level: str) -> AgentEvent:
    return AgentEvent(EventKind.DUTY_BEGAN, at_s * S, level)


def test_a_block_ends_where_the_next_begins_and_other_events_are_none() -> None:
    events = [
        AgentEvent(EventKind.AGENT_STARTED, 0),
        began(10, "reader"),
        AgentEvent(EventKind.METER_OK, 12 * S),
        began(20, "agent"),
        began(30, "over"),
        AgentEvent(EventKind.AGENT_STOPPING, 90 * S),
    ]
    assert duty_blocks(events) == [DutyBlock(A, 10 * S, 20 * S), DutyBlock(B, 20 * S, 30 * S)]


def test_a_block_without_an_end_and_a_level_of_another_version_are_left_out() -> None:
    """The agent died at `streaming`: how long it lived at that level nobody knows."""
    events = [began(10, "reader"), began(20, "turbo"), began(30, "agent"), began(40, "streaming")]
    assert duty_blocks(events) == [DutyBlock(A, 10 * S, 20 * S), DutyBlock(B, 30 * S, 40 * S)]
    assert duty_blocks([]) == []


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder.create(
        tmp_path / "run",
        Experiment(seed=1),
        run_id="r",
        system="overhead",
        trace_hash="",
        fleet="local",
        device_names=["pi-01", "pi-02"],
        time_scale=4.0,
    )


def fill(folder: RunFolder, device: str, watts: dict[str, float], until_s: int = 120) -> None:
    events = [began(20 * block, level) for block, level in enumerate(LEVELS)]
    if device == "pi-02":  # reads its own sensor, 5 ms of a core each second
        events.append(MeterDescription("hwmon", "ina226", "hwmon", own=_ROW, look_cpu_s=0.005).to_event(1))
    records = [(RecordKind.EVENT, event.to_bytes()) for event in events]
    shown = 1.0 if device == "pi-02" else 3.81687 / 3.81463  # a Smart Power 2 shows so much more
    for second in range(until_s):
        power_w = watts[LEVELS[second // 20]] * shown
        records.append((RecordKind.READING, Reading(second * S + 1, 5.0, power_w / 5.0, power_w).to_bytes()))
    folder.records.insert(device, "spool", [(seq, *record) for seq, record in enumerate(records, 1)])


def test_a_folders_records_become_levels_and_differences(folder: RunFolder, tmp_path: Path) -> None:
    """By hand: 10 mW for the session and 30 mW for streaming on one board, nothing on the other."""
    (tmp_path / "e.toml").write_text("")
    fill(folder, "pi-01", {"reader": 1.90, "agent": 1.91, "streaming": 1.94})
    fill(folder, "pi-02", {"reader": 2.10, "agent": 2.10, "streaming": 2.10})
    result = overhead_of(folder, load_experiment(tmp_path / "e.toml", []), 2.0, 20.0, 6)
    one, other = (board.overhead for board in result.boards)
    assert one.levels == pytest.approx({A: 1.90, B: 1.91, C: 1.94})
    assert (one.agent.watts, one.streaming.watts) == (pytest.approx(0.01), pytest.approx(0.03))
    assert (one.instrument.resolved, other.instrument.resolved) == (True, False)
    assert one.readings == 6 * 15  # 20 a block, 5 of them too early
    assert result.fleet.instrument.watts == pytest.approx(0.02)
    assert result.fleet.levels[A] == pytest.approx(2.0)
    assert result.boards[0].true_instrument_w is None
    assert '"verdict": "the instrument costs 20 ± ' in result.to_json()
    assert result.verdict.endswith("; reading their own sensors about 4.0 mW more")
    folder.close()


def test_each_board_has_its_own_meters_step_and_calibration(folder: RunFolder, tmp_path: Path) -> None:
    """pi-01: a Smart Power 2 that reads 2 % more; pi-02: a kernel's sensor in steps of 5 mW."""
    (tmp_path / "e.toml").write_text("[energy.meters.pi-01]\ngain = 1.02\nu_gain = 0.1\n")
    costs = {"reader": 1.90, "agent": 1.90, "streaming": 2.00}
    fill(folder, "pi-01", costs)
    fill(folder, "pi-02", costs)
    result = overhead_of(folder, load_experiment(tmp_path / "e.toml", []), 2.0, 20.0, 6)
    one, other = (board.overhead.instrument for board in result.boards)
    sp2 = TRAITS.load("smartpower2")
    assert one.watts == pytest.approx(0.1 * sp2.gain / 1.02)
    assert one.u_shared_w == pytest.approx(sp2.step_w * math.sqrt(2 / 12) / 1.02)
    assert one.u_watts == pytest.approx(math.hypot(one.u_shared_w, 0.1 * one.watts), rel=1e-3)
    assert other.watts == pytest.approx(0.1)
    assert other.u_shared_w == pytest.approx(_ROW.step_w * math.sqrt(2 / 12))
    assert other.u_watts == pytest.approx(math.hypot(other.u_shared_w, _ROW.u_gain * 0.1), rel=1e-3)
    folder.close()


def test_a_board_whose_meter_fell_silent_is_named(folder: RunFolder, tmp_path: Path) -> None:
    (tmp_path / "e.toml").write_text("")
    fill(folder, "pi-01", dict.fromkeys(LEVELS, 1.9))
    fill(folder, "pi-02", dict.fromkeys(LEVELS, 1.9), until_s=100)
    with pytest.raises(FleetError, match=r"^pi-02: overhead: level 'reader' has fewer than 2 blocks"):
        overhead_of(folder, load_experiment(tmp_path / "e.toml", []), 2.0, 20.0, 6)
    folder.close()


@pytest.mark.parametrize("words", [["--minutes", "0.5"], ["--fleet", "moon"], ["--agents", "no"]])
def test_words_that_make_no_sense_end_with_status_2(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "e.toml").write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["overhead", str(tmp_path / "e.toml"), *words])
    assert ended.value.code == 2
    assert words[0] in capsys.readouterr().err
