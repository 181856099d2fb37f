"""`roambench sweep` as a user meets it: processes, kills, failures, tables."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pyarrow.parquet as pq
import pytest

from forked_commands import roambench, started
from roambench.mobility.files import write_trace
from roambench.runs.lock import is_held
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import points_of
from roambench.study.sweep.pool import _MEETING, _POINT, _TRAINING
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, write_outcome
from samples import sampled
from small_traces import two_walks

# Every run is a process that loads torch: seconds on a quiet machine, a minute on a busy one.
pytestmark = pytest.mark.timeout(300)

CLI = [sys.executable, "-m", "roambench.cli.main"]
TINY = """\
seed = 3
systems = ["mohawk"]
[trace]
steps = 6
[fleet]
agents = 4
aps = 5
[learning]
model = "mlp"
partition = "iid"
images_per_device = 16
test_images = 100
[rounds]
cloud_every_steps = 2
"""


def sweep(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    return roambench("sweep", *arguments, cwd=cwd, env=environment)


def wait_for(path: Path, pattern: str, count: int = 1) -> list[Path]:
    deadline_s = time.monotonic() + 90.0
    while len(found := list(path.glob(pattern))) < count:
        assert time.monotonic() < deadline_s, f"no {pattern} in {path}"
        time.sleep(0.02)
    return found


def test_the_table_of_a_hand_made_trace_is_what_one_counts_on_paper(tmp_path: Path) -> None:
    """Both train at step 0. With MOHAWK Bob's model arrives at step 2 of the two steps at which any can, and
    Ann's never does; HierFAVG takes a model only one step later, when neither is there. Nobody trains: no
    process of a rehearsal waits for torch."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('who needs it?')\n")  # found first
    write_trace(two_walks(), tmp_path / "walks.parquet")
    (tmp_path / "walks.toml").write_text('[trace]\nfile = "walks.parquet"\n[fleet]\nagents = 2\naps = 0\n')
    (tmp_path / "paper.toml").write_text(
        'experiment = "walks.toml"\nfleet = "rehearsal"\nmetrics = ["aggregated_per_step", "wasted_share"]\n'
        '[grid]\nsystems = ["mohawk", "hierfavg"]\n'
    )
    done = subprocess.run(
        [*CLI, "sweep", "paper.toml", "--jobs", "1"],
        capture_output=True,
        text=True,
        timeout=110,
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "runs" / "paper" / "table.json").read_text())["rows"]
    assert [(row["values"]["system"], row["finished"]) for row in rows] == [("mohawk", 1), ("hierfavg", 1)]
    means = [
        [row["metrics"][name]["mean"] for name in ("aggregated_per_step", "wasted_share")] for row in rows
    ]
    assert means == [[0.5, 0.5], [0.0, 1.0]]
    assert "2 runs: 2 points of the grid, 1 seed; 0 finished already, 2 to run, 1 at a time" in done.stdout

    again = sweep("paper.toml", "--table", cwd=tmp_path)
    assert again.stdout.split("\n")[-4:] == [*done.stdout.split("\n")[-8:-5], ""]


