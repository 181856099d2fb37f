"""The code of docs/python.md, run from its first line to its last, where a newcomer would run it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "python.md").read_text("utf-8")


@pytest.mark.usefixtures("workers_of_one_server")
def test_all_code_of_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "experiments", "experiments")
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 5
    names: dict = {}
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    told = capsys.readouterr().out
    assert "mohawk 6 of 6" in told
    assert names["both"].finding in told
    assert r"\begin{tabular}" in told
    assert {"demo.html", "demo.csv", "demo.tex", "runs"} <= {path.name for path in Path().iterdir()}
    assert names["radio"].total.joules > 0.0
    assert names["share"].shape == (2, 2)
