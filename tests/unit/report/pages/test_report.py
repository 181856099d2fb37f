"""The page: self-contained, for any kind of run, and no name of a device can do anything in it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import plotly.graph_objects as go
import pytest
from jinja2 import UndefinedError

from page_data import page_data
from roambench.contract.errors import RunError
from roambench.contract.events import EventKind
from roambench.report.comparison import compare_runs
from roambench.report.figures.figure import drawn, safe
from roambench.report.figures.power_data import MOST_POINTS, thin
from roambench.report.pages.page import MOST_ROWS
from roambench.report.report import report
from roambench.report.templates.rendering import packed, rendered
from roambench.rounds.records import FleetEvent, OrderAnswered, OrderGiven
from roambench.runs.info import RunState
from small_runs import a_run

HOSTILE = "</script><img src=x onerror=alert(1)>"


class Page(HTMLParser):
    """Elements with their attributes, visible text, and the data block."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.data = page_data(text)
        self.words = ""
        self._inside = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside not in ("script", "style"):
            self.words += data + "\n"

    def figures(self) -> dict[str, dict]:
        return {figure["key"]: figure for figure in self.data["figures"]}


def page_of(*paths) -> Page:
    return Page(report(paths).html())


def test_two_runs_make_one_file_with_every_part(hand_made, tmp_path):
    out = tmp_path / "deep" / "report.html"
    report([hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=())], html=out)
    page = Page(out.read_text())
    assert set(page.figures()) == {
        "accuracy", "accuracy-per-joule", "aggregated", "energy", "spent", "availability", "map",
        "ratios", "compare-0", "compare-1", "budget",
        "per-mb-0-down", "per-mb-0-up", "per-mb-1-down",
    }  # fmt: skip
    places = {attributes.get("id") for _, attributes in page.elements}
    for key in (*page.figures(), "power"):
        assert f"plot-{key}" in places
    assert "2.00 ×" in page.words
    assert "Communication energy: measured against modelled" in page.words
    power = page.data["power"]
    assert [run["label"] for run in power["runs"]] == ["demo-mohawk", "demo-hierfavg"]
    board = power["runs"][0]["devices"][0]
    assert board["w"] == [2000] * 107
    assert board["phases"]["train"] == [14.0, 34.0]
    assert out.stat().st_size < 2_000_000


@pytest.mark.parametrize(("dataset", "printed"), [("mnist", True), ("digits", False)])
def test_the_ratios_of_the_paper_stand_beside_runs_on_its_data_sets_alone(hand_made, dataset, printed):
    config = {"rounds": {"cloud_every_steps": 1}, "learning": {"dataset": dataset}}
    runs = hand_made(config=config), hand_made("other", system="hierfavg", config=config)
    assert ("Ratios beside MOHAWK" in page_of(*runs).words) == printed


def test_the_page_loads_nothing_from_anywhere(hand_made):
    text = report([hand_made()]).html()
    page = Page(text)
    for tag, attributes in page.elements:
        for name in ("src", "href", "data", "poster", "action", "srcset"):
            assert not (attributes.get(name) or "").startswith(("http:", "https:", "//")), (tag, attributes)
    assert not re.search(r"@import|url\(|https?://", text)
    (policy,) = [a["content"] for _, a in page.elements if "http-equiv" in a]
    assert policy.startswith("default-src 'none'")


def test_a_hostile_device_name_is_text_everywhere(hand_made):
    lost = [
        OrderGiven(1, 0, "x", "train", 0),
        OrderAnswered(1, 0, "x", "failed", HOSTILE),
        FleetEvent(1, -1, HOSTILE, HOSTILE, HOSTILE),
    ]
    path = hand_made("demo", names=(HOSTILE, "pi-02"), extra=lost, reason=HOSTILE)
    page = page_of(path)
    for shown in (page, Page(compare_runs([path]).html())):
        assert not [tag for tag, _ in shown.elements if tag == "img"]
        assert HOSTILE in shown.words
    assert page.data["power"]["runs"][0]["devices"][0]["name"] == HOSTILE
    figures = page.figures()  # the data block is still one piece of JSON
    labels = json.dumps([trace.get("name", "") for figure in figures.values() for trace in figure["data"]])
    assert "<img" not in labels
    strip = next(trace for trace in figures["availability"]["data"] if trace["type"] == "heatmap")
    assert "<" not in "".join(strip["y"])
    assert "<" not in "".join(text for row in strip["customdata"] for text in row)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": RunState.INTERRUPTED},
        {"state": None},
        {"readings": False},
        {"readings": False, "phases": False},
        {"aggregated": (0, 1)},
        {"phases": False},
        {"accuracies": (None, None)},
        {"stall_s": (20.0, 50.0)},
        {"names": ()},
        {"extra": [FleetEvent(1, 1, "pi-02", EventKind.SESSION_LOST, "ended without goodbye")]},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_every_kind_of_run_renders(hand_made, changes):
    if changes.get("names") == ():
        changes = {**changes, "aggregated": ()}
    page = page_of(hand_made(**changes))
    assert "demo-mohawk" in page.words
    assert page.data["figures"] or not page.data["power"]


