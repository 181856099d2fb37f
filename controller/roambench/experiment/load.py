"""An experiment file becomes an Experiment, or a ConfigError that lists every mistake at once."""

from __future__ import annotations

import copy
import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from roambench.contract.errors import ConfigError
from roambench.experiment.link_model_file import link_model_path
from roambench.experiment.meter_calibration_file import (
    read_meter_calibrations,
    reference_problems,
)
from roambench.experiment.overrides import Override, apply_override, parse_overrides
from roambench.experiment.rounds_section import REPLAY
from roambench.experiment.rules import broken_rules, unknown_names
from roambench.experiment.sections import Experiment
from roambench.written.expected import section_at
from roambench.written.lines import KeyLines
from roambench.written.mistakes import Mistake, mistakes_of
from roambench.written.toml_file import beyond_all_tables, read_toml

_PYTHON = ("program", "python")
_LINK_MODEL = ("links", "model")
_ORDERS = ("rounds", "orders")
#: Keys that hold paths; in a file they are relative to it, on the command line to the current folder.
_PATH_KEYS = (
    ("trace", "file"),
    ("program", "folder"),
    _PYTHON,
    ("learning", "data_path"),
    ("influxdb", "token_file"),
    ("energy", "calibration_file"),
    _LINK_MODEL,
    _ORDERS,
)

#: What only the file of a sweep has.
_SWEEPS_KEYS = frozenset(("experiment", "grid", "include", "exclude"))


@dataclass(frozen=True, slots=True)
class WrittenExperiment:
    """An experiment's keys as a file has them. `source` names the place in messages, paths begin at
    `folder`. They are those of `file`, or of its `table`."""

    values: Mapping[str, Any]
    source: str
    folder: Path
    file: Path | None = None
    table: str = ""


def load_experiment(
    path: Path | str | WrittenExperiment,
    overrides: Sequence[str] = (),
    *,
    trace_file: Path | str | None = None,
    more: Mapping[str, Sequence[Override]] = MappingProxyType({}),
) -> Experiment:
    """Read `path` (or take what was read) and apply `overrides` ("a.b=c" each, TOML values), then `more`, by
    where each was said.

    `trace_file` replaces the trace that the file names. Raises ConfigError; its `problems` name the file (or
    --set, or for `more` where it was said), the key and what was expected.
    """
    written = path if isinstance(path, WrittenExperiment) else written_in(Path(path))
    beyond = [
        f"{where}: {mistake}"
        for where, tables in _given(written, more)
        for mistake in beyond_all_tables(tables)
    ]
    if beyond:  # a path with a NUL cannot even be looked for
        raise ConfigError(beyond)
    values = copy.deepcopy(dict(written.values))
    for section, key in _PATH_KEYS:
        table = values.get(section)
        if isinstance(table, dict) and key in table:
            table[key] = anchored(Override((section, key), table[key]), written.folder).value
    changes, problems = parse_overrides(overrides)
    problems += _token_file_mistakes(values, written)
    for change in (*changes, *chain.from_iterable(more.values())):
        apply_override(values, change)
    if trace_file is not None:
        trace = values["trace"] if isinstance(values.get("trace"), dict) else {}
        kept = {key: value for key, value in trace.items() if key not in ("generator", "parameters")}
        values["trace"] = {**kept, "file": str(trace_file)}
        more = {**more, "--trace": [Override(("trace", "file"), str(trace_file))]}
    problems += _read_calibrations(values, written.source)
    source = _Source(written.source, [("--set", changes), *more.items()])
    experiment: Experiment | None = None
    mistakes: list[Mistake] = []
    try:
        experiment = Experiment.model_validate(values)
    except ValidationError as error:
        mistakes += mistakes_of(error, Experiment)
    mistakes += broken_rules(values)
    problems += dict.fromkeys(f"{source.of(mistake.path)}: {mistake}" for mistake in mistakes)
    if problems or experiment is None:
        raise ConfigError(KeyLines(written.file).put_in(problems, written.source, written.table))
    return experiment


