"""Several runs from Python: their tables one below the other, a row for each of them."""

from __future__ import annotations

import glob
import html
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, overload

import pyarrow as pa

from roambench.api.columns import Columns, field
from roambench.api.recorded_run import Run
from roambench.contract.counts import count
from roambench.contract.errors import RunError
from roambench.energy.ledger import Kind
from roambench.runs.groups import run_labels, runs_at

_WHO: Final = (
    field("run", pa.string(), "", "name of the run"),
    field("system", pa.string(), "", "its learning system"),
    field("seed", pa.int64(), "", "its seed"),
)
_MANY: Final = "*?["


class RunSet(Sequence[Run]):
    """Runs in the order given. By number, or by the name of one (its system's, where that is one run's)."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._runs = tuple(runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @overload
    def __getitem__(self, which: int | str) -> Run: ...
    @overload
    def __getitem__(self, which: slice) -> RunSet: ...
    def __getitem__(self, which: int | str | slice) -> Run | RunSet:
        if isinstance(which, slice):
            return RunSet(self._runs[which])
        if isinstance(which, int):
            return self._runs[which]
        for names in (self.names, [run.name for run in self], [run.system for run in self]):
            if list(names).count(which) == 1:
                return self._runs[list(names).index(which)]
        raise KeyError(f"{which}: expected one of {', '.join(self.names)}")

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Labels that distinguish the runs, see `runs.groups.run_labels`."""
        return tuple(run_labels([run.path for run in self]))

    @property
    def table(self) -> Columns:
        """A row for each run: who it is, the keys of the experiments that differ, and its final figures;
        beside every energy `name_j` its standard uncertainty (k = 1) `name_j_u`."""
        keys = [key for run in self for key in run.config if key not in ("seed", "systems")]
        differing = [
            key for key in dict.fromkeys(keys) if len({repr(run.config.get(key)) for run in self}) > 1
        ]
        own = {metric.name: metric.better for run in self for metric in run.summary.learning.own}
        figures = list(dict.fromkeys(name for run in self for name in run.figures))
        fields = [
            *_WHO,
            field("state", pa.string(), "", "how it stands"),
            field("fleet", pa.string(), "", "kind of its fleet"),
        ]
        columns: list[list[Any]] = [
            list(self.names),
            [run.system for run in self],
            [run.seed for run in self],
            [run.state for run in self],
            [run.info.fleet for run in self],
        ]
        for key in differing:
            values = [run.config.get(key) for run in self]
            plain = all(type(value) in (int, float) for value in values)
            fields.append(field(key, pa.float64() if plain else pa.string(), "", "key of the experiment"))
            columns.append(values if plain else [None if value is None else str(value) for value in values])
        rows = {name: row for run in self for name, row in run.quantities.items()}
        for name in figures:
            row = rows.get(name.removesuffix("_u"))
            title = "metric of the task" if row is None else row.title
            fields.append(
                field(
                    name,
                    pa.float64(),
                    "J" if row and row.unit == "J" else "",
                    title if name in rows or row is None else f"standard uncertainty (k = 1): {title}",
                    uncertainty=f"{name}_u" if f"{name}_u" in figures else "",
                    better=row.better if row and name in rows else own.get(name.removeprefix("best "), ""),
                )
            )
            columns.append([run.figures.get(name) for run in self])
        schema = pa.schema(fields)
        arrays = [pa.array(column, kind) for column, kind in zip(columns, schema.types, strict=True)]
        return Columns(pa.Table.from_arrays(arrays, schema=schema))

    @property
    def ledger(self) -> Columns:
        """The runs' ledgers, one below the other. RunError where some are measured and others modelled."""
        kinds = {run.info.kind.is_virtual for run in self}
        if len(kinds) > 1:
            raise RunError("measured and modelled ledgers have different columns: take the runs one by one")
        return self._below(lambda run: run.ledger)

    @property
    def steps(self) -> Columns:
        """The runs' steps, one below the other."""
        return self._below(lambda run: run.steps)

    @property
    def samples(self) -> Columns:
        """The runs' samples, one below the other."""
        return self._below(lambda run: run.samples)

    @property
    def phases(self) -> Columns:
        """The runs' phases, one below the other."""
        return self._below(lambda run: run.phases)

    def energy(
        self, by: Sequence[str] = (), *, kind: Kind = "gross", where: Mapping[str, Any] | None = None
    ) -> Columns:
        """`Run.energy` of every run, one below the other. Energies of different runs are never added here:
        ask a run for its `total`."""
        return self._below(lambda run: run.energy(by, kind=kind, where=where))

    def __repr__(self) -> str:
        return f"<{count(len(self), 'run')}: {', '.join(self.names)}>"

    def _repr_html_(self) -> str:
        """A line for each run, for a notebook."""
        lines = "".join(f"<li>{html.escape(repr(run)[1:-1])}</li>" for run in self)
        return f"<ul>{lines}</ul>"

    def _below(self, table: Callable[[Run], Columns]) -> Columns:
        found = []
        for name, run in zip(self.names, self, strict=True):
            arrow = table(run).arrow.replace_schema_metadata(None)
            who = [
                pa.array([value] * arrow.num_rows, kind.type)
                for value, kind in zip((name, run.system, run.seed), _WHO, strict=True)
            ]
            found.append(pa.table([*who, *arrow.columns], schema=pa.schema([*_WHO, *arrow.schema])))
        if not found:
            raise RunError("no runs")
        return Columns(pa.concat_tables(found, promote_options="default"))


def loaded(runs: Sequence[str | Path | Run | RunSet]) -> Run | RunSet:
    """Return what `roambench.load` gives."""
    if not runs:
        raise RunError('expected at least one run, for example load("runs/demo/latest/mohawk")')
    found = [run for each in runs for run in opened(each)]
    single = len(runs) == 1 and not isinstance(runs[0], RunSet) and len(found) == 1
    return found[0] if single and _is_one(runs[0]) else RunSet(found)


def opened(runs: str | Path | Run | RunSet) -> list[Run]:
    """The runs that a folder, a pattern, or what was opened before stands for; RunError for none."""
    if isinstance(runs, Run):
        return [runs]
    if isinstance(runs, RunSet):
        return list(runs)
    if any(sign in str(runs) for sign in _MANY):
        places = sorted(glob.glob(str(runs)))  # noqa: PTH207 - Path.glob takes no absolute pattern
    elif _is_one(runs) or not Path(runs).exists():
        return [Run(runs)]
    else:
        places = [str(runs)]
    paths = [path for path in runs_at([Path(place) for place in places]) if _is_one(path)]
    if not paths:
        raise RunError(f"{runs}: no run in it (no folder with a run.json)")
    different = {path.resolve(): path for path in reversed(paths)}  # a link and what it names are one run
    return [Run(path) for path in sorted(different.values())]


def _is_one(run: str | Path | Run | RunSet) -> bool:
    return isinstance(run, Run) or (not isinstance(run, RunSet) and (Path(run) / "run.json").is_file())
