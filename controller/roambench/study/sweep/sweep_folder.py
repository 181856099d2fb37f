"""A sweep on disk: one folder per point with its run and what came of it, and the tables at the end.

points/<system>-seed<seed>-<key>/point.json   what is to be run            (written before it starts)
                                 runs/...     its run folder
                                 log.txt      what its process printed
                                 result.json  how it ended, its figures    (replaced atomically)
                                 attempts/... earlier tries: failed, not fit, or not to go on
table.parquet table.csv table.json            mean and standard deviation over the seeds
runs.csv                                      the metrics of each run
campaign.jsonl                                what happened, when and why
sweep.json                                    the command, the machine, and how long each session took
points.log                                    what the process printed that forks the points
stacked.log stacked.socket                    of the process in which runs with the stacked backend train
lock                                          held by the one sweep that runs
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import kept_in, without_nan
from roambench.contract.metric import Better
from roambench.energy.energy_value import Energy, Term
from roambench.energy.ledger import Basis
from roambench.experiment.sections import from_resolved, resolved
from roambench.report.quantities import number_of
from roambench.runner.bench_options import BenchOptions
from roambench.runner.input_files import changes
from roambench.runner.places.table import fleet_of
from roambench.runs.database import naming
from roambench.runs.groups import run_folders
from roambench.runs.info import RunInfo, RunState
from roambench.runs.whole_file import write_whole
from roambench.study.sweep.class_metrics import class_metric_of
from roambench.study.sweep.metrics import METRICS, accuracy_in, figures, is_of_task, rounds_to, scored
from roambench.study.sweep.points import Point, point_key

if TYPE_CHECKING:  # a sweep need not load what makes a report; its points do
    from roambench.report.summaries.run import RunSummary

_ATTEMPTS: Final = "attempts"
#: Of this many attempts of a point the run folders are kept; of older ones only how they ended.
_MOST_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class PointFile:
    """The input of a point's process. `config`: of the resolved experiment; `code`: a digest of other
    packages' that takes part, empty where there is none; `bench`: only of points that run on one."""

    key: str
    fleet: str
    config: dict[str, Any]
    code: str = ""
    bench: BenchOptions | None = None


@dataclass(frozen=True, slots=True)
class PointEnd:
    """The end of a point. `reason` is empty when it finished; `figures` then has every metric, `scored`
    (round, accuracy) of every cloud aggregation whose model was scored, `metrics` (step, value)
    of all else that was scored. `own`: of its task's own metrics, whether higher or lower values are better.
    `wall_s`: how long it took here, over all sessions.

    `basis`: of its joules, None without any; `terms`: of its energies, as `Energy.beside_other_runs` has
    them.
    `inputs`: the files that its run read, with their SHA-256 (None: an older version did not note them).
    `unfit`: it finished, and why its record should be measured again. `boards` made it fail or unfit.
    `without`: boards that were left out, so that fewer devices took part. `counts`: it was one of the point's
    tries. `left_run`: it failed, and its run stayed where it was, to go on. `began` and `ended` (UTC, ISO
    8601) and `flags` are of its run; "" and none where an older version ran it.
    """

    key: str
    figures: Mapping[str, float | None]
    reason: str = ""
    basis: Basis | None = None
    terms: Mapping[str, tuple[Term, ...]] = field(default_factory=dict)
    scored: tuple[tuple[int, float], ...] = ()
    metrics: Mapping[str, tuple[tuple[int, float], ...]] = field(default_factory=dict)
    own: Mapping[str, Better] = field(default_factory=dict)
    wall_s: float = 0.0
    unfit: tuple[str, ...] = ()
    boards: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    counts: bool = True
    left_run: bool = False
    inputs: Mapping[str, str] | None = None
    began: str = ""
    ended: str = ""
    flags: tuple[str, ...] = ()

    @classmethod
    def of(cls, key: str, run: RunSummary, **more: Any) -> PointEnd:
        """The end of the point whose run finished so; `more`: the fields that its summary does not give."""
        found = figures(run)
        return cls(
            key,
            {name: number_of(figure) for name, figure in found.items()},
            basis=run.basis,
            terms={
                name: figure.beside_other_runs().terms
                for name, figure in found.items()
                if isinstance(figure, Energy) and math.isfinite(figure.u_joules)
            },
            scored=scored(run),
            metrics={name: tuple(found.items()) for name, found in run.learning.metrics.items()},
            own={metric.name: metric.better for metric in run.learning.own},
            inputs=run.info.inputs,
            began=run.info.created_utc,
            flags=run.flags,
            **more,
        )

    @property
    def doubts(self) -> tuple[str, ...]:
        """Doubts about a finished point's figures; () for those that are."""
        fewer = (f"with fewer boards: without {', '.join(self.without)}",) if self.without else ()
        other = f"of other inputs than there are now: {'; '.join(found)}" if (found := self.changes) else ""
        return (*(f"not fit: {reason}" for reason in self.unfit), *fewer, *([other] if other else []))

    @property
    def changes(self) -> list[str]:
        """Changes of the files that its run read, since then."""
        return changes(self.inputs or {})

    @property
    def finished(self) -> bool:
        """True if the point came to its end."""
        return not self.reason

    def figure(self, name: str) -> float | None:
        """Return the value of a metric: `rounds_to_<accuracy>`, those of a task and those of `class_metrics`
        among them."""
        if (by_class := class_metric_of(name)) is not None:
            first = int((self.figures["rounds"] or 0.0) - (self.figures["steps"] or 0.0)) + 1
            clouds = {at - first: accuracy for at, accuracy in self.scored}
            return by_class.figure({name: dict(found) for name, found in self.metrics.items()}, clouds)
        accuracy = accuracy_in(name)
        if is_of_task(name):
            return self.figures.get(name)
        return self.figures[name] if accuracy is None else rounds_to(accuracy, self.scored)

    def energy(self, name: str) -> Energy | None:
        """A metric that is an energy, with its uncertainty; None for another one."""
        value = self.figures.get(name)
        return None if value is None or name not in self.terms else Energy(value, terms=self.terms[name])


