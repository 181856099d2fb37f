"""A sweep file as it is written: which experiment, which grid, which points more or less."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.experiment.load import (
    WrittenExperiment,
    anchored,
    load_experiment,
    value_mistakes,
    written_in,
)
from roambench.experiment.overrides import Override, parse_overrides
from roambench.experiment.sections import Experiment
from roambench.runner.places.table import fleet_of
from roambench.runs.fleet_kinds import FLEET_KINDS
from roambench.study.sweep.metrics import METRICS, metric_of
from roambench.written.lines import KeyLines
from roambench.written.mistakes import did_you_mean, shown
from roambench.written.toml_file import read_toml

_KEYS: Final = ("experiment", "fleet", "metrics", "beside", "grid", "include", "exclude")
SYSTEMS: Final = ("systems",)
SEED: Final = ("seed",)
#: More runs than this no sweep has; the largest of ours has 1,230.
MOST_RUNS: Final = 20_000
_SEEDS: Final = ("seeds",)
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of the experiment and the values it takes, in the order written, each once."""

    path: tuple[str, ...]
    values: Sequence[Any]

    @property
    def key(self) -> str:
        """The dotted key that the axis changes."""
        return ".".join(self.path)


@dataclass(frozen=True, slots=True)
class Grid:
    """All combinations of the axes' values. `seed_count`: that many seeds from the experiment's own on."""

    axes: tuple[Axis, ...]
    seed_count: int | None = None

    def axis(self, path: tuple[str, ...]) -> Axis | None:
        """The axis that changes this key, if there is one."""
        return next((axis for axis in self.axes if axis.path == path), None)


@dataclass(frozen=True, slots=True)
class SweepFile:
    """`overrides` ("a.b=c") and `trace_file` come from the command line and hold for every point."""

    path: Path
    experiment: WrittenExperiment
    overrides: tuple[str, ...]
    trace_file: Path | None
    fleet: str
    metrics: tuple[str, ...]  # () where it names none
    grid: Grid
    include: tuple[Grid, ...]
    exclude: tuple[Grid, ...]
    beside: Grid | None = None  # one value for each key: the point beside which all others are set


def read_sweep(path: Path, overrides: Sequence[str] = (), trace_file: Path | None = None) -> SweepFile:
    """The file, its own keys checked. ConfigError lists every mistake, and where there is one also those of
    the experiment and of single values; else `points_of` finds them."""
    values = read_toml(path)
    an_experiments = values.keys() & (Experiment.model_fields.keys() - _KEYS)
    if an_experiments and not values.keys() & {"experiment", "grid"}:
        command = f"roambench run {shlex.quote(str(path))}"
        raise ConfigError([f"{path.name}: an experiment file, not a sweep: {command}"])
    problems = [
        f"{path.name}: {name}: unknown key{did_you_mean(name, _KEYS)}" for name in values.keys() - _KEYS
    ]
    problems.sort()
    reader = _Reader(path, problems)
    sweep = SweepFile(
        path=path,
        experiment=reader.experiment(values.get("experiment")),
        overrides=tuple(overrides),
        trace_file=trace_file,
        fleet=reader.fleet(values.get("fleet", "simulated")),
        metrics=reader.metrics(values["metrics"]) if "metrics" in values else (),
        grid=reader.grid("grid", values.get("grid", {}), lists=True),
        include=reader.grids("include", values.get("include", [])),
        exclude=reader.grids("exclude", values.get("exclude", [])),
        beside=reader.beside(values["beside"]) if "beside" in values else None,
    )
    problems += _contradictions(sweep)
    if problems:
        problems += experiment_problems(sweep)
        raise ConfigError(KeyLines(path).put_in(dict.fromkeys(problems), path.name))
    return sweep


