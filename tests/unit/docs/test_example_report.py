"""The published example report has the sections, tables, figures and names of rows and columns of a page of
today. What was measured is not compared."""

from __future__ import annotations

import html
import re
import tarfile
from pathlib import Path

import pytest

from roambench.cli.main import main

ROOT = Path(__file__).resolve().parents[3]
_NUMBER = r"[-+−]?\d[\d.,]*"


def structure(page: str) -> dict[str, list[str]]:
    """The page's sections and figures, and by table the names of its columns and rows, without numbers."""

    def texts(pattern: str, within: str) -> list[str]:
        found = re.findall(pattern, within, re.DOTALL)
        plain = (html.unescape(re.sub(r"<[^>]+>", "", one)).replace("\xa0", " ").strip() for one in found)
        return [re.sub(_NUMBER, "#", one) for one in plain]

    shown = page.partition('id="report-data"')[0]
    tables = {
        name[1]: table
        for table in re.findall(r"<table.*?</table>", shown, re.DOTALL)
        if (name := re.search(r'id="(table-[^"]+?)(?:-caption)?"', table))
    }
    return {
        "sections": texts(r"<h2.*?</h2>", shown),
        "figures": sorted(set(re.findall(r'id="(figure-[^"]+)"', shown))),
        **{
            name: texts(r'<th[^>]*scope="?col.*?</th>', table)
            + sorted(set(texts(r'<th[^>]*scope="?row.*?</th>', table)))
            for name, table in tables.items()
        },
    }


def test_the_example_report_has_the_parts_and_names_of_todays_pages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with tarfile.open(ROOT / "tests/frozen/files/runs/local.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    page = tmp_path / "report.html"
    with pytest.raises(SystemExit) as ended:
        main(["report", str(tmp_path / "mohawk"), str(tmp_path / "hierfavg"), "-o", str(page)])
    assert not ended.value.code, capsys.readouterr().err
    today = structure(page.read_text("utf-8"))
    example = structure((ROOT / "docs/images/report.html").read_text("utf-8"))
    assert len(today) > 20
    missing = {name: set(parts) - set(example.get(name, ())) for name, parts in today.items()}
    assert {name: parts for name, parts in missing.items() if parts} == {}, "make pictures renews it"
