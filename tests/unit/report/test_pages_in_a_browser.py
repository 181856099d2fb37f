"""Every kind of page in a real Chromium: no figure offers to send its data away, nothing is fetched, text is
legible by day and by night, a phone shows all of it, keys reach all of it, tables and figures can be copied.

The browser is driven over the DevTools protocol. Where there is none these tests are skipped; with CI=true
set that is a failure.
"""

from __future__ import annotations

import base64
import csv
import io
import json
import re
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

from browser_tab import Browser, chromium
from roambench.cli.main import main
from roambench.energy.links.fit import LinkPoint, fit_link, pooled
from roambench.energy.links.models import ANY, LinkModel, Provenance
from roambench.report.figures.look import DARK, LIGHT
from roambench.report.pages.calibration import calibration_page
from roambench.report.summaries.calibration import Calibration, DeviceCalibration
from roambench.study.ab.ab_page import ab_page
from roambench.study.ab.ab_plan import Asked, plan_ab
from roambench.study.ab.ab_results import ab_table
from roambench.study.sweep.sweep_folder import PointEnd
from samples import sampled
from small_runs import swept

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
    ended = {turn: PointEnd("", {"wasted_share": share}) for turn, share in shares.items()}
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
    roambench("report", local, other, "-o", tmp_path / "report.html")
    roambench("report", virtual, "-o", tmp_path / "report of virtual devices.html")
    roambench("compare", local, "-o", tmp_path / "compare.html")
    swept(tmp_path / "sweep")
    roambench("report", tmp_path / "sweep", "-o", tmp_path / "settings.html")
    rehearsed = ("--fleet", "rehearsal", "--runs-dir", tmp_path / "runs")
    roambench("run", tmp_path / "peers.toml", *rehearsed, "-o", tmp_path / "run.html")
    roambench("data", "show", tmp_path / "tryout.toml", "-o", tmp_path / "data show.html")
    city = ("--seed", 3, "--set", "devices=20", "--set", "steps=24")
    roambench("trace", "generate", "city", "-o", tmp_path / "city.parquet", *city)
    roambench("trace", "plot", tmp_path / "city.parquet", "-o", tmp_path)
    (tmp_path / "calibrate.html").write_text(calibration_page_of(), encoding="utf-8")
    (tmp_path / "ab.html").write_text(ab_page_of(tmp_path / "tryout.toml"), encoding="utf-8")
    return {page.stem: page for page in tmp_path.glob("*.html")}


