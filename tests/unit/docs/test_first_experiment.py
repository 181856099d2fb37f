"""The experiment of docs/start/first-experiment.md runs in an empty folder, as the page says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app

PAGE = (Path(__file__).parents[3] / "docs" / "start" / "first-experiment.md").read_text("utf-8")


@pytest.mark.lengthy
def test_the_page_leads_from_its_file_to_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.toml").write_text(
        "\n".join(re.findall(r"^```toml\n(.*?)^```$", PAGE, re.S | re.M)), "utf-8"
    )
    run = CliRunner().invoke(app, ["run", "my.toml", "--fleet", "rehearsal"])
    assert run.exit_code == 0, run.output
    assert re.search(r"mohawk +\d+ of \d+\n *hierfavg +\d+ of \d+", run.output)
    shown = re.findall(r"^roambench (report [^#\n]+?) +#", PAGE, re.M)
    assert len(shown) == 1
    report = CliRunner().invoke(app, shown[0].split())
    assert report.exit_code == 0, report.output
    assert "local updates ordered" in report.output
