"""What will be done to which run: drawn from a seed, so that any run can be had again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.draws import generator
from soaking.faults import KINDS, Kind
from soaking.worlds import WORLDS

#: Host seconds after the first step began within which faults begin. A whole run's steps take as long.
WINDOW_S: Final = 13.0
#: The same for runs on hosts, whose steps take longer.
HOSTS_WINDOW_S: Final = 30.0
#: How often each world is drawn.
SHARES: Final[Mapping[str, float]] = {
    "rounds": 0.26,
    "quiet rounds": 0.1,
    "kept models": 0.14,
    "peers": 0.28,
    "influxdb": 0.12,
    "hosts": 0.06,
    "hosts' peers": 0.06,
    "virtual": 0.05,
    "virtual peers": 0.05,
}
#: Share of the runs that get no fault which may cost a training: these must end as if nothing had been.
HARMLESS: Final = 0.5
#: Share of the runs on agents whose controller is ended before they are done, and of those that go on then.
ENDED: Final = 0.12
RESUMED: Final = 0.25
HOSTS_RESUMED: Final = 0.5


@dataclass(frozen=True)
class Fault:
    """One fault: `at_s` host seconds after the first step began, for `lasts_s` where it lasts. `device` is
    who is hit, where somebody is; `draw` decides what else there is to decide."""

    kind: str
    at_s: float
    device: str
    lasts_s: float
    draw: int


@dataclass(frozen=True)
class PlannedRun:
    number: int
    world: str
    faults: tuple[Fault, ...]


def planned_run(seed: int, number: int, worlds: Mapping[str, float] = SHARES) -> PlannedRun:
    """Run `number` of the soak with `seed`, in one of `worlds` (with weights)."""
    draw = generator(seed, "soak", number)
    drawn, weights = list(worlds), list(worlds.values())
    world = drawn[int(draw.choice(len(drawn), p=[weight / sum(weights) for weight in weights]))]
    own = [kind for kind in KINDS.values() if kind.fits(WORLDS[world])]
    few, names = WORLDS[world].fleet == "simulated", WORLDS[world].names
    hosts = WORLDS[world].fleet == "bench"
    window_s, resumed = (HOSTS_WINDOW_S, HOSTS_RESUMED) if hosts else (WINDOW_S, RESUMED)
    ends = [kind for kind in own if kind.ends]
    resumes = [kind for kind in own if kind.resumes and not few]
    pool = [kind for kind in own if kind not in (*ends, *resumes)]
    if draw.random() < HARMLESS:
        pool = [kind for kind in pool if not kind.costs_training] or pool
    count = int(draw.integers(2, 5)) if few or hosts else int(draw.integers(6, 11))
    faults = [_fault(draw, pool[int(draw.integers(len(pool)))], names, 0.0, window_s) for _ in range(count)]
    if ended := bool(ends) and draw.random() < ENDED:
        faults.append(_fault(draw, ends[int(draw.integers(len(ends)))], names, 0.4 * window_s, window_s))
    if resumes and not ended and draw.random() < resumed:  # a signal may hit it before it goes on
        faults.append(_fault(draw, resumes[int(draw.integers(len(resumes)))], names, 0.0, window_s))
    return PlannedRun(number, world, tuple(sorted(faults, key=lambda fault: fault.at_s)))


def planned_runs(seed: int, worlds: Mapping[str, float] = SHARES) -> Iterator[PlannedRun]:
    """One after the other, for ever."""
    number = 0
    while True:
        yield planned_run(seed, number, worlds)
        number += 1


def _fault(draw: np.random.Generator, kind: Kind, names: Sequence[str], from_s: float, to_s: float) -> Fault:
    shortest, longest = kind.lasts_s
    share = float(draw.random())
    lasts_s = shortest * (longest / shortest) ** share if longest else 0.0
    return Fault(
        kind.name,
        round(float(draw.uniform(from_s, to_s)), 3),
        names[int(draw.integers(len(names)))],
        round(lasts_s, 3),
        int(draw.integers(2**31)),
    )
