"""The points of a sweep: every one an experiment of one system and one seed, checked before anything runs."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.overrides import Override
from roambench.experiment.sections import Experiment, resolved
from roambench.runner.foreign_code import digest_of, foreign_code
from roambench.runner.places.table import fleet_of, refuse_unfit
from roambench.study.sweep.metrics import is_of_task, own_names
from roambench.study.sweep.sweep_file import (
    MOST_RUNS,
    SEED,
    SYSTEMS,
    Axis,
    Grid,
    SweepFile,
    experiment_problems,
)
from roambench.written.expected import field_at
from roambench.written.lines import KeyLines
from roambench.written.mistakes import did_you_mean

#: One combination of values, in the order of the axes.
Setting = tuple[tuple[tuple[str, ...], Any], ...]
#: Keys that may differ between runs of one setting: of no meaning for what a run ends with.
FREE: Final = frozenset({"name", "seed", "simulated.workers"})
_SHORT = 10  # digits of the key in a folder's name


@dataclass(frozen=True, slots=True)
class Point:
    """One run. `row` is what its line of the table says: the sweep's keys without the seed, with values.

    `key` is the same for the same resolved configuration on the same fleet, under any name of the sweep
    and however many workers train. `code`: digest of the other packages' code in it, "" for none.
    `title`: its name for people, "" for its values.
    """

    row: tuple[tuple[str, Any], ...]
    experiment: Experiment  # with one system
    fleet: str
    key: str
    code: str = ""
    title: str = ""

    @property
    def system(self) -> str:
        """The point's only system."""
        return self.experiment.systems[0]

    @property
    def seed(self) -> int:
        """The point's seed."""
        return self.experiment.seed

    @property
    def folder_name(self) -> str:
        """The folder of the point: system, seed and a digest of the rest."""
        return f"{re.sub(r'[^A-Za-z0-9._-]', '_', self.system)}-seed{self.seed}-{self.key[:_SHORT]}"

    @property
    def label(self) -> str:
        """The point's title, or its values as text, for people: without keys that it leaves as they are."""
        given = (f"{name}={text(value)}" for name, value in self.row if value is not None)
        return self.title or " ".join([*given, f"seed={self.seed}"])


def points_of(sweep: SweepFile) -> list[Point]:
    """All points in the order of the grid, each once; ConfigError lists every mistake of every point."""
    base, lines = _base_of(sweep), KeyLines(sweep.path)
    kind, _ = fleet_of(sweep.fleet)
    problems: dict[str, None] = dict.fromkeys(
        _pointless_exclusions(sweep, _completed(sweep.grid, sweep.grid, base))
    )
    columns = _columns(sweep)
    points: dict[str, Point] = {}
    for where, setting in _settings(sweep, base):
        changes = [Override(path, [value] if path == SYSTEMS else value) for path, value in setting]
        try:
            experiment = load_experiment(
                sweep.experiment,
                sweep.overrides,
                trace_file=sweep.trace_file,
                more={f"{sweep.path.name}: {where}": changes},
            )
        except ConfigError as error:
            problems.update(dict.fromkeys(error.problems))
            continue
        try:
            refuse_unfit(experiment, kind)
        except ConfigError as error:
            problems.update((f"{sweep.path.name}: {where}: {problem}", None) for problem in error.problems)
            continue
        code = digest_of(foreign_code(experiment, kind))
        key = point_key(experiment, sweep.fleet, code)
        row = _row(columns, experiment, dict(setting), sweep)
        points.setdefault(key, Point(row, experiment, sweep.fleet, key, code))
    known = own_metrics(list(points.values()))
    for name in sweep.metrics:
        if is_of_task(name) and name not in known and points:
            has = f"expected one of {', '.join(known)}" if known else "the task has none"
            problems[f'{sweep.path.name}: metrics: {has}, got "{name}"{did_you_mean(name, known)}'] = None
    if problems:
        raise ConfigError(lines.put_in(problems, sweep.path.name))
    if not points:
        raise ConfigError([f"{sweep.path.name}: exclude: expected at least one point to be left, got none"])
    return list(points.values())


