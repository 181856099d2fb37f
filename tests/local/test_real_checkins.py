"""The commands a user types: real check-ins imported, replayed on agents that learn real MNIST, compared."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from roambench.mobility.files import content_hash, read_trace
from roambench.mobility.selection import busiest_devices, busiest_window_start, window, with_aps
from roambench.rounds.records import EdgeAggregated, OrderAnswered, OrderGiven, StepClosed, StepOpened
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow]

SYSTEMS = ("mohawk", "hierfavg")
DEMO = Path(__file__).resolve().parents[2] / "experiments" / "demo_full.toml"
STEPS = 6


@pytest.fixture(scope="module")
def trace(launch, data_folder: Path) -> Path:
    """New York, 744 hours from 17 April 2012."""
    checkins = data_folder / "traces" / "fsq_tsmc2014_nyc_147938.csv.xz"
    if not checkins.is_file():
        pytest.skip(f"no {checkins.name} in the data folder")
    path = launch.base / "nyc.parquet"
    where_and_when = ["--box", "40.7350,-73.9900,17500", "--from", "2012-04-17T00:00Z"]
    command = [launch.roambench, "trace", "import", "checkins", str(checkins), "-o", str(path)]
    done = subprocess.run([*command, *where_and_when], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "744 steps, 882 devices, 18054 fixes" in done.stdout
    return path


@pytest.fixture(scope="module")
def run(launch, data_folder: Path, trace: Path):
    mnist = data_folder / "mnist"
    if not mnist.is_dir():
        pytest.skip("no mnist in the data folder")
    return launch(
        f"trace.steps={STEPS}",
        'learning.dataset="mnist"',
        f'learning.data_path="{mnist}"',
        "learning.test_images=1000",
        "local.time_scale=8",
        "energy.idle_baseline_s=4",
        "rounds.rest_s=0",
        file=DEMO,
        name="demo-full",
        words=("--fleet", "local", "--trace", str(trace)),
    ).finish()


@pytest.mark.parametrize("system", SYSTEMS)
def test_eight_agents_follow_eight_real_people_to_the_end(run, trace, system):
    folder = RunFolder.open(run.folder(system))
    assert folder.info.state is RunState.FINISHED
    assert len(folder.info.device_names) == 8
    folder.close()
    whole = read_trace(trace)
    replayed = read_trace(run.folder(system) / "trace.parquet")
    busiest = busiest_devices(window(whole, busiest_window_start(whole, STEPS, 8), STEPS), 8)
    assert content_hash(replayed) == content_hash(with_aps(busiest, 20, 42))
    assert (replayed.steps, len(replayed.ap_names), len(replayed.device_names)) == (STEPS, 20, 8)
    assert set(replayed.device_names) <= set(whole.device_names)
    present = [record.devices for record in run.of(StepOpened, system)]
    assert present == [tuple(replayed.present(step).tolist()) for step in range(STEPS)]
    assert 0 < min(map(len, present)) < max(map(len, present)) <= 8
    assert [record.step for record in run.of(StepClosed, system)] == list(range(STEPS))


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_they_train_is_mnist_and_every_order_is_done(run, system):
    answers = run.of(OrderAnswered, system)
    assert {answer.status for answer in answers} == {"done"}
    given = Counter(order.kind for order in run.of(OrderGiven, system))
    assert given["train"] > 20
    assert given["upload"] == sum(len(record.devices) for record in run.of(EdgeAggregated, system)) > 8
    assert {answer.samples for answer in answers if answer.order_id.endswith("train")} == {120}
    closed = run.of(StepClosed, system)
    assert closed[0].accuracy < 0.2  # drawn weights
    assert closed[-1].accuracy > closed[0].accuracy + 0.05  # k2 = 5: one cloud aggregation


def test_mohawk_saves_uploads_that_hierfavg_wastes(run):
    uploads = [sum(order.kind == "upload" for order in run.of(OrderGiven, system)) for system in SYSTEMS]
    assert uploads[0] > uploads[1]


def test_the_report_compares_the_joules_of_both(run, launch):
    command = [launch.roambench, "report", *(str(run.folder(system)) for system in SYSTEMS), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [found["system"] for found in report["runs"]] == list(SYSTEMS)
    mohawk, hierfavg = report["runs"]
    for found in (mohawk, hierfavg):
        assert 0.0 < found["wasted_j"] < found["consumed_j"] < found["energy"]["whole_run"]["joules"]
        assert found["trainings"]["wasted"] > 0
        assert found["energy"]["truth"]["boards"] == 8
        assert abs(found["energy"]["truth"]["relative_error"]) < 0.02
        assert (
            0.0 < found["modelled_j"]["download"] < found["modelled_j"]["upload"]
        )  # Eq. 1: sending costs more
    assert mohawk["trainings"]["wasted_share"] < hierfavg["trainings"]["wasted_share"]
    assert mohawk["wasted_j"] < hierfavg["wasted_j"]
    page = (run.runs_dir / "demo-full/latest/report.html").read_text()
    assert "demo-mohawk" in page
    assert "demo-hierfavg" in page