def test_runs_of_a_version_with_fewer_keys_are_kept_where_new_keys_have_their_defaults(
    tmp_path: Path,
) -> None:
    write_trace(two_walks(), tmp_path / "walks.parquet")
    (tmp_path / "s.toml").write_text(
        'fleet = "rehearsal"\nmetrics = ["wasted_share"]\n[experiment]\ntrace = { file = "walks.parquet" }\n'
        'fleet = { agents = 2, aps = 0 }\n[grid]\nsystems = ["mohawk", "hierfavg"]\n'
    )
    folder = tmp_path / "runs" / "s"
    assert sweep("s.toml", "--jobs", "1", cwd=tmp_path).returncode == 0
    table = (folder / "table.csv").read_bytes()
    for number, path in enumerate(sorted(folder.glob("points/*"))):  # HierFAVG's first
        for name in ("point.json", "result.json"):
            kept = json.loads((path / name).read_text())
            if name == "point.json":
                del kept["config"]["battery"]
                if number == 0:
                    kept["config"]["fleet"]["deadline_s"] = 7.0  # of another experiment
            (path / name).write_text(json.dumps(kept | {"key": str(number) * 32}))
        path.rename(path.with_name(f"{path.name[:-10]}{str(number) * 10}"))
    again = sweep("s.toml", "--jobs", "1", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "1 finished already, 1 to run" in again.stdout
    assert (folder / "table.csv").read_bytes() == table
    assert "2 finished already, 0 to run" in sweep("s.toml", "--jobs", "1", cwd=tmp_path).stdout
    assert len(list(folder.glob("points/*"))) == 3


def test_a_killed_sweep_goes_on_and_ends_with_the_table_of_one_that_was_not(tmp_path: Path) -> None:
    """The second point, ten days long, is killed with its sweep; the first is kept as it is."""
    (tmp_path / "days.toml").write_text(
        'systems = ["mohawk"]\n[trace]\nparameters = { devices = 60, steps = 240 }\n[fleet]\nagents = 60\n'
    )
    (tmp_path / "s.toml").write_text(
        'experiment = "days.toml"\nfleet = "rehearsal"\n[grid]\ntrace.steps = [4, 240]\n'
    )
    killed = tmp_path / "killed"
    with started("sweep", "s.toml", "--jobs", "1", "-o", str(killed), cwd=tmp_path) as (first, _, _):
        (kept,) = wait_for(killed, "points/*/result.json")
        running = wait_for(killed, "points/*/runs/*/events.sqlite", count=2)
        first.kill()
        first.wait()
    (point,) = {path.parents[2] for path in running} - {kept.parent}
    deadline_s = time.monotonic() + 60.0
    while is_held(point / "lock"):  # nothing of a killed sweep goes on computing
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert not (point / "result.json").exists()
    before = kept.stat().st_mtime_ns

    resumed = sweep("s.toml", "-o", str(killed), cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    assert "1 finished already, 1 to run" in resumed.stdout
    assert kept.stat().st_mtime_ns == before
    straight = sweep("s.toml", "--jobs", "2", "-o", "straight", cwd=tmp_path)
    assert straight.returncode == 0, straight.stderr
    for name in ("table.csv", "table.json", "table.parquet"):
        assert (killed / name).read_bytes() == (tmp_path / "straight" / name).read_bytes(), name
    short, days = pq.read_table(killed / "table.parquet").to_pylist()
    assert [short["trace.steps"], days["trace.steps"]] == [4, 240]
    assert short["aggregated_per_step_n"] == days["aggregated_per_step_n"] == 1
    assert short["aggregated_per_step_mean"] != days["aggregated_per_step_mean"]


def test_a_point_that_fails_says_why_and_the_others_finish(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "s.toml").write_text(
        'experiment = "tiny.toml"\n[grid]\nlearning.images_per_device = [99999, 16]\ntrace.steps = [2]\n'
    )
    done = sweep("s.toml", "--jobs", "1", cwd=tmp_path)
    assert done.returncode == 1
    reason = "images_per_device = 99999: the training set has 1437 images"
    assert f"1/2 system=mohawk learning.images_per_device=99999 trace.steps=2 seed=3  failed: {reason}" in (
        done.stdout
    )
    assert "2/2 system=mohawk learning.images_per_device=16 trace.steps=2 seed=3  finished" in done.stdout
    assert done.stderr.splitlines()[-1] == "roambench: 1 of 2 runs failed"
    assert "Traceback" not in done.stderr
    document = json.loads((tmp_path / "runs" / "s" / "table.json").read_text())
    assert [point["state"] for point in document["points"]] == ["failed", "finished"]
    assert document["points"][0]["reason"] == reason
    checked = sweep("s.toml", "--check", cwd=tmp_path)
    assert "1 finished already, 1 to run" in checked.stdout  # what failed is tried again


@pytest.mark.parametrize("jobs", sampled([2], [1, 2]))
def test_ctrl_c_stops_the_points_and_leaves_a_sweep_that_goes_on(tmp_path: Path, jobs: int) -> None:
    (tmp_path / "tiny.toml").write_text(TINY.replace("steps = 6", "steps = 400"))
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 2\n')
    words = ("sweep", "s.toml", "--jobs", str(jobs), "-o", "o")
    with started(*words, cwd=tmp_path) as (running, printed, errors):
        workers = wait_for(tmp_path / "o", "points/*/runs/*/simulation/workers.json", jobs)
        running.send_signal(signal.SIGINT)
        assert "interrupted: 0 of 2 runs are kept; the same command goes on from here" in printed.read()
        assert running.wait(120) == 130
        assert "Traceback" not in errors.read_text()
    for run in (path.parents[1] for path in workers):
        assert (
            json.loads((run / "run.json").read_text())["state"] == "interrupted"
        )  # in good order, not killed
        assert not is_held(run.parents[1] / "lock")
    assert not is_held(tmp_path / "o" / "lock")
    # Which runs it is of stands there from its beginning on.
    table = json.loads((tmp_path / "o" / "table.json").read_text())
    assert [point["state"] for point in table["points"]] == ["open", "open"]


def test_data_sets_and_traces_that_are_missing_are_told_once_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROAMBENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "words.md").write_text("no trace\n")
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "s.toml").write_text(
        'experiment = "tiny.toml"\n[grid]\nlearning.dataset = ["digits", "mnist"]\nseeds = 2\n'
    )
    for more in (["--check"], ["--check", "--json"], []):
        refused = sweep("s.toml", "-o", "o", "--trace", "words.md", *more, cwd=tmp_path)
        assert refused.returncode == 2
        *files, way, trace = refused.stderr.splitlines()
        assert len(files) == 4
        assert all(": missing MNIST file" in line for line in files)
        assert "learning.download=true fetches it (--set)" in way
        assert "words.md: expected a trace (Parquet)" in trace
    assert not (tmp_path / "o").exists()
    # Only what is open needs them.
    folder = SweepFolder(tmp_path / "o")
    for point in points_of(read_sweep(tmp_path / "s.toml")):
        if point.experiment.learning.dataset == "mnist":
            write_outcome(folder.prepare(point, 1), PointEnd(point.key, dict.fromkeys(METRICS)))
    checked = sweep("s.toml", "-o", "o", "--check", cwd=tmp_path)
    assert "2 finished already, 2 to run" in checked.stdout, checked.stderr


