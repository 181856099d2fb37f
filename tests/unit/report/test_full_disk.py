"""When a page or a model cannot be written, the one that was there before still is."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from roambench.cli.main import main
from roambench.contract.errors import RoambenchError
from roambench.contract.link_power import LinkPower
from roambench.energy.links.models import ANY, KnownLink, LinkModel, Provenance
from roambench.experiment.link_model_file import write_link_model
from roambench.runs.models import load_model, save_model

pytestmark = pytest.mark.lengthy

ROAMBENCH = str(Path(sys.executable).with_name("roambench"))
GOOD = "a good report\n" * 1000
TRYOUT = """
trace = { parameters = { devices = 12, steps = 12 }, steps = 6 }
fleet = { agents = 4, aps = 3 }
learning = { model = "mlp", images_per_device = 40 }
"""


@contextmanager
def files_of_at_most(most_bytes: int) -> Iterator[None]:
    """Writing beyond it fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_page_that_does_not_fit_leaves_the_one_before(
    hand_made: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.toml").write_text(TRYOUT)
    run, city = str(hand_made()), tmp_path / "city.parquet"
    small = ["--set", "devices=20", "--set", "steps=24"]
    with pytest.raises(SystemExit):
        main(["trace", "generate", "city", "-o", str(city), *small])
    page = tmp_path / "pages" / "trace.html"
    page.parent.mkdir()
    for words in (
        ["report", run, "-o", str(page)],
        ["compare", run, "-o", str(page)],
        ["data", "show", str(tmp_path / "t.toml"), "-o", str(page)],
        ["trace", "plot", str(city), "-o", str(page.parent)],
    ):
        page.write_text(GOOD)
        with files_of_at_most(300_000), pytest.raises(SystemExit) as ended:
            main(words)
        assert ended.value.code in (1, 2), words
        assert "cannot be written" in capsys.readouterr().err, words
        assert page.read_text() == GOOD, words
        assert [file.name for file in page.parent.iterdir()] == [page.name], words


def test_a_model_that_does_not_fit_leaves_the_one_before(tmp_path: Path) -> None:
    path = save_model(tmp_path / "global.safetensors", np.ones(10, dtype=np.float32))
    with files_of_at_most(100_000), pytest.raises(RoambenchError, match=r"global\.safetensors: "):
        save_model(path, np.zeros(100_000, dtype=np.float32))
    assert load_model(path).tolist() == [1.0] * 10
    links = tmp_path / "bench.toml"
    links.write_text(GOOD)
    known = KnownLink(LinkPower("any", 1.0, 1.0, 1.0))
    with files_of_at_most(100), pytest.raises(RoambenchError, match=r"bench\.toml: cannot be written"):
        write_link_model(links, LinkModel("bench", {ANY: known}, Provenance("a", "b", "c", "d", "e")))
    assert links.read_text() == GOOD
    assert sorted(file.name for file in tmp_path.iterdir()) == ["bench.toml", "global.safetensors"]


def test_a_page_goes_where_a_link_points_keeps_its_rights_and_passes_through_a_pipe(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    """/dev/null stays what it is, also for root."""
    run = str(hand_made())
    (tmp_path / "www").mkdir()
    real = tmp_path / "www" / "real.html"
    real.write_text(GOOD)
    real.chmod(0o600)
    (tmp_path / "linked.html").symlink_to(real)
    with pytest.raises(SystemExit) as ended:
        main(["report", run, "-o", str(tmp_path / "linked.html")])
    assert ended.value.code == 0
    assert (tmp_path / "linked.html").readlink() == real
    assert real.read_text().startswith("<!doctype html>")
    assert real.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SystemExit):
        main(["report", run, "-o", "/dev/null"])
    assert Path("/dev/null").is_char_device()
    pipe = tmp_path / "pipe.html"
    os.mkfifo(pipe)
    with subprocess.Popen(["head", "-c", "9", str(pipe)], stdout=subprocess.PIPE) as reading:
        with pytest.raises(SystemExit) as ended:
            main(["report", run, "-o", str(pipe)])
        assert reading.communicate(timeout=30)[0] == b"<!doctype"
    assert ended.value.code == 1  # the reader went away before the end of the page
    assert pipe.is_fifo()


def test_a_disk_that_is_really_full_keeps_the_report_that_is_on_it(
    hand_made: Callable[..., Path], tmp_path: Path
) -> None:
    run, disk = hand_made(), tmp_path / "disk"
    disk.mkdir()
    made = f"{ROAMBENCH} report {run} -o {disk}/r.html"
    script = f"""
        set -e; mount -t tmpfs -o size=1m tmpfs {disk}
        {made} >/dev/null; cp {disk}/r.html {tmp_path}/first.html
        {made} && exit 9
        cmp {disk}/r.html {tmp_path}/first.html; ls -A {disk}
    """
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    if "ermission denied" in done.stderr or "not permitted" in done.stderr:
        pytest.skip("needs root to mount a small disk")
    assert done.returncode == 0, done.stderr
    assert done.stderr == f"roambench: {disk}/r.html: cannot be written: No space left on device\n"
    assert done.stdout.split()[-1] == "r.html"
