"""Figures for papers, read by other programs: poppler the PDF, an XML parser the SVG's bars and ticks."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as xml

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app

pytestmark = pytest.mark.lengthy

SVG = "{http://www.w3.org/2000/svg}"
ALL = ["accuracy", "accuracy-per-joule", "energy", "spent", "outcomes"]
ALL += ["download-per-megabyte", "upload-per-megabyte"]


def figures(*words: object) -> list[str]:
    told = CliRunner().invoke(app, ["figures", *map(str, words)])
    assert told.exit_code == 0, (told.output, told.exception)
    return told.stdout.splitlines()


class Drawing:
    """An SVG by what it draws: named paths, and the two scales that its ticks give."""

    def __init__(self, file: Path) -> None:
        parser = xml.XMLParser(target=xml.TreeBuilder(insert_comments=True))
        self.root = xml.parse(file, parser).getroot()
        assert self.root is not None
        self.groups = {found.get("id", ""): found for found in self.root.iter(f"{SVG}g")}

    def scale(self, axis: str) -> Callable[[float], float]:
        """From points of the drawing to the axis' own numbers, by its first and its last tick."""
        ticks = []
        for name, group in self.groups.items():
            if re.fullmatch(rf"{axis}tick_\d+", name):
                at = float(next(group.iter(f"{SVG}use")).attrib[axis])
                label = next(part.text for part in group.iter(xml.Comment))  # the glyphs' own text
                ticks.append((at, float(str(label).strip().replace(",", ""))))
        (at_0, value_0), (at_1, value_1) = ticks[0], ticks[-1]
        return lambda at: value_0 + (at - at_0) * (value_1 - value_0) / (at_1 - at_0)

    def points(self, name: str) -> list[tuple[float, float]]:
        path = next(self.groups[name].iter(f"{SVG}path")).attrib["d"]
        numbers = [float(number) for number in re.findall(r"-?\d+\.?\d*", path)]
        return list(zip(numbers[0::2], numbers[1::2], strict=True))

    def length(self, name: str) -> float:
        """How long a bar is, on the horizontal axis."""
        value = self.scale("x")
        ends = [value(x) for x, _ in self.points(name)]
        return max(ends) - min(ends)


@pytest.fixture(scope="module")
def pair(hand_made_once: Callable[..., Path]) -> tuple[Path, Path]:
    others = {"system": "hierfavg", "aggregated": (), "accuracies": (0.1, 0.6)}
    return hand_made_once(), hand_made_once("demo-hierfavg", **others)


@pytest.fixture(scope="module")
def drawn(pair: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all figures of the pair, as PDF and as SVG."""
    out = tmp_path_factory.mktemp("drawn") / "figs"
    files = figures(*pair, "-o", out, "--format", "pdf, svg")
    assert sorted(files) == sorted(str(out / f"{name}.{kind}") for name in ALL for kind in ("pdf", "svg"))
    return out


def test_bars_and_curves_of_the_svg_are_the_numbers_of_the_report(
    pair: tuple[Path, Path], drawn: Path
) -> None:
    told = CliRunner().invoke(app, ["report", *map(str, pair), "--json"])
    runs = json.loads(told.stdout)["runs"]
    energy = Drawing(drawn / "energy.svg")
    for index, run in enumerate(runs):
        table = run["energy"]["table10"]["gross"]
        for row in ("consumed", "wasted"):
            length = sum(
                energy.length(name) for name in energy.groups if name.startswith(f"energy-{index}-{row}-")
            )
            assert length == pytest.approx(table[f"cumulative_{row}"]["joules"], rel=1e-3), (index, row)
    # By hand: 2 W over 20 s of training, on both boards, all of it wasted by the second run.
    assert energy.length("energy-1-wasted-train") == pytest.approx(80.0, rel=2e-3)
    spent = Drawing(drawn / "spent.svg")
    assert spent.length("spent-1-train") == pytest.approx(80.0, rel=2e-3)
    assert sum(spent.length(n) for n in spent.groups if n.startswith("spent-0-")) == pytest.approx(
        400, rel=2e-3
    )
    outcomes = Drawing(drawn / "outcomes.svg")
    assert outcomes.length("outcomes-0-aggregated") == pytest.approx(1.0, rel=1e-3)
    assert outcomes.length("outcomes-1-wasted") == pytest.approx(2.0, rel=1e-3)
    curve = Drawing(drawn / "accuracy.svg")
    assert [curve.scale("y")(curve.points(f"accuracy-{run}")[-1][1]) for run in (0, 1)] == pytest.approx(
        [85.0, 60.0], rel=1e-3
    )


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="needs poppler-utils: make servers installs it")
def test_a_pdf_has_its_fonts_in_it_and_is_a_column_wide(drawn: Path) -> None:
    for file in sorted(drawn.glob("*.pdf")):
        listed = subprocess.run(["pdffonts", file], capture_output=True, text=True, check=True).stdout
        fonts = [line.split() for line in listed.splitlines()[2:]]
        assert fonts, file
        for font in fonts:
            assert font[1:3] == ["CID", "TrueType"], font  # not Type 3, which IEEE's checker refuses
            assert font[4:6] == ["yes", "yes"], font  # embedded, a subset
        about = subprocess.run(["pdfinfo", file], capture_output=True, text=True, check=True).stdout
        width = re.search(r"Page size: +([\d.]+) x", about)
        assert width is not None
        assert float(width[1]) == pytest.approx(3.5 * 72)
    words = subprocess.run(
        ["pdftotext", "-layout", str(drawn / "energy.pdf"), "-"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    for expected in ("mohawk", "hierfavg", "gross energy (J)", "104", "96.0", "48.0"):
        assert expected in words, words


def test_the_same_runs_give_the_same_bytes(pair: tuple[Path, Path], drawn: Path, tmp_path: Path) -> None:
    for file in map(Path, figures(*pair, "-o", tmp_path, "--format", "pdf, svg")):
        assert file.read_bytes() == (drawn / file.name).read_bytes(), file


def test_odd_names_are_text_and_modelled_energy_stands_beside_no_measured(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    odd = hand_made("_$x^2$ <b>&", system="mohawk")
    virtual = hand_made("virtual", fleet="simulated", readings=False, phases=False)
    told = CliRunner().invoke(
        app, ["figures", str(odd), str(virtual), "-o", str(tmp_path), "--format", "svg"]
    )
    assert told.exit_code == 0, told.output
    assert "virtual: its energy is modelled" in told.stderr
    assert "<!-- _$x^2$" in (tmp_path / "accuracy.svg").read_text()
    drawn = Drawing(tmp_path / "energy.svg")
    assert not [name for name in drawn.groups if name.startswith("energy-1")]
    figures(virtual, "-o", tmp_path, "--format", "svg")
    assert "<!-- modelled gross energy (J) -->" in (tmp_path / "energy.svg").read_text()


def test_wrong_wishes_are_refused_at_once(pair: tuple[Path, Path], tmp_path: Path) -> None:
    told = CliRunner().invoke(app, ["figures", str(pair[0]), "--format", "pdf,eps", "--style", "acm"])
    assert str(told.exception).splitlines() == [
        "--format: expected pdf, svg or png, got 'eps'",
        "--style: expected one of ieee, ieee-wide, slides, got 'acm'",
    ]


def test_without_the_extra_it_says_what_to_install(
    pair: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    told = CliRunner().invoke(app, ["figures", str(pair[0])])
    assert f"{sys.executable} -m pip install 'matplotlib<4,>=3.10'" in str(told.exception)
