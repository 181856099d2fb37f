"""The runs of a comparison in their order: A B, B A, A B, ... so that a slow drift cancels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.overrides import Override, parse_overrides
from roambench.experiment.sections import Experiment, resolved
from roambench.runner.foreign_code import digest_of, foreign_code
from roambench.runner.places.table import fleet_of, refuse_unfit
from roambench.runs.fleet_kinds import FleetKind
from roambench.study.sweep.points import FREE, Point, point_key, text

ArmName = Literal["A", "B"]
ARMS: Final[tuple[ArmName, ArmName]] = ("A", "B")
#: What a system does, which A and B may differ in: tables, and keys of others. All other keys are of the work
#: that both are given, or of the bench that measures it.
_SYSTEMS_TABLES: Final = ("systems", "algorithm", "program")
_SYSTEMS_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "fleet": ("aps", "deadline_s"),
    "links": ("codec_up", "codec_down", "codec_of"),
    "learning": (
        *("model", "local_epochs", "local_steps", "batch_size", "optimiser", "learning_rate", "momentum"),
        *("weight_decay", "augmentation", "channels_last", "download"),
    ),
    "rounds": (
        *("cloud_every_steps", "sigma", "cosine", "empty_sync_clears", "orders", "lookahead", "score_aps"),
    ),
    "decentralised": ("half_step", "alpha", "exchange_deadline_s"),
    "simulated": ("backend", "ray_address", "precision", "stack", "device", "train"),
}
#: Keys of a system's tables that are of the work nevertheless, or of how it is counted.
_ALIKE: Final = ("algorithm.sync_download", "program.reachable")


@dataclass(frozen=True, slots=True)
class Asked:
    """The user's request. `changes` hold for both, the others for one ("a.b=c" each)."""

    a: Path
    b: Path
    fleet: str
    repeats: int
    same_seed: bool = False
    trace: Path | None = None
    changes: tuple[str, ...] = ()
    changes_a: tuple[str, ...] = ()
    changes_b: tuple[str, ...] = ()

    def file(self, arm: ArmName) -> Path:
        """The experiment file of an arm."""
        return self.a if arm == "A" else self.b

    def own(self, arm: ArmName) -> tuple[str, ...]:
        """The changes (`--set`) of an arm, those of both arms first."""
        return (*self.changes, *(self.changes_a if arm == "A" else self.changes_b))


@dataclass(frozen=True, slots=True)
class PairedRun:
    """One run: the `pair` (from 1) that it belongs to, and its point in the folder of all runs."""

    arm: ArmName
    pair: int
    point: Point


@dataclass(frozen=True, slots=True)
class AbPlan:
    """`turns` in the order they are run; `differences` are the keys in which the experiments differ."""

    asked: Asked
    labels: dict[ArmName, str]
    turns: tuple[PairedRun, ...]
    differences: tuple[tuple[str, str, str], ...]  # key, A's value, B's value
    warnings: tuple[str, ...]

    @property
    def pairs(self) -> int:
        """The number of pairs of turns."""
        return self.asked.repeats

    def turn(self, arm: ArmName, pair: int) -> PairedRun:
        """The turn of an arm in a pair (from 0)."""
        return next(turn for turn in self.turns if (turn.arm, turn.pair) == (arm, pair))


def abba(pairs: int) -> Iterator[tuple[int, ArmName]]:
    """(1, A) (1, B) (2, B) (2, A) (3, A) (3, B) ..."""
    for pair in range(1, pairs + 1):
        for arm in ARMS if pair % 2 else ARMS[::-1]:
            yield pair, arm


