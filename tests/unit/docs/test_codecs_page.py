"""docs/codecs.md is run as it stands, its experiment in a small form, and its break-even is Eq. 1's own."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from statistics import mean

import pytest

from forked_commands import roambench
from page_tables import column, factor, rows_of, runs_of, with_interval

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "codecs.md").read_text("utf-8")
FENCE = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.timeout(600)


def run(command: str, folder: Path) -> str:
    done = roambench(*shlex.split(command)[1:], cwd=folder)
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return " ".join(done.stdout.split())


def typed(page: str, folder: Path) -> None:
    """Write the page's files, and type its commands; each prints the lines that the page shows behind it."""
    for language, title, content in FENCE.findall(page):
        if title:
            (folder / title).write_text(content)
        if language != "console":
            continue
        printed = ""
        for line in content.splitlines():
            if line.startswith("$ "):
                printed = run(line[2:], folder)
            else:
                assert " ".join(line.split()) in printed, printed


def test_every_command_of_the_page_works_and_prints_what_the_page_shows(tmp_path: Path) -> None:
    typed(PAGE, tmp_path)


def test_the_experiment_in_a_small_form_has_its_break_even_where_eq_1_says(tmp_path: Path) -> None:
    """An upload of B Mbit at r Mbit/s draws (alpha_u B + beta B / r) / 1000 J, and idle power for B / r s.

    The break-even of the page: with a coding that takes as long, nothing is saved."""
    text = (ROOT / "experiments" / "codecs.toml").read_text()
    text = re.sub(r"codec_up = \[.*?\]", 'codec_up = ["identity", "int8"]', text, flags=re.DOTALL)
    text = text.replace("seeds = 5", "seeds = 1").replace("steps = 40", "steps = 6")
    text += "simulated.power_spread = [0.0]\nsimulated.speed_spread = [0.0]\nlinks.overhead_bytes = [20000]\n"
    (tmp_path / "codecs.toml").write_text(text)
    run("roambench sweep codecs.toml -o out --jobs 2", tmp_path)
    rows = json.loads((tmp_path / "out" / "table.json").read_text())["rows"]
    by_codec: dict[str, dict[float, dict[str, float]]] = {"identity": {}, "int8": {}}
    for row in rows:
        values = {name: metric["mean"] for name, metric in row["metrics"].items()}
        by_codec[row["values"]["links.codec_up"]][row["values"]["simulated.upload_mbit_s"]] = values
    plain, coded = by_codec["identity"], by_codec["int8"]
    for rate, found in coded.items():
        # What the same uploads of whole models drew, by the run in which they were whole.
        saved = plain[rate]["upload_j"] - found["upload_j"] - found["encode_j"]
        assert found["coding_saves_j"] == pytest.approx(saved, rel=1e-6)
        assert plain[rate]["coding_saves_j"] is None
    # Linear in 1 / rate: the third rate lies on the line of the other two.
    found = coded[10.0]
    longer_s = 0.15 * (1.0 + found["coding_saves_j"] / found["encode_j"])
    slow = (tmp_path / "codecs.toml").read_text().replace("[1.0, 10.0, 100.0]", "[10.0]")
    (tmp_path / "slow.toml").write_text(f"{slow}simulated.coding_s = [{longer_s!r}]\n")
    run("roambench sweep slow.toml -o slow --jobs 2", tmp_path)
    _, row = json.loads((tmp_path / "slow" / "table.json").read_text())["rows"]
    assert row["metrics"]["coding_saves_j"]["mean"] == pytest.approx(0.0, abs=1e-9)
    (r1, s1), (r2, s2), (r3, s3) = ((rate, coded[rate]["coding_saves_j"]) for rate in (1.0, 10.0, 100.0))
    slope = (s1 - s3) / (1 / r1 - 1 / r3)
    assert s2 == pytest.approx(s3 + slope * (1 / r2 - 1 / r3), rel=1e-6)


def test_the_table_of_the_page_follows_from_the_runs_kept_beside_it() -> None:
    shown, rates = rows_of(PAGE, "## Joules against accuracy"), ("1.0", "10.0", "100.0")
    assert len(shown) == 9
    for name, cells in shown.items():
        expected, break_even = list[str](), list[str]()
        for rate in rates:
            runs, plain = (
                runs_of("codecs.csv", {"codec_up": codec, "upload_mbit_s": rate})
                for codec in (name.strip("`"), "identity")
            )
            assert runs.keys() == plain.keys() == {"42", "43", "44", "45", "46"}
            joules = [
                (float(row["consumed_j"]), float(plain[seed]["consumed_j"])) for seed, row in runs.items()
            ]
            if name == "`identity`":
                expected.append(f"{mean(one for one, _ in joules):.1f} J")
                break_even.append("–")
                continue
            expected.append(factor(joules))
            gains = [float(row["coding_saves_j"]) / float(row["encode_j"]) for row in runs.values()]
            break_even.append(with_interval([0.15 * (1.0 + gain) for gain in gains], 1))
        accuracy = with_interval([100.0 * one for one in column(runs, "final_accuracy")], 1)
        assert cells == [accuracy, *expected, *break_even], name
    behind = " ".join(PAGE.rpartition("equal numbers of rounds: ")[2].split())
    for codec in ("topk:0.01", "lowrank:2", "int4"):
        whole, coded = (
            column(runs_of("codecs.csv", {"codec_up": one, "upload_mbit_s": "1.0"}), "final_accuracy")
            for one in ("identity", codec)
        )
        lost = with_interval([100.0 * (a - b) for a, b in zip(whole, coded, strict=True)], 1)
        assert re.search(rf"`{re.escape(codec)}`[^±]* {re.escape(lost)}", behind), (codec, lost)
