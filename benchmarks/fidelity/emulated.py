"""One emulated run in virtual time: what the board does, what its meter prints, what really was drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.draws import generator
from roambench.contract.phases import ACTIVE_PHASES, Phase, PhaseSpan
from roambench.contract.records import Reading
from roambench.energy.clocks.clock_fit import ClockBurst, ClockExchange, ClockFit
from roambench.energy.uncertainty import MeterCalibration, uncalibrated
from roambench.meters.emulator.electric.power import IDLE, Activity, PiPower
from roambench.meters.emulator.electric.signal import PowerSignal
from roambench.meters.emulator.spec import Fault, FaultKind
from roambench.meters.emulator.virtual import emulate
from roambench.meters.traits import TRAITS, MeterTraits

S: Final = 10**9
#: A minute of idling before and after, as rule R8 asks.
BASELINE_S: Final = 60.0
#: What a calibration leaves: 0.25 % of the gain and 3 mW.
CALIBRATED_U_GAIN: Final = 0.0025
CALIBRATED_U_OFFSET_W: Final = 0.003
#: Where links are mixed a transfer has the same size every time: the scenario's length at this rate.
MEAN_MBIT_S: Final = 20.0
WIFI_MBIT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Profile:
    """A firmware as the emulator plays it and the row of the traits table that describes its meter."""

    name: str
    traits: str
    turns: int  # how often it comes up before all begin anew
    interval_ms: int | None = None


#: The firmwares that differ in what a value means; most benches have the first.
PROFILES: Final = (
    Profile("smartpower2-1.6", "smartpower2", 8),
    Profile("smartpower2-100ms", "smartpower2-100ms", 2),
    Profile("smartpower2-ytrikoz", "smartpower2-ytrikoz", 2),
    Profile("smartpower3-2.2", "smartpower3-100ms", 2, 100),
    Profile("smartpower3-2.2", "smartpower3", 1, 10),
)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Everything that is drawn for one run. `power`: how the board draws inside its phases."""

    number: int
    profile: str
    traits: str
    interval_ms: int | None
    transfer_s: float
    train_s: float
    rounds: int
    calibrated: bool
    power: str  # "steady", "scatter" (every half second another), "drift" (training falls by a tenth)
    fault: str  # "none" or a FaultKind
    clock: str  # "local" (the board reads its meter) or "remote" (another host does)
    links: str = "one"  # all transfers at about one rate, or "mixed": Wi-Fi and LTE, each at its own

    @classmethod
    def drawn(cls, seed: int, number: int, profiles: Sequence[Profile]) -> Scenario:
        """Lengths and profiles in turn, so that every group is equally large; the rest by lot."""
        draw = generator(seed, "fidelity scenario", 0, number)
        rows = [row for row in profiles for _ in range(row.turns)]
        row = rows[number % len(rows)]
        turn = number // len(rows)
        transfer_s = (0.5, 1.0, 2.0, 5.0, 10.0)[(number + turn) % 5]
        faults = ("none", "none", *(kind.value for kind in FAULTS))
        return cls(
            number,
            row.name,
            row.traits,
            row.interval_ms,
            transfer_s,
            (5.0, 10.0, 20.0)[int(draw.integers(3))],
            (10, 20, 30)[int(draw.integers(3))] if (row.interval_ms or 1000) >= 100 else 6,
            bool(draw.random() < 0.5),
            ("steady", "scatter", "drift")[int(draw.integers(3))],
            faults[int(draw.integers(len(faults)))],
            "remote" if draw.random() < 0.3 else "local",
            "mixed" if draw.random() < 0.4 else "one",
        )


#: Not RESET and OFF: they cut the board's own power, and no phase survives that.
FAULTS: Final = (
    FaultKind.DROP,
    FaultKind.TRUNCATE,
    FaultKind.GARBAGE,
    FaultKind.NOISE,
    FaultKind.STALL,
    FaultKind.SILENCE,
    FaultKind.SKEW,
)


