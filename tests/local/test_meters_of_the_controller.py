"""A bench on which the controller reads one board's meter, and the other board reads its own."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator

import pytest

from living_agents import LivingBench
from roambench.contract.records import RecordKind
from roambench.provision.meters_here import meters_here
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import account_run
from roambench.runs.measured.clocks import ReaderCase

pytestmark = [pytest.mark.timeout(300)]

NAMES = ("board-a", "board-b")
EXPERIMENT = """
name = "here"
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
    living = LivingBench(tmp_path_factory.mktemp("bench"), NAMES, readers={"board-a": "controller"})
    living.start()
    yield living
    living.stop()


@pytest.fixture(scope="module")
def run(launch, bench: LivingBench) -> Iterator[RunFolder]:
    file = bench.folder / "experiment.toml"
    file.write_text(EXPERIMENT)
    words = ("--fleet", f"bench:{bench.file}", "--no-preflight", "--unproven")
    ended = launch(file=file, name="here", words=words).finish(200)
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


def test_the_report_says_who_reads_which_meter(run: RunFolder) -> None:
    clocks = {board.device: board.clock for board in account_run(run, list(run.read_log())).devices}
    assert (clocks["board-a"].case, clocks["board-b"].case) == (ReaderCase.REMOTE, ReaderCase.LOCAL)
    assert clocks["board-a"].sentence().startswith("board-a: controller reads its meter; bound ")


def test_a_board_has_one_reader(run: RunFolder, bench: LivingBench) -> None:
    """Its own agent has no meter; the readings come from another spool than its phases."""
    assert bench.status("board-a")["meter"]["description"] is None
    spools = {
        kind: {uuid for uuid, _, _ in run.records.placed("board-a", kind)}
        for kind in (RecordKind.READING, RecordKind.PHASE)
    }
    assert not spools[RecordKind.READING] & spools[RecordKind.PHASE]


def test_a_proof_hears_it_as_an_agent_would(run: RunFolder, bench: LivingBench) -> None:
    with meters_here(bench.bench, bench.bench.hosts) as here:
        assert set(here) == {"board-a"}
        heard = here["board-a"]
        while heard.watch.readings < 3:
            time.sleep(0.05)
        now_s, power = heard.readings(30.0)
        assert (power.at_s <= now_s).all()
        assert (power.watts > 1.0).all()
        assert heard.status()["state"] == "ok"
