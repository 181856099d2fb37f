"""The notebooks of docs/notebooks run from first cell to last in a real kernel, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

import roambench as rb
from by_chance import assert_by_chance
from roambench.api.recorded_run import Run
from roambench.runs.reference import FILES
from samples import sampled

pytestmark = pytest.mark.lengthy
NOTEBOOKS = Path(__file__).parents[2] / "docs" / "notebooks"

#: In a process of its own: what a kernel's client leaves to the garbage collector is its own affair.
_EXECUTE = """
import sys, nbformat
from nbclient import NotebookClient
notebook = nbformat.reads(sys.stdin.read(), as_version=4)
where = {"metadata": {"path": sys.argv[1]}}
NotebookClient(notebook, timeout=600, kernel_name="python3", resources=where).execute()
nbformat.write(notebook, sys.argv[2])
"""


#: Interrupts the kernel, as a notebook's stop button does, when the run's first step is done.
_INTERRUPT = """
import pathlib, sys, time
from jupyter_client.manager import start_new_kernel
manager, client = start_new_kernel(kernel_name="python3", cwd=sys.argv[1])


def answer(asked):
    while True:
        found = client.get_shell_msg(timeout=300)
        if found["parent_header"].get("msg_id") == asked:
            return found["content"]


cell = client.execute(sys.argv[2])
while not (pathlib.Path(sys.argv[1]) / "first").exists():
    time.sleep(0.05)
manager.interrupt_kernel()
print(answer(cell).get("ename"))
status = "aborted"  # so a kernel answers what comes right behind an error, whatever the error was
while status == "aborted":
    status = answer(client.execute("left = 1 + 1"))["status"]
print(status)
client.stop_channels()
manager.shutdown_kernel()
"""
_LONG_CELL = """
import pathlib, roambench as rb
rb.run(
    {
        "name": "long",
        "systems": ["mohawk", "hierfavg"],
        "trace": {"steps": 400},
        "fleet": {"agents": 4},
        "simulated": {"workers": 1},
    },
    fleet="simulated",
    on_step=lambda step: pathlib.Path("first").touch(),
)
"""


#: As the notebooks are, and shorter.
STEPS = pytest.mark.parametrize("steps", sampled([4], [8]))


def executed(name: str, folder: Path, steps: int, **environment: str) -> str:
    """The notebook as its reader sees it then, as text; its experiment has so many steps."""
    text, usual = (NOTEBOOKS / name).read_text("utf-8"), r"\"steps\": 8}"
    assert text.count(usual) == 1
    out = folder.parent / f"{folder.name}.ipynb"
    words = [sys.executable, "-c", _EXECUTE, str(folder), str(out)]
    done = subprocess.run(
        words,
        input=text.replace(usual, usual.replace("8", str(steps))),
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out.read_text("utf-8")


def off_u(run: Run) -> float:
    """Standard uncertainties by which its joules are off the boards' truth, which no sensor saw."""
    total = run.energy().total
    return (total.joules - run.summary.measured.truth.true_j) / total.u_joules


@STEPS
@pytest.mark.timeout(900)
def test_from_nothing_to_mohawk_against_hierfavg_with_a_figure(tmp_path: Path, steps: int) -> None:
    told = executed("mohawk_against_hierfavg.ipynb", tmp_path, steps)
    runs = rb.load(tmp_path / "runs")
    assert {run.system: run.state for run in runs} == {"mohawk": "finished", "hierfavg": "finished"}
    for run in runs:
        assert f"{run.system}: {run.energy().total.joules:.0f} ± " in told
    assert_by_chance({run.system: off_u(run) for run in runs})
    assert "application/vnd.plotly" in told
    assert r"\\num{" in told
    assert {"report.html", "energy.html", "energy.tex"} <= {path.name for path in tmp_path.iterdir()}
    left = {
        file.relative_to(run.path).as_posix()
        for run in runs
        for file in run.path.rglob("*")
        if file.is_file()
    }
    assert [name for name in sorted(left) if not any(fnmatch(name, known) for known in FILES)] == []


@STEPS
@pytest.mark.timeout(900)
def test_a_local_algorithm_of_ones_own_with_its_joules(tmp_path: Path, steps: int) -> None:
    """pip puts the package into a folder of the test's, not into this environment, and asks no index."""
    site, work = tmp_path / "site", tmp_path / "work"
    site.mkdir()
    work.mkdir()
    told = executed(
        "own_local_algorithm.ipynb",
        work,
        steps,
        PYTHONPATH=str(site),
        PIP_TARGET=str(site),
        PIP_NO_DEPS="1",
        PIP_NO_INDEX="1",
        PIP_NO_BUILD_ISOLATION="0",  # pip's spelling of "yes"
    )
    plain, ours = (rb.load(work / "runs" / name / "latest" / "mohawk") for name in ("plain", "ours"))
    assert (plain.state, ours.state) == ("finished", "finished")
    (code,) = ours.info.code
    assert (code["package"], code["version"], code["modules"]) == ("bench-ideas", "0.1", ["shared_direction"])
    assert code["sha256"][:16] in told
    assert not plain.info.code
    for run in (plain, ours):
        total = run.energy().total
        assert f"{total.joules:.0f} ± {2 * total.u_joules:.0f} J on all boards" in told
    assert_by_chance({str(run.path): off_u(run) for run in (plain, ours)})
    # A vector as long as the model travels with it.
    vector = 4 * sum(int(tensor.size) for tensor in plain.models["global"].values())  # float32
    before, after = (_longest(run) for run in (plain, ours))
    assert before.keys() == {"download", "upload"}
    assert after == {phase: size + vector for phase, size in before.items()}


def _longest(run: Run) -> dict[str, int]:
    """The most bytes that one phase of a kind moved: a whole model, and what travels with it."""
    found: dict[str, int] = {}
    for row in run.phases.arrow.select(["phase", "transferred_bytes"]).to_pylist():
        if row["transferred_bytes"]:
            found[row["phase"]] = max(found.get(row["phase"], 0), row["transferred_bytes"])
    return found


@pytest.mark.timeout(600)
def test_interrupting_the_kernel_stops_the_run_in_good_order(tmp_path: Path) -> None:
    words = [sys.executable, "-c", _INTERRUPT, str(tmp_path), _LONG_CELL]
    done = subprocess.run(words, capture_output=True, text=True, timeout=360, check=False)
    assert done.stdout.split() == ["KeyboardInterrupt", "ok"], done.stderr[-2000:]
    run = rb.load(tmp_path / "runs")[0]
    assert (run.system, run.state, run.info.reason) == ("mohawk", "interrupted", "stopped by the user")
    assert 0 < len(run.steps) < 400
    assert len(rb.load(tmp_path / "runs")) == 1  # the other system did not begin
