"""Figures as PNG files, drawn by a browser of the user's own: nothing of ours to install.

Plotly draws in a browser only. Any Chromium-based one does: it opens a page of ours once, without a window
and without the network, and the finished pictures are read out of the page.
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from roambench.contract.errors import TraceError
from roambench.contract.whole_file import write_whole
from roambench.report.figures.figure import Figure
from roambench.report.figures.look import LOOK, painted
from roambench.report.templates.rendering import rendered

#: Names under which Chromium-based browsers install themselves.
BROWSERS: Final = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("microsoft-edge", "msedge", "brave-browser", "headless_shell"),
)
_VARIABLE: Final = "ROAMBENCH_BROWSER"
_WIDTH_PX: Final = 1100
_PATIENCE_S: Final = 240
_PICTURE: Final = re.compile(r'<img id="png-([a-z0-9-]+)" src="data:image/png;base64,([A-Za-z0-9+/=]+)"')


def browser() -> str:
    """The browser that draws. Raises TraceError, saying what to install, where there is none."""
    asked = os.environ.get(_VARIABLE)
    found = shutil.which(asked) if asked else next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        which = f"{_VARIABLE}={asked} is no program" if asked else "none is installed"
        raise TraceError(
            f"PNG files need a Chromium-based browser, and {which}: install one (for example `apt install "
            f"chromium`), name it in {_VARIABLE}, or save single figures by the buttons of the page"
        )
    return found


def write_pictures(figures: Sequence[Figure], folder: Path) -> list[Path]:
    """Write `folder`/KEY.png for every figure; returns the files. TraceError where the browser fails."""
    program = browser()
    shown = [
        {"key": it.key, "data": painted(it.data), "layout": painted(it.layout | {"template": LOOK})}
        for it in figures
    ]
    with tempfile.TemporaryDirectory(prefix="roambench-pictures-") as scratch:
        source = Path(scratch) / "figures.html"
        source.write_text(
            rendered("pictures.html", figures=shown, width=_WIDTH_PX), "utf-8", "backslashreplace"
        )
        document = _rendered(program, source, Path(scratch) / "profile")
    pictures = {key: base64.b64decode(data) for key, data in _PICTURE.findall(document)}
    missing = [figure.key for figure in figures if figure.key not in pictures]
    if missing:
        raise TraceError(f"{program} did not draw {', '.join(missing)}: set {_VARIABLE} to another browser")
    files = [folder / f"{figure.key}.png" for figure in figures]
    for figure, file in zip(figures, files, strict=True):
        write_whole(file, pictures[figure.key], synced=False)
    return files


def _rendered(program: str, source: Path, profile: Path) -> str:
    """The page as it is once its script has finished."""
    command = [
        program,
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--disable-extensions",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        "--virtual-time-budget=120000",
        "--dump-dom",
        source.as_uri(),
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.insert(1, "--no-sandbox")  # Chromium refuses to be root with its sandbox on
    try:
        done = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        raise TraceError(f"{program} did not finish drawing within {_PATIENCE_S} s") from None
    except OSError as error:
        raise TraceError(f"{program} does not start: {error.strerror or error}") from None
    if done.returncode:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["no message"]
        raise TraceError(f"{program} failed with exit code {done.returncode}: {last[0]}")
    return done.stdout.decode("utf-8", errors="replace")