def test_settings_that_do_not_fit_the_trace_are_told_once_before_anything_runs(tmp_path: Path) -> None:
    write_trace(two_walks(), tmp_path / "tr.parquet")
    (tmp_path / "s.toml").write_text(
        "fleet = 'rehearsal'\n[experiment.trace]\nfile = 'tr.parquet'\n[experiment.fleet]\nagents = 0\n"
        "[grid]\nfleet.agents = [1, 3]\nfleet.aps = [0, 7]\ntrace.offset = [3]\nseeds = 2\n"
    )
    refused = sweep("s.toml", "-o", "o", cwd=tmp_path)
    assert refused.returncode == 2
    assert [line.split(", got")[0] for line in refused.stderr.splitlines()] == [
        "roambench: trace.offset: expected 0 to 2, as the trace has 3 steps",
        "roambench: fleet.aps: expected 0 (its own 2 access points)",
        "roambench: fleet.agents: expected at most 2, the devices of the trace (0 for all of them)",
    ]
    assert not (tmp_path / "o").exists()


def test_what_fails_many_runs_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        "fleet = 'rehearsal'\n[experiment.trace]\nparameters = { devices = 9, steps = 4 }\n"
        "[experiment.fleet]\nagents = 10\n[grid]\nseed = [4, 5, 6]\n"
    )
    failed = sweep("s.toml", "-o", "o", cwd=tmp_path)
    assert failed.returncode == 1
    why = "fleet.agents: expected at most 9, the devices of the trace (0 for all of them), got 10"
    assert failed.stderr.splitlines() == [
        f"roambench: system=mohawk seed=4 and 5 more runs: {why}",
        "roambench: 6 of 6 runs failed",
    ]


