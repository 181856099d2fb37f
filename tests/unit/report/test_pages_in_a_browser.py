"""Every kind of page in a real Chromium: no figure offers to send its data away, and nothing is fetched.

The browser is driven over the DevTools protocol. Where there is none these tests are skipped; with CI=true
set that is a failure.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from browser_tab import Browser, chromium
from roambench.controller.ab.ab_page import ab_page
from roambench.controller.ab.ab_plan import Asked, plan_ab
from roambench.controller.ab.ab_results import ab_table
from roambench.controller.cli import main
from roambench.energy.improvement import Measured
from roambench.energy.links.fit import LinkPoint, fit_link, pooled
from roambench.energy.links.models import ANY, LinkModel, Provenance
from roambench.report.pages.calibration import calibration_page
from roambench.report.summaries.calibration import Calibration, DeviceCalibration

pytestmark = pytest.mark.lengthy

#: What a figure's own buttons are called on the page.
BUTTONS = {"Zoom", "Pan", "Zoom in", "Zoom out", "Reset axes"}
#: What the page says of its own figures; the next one that is not drawn; whether all are.
_NEXT = """
[...document.querySelectorAll(".plot")].find(plot => !plot.dataset.drawn)?.scrollIntoView()
"""
_TITLES = """
JSON.stringify(Object.fromEntries([...document.querySelectorAll(".plot")].map(plot => [
  plot.id, [...plot.querySelectorAll(".modebar-btn")].map(button => button.dataset.title || "?"),
])))
"""
_DRAWN = """
document.readyState === "complete" && !!document.querySelector(".plot")
  && [...document.querySelectorAll(".plot")].every(plot => plot.dataset.drawn)
"""


def show(browser: Browser, page: Path) -> None:
    """Open a page and scroll to each figure until all are drawn: they wait for a reader."""
    browser.requested.clear()
    browser.call("Page.navigate", url=page.as_uri())
    deadline_s = time.monotonic() + 60
    while not browser.value(_DRAWN):
        assert time.monotonic() < deadline_s, f"{page.name} is not drawn: {browser.faults}"
        browser.value(_NEXT)
        time.sleep(0.1)


EXPERIMENT = """
name = "tryout"
systems = ["mohawk"]
trace = { parameters = { devices = 12, steps = 12 }, steps = 6 }
fleet = { agents = 4, aps = 3 }
learning = { model = "mlp", images_per_device = 40 }
"""
PEERS = """
name = "peers"
systems = ["d_psgd"]
fleet = { agents = 4 }
learning = { model = "mlp", images_per_device = 40 }
decentralised = { iterations = 4 }
mobility = { mobile = 2 }
"""


def roambench(*words: object) -> None:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert ended.value.code == 0, words


def ab_page_of(experiment: Path) -> str:
    plan = plan_ab(Asked(experiment, experiment, "rehearsal", 2, changes_b=('systems=["hierfavg"]',)))
    shares = {("A", 1): 0.2, ("B", 1): 0.4, ("A", 2): 0.25, ("B", 2): 0.41}
    ended = {turn: {"wasted_share": Measured(share)} for turn, share in shares.items()}
    return ab_page(plan, ab_table(plan.pairs, ended), ended, {}, ["two boards were warm"])


def calibration_page_of() -> str:
    """Of one board whose radio follows the model to the milliwatt."""
    points = [
        LinkPoint(way, 8.0, rate, rate, alpha * rate + 0.2, 0.001, 5, 50, 60.0)
        for way, alpha in (("up", 0.010), ("down", 0.005))
        for rate in (2.0, 5.0, 10.0, 20.0)
    ]
    fit = fit_link("bench", points, u_gain=0.008)
    mean, between = pooled("bench", [fit])
    about = Provenance("a Pi", "2026-11-21", "smartpower2", "sweep", "run-1", (2.0, 20.0))
    model = LinkModel("bench", {ANY: mean}, about, {"pi-01": fit.known}, between)
    return calibration_page(Calibration(model, (DeviceCalibration("pi-01", fit, 40, 40, None),)))


@pytest.fixture
def pages(hand_made: Callable[..., Path], tmp_path: Path) -> dict[str, Path]:
    """Pages as the commands make them, by the command's name."""
    (tmp_path / "tryout.toml").write_text(EXPERIMENT)
    (tmp_path / "peers.toml").write_text(PEERS)
    local, other = hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=())
    virtual = hand_made("virtual", fleet="simulated", readings=False, phases=False)
    roambench("report", local, other, "--html", tmp_path / "report.html")
    roambench("report", virtual, "--html", tmp_path / "report of virtual devices.html")
    roambench("compare", local, "--html", tmp_path / "compare.html")
    rehearsed = ("--fleet", "rehearsal", "--runs-dir", tmp_path / "runs")
    roambench("run", tmp_path / "peers.toml", *rehearsed, "--html", tmp_path / "run.html")
    roambench("data", "show", tmp_path / "tryout.toml", "--html", tmp_path / "data show.html")
    city = ("--seed", 3, "--set", "devices=20", "--set", "steps=24")
    roambench("trace", "generate", "city", "-o", tmp_path / "city.parquet", *city)
    roambench("trace", "plot", tmp_path / "city.parquet", "-o", tmp_path)
    (tmp_path / "calibrate.html").write_text(calibration_page_of(), encoding="utf-8")
    (tmp_path / "ab.html").write_text(ab_page_of(tmp_path / "tryout.toml"), encoding="utf-8")
    return {page.stem: page for page in tmp_path.glob("*.html")}


@pytest.mark.timeout(180)
def test_no_figure_of_any_page_offers_to_upload_it_and_no_page_fetches_anything(
    pages: dict[str, Path], tmp_path: Path
) -> None:
    assert len(pages) == 8
    with chromium(tmp_path / "profile") as browser:
        for name, page in pages.items():
            show(browser, page)
            for figure, buttons in json.loads(browser.value(_TITLES)).items():
                assert set(buttons) == BUTTONS, f"{name}: {figure}"
            elsewhere = [url for url in browser.requested if not url.startswith(("data:", "blob:"))]
            assert elsewhere == [page.as_uri()], name
            assert browser.faults == [], name
