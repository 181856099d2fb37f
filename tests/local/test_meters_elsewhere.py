"""A bench whose boards' meters hang elsewhere: board-a's on board-b, which reads its own, too, and board-c's
on the controller. Readers die, and are back.

The first run has no trouble. In the second board-b is killed and started again, board-c's meter is unplugged
and put in again, and at last the controller is killed and the run resumed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from by_chance import assert_by_chance, whole_runs_off_u
from forked_commands import Command
from living_agents import LivingBench
from roambench.contract.events import EventKind
from roambench.contract.phases import Phase
from roambench.contract.records import RecordKind
from roambench.emulation.control import inject
from roambench.emulation.spec import Fault, FaultKind
from roambench.provision.meters_here import meters_here
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.measured.accounts import DeviceEnergy, account_run
from roambench.runs.measured.clocks import ReaderCase

pytestmark = [pytest.mark.timeout(600)]

NAMES = ("board-a", "board-b", "board-c")
READERS = {"board-a": "board-b", "board-c": "controller"}
EXPERIMENT = """
name = "there"
seed = 11
systems = ["mohawk"]
trace.generator = "city"
trace.window = "first"
trace.steps = 2
trace.parameters = { presence = "always", devices = 3, steps = 40, places = 200, aps = 20 }
fleet = { agents = 3, aps = 5 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 200 }
rounds = { rest_s = 0.0 }
energy = { idle_baseline_s = 3.0, quiet = false }
"""
#: Boards rest between phases, so that steps take seconds.
TROUBLED = ('name="troubled"', "trace.steps=8", "rounds.rest_s=1.5")


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivingBench]:
    living = LivingBench(tmp_path_factory.mktemp("bench"), NAMES, readers=READERS)
    living.start()
    (living.folder / "experiment.toml").write_text(EXPERIMENT)
    yield living
    living.stop()


def words(bench: LivingBench) -> tuple[str, ...]:
    return "--fleet", f"bench:{bench.file}", "--no-preflight", "--unproven"


def account(run: RunFolder, bench: LivingBench) -> dict[str, DeviceEnergy]:
    truth = run.path / "truth"
    truth.mkdir(exist_ok=True)
    for name in NAMES:  # the meters' own process keeps it beside the bench
        shutil.copy(bench.folder / f"{name}.csv", truth)
    energy = account_run(run, list(run.read_log()))
    assert energy is not None
    return {board.device: board for board in energy.devices}


@pytest.fixture(scope="module")
def run(launch, bench: LivingBench) -> Iterator[RunFolder]:
    file = bench.folder / "experiment.toml"
    ended = launch(file=file, name="there", words=words(bench)).finish(200)
    with RunFolder.open(ended.folder()) as folder:
        yield folder


@pytest.fixture(scope="module")
def boards(run: RunFolder, bench: LivingBench) -> dict[str, DeviceEnergy]:
    return account(run, bench)


def test_all_boards_have_the_joules_that_the_emulator_gave_them(
    run: RunFolder, boards: dict[str, DeviceEnergy]
) -> None:
    assert run.info.state is RunState.FINISHED
    assert_by_chance(whole_runs_off_u(boards.values()))
    assert min(board.whole_run.coverage for board in boards.values()) > 0.95


def test_the_report_says_who_reads_which_meter(boards: dict[str, DeviceEnergy]) -> None:
    remote = {name for name, board in boards.items() if board.clock.case is ReaderCase.REMOTE}
    assert remote == set(READERS)
    for name, reader in READERS.items():
        assert boards[name].clock.sentence().startswith(f"{name}: {reader} reads its meter; bound ")


def test_readings_come_from_a_spool_of_the_reader_and_nothing_is_left_there(
    run: RunFolder, bench: LivingBench
) -> None:
    spools = {
        (name, kind): {uuid for uuid, _, _ in run.records.placed(name, kind)}
        for name in NAMES
        for kind in (RecordKind.READING, RecordKind.PHASE)
    }
    for name in READERS:
        assert not spools[name, RecordKind.READING] & spools[name, RecordKind.PHASE]
    assert not spools["board-a", RecordKind.READING] & spools["board-b", RecordKind.READING]
    kept = bench.folder / "board-b" / "state" / "neighbours" / "board-a" / "unsent"
    assert not [path for path in kept.iterdir() if path.stem == run.info.run_id.encode().hex()]


def test_each_agent_says_which_meters_it_reads(run: RunFolder, bench: LivingBench) -> None:
    statuses = {name: bench.status(name) for name in NAMES}
    for name in READERS:
        assert (statuses[name]["meter"]["description"], statuses[name]["neighbours"]) == (None, {})
    assert statuses["board-b"]["neighbours"]["board-a"]["state"] == "ok"
    (own,), (other,) = (
        bench.ctl("board-b", "readings", "20"),
        bench.ctl("board-b", "readings", "20", "board-a"),
    )
    assert len(own["ns"]) > 0
    assert len(other["ns"]) > 0
    assert own["ns"] != other["ns"]
    (refused,) = bench.ctl("board-a", "readings", "20", "board-b")
    assert refused == {"error": "readings: this agent reads no meter of 'board-b'"}


def test_a_proof_hears_the_controllers_meter_as_an_agent_would(run: RunFolder, bench: LivingBench) -> None:
    with meters_here(bench.bench, bench.bench.hosts) as here:
        assert set(here) == {"board-c"}
        heard = here["board-c"]
        while heard.watch.readings < 3:
            time.sleep(0.05)
        now_s, power = heard.readings(30.0)
        assert (power.at_s <= now_s).all()
        assert (power.watts > 1.0).all()
        assert heard.status()["state"] == "ok"


@dataclass
class Trouble:
    """The run, its account, and when each reader was gone, on the one clock of this machine."""

    run: RunFolder
    boards: dict[str, DeviceEnergy]
    killed: tuple[int, int]  # board-b, which reads board-a's meter
    unplugged: tuple[int, int]  # the controller's meter
    dead: tuple[int, int]  # the controller


@pytest.fixture(scope="module")
def trouble(launch, bench: LivingBench, run: RunFolder, tmp_path_factory) -> Iterator[Trouble]:
    file = bench.folder / "experiment.toml"
    begun = launch(*TROUBLED, file=file, name="troubled", words=words(bench))
    begun.wait_for_event(EventKind.TRAIN_FINISHED, "board-b", "%/00001/00001/train")
    killed_ns = time.monotonic_ns()
    bench.kill("board-b")
    time.sleep(2.0)  # systemd's RestartSec
    bench.start_agent("board-b")
    back_ns = time.monotonic_ns()
    begun.wait_for_event(EventKind.TRAIN_FINISHED, "board-b", "%/00003/00001/train")
    unplugged_ns = time.monotonic_ns()
    inject(bench.folder / "work.sock", "board-c", Fault(FaultKind.UNPLUG, duration_s=3.0))
    in_again_ns = time.monotonic_ns() + 3_000_000_000
    begun.wait_for_event(EventKind.TRAIN_FINISHED, "board-b", "%/00005/00001/train")
    dead_ns = time.monotonic_ns()
    begun.process.kill()
    begun.process.wait()
    time.sleep(3.0)  # who resumes it is a person
    log = tmp_path_factory.mktemp("resumed") / "log"
    with log.open("wb") as out:
        resumed = Command(["resume", str(begun.folder())], Path(), out.fileno(), log)
    resumed_ns = time.monotonic_ns()
    assert resumed.wait(200) == 0, log.read_text()
    with RunFolder.open(begun.folder()) as folder:
        yield Trouble(
            folder,
            account(folder, bench),
            (killed_ns, back_ns),
            (unplugged_ns, in_again_ns),
            (dead_ns, resumed_ns),
        )


def gap_s(board: DeviceEnergy, gone: tuple[int, int]) -> float:
    """Seconds of its longest time without a line that has part of `gone`."""
    ns = np.sort(board.readings.ns)  # samples have none of the time without a controller
    begins, ends = ns[:-1], ns[1:]
    return float(np.max((ends - begins)[(begins < gone[1]) & (ends > gone[0])])) * 1e-9


def lost(board: DeviceEnergy, gone: tuple[int, int]) -> int:
    """How many of its phases then were lost."""
    return sum(
        span.phase is Phase.LOST and span.start_ns < gone[1] and span.end_ns > gone[0] for span in board.spans
    )


def test_a_reader_that_dies_leaves_a_gap_in_all_that_it_reads_and_nowhere_else(trouble: Trouble) -> None:
    gaps_s = {name: gap_s(board, trouble.killed) for name, board in trouble.boards.items()}
    for name in ("board-a", "board-b"):
        assert gaps_s[name] > 2.0, gaps_s
        assert trouble.boards[name].samples.ns.max() > trouble.unplugged[0]  # it reads on
    assert gaps_s["board-c"] < 0.5 * min(gaps_s["board-a"], gaps_s["board-b"]), gaps_s


def test_a_board_whose_meters_reader_died_worked_on(trouble: Trouble) -> None:
    assert {name: lost(board, trouble.killed) for name, board in trouble.boards.items()} == {
        "board-a": 0,
        "board-b": 1,
        "board-c": 0,
    }


def test_a_meter_that_was_unplugged_from_the_controller_is_told_and_read_on(trouble: Trouble) -> None:
    gaps_s = {name: gap_s(board, trouble.unplugged) for name, board in trouble.boards.items()}
    assert gaps_s["board-c"] > 2.5, gaps_s
    assert max(gaps_s["board-a"], gaps_s["board-b"]) < gaps_s["board-c"], gaps_s
    events = {
        kind: [event.monotonic_ns for event in trouble.boards["board-c"].events if event.kind == kind]
        for kind in (EventKind.METER_LOST, EventKind.METER_OK)
    }
    (lost_ns,) = [ns for ns in events[EventKind.METER_LOST] if ns > trouble.unplugged[0]]
    assert any(lost_ns < ns < trouble.dead[0] for ns in events[EventKind.METER_OK])


def test_a_controller_that_died_left_a_gap_in_its_own_meter_alone(trouble: Trouble) -> None:
    assert trouble.run.info.state is RunState.FINISHED
    gaps_s = {name: gap_s(board, trouble.dead) for name, board in trouble.boards.items()}
    assert gaps_s["board-c"] > 1.5, gaps_s
    assert max(gaps_s["board-a"], gaps_s["board-b"]) < gaps_s["board-c"], gaps_s
    assert trouble.boards["board-c"].samples.ns.max() > trouble.dead[1] + 1e9


def test_the_joules_that_were_measured_are_the_emulators_and_the_rest_is_told(trouble: Trouble) -> None:
    assert_by_chance(whole_runs_off_u(trouble.boards.values()))
    for board in trouble.boards.values():
        assert board.whole_run.gap_s > 1.0
        assert board.whole_run.coverage < 0.99