class SweepFolder:
    """`bench`: what was waived of a bench's gate, for points that run on one. `fresh`: points that have not
    finished restart, instead of going on from where they died or were stopped."""

    def __init__(self, path: Path, bench: BenchOptions | None = None, *, fresh: bool = False) -> None:
        self.path = path
        self.fresh = fresh
        self.bench = bench

    def folder_of(self, point: Point) -> Path:
        """The folder of a point's run."""
        return self.path / "points" / point.folder_name

    def outcome_of(self, point: Point) -> PointEnd | None:
        """None while the point has not ended, or where its result or, of a finished one, its description
        cannot be read: it is then run again."""
        return described_outcome(self.folder_of(point), point.key)

    def is_open(self, point: Point) -> bool:
        """True unless the point has finished, and with the files that are there now."""
        outcome = self.outcome_of(point)
        return outcome is None or not outcome.finished or bool(outcome.changes)

    def tries_of(self, point: Point) -> list[PointEnd]:
        """Return how the point's tries ended that counted, the latest last."""
        found = [read_outcome(path, point.key) for path in _attempts(self.folder_of(point))]
        return [one for one in (*found, self.outcome_of(point)) if one is not None and one.counts]

    def attempt_of(self, point: Point) -> int:
        """The number of the attempt that has begun, or comes next, from 1."""
        return int(next_attempt(self.folder_of(point)).name)

    def put_aside(self, point: Point, *, counts: bool = True) -> None:
        """Keep how the point ended among its attempts: it is to be run again. Where it failed and its run can
        go on, that stays where it is."""
        outcome, folder = self.outcome_of(point), self.folder_of(point)
        if outcome is None:
            return
        with naming(folder):
            aside = next_attempt(folder)
            aside.mkdir(parents=True, exist_ok=True)
            names = ["log.txt", "start.json"]
            if outcome.finished or _is_over(folder / "runs") or fleet_of(point.fleet)[0].has_file:
                names.append("runs")
            for name in names:
                if (folder / name).exists() and not (aside / name).exists():
                    (folder / name).replace(aside / name)
            left_run = "runs" not in names and any(run_folders(folder / "runs"))
            write_outcome(folder, replace(outcome, counts=counts, left_run=left_run))
            (folder / "result.json").replace(aside / "result.json")  # last: from here on it is aside
            forget_old_runs(folder)

    def rename_of_fewer_keys(self, points: Sequence[Point]) -> None:
        """Give points their folders that an older version named: its experiments had fewer keys, and runs
        where the new ones have their defaults are the same."""
        missing = {point.key: point for point in points if not self.folder_of(point).exists()}
        known = {point.folder_name for point in points}
        for path in sorted(self.path.glob("points/*/point.json")) if missing else ():
            if path.parent.name in known:
                continue
            described, outcome = kept_in(PointFile, path), kept_in(PointEnd, path.with_name("result.json"))
            if described is None or (outcome is not None and outcome.changes):
                continue  # of a trace that is another one now, its key is another one, too
            try:
                experiment = from_resolved(described.config, str(path))
                point = missing.pop(point_key(experiment, described.fleet, described.code))
            except (ConfigError, OSError, KeyError):
                continue  # of another setting, or of a file that is gone
            write_whole(path, json.dumps(asdict(replace(described, key=point.key)), indent=2) + "\n")
            if outcome is not None:
                write_outcome(path.parent, replace(outcome, key=point.key))
            path.parent.replace(self.folder_of(point))  # last: until then it is renamed next time

    def put_aside_of_other_inputs(self, points: Sequence[Point], report: Callable[[str], None]) -> None:
        """Points that finished with files that are no longer what they were are open again; `report` gets a
        sentence for each, and one on results that do not tell."""
        outcomes = {point.key: self.outcome_of(point) for point in points}
        ended = {
            key: outcome for key, outcome in outcomes.items() if outcome is not None and outcome.finished
        }
        for point in points:
            if point.key in ended and (changed := ended[point.key].changes):
                kept = next_attempt(self.folder_of(point))
                self.put_aside(point, counts=False)
                why = f"runs again, as since it finished {'; '.join(changed)}"
                report(f"{point.label}: {why}; its first run is in {kept}")
        if unnoted := sum(outcome.inputs is None for outcome in ended.values()):
            report(
                f"{unnoted} of the finished runs do not tell which files they read (an older version did not "
                "note that): that these are the same is not checked"
            )

    def prepare(self, point: Point, workers: int, left_out: tuple[str, ...] = ()) -> Path:
        """Write what the point's process reads, and forget how an earlier try of it ended. `workers`: how
        many train where the file leaves it open. `left_out`: boards that take no part this time."""
        folder = self.folder_of(point)
        config = resolved(point.experiment)
        config["simulated"]["workers"] = config["simulated"]["workers"] or workers
        with naming(folder):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "result.json").unlink(missing_ok=True)
            if self.fresh:
                shutil.rmtree(folder / "runs", ignore_errors=True)
        bench = replace(self.bench, left_out=left_out) if left_out and self.bench else self.bench
        described = PointFile(point.key, point.fleet, config, point.code, bench)
        write_whole(folder / "point.json", json.dumps(asdict(described), indent=2) + "\n")
        return folder