def run_count(sweep: SweepFile) -> int:
    """The runs that grid and `include` ask for, counted before one is made and before `exclude`. ConfigError
    where they are more than any sweep has, or the experiment has mistakes."""
    return _run_count(sweep, _base_of(sweep))


def _run_count(sweep: SweepFile, base: Experiment) -> int:
    grids = (sweep.grid, *sweep.include)
    return sum(math.prod(len(axis.values) for axis in _completed(grid, sweep.grid, base)) for grid in grids)


def _base_of(sweep: SweepFile) -> Experiment:
    """The experiment of which the points are changes; ConfigError lists the mistakes of both."""
    try:
        base = load_experiment(sweep.experiment, sweep.overrides, trace_file=sweep.trace_file)
        problems = []
    except ConfigError:
        problems = experiment_problems(sweep)
        if all(field_at(Experiment, axis.path) is not None for axis in sweep.grid.axes):
            problems += _pointless_exclusions(sweep, sweep.grid.axes)
    if not problems and (runs := _run_count(sweep, base)) > MOST_RUNS:
        problems = [
            f"{sweep.path.name}: grid: expected at most {MOST_RUNS:,} runs, got {runs:,}; take fewer values "
            "or seeds, or a sweep file for each part of them"
        ]
    if problems:
        raise ConfigError(KeyLines(sweep.path).put_in(dict.fromkeys(problems), sweep.path.name))
    return base


def rows_beside(sweep: SweepFile, points: Sequence[Point]) -> dict[str, str]:
    """The row beside which each row of the table is set, both as `repr`: it has the values of `sweep.beside`,
    in other keys of the grid those of the row, and in all else the experiment's own. Empty without that key;
    ConfigError where no such row is there."""
    if sweep.beside is None:
        return {}
    named = {_name(axis.path): axis.values[0] for axis in sweep.beside.axes}
    free = {_name(axis.path) for axis in sweep.grid.axes} - named.keys()
    base = load_experiment(sweep.experiment, sweep.overrides, trace_file=sweep.trace_file)
    usual = dict(_row(_columns(sweep), base, {}, sweep)) | named
    rows = {repr(point.row): point.row for point in points}
    found = {}
    for key, row in rows.items():
        other = tuple((name, value if name in free else usual[name]) for name, value in row)
        if repr(other) in rows:
            found[key] = repr(other)
    if found and named.keys() <= {name for name, _ in points[0].row}:
        return found
    asked = ", ".join(f"{name} = {text(value)}" for name, value in named.items())
    raise ConfigError([f"{sweep.path.name}: beside: expected a point of the grid, got {asked}"])


def _name(path: tuple[str, ...]) -> str:
    return "system" if path == SYSTEMS else ".".join(path)


def own_metrics(points: Sequence[Point]) -> list[str]:
    """The metrics that the points' tasks have by themselves, as sweeps name them, each once."""
    tasks = dict.fromkeys(point.experiment.learning.task for point in points)
    return list(dict.fromkeys(name for task in tasks if task for name in own_names(task)))