def experiment_problems(sweep: SweepFile) -> list[str]:
    """Mistakes of the experiment, and of each value by itself: for a file whose points cannot be made yet."""
    problems: list[str] = []
    if sweep.experiment.file is not None:
        try:
            load_experiment(sweep.experiment, sweep.overrides, trace_file=sweep.trace_file)
        except ConfigError as error:
            problems += error.problems
    named = [("grid", sweep.grid)]
    named += [(f"include[{number}]", grid) for number, grid in enumerate(sweep.include, start=1)]
    for where, grid in named:
        for axis in grid.axes:
            for value in axis.values:
                change = Override(axis.path, [value] if axis.path == SYSTEMS else value)
                mistakes = value_mistakes(sweep.experiment, change)
                problems += [f"{sweep.path.name}: {where}: {mistake}" for mistake in mistakes]
    return problems


def _contradictions(sweep: SweepFile) -> list[str]:
    """Keys of the command line that the sweep sets itself."""
    changes, problems = parse_overrides(sweep.overrides)
    given = [(change.path, "--set") for change in changes]
    if sweep.trace_file is not None:
        given += [(("trace", key), "--trace") for key in ("file", "generator", "parameters")]
    for grid in (sweep.grid, *sweep.include):
        for path, where in given:
            lost = [axis.path for axis in grid.axes if path[: len(axis.path)] == axis.path]
            if where == "--trace":  # it replaces all of them
                lost += [axis.path for axis in grid.axes if axis.path[: len(path)] == path]
            if lost:
                key = ".".join(path)
                problems.append(f"{where} {key}: expected a key that {sweep.path.name} does not vary")
    return list(dict.fromkeys(problems))