@dataclass(frozen=True)
class EmulatedRun:
    """What a run folder would hold (readings, spans, calibration, clocks) and the truth beside it."""

    scenario: Scenario
    meter: MeterTraits
    readings: list[Reading]
    spans: list[PhaseSpan]
    calibration: MeterCalibration
    reader_clock: ClockFit | None
    truth: PowerSignal
    idle_w: float
    links: list[str]  # shape (spans,): whose transfer, "" for what is none

    @property
    def start_ns(self) -> int:
        return self.spans[0].start_ns

    @property
    def end_ns(self) -> int:
        return self.spans[-1].end_ns


def emulated(scenario: Scenario, seed: int) -> EmulatedRun:
    """Idle for a minute, rounds of idle, download, train, upload, wait in this order, idle for a minute."""
    draw = generator(seed, "fidelity run", 0, scenario.number)
    board_seed = int(draw.integers(2**31))
    power = PiPower().varied(board_seed, 0)
    spans, schedule, links = _played(scenario, draw)
    end_s = spans[-1].end_ns / S
    # Nobody's phases begin with the first line of a meter.
    run = emulate(
        schedule,
        end_s + 5.0,
        board_seed,
        power=power,
        noise_per_line=0.002,
        faults=_faults(scenario, draw, end_s),
        profile=scenario.profile,
        interval_ms=scenario.interval_ms,
    )
    meter = TRAITS.load(scenario.traits)
    readings = run.readings()
    clock = None
    if scenario.clock == "remote":
        readings, clock = _read_elsewhere(readings, end_s, draw)
    calibration = uncalibrated(meter)
    if scenario.calibrated:
        calibration = _calibrated(scenario, meter, board_seed, power, draw)
    idle_w = power.watts(IDLE)
    return EmulatedRun(scenario, meter, readings, spans, calibration, clock, run.truth, idle_w, links)


def _played(
    scenario: Scenario, draw: np.random.Generator
) -> tuple[list[PhaseSpan], list[tuple[float, Activity]], list[str]]:
    """The phases, what the board does in each, and over which link."""
    cores, rate = draw.uniform(1.5, 4.0), draw.uniform(5.0, 40.0)
    spans: list[PhaseSpan] = []
    schedule: list[tuple[float, Activity]] = []
    links: list[str] = []
    mixed = scenario.links == "mixed"
    at_s = 10.0

    def add(phase: Phase, step: int, length_s: float, wanted: Activity, link: str = "") -> None:
        nonlocal at_s
        training = f"t{step}" if phase in ACTIVE_PHASES else ""
        end_s = at_s + length_s
        moved = round((wanted.rx_mbit_s + wanted.tx_mbit_s) * length_s * 1e6 / 8.0)
        spans.append(
            PhaseSpan("pi", "boot", phase, step, round(at_s * S), round(end_s * S), training, training, moved)
        )
        links.append(link)
        schedule.extend(_pieces(wanted, scenario.power, at_s, end_s, draw))
        at_s = end_s

    add(Phase.IDLE, 0, BASELINE_S, IDLE)
    for step in range(scenario.rounds):
        tired = 1.0 - 0.1 * step / scenario.rounds if scenario.power == "drift" else 1.0
        own = draw.uniform(0.8, 1.2, 2) if scenario.power != "steady" else np.ones(2)
        add(Phase.IDLE, step, draw.uniform(2.0, 4.0), IDLE)
        link = ("wifi" if draw.random() < 0.4 else "lte") if mixed else "one"
        rates = _rates(link, draw) if mixed else rate * own
        lengths_s = scenario.transfer_s * (MEAN_MBIT_S / rates if mixed else draw.uniform(0.9, 1.1, 2))
        down = Activity(busy_cores=0.3, rx_mbit_s=rates[0])
        add(Phase.DOWNLOAD, step, lengths_s[0], down, link)
        train = Activity(busy_cores=cores * tired)
        add(Phase.TRAIN, step, scenario.train_s * draw.uniform(0.95, 1.05), train)
        up = Activity(busy_cores=0.3, tx_mbit_s=rates[1])
        add(Phase.UPLOAD, step, lengths_s[1], up, link)
        add(Phase.WAIT, step, draw.uniform(2.0, 6.0), IDLE)
    add(Phase.IDLE, scenario.rounds, BASELINE_S, IDLE)
    schedule.append((at_s, IDLE))
    return spans, schedule, links


