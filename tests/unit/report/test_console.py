"""The report in a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from roambench.report.console import print_report
from roambench.report.report import report
from roambench.rounds.records import OrderAnswered, OrderGiven


def shown(*paths) -> str:
    out = io.StringIO()
    print_report(report(paths).summaries, Console(file=out, width=160))
    return out.getvalue()


def test_a_run_in_which_nothing_was_trained_misses_no_threshold(hand_made):
    nothing = {"readings": False, "phases": False, "accuracies": (None, None)}
    text = shown(hand_made(fleet="rehearsal", **nothing), hand_made("scored", fleet="simulated", **nothing))
    (threshold,) = [line for line in text.splitlines() if line.startswith("threshold")]
    assert "nothing is trained" in threshold
    assert "no model was scored" in threshold
    assert "not reached" not in text
    assert "! demo-mohawk: a rehearsal: nothing is trained and no energy is measured" in text


def test_the_comparison_reads_in_one_screen_per_subject(hand_made):
    text = shown(hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=()))
    (wasted,) = [line for line in text.splitlines() if line.startswith("cumulative, wasted")][:1]
    assert "48.00 ± 0.96 J" in wasted
    assert "2.00 ×" in wasted
    (threshold,) = [line for line in text.splitlines() if line.startswith("threshold")]
    assert "80 % at step 1" in threshold
    assert "device to AP" in text
    assert "0.90 ± 0.00 km" in text


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