def plan_ab(asked: Asked) -> AbPlan:
    """All runs, every one checked before anything starts; ConfigError lists the mistakes of both files.

    Each pair has its own seed, A's and the ones after it, which both its runs take: the interval then
    covers what another draw would change. `same_seed` repeats one seed: only the bench's own scatter, which
    fleets without agents have none of.
    """
    problems: list[str] = []
    base: dict[ArmName, Experiment] = {}
    for arm in ARMS:
        try:
            base[arm] = _experiment(asked, arm, None)
            refuse_unfit(base[arm], fleet_of(asked.fleet)[0])
            _refuse_copies(asked)
            if len(base[arm].systems) != 1:
                got = ", ".join(base[arm].systems)
                problems.append(
                    f"{asked.file(arm).name}: systems: expected one to compare, got {got}; "
                    f"--set-{arm.lower()} 'systems=[\"{base[arm].systems[0]}\"]' chooses"
                )
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))
    seed = base["A"].seed
    turns = []
    for pair, arm in abba(asked.repeats):
        experiment = _experiment(asked, arm, seed if asked.same_seed else seed + pair - 1)
        code = digest_of(foreign_code(experiment, fleet_of(asked.fleet)[0]))
        key = f"{point_key(experiment, asked.fleet, code)}/{arm}/{pair}"
        short = hashlib.blake2b(key.encode(), digest_size=16).hexdigest()
        row = (("arm", arm), ("pair", pair))
        turns.append(PairedRun(arm, pair, Point(row, experiment, asked.fleet, short, code, f"{arm}{pair}")))
    differences = tuple(_differences(resolved(base["A"]), resolved(base["B"])))
    return AbPlan(asked, _labels(asked, base), tuple(turns), differences, tuple(_doubts(asked, differences)))


def _refuse_copies(asked: Asked) -> None:
    """ConfigError where nothing but the seed differs from one pair to the next, and the seed shall not."""
    kind = fleet_of(asked.fleet)[0]
    if asked.same_seed and asked.repeats > 1 and not kind.has_agents:
        raise ConfigError(
            [
                f"--same-seed: on --fleet {kind.name} chance has no part but the seed, so {asked.repeats} "
                "pairs would be copies of one: expected none, or --repeats 1"
            ]
        )


def _experiment(asked: Asked, arm: ArmName, seed: int | None) -> Experiment:
    own, problems = parse_overrides(asked.own(arm))
    if problems:
        raise ConfigError(problems)
    changes = [*own, *([] if seed is None else [Override(("seed",), seed)])]
    return load_experiment(asked.file(arm), trace_file=asked.trace, more={"--set": changes})


def _labels(asked: Asked, base: dict[ArmName, Experiment]) -> dict[ArmName, str]:
    """Names people tell them apart by: system, else file, else what was set."""
    for name in (
        {arm: base[arm].systems[0] for arm in ARMS},
        {arm: asked.file(arm).stem for arm in ARMS},
        {arm: " ".join(asked.own(arm)) or asked.file(arm).stem for arm in ARMS},
    ):
        if name["A"] != name["B"]:
            return name
    return {"A": "A", "B": "B"}


def _differences(a: Any, b: Any, path: Sequence[str] = ()) -> Iterator[tuple[str, str, str]]:
    if isinstance(a, dict) and isinstance(b, dict):
        for name in dict.fromkeys((*a, *b)):
            yield from _differences(a.get(name), b.get(name), (*path, name))
    elif a != b and (key := ".".join(path)) not in FREE:
        yield key, text(a), text(b)


def _doubts(asked: Asked, differences: Sequence[tuple[str, str, str]]) -> Iterator[str]:
    for key, a, b in differences:
        if not _may_differ(key, fleet_of(asked.fleet)[0]):
            yield f"{key} differs ({a} and {b}): A and B do not do the same work, or are not measured alike"
    if asked.repeats == 1:
        yield "one pair only: no interval, nothing is claimed; take --repeats 4 or more"
    elif asked.repeats % 2:
        yield "an odd number of pairs: a slow drift of the bench does not cancel in the last one"


def _may_differ(key: str, kind: FleetKind) -> bool:
    table, _, name = key.partition(".")
    read = {"local": kind.emulates, "simulated": kind.is_virtual, "influxdb": False}  # that takes copies
    read |= dict.fromkeys(("clock", "energy", "host"), kind.has_agents)
    if not read.get(table, True):
        return True
    if table in _SYSTEMS_TABLES:
        return key not in _ALIKE
    return name in _SYSTEMS_KEYS.get(table, ())