#: Text whose contrast to what lies behind it is below WCAG 2.2's level AA, as [ratio, text].
_FAINT = r"""
(() => {
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const light = (colour) => {
    const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = colour.map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const found = rgba(getComputedStyle(at).backgroundColor);
      if (found[3] === 255) return found;
    }
    return [255, 255, 255];
  };
  const faint = [];
  const judge = (element, colour, behind = ground(element)) => {
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const [a, b] = [light(rgba(colour(style))), light(behind)];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) faint.push([ratio.toFixed(2), element.textContent.trim().slice(0, 40)]);
  };
  for (const element of document.querySelectorAll("body *:not(script):not(style)")) {
    if (element.closest("svg") || !element.checkVisibility()) continue;
    if ([...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
      judge(element, (style) => style.color);
  }
  const words = ".plot :is(.xtick, .ytick, .g-xtitle, .g-ytitle) text, .plot .legendtext";
  for (const element of document.querySelectorAll(words))
    judge(element, (style) => style.fill);
  for (const button of document.querySelectorAll(".updatemenu-button"))
    judge(button.querySelector("text"), (style) => style.fill,
      rgba(getComputedStyle(button.querySelector("rect")).fill));
  return JSON.stringify(faint);
})()
"""
#: What lacks the words that a screen reader says.
_WORDLESS = """
JSON.stringify([
  ...[...document.querySelectorAll("table")].filter(table => !table.caption?.textContent.trim()
    || [...table.tHead.querySelectorAll("th")].some(cell => cell.scope !== "col")
    || [...table.tBodies[0].rows].some(row => row.cells[0].scope !== "row")).map(table => table.id),
  ...[...document.querySelectorAll(".plot")].filter(plot => plot.getAttribute("role") !== "img"
    || !plot.getAttribute("aria-label").trim()).map(plot => plot.id),
  ...[...document.querySelectorAll("button, select, a")].filter(one =>
    !(one.textContent.trim() || one.getAttribute("aria-label"))).map(one => one.outerHTML.slice(0, 80)),
])
"""
#: Figures whose tools lie over their legend or their buttons.
_COVERED = """
JSON.stringify([...document.querySelectorAll(".plot")].filter(plot => {
  const tools = plot.querySelector(".modebar").getBoundingClientRect();
  return [...plot.querySelectorAll(".legend, .updatemenu-button, .colorbar")].some(one => {
    const box = one.getBoundingClientRect();
    const beside = box.right <= tools.left || tools.right <= box.left;
    return !beside && box.top < tools.bottom && tools.top < box.bottom;
  });
}).map(plot => plot.id))
"""
#: Words of figures that their figure cuts.
_CUT = """
JSON.stringify([...document.querySelectorAll(".plot")].flatMap(plot => {
  const whole = plot.querySelector(".main-svg").getBoundingClientRect();
  return [...plot.querySelectorAll(".main-svg text")].filter(text => {
    const box = text.getBoundingClientRect();
    return box.width && (box.right > whole.right + 1 || box.left < whole.left - 1);
  }).map(text => plot.id + ": " + text.textContent);
}))
"""
_FITS = """
document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll(".plot")].every(plot =>
  plot.querySelector(".main-svg").getBoundingClientRect().width <= plot.clientWidth + 1)
"""
#: Marks what a reader can act on; how many of these the keys have not come to yet.
_MARK = """
for (const one of document.querySelectorAll(".plot, button, select, summary, nav a, .skip, .scroll"))
  if (one.checkVisibility()) one.dataset.wanted = "yes";
addEventListener("focusin", ({ target }) => { delete target.dataset.wanted; });
document.querySelectorAll("[data-wanted]").length
"""
_UNREACHED = (
    'JSON.stringify([...document.querySelectorAll("[data-wanted]")].map(one => one.outerHTML.slice(0, 80)))'
)


def shown_as(browser: Browser, width: int, scheme: str) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.call("Emulation.setDeviceMetricsOverride", **size)
    wanted = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.call("Emulation.setEmulatedMedia", features=wanted)


def until(browser: Browser, expression: str, what: str) -> None:
    deadline_s = time.monotonic() + 60
    while not browser.value(expression):
        assert time.monotonic() < deadline_s, what
        time.sleep(0.05)


