"""The places where runs are made: the hosts of a bench, agents of this machine, virtual devices, or a
rehearsal."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Final, Protocol, Self

from rich.console import Console

from roambench.experiment.sections import Experiment
from roambench.meters.traits import MeterTraits
from roambench.provision.leases.holding import Expects, nobody_knows
from roambench.runner.agents.checkpoints import Checkpoints
from roambench.runner.bench_options import BenchOptions
from roambench.runner.system_runs.ready_fleet import ReadyFleet
from roambench.runner.system_runs.system_run import FleetNeeds, World
from roambench.runner.world import LearningTask, versions
from roambench.runs.fleet_kinds import FleetKind
from roambench.runs.folder import RunFolder

if TYPE_CHECKING:  # it brings grpc, which only fleets of agents need
    from roambench.runner.agents.agent_bench import AgentBench


#: Longest run name in a run's id: agents keep 100 letters of an id.
_MOST_NAME_LETTERS: Final = 80


class Place(Protocol):
    """Device k of an experiment is played by the k-th of its names."""

    @property
    def kind(self) -> FleetKind:
        """Row of `runs.fleet_kinds.FLEET_KINDS` that says what such a fleet can do and tell."""
        ...

    @property
    def experiment(self) -> Experiment:
        """The experiment as it is run here."""
        ...

    @property
    def doubts(self) -> tuple[str, ...]:
        """Checks that were waived; a report says them first."""
        ...

    @property
    def fewer_by(self) -> tuple[str, ...]:
        """Boards that were left out, and would have played a device."""
        ...

    @property
    def without_meter(self) -> tuple[str, ...]:
        """Devices that are there without a meter."""
        ...

    @property
    def meters(self) -> Mapping[str, MeterTraits]:
        """Traits of the meters that measure here, by device."""
        ...

    @property
    def meter_serials(self) -> Mapping[str, str]:
        """Serial numbers of these meters by device, as far as they are written down."""
        ...

    @property
    def time_scale(self) -> float:
        """Device seconds per second of this machine."""
        ...

    @classmethod
    def of(cls, experiment: Experiment, file: str, options: BenchOptions) -> Self:
        """Return where a run begins; ConfigError for a `file` that is wrong or does not fit."""
        ...

    @classmethod
    def again(cls, experiment: Experiment, folder: RunFolder, options: BenchOptions) -> Self:
        """Return where the run of the folder goes on; RunError where that is no more."""
        ...

    def names(self, devices: int) -> tuple[str, ...]:
        """Name of each of `devices` devices, by index; fewer where the place has fewer."""
        ...

    def is_of(self, folder: RunFolder) -> bool:
        """Return whether the run of the folder is made here."""
        ...

    def held(
        self, console: Console, *, baselines: bool = True, expects: Expects = nobody_knows
    ) -> AbstractContextManager[Self]:
        """It, ours while the body lasts and fit to run on. `baselines`: idling is measured before and after.
        `expects`: how long the body takes, asked where others have booked it.

        FleetError says who else holds it, or what is not fit.
        """
        ...

    def note(self, path: Path) -> None:
        """Write down in the run folder where it was made."""
        ...

    def ready_fleet(
        self,
        world: World,
        needs: FleetNeeds,
        folder: RunFolder,
        console: Console,
        checkpoints: Checkpoints | None,
    ) -> AbstractAsyncContextManager[ReadyFleet]:
        """The fleet, ready for orders; stopped, or released, at the end. Goes on from the checkpoint, if
        there is one."""
        ...

    def finished(self, folder: RunFolder, console: Console) -> None:
        """A run came to its end here."""
        ...


class AgentsPlace(Place, Protocol):
    """A place with real agents."""

    def agents(
        self,
        experiment: Experiment,
        learning_task: LearningTask,
        folder: RunFolder,
        console: Console,
        *,
        agent_cost: bool = False,
    ) -> AbstractAsyncContextManager[AgentBench]:
        """The agents, ready; stopped (or let go) and drained at the end.

        `agent_cost`: emulated boards draw what their agents compute, too.
        """
        ...


@dataclass(frozen=True, slots=True)
class ThisMachine:
    """Base of the places that are processes of this machine."""

    experiment: Experiment
    doubts: ClassVar[tuple[str, ...]] = ()
    fewer_by: ClassVar[tuple[str, ...]] = ()
    without_meter: ClassVar[tuple[str, ...]] = ()

    @property
    def meters(self) -> Mapping[str, MeterTraits]:
        """None: nothing is measured."""
        return {}

    @property
    def meter_serials(self) -> Mapping[str, str]:
        """None: emulated meters have no numbers."""
        return {}

    @classmethod
    def of(cls, experiment: Experiment, file: str, options: BenchOptions) -> Self:
        """The place for a run that begins; needs neither `file` nor `options`."""
        return cls(experiment)

    @classmethod
    def again(cls, experiment: Experiment, folder: RunFolder, options: BenchOptions) -> Self:
        """The place for a run that goes on: the same, as nothing outlives a controller."""
        return cls(experiment)

    @property
    def time_scale(self) -> float:
        """1: device time is this machine's."""
        return 1.0

    def names(self, devices: int) -> tuple[str, ...]:
        """`pi-01`, `pi-02` and so on."""
        return tuple(f"pi-{number:02d}" for number in range(1, devices + 1))

    def is_of(self, folder: RunFolder) -> bool:
        """True: every such run is made on the machine that has its folder."""
        return True

    def held(
        self, console: Console, *, baselines: bool = True, expects: Expects = nobody_knows
    ) -> AbstractContextManager[Self]:
        """Itself; it cannot be in use, and nothing is checked."""
        return nullcontext(self)

    def note(self, path: Path) -> None:
        """Nothing that the experiment does not say."""

    def finished(self, folder: RunFolder, console: Console) -> None:
        """Do nothing."""


def rest_s_at(place: Place) -> float:
    """Device seconds that boards rest after every measured phase of a run that begins here."""
    return place.experiment.rounds.rest_with(meter.nominal_s for meter in place.meters.values())


def dither_s_at(place: Place) -> float:
    """Half the device seconds over which starts of measured phases are spread here."""
    return place.experiment.rounds.dither_with(meter.nominal_s for meter in place.meters.values())


def new_run_folder(
    place: Place,
    path: Path,
    *,
    name: str = "",
    system: str,
    trace_hash: str,
    devices: int,
    lookahead: bool = False,
    rest_s: float = 0.0,
) -> RunFolder:
    """A run folder that knows where it is made. Its id begins with `name`, else with the folder's; no other
    run has it, in no folder and on no bench: databases, spools and agents know runs by it. Raises as
    `RunFolder.create` does."""
    folder = RunFolder.create(
        path,
        place.experiment,
        run_id=f"{(name or path.name)[:_MOST_NAME_LETTERS]}.{secrets.token_hex(4)}",
        system=system,
        trace_hash=trace_hash,
        fleet=place.kind.name,
        device_names=place.names(devices),
        time_scale=place.time_scale,
        lookahead=lookahead,
        rest_s=rest_s,
        versions=versions(),
    )
    place.note(path)
    return folder
