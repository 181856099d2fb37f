"""A bench and an experiment: which host plays which device, what the bench file's calibration becomes, and
what is said when hosts do not come."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from rich.console import Console

from hand_agent import bench as hand_bench
from hand_agent import connected, hand_agent
from roambench.contract.errors import ConfigError, FleetError
from roambench.contract.events import EventKind
from roambench.contract.records import Reading
from roambench.energy.uncertainty import MeterCalibration
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.meters.traits import TRAITS
from roambench.provision.inventory.load import load_bench
from roambench.provision.leases.holding import standing_of
from roambench.provision.leases.lease import LeaseBook
from roambench.provision.leases.reserving import reserve
from roambench.rounds.records import StepClosed
from roambench.runner.agents.watch import Watch, observe
from roambench.runner.bench_options import BenchOptions
from roambench.runner.benches.bench_fleet import Patience, _all_ready, arrivals, drain, state_of
from roambench.runner.places.bench import BenchPlace, calibration_of
from roambench.runner.places.local import LocalPlace
from roambench.runner.places.place import new_run_folder
from roambench.runner.screen import warn
from roambench.runner.stopping import to_its_end
from roambench.runs import journal
from roambench.runs.database import sync_log
from roambench.runs.marks import EVENTS
from roambench.spool.record_context import RecordContext
from small_runs import a_run

BENCH = """
state_dir = "state"
[controller]
address = "10.36.0.1"
[[hosts]]
name = "b"
address = "10.36.0.3"
slot = 3
[[hosts]]
name = "a"
address = "10.36.0.2"
slot = 2
tags = ["left"]
[[hosts]]
name = "c"
address = "10.36.0.4"
slot = 1
tags = ["left"]
[hosts.meter]
port = "/dev/ttyUSB0"
gain = 0.5
offset_watts = 0.25
"""
WAIVED = BenchOptions(preflight=False, unproven=True)


@pytest.fixture
def file(tmp_path: Path) -> str:
    text = BENCH.replace("slot = 3\n", 'slot = 3\nmeter.driver = "none"\n')
    text = text.replace("slot = 2\n", 'slot = 2\nmeter.driver = "none"\n')
    (tmp_path / "bench.toml").write_text(text)
    return str(tmp_path / "bench.toml")


def experiment(tmp_path: Path, *overrides: str):
    path = tmp_path / "e.toml"
    path.write_text('name = "e"\n')
    return load_experiment(path, list(overrides))


def quiet() -> Console:
    return Console(quiet=True)


def test_devices_are_played_in_the_order_of_the_slots(tmp_path, file):
    with BenchPlace.of(experiment(tmp_path, "fleet.agents=2"), file, WAIVED).held(quiet()) as place:
        assert place.names(2) == ("c", "a")
        assert place.experiment.fleet.agents == 2


def test_more_devices_than_hosts_become_as_many_and_the_report_says_so(tmp_path, file):
    with BenchPlace.of(experiment(tmp_path, "fleet.agents=8"), file, WAIVED).held(quiet()) as place:
        assert place.names(3) == ("c", "a", "b")
        assert place.experiment.fleet.agents == 3
        assert "asks for 8 devices; bench bench has 3 hosts" in place.doubts[0]


def test_only_means_hosts_by_name_or_tag(tmp_path, file):
    waived = BenchOptions(only=("left",), preflight=False, unproven=True)
    with BenchPlace.of(experiment(tmp_path, "fleet.agents=2"), file, waived).held(quiet()) as place:
        assert place.names(2) == ("c", "a")
    with pytest.raises(ConfigError, match="right"):
        BenchPlace.of(experiment(tmp_path), file, BenchOptions(only=("right",)))


def test_a_board_whose_meter_hangs_on_a_host_that_takes_no_part_is_refused(tmp_path, file):
    path = Path(file)
    path.write_text(path.read_text().replace("gain = 0.5", 'host = "b"\ngain = 0.5'))
    with pytest.raises(ConfigError) as refused:
        BenchPlace.of(experiment(tmp_path), file, BenchOptions(only=("left",)))
    assert list(refused.value.problems) == [
        "bench.toml: c: its meter hangs on b, which takes no part in the run: add it, or leave c out"
    ]
    assert BenchPlace.of(experiment(tmp_path, "fleet.agents=3"), file, WAIVED).names(3) == ("c", "a", "b")


def test_boards_that_cannot_be_on_batteries_are_refused_with_each_reason(tmp_path, file):
    path = Path(file)
    text = path.read_text().replace("gain = 0.5", 'host = "b"\ngain = 0.5')
    path.write_text(text)
    on_batteries = experiment(tmp_path, "fleet.agents=3", "battery.capacity_wh=10")
    with pytest.raises(ConfigError) as refused:
        BenchPlace.of(on_batteries, file, WAIVED)
    said = [problem for problem in refused.value.problems if problem.startswith("bench.toml: b: ")]
    assert said[0] == "bench.toml: b: [battery]: no meter says what leaves its battery: leave b out"
    assert (
        said[1] == 'bench.toml: b: [battery]: it reads the meter of c, so its power must stay: cut = "absent"'
    )
    assert "its power cannot be cut (the host has no meter; give it a power table" in said[2]
    (about_c,) = [problem for problem in refused.value.problems if problem.startswith("bench.toml: c: ")]
    assert "name a wifi_hop gateway" in about_c
    assert about_c.endswith('else expected cut = "absent"')
    path.write_text(text.replace("gain = 0.5", 'wifi_hop = "192.168.4.2"\ngain = 0.5'))
    with pytest.raises(ConfigError) as refused:
        BenchPlace.of(on_batteries, file, BenchOptions(only=("c", "b"), preflight=False, unproven=True))
    assert not [problem for problem in refused.value.problems if problem.startswith("bench.toml: c: ")]
    absent = experiment(tmp_path, "fleet.agents=3", "battery.capacity_wh=10", "battery.cut=absent")
    with pytest.raises(ConfigError) as refused:
        BenchPlace.of(absent, file, WAIVED)
    assert [problem.split(": ")[1] for problem in refused.value.problems] == ["a", "b"]


def test_two_users_cannot_run_at_once(tmp_path, file):
    with BenchPlace.of(experiment(tmp_path), file, WAIVED).held(quiet()):
        # Inside one's own lease the same process may go on; another process may not.
        from roambench.provision.leases.holding import LEASE_VARIABLE

        with pytest.MonkeyPatch.context() as elsewhere:
            elsewhere.delenv(LEASE_VARIABLE)
            second = BenchPlace.of(experiment(tmp_path), file, WAIVED).held(quiet())
            with pytest.raises(FleetError, match="bench"), second:
                pass


def test_who_waits_reads_whom_for_and_brackets_are_as_they_were_written(tmp_path, file):
    reserve(load_bench(file), "[/run] or [bold]", 600.0, 0.0, print)
    shown = Console(width=200, file=io.StringIO())
    waiting = BenchOptions(preflight=False, unproven=True, wait_s=0.05)
    with pytest.MonkeyPatch.context() as somebody_else:
        somebody_else.setenv("LOGNAME", "somebody-else")
        with pytest.raises(FleetError), BenchPlace.of(experiment(tmp_path), file, waiting).held(shown):
            pass
    (told,) = [line for line in shown.file.getvalue().splitlines() if "who reserved it until" in line]
    assert told.endswith(": [/run] or [bold]")


def test_a_run_goes_beside_a_command_that_keeps_other_boards_and_tells_of_it(tmp_path, file):
    book = LeaseBook(load_bench(file).state_dir)
    book.step_aside(book.claim("fleet provision"), ["b"])
    without = BenchOptions(only=("left",), preflight=False, unproven=True)
    with BenchPlace.of(experiment(tmp_path, "fleet.agents=2"), file, without).held(quiet()) as place:
        (told,) = [doubt for doubt in place.doubts if "fleet provision" in doubt]
        assert told.startswith("on the same network worked, when it began: ")
        assert told.endswith("keeps b")
    with (
        pytest.raises(FleetError, match="keeps b"),
        BenchPlace.of(experiment(tmp_path), file, WAIVED).held(quiet()),
    ):
        pass


def test_what_a_board_reads_after_its_run_is_none_of_the_runs_and_counts_as_stored(tmp_path):
    """It goes on reading its meter while it drains."""
    place = LocalPlace(Experiment(seed=1))
    with new_run_folder(place, tmp_path / "run", system="mohawk", trace_hash="0", devices=1) as folder:
        watch, run = Watch(folder), RecordContext("boot", "0/1.0", 0, "smartpower2", folder.info.run_id)

        def store(first: int, *contexts: RecordContext) -> int:
            """Each context's event, and a reading."""
            records = []
            for seq, context in enumerate(contexts):
                records.append((first + 2 * seq, 3, context.to_event(1).to_bytes()))
                records.append((first + 2 * seq + 1, 1, Reading(first + seq, 5.0, 1.0, 5.0).to_bytes()))
            with watch.together():
                return watch.store("pi-01", "spool", records)

        between = replace(run, run="")
        assert [store(1, run, between), store(1, run, between), store(5, between)] == [4, 4, 6]
        assert folder.records.ends() == {"pi-01": {"spool": 2}}
        assert store(7, run) == 8  # it is resumed
        assert sum(folder.records.counts("pi-01").values()) == 4


