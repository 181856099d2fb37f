"""A sweep file as it is written: which experiment, which grid, which points more or less."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.experiment.load import WrittenExperiment, anchored, written_in
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
_SEEDS: Final = ("seeds",)


@dataclass(frozen=True, slots=True)
class Axis:
    """A key of the experiment and the values it takes, in the order written, each once."""

    path: tuple[str, ...]
    values: tuple[Any, ...]

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
    """The file, its own keys checked (not yet those of the experiment); ConfigError lists every mistake."""
    values = read_toml(path)
    an_experiments = values.keys() & (Experiment.model_fields.keys() - _KEYS)
    if an_experiments and not values.keys() & {"experiment", "grid"}:
        raise ConfigError([f"{path.name}: an experiment file, not a sweep: roambench run {path}"])
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
        raise ConfigError(KeyLines(path).put_in(problems, path.name))
    return sweep


def _contradictions(sweep: SweepFile) -> list[str]:
    """Keys of the command line that the sweep sets itself."""
    changes, problems = parse_overrides(sweep.overrides)
    given = [(change.path, "--set") for change in changes]
    if sweep.trace_file is not None:
        given.append((("trace", "file"), "--trace"))
    for grid in (sweep.grid, *sweep.include):
        taken = {axis.path for axis in grid.axes}
        for path, where in given:
            if path in taken:
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
            self._mistake("experiment", "expected an experiment file, or its keys under [experiment]", value)
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
        for path, written in _leaves(value):
            where = f"{name}: {'.'.join(path)}"
            if path == _SEEDS and not name.startswith("exclude"):
                if type(written) is int and written >= 1:
                    seed_count = written
                else:
                    self._mistake(where, "expected how many seeds, an integer ≥ 1", written)
            elif path == ("name",):
                self._mistake(where, "belongs to the experiment: a sweep names its runs itself")
            elif lists and not isinstance(written, list):
                self._mistake(where, "expected a list of values", written)
            elif isinstance(written, list) and not written:
                self._mistake(where, "expected at least one value, got none")
            else:
                axes.append(self._axis(path, written if isinstance(written, list) else [written]))
        if seed_count is not None and any(axis.path == SEED for axis in axes):
            self._mistake(f"{name}: seeds", "expected either seed or seeds, got both")
        if not axes and seed_count is None and name != "grid":
            self._mistake(name, "expected at least one key")
        return Grid(tuple(axes), seed_count)

    def _axis(self, path: tuple[str, ...], values: list[Any]) -> Axis:
        folder = self._path.parent
        kept: list[Any] = []
        for value in values:
            found = anchored(Override(path, value), folder).value
            if not any(type(found) is type(other) and found == other for other in kept):
                kept.append(found)
        return Axis(path, tuple(kept))

    def _mistake(self, where: str, text: str, *got: object) -> None:
        found = f", got {shown(got[0])}{''.join(map(str, got[1:]))}" if got else ""
        self._problems.append(f"{self._path.name}: {where}: {text}{found}")


def _leaves(table: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every key that holds something else than a table; `a.b`, `"a.b"` and [grid.a] b are the same key."""
    for name, value in table.items():
        path = (*above, *name.split("."))
        if isinstance(value, dict):
            yield from _leaves(value, path)
        else:
            yield path, value