class _Reader:
    """Turns the values of each key into what it means; every mistake is a line in `problems`."""

    def __init__(self, path: Path, problems: list[str]) -> None:
        self._path = path
        self._problems = problems

    def experiment(self, value: object) -> WrittenExperiment:
        """A table of an experiment's own keys, or the name of a file that has them."""
        if isinstance(value, dict):
            path = self._path
            return WrittenExperiment(value, f"{path.name}: experiment", path.parent, path, "experiment")
        nothing = WrittenExperiment({}, "", Path())
        if not isinstance(value, str) or not value:
            expected = "expected an experiment file, or its keys under [experiment]"
            if value is None:
                self._mistake("experiment", f"is missing, {expected}")
            else:
                self._mistake("experiment", expected, value)
            return nothing
        path = self._path.parent / Path(value).expanduser()
        if not path.is_file():
            self._mistake("experiment", f"expected an experiment file, {path} does not exist")
            return nothing
        try:
            return written_in(path)
        except ConfigError as error:
            self._problems += error.problems
            return nothing

    def fleet(self, value: object) -> str:
        """The fleet as `--fleet` has it; the file of a bench is beside this one."""
        try:
            kind, file = fleet_of(str(value))
        except ConfigError:
            known = ", ".join(kind.usage for kind in FLEET_KINDS.values())
            self._mistake("fleet", f"expected one of {known}", value)
            return str(value)
        if not kind.has_file:
            return kind.name
        path = (self._path.parent / Path(file).expanduser()).resolve()
        if not path.is_file():
            self._mistake("fleet", f"expected the file of a bench, {path} does not exist")
        return f"{kind.name}:{path}"

    def metrics(self, value: object) -> tuple[str, ...]:
        names = value if isinstance(value, list) else []
        if not names:
            self._mistake("metrics", "expected a list of metrics", value)
        for name in names:
            if metric_of(str(name)) is None:
                hint = did_you_mean(str(name), list(METRICS))
                known = ", ".join((*METRICS, "rounds_to_<accuracy>", "final <name>", "best <name>"))
                self._mistake("metrics", f"expected some of {known}", name, hint)
        return tuple(dict.fromkeys(map(str, names)))

    def grids(self, name: str, value: object) -> tuple[Grid, ...]:
        if not isinstance(value, list) or not all(isinstance(table, dict) for table in value):
            self._mistake(name, f"expected tables, each under [[{name}]]", value)
            return ()
        return tuple(
            self.grid(f"{name}[{number}]", table, lists=False) for number, table in enumerate(value, start=1)
        )

    def beside(self, value: object) -> Grid:
        """A point of the grid: one value for each key that is not the experiment's own."""
        found = self.grid("beside", value, lists=False)
        for axis in found.axes:
            if len(axis.values) != 1 or axis.path == SEED:
                self._mistake(f"beside: {axis.key}", "expected one value of a key other than the seed")
        if found.seed_count is not None:
            self._mistake("beside: seeds", "expected none: points are paired by all their seeds")
        return found

    def grid(self, name: str, value: object, *, lists: bool) -> Grid:
        """`lists`: every key needs a list of values; else one value may stand alone."""
        if not isinstance(value, dict):
            self._mistake(name, f"expected a table of keys with {'lists of ' if lists else ''}values", value)
            return Grid(())
        axes, seed_count = list[Axis](), None
        leaves = list(_leaves(value))
        self._overlaps(name, leaves)
        for path, _, written in leaves:
            where = f"{name}: {'.'.join(path)}"
            if path == _SEEDS and not name.startswith("exclude"):
                if type(written) is int and 1 <= written <= MOST_RUNS:
                    seed_count = written
                elif type(written) is int and written >= 1:
                    expected = f"expected how many seeds, at most {MOST_RUNS:,}"
                    self._mistake(where, expected, written, f"; one seed is seed = [{written}]")
                else:
                    self._mistake(where, "expected how many seeds, an integer ≥ 1", written)
            elif path == ("name",):
                self._mistake(where, "belongs to the experiment: a sweep names its runs itself")
            elif lists and not isinstance(written, list):
                self._mistake(where, "expected a list of values", written)
            elif isinstance(written, list) and not written:
                self._mistake(where, "expected at least one value, got none")
            elif isinstance(written, list) and len(written) > MOST_RUNS:
                self._mistake(where, f"expected at most {MOST_RUNS:,} values, got {len(written):,}")
            else:
                values = written if isinstance(written, list) else [written]
                axes.append(self._axis(path, self._systems(where, values) if path == SYSTEMS else values))
        if seed_count is not None and any(axis.path == SEED for axis in axes):
            self._mistake(f"{name}: seeds", "expected either seed or seeds, got both")
        if not leaves and name != "grid":
            self._mistake(name, "expected at least one key")
        return Grid(tuple(axes), seed_count)

    def _overlaps(self, name: str, leaves: Sequence[tuple[tuple[str, ...], str, Any]]) -> None:
        """Keys of which one would silently change the values of another."""
        for (path, first, _), (other, second, _) in combinations(leaves, 2):
            if path == other:
                self._mistake(f"{name}: {'.'.join(path)}", f"expected it once, got {first} and {second}")
            elif path[: len(other)] == other or other[: len(path)] == path:
                whole, part = sorted((first, second), key=len)
                self._mistake(f"{name}: {part}", f"expected it or {whole}, of which it is a part, got both")

    def _systems(self, where: str, values: Sequence[Any]) -> list[Any]:
        """The values that are one system each."""
        for value in values:
            if not isinstance(value, str):
                self._mistake(where, "expected names, as each run has one system", value)
        return [value for value in values if isinstance(value, str)]

    def _axis(self, path: tuple[str, ...], values: list[Any]) -> Axis:
        folder = self._path.parent
        found = [anchored(Override(path, value), folder).value for value in values]
        return Axis(path, tuple({repr(value): value for value in found}.values()))

    def _mistake(self, where: str, text: str, *got: object) -> None:
        found = f", got {shown(got[0])}{''.join(map(str, got[1:]))}" if got else ""
        self._problems.append(f"{self._path.name}: {where}: {text}{found}")


def _leaves(
    table: Mapping[str, Any], above: tuple[str, ...] = (), spelled: str = ""
) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Every key that holds something else than a table, and how it is written; `a.b`, `"a.b"` and [grid.a] b
    are the same key."""
    for name, value in table.items():
        path = (*above, *name.split("."))
        key = name if _BARE_KEY.fullmatch(name) else f'"{name}"'
        here = f"{spelled}.{key}" if spelled else key
        if isinstance(value, dict):
            yield from _leaves(value, path, here)
        else:
            yield path, here, value
