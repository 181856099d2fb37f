"""Where the agents of a measurement live: processes of this machine, or the hosts of a bench."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console

from roambench.controller.agent_bench import AgentBench
from roambench.controller.bench_fleet import bench_fleet
from roambench.controller.bench_options import BenchOptions
from roambench.controller.bench_run import BENCH_FILE, BenchPlace, bench_place
from roambench.controller.composition import BENCH, fleet_of
from roambench.controller.config.load import resolved
from roambench.controller.config.sections import Experiment
from roambench.controller.local_bench import local_bench
from roambench.controller.world import Lesson, versions
from roambench.provision.inventory import load_bench
from roambench.runs.folder import RunFolder
from roambench.runs.whole_file import write_whole

LOCAL: Final = "local"


@dataclass(frozen=True, slots=True)
class AgentsPlace:
    """Ours while the measurement lasts; device k is played by `names[k]`."""

    experiment: Experiment
    names: tuple[str, ...]
    bench: BenchPlace | None = None

    @property
    def fleet(self) -> str:
        """ "local" or "bench"."""
        return LOCAL if self.bench is None else BENCH

    def new_folder(self, path: Path, experiment: Experiment, system: str) -> RunFolder:
        """The run folder of a measurement called `system`, which knows where it was made."""
        folder = RunFolder.create(
            path,
            config=resolved(experiment),
            # Agents of a bench outlive a run: another of the same name must not be taken for it.
            run_id=path.name if self.bench is None else f"{path.name}.{secrets.token_hex(4)}",
            system=system,
            seed=experiment.seed,
            trace_hash="",
            fleet=self.fleet,
            device_names=self.names,
            time_scale=experiment.local.time_scale if self.bench is None else 1.0,
            versions=versions(),
        )
        if self.bench is not None:
            folder.update(doubts=self.bench.doubts)
            write_whole(path / BENCH_FILE, self.bench.to_json())
        return folder

    def agents(
        self,
        experiment: Experiment,
        lesson: Lesson,
        folder: RunFolder,
        console: Console,
        *,
        agent_cost: bool = False,
    ) -> AbstractAsyncContextManager[AgentBench]:
        """The agents, ready; stopped (or let go) and drained at the end.

        `agent_cost`: emulated boards of this machine draw what their agents compute, too.
        """
        if self.bench is None:
            return local_bench(experiment, lesson, folder, console.print, agent_cost=agent_cost)
        return bench_fleet(experiment, lesson, folder, self.bench.bench, self.bench.hosts, console)


@contextmanager
def agents_place(
    experiment: Experiment, fleet: str, options: BenchOptions, console: Console
) -> Iterator[AgentsPlace]:
    """Hold the place that `fleet` (`local` or `bench:FILE`) names, for the body.

    ConfigError for another fleet or a wrong bench file; FleetError for a bench that is in use or unfit.
    """
    file = bench_file(fleet)
    if file is None:
        yield AgentsPlace(experiment, tuple(experiment.fleet.board_names))
        return
    with bench_place(experiment, str(file), options, console, baselines=False) as place:
        yield AgentsPlace(place.experiment, tuple(place.names), place)


def bench_file(fleet: str) -> Path | None:
    """The file of `bench:FILE`, None for `local`; ConfigError for anything else."""
    kind, file = fleet_of(fleet, (LOCAL,))
    return Path(file) if kind == BENCH else None


def with_every_host(experiment: Experiment, file: Path, only: tuple[str, ...]) -> Experiment:
    """The experiment with as many devices as hosts of the bench are meant, not as many as its trace has."""
    fleet = experiment.fleet.model_copy(update={"agents": len(load_bench(file).only(only))})
    return experiment.model_copy(update={"fleet": fleet})
