"""The report in a terminal."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from roambench.report.console import print_brief, print_report, print_table
from roambench.report.report import report
from roambench.report.table import ReportTable
from roambench.rounds.records import OrderAnswered, OrderGiven
from roambench.runs.info import RunState


def shown(*paths) -> str:
    out = io.StringIO()
    print_report(report(paths).summaries, Console(file=out, width=160))
    return out.getvalue()


def brief(*paths, width: int = 80, terminal: bool = True) -> list[str]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    print_brief(report(paths).summaries, console)
    return out.getvalue().replace("\N{NO-BREAK SPACE}", " ").splitlines()


def test_a_run_in_which_nothing_was_trained_misses_no_threshold(hand_made):
    nothing = {"readings": False, "phases": False, "accuracies": (None, None)}
    text = shown(hand_made(fleet="rehearsal", **nothing), hand_made("scored", fleet="simulated", **nothing))
    (threshold,) = [line for line in text.splitlines() if line.startswith("threshold")]
    assert "nothing is trained" in threshold
    assert "no model was scored" in threshold
    assert "not reached" not in text
    assert "- demo-mohawk: a rehearsal: nothing is trained and no energy is measured" in text


def test_the_comparison_reads_in_one_screen_per_subject(hand_made):
    text = shown(hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=()))
    (wasted,) = [line for line in text.splitlines() if line.startswith("cumulative, wasted")][:1]
    assert "48.00 ± 0.96 J" in wasted
    assert "2.00 ×" in wasted
    (threshold,) = [line for line in text.splitlines() if line.startswith("threshold")]
    assert "80 % at step 1" in threshold
    assert "device to AP" in text
    assert "0.90 km (sd 0.00)" in text


def test_names_and_reasons_are_never_read_as_markup(hand_made):
    text = shown(
        hand_made(
            names=("[red]pi", "pi-02"),
            extra=[
                OrderGiven(1, 0, "x", "train", 0),
                OrderAnswered(1, 0, "x", "failed", "[/bold] no such file"),
            ],
        )
    )
    assert "[red]pi" in text
    assert "[/bold] no such file" in text


def test_the_end_of_a_run_is_one_screen_that_begins_with_what_was_found(hand_made):
    runs = [hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=())]
    lines = brief(*runs)
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    found = " ".join(" ".join(lines).split())
    # Downloads and trainings of 24 s at 2 W on two boards, 4 s of upload on one: 104 J against 96 J; a wasted
    # training is 48 J of it.
    assert found.startswith("In one run each, hierfavg wasted 2.00 × the energy of mohawk: ")
    assert "at accuracies of 85.0 % and 85.0 %." in found
    (row,) = [line.split("  ") for line in lines if line.startswith("demo-hierfavg ")]
    assert [cell.strip() for cell in row if cell.strip()][1:3] == ["85.0 %", "0 of 2"]
    assert any(line.startswith("! demo-mohawk, demo-hierfavg: set energy.idle_") for line in lines)


def test_energies_within_their_uncertainty_are_called_equal(hand_made):
    runs = [hand_made(), hand_made("demo-hierfavg", system="hierfavg", watts=2.01)]
    assert brief(*runs)[0].startswith("In one run each, the wasted energy of hierfavg and mohawk is equal")


def test_runs_of_different_traces_are_not_compared(hand_made):
    lines = brief(hand_made(), hand_made("demo-hierfavg", system="hierfavg", trace_hash="cd" * 32))
    assert lines[0].startswith("No comparison: the runs have different traces")


def test_one_run_says_what_it_reached_and_wasted(hand_made):
    # 56 J and 48 J, each by a meter of its own whose gain is known to 1 %: 2 u = 1.5 J.
    assert brief(hand_made(), width=200)[0] == (
        "mohawk reached 85.0 %, used 104.0 ± 1.5 J for learning and wasted 46 % of it."
    )


def test_a_run_that_was_stopped_claims_nothing(hand_made):
    assert brief(hand_made(state=RunState.INTERRUPTED))[0] == "mohawk is interrupted after 2 steps."


def test_nobody_who_reads_a_pipe_gets_broken_or_cut_lines(hand_made):
    lines = brief(hand_made(), terminal=False)
    (note,) = [line for line in lines if "idle baselines too short" in line]
    assert note.endswith("the idle power fitted within the run")


@pytest.mark.parametrize("width", [30, 40, 60, 80, 120])
def test_no_number_and_no_name_is_broken_at_any_width(width: int) -> None:
    rows = tuple(
        (f"demo-mohawk-{n}", "1,093.8 ± 6.3 J", "12,345 ± 12 J", "9.9 %", "a reason of several words")
        for n in range(3)
    )
    out = io.StringIO()
    table = ReportTable(
        "t", "A title", "", ("run", "consumed in all", "wasted", "share", "why"), rows, text_from=4
    )
    print_table(table, Console(file=out, width=width, force_terminal=True, color_system=None))
    text = out.getvalue().replace("\N{NO-BREAK SPACE}", " ")
    for cell in ("demo-mohawk-1", "1,093.8 ± 6.3 J", "12,345 ± 12 J", "9.9 %"):
        assert cell in text
    assert sorted(set(re.findall("reason|several|words", text))) == ["reason", "several", "words"]
    assert max(len(line) for line in text.splitlines()) <= width


@pytest.mark.parametrize(("width", "names"), [(60, 3), (80, 3), (40, 1)])
def test_every_part_of_a_split_table_names_its_rows(width: int, names: int) -> None:
    """All keys are repeated; where they leave no room for a figure rows have numbers."""
    keys = [
        (system, steps, alpha)
        for system in ("mohawk", "hierfavg")
        for steps in ("2", "5")
        for alpha in ("0.1", "1.0")
    ]
    rows = tuple((*key, "1,093.8 ± 6.3 J", "12,345 ± 12 J", "9,999.9 ± 1 J") for key in keys)
    head = ("system", "cloud_every_steps", "alpha", "consumed", "wasted", "failed")
    table = ReportTable("t", "", "", head, rows, numeric_from=3)
    out = io.StringIO()
    print_table(table, Console(file=out, width=width, force_terminal=True, color_system=None))
    lines = out.getvalue().replace("\N{NO-BREAK SPACE}", " ").splitlines()
    parts = "\n".join(lines).split("#" if names == 1 else "system")[1:]
    assert len(parts) > 1
    for part in parts:
        named = [tuple(line.split()[:names]) for line in part.strip().splitlines()[1:]]
        assert named == (keys if names > 1 else [(str(number),) for number in range(1, 9)])
    assert max(map(len, lines)) <= width


def test_rows_of_one_name_have_numbers_where_their_table_is_split() -> None:
    rows = (("mohawk", "12,345 ± 12 J", "9,999.9 ± 1 J"), ("mohawk", "54,321 ± 12 J", "1,111.1 ± 1 J"))
    out = io.StringIO()
    table = ReportTable("t", "", "", ("run", "consumed", "wasted"), rows)
    print_table(table, Console(file=out, width=30, force_terminal=True, color_system=None))
    lines = out.getvalue().replace("\N{NO-BREAK SPACE}", " ").split("\n")
    assert lines[1] == "1  mohawk  12,345 ± 12 J"
    assert lines[4:6] == ["1  9,999.9 ± 1 J", "2  1,111.1 ± 1 J"]


def test_what_matters_begins_the_whole_report_too(hand_made):
    assert shown(hand_made()).startswith("mohawk reached 85.0 %")