def test_drains_that_are_stored_together_sync_the_event_log_once(tmp_path, monkeypatch):
    synced, place = [], LocalPlace(Experiment(seed=1))
    monkeypatch.setattr(journal, "sync_log", lambda path: synced.append(path) or sync_log(path))
    with new_run_folder(place, tmp_path / "run", system="mohawk", trace_hash="0", devices=2) as folder:
        watch = Watch(folder)
        watch.observe(0, "pi-01", EventKind.TRAINER_READY, "")
        synced.clear()
        with watch.together():
            for name in ("pi-01", "pi-02"):
                watch.store(name, "spool", [(1, 1, Reading(1, 5.0, 1.0, 5.0).to_bytes())])
                watch.observe(0, name, EventKind.TRAINER_READY, "")  # meanwhile
        assert synced == [folder.path / EVENTS]
        assert len(folder.records.devices()) == 2


def test_no_two_runs_share_an_id_and_equal_ones_give_equal_orders(tmp_path):
    infos = []
    for folder in ("a", "b"):
        place, path = LocalPlace(Experiment(seed=1)), tmp_path / folder
        with new_run_folder(place, path, name="x" * 90, system="mohawk", trace_hash="0", devices=1) as made:
            infos.append(made.info)
    assert infos[0].run_id != infos[1].run_id
    assert infos[0].name_in_orders == infos[1].name_in_orders == "x" * 80
    assert {len(info.run_id) for info in infos} == {89}  # of 100 letters that agents keep
    assert (
        replace(infos[0], run_id="inl-mohawk.2026-11-28T1800").name_in_orders == "inl-mohawk.2026-11-28T1800"
    )
    on_bench = replace(infos[0], fleet="bench")
    assert on_bench.name_in_orders == on_bench.run_id


