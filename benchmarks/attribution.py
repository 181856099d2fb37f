"""What rests are worth, in virtual time: a known power signal, a Smart Power 2's window, the estimator.

    python benchmarks/attribution.py [--seeds 60] [--rounds 40]

Prints bias and scatter of each phase for the estimator, with rests and where phases touch, and for the naive
trapezoid, gross and net, for transfers of several lengths, the share of seeds whose value +- 2 u holds the
truth, and ms per device-hour.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.phases import Outcome, Phase, PhaseSpan
from roambench.energy.account import account_device
from roambench.energy.ledger import Ledger, LedgerRow
from roambench.energy.readings.samples import PowerSamples
from roambench.energy.uncertainty import EXACT

Floats = npt.NDArray[np.float64]

#: A Pi 3B+ that trains on all cores; watts.
POWER_W = {
    Phase.IDLE: 1.9,
    Phase.WAIT: 1.9,
    Phase.REST: 1.9,
    Phase.DOWNLOAD: 2.5,
    Phase.TRAIN: 5.1,
    Phase.UPLOAD: 2.8,
}
#: Scatter of the true power from one tenth of a second to the next.
SCATTER_W = {Phase.TRAIN: 0.15, Phase.DOWNLOAD: 0.1, Phase.UPLOAD: 0.1}
WINDOW_S = 0.2638
#: Where phases touch, and rests as `rounds.rest_s` has them for one line a second.
RESTS_S = (0.0, 4.0)


@dataclass(frozen=True)
class Signal:
    """A piecewise constant power with its exact integral: `joules` until each of `at_s`, shape (edges,)."""

    at_s: Floats
    joules: Floats
    spans: list[PhaseSpan]
    start_ns: int
    end_ns: int

    def joules_until(self, t_s: Floats) -> Floats:
        return np.asarray(np.interp(t_s, self.at_s, self.joules))

    def true_j(self, intervals: Sequence[tuple[int, int]]) -> float:
        """The true energy of intervals in ns."""
        edges = np.array(intervals, dtype=np.float64).reshape(-1, 2) * 1e-9
        return float((self.joules_until(edges[:, 1]) - self.joules_until(edges[:, 0])).sum())

    def true_j_of(self, phase: Phase) -> float:
        return self.true_j([(s.start_ns, s.end_ns) for s in self.spans if s.phase is phase])


def rounds_of_one_device(
    seed: int, rounds: int, transfer_s: float = 2.0, train_s: float = 10.0, rest_s: float = 0.0
) -> Signal:
    """`rounds` times idle, download, train, upload, wait, with durations that differ by some percent; the
    board rests for `rest_s` before and after each active phase."""
    draw = generator(seed, "benchmark signal")
    at, spans = 30.0, []
    edges: list[Floats] = [np.array([0.0])]
    powers: list[Floats] = [np.array([POWER_W[Phase.IDLE]])]

    def add(phase: Phase, step: int, length_s: float) -> None:
        nonlocal at
        start_ns, end_ns = round(at * 1e9), round((at + length_s) * 1e9)
        training = f"t{step}" if phase in (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD) else ""
        spans.append(PhaseSpan("pi", "boot", phase, step, start_ns, end_ns, training, training))
        pieces = np.arange(at, at + length_s - 0.05, 0.1)
        edges.append(pieces)
        powers.append(POWER_W[phase] + SCATTER_W.get(phase, 0.01) * draw.standard_normal(len(pieces)))
        at += length_s

    add(Phase.IDLE, 0, 5.0)
    for step in range(rounds):
        add(Phase.IDLE, step, draw.uniform(2.0, 4.0))
        for phase, length_s in (
            (Phase.DOWNLOAD, transfer_s * draw.uniform(0.9, 1.1)),
            (Phase.TRAIN, train_s * draw.uniform(0.95, 1.05)),
            (Phase.UPLOAD, transfer_s * draw.uniform(0.9, 1.1)),
        ):
            if rest_s and phase is Phase.DOWNLOAD:
                add(Phase.REST, step, rest_s)
            add(phase, step, length_s)
            if rest_s:
                add(Phase.REST, step, rest_s)
        add(Phase.WAIT, step, draw.uniform(2.0, 6.0))
    end = at
    edges.append(np.array([end, end + 30.0]))
    powers.append(np.array([POWER_W[Phase.IDLE]]))
    at_s = np.concatenate(edges)
    joules = np.concatenate(([0.0], np.cumsum(np.diff(at_s) * np.concatenate(powers))))
    return Signal(at_s, joules, spans, spans[0].start_ns, spans[-1].end_ns)


def metered(
    signal: Signal,
    seed: int,
    gain: float = 1.0,
    period_s: float = 1.0,
    stalls: Sequence[tuple[float, float]] = (),
    late_s: float = 0.0,
    jitter_s: float = 0.002,
) -> PowerSamples:
    """The signal as a Smart Power 2 reports it: free-running 264 ms windows, read once per period, rounded.

    Lines arrive 3 ms + `late_s` after they are due, plus an exponential `jitter_s`. In `stalls` (seconds
    from, to) nothing is printed and nothing is caught up.
    """
    draw = generator(seed, "benchmark meter")
    period = period_s * (1.0 + 40e-6 * draw.standard_normal())
    ticks = np.arange(1.0 + draw.uniform(0.0, period), signal.at_s[-1] - 1.0, period)
    for stall_from, stall_to in stalls:
        ticks = ticks[(ticks < stall_from) | (ticks > stall_to)]
    update_s = WINDOW_S * (1.0 + 0.01 * draw.standard_normal())
    ended = ticks - np.mod(ticks - draw.uniform(0.0, update_s), update_s)
    mean_w = (signal.joules_until(ended) - signal.joules_until(ended - update_s)) / update_s
    watts = np.round(np.round(gain * mean_w / 3.81687e-3) * 3.81687e-3, 3)
    arrived = ticks + 0.003 + late_s + draw.exponential(jitter_s, len(ticks))
    return PowerSamples.of(np.rint(arrived * 1e9).astype(np.int64), watts)


def ledger_of(signal: Signal, samples: PowerSamples) -> list[LedgerRow]:
    trainings = {span.train_order_id: span.step for span in signal.spans if span.train_order_id}
    outcomes = dict.fromkeys(trainings, Outcome.AGGREGATED)
    return account_device(
        samples, signal.spans, outcomes, trainings, EXACT, signal.start_ns, signal.end_ns
    ).rows


@dataclass(frozen=True)
class Fidelity:
    """Relative errors of one phase's energy over seeds; `held` is the share within +- 2 u."""

    phase: Phase
    bias: float
    sd: float
    net_bias: float
    net_sd: float
    held: float
    net_held: float
    naive_bias: float
    naive_net_bias: float