def next_attempt(folder: Path) -> Path:
    """The folder of the attempt that has begun, or comes next, of the point in this one."""
    ended = sum((path / "result.json").exists() for path in _attempts(folder))
    return folder / _ATTEMPTS / f"{ended + 1:03d}"


def attempt_of_run(folder: Path, key: str) -> Path | None:
    """The folder of the attempt that failed and left the point's run where it is; None: there is none."""
    latest = next(reversed(_attempts(folder)), None)
    outcome = None if latest is None else read_outcome(latest, key)
    return latest if outcome is not None and outcome.left_run else None


def forget_old_runs(folder: Path) -> None:
    """Remove the run folders of all attempts of the point but the latest few; how they ended stays."""
    for old in _attempts(folder)[:-_MOST_RUNS]:
        shutil.rmtree(old / "runs", ignore_errors=True)


def _attempts(folder: Path) -> list[Path]:
    return sorted((folder / _ATTEMPTS).glob("[0-9]*"))


def _is_over(runs: Path) -> bool:
    """Return whether the point's run came to its end."""
    infos = (kept_in(RunInfo, path / "run.json") for path in run_folders(runs))
    return any(info is not None and info.state is RunState.FINISHED for info in infos)


def read_outcome(folder: Path, key: str) -> PointEnd | None:
    """The outcome in a point's folder; None if there is none, or it is of another key."""
    found = kept_in(PointEnd, folder / "result.json")
    if found is None or found.key != key or (found.finished and found.figures.keys() < METRICS.keys()):
        return None  # made by a version that knew fewer metrics
    return found


def described_outcome(folder: Path, key: str) -> PointEnd | None:
    """The outcome in a point's folder; None, too, for a finished one without a readable `point.json`."""
    found = read_outcome(folder, key)
    if found is not None and found.finished:
        described = kept_in(PointFile, folder / "point.json")
        return found if described is not None and described.key == key else None
    return found


def write_outcome(folder: Path, outcome: PointEnd) -> None:
    """Write the outcome into a point's folder, durably."""
    text = json.dumps(without_nan(asdict(outcome)), indent=2, allow_nan=False)
    write_whole(folder / "result.json", text + "\n")
