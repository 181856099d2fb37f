"""A bench on which one board reads two meters: its own, and that of its neighbour."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from living_agents import LivingBench
from roambench.contract.records import RecordKind
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import account_run
from roambench.runs.measured.clocks import ReaderCase

pytestmark = [pytest.mark.timeout(300)]

NAMES = ("board-a", "board-b")
EXPERIMENT = """
name = "there"
seed = 11
systems = ["mohawk"]

[trace]
generator = "city"
window = "first"
steps = 2

[trace.parameters]
presence = "always"
devices = 2
steps = 4
places = 200
aps = 20

[fleet]
agents = 2
aps = 5

[learning]
dataset = "digits"
model = "mlp"
images_per_device = 40
test_images = 200

[rounds]
rest_s = 0.0

[energy]
idle_baseline_s = 3.0
quiet = false
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingBench]:
    living = LivingBench(tmp_path_factory.mktemp("bench"), NAMES, readers={"board-a": "board-b"})
    living.start()
    yield living
    living.stop()


@pytest.fixture(scope="module")
def run(launch, bench: LivingBench) -> Iterator[RunFolder]:
    file = bench.folder / "experiment.toml"
    file.write_text(EXPERIMENT)
    words = ("--fleet", f"bench:{bench.file}", "--no-preflight", "--unproven")
    ended = launch(file=file, name="there", words=words).finish(200)
    with RunFolder.open(ended.folder()) as folder:
        truth = folder.path / "truth"
        truth.mkdir(exist_ok=True)
        for name in NAMES:  # the meters' own process keeps it beside the bench
            shutil.copy(bench.folder / f"{name}.csv", truth)
        yield folder


def test_both_boards_have_the_joules_that_the_emulator_gave_them(run: RunFolder) -> None:
    assert run.info.state is RunState.FINISHED
    for board in account_run(run, list(run.read_log())).devices:
        whole, truth = board.whole_run, board.truth
        assert truth is not None
        assert whole.coverage > 0.95
        assert abs(whole.joules - truth.whole_j) < 2.0 * whole.u_joules, board.device


def test_the_report_says_whose_clock_stamped_the_readings(run: RunFolder) -> None:
    clocks = {board.device: board.clock for board in account_run(run, list(run.read_log())).devices}
    assert (clocks["board-a"].case, clocks["board-b"].case) == (ReaderCase.REMOTE, ReaderCase.LOCAL)
    assert clocks["board-a"].sentence().startswith("board-a: board-b reads its meter; bound ")


def test_the_readings_come_from_a_spool_of_the_reader_and_nothing_is_left_there(
    run: RunFolder, bench: LivingBench
) -> None:
    spools = {
        (name, kind): {uuid for uuid, _, _ in run.records.placed(name, kind)}
        for name in NAMES
        for kind in (RecordKind.READING, RecordKind.PHASE)
    }
    assert not spools["board-a", RecordKind.READING] & spools["board-a", RecordKind.PHASE]
    assert not spools["board-a", RecordKind.READING] & spools["board-b", RecordKind.READING]
    kept = bench.folder / "board-b" / "state" / "neighbours" / "board-a" / "unsent"
    assert not [path for path in kept.iterdir() if path.stem == run.info.run_id.encode().hex()]


def test_each_agent_says_which_meters_it_reads(run: RunFolder, bench: LivingBench) -> None:
    metered, reader = bench.status("board-a"), bench.status("board-b")
    assert (metered["meter"]["description"], metered["neighbours"]) == (None, {})
    assert reader["neighbours"]["board-a"]["state"] == "ok"
    (own,), (other,) = (
        bench.ctl("board-b", "readings", "20"),
        bench.ctl("board-b", "readings", "20", "board-a"),
    )
    assert len(own["ns"]) > 0
    assert len(other["ns"]) > 0
    assert own["ns"] != other["ns"]
    (refused,) = bench.ctl("board-a", "readings", "20", "board-b")
    assert refused == {"error": "readings: this agent reads no meter of 'board-b'"}
