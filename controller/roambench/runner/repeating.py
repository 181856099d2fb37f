"""A run repeated from what its folder holds: its experiment, its movement, its seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import RoambenchError, RunError
from roambench.contract.model_digest import SHOWN, digest_like, same_kind
from roambench.experiment.load import WrittenExperiment
from roambench.experiment.sections import Experiment, resolved
from roambench.mobility.trace import MAX_STEPS
from roambench.rounds.records import CloudAggregated, ModelsScored
from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runner.places.table import fleet_again
from roambench.runner.screen import say
from roambench.runner.world import movement_of
from roambench.runs.crates import unpacked
from roambench.runs.folder import RunFolder
from roambench.runs.groups import run_name, runs_at
from roambench.runs.models import load_model


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run as its folder says that it was made. `fleet` is spelled as on the command line."""

    path: Path
    written: WrittenExperiment
    fleet: str
    digest: str


def one_run(path: Path) -> Path:
    """The only run that the path leads to: its folder, its group, a crate. RunError where it is none or one
    of several."""
    place = unpacked(path)
    runs = runs_at([place])
    if len(runs) > 1:
        names = ", ".join(str(run.relative_to(place)) for run in runs[:5])
        way = "unpack it and name one" if place != path else "name one"
        raise RunError(
            f"{path}: holds {count(len(runs), 'run')}, and one is repeated at a time; {way}: {names}"
        )
    if not (runs[0] / "run.json").is_file():
        raise RunError(f"{path}: holds no run to repeat (no run.json), and an experiment is a TOML file")
    return runs[0]


def recorded_run(path: Path, fleet: str = "") -> RecordedRun:
    """Read the folder; `fleet` replaces the recorded one. RunError where it cannot be repeated."""
    with RunFolder.open(path) as folder:
        experiment = folder.experiment
        values = resolved(experiment) | {"systems": [folder.info.system]}
        if not _moves_alike(experiment, folder.info.trace_hash):
            values |= _replayed(path, values)
            if not _moves_alike(Experiment.model_validate(values), folder.info.trace_hash):
                raise RunError(
                    f"{path}: cannot be repeated: neither what its experiment names nor its trace.parquet is "
                    "the movement that it replayed"
                )
        if (path / "link_model.json").is_file():
            values["links"] = {**values["links"], "model": str((path / "link_model.json").resolve())}
        # Paths of the experiment begin where the run was started.
        written = WrittenExperiment(values, f"{path / 'experiment.json'}", Path())
        return RecordedRun(path, written, fleet or fleet_again(folder), digest_of_run(folder))


def digest_of_run(folder: RunFolder) -> str:
    """The digest of the models that the run made, each named by its bytes: the global ones, and those that
    devices held when they were scored. It is of the kind of the first of these names; "" for none."""
    log = folder.read_log()
    named = [record.digest for record in log.only(CloudAggregated)]
    named += [digest for record in log.only(ModelsScored) for digest in record.digests]
    first, lines = next(filter(None, named), ""), "\n".join(named).encode()
    return digest_like(first, lines) if first else ""


def say_whether_equal(before: RecordedRun, runs: Sequence[Path], console: Console) -> None:
    """Say for each of the runs whether its models are those of the run that it repeats."""
    for path in runs:
        with RunFolder.open(path) as folder:
            now = digest_of_run(folder)
        same, ours, theirs = now == before.digest, now[:SHOWN] or "none", before.digest[:SHOWN] or "none"
        text = f"has other models than {before.path}: digest {ours}, not {theirs}"
        if not now and not before.digest:
            text = f"repeats {before.path}; neither names its models, so compare what they wrote"
        elif same:
            text = f"repeats {before.path}: the same models, digest {ours}"
        elif now and before.digest and not same_kind(now, before.digest):
            text = _of_last_models(before.path, path)
        say(console, f"{run_name(path)} {text}")


def _of_last_models(before: Path, now: Path) -> str:
    """Say whether two runs that name their models by different digests end in the same one."""
    files = [run / GLOBAL_MODEL for run in (before, now)]
    if not all(file.is_file() for file in files):
        return f"repeats {before}, which names its models by other digests: compare what they wrote"
    one, other = (load_model(file).tobytes() for file in files)
    if one == other:
        return f"repeats {before}: the same last model; that run names models by other digests"
    return f"has another last model than {before}"


def _moves_alike(experiment: Experiment, trace_hash: str) -> bool:
    try:
        return movement_of(experiment).content_hash == trace_hash
    except (RoambenchError, OSError):
        return False


def _replayed(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The sections that replay the folder's trace as it is: already cut, on its boards, with its access
    points."""
    file = str((path / "trace.parquet").resolve())
    trace = {"file": file, "window": "first", "steps": MAX_STEPS, "offset": 0, "repeat": 1}
    return {"trace": trace, "fleet": {**values["fleet"], "agents": 0, "aps": 0}}
