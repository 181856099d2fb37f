"""Runs as offline runs of Weights & Biases: folders that `wandb sync` takes to a server."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

from roambench.contract.errors import ConfigError, RunError
from roambench.report.tracked import TrackedRun, missing, tracked_runs

#: What Weights & Biases takes for a tag.
_TAG_LENGTH: Final = 64


@dataclass(frozen=True)
class Offline:
    """A run's folder: what `wandb sync` reads."""

    name: str
    folder: Path


def export_wandb(runs: Sequence[Path], out: Path, *, project: str = "") -> list[Offline]:
    """Write each run as an offline run into `out`/wandb; into the project named, else that of its experiment.
    The runs of a sweep are a group of its name, others one of their experiment's.

    Nothing is sent anywhere. ConfigError for runs that are there already; RunError where the library is not
    installed or cannot write.
    """
    library = _library()
    found = tracked_runs(runs)
    there = [
        f"{run.name}: is there already: {known}; choose another -o"
        for run in found
        for known in out.glob(f"wandb/offline-run-*-{_key(run)}")
    ]
    if there:
        raise ConfigError(there)
    try:
        out.mkdir(parents=True, exist_ok=True)
        return [_write(library, run, out.resolve(), project or run.experiment) for run in found]
    except (OSError, library.Error) as error:
        raise RunError(f"{out}: {str(error).strip() or type(error).__name__}") from None


def _key(run: TrackedRun) -> str:
    """The same for the same run, so that what is sent twice is one run on the server."""
    return sha256(
        f"{run.name} {run.info.run_id} {run.info.created_utc}".encode(errors="surrogateescape")
    ).hexdigest()[:16]


def _write(library: Any, run: TrackedRun, out: Path, project: str) -> Offline:
    """One run, by Weights & Biases' own process, which looks at nothing of this machine."""
    settings = library.Settings(
        mode="offline",
        console="off",
        silent=True,
        disable_git=True,
        disable_code=True,
        save_code=False,
        host="roambench",  # else the name of this machine
        username="roambench",
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    info = run.info
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = library.init(
            project=project,
            name=run.name,
            id=_key(run),
            dir=str(out),
            config={**run.settings, "roambench": run.tags},
            group=run.sweep or run.experiment,
            notes="\n".join([run.finding, *run.summary.flags]),
            tags=[text[:_TAG_LENGTH] for text in (info.system, info.fleet, f"seed {info.seed}")],
            settings=settings,
        )
        steps: dict[int, dict[str, float]] = {}
        for point in run.curves:
            steps.setdefault(point.step, {})[point.tag] = point.value
        for step in sorted(steps):
            made.log(steps[step], step=step)
        made.summary.update(run.figures)
        folder = Path(made.dir).parent
        made.finish(exit_code=0 if info.state.value == "finished" else 1)
    rmtree(folder / "logs", ignore_errors=True)  # of the library, with this machine's paths
    return Offline(run.name, folder)


def _library() -> Any:
    """Weights & Biases, without reports of its errors."""
    os.environ["WANDB_ERROR_REPORTING"] = "false"
    os.environ["WANDB_MODE"] = "offline"
    try:
        import wandb
    except ModuleNotFoundError as error:
        raise missing(error, "wandb", "wandb") from None
    return wandb
