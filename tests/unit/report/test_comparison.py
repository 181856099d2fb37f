"""`roambench compare`: what it says, what it refuses to say, and how it ends."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from roambench.controller.cli import app, main
from roambench.energy.comparison.transfer import ModelBasis
from roambench.energy.energy_value import Energy
from roambench.report.comparison import compare_runs
from roambench.report.figures.communication import scatter_figures
from roambench.runs.info import RunState

HOSTILE = "</script><img src=x onerror=alert(1)>"


def document_of(*paths, **options):
    return json.loads(compare_runs(paths, **options).json())


def test_bytes_seconds_rate_and_joules_of_every_class_by_hand(hand_made):
    """Two downloads and one upload of 2.5 MB, 4 s each at 2 W steadily: 20 Mbit in 4 s are 5 Mbit/s."""
    (run,) = document_of(hand_made())["runs"]
    down, up = run["classes"]
    assert (down["link"], down["direction"], down["transfers"]) == ("lte", "down", 2)
    assert (down["bytes"], down["duration_s"]) == (5_000_000, pytest.approx(8.0))
    assert down["achieved_mbit_s"] == pytest.approx(5.0)
    assert down["gross"]["joules"] == pytest.approx(16.0)
    assert down["idle_j"] == pytest.approx(16.0)
    assert down["net"]["joules"] == pytest.approx(0.0, abs=1e-6)
    # Eq. 1 at 5 Mbit/s for 4 s, and at the 10 Mbit/s that Eq. 2 gave for 2 s.
    assert up["models"]["actual"]["modelled_j"] == pytest.approx(4.0 * (438.39 * 5 + 1288.04) * 1e-3)
    assert up["models"]["placement"]["modelled_j"] == pytest.approx(11.34388)
    assert up["models"]["placement"]["u_modelled_j"] == pytest.approx(0.03 * 11.34388)
    assert [(row["device"], row["direction"]) for row in run["devices"]] == [
        ("pi-01", "down"),
        ("pi-01", "up"),
        ("pi-02", "down"),
    ]
    assert [row["order_id"] for row in run["transfers"]] == ["r/0/0/train", "r/1/0/upload", "r/0/1/train"]
    assert run["transfers"][0]["in_sums"] is True


def test_a_transfer_whose_interval_excludes_1_says_that_the_model_overstates(hand_made):
    """2 W idle and uploading: nothing was drawn above idle, and Eq. 1 says 13.9 J."""
    made = compare_runs([hand_made()])
    said = made.verdicts()[1]
    assert said.startswith("demo-mohawk: lte up (Eq. 1, real rate): measured/modelled = ")
    (run,) = document_of(hand_made("again"))["runs"]
    found = run["upload"]["models"]["actual"]
    assert found["sentence"] == said.partition("): ")[2]
    assert (found["verdict"], said.partition("]: ")[2]) == (
        "overstates",
        "the interval is below 1, so the model overstates the energy",
    )


def test_json_and_only_json_is_printed(hand_made):
    result = CliRunner().invoke(app, ["compare", str(hand_made()), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["schema"] == "roambench.compare/1"


def test_the_page_is_one_file_and_no_name_can_do_anything_in_it(hand_made, tmp_path):
    out = tmp_path / "new" / "compare.html"
    path = hand_made("demo", names=(HOSTILE, "pi-02"))
    result = CliRunner().invoke(app, ["compare", str(path), "--html", str(out)])
    assert result.exit_code == 0, result.output
    text = out.read_text()
    assert "<img" not in text.split("Plotly", 1)[0]
    assert "&lt;/script&gt;&lt;img" in text
    assert 'id="plot-compare-0"' in text
    assert 'id="plot-ratios"' in text


def test_a_named_model_stands_beside_the_papers(hand_made, tmp_path):
    """3G up at 5 Mbit/s: 4 s at 868.98 * 5 + 817.88 mW."""
    result = CliRunner().invoke(app, ["compare", str(hand_made()), "--json", "--link-model", "3g"])
    (run,) = json.loads(result.stdout)["runs"]
    assert run["upload"]["models"]["named"]["modelled_j"] == pytest.approx(4.0 * (868.98 * 5 + 817.88) * 1e-3)
    shown = CliRunner().invoke(app, ["compare", str(tmp_path / "demo-mohawk"), "--link-model", "3g"])
    assert "3g, real rate" in shown.stdout


def refused(capsys, *arguments: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["compare", *arguments])
    return int(ended.value.code or 0), capsys.readouterr().err


def test_an_unknown_model_is_a_mistake_that_lists_the_known_ones(hand_made, capsys):
    code, words = refused(capsys, str(hand_made()), "--link-model", "mohwak")
    assert code == 2
    assert "mohawk" in words


def test_a_run_without_a_meter_says_so_with_what_the_model_knows(hand_made, capsys):
    code, words = refused(capsys, str(hand_made(readings=False)))
    assert code == 1
    assert words == (
        "roambench: demo-mohawk: no meter readings: nothing was measured that a model could be held against "
        "(Eq. 1 and 2 say 4.65 J down, 11.34 J up)\n"
    )


def test_a_rehearsal_says_that_it_moves_no_bytes(hand_made, capsys):
    path = hand_made(readings=False, phases=False)
    info = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(info | {"fleet": "rehearsal"}))
    code, words = refused(capsys, str(path))
    assert code == 1
    assert "demo-mohawk: a rehearsal moves no bytes and has no meters: there is nothing to compare" in words


def test_a_run_without_transfers_says_how_it_ended(hand_made, capsys):
    path = hand_made(phases=False, state=RunState.INTERRUPTED)
    code, words = refused(capsys, str(path))
    assert code == 1
    assert "no transfer was finished (the run is interrupted)" in words


def test_what_is_no_run_folder_is_named(tmp_path, capsys):
    code, words = refused(capsys, str(tmp_path / "nothing"))
    assert code == 1
    assert "no such folder" in words


def test_an_interrupted_run_is_compared_up_to_where_it_got(hand_made):
    result = CliRunner().invoke(app, ["compare", str(hand_made(state=RunState.INTERRUPTED))])
    assert result.exit_code == 0
    assert "demo-mohawk: the run is interrupted: Ctrl-C" in result.stdout
    assert "lte up" in result.stdout


def test_one_run_without_a_meter_does_not_hide_the_others(hand_made):
    made = compare_runs([hand_made(), hand_made("dark", readings=False)])
    assert [run.label for run in made.comparable] == ["demo-mohawk"]
    assert made.missing[0].startswith("dark: no meter readings")
    assert "dark: no meter readings" in made.html()


def test_transfers_that_the_meter_missed_are_counted_not_compared(hand_made):
    """No readings from 8 s to 16 s: both downloads (10 to 14 s) are gone."""
    (run,) = document_of(hand_made(stall_s=(8.0, 8.0)))["runs"]
    down = run["download"]
    assert (down["transfers"], down["left_out"]) == (0, 2)
    assert down["models"]["actual"]["sentence"] == "nothing to compare: 2 transfers not seen in full"
    assert down["ratio"] is None


def test_a_page_that_cannot_be_written_says_where(hand_made, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    code, words = refused(capsys, str(hand_made()), "--html", str(tmp_path / "file" / "c.html"))
    assert code == 1
    assert "file/c.html: cannot be written" in words


def test_an_event_log_that_is_none_is_refused_in_one_sentence(hand_made, capsys):
    path = hand_made()
    (path / "events.sqlite").write_bytes(b"no database at all" * 100)
    code, words = refused(capsys, str(path))
    assert code == 1
    assert "events.sqlite" in words
    assert len(words.splitlines()) == 1


@pytest.mark.parametrize(
    ("modelled_j", "measured_j", "scale"),
    [
        ((3.0, 4.0, 5.0), (2.9, 0.001, 5.2), "linear"),  # a value next to nothing is noise of the meter
        ((0.1, 1.0, 2.5), (0.1, 0.9, 2.4), "log"),
        ((0.1, 1.0, 2.5), (-0.2, 0.9, 2.4), "log"),
    ],
)
def test_the_scatter_is_logarithmic_by_what_is_modelled_and_says_so(hand_made, modelled_j, measured_j, scale):
    (run,) = compare_runs([hand_made()]).summaries
    transfers = tuple(
        replace(item, net=Energy(net_j, 0.1, 4.0), modelled={ModelBasis.ACTUAL: Energy(joules)})
        for item, joules, net_j in zip(run.comparison.transfers, modelled_j, measured_j, strict=True)
    )
    energy = replace(run.energy, comparison=replace(run.comparison, transfers=transfers))
    (figure,) = scatter_figures([replace(run, energy=energy)])
    for axis in ("xaxis", "yaxis"):
        assert figure.layout[axis]["type"] == scale
        assert figure.layout[axis]["title"]["text"].endswith(", log") == (scale == "log")
    assert ("Both axes are logarithmic" in figure.caption) == (scale == "log")
    low, high = figure.layout["xaxis"]["range"]
    ends = (10**low, 10**high) if scale == "log" else (low, high)
    assert ends[0] <= min(modelled_j)
    assert ends[1] > max(modelled_j + measured_j)