def point_key(experiment: Experiment, fleet: str, code: str) -> str:
    """Digest of all that decides the result: configuration, trace and link model by their content, and
    `code`, that of what other packages contribute (`foreign_code`)."""
    config = resolved(experiment)
    del config["name"], config["simulated"]["workers"]
    trace, learning, links = config["trace"], config["learning"], config["links"]
    if learning["score_precision"] == "float32":
        del learning["score_precision"]  # keys of sweeps from before there was a choice stay as they were
    if trace["file"]:
        trace["file"] = _content(Path(trace["file"]))
    if Path(links["model"]).is_file():
        links["model"] = _content(Path(links["model"]))
    if learning["data_path"]:
        learning["data_path"] = str(Path(learning["data_path"]).resolve())
    made_of = {"fleet": fleet, "config": config, **({"code": code} if code else {})}
    described = json.dumps(made_of, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(described.encode(), digest_size=16).hexdigest()


def text(value: Any) -> str:
    """A value as the table shows it: a text without quotes, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)


def _settings(sweep: SweepFile, base: Experiment) -> Iterator[tuple[str, Setting]]:
    """(where it was written, values) of every point: the grid less `exclude`, then `include`."""
    for setting in _product(_completed(sweep.grid, sweep.grid, base)):
        if not any(_covers(grid, setting) for grid in sweep.exclude):
            yield "grid", setting
    for number, grid in enumerate(sweep.include, start=1):
        for setting in _product(_completed(grid, sweep.grid, base)):
            yield f"include[{number}]", setting


def _completed(grid: Grid, main: Grid, base: Experiment) -> list[Axis]:
    """The grid's axes with systems and, innermost, seeds: its own, else the main grid's, else the file's."""
    axes = [axis for axis in grid.axes if axis.path != SEED]
    if grid.axis(SYSTEMS) is None:
        axes.append(main.axis(SYSTEMS) or Axis(SYSTEMS, base.systems))
    own = next((g for g in (grid, main) if g.seed_count is not None or g.axis(SEED) is not None), None)
    seeds = None if own is None else own.axis(SEED)
    if seeds is None:
        count = 1 if own is None or own.seed_count is None else own.seed_count
        seeds = Axis(SEED, range(base.seed, base.seed + count))
    return [*axes, seeds]


def _pointless_exclusions(sweep: SweepFile, axes: Sequence[Axis]) -> Iterator[str]:
    """Keys and values of [[exclude]] that no point of these axes has. Systems and seeds that are not among
    the axes are the experiment's own, and are not looked at."""
    known = {axis.path: axis.values for axis in axes}
    keys = dict.fromkeys((*(axis.path for axis in axes if axis.path != SEED), SYSTEMS, SEED))
    for number, grid in enumerate(sweep.exclude, start=1):
        for axis in grid.axes:
            where = f"{sweep.path.name}: exclude[{number}]: {axis.key}"
            if axis.path not in keys:
                yield f"{where}: expected a key of the grid, one of {', '.join(map('.'.join, keys))}"
                continue
            there = known.get(axis.path, axis.values)
            for value in axis.values:
                if value not in there:
                    yield f"{where}: expected one of {', '.join(map(text, there))}, got {text(value)}"


def _product(axes: Sequence[Axis]) -> Iterator[Setting]:
    for values in itertools.product(*(axis.values for axis in axes)):
        yield tuple(zip((axis.path for axis in axes), values, strict=True))


def _covers(grid: Grid, setting: Setting) -> bool:
    """Return whether every key of the table has one of its values; a key that no axis has covers nothing."""
    values = dict(setting)
    return all(axis.path in values and values[axis.path] in axis.values for axis in grid.axes)


def _columns(sweep: SweepFile) -> list[tuple[str, ...]]:
    """The system first, then every key of the grid and of what is included, as they come."""
    paths = [axis.path for grid in (sweep.grid, *sweep.include) for axis in grid.axes]
    return list(dict.fromkeys([SYSTEMS, *(path for path in paths if path != SEED)]))


def _row(
    columns: Sequence[tuple[str, ...]],
    experiment: Experiment,
    setting: Mapping[tuple[str, ...], Any],
    sweep: SweepFile,
) -> tuple[tuple[str, Any], ...]:
    config = resolved(experiment)
    cells: list[tuple[str, Any]] = []
    for path in columns:
        if path == SYSTEMS:
            cells.append((_name(path), experiment.systems[0]))
            continue
        value: Any = setting.get(path)
        if path not in setting:
            value = config
            for part in path:
                value = value.get(part) if isinstance(value, dict) else None
        cells.append((_name(path), _beside(value, sweep.path.parent)))
    return tuple(cells)


def _beside(value: Any, folder: Path) -> Any:
    """A path as the sweep file writes it: the table is the same wherever it is called from."""
    prefix = f"{folder}/"
    return value.removeprefix(prefix) if isinstance(value, str) and str(folder) != "." else value


def _content(path: Path) -> str:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
