"""A board whose meter a host with an unknown clock reads: its joules are in no sum, and every sum says so."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from roambench.meters.traits import MeterDescription
from roambench.report.comparison import compare_runs, print_comparison
from roambench.report.documents.report import document
from roambench.report.report import report
from roambench.report.tables.report import comparison_tables
from roambench.rounds.records import ClockProbed
from roambench.runs.export import export_run
from roambench.runs.folder import RunFolder
from roambench.study.ab.ab_figures import figures_of
from roambench.study.sweep.sweep_folder import PointEnd

S = 1_000_000_000
WHY = "clock refused: gateway reads its meter, the clock of gateway was never probed"


def read_by(host: str, bound_ms: float = 1.0) -> dict[str, object]:
    """The second board's meter is read by `host`; its own clock is known to `bound_ms`."""
    meter = MeterDescription("smartpower2-telnet", "10.0.0.7:23", "smartpower2", remote_reader=host)
    bursts = [
        ClockProbed(-1, 1, "during", "boot", at_s * S, 0.0, bound_ms * 1e6, 8, (0, 0, 0, 0))
        for at_s in (100, 150, 200)
    ]
    return {"own_events": {"pi-02": [meter.to_event(100 * S)]}, "extra": bursts}


def said(*words: str) -> str:
    return " ".join(" ".join(words).split())


@pytest.fixture
def refused(hand_made: Callable[..., Path]) -> Path:
    return hand_made("run", **read_by("gateway"))


def test_its_joules_are_in_no_sum_of_the_report(refused: Path) -> None:
    """Two boards of 2 W over 100 s: 200 J are left. The first: 4 + 20 + 4 s of work, 56 J."""
    energy = report([refused]).summaries[0].measured
    assert energy is not None
    assert energy.without == {"pi-02": WHY}
    assert energy.whole_run.joules == pytest.approx(200.0)
    assert energy.whole_run.coverage == pytest.approx(1.0)  # of the boards that are in it
    assert energy.gross.cumulative_consumed.joules == pytest.approx(56.0)
    assert energy.gross.per_board_consumed.mean == pytest.approx(56.0)  # not 28: nobody knows the other's
    assert energy.gross.per_board_consumed.count == 1
    assert {item.phase.value: item.count for item in energy.phases}["train"] == 1
    assert energy.truth is not None
    assert energy.truth.boards == 1


def test_a_clock_known_to_400_ms_is_in_every_sum_and_one_known_worse_in_none(
    hand_made: Callable[..., Path],
) -> None:
    """A line through three bursts is known at its ends to 4/3 of each burst's bound."""
    for bound_ms, joules in ((290.0, 400.0), (310.0, 200.0)):
        run = hand_made(f"r{bound_ms}", **read_by("controller", bound_ms))
        energy = report([run]).summaries[0].measured
        assert energy is not None
        assert energy.whole_run.joules == pytest.approx(joules, rel=1e-3)


def test_every_table_of_sums_and_the_json_say_without_whom(refused: Path) -> None:
    made = report([refused])
    captions = {table.key: table.caption for table in comparison_tables(made.summaries)}
    for key in ("table10-gross", "table10-net", "whole-run", "phases", "transfers", "communication"):
        assert f"run is without pi-02 ({WHY})." in captions[key], key
    told = document(made.summaries)["runs"][0]
    assert told["energy"]["without"] == {"pi-02": WHY}
    assert f"pi-02: {WHY}: left out of every sum" in told["flags"]
    assert WHY in made.html()


def test_compare_leaves_its_transfers_out_and_says_so_in_the_verdict(refused: Path) -> None:
    made = compare_runs([refused])
    (run,) = json.loads(made.json())["runs"]
    assert run["without"] == {"pi-02": WHY}
    assert {item["device"] for item in run["transfers"]} == {"pi-01"}
    assert run["total"]["gross"]["joules"] == pytest.approx(16.0)  # 4 s down and 4 s up at 2 W
    assert all(f"without pi-02 ({WHY})" in line for line in made.verdicts())
    text = io.StringIO()
    print_comparison(made, Console(file=text, width=200))
    assert said(f"! run: pi-02: {WHY}: left out of every sum") in said(text.getvalue())
    assert WHY in made.html()


def test_ab_claims_nothing_of_joules_over_other_boards(refused: Path, hand_made: Callable[..., Path]) -> None:
    (summary,) = report([refused]).summaries
    found = figures_of(PointEnd.of("", summary))
    assert not [name for name in found if name.endswith("_j") and not name.startswith("modelled")]
    assert "final_accuracy" in found
    assert f"pi-02: {WHY}: left out of every sum" in summary.flags  # `ab` prints every run's flags
    both = report([refused, hand_made("other")])
    flag = (
        "the runs have different boards left out of their sums: their differences are not the systems' alone"
    )
    assert flag in document(both.summaries)["flags"]


def test_the_ledger_has_its_phases_without_joules_and_the_raw_readings_stay(refused: Path) -> None:
    with RunFolder.open(refused) as folder:
        export_run(folder)
    rows = [row for row in pq.read_table(refused / "ledger.parquet").to_pylist() if row["device"] == "pi-02"]
    assert {row["phase"] for row in rows} >= {"download", "train", "idle"}
    assert {(row["gross_j"], row["net_j"], row["covered_s"]) for row in rows} == {(0.0, 0.0, 0.0)}
    raw = pq.read_table(refused / "readings.parquet").to_pylist()
    assert sum(row["device"] == "pi-02" for row in raw) == sum(row["device"] == "pi-01" for row in raw) > 100


def test_phases_of_a_boot_that_was_never_probed_are_said_to_go_by_the_wall_clock(
    hand_made: Callable[..., Path],
) -> None:
    probed = [
        ClockProbed(-1, device, "during", boot, 100 * S, 0.0, 1e6, 8, (0, 0, 0, 0))
        for device, boot in ((0, "an earlier one"), (1, "boot"))
    ]
    (summary,) = report([hand_made("run", fleet="bench", extra=probed)]).summaries
    (flag,) = [flag for flag in summary.flags if "was never probed" in flag]
    assert flag.startswith("pi-01: the clock of 1 boot was never probed: phases there stand where its wall")
    assert flag.endswith("find out why it booted, or probe more often (clock.period_s)")
