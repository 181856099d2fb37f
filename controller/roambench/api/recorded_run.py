"""One run from Python: its tables, its energies, its models, read when they are asked for."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from roambench.api.columns import Columns, field
from roambench.api.energy_sums import EnergySums, energy_sums
from roambench.contract.errors import RunError
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Kind, Ledger
from roambench.report.quantities import Quantity
from roambench.rounds.records import MixingPlanned
from roambench.runs import columns, tables
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo
from roambench.runs.measured.common_clock import on_one_clock
from roambench.runs.modelled.export import devices_table, modelled_ledger_table
from roambench.runs.models import load_tensors
from roambench.runs.record_columns import KINDS

if TYPE_CHECKING:  # at run time what a report needs is loaded when it is asked for
    from roambench.experiment.sections import Experiment
    from roambench.mobility.trace import Trace
    from roambench.report.summaries.evidence import RunEvidence
    from roambench.report.summaries.run import RunSummary
    from roambench.report.tracked import TrackedRun

Tensors = Mapping[str, npt.NDArray[Any]]

_KEY_FIELDS: Final = {
    "device": field("device", pa.string(), "", "name of the device"),
    "step": field("step", pa.int64(), "", "step of the training served; -1 before the first step"),
    "phase": field(
        "phase",
        pa.string(),
        "",
        "idle, absent, download, train, evaluate, upload, exchange, rest, wait or lost",
    ),
    "outcome": field("outcome", pa.string(), "", "of the training served; null in the background"),
}
_ENERGY_FIELDS: Final = (
    field("energy_j", pa.float64(), "J", "sum of the rows", uncertainty="u_energy_j"),
    field("u_energy_j", pa.float64(), "J", "its standard uncertainty (k = 1); add energies with `total`"),
    field("covered_s", pa.float64(), "s", "time that holds these joules"),
    field("gap_s", pa.float64(), "s", "time that no meter saw, without joules"),
    field("rows", pa.int64(), "", "rows of the ledger in it"),
)
_SAMPLES: Final = pa.schema(
    [
        field("device", pa.string(), "", "name of the device"),
        field("ns", pa.int64(), "ns", "when it was read, in device time"),
        field("watts", pa.float64(), "W", "power, calibrated"),
    ]
)


class Energies(Columns):
    """Energies by device, step, phase or outcome: the columns of `by`, then energy_j and u_energy_j (k = 1).

    Groups share errors (a meter's gain is wrong in all of them), so never add u_energy_j by hand: `total` and
    `covariance_j2` know what is shared. `basis` says whether they were measured or modelled.
    """

    def __init__(self, sums: EnergySums) -> None:
        keys = [_KEY_FIELDS[key] for key in sums.by]
        values = [[group.values[place] for group in sums.groups] for place in range(len(keys))]
        energies = [group.energy for group in sums.groups]
        values += [
            [energy.joules for energy in energies],
            [energy.u_joules for energy in energies],
            [energy.covered_s for energy in energies],
            [round(energy.gap_s, 9) for energy in energies],  # less is only arithmetic
            [group.rows for group in sums.groups],
        ]
        schema = pa.schema([*keys, *_ENERGY_FIELDS])
        arrays = [pa.array(column, kind) for column, kind in zip(values, schema.types, strict=True)]
        super().__init__(pa.Table.from_arrays(arrays, schema=schema))
        self.basis = sums.basis
        self.kind = sums.kind
        self.energies: tuple[Energy, ...] = tuple(energies)
        self._sums = sums

    @property
    def total(self) -> Energy:
        """All rows together: shared errors added linearly, the others in quadrature."""
        return self._sums.total

    @property
    def covariance_j2(self) -> npt.NDArray[np.float64]:
        """Covariance of the rows' energies, J², shape (rows, rows), for differences and ratios."""
        return self._sums.covariance_j2


class Events(Mapping[str, Columns]):
    """The event log by kind of record ("OrderAnswered"), each kind a table; `roambench.rounds.records` has
    what they mean."""

    def __init__(self, evidence: RunEvidence) -> None:
        self._log = evidence.records
        self._kinds = {kind.__name__: kind for kind in KINDS if self._log.count(kind)}

    def __getitem__(self, kind: str) -> Columns:
        table = self._log.table(self._kinds[kind])
        return Columns(table.cast(columns.of_records(table.schema)))

    def __iter__(self) -> Iterator[str]:
        return iter(self._kinds)

    def __len__(self) -> int:
        return len(self._kinds)

    def __repr__(self) -> str:
        return f"<events: {', '.join(f'{len(self[kind])} {kind}' for kind in self)}>"


class Models(Mapping[str, Tensors]):
    """The models that a run kept, by name, each as NumPy tensors by name. `global` is the last global one."""

    def __init__(self, folder: Path) -> None:
        self._files = {path.stem: path for path in sorted((folder / "models").glob("*.safetensors"))}

    def __getitem__(self, name: str) -> Tensors:
        return load_tensors(self._files[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._files)

    def __len__(self) -> int:
        return len(self._files)

    def __repr__(self) -> str:
        return f"<models: {', '.join(self)}>"


class Run:
    """A run folder, as it was when it was first looked at. RunError where `path` is none.

    Its tables are made of the raw records and the event log, as a report makes them, not of the
    folder's Parquet files, and also for a run that was interrupted or is still going on.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        with RunFolder.open(self.path) as folder:
            self.info: RunInfo = folder.info

    @property
    def name(self) -> str:
        """Name of its folder."""
        return self.path.resolve().name

    @property
    def system(self) -> str:
        """The learning system."""
        return self.info.system

    @property
    def seed(self) -> int:
        """Its seed."""
        return self.info.seed

    @property
    def state(self) -> str:
        """running, finished, interrupted or failed."""
        return self.info.state.value

    @cached_property
    def experiment(self) -> Experiment:
        """The experiment with every default filled in."""
        return self._evidence.experiment

    @cached_property
    def config(self) -> Mapping[str, Any]:
        """The same by flat keys, as `set` takes them: config["learning.alpha"]."""
        return self._tracked.parameters

    @cached_property
    def summary(self) -> RunSummary:
        """Everything that a report says of the run."""
        from roambench.report.summaries.run import summarise

        return summarise(self._evidence)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Doubts about its figures."""
        return self.summary.flags

    @property
    def finding(self) -> str:
        """The finding in a sentence."""
        return self._tracked.finding

    @cached_property
    def figures(self) -> Mapping[str, float]:
        """Final figures by name; beside every energy `name_j` its standard uncertainty (k = 1) `name_j_u`."""
        return {name.removeprefix("final/"): value for name, value in self._tracked.figures.items()}

    @cached_property
    def quantities(self) -> Mapping[str, Quantity]:
        """Return the titles and units of these figures, but for a task's own metrics."""
        return self._tracked.quantities

    @cached_property
    def steps(self) -> Columns:
        """A row for every step that was closed: presence, aggregations, accuracy."""
        return Columns(tables.steps_table(self._evidence.records))

    @cached_property
    def events(self) -> Events:
        """The event log, a table for each kind of record."""
        return Events(self._evidence)

    @cached_property
    def ledger(self) -> Columns:
        """Joules by device, step, phase and outcome, a row for each phase: measured, or of a run on virtual
        devices modelled. `energy` adds them up."""
        modelled = self._evidence.modelled
        if modelled is not None:
            return Columns(modelled_ledger_table(modelled))
        return Columns(tables.ledger_table(self._evidence.energy))

    @cached_property
    def phases(self) -> Columns:
        """The phases that partition the time of every board."""
        return Columns(tables.phases_table(self._evidence.energy))

    @cached_property
    def readings(self) -> Columns:
        """Every line of every meter, as it came."""
        return Columns(tables.readings_by_board(self._evidence.energy).read_all().unify_dictionaries())

    @cached_property
    def samples(self) -> Columns:
        """The readings that count as power, calibrated and in the board's time."""
        energy = self._evidence.energy
        found = [
            pa.table(
                [[device.device] * len(device.samples), device.samples.ns, device.samples.watts], _SAMPLES
            )
            for device in (energy.devices if energy else ())
        ]
        return Columns(pa.concat_tables(found) if found else _SAMPLES.empty_table())

    @cached_property
    def health(self) -> Columns:
        """The state of the boards themselves, every few seconds: load, temperature, throttling."""
        with RunFolder.open(self.path) as folder:
            clocked = on_one_clock(folder, self._evidence.records, folder.records)
            return Columns(tables.host_by_board(clocked).read_all())

    @cached_property
    def exchanges(self) -> Columns:
        """The models that devices sent to each other; empty where they send none."""
        log = self._evidence.records
        if not log.count(MixingPlanned):
            return Columns(tables.EXCHANGES.empty_table())
        return Columns(tables.exchanges_table(self.info.device_names, log))

    @cached_property
    def devices(self) -> Columns:
        """A row for each virtual device: presence, trainings, bytes, modelled joules. RunError for agents,
        whose joules are in `ledger`."""
        modelled = self._evidence.modelled
        if modelled is None:
            raise RunError(
                f"{self.path}: not on virtual devices; its joules by device: energy(by=['device'])"
            )
        return Columns(devices_table(modelled, self.info, self._evidence.records))

    @property
    def trace(self) -> Trace | None:
        """The movement that was replayed; None where the folder has none."""
        return self._evidence.trace

    @cached_property
    def models(self) -> Models:
        """The models that were kept, by name."""
        return Models(self.path)

    def energy(
        self, by: Sequence[str] = (), *, kind: Kind = "gross", where: Mapping[str, Any] | None = None
    ) -> Energies:
        """Add up the ledger by device, step, phase and outcome (any of them; none: one sum).

        `kind` is gross (idle power in it) or net (above it). `where` takes some of the rows:
        {"phase": ["download", "upload"]}. Boards whose records cannot be accounted are in no sum, as in the
        report. RunError for a run without energies, ConfigError for what there is not.
        """
        return Energies(energy_sums(self._ledger(), [by] if isinstance(by, str) else by, kind, where))

    def __repr__(self) -> str:
        return (
            f"<run {self.name}: {self.system} on the {self.info.fleet} fleet, seed {self.seed}, {self.state}>"
        )

    def _repr_html_(self) -> str:
        """The finding and the warnings, for a notebook."""
        warnings = "".join(f"<li>{html.escape(text)}</li>" for text in self.warnings)
        return (
            f"<p><b>{html.escape(repr(self)[1:-1])}</b><br>{html.escape(self.finding)}</p>"
            f"{f'<ul>{warnings}</ul>' if warnings else ''}"
        )

    def _ledger(self) -> Ledger:
        evidence = self._evidence
        if evidence.modelled is not None:
            return evidence.modelled.ledger
        if evidence.energy is None:
            raise RunError(f"{self.path}: no energy: neither readings nor phases, and nothing is modelled")
        return evidence.energy.ledger

    @cached_property
    def _evidence(self) -> RunEvidence:
        from roambench.report.summaries.evidence import read_runs

        (found,) = read_runs([self.path])
        return found

    @property
    def _tracked(self) -> TrackedRun:
        from roambench.report.tracked import TrackedRun, public_settings

        evidence = self._evidence
        settings = public_settings(evidence.experiment)
        return TrackedRun(self.name, self.info, evidence, self.summary, settings)
