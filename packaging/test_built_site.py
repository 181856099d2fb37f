"""The built site as a reader opens it: from its folder, in a real Chromium. `make docs` runs this."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser_tab import Browser, chromium

SITE = Path(__file__).parents[1] / "build" / "site"
#: Pages at each depth, one of each kind.
PAGES = ("index.html", "docs/glossary.html", "docs/start/five-minutes.html", "docs/results/index.html")
#: Seconds until a page shows what is waited for: far above what a loaded machine takes.
PATIENCE_S = 100.0


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with chromium(tmp_path_factory.mktemp("profile")) as tab:
        yield tab


def value(browser: Browser, expression: str) -> Any:
    """What the expression has for a value; None while the page is being replaced by another."""
    try:
        return browser.value(expression)
    except AssertionError as error:
        if "navigated" not in str(error) and "context" not in str(error):
            raise
        return None


def wait_for(holds: Callable[[], object], what: str) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline_s, f"{what} is not shown"
        time.sleep(0.05)


def opened(browser: Browser, page: str) -> None:
    address = (SITE / page).as_uri()
    browser.call("Page.navigate", url=address)
    wait_for(
        lambda: value(browser, f"document.readyState == 'complete' && location.href == '{address}'"), page
    )


@pytest.mark.parametrize("page", PAGES)
def test_search_from_the_folder_finds_a_page_and_leads_there(browser: Browser, page: str) -> None:
    browser.requested.clear()
    opened(browser, page)
    value(browser, "document.querySelector('[data-md-component=search-query]').focus()")
    browser.call("Input.insertText", text="torch on x86-64")
    link = "document.querySelector('.md-search-result__link')"
    wait_for(lambda: value(browser, f"{link} && {link}.href"), "a result")
    value(browser, f"{link}.click()")
    there = "location.pathname.endsWith('/docs/decisions/0010-locked-packages.html')"
    wait_for(
        lambda: value(browser, f"document.readyState == 'complete' && {there}"),
        "the page of the first result",
    )
    assert [url for url in browser.requested if not url.startswith(("file:", "data:", "about:"))] == []
    assert browser.faults == []


def test_no_page_loads_anything_from_another_server() -> None:
    pages = sorted(SITE.rglob("*.html"))
    assert len(pages) > 60
    loaded = re.compile(
        r"<(?:script|img|iframe|source)[^>]+src=.?https?:[^ >]+|<link[^>]+href=.?https?:[^>]+stylesheet"
    )
    wrong = [f"{page}: {found}" for page in pages for found in loaded.findall(page.read_text("utf-8"))]
    assert wrong == []


def test_no_page_is_wider_than_a_phone(browser: Browser) -> None:
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=400, height=800, deviceScaleFactor=1, mobile=True
    )
    wide = []
    for page in sorted(path.relative_to(SITE).as_posix() for path in (SITE / "docs").rglob("*.html")):
        if "/images/" in page:
            continue  # a run's report, which has its own test
        opened(browser, page)
        if value(browser, "document.documentElement.scrollWidth > innerWidth || innerWidth > 400"):
            wide.append(page)
    assert wide == []
