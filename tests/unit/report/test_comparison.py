"""`roambench compare`: what it says, what it refuses to say, and how it ends."""

from __future__ import annotations

import io
import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from roambench.cli.main import app, main
from roambench.contract.link_power import LinkPower
from roambench.energy.comparison.transfer import ModelBasis
from roambench.energy.energy_value import Energy
from roambench.energy.links.models import ANY, MOHAWK, KnownLink, LinkModel, Provenance
from roambench.report.comparison import compare_runs, print_comparison
from roambench.report.figures.communication import scatter_figures
from roambench.report.figures.per_megabyte import per_megabyte_charts
from roambench.report.figures.plotly_charts import page_figure
from roambench.report.tables.communication import communication_tables, transfer_table
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
    result = CliRunner().invoke(app, ["compare", str(path), "-o", str(out)])
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
    code, words = refused(capsys, str(hand_made()), "-o", str(tmp_path / "file" / "c.html"))
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


def figure_of(runs, key):
    (chart,) = [chart for chart in per_megabyte_charts(runs) if chart.key == key]
    return page_figure(chart)


def test_joules_for_a_megabyte_stand_in_table_figure_and_document_with_the_models(hand_made):
    """An upload of 2.5 MB in 4 s: 0.625 MB/s, at which Eq. 1 says 4 s * (438.39 * 5 + 1288.04) mW."""
    made = compare_runs([hand_made()])
    (run,) = json.loads(made.json())["runs"]
    up = run["classes"][1]
    said = 4.0 * (438.39 * 5 + 1288.04) * 1e-3 / 2.5
    assert up["achieved_mb_s"] == pytest.approx(0.625)
    assert up["models"]["actual"]["modelled_j_per_mb"] == pytest.approx(said)
    assert up["measured_j_per_mb"] == pytest.approx(up["net"]["joules"] / 2.5, abs=1e-9)
    low, high = up["models"]["actual"]["ratio_interval"]
    assert low < up["models"]["actual"]["ratio"] < high < 1.0
    table = next(table for table in communication_tables(made.comparable) if table.key == "communication")
    row = next(row for row in table.rows if row[0] == "lte up: Eq. 1, real rate")
    assert row[1:4] == ("1", "2.50", "0.625")
    assert row[5].startswith(f"{said:.2f} ± ")
    assert row[7] == "overstates"
    figure = figure_of(made.comparable, "per-mb-0-up")
    points = next(trace for trace in figure.data if trace["mode"] == "markers")
    assert list(points["x"]) == pytest.approx([0.625])
    assert list(points["error_y"]["array"]) == pytest.approx([2.0 * up["u_measured_j_per_mb"]])
    line = next(trace for trace in figure.data if trace["mode"] == "lines" and "name" in trace)
    assert np.interp(0.625, line["x"], line["y"]) == pytest.approx(said, rel=1e-3)
    assert figure.layout["xaxis"]["title"]["text"] == "mean rate, MB/s"
    assert figure.layout["yaxis"]["title"]["text"] == "net energy, J/MB"


def test_boards_with_parameters_of_their_own_have_modelled_marks_instead_of_a_line(hand_made):
    known = KnownLink(LinkPower("bench", 10.0, 5.0, 200.0), u_gain=0.01)
    bench = LinkModel("bench", {ANY: known}, Provenance("test"), {"pi-01": known})
    upload = figure_of(compare_runs([hand_made()], bench).comparable, "per-mb-0-up")
    modelled, measured = upload.data
    assert (modelled["name"], measured["name"]) == (
        "lte: bench, real rate",
        "lte: measured, a board, ± 2 u",
    )
    assert list(modelled["y"]) == pytest.approx([8e-3 * (10.0 + 200.0 / 5.0)])
    assert "Strokes: what bench, real rate says" in upload.caption


def test_a_single_transfer_is_judged_like_a_sum(hand_made):
    """One upload is all the run's uploads."""
    made = compare_runs([hand_made()])
    (run,) = json.loads(made.json())["runs"]
    single = next(item for item in run["transfers"] if item["direction"] == "up")
    for key, value in run["upload"]["models"]["actual"].items():
        assert single["models"]["actual"][key] == pytest.approx(value), key
    table = transfer_table(made.comparable[0])
    assert table.head[-2:] == ("measured ÷ modelled", "verdict")
    assert next(row for row in table.rows if row[1] == "r/1/0/upload")[-1] == "overstates"


def test_a_model_stated_without_an_error_is_called_so(hand_made):
    made = compare_runs([hand_made()], MOHAWK)
    assert all("(mohawk, real rate, stated without an error)" in line for line in made.verdicts())
    table = next(table for table in communication_tables(made.comparable) if table.key == "communication")
    assert "mohawk, real rate: constants stated without an error" in table.caption
    paper = next(table for table in communication_tables(compare_runs([hand_made("b")]).comparable))
    assert "without an error" not in paper.caption


def test_a_page_says_once_whose_a_radios_tail_is(hand_made):
    page = compare_runs([hand_made()]).html()
    assert page.count("(its tail) counts to the transfer") == 1


def test_a_terminal_of_80_columns_shows_every_column(hand_made):
    buffer = io.StringIO()
    screen = Console(file=buffer, width=80, force_terminal=True, color_system=None)
    print_comparison(compare_runs([hand_made()]), screen)
    lines = buffer.getvalue().replace("\N{NO-BREAK SPACE}", " ").splitlines()
    assert max(map(len, lines)) <= 80
    assert any("MB/s" in line and "J/MB" in line for line in lines)
    judged = next(line for line in lines if line.startswith("lte up: Eq. 1, real rate") and "]" in line)
    assert judged.rstrip().endswith("overstates")
