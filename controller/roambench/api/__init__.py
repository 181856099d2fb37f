"""The Python API, `import roambench as rb`: runs made, read, compared and added up, in scripts and notebooks.

Importing it loads no torch, and nothing of what a controller needs besides: that comes with the first use.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from roambench.api.comparison import Comparison
    from roambench.api.finished_sweep import Sweep
    from roambench.api.recorded_run import Run
    from roambench.api.run_set import RunSet
    from roambench.runner.progress import StepDone

    Runs = str | Path | Run | RunSet

__all__ = ["compare", "load", "run", "sweep"]


def load(*runs: Runs) -> Run | RunSet:
    """Open a run, or several as a set: a run folder, a folder that holds some (a group, a sweep), a pattern
    like "runs/demo/*". A single run folder gives a `Run`, everything else a `RunSet`.

    RunError for what holds no run. Nothing is changed, and a run may still be going on.
    """
    from roambench.api.run_set import loaded

    return loaded(runs)


def run(
    experiment: str | Path | Mapping[str, Any],
    *,
    fleet: str = "local",
    set: Mapping[str, Any] | None = None,
    on_step: Callable[[StepDone], object] | None = None,
    runs_dir: str | Path = "runs",
    fresh: bool = False,
    show: bool = False,
) -> RunSet:
    """Carry out an experiment, a run for each of its systems, as `roambench run` does; returns them.

    `experiment` is a file, or its keys as nested mappings. `set` gives single keys other values
    ({"learning.alpha": 0.1}), `fleet` is local, simulated, rehearsal or bench:FILE, `fresh` restarts what
    died or was stopped. `on_step` gets every step that is done; what it raises stops the run in good order
    and comes out here. `show` prints what the command prints meanwhile. Works in a notebook, too, where
    interrupting the kernel stops the run in good order.

    ConfigError lists every mistake; other leaves of RoambenchError say what went wrong.
    """
    from roambench.api.running import run_now

    return run_now(
        experiment, fleet, set or {}, on_step=on_step, runs_dir=Path(runs_dir), fresh=fresh, show=show
    )


def sweep(
    file: str | Path,
    *,
    out: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    jobs: int | None = None,
    fresh: bool = False,
    show: bool = False,
) -> Sweep:
    """Run what has not finished of a sweep's points, as `roambench sweep` does; its table and its runs.

    `out` is where they are kept (runs/ and the file's name), `jobs` how many run at a time. RunError at the
    end where points failed.
    """
    from roambench.api.finished_sweep import sweep_now

    return sweep_now(
        Path(file), None if out is None else Path(out), set or {}, jobs=jobs, fresh=fresh, show=show
    )


def compare(*runs: Runs) -> Comparison:
    """Set runs side by side as `roambench report` does. Each is what `load` takes, or what it gave."""
    from roambench.api.comparison import compared

    return compared(runs)