def reached_by_keys(browser: Browser) -> None:
    """Press Tab as often as there are things to act on, and twice for what only scrolls."""
    tab = {"type": "keyDown", "key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
    for press in range(2 * int(browser.value(_MARK)) + 10):
        browser.call("Input.dispatchKeyEvent", **tab)
        if press % 10 == 9 and not browser.value('!!document.querySelector("[data-wanted]")'):
            return


#: The pages of all commands; of them one with every kind of table and figure, and one with neither.
ALL_PAGES = [
    *("ab", "calibrate", "compare", "data show"),
    *("report", "report of virtual devices", "run", "settings", "trace"),
]
FEW_PAGES = ["report", "settings"]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", sampled([FEW_PAGES], [FEW_PAGES, ALL_PAGES]), ids=len)
def test_no_figure_of_any_page_offers_to_upload_it_and_everybody_can_read_all_of_it(
    pages: dict[str, Path], names: Sequence[str], tmp_path: Path
) -> None:
    assert sorted(pages) == ALL_PAGES
    with chromium(tmp_path / "profile") as browser:
        for name in names:
            page = pages[name]
            assert page.stat().st_size < 2_000_000, name
            shown_as(browser, 1400, "light")
            show(browser, page)
            for figure, buttons in json.loads(browser.value(_TITLES)).items():
                assert set(buttons) == BUTTONS, f"{name}: {figure}"
            assert json.loads(browser.value(_WORDLESS)) == [], name
            assert json.loads(browser.value(_COVERED)) == [], name
            for scheme in ("light", "dark"):
                shown_as(browser, 1400, scheme)
                until(browser, _painted(scheme), f"{name}: {scheme}")
                assert json.loads(browser.value(_FAINT)) == [], f"{name}: {scheme}"
            reached_by_keys(browser)
            assert json.loads(browser.value(_UNREACHED)) == [], name
            shown_as(browser, 360, "dark")
            until(browser, _FITS, f"{name} is wider than a phone")
            with suppress(AssertionError):
                until(browser, f"({_CUT.strip()}) === '[]'", name)
            assert json.loads(browser.value(_CUT)) == [], f"{name} cuts words of figures on a phone"
            elsewhere = [url for url in browser.requested if not url.startswith(("data:", "blob:"))]
            assert elsewhere == [page.as_uri()], name
            assert browser.faults == [], name
        browser.value("""document.querySelector("h1").style.color = "#555" """)
        assert len(json.loads(browser.value(_FAINT))) == 1


def _painted(scheme: str) -> str:
    """Whether the last figure has its text in this scheme's ink."""
    ink = (LIGHT if scheme == "light" else DARK)["--ink"]
    return f"""[...document.querySelectorAll(".plot")].at(-1)._fullLayout.font.color === "{ink}" """


@pytest.mark.timeout(600)
def test_a_table_is_copied_a_figure_saved_and_the_page_printed_whole(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    page = tmp_path / "report.html"
    local, other = hand_made(), hand_made("demo-hierfavg", system="hierfavg", aggregated=())
    roambench("report", local, other, "-o", page)
    with chromium(tmp_path / "profile") as browser:
        browser.call(
            "Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"]
        )
        browser.call("Emulation.setFocusEmulationEnabled", enabled=True)
        show(browser, page)
        rows = list(csv.DictReader(io.StringIO(copied(browser, "csv"))))
        wasted = next(row for row in rows if next(iter(row.values())) == "cumulative, wasted")
        assert (wasted["demo-mohawk value"], wasted["demo-mohawk unit"]) == ("48.00", "J")
        assert float(wasted["demo-mohawk u"]) > 0.0
        assert r"\qty{48.00 \pm 0.96}{\joule}" in copied(browser, "latex")
        browser.call("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path / "saved"))
        browser.value("""document.querySelector('[data-figure="energy"][data-format="svg"]').click()""")
        until_there(tmp_path / "saved/energy.svg")
        drawing = ElementTree.parse(tmp_path / "saved/energy.svg").getroot()
        words = {element.text for element in drawing.iter("{http://www.w3.org/2000/svg}text")}
        assert {"download", "train", "upload", "gross energy, J"} <= words
        note = browser.value("document.querySelector('details.routine:not([open]) li').textContent")
        boxes = printed(browser, tmp_path / "report.pdf")
    sheets = [float(width) for width in re.findall(r'<page width="([\d.]+)"', boxes)]
    right_edges = [float(x) for x in re.findall(r'xMax="([\d.]+)"', boxes)]
    margin_pt = 14.0 / 25.4 * 72.0
    assert max(right_edges) <= min(sheets) - margin_pt + 1.0
    told = " ".join(re.findall(r">([^<>]+)</word>", boxes))
    for title in (
        "Accuracy and loss",
        "Energy used for learning and wasted",
        "Availability, and what became",
        " ".join(note.split()[:6]),
    ):
        assert title in told


def printed(browser: Browser, path: Path) -> str:
    """The words of the page on A4, with their places."""
    sheets = browser.call("Page.printToPDF", preferCSSPageSize=True, printBackground=True)["data"]
    path.write_bytes(base64.b64decode(sheets))
    command = ["pdftotext", "-bbox", path, "-"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_on_paper_panels_stand_below_each_other_and_closed_tables_say_so(tmp_path: Path) -> None:
    roambench("trace", "generate", "city", "-o", tmp_path / "t.parquet", "--set", "devices=20")
    roambench("trace", "plot", tmp_path / "t.parquet", "-o", tmp_path)
    with chromium(tmp_path / "profile") as browser:
        show(browser, tmp_path / "trace.html")
        told = " ".join(re.findall(r">([^<>]+)</word>", printed(browser, tmp_path / "trace.pdf")))
    assert "(a) even (b) map of (a)" in told
    assert "(closed: open it to print it)" in told


#: What reaches beyond the paper's width, but for the drawings of figures, which are drawn again for paper.
_BEYOND = """
JSON.stringify([...document.querySelectorAll("body *")].filter(one =>
  !one.closest("svg, .plot, .unseen, .skip") && one.checkVisibility()
  && one.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map(one => one.outerHTML.slice(0, 120)))
"""
#: Figures that neither show a picture nor say why; what is shown that does nothing without JavaScript.
_EMPTY = """
JSON.stringify([...document.querySelectorAll(".plot")].filter(plot =>
  !plot.querySelector(".still path, .still rect") && !plot.innerText.includes("needs JavaScript"))
  .map(plot => plot.id))
"""
_DEAD = """
[...document.querySelectorAll("button, select")].filter(one => one.checkVisibility()).length
"""
_LOADED = "document.readyState === 'complete' && !!document.querySelector('section, .plot')"
#: Pixels that A4 has between its margins of 14 mm.
_A4_PX = 688


@pytest.mark.timeout(600)
def test_pages_fit_on_paper_and_show_their_figures_without_javascript(
    pages: dict[str, Path], tmp_path: Path
) -> None:
    with chromium(tmp_path / "profile") as browser:
        for name, page in sorted(pages.items()):
            shown_as(browser, _A4_PX, "light")
            browser.call("Emulation.setEmulatedMedia", media="print")
            browser.call("Emulation.setScriptExecutionDisabled", value=True)
            browser.call("Page.navigate", url=page.as_uri())
            until(browser, _LOADED, name)
            assert json.loads(browser.value(_BEYOND)) == [], f"{name} is wider than A4"
            assert json.loads(browser.value(_EMPTY)) == [], f"{name} has no picture"
            browser.call("Emulation.setEmulatedMedia", media="screen")
            assert browser.value(_DEAD) == 0, name
            text = page.read_text("utf-8")
            pictures = sum(map(len, re.findall(r"<noscript>.*?</noscript>", text, re.DOTALL)))
            assert pictures < 0.25 * (len(text) - pictures), f"{name}: {pictures} bytes of pictures"


def copied(browser: Browser, form: str) -> str:
    """What a press of the gross energies' button puts into the clipboard."""
    browser.value("window.got = null")
    table = (
        """[...document.querySelectorAll(".table")].find(one => one.querySelector("#table-table10-gross"))"""
    )
    button = f"""{table}.querySelector('[data-copy="{form}"]')"""
    browser.value('document.getElementById("said").textContent = ""')
    browser.call("Runtime.evaluate", expression=f"{button}.click()", userGesture=True)
    until(browser, 'document.getElementById("said").textContent', form)
    assert "copied as" in browser.value('document.getElementById("said").textContent')
    browser.value("navigator.clipboard.readText().then(text => window.got = text)")
    until(browser, "window.got !== null", "nothing in the clipboard")
    return str(browser.value("window.got"))


def until_there(file: Path) -> None:
    deadline_s = time.monotonic() + 60
    while not file.is_file() or not file.stat().st_size:
        assert time.monotonic() < deadline_s, f"{file.name} was not saved"
        time.sleep(0.05)