def test_a_run_whose_lease_was_lost_says_so_in_its_folder(tmp_path, file):
    folder = a_run(tmp_path / "run", "bench", ["a"], run_id="demo")
    context = BenchPlace.of(experiment(tmp_path), file, WAIVED).held(quiet())
    with folder:
        place = context.__enter__()
        folder.update(doubts=place.doubts)
        place.finished(folder, quiet())
        assert folder.info.doubts == place.doubts
        holder = standing_of(place.bench).holder
        LeaseBook(place.bench.state_dir).drop(holder.number)  # fleet release --force
        place.finished(folder, quiet())
        assert folder.info.doubts[len(place.doubts) :] == (
            "the bench's lease was lost while it ran: another user may have run on the same boards",
        )
    with pytest.raises(FleetError, match="the lease was lost"):
        context.__exit__(None, None, None)


def test_the_files_gain_and_offset_correct_a_reading_to_the_same_watts(file):
    """The file: true = 0.5 x reading + 0.25. A reading of 6 W is 3.25 W by both spellings."""
    meter = load_bench(file).host("c").meter
    entry = calibration_of(meter)
    assert entry is not None
    assert (entry.gain, entry.offset_w) == (2.0, -0.5)
    ledger = MeterCalibration(entry.gain, entry.offset_w, entry.u_gain, entry.u_offset_w)
    assert ledger.correct(6.0) == pytest.approx(0.5 * 6.0 + 0.25)


