"""Modelled energy in the report: a heading and keys of its own, hand-computed, never taken for measured."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from roambench.contract.link_power import LinkPower
from roambench.energy.links.models import KnownLink, LinkModel, Provenance
from roambench.report.console import print_report
from roambench.report.report import Report, report
from roambench.report.tables.energy import table10_rows
from roambench.report.tables.modelled import KEYS, modelled_tables
from roambench.report.tables.report import comparison_tables
from roambench.runs.modelled.accounts import save_link_model_json

Maker = Callable[..., Path]
VIRTUAL = {"fleet": "simulated", "readings": False, "phases": False}
# Two downloads of 20 Mbit at 20 Mbit/s, two trainings of 20 s at 0.8 W, one upload of 20 Mbit at 10 Mbit/s,
# all of it above 1.9 W. The second device's training is wasted.
DOWN_J, UP_J, TRAIN_J = 2.32744, 11.34388, 16.0


def shown(made: Report) -> str:
    out = io.StringIO()
    print_report(made.summaries, Console(file=out, width=200))
    return out.getvalue()


def test_table_10_of_a_run_on_virtual_devices_is_modelled(hand_made: Maker) -> None:
    made = report([hand_made(**VIRTUAL)])
    (run,) = json.loads(made.json())["runs"]
    modelled = run["energy_modelled"]
    gross, net = modelled["table10"]["gross"], modelled["table10"]["net"]
    assert net["cumulative_consumed"]["modelled_j"] == pytest.approx(2 * DOWN_J + UP_J + 2 * TRAIN_J)
    assert net["cumulative_wasted"]["modelled_j"] == pytest.approx(DOWN_J + TRAIN_J)
    assert gross["cumulative_consumed"]["modelled_j"] == pytest.approx(47.99876 + 44 * 1.9)
    assert gross["cumulative_wasted"]["modelled_j"] == pytest.approx(18.32744 + 21 * 1.9)
    assert modelled["phases"]["train"]["net"]["modelled_j"] == pytest.approx(32.0)
    assert modelled["phases"]["upload"]["idle_j"] == pytest.approx(3.8)
    (step,) = modelled["steps"]
    assert (step["step"], step["wasted_modelled_j"]) == (0, pytest.approx(58.22744))
    until = modelled["to_threshold"]  # 85 % after the cloud aggregation of step 1
    assert (until["reached"], until["rounds"]) == (True, 2)
    assert until["communication_j_per_client"] == pytest.approx(DOWN_J + UP_J)


def test_modelled_joules_never_stand_where_measured_ones_do(hand_made: Maker) -> None:
    (run,) = json.loads(report([hand_made(**VIRTUAL)]).json())["runs"]
    assert run["energy"] is None
    assert (run["consumed_j"], run["wasted_j"], run["consumed_net_j"]) == (None, None, None)
    assert any("every joule is modelled, none measured" in flag for flag in run["flags"])


def test_measured_runs_get_no_modelled_account(hand_made: Maker) -> None:
    made = report([hand_made()])
    assert json.loads(made.json())["runs"][0]["energy_modelled"] is None
    assert modelled_tables(made.summaries) == []
    assert "Modelled energy" not in made.html()


def test_tables_have_a_heading_that_says_modelled_and_only_runs_that_are(hand_made: Maker) -> None:
    made = report([hand_made("measured"), hand_made("virtual", **VIRTUAL)])
    tables = modelled_tables(made.summaries)
    assert tuple(table.key for table in tables) == KEYS
    for table in tables:
        assert table.title.startswith("Modelled ")
        assert table.caption.startswith("Modelled, not measured.")
        assert "measured" not in table.head
        assert not any("measured" in cell for row in table.rows for cell in row)
    text = shown(made)
    assert "Energy wasted and used for learning, gross" in text  # the measured run's own table
    assert "Modelled energy wasted and used for learning, gross" in text
    # One run's transfers are not told twice.
    assert "modelled" not in {table.key for table in comparison_tables(made.summaries)}


def test_measured_and_modelled_runs_in_one_table_are_refused(hand_made: Maker) -> None:
    measured, virtual = report([hand_made("measured"), hand_made("virtual", **VIRTUAL)]).summaries
    assert measured.measured is not None
    assert virtual.modelled is not None
    with pytest.raises(ValueError, match="measured and modelled joules"):
        table10_rows([("a", measured.measured.gross), ("b", virtual.modelled.gross)], "a")


def test_no_plus_minus_is_printed_where_the_model_tells_none(hand_made: Maker) -> None:
    made = report([hand_made(**VIRTUAL)])
    gross = modelled_tables(made.summaries)[1]
    cells = {row[0]: row[1] for row in gross.rows}
    assert cells["cumulative, used for learning"] == "132 J"
    assert cells["cumulative, wasted"] == "58.2 J"
    assert cells["wasted share"] == "44.2 %"
    assert (
        cells["per device, used for learning"] == "65.8 J (sd 10.7)"
    )  # a spread over devices, no uncertainty


def test_a_fitted_link_models_uncertainty_is_printed(hand_made: Maker) -> None:
    run = hand_made(**VIRTUAL)
    known = KnownLink(LinkPower("own", 100.0, 50.0, 1000.0), u_gain=0.05)
    save_link_model_json(run, LinkModel("own", {"any": known}, Provenance("bench")))
    net = modelled_tables(report([run]).summaries)[2]
    cells = {row[0]: row[1] for row in net.rows}
    # 2 x 2 J down, 4 J up, 32 J of training; 5 % of the 8 J of transfers, twice.
    assert cells["cumulative, used for learning"] == "40.00 ± 0.80 J"


def test_ratios_are_to_mohawk(hand_made: Maker) -> None:
    twice = hand_made("hier", system="hierfavg", aggregated=(0, 1), **VIRTUAL)
    made = report([twice, hand_made("mo", **VIRTUAL)])
    threshold = modelled_tables(made.summaries)[0]
    ratio = threshold.head.index("ratio")
    assert [row[ratio] for row in threshold.rows] == ["1.00 ×", "1.00 ×"]  # means over participants
    net = modelled_tables(made.summaries)[2]
    consumed = next(row for row in net.rows if row[0] == "cumulative, used for learning")
    assert net.head == ("", "hier", "ratio to mo", "mo")
    assert consumed[2] == "1.24 ×"  # 59.34264 / 47.99876


def test_a_threshold_that_was_not_reached_is_told(hand_made: Maker) -> None:
    made = report([hand_made(accuracies=(0.1, 0.5), **VIRTUAL)])
    (row,) = modelled_tables(made.summaries)[0].rows
    assert row[2] == "not in 2"


def test_the_page_shows_modelled_joules_in_the_card_by_name(hand_made: Maker) -> None:
    page = report([hand_made(**VIRTUAL)]).html()
    assert 'id="modelled-energy"' in page
    assert "wasted (modelled)" in page
    assert "used for learning (modelled)" in page
    assert ">used for learning<" not in page.split("<script")[0]