def test_a_run_that_died_before_its_first_step_renders(hand_made, tmp_path):

    a_run(tmp_path / "early", "local").close()
    page = page_of(tmp_path / "early")
    assert "no meter readings" in page.words


def test_a_table_of_thousands_of_rows_is_cut_and_says_so(hand_made):
    lost = [FleetEvent(1, 1, "pi-02", EventKind.SESSION_LOST, f"number {n}.") for n in range(MOST_ROWS + 5)]
    made = report([hand_made(extra=lost)])
    page = Page(made.html())
    assert f"number {MOST_ROWS - 1}." in page.words
    assert f"number {MOST_ROWS}." not in page.words
    assert "5 more rows are in the JSON report." in page.words
    assert f"number {MOST_ROWS + 4}." in made.json()


def test_six_runs_fit_on_one_page(hand_made):
    paths = [hand_made(f"run-{number}", system=f"system-{number}") for number in range(6)]
    page = page_of(*paths)
    bars = [trace for trace in page.figures()["aggregated"]["data"] if trace["type"] == "bar"]
    assert len({trace["marker"]["color"] for trace in bars}) == 6


def test_thinning_keeps_the_shortest_peak_and_every_gap():
    at = np.arange(100_000, dtype=np.float64)
    watts = np.full(100_000, 2.0)
    watts[54_321] = 5.0
    watts[12_345] = 0.5
    watts[70_000] = np.nan
    kept_at, kept = thin(at, watts, MOST_POINTS)
    assert len(kept) <= MOST_POINTS + 1
    assert (np.nanmax(kept), np.nanmin(kept)) == (5.0, 0.5)
    assert np.isnan(kept[kept_at == 70_000.0]).all()
    assert (np.diff(kept_at) > 0).all()
    few_at, few = thin(at[:10], watts[:10], MOST_POINTS)
    assert len(few) == len(few_at) == 10


def test_a_page_that_cannot_be_written_says_where(hand_made, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match=r"file/report\.html: cannot be written"):
        report([hand_made()], html=tmp_path / "file" / "report.html")


def test_a_template_escapes_what_it_is_given_and_misses_what_it_is_not():
    values = {"title": HOSTILE, "heading": HOSTILE, "lead": HOSTILE, "facts": [HOSTILE], "footer": HOSTILE}
    values["kind"] = ""
    blocks = [("flags", [(HOSTILE, HOSTILE)]), ("verdicts", [HOSTILE])]
    sections = [(HOSTILE, "key", blocks)]
    shown = {"sections": sections, "data": packed([HOSTILE]), "most_rows": 1, "open_rows": 1}
    page = Page(rendered("page.html", **values, **shown))
    assert not [tag for tag, _ in page.elements if tag == "img"]
    assert page.words.count(HOSTILE) == 10  # the section's name twice: in the head, too
    assert page.data == [HOSTILE]
    with pytest.raises(UndefinedError, match="'title' is undefined"):
        rendered("page.html")


def test_a_figure_with_a_property_that_plotly_does_not_know_is_not_drawn():
    with pytest.raises(ValueError, match="'lien'"):
        go.Scatter(lien_color="red")
    with pytest.raises(ValueError, match="rangemood"):
        drawn("k", "t", "c", [], xaxis={"rangemood": "tozero"})


def test_labels_keep_their_quotes_and_lose_their_markup():
    """Of entities Plotly knows neither &quot; nor &apos;: it would draw them as they are."""
    assert safe("""pi "one"'s <b>&""") == """pi "one"'s &lt;b&gt;&amp;"""
