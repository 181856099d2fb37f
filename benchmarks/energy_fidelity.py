"""The proof of the energy: emulated runs in virtual time, measured as real ones are, against the truth.

    python benchmarks/energy_fidelity.py [--runs 480] [--jobs 2] [--seed 1]
    python benchmarks/energy_fidelity.py --worlds [--runs N] [--world NAME ...] [--meter NAME ...]

The first proves the estimator where its assumptions are true. The second asks what happens where they are
not: `fidelity/physics` and `fidelity/benches` draw boards and meters from their physics alone and share no
code with estimator or emulator, nor with each other. A world is met when the printed +- 2 u holds the truth
of every figure in 93 % of its runs, or when 95 % of them carry the flag that a report would show; in clean
and fair worlds at most 2 % may. All worlds are for a Smart Power 2 at 1 Hz, 200 runs each; some of them
follow with the other meters that their generator has, 30 runs each. Lines appear as they are done.

Every run idles for a minute, goes through 6 to 30 rounds of idle, download, train, upload, wait in this
fixed order, and idles for another minute. Drawn for each: firmware and sampling rate, phase lengths, how
steadily the board draws, whether all transfers run at one rate or over Wi-Fi and LTE at rates of their own,
meter tolerances (calibrated or not), faults of the line, and whether another host
reads the meter (then its clock is found by probes). Lines pass through the real parsers; the truth never saw
a sensor.

Prints the figures by firmware, phase length, power, fault and clock, what the sum of P x period and the
trapezoid per phase make of the same lines, and PASS or FAIL per goal; a goal missed exits with 1.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import islice
from multiprocessing import get_context
from pathlib import Path

from rich.progress import track

sys.path.insert(0, str(Path(__file__).parent))

from fidelity.emulated import PROFILES, Scenario
from fidelity.measured import Outcome, outcome
from fidelity.verdict import CLASSES, DEMANDED, Group, figures_of, goals
from fidelity.worlds import FIGURES, OF_OTHER_METERS, TRAITS, WORLDS, Measured, known_to, measure, row_of

DEFAULT_RUNS = 480
DEFAULT_WORLD_RUNS = 200
DEFAULT_RUNS_OF_OTHERS = 30
HEADING = (
    f"{'':34s} {'runs':>5s} {'held 2u':>8s} {'sd z':>5s} {'mean z':>7s} {'bias':>8s} {'sd':>7s} "
    f"{'med 2u':>7s} {'naive':>8s} {'trapez.':>8s}"
)


def one(number: int, seed: int) -> Outcome:
    return outcome(Scenario.drawn(seed, number, PROFILES), seed)


def outcomes(runs: int, seed: int, jobs: int, *, progress: bool = False) -> list[Outcome]:
    """The outcomes of runs 0..`runs`, in order; the same for every number of jobs."""
    if jobs == 1:
        return [one(number, seed) for number in range(runs)]
    # Fresh processes: a fork of one that has used gRPC may hang in what gRPC left behind.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        found = pool.map(partial(one, seed=seed), range(runs), chunksize=4)
        return list(track(found, total=runs, description="emulating", transient=True, disable=not progress))


def line(name: str, group: Group) -> str:
    return (
        f"{name:34s} {group.runs:5d} {100 * group.held:7.1f}% {group.pull_sd:5.2f} {group.pull_mean:+7.2f} "
        f"{100 * group.bias:+7.2f}% {100 * group.sd:6.2f}% {100 * group.median_2u:6.2f}% "
        f"{100 * group.naive_bias:+7.1f}% {100 * group.trapezoid_bias:+7.1f}%"
    )


def table(title: str, found: Sequence[Outcome], key: Callable[[Scenario], str]) -> None:
    """Whole runs and net phases, group by group."""
    print(f"\n{title}\n{HEADING}")
    for value in dict.fromkeys(key(o.scenario) for o in sorted(found, key=lambda o: key(o.scenario))):
        for what in ("whole", "download net", "train net", "upload net"):
            own = figures_of(found, what, lambda o, value=value: key(o.scenario) == value)  # type: ignore[misc]
            if own:
                print(line(f"{value:20s} {what}", Group.of(own)))


def in_world(task: tuple[str, str, int]) -> Measured:
    return measure(*task)


def worlds(names: Sequence[str], meter: str, runs: int, seed: int, jobs: int) -> int:
    """Print a line per world as soon as its runs are done, and what is not met; 1 where anything is not."""
    started = time.perf_counter()
    os.environ["OMP_NUM_THREADS"] = (
        "1"  # of the fresh processes: two that compete for cores take twice as long
    )
    tasks = [(name, meter, seed + run) for name in names for run in range(runs)]
    print(f"{len(names)} worlds, {runs} runs each, {meter}.")
    print("bias % / held by +- 2 u, % / median 2 u, % of the truth; flagged: share of runs, %\n")
    print(
        f"{'world':25s}"
        + "".join(f"{f'{what} {kind}':>19s}" for what, kind in FIGURES)
        + "  flagged  verdict"
    )
    unmet = []
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        done = pool.map(in_world, tasks, chunksize=8)
        for name in names:
            row = row_of(name, list(islice(done, runs)))
            cells = "".join(
                f"{100 * bias:+7.1f}/{100 * held:4.0f}/{100 * two_u:5.1f} "
                for bias, held, two_u in zip(row.bias, row.held, row.median_2u, strict=True)
            )
            print(f"{row.world:25s}{cells} {100 * row.flagged:6.0f}  {row.verdict}", flush=True)
            if row.verdict.startswith("NOT"):
                unmet.append(name)
    print(
        f"\n{len(names) - len(unmet)} of {len(names)} worlds right or flagged,"
        f" in {time.perf_counter() - started:.0f} s." + (f" Not: {', '.join(unmet)}" if unmet else "")
    )
    return 1 if unmet else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--runs", type=int, help=f"default {DEFAULT_RUNS}; of each world as above")
    parser.add_argument("--worlds", action="store_true")
    parser.add_argument("--world", action="append", choices=WORLDS, help="only this one (repeatable)")
    parser.add_argument("--meter", action="append", choices=list(TRAITS), help="only this one (repeatable)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.worlds or options.world or options.meter:
        unmet = 0
        for meter in options.meter or TRAITS:
            wanted = options.world or (WORLDS if meter == "sp2-1hz" else OF_OTHER_METERS)
            names = [name for name in wanted if known_to(name, meter)]
            default = DEFAULT_WORLD_RUNS if meter == "sp2-1hz" else DEFAULT_RUNS_OF_OTHERS
            if names:
                unmet += worlds(names, meter, options.runs or default, options.seed, options.jobs)
            elif options.meter:
                parser.error(f"none of these worlds has the meter {meter}")
        return min(unmet, 1)
    runs = options.runs or DEFAULT_RUNS
    started = time.perf_counter()
    found = outcomes(runs, options.seed, options.jobs, progress=True)
    spent_s = time.perf_counter() - started
    print(f"{runs} emulated runs, seed {options.seed}, in {spent_s:.0f} s.")
    print(
        "held 2u: measured +- 2 u holds the truth; z = (measured - true) / u; bias, sd, med 2u: relative to"
    )
    print("the truth; naive: sum of P x period, trapez.: trapezoid cut at the phases' borders, mean errors.")
    print(f"\nall runs\n{HEADING}")
    extra = ("whole, filled", *(f"one {phase}" for phase in ("download", "train", "upload")))
    for what in (*DEMANDED, *CLASSES, *extra):
        if own := figures_of(found, what):
            print(line(what, Group.of(own)))
    calibrated = figures_of(found, "whole", lambda o: o.scenario.calibrated)
    print(line("whole, calibrated meters", Group.of(calibrated)))
    table("by meter and interval", found, lambda s: s.traits)
    table("by length of a transfer", found, lambda s: f"{s.transfer_s:4.1f} s")
    table("by the board's power", found, lambda s: s.power)
    table("by fault", found, lambda s: s.fault)
    table("by links", found, lambda s: s.links)
    table("by clock", found, lambda s: s.clock)
    print()
    judged = goals(found)
    for goal in judged:
        print(f"{'PASS' if goal.met else 'FAIL'}  {goal.what:45s} {goal.reached:>8s}  (goal: {goal.wanted})")
    return 0 if all(goal.met for goal in judged) else 1


if __name__ == "__main__":
    sys.exit(main())