def _rates(link: str, draw: np.random.Generator) -> np.ndarray:
    """Mbit/s down and up of one round: Wi-Fi at the port's rate, LTE by the distance."""
    if link == "wifi":
        return WIFI_MBIT_S * draw.uniform(0.95, 1.0, 2)
    return np.array([draw.uniform(12.0, 36.0), draw.uniform(7.0, 17.0)])


def _pieces(
    wanted: Activity, power: str, from_s: float, to_s: float, draw: np.random.Generator
) -> list[tuple[float, Activity]]:
    """One steady piece, or pieces of about half a second whose processor load scatters by a tenth."""
    if power != "scatter" or wanted == IDLE:
        return [(from_s, wanted)]
    pieces = []
    while from_s < to_s:
        busy = max(0.0, wanted.busy_cores * (1.0 + 0.1 * draw.standard_normal()))
        pieces.append((from_s, Activity(min(4.0, busy), wanted.tx_mbit_s, wanted.rx_mbit_s)))
        from_s += 0.1 + draw.exponential(0.4)
    return pieces


def _faults(scenario: Scenario, draw: np.random.Generator, end_s: float) -> list[Fault]:
    """Three strikes of the scenario's fault, anywhere in the run."""
    if scenario.fault == "none":
        return []
    kind = FaultKind(scenario.fault)
    times = np.sort(draw.uniform(15.0, end_s - 15.0, 3))
    return [
        Fault(
            kind,
            at_s=float(at_s),
            duration_s=float(draw.uniform(1.5, 6.0)),
            count=int(draw.integers(1, 6)),
            ppm=float(draw.uniform(-100.0, 100.0)),
        )
        for at_s in times
    ]


def _read_elsewhere(
    readings: list[Reading], end_s: float, draw: np.random.Generator
) -> tuple[list[Reading], ClockFit]:
    """The readings as another host stamps them, and that host's clock as the board's probes find it.

    Its clock is hours away, gains up to 50 ppm; probes take unequal ways through a busy radio cell.
    """
    away_ns = round(draw.uniform(-3e12, 3e12))
    drift = draw.uniform(-50e-6, 50e-6)

    def theirs(ns: int) -> int:
        return ns + away_ns + round(drift * ns)

    bursts = []
    for at_s in (12.0, end_s / 2.0, end_s - 1.0):
        probes = []
        for k in range(8):
            t0 = round((at_s + 0.05 * k) * S)
            there, back = (round(1e6 * (1.0 + draw.exponential(30.0))) for _ in range(2))
            heard = theirs(t0 + there)
            probes.append(ClockExchange(t0, heard, heard, t0 + there + back))
        bursts.append(ClockBurst.of(probes))
    stamped = [
        Reading(theirs(r.monotonic_ns), r.volts, r.amps, r.watts, r.watt_hours, r.flags, r.meter_ms)
        for r in readings
    ]
    return stamped, ClockFit.of(bursts)


def _calibrated(
    scenario: Scenario, meter: MeterTraits, board_seed: int, power: PiPower, draw: np.random.Generator
) -> MeterCalibration:
    """The meter's line as a laboratory finds it, wrong by a draw from the uncertainty that it states."""
    each_s = 60.0 * meter.nominal_s
    loads = np.linspace(0.0, 4.0, 25)
    schedule = [(10.0 + each_s * k / 6.0, Activity(busy_cores=cores)) for k, cores in enumerate(loads)]
    run = emulate(
        schedule,
        10.0 + each_s * len(loads) / 6.0,
        board_seed,
        power=power,
        profile=scenario.profile,
        interval_ms=scenario.interval_ms,
    )
    true_w, shown_w = [], []
    reach_ns = round((meter.window_s + meter.latch_s) * S)
    for reading in run.readings():
        low, high = (run.truth.watts_at(reading.monotonic_ns - back) for back in (reach_ns + 10**7, 0))
        if low == high:  # steady throughout the window
            true_w.append(high)
            shown_w.append(reading.watts)
    gain, offset_w = np.polyfit(true_w, shown_w, 1)
    wrong = draw.standard_normal(2)
    return MeterCalibration(
        float(gain * (1.0 + CALIBRATED_U_GAIN * wrong[0])),
        float(offset_w + CALIBRATED_U_OFFSET_W * wrong[1]),
        CALIBRATED_U_GAIN,
        CALIBRATED_U_OFFSET_W,
    )