def test_finished_runs_whose_files_are_spoilt_stay_until_these_are_back(tmp_path: Path) -> None:
    run = [*CLI, "trace", "generate", "city", "-o", "tr.parquet"]
    subprocess.run(run, cwd=tmp_path, check=True, stdout=subprocess.DEVNULL)
    whole = (tmp_path / "tr.parquet").read_bytes()
    (tmp_path / "s.toml").write_text(
        "fleet = 'rehearsal'\n[experiment.trace]\nfile = 'tr.parquet'\nsteps = 3\n"
        "[experiment.fleet]\nagents = 3\n[grid]\nseeds = 2\n"
    )
    assert sweep("s.toml", "-o", "o", cwd=tmp_path).returncode == 0
    (tmp_path / "tr.parquet").write_bytes(b"spoilt")
    for more in (["--check"], []):
        refused = sweep("s.toml", "-o", "o", *more, cwd=tmp_path)
        assert refused.returncode == 2
        assert "tr.parquet: expected a trace (Parquet)" in refused.stderr
    (tmp_path / "tr.parquet").write_bytes(whole)
    checked = sweep("s.toml", "-o", "o", "--check", cwd=tmp_path)
    assert "4 finished already, 0 to run" in checked.stdout, checked.stderr


def test_a_data_set_that_is_gone_is_missed_before_its_finished_runs_are_put_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROAMBENCH_DATA", str(tmp_path / "data"))
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nlearning.dataset = ["mnist"]\n')
    (tmp_path / "data").mkdir()
    folder, gone = SweepFolder(tmp_path / "o"), {str(tmp_path / "data" / "mnist.gz"): "12"}
    for point in points_of(read_sweep(tmp_path / "s.toml")):
        end = PointEnd(point.key, dict.fromkeys(METRICS), inputs=gone)
        write_outcome(folder.prepare(point, 1), end)
    for more in (["--check"], []):
        refused = sweep("s.toml", "-o", "o", *more, cwd=tmp_path)
        assert refused.returncode == 2
        assert "learning.download=true fetches it (--set)" in refused.stderr
    assert not list((tmp_path / "o").glob("points/*/attempts"))


def test_a_second_ctrl_c_leaves_a_point_that_does_not_stop(tmp_path: Path) -> None:
    """It ends by itself when it can."""
    (tmp_path / "tiny.toml").write_text(TINY.replace("steps = 6", "steps = 400"))
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 1\n')
    with (tmp_path / "errors").open("w") as errors:
        running = subprocess.Popen(
            [*CLI, "sweep", "s.toml", "-o", "o"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=errors
        )
    (workers,) = wait_for(tmp_path / "o", "points/*/runs/*/simulation/workers.json")
    (point,) = psutil.Process(running.pid).children()
    point.suspend()
    try:
        running.send_signal(signal.SIGINT)
        while "stopping: " not in (tmp_path / "errors").read_text():
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=100) == 130
        assert point.status() == psutil.STATUS_STOPPED  # not killed
    finally:
        point.resume()
    info = workers.parents[1] / "run.json"
    while is_held(info.parents[2] / "lock"):
        time.sleep(0.05)
    assert json.loads(info.read_text())["state"] == "interrupted"
    assert "Traceback" not in (tmp_path / "errors").read_text()


def test_a_point_of_a_sweep_in_the_background_stops_in_good_order_too(tmp_path: Path) -> None:
    """A script's background command ignores Ctrl-C, and so does all that it starts; a killed sweep's point
    must not."""
    (tmp_path / "tiny.toml").write_text(TINY.replace("steps = 6", "steps = 400"))
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 1\n')
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        running = subprocess.Popen(
            [*CLI, "sweep", "s.toml", "--jobs", "1", "-o", "o"], cwd=tmp_path, stdout=subprocess.DEVNULL
        )
    finally:
        signal.signal(signal.SIGINT, before)
    (workers,) = wait_for(tmp_path / "o", "points/*/runs/*/simulation/workers.json")
    info = workers.parents[1] / "run.json"
    running.send_signal(signal.SIGTERM)
    running.wait(timeout=60)
    deadline_s = time.monotonic() + 90.0
    while is_held(info.parents[2] / "lock"):
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
    assert json.loads(info.read_text())["state"] == "interrupted"


