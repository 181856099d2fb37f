"""The pictures of README and docs, from a real run: `make pictures` runs this in the checkout.

Runs the longer demo once (its folder is kept in build/pictures), makes the pages of it that a user would, and
takes pictures of them in a Chromium: docs/images/*.webp, and the report itself as docs/images/report.html.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SCRATCH: Final = Path("build/pictures")
RUNS: Final = SCRATCH / "runs"
IMAGES: Final = ROOT / "docs" / "images"
#: Seconds that a page gets to show what is waited for.
PATIENCE_S: Final = 60.0

sys.path.insert(0, str(ROOT / "tests" / "support"))
from browser_tab import Browser, chromium  # noqa: E402
from watching import watching  # noqa: E402


@dataclass(frozen=True)
class Picture:
    """What of a page is shown: from the top of `element` on, `height` pixels, or the whole element."""

    name: str
    element: str
    height: int | None = None
    width: int = 1100


REPORT: Final = (
    Picture("report", "body", 500),
    Picture("outcomes", "#figure-energy"),
    Picture("power", "#figure-power"),
)


def roambench(*words: str | Path) -> None:
    """Run a command of roambench. Raises CalledProcessError where it fails."""
    subprocess.run([str(Path(sys.executable).with_name("roambench")), *map(str, words)], check=True, cwd=ROOT)


def runs() -> list[Path]:
    """The runs of the longer demo, in the order in which they were made: made now where there are none."""
    if not list((ROOT / RUNS).rglob("run.json")):
        roambench("run", "experiments/demo_full.toml", "--fleet", "local", "--runs-dir", RUNS)
    found = {
        path.parent.relative_to(ROOT): json.loads(path.read_bytes())
        for path in (ROOT / RUNS).rglob("run.json")
    }
    return sorted(found, key=lambda folder: found[folder]["created_utc"])


def wait_for(browser: Browser, expression: str) -> None:
    """Wait until `expression` is true on the page. Raises TimeoutError."""
    until_s = time.monotonic() + PATIENCE_S
    while not browser.value(expression):
        if time.monotonic() > until_s:
            raise TimeoutError(f"the page never came so far: {expression}")
        time.sleep(0.1)


def shown(browser: Browser, address: str, width: int) -> None:
    """Show `address` in daylight on a page of this width."""
    browser.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
    browser.call(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
    )
    browser.call("Page.navigate", url=address)
    wait_for(browser, f"document.readyState == 'complete' && location.href.startsWith('{address}')")


def take(browser: Browser, picture: Picture) -> None:
    """Write docs/images/NAME.webp of what the page shows."""
    element = f"document.querySelector('{picture.element}')"
    browser.value(f"{element}.scrollIntoView()")
    if picture.element.startswith("#figure"):
        wait_for(browser, f"{element}.querySelector('.main-svg') != null")
    time.sleep(1)  # drawn, and settled
    x, y, width, height = browser.value(
        f"(() => {{ const box = {element}.getBoundingClientRect();"
        "return [box.x + scrollX, box.y + scrollY, box.width, box.height].join(' ')})()"
    ).split()
    taken = browser.call(
        "Page.captureScreenshot",
        format="webp",
        quality=80,
        captureBeyondViewport=True,
        clip={
            "x": float(x),
            "y": float(y),
            "width": float(width),
            "height": float(picture.height or float(height)),
            "scale": 1,
        },
    )
    (IMAGES / f"{picture.name}.webp").write_bytes(base64.b64decode(taken["data"]))


def main() -> None:
    """Make all pictures anew."""
    IMAGES.mkdir(exist_ok=True)
    of_systems = runs()
    roambench("report", *of_systems, "-o", IMAGES / "report.html")
    roambench("trace", "plot", of_systems[0] / "trace.parquet", "-o", SCRATCH / "trace")
    with tempfile.TemporaryDirectory() as profile, chromium(Path(profile)) as browser:
        shown(browser, (IMAGES / "report.html").as_uri(), 1100)
        # The whole page in view: what is outside is laid out only with the picture, and moves the rest.
        height = int(browser.value("String(document.documentElement.scrollHeight)"))
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=1100,
            height=2 * height,
            deviceScaleFactor=1,
            mobile=False,
        )
        for picture in REPORT:
            take(browser, picture)
        with watching(ROOT / of_systems[-1]) as live:
            shown(browser, live.address, 1100)
            wait_for(browser, "!document.querySelector('#slider').disabled")
            slide = "const slider = document.querySelector('#slider'); slider.value = 13;"
            browser.value(f"{slide} slider.dispatchEvent(new Event('input', {{bubbles: true}}))")
            time.sleep(2)
            take(browser, Picture("live", "body", 1150))


if __name__ == "__main__":
    main()
