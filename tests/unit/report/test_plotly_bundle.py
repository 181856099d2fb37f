"""The plotly.js that pages carry is the one that decision 26 names, and what plotly.py writes figures for."""

from __future__ import annotations

import gzip
import hashlib
import re
from importlib.resources import files
from pathlib import Path

from plotly.offline import get_plotlyjs_version

DECISION = Path(__file__).resolve().parents[3] / "docs/decisions/0026-plotly-in-the-package.md"


def bundle() -> bytes:
    packed = files("roambench.report.templates").joinpath("plotly-cartesian.min.js.gz").read_bytes()
    return gzip.decompress(packed)


def test_the_file_is_that_of_the_decision() -> None:
    named = re.search(r"^    ([0-9a-f]{64})$", DECISION.read_text(encoding="utf-8"), re.MULTILINE)
    assert named is not None
    assert hashlib.sha256(bundle()).hexdigest() == named[1]


def test_its_release_is_the_one_that_plotly_py_writes_for() -> None:
    release = re.search(rb"plotly\.js \(cartesian - minified\) v([\d.]+)", bundle()[:400])
    assert release is not None
    assert release[1].decode() == get_plotlyjs_version()