def value_mistakes(written: WrittenExperiment, change: Override) -> list[Mistake]:
    """Mistakes of a changed key by itself: those that no other key of the experiment could mend."""
    values: dict[str, Any] = {}
    apply_override(values, change)
    try:
        Experiment.model_validate(values)
        found = []
    except ValidationError as error:
        found = mistakes_of(error, Experiment)
    around = copy.deepcopy(dict(written.values))
    apply_override(around, change)
    own = [
        mistake
        for mistake in (*found, *unknown_names(around))
        if mistake.path[: len(change.path)] == change.path
        or (mistake.path == change.path[: len(mistake.path)] and section_at(Experiment, mistake.path) is None)
    ]
    return list({mistake.path: mistake for mistake in reversed(own)}.values())


def _given(
    written: WrittenExperiment, more: Mapping[str, Sequence[Override]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Tables that no `read_toml` or `parse_overrides` has looked at, and where they come from."""
    if written.file is None:
        yield written.source, dict(written.values)
    for where, changes in more.items():
        yield where, {".".join(change.path): change.value for change in changes}


def written_in(path: Path) -> WrittenExperiment:
    """The keys of a file, not yet checked; ConfigError where it is no TOML, or a sweep's."""
    values = read_toml(path)
    if values.keys() & _SWEEPS_KEYS:
        quoted = shlex.quote(str(path))
        raise ConfigError([f"{path.name}: a sweep file, not an experiment: roambench sweep {quoted}"])
    return WrittenExperiment(values, path.name, path.parent, path)


def anchored(change: Override, folder: Path) -> Override:
    """The change as a file in `folder` means it: what holds a path begins there. A link model's name stays a
    name unless the file is there, an interpreter's stays a command."""
    if change.path not in _PATH_KEYS or not isinstance(change.value, str) or not change.value:
        return change
    if change.path == _LINK_MODEL:
        found = link_model_path(change.value, folder)
        return change if found is None else Override(change.path, str(found))
    if change.path == _PYTHON:  # a name is looked for on PATH; a link is not followed: it leads out of a venv
        there = str((folder / Path(change.value).expanduser()).absolute())
        return Override(change.path, there) if "/" in change.value else change
    before, path = "", change.value
    if change.path == _ORDERS:
        if not change.value.startswith(REPLAY):
            return change
        before, path = REPLAY, change.value.removeprefix(REPLAY)
    return Override(change.path, before + str(folder / Path(path).expanduser()))


def _token_file_mistakes(values: Mapping[str, Any], written: WrittenExperiment) -> list[str]:
    """Return who writes an experiment file says where the token is sent: no other secret of this machine may
    be named as one. A file that the command line names may be any."""
    table = values.get("influxdb")
    path = table.get("token_file") if isinstance(table, dict) else None
    if not isinstance(path, str) or not path:
        return []
    found = Path(path).resolve()
    if found.is_relative_to(written.folder.resolve()) or found.name.startswith("influx"):
        return []
    return [
        f"{written.source}: influxdb.token_file: expected a file in the experiment file's folder, or one "
        f"whose name begins with influx, as its content is sent to influxdb.url, got {json.dumps(path)}; "
        "--set influxdb.token_file=FILE takes any"
    ]


class _Source:
    """Tells whether a key was written in the file, on the command line or somewhere else."""

    def __init__(self, file: str, changes: Sequence[tuple[str, Sequence[Override]]]) -> None:
        self._file = file
        self._changed = [(change.path, where) for where, made in changes for change in made]

    def of(self, path: tuple[str, ...]) -> str:
        found = [where for done, where in self._changed if path and path == done[: len(path)]]
        return found[-1] if found else self._file


def _read_calibrations(values: dict[str, Any], source: str) -> list[str]:
    """Put the calibration file's tables into the experiment, whose run folder then stands alone."""
    table = values.get("energy")
    if not isinstance(table, dict):
        return []
    own = table.get("meters", {})
    meters = own.items() if isinstance(own, dict) else ()
    problems = [
        f"{source}: energy.meters.{problem}"
        for name, meter in meters
        if isinstance(meter, dict)
        for problem in reference_problems(name, meter)
    ]
    written = table.get("calibration_file")
    if isinstance(written, str) and written:
        try:
            found = read_meter_calibrations(Path(written))
        except ConfigError as error:
            return [*problems, *error.problems]
        if isinstance(own, dict):
            table["meters"] = {**found, **own}
    return problems
