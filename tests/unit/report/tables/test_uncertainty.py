"""Where the uncertainty comes from, and how steady the idle power was."""

from __future__ import annotations

import json
import math

import pytest

from page_data import page_data
from roambench.report.report import report
from roambench.report.tables.report import comparison_tables
from roambench.report.tables.uncertainty import baseline_table, budget_table

OFFSET = {"energy": {"gain": 1.0, "u_gain": 0.01, "u_offset_w": 0.02}}


def shown(path):
    made = report([path])
    (run,) = made.summaries
    return made, run


def test_the_budget_of_a_whole_run_by_hand(hand_made):
    """Two boards at 2 W for 100 s: 1 % of 200 J and 20 mW * 100 s each, two meters in quadrature."""
    made, run = shown(hand_made(config=OFFSET))
    table = budget_table(run)
    assert table is not None
    rows = {row[0]: dict(zip(table.head, row, strict=True)) for row in table.rows}
    whole = rows["boards in all, gross"]
    assert float(whole["gain"]) == pytest.approx(2 * 2.0 * math.sqrt(2.0), rel=1e-2)
    assert float(whole["offset"]) == pytest.approx(2 * 2.0 * math.sqrt(2.0), rel=1e-2)
    # An offset is in idle and in work alike: it cancels in net.
    assert float(rows["train, gross"]["offset"]) == pytest.approx(2 * 0.02 * 20 * math.sqrt(2.0), rel=1e-2)
    assert rows["train, net"]["offset"] == "0"
    parts = json.loads(made.json())["runs"][0]["energy"]["whole_run"]
    assert math.hypot(*parts["budget_j"].values()) == pytest.approx(parts["u_joules"])
    assert parts["budget_j"]["gain"] == pytest.approx(2.0 * math.sqrt(2.0))


def test_the_bar_shows_shares_of_the_variance_that_add_up(hand_made):
    made, _ = shown(hand_made(config=OFFSET))
    figures = page_data(made.html())["figures"]
    (bar,) = [figure for figure in figures if figure["key"] == "budget"]
    whole = {trace["name"]: trace["x"][trace["y"].index("boards in all, gross")] for trace in bar["data"]}
    assert sum(whole.values()) == pytest.approx(100.0, abs=0.1)
    # Equal uncertainties have equal shares: 2 J of gain, 2 J of offset per board.
    assert whole["gain"] == pytest.approx(whole["offset"], rel=1e-3)


def test_gross_is_idle_plus_net_wherever_they_stand(hand_made):
    made, run = shown(hand_made())
    assert run.measured is not None
    for item in run.measured.phases:
        assert item.idle_j + item.net.joules == pytest.approx(item.gross.joules)
    energy = json.loads(made.json())["runs"][0]["energy"]
    train = energy["phases"]["train"]
    assert train["idle_j"] == pytest.approx(80.0)  # two boards, 20 s, 2 W, all of it idle
    assert energy["whole_run_net"]["joules"] == pytest.approx(0.0, abs=1e-6)


def test_a_steady_idle_power_is_steady(hand_made):
    _, run = shown(hand_made(lead_s=30))
    table = baseline_table(run)
    assert table is not None
    assert {row[-1] for row in table.rows} == {"steady"}
    assert table.rows[0][1].startswith("2.0000 ±")
    assert not any("idle power" in flag for flag in run.flags)


def test_an_idle_power_that_rose_by_5_percent_is_flagged_for_each_board(hand_made):
    made, run = shown(hand_made(watts_after=2.1, lead_s=30))
    table = baseline_table(run)
    assert table is not None
    assert table.rows[0][3:] == ("+100.0 mW", "+5.00 %", "drifted: followed in between")
    assert any("more than 3 u or 2 % on pi-01, pi-02;" in flag for flag in run.flags)
    (board, _) = json.loads(made.json())["runs"][0]["energy"]["boards"]
    assert board["baselines"]["drifted"] is True
    assert board["baselines"]["after"]["watts"] == pytest.approx(2.1)


def test_a_run_without_baselines_says_what_its_net_energies_rest_on(hand_made):
    """No readings before 12 s: there is no idling left before the work."""
    _, run = shown(hand_made(stall_s=(-3.0, 15.0)))
    assert any("no idle baseline both before and after" in flag for flag in run.flags)
    assert not any("baselines too short" in flag for flag in run.flags)


def test_baselines_that_are_there_but_too_short_are_called_so(hand_made):
    """10 s of idling before the work: the readings of 2 .. 9 s lie well inside it, and 10 are needed."""
    _, run = shown(hand_made())
    (flag,) = [flag for flag in run.flags if "idle baseline" in flag]
    assert "idle baselines too short: fewer than 10 readings before, or after" in flag


def test_a_dark_run_has_no_budget(hand_made):
    made, run = shown(hand_made(readings=False))
    assert budget_table(run) is None
    assert baseline_table(run) is None
    assert "where the uncertainty comes from" not in made.html()


def test_tables_of_transfers_say_where_a_tail_is_booked(hand_made):
    captions = {table.key: table.caption for table in comparison_tables(report([hand_made()]).summaries)}
    for key in ("phases", "transfers"):
        assert "its tail) counts to the transfer" in captions[key]
