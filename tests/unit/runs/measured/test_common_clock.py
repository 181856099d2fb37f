"""Stamps of boards that booted when they liked, on the clock of the controller that asked them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from roambench.contract.events import EventKind
from roambench.contract.phases import Phase, PhaseSpan
from roambench.contract.records import AgentEvent, HostSample, Reading, RecordKind, phase_to_bytes
from roambench.energy.clocks.clock_fit import ClockBurst, ClockFit
from roambench.meters.traits import TRAITS
from roambench.rounds.records import ClockProbed
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import account_run
from roambench.runs.measured.common_clock import OneClock, middle_offset_ns, on_one_clock
from roambench.spool.record_context import RecordContext
from small_runs import a_run

S = 1_000_000_000
NAMES = ("pi-01", "pi-02")


def probed(device: int, boot: str, at_s: float, ahead_s: float) -> ClockProbed:
    return ClockProbed(
        step=-1,
        device=device,
        occasion="before",
        boot_id=boot,
        at_ns=round(at_s * S),
        offset_ns=ahead_s * S,
        bound_ns=1e6,
        probes=8,
        stamps_ns=(0, 0, 0, 0),
        time_scale=1.0,
    )


class Agent:
    """Spools records like one; its clock is `ahead_s` of the controller's."""

    def __init__(self, folder: RunFolder, name: str) -> None:
        self.folder, self.name, self.seq = folder, name, 0

    def boot(self, boot: str, ahead_s: float) -> None:
        self.boot_id, self.ahead_s = boot, ahead_s
        # Device time + unix_minus_device = wall clock: a board that counts further has less to add.
        context = RecordContext(boot, "0/1.0", round((1e6 - ahead_s) * S), "smartpower2", "run")
        self.event(context.to_event(0))

    def put(self, kind: RecordKind, payload: bytes) -> None:
        self.seq += 1
        self.folder.records.insert(self.name, "spool-" + self.name, [(self.seq, int(kind), payload)])

    def event(self, event: AgentEvent) -> None:
        self.put(RecordKind.EVENT, event.to_bytes())

    def at(self, controller_s: float) -> int:
        return round((controller_s + self.ahead_s) * S)

    def reading(self, controller_s: float, watts: float = 2.0) -> None:
        self.put(RecordKind.READING, Reading(self.at(controller_s), 5.0, watts / 5, watts).to_bytes())

    def phase(self, phase: Phase, from_s: float, to_s: float, *moved_s: float) -> None:
        """`moved_s`: first byte, begin and end of a stall, last byte."""
        span = PhaseSpan(self.name, self.boot_id, phase, 0, self.at(from_s), self.at(to_s))
        if moved_s:
            first_ns, *stall_ns, last_ns = map(self.at, moved_s)
            span = replace(span, first_byte_ns=first_ns, last_byte_ns=last_ns, stalls_ns=((*stall_ns,),))
        self.put(RecordKind.PHASE, phase_to_bytes(span))


@pytest.fixture
def folder(tmp_path):
    made = a_run(tmp_path / "run", "bench", NAMES)
    yield made
    made.close()


