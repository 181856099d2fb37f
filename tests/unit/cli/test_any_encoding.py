"""The command line prints in any encoding, and works below folders of any name."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from samples import sampled

pytestmark = pytest.mark.lengthy

_EXPERIMENT = """
name = "tiny"
systems = ["hierfavg"]
trace = { generator = "city", steps = 2 }
fleet = { agents = 2 }
learning = { dataset = "synthetic", model = "mlp", images_per_device = 8 }
synthetic = { train_images = 60, test_images = 20 }
"""
#: A terminal of Western Europe, one of no letters but ASCII, and a locale of none that Python leaves alone.
_ENCODINGS: Mapping[str, Mapping[str, str]] = {
    "latin-1": {"PYTHONIOENCODING": "latin-1"},
    "ascii": {"PYTHONIOENCODING": "ascii"},
    "C": {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
}


def roambench(
    *words: str | Path, encoding: str = "", cwd: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """The command in a process of its own."""
    settings = {**os.environ, "TERM": "dumb", **_ENCODINGS.get(encoding, {})}
    command = [sys.executable, "-m", "roambench.cli.main", *map(os.fspath, words)]
    return subprocess.run(command, cwd=cwd, env=settings, capture_output=True, timeout=300, check=False)


#: A name in letters, and one that is no text at all.
_FOLDERS = ["Größe – Ω", os.fsdecode(b"no\xfe\xff text")]


@pytest.fixture(scope="module", params=sampled(_FOLDERS[1:], _FOLDERS))
def start(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The group of one start, below a folder of such a name; a locale without its letters ran it."""
    home = tmp_path_factory.mktemp("any") / request.param
    home.mkdir()
    (home / "tiny.toml").write_text(_EXPERIMENT)
    ran = roambench("run", "tiny.toml", "--fleet", "simulated", encoding="C", cwd=home)
    assert (ran.returncode, ran.stderr) == (0, b"")
    return home / "runs" / "tiny" / "latest"


@pytest.mark.parametrize("encoding", sampled(["ascii"], _ENCODINGS))
def test_help_and_lists_are_printed(encoding: str) -> None:
    for words in (["--help"], ["run", "--help"], ["list", "readers"]):
        ran = roambench(*words, encoding=encoding)
        assert (ran.returncode, ran.stderr) == (0, b"")


@pytest.mark.parametrize("encoding", _ENCODINGS)
def test_mistakes_are_told(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "a.toml").write_text('name = "Größe – Ω"\n[local]\ntime_scale = 0.5\n')
    ran = roambench("run", "a.toml", encoding=encoding, cwd=tmp_path)
    assert ran.returncode == 2
    assert b"time_scale: expected a number >= 1.0" in ran.stderr


@pytest.mark.parametrize("encoding", sampled(["C"], _ENCODINGS))
def test_a_start_is_reported_by_its_folder(start: Path, encoding: str) -> None:
    """`latest` means the runs of the last start, and so does the experiment's folder."""
    tables = roambench("report", "--full", start, encoding=encoding)
    assert (tables.returncode, tables.stderr) == (0, b"")
    assert b"hierfavg" in tables.stdout
    document = roambench("report", "--json", start.parent, encoding=encoding)
    assert (document.returncode, len(json.loads(document.stdout)["runs"])) == (0, 1)


def test_a_page_is_made_below_any_folder(start: Path) -> None:
    assert roambench("report", start, "-o", start / "page.html").returncode == 0
    assert (start / "page.html").is_file()


def test_a_full_disk_is_no_mistake_in_what_the_user_wrote() -> None:
    ran = roambench("trace", "generate", "city", "-o", "/dev/full")
    assert (ran.returncode, ran.stderr.count(b"\n")) == (1, 1)
    assert b"roambench: /dev/full: cannot write the trace: No space left on device" in ran.stderr