def outcomes(out: Path) -> dict[int, dict[str, object]]:
    """Of every point that has ended, by its seed."""
    found = {}
    for path in out.glob("points/*/result.json"):
        seed = json.loads((path.parent / "point.json").read_text())["config"]["seed"]
        found[seed] = json.loads(path.read_text())
    return found


def test_what_is_loaded_before_the_forks_has_no_grpc_and_no_threads_of_torch() -> None:
    """What is forked of a process with grpc hangs; so does what is forked while a thread holds a lock."""
    code = (
        "import importlib, os, sys\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "assert 'torch' in sys.modules and 'grpc' not in sys.modules\n"
        "print([open(f'/proc/self/task/{one}/comm').read().strip() for one in os.listdir('/proc/self/task')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, _POINT, *_MEETING, *_TRAINING],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
    )
    threads = [
        name for name in eval(done.stdout) if name != "jemalloc_bg_thd"
    ]  # pyarrow's, which knows forks
    assert len(threads) == 1


def test_a_point_that_was_forked_has_the_figures_of_one_that_was_executed(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 2\n')
    sweep("s.toml", "--jobs", "2", "-o", "o", cwd=tmp_path).check_returncode()
    folder = next((tmp_path / "o" / "points").iterdir())
    forked = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    (folder / "runs").rename(folder / "forked")
    with subprocess.Popen([sys.executable, "-m", _POINT, str(folder)], stdin=subprocess.PIPE) as alone:
        assert alone.wait() == 0  # its standard input stays open: an end of it is the sweep's
    executed = json.loads((folder / "result.json").read_text())
    for time_of in ("wall_s", "began", "ended"):
        del forked[time_of], executed[time_of]
    assert executed == forked


def test_points_that_run_one_at_a_time_come_from_one_process_and_one_that_dies_harms_no_other(
    tmp_path: Path,
) -> None:
    (tmp_path / "tiny.toml").write_text(TINY.replace("steps = 6", "steps = 48"))
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 3\n')
    running = subprocess.Popen(
        [*CLI, "sweep", "s.toml", "--jobs", "1", "-o", "o"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(tmp_path / "o", "points/*/lock")
    (server,) = psutil.Process(running.pid).children()
    (point,) = (child for child in server.children() if os.getsid(child.pid) == child.pid)
    point.kill()
    wait_for(tmp_path / "o", "points/*/lock", 2)
    assert psutil.Process(running.pid).children() == [server]
    _, errors = running.communicate(timeout=200)
    assert errors.splitlines()[-1] == "roambench: 1 of 3 runs failed"
    assert not server.is_running()
    reasons = sorted(str(outcome["reason"]) for outcome in outcomes(tmp_path / "o").values())
    assert reasons[:2] == ["", ""]
    assert reasons[2].startswith("its process was killed by SIGKILL; see ")


def test_a_killed_point_harms_no_other_and_neither_does_the_death_of_what_forks_them(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(TINY.replace("steps = 6", "steps = 96"))
    (tmp_path / "s.toml").write_text('experiment = "tiny.toml"\n[grid]\nseeds = 3\n')
    running = subprocess.Popen(
        [*CLI, "sweep", "s.toml", "--jobs", "2", "-o", "o"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(tmp_path / "o", "points/*/lock", 2)
    (server,) = psutil.Process(running.pid).children()
    points = [child for child in server.children() if os.getsid(child.pid) == child.pid]
    assert len(points) == 2
    points[0].kill()
    deadline_s = time.monotonic() + 60.0
    while len(outcomes(tmp_path / "o")) < 1:
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    server.kill()
    _, errors = running.communicate(timeout=200)
    assert running.returncode == 1, errors
    assert errors.splitlines()[-1] == "roambench: 1 of 3 runs failed"
    ended = outcomes(tmp_path / "o")
    reasons = sorted(str(outcome["reason"]) for outcome in ended.values())
    assert len(ended) == 3
    assert reasons[:2] == ["", ""]
    assert reasons[2].startswith("its process was killed by SIGKILL; see ")