def test_two_boards_that_booted_an_hour_apart_are_laid_on_one_clock(folder):
    """Ten seconds of the controller's clock, 100 s to 110 s, at 2 W each: 20 J a board."""
    journal = []
    for device, (name, ahead_s) in enumerate(zip(NAMES, (3600.0, -50.0), strict=True)):
        agent = Agent(folder, name)
        agent.boot(f"boot-of-{name}", ahead_s)
        agent.phase(Phase.IDLE, 100.0, 104.0)
        agent.phase(Phase.DOWNLOAD, 104.0, 110.0, 105.0, 106.0, 107.0, 109.0)
        for second in range(99, 112):
            agent.reading(float(second))
        journal += [
            probed(device, f"boot-of-{name}", 99.0, ahead_s),
            probed(device, f"boot-of-{name}", 111.0, ahead_s),
        ]
    folder.update(start_device_ns=100 * S, end_device_ns=110 * S)
    energy = account_run(folder, journal)
    assert energy is not None
    for device in energy.devices:
        assert [(s.phase, s.start_ns // S, s.end_ns // S) for s in device.spans] == [
            (Phase.IDLE, 100, 104),
            (Phase.DOWNLOAD, 104, 110),
        ]
        (_, down) = device.spans
        assert (down.first_byte_ns, down.last_byte_ns) == (105 * S, 109 * S)
        assert down.stalls_ns == ((106 * S, 107 * S),)
        assert device.whole_run.joules == pytest.approx(20.0 / TRAITS.load("smartpower2").gain)
        assert device.whole_run.coverage == pytest.approx(1.0)
    # As they were drained the stamps lie an hour and more apart.
    raw = [folder.records.readings(name).ns[0] for name in NAMES]
    assert raw[0] - raw[1] == 3650 * S


def test_a_board_that_booted_in_mid_run_counts_from_nothing_again(folder):
    """Its second life's stamps are smaller than its first's, and come after them all the same."""
    agent = Agent(folder, "pi-01")
    agent.boot("first", 5000.0)
    agent.phase(Phase.IDLE, 100.0, 103.0)
    for second in (100.0, 101.0, 102.0):
        agent.reading(second)
    agent.boot("second", -120.0)
    agent.event(AgentEvent(EventKind.AGENT_STARTED, agent.at(130.0)))
    agent.phase(Phase.IDLE, 130.0, 140.0)
    agent.put(RecordKind.HOST, HostSample(agent.at(133.0), temperature_c=51.0).to_bytes())
    for second in (131.0, 132.0):
        agent.reading(second)
    journal = [probed(0, "first", 99.0, 5000.0), probed(0, "second", 131.0, -120.0)]
    placed = on_one_clock(folder, journal, folder.records)
    assert [ns // S for ns in placed.readings("pi-01").ns] == [100, 101, 102, 131, 132]
    assert [(s.start_ns // S, s.end_ns // S) for s in placed.spans("pi-01")] == [(100, 103), (130, 140)]
    (started,) = [e for e in placed.events("pi-01") if e.kind == EventKind.AGENT_STARTED]
    assert started.monotonic_ns == 130 * S
    assert placed.host_table("pi-01")["monotonic_ns"][0] == 133 * S


def test_a_boot_that_nobody_probed_goes_by_the_boards_wall_clock(folder):
    """Boot 1 is known to be 40 s ahead; boot 2's wall clock says that it counts 30 s less."""
    agent = Agent(folder, "pi-01")
    agent.boot("known", 40.0)
    agent.reading(200.0)
    agent.boot("unknown", 10.0)
    agent.reading(210.0)
    placed = on_one_clock(folder, [probed(0, "known", 200.0, 40.0)], folder.records)
    assert [ns // S for ns in placed.readings("pi-01").ns] == [200, 210]


def test_a_drifting_clock_is_taken_as_it_was_in_the_middle_so_that_durations_stay():
    record = [(probed(0, "b", at_s, ahead_s)) for at_s, ahead_s in ((0.0, 1.0), (1000.0, 1.04))]
    bursts = [ClockBurst(r.at_ns, r.offset_ns, r.bound_ns, r.probes) for r in record]
    assert middle_offset_ns(ClockFit.of(bursts)) == pytest.approx(1.02 * S, abs=10)


def test_stamps_of_fleets_with_one_clock_are_left_alone(folder):
    folder.update(fleet="local")
    journal = [probed(0, "b", 0.0, 5.0)]
    assert on_one_clock(folder, journal, folder.records) is folder.records
    assert isinstance(on_one_clock(_bench(folder), journal, folder.records), OneClock)


def _bench(folder: RunFolder) -> RunFolder:
    folder.update(fleet="bench")
    return folder