def test_the_files_gain_is_as_uncertain_as_that_of_its_meters_type(file):
    meter = replace(load_bench(file).host("c").meter, driver="smartpower3")
    entry, row = calibration_of(meter), TRAITS.load("smartpower3")
    assert (entry.u_gain, entry.u_offset_w) == (row.u_gain, row.u_offset_w)
    assert row.u_gain > 1.5 * TRAITS.load("smartpower2").u_gain


def test_a_meter_without_calibration_adds_nothing_and_the_experiments_own_goes_first(tmp_path, file):
    assert calibration_of(load_bench(file).host("a").meter) is None
    own = ("energy.meters.c.gain=1.5", "energy.meters.c.u_gain=0.01")
    with BenchPlace.of(experiment(tmp_path, *own), file, WAIVED).held(quiet()) as place:
        assert place.experiment.energy.meters["c"].gain == 1.5
    with BenchPlace.of(experiment(tmp_path), file, WAIVED).held(quiet()) as place:
        assert place.experiment.energy.meters["c"].gain == 2.0
        assert set(place.experiment.energy.meters) == {"c"}


def watch() -> Watch:
    journal = SimpleNamespace(append=lambda record: None)
    return Watch(SimpleNamespace(journal=journal))  # type: ignore[arg-type]


@pytest.mark.asyncio
async def test_hosts_that_do_not_come_are_named_with_what_to_do(file):
    bench, seen = load_bench(file), watch()
    seen.observe(0, "c", EventKind.SESSION_OPENED, "")
    seen.observe(1, "a", EventKind.SESSION_REFUSED, "agent speaks protocol version 0")
    with pytest.raises(FleetError) as absent:
        await _all_ready(seen, bench, bench.hosts, quiet(), Patience(hello_s=0.0))
    told = str(absent.value)
    assert told.startswith(
        "2 of 3 hosts did not dial 10.36.0.1:21710, and for 0 s none more did: b, a; a: agent speaks"
    )
    assert "next: roambench fleet status" in told


@pytest.mark.asyncio
async def test_hosts_that_come_one_after_the_other_are_waited_for(file):
    """Each comes when a quarter of the patience is gone; all together need twice the whole of it."""
    bench, seen = load_bench(file), watch()
    patience_s = 4.0

    async def come() -> None:
        for kind in (EventKind.SESSION_OPENED, EventKind.FETCHING_DATA, EventKind.TRAINER_READY):
            for index, name in enumerate("cab"):
                await asyncio.sleep(patience_s / 4)
                seen.observe(index, name, kind, "")

    coming = asyncio.create_task(come())
    await _all_ready(seen, bench, bench.hosts, quiet(), Patience(patience_s, patience_s))
    await coming
    assert seen.ready == set("abc")