def fidelity(
    seeds: int,
    rounds: int,
    transfer_s: float = 2.0,
    *,
    late_s: float = 0.0,
    jitter_s: float = 0.002,
    rest_s: float = 0.0,
) -> list[Fidelity]:
    """Bias and scatter of download, train and upload over `seeds` runs of `rounds` rounds each."""
    phases = (Phase.DOWNLOAD, Phase.TRAIN, Phase.UPLOAD)
    errors: dict[Phase, list[list[float]]] = {phase: [] for phase in phases}
    for seed in range(seeds):
        signal = rounds_of_one_device(seed, rounds, transfer_s, rest_s=rest_s)
        seen = metered(signal, seed, late_s=late_s, jitter_s=jitter_s)
        rows = ledger_of(signal, seen)
        for phase in phases:
            own = [row for row in rows if row.phase is phase]
            gross, net = Ledger.of(own).total("gross"), Ledger.of(own).total("net")
            truth = signal.true_j_of(phase)
            idle = POWER_W[Phase.IDLE] * sum(row.duration_s for row in own)
            naive = sum(row.naive_j for row in own)
            errors[phase].append(
                [
                    gross.joules / truth - 1.0,
                    net.joules / (truth - idle) - 1.0,
                    float(abs(gross.joules - truth) <= 2.0 * gross.u_joules),
                    float(abs(net.joules - truth + idle) <= 2.0 * net.u_joules),
                    naive / truth - 1.0,
                    (naive - idle) / (truth - idle) - 1.0,
                ]
            )
    table = []
    for phase in phases:
        values = np.array(errors[phase])
        mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1)
        table.append(Fidelity(phase, mean[0], sd[0], mean[1], sd[1], mean[2], mean[3], mean[4], mean[5]))
    return table


HEADING = " tr. s  late jit. ms phase          gross            net          held 2u     naive naive net"


def line(row: Fidelity) -> str:
    return (
        f"{row.phase.value:9s} {100 * row.bias:+6.2f} +-{100 * row.sd:5.2f} "
        f"{100 * row.net_bias:+6.2f} +-{100 * row.net_sd:5.2f}  {100 * row.held:4.0f} "
        f"{100 * row.net_held:4.0f} %   {100 * row.naive_bias:+7.2f}  {100 * row.naive_net_bias:+7.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    print(f"{options.seeds} seeds x {options.rounds} rounds, 1 Hz, 264 ms window; relative errors in %")
    for rest_s in RESTS_S:
        print(f"\nrests of {rest_s:g} s\n{HEADING}")
        for transfer_s, late_s, jitter_s in (
            (0.5, 0.0, 0.002),
            (1.0, 0.0, 0.002),
            (2.0, 0.0, 0.002),
            (5.0, 0.0, 0.002),
            (0.5, 0.02, 0.002),
            (2.0, 0.06, 0.002),
            (2.0, 0.0, 0.06),
        ):
            for row in fidelity(
                options.seeds, options.rounds, transfer_s, late_s=late_s, jitter_s=jitter_s, rest_s=rest_s
            ):
                print(f"{transfer_s:6.1f} {1e3 * late_s:5.0f} {1e3 * jitter_s:5.0f}  {line(row)}")
    print()
    for rest_s in RESTS_S:
        signal = rounds_of_one_device(0, 450, rest_s=rest_s)
        samples = metered(signal, 0)
        hours = (signal.end_ns - signal.start_ns) / 3.6e12
        started = time.perf_counter()
        for _ in range(3):
            ledger_of(signal, samples)
        spent_ms = (time.perf_counter() - started) * 1e3 / 3
        print(
            f"ledger of one device, rests of {rest_s:g} s: {spent_ms / hours:.1f} ms per device-hour "
            f"({len(samples)} readings, {len(signal.spans)} spans)"
        )


if __name__ == "__main__":
    main()