@pytest.mark.asyncio
async def test_hosts_whose_trainer_is_not_ready_are_named_too(file):
    bench, seen = load_bench(file), watch()
    for index, name in enumerate("cab"):
        seen.observe(index, name, EventKind.SESSION_OPENED, "")
    seen.observe(0, "c", EventKind.TRAINER_READY, "")
    with pytest.raises(FleetError, match=r"2 of 3 hosts have no trainer ready, .*: b, a; next: .* --only b"):
        await _all_ready(seen, bench, bench.hosts, quiet(), Patience(ready_s=0.0))
    seen.observe(1, "a", EventKind.TRAINER_NOT_READY, "illegal instruction")
    with pytest.raises(FleetError, match=r"cannot start: a: illegal instruction; try .*fleet preflight"):
        await _all_ready(seen, bench, bench.hosts, quiet(), Patience(ready_s=0.0))
    seen.observe(2, "b", EventKind.CANNOT_RESUME, "run")
    with pytest.raises(FleetError, match=r"^b: nothing of the run is left there .*\(--fresh\)"):
        await _all_ready(seen, bench, bench.hosts, quiet(), Patience(ready_s=0.0))


@pytest.mark.asyncio
async def test_whose_records_stay_behind_is_said_with_what_to_do_also_where_a_signal_ends_the_run():
    said: list[str] = []

    async def run() -> None:
        async with hand_bench() as where, hand_agent(where):  # which does not say goodbye
            await connected(where)
            try:
                asyncio.current_task().cancel()
                await asyncio.sleep(60)
            finally:
                await to_its_end(drain, where.fleet, 0.2, "bench.toml runs/e", said.append)

    with pytest.raises(asyncio.CancelledError):
        await asyncio.create_task(run())
    (line,) = said
    assert "not drained in time: pi-01" in line
    assert (
        "roambench fleet fetch bench.toml runs/e, which ends a run there that is still to be resumed" in line
    )


def test_what_an_operator_should_see_is_printed_without_markup_and_escapes():
    written, seen = io.StringIO(), watch()
    screen = Console(width=200, file=written)
    observe(seen, partial(warn, screen), 0, "pi-01", EventKind.SESSION_REFUSED, "version [3]")
    observe(seen, partial(warn, screen), 0, "pi-01", EventKind.LEFT_IN_SPOOL, "controller 3")
    assert written.getvalue().splitlines() == [
        f"pi-01: {EventKind.SESSION_REFUSED}: version [3]",
        f"pi-01: {EventKind.LEFT_IN_SPOOL}: controller 3 (agents/pi-01/spool.sqlite)",
    ]


def test_a_run_whose_boards_were_all_taken_ends_and_says_by_whom():
    written, seen = io.StringIO(), watch()
    doubts: list[str] = []
    about = {"info": SimpleNamespace(device_names=("a", "b")), "doubt": doubts.append}
    vars(seen.folder).update(about)
    step = StepClosed(1, 0, (), (), None, None, 1.0)
    for index, name in enumerate("ab"):
        seen.follow(step)
        screen = partial(warn, Console(width=200, file=written))
        observe(seen, screen, index, name, EventKind.BOARD_TAKEN, "bench36 of ben@server")
    assert doubts == [f"bench bench36 of ben@server took {name} while the run was on it" for name in "ab"]
    said = "bench bench36 of ben@server has taken this board: the run goes on without it"
    assert written.getvalue().splitlines() == [f"a: {said}", f"b: {said}"]
    with pytest.raises(FleetError, match=r"taken by another bench: a \(bench bench36 of ben@server\), b \("):
        seen.follow(step)


def test_the_table_says_how_far_each_host_is(file):
    bench, seen = load_bench(file), watch()
    assert state_of(seen, "a") == "not here yet"
    for kind, state in (
        (EventKind.SESSION_REFUSED, "not its certificate"),
        (EventKind.SESSION_OPENED, "warming up"),
        (EventKind.FETCHING_DATA, "fetching its data"),
        (EventKind.TRAINER_READY, "ready"),
    ):
        seen.observe(0, "a", kind, "not its certificate")
        assert state_of(seen, "a") == state
    seen.observe(1, "b", EventKind.TRAINER_NOT_READY, "cannot open [/dev/shm]")
    written = io.StringIO()
    screen = Console(width=100, file=written, force_terminal=True, markup=False)
    with arrivals(screen, seen, bench.hosts) as show:
        show()
        screen.print("")  # draws the table, too
    assert "cannot train: cannot open [/dev/shm]" in written.getvalue()
