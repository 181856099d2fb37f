"""The places by name, as `--fleet` has them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Final, cast

from roambench.contract.errors import ConfigError
from roambench.experiment.sections import Experiment
from roambench.runner.bench_options import USUAL, BenchOptions
from roambench.runner.places.place import AgentsPlace, Place
from roambench.runner.world import refuse_unfit_systems
from roambench.runs.fleet_kinds import FLEET_KINDS, FleetKind
from roambench.runs.folder import RunFolder

#: Imported when they are asked for: a bench brings SSH with it, virtual devices their workers.
PLACES: Final[Mapping[str, str]] = {
    "local": "roambench.runner.places.local:LocalPlace",
    "simulated": "roambench.runner.places.simulated:SimulatedPlace",
    "rehearsal": "roambench.runner.places.rehearsal:RehearsalPlace",
    "bench": "roambench.runner.places.bench:BenchPlace",
}

#: The kinds that calibrations and the like can be made on.
AGENT_FLEETS: Final = tuple(kind for kind in FLEET_KINDS.values() if kind.has_agents)


def place_of(experiment: Experiment, fleet: str, options: BenchOptions = USUAL) -> Place:
    """Return where `--fleet` says; ConfigError for none of them, for a wrong file, and as `refuse_unfit`
    does."""
    kind, file = fleet_of(fleet)
    refuse_unfit(experiment, kind)
    return _class_of(kind).of(experiment, file, options)


def agents_place_of(experiment: Experiment, fleet: str, options: BenchOptions) -> AgentsPlace:
    """The same for what only real agents can do."""
    kind, file = fleet_of(fleet, AGENT_FLEETS)
    return cast(AgentsPlace, _class_of(kind).of(experiment, file, options))


def place_again(experiment: Experiment, folder: RunFolder, options: BenchOptions) -> Place:
    """Return where the run of the folder goes on; RunError where that is no more."""
    return _class_of(folder.info.kind).again(experiment, folder, options)


def fleet_again(folder: RunFolder) -> str:
    """The fleet of the run in the folder, as `--fleet` spells it; RunError where its file is not known."""
    kind = folder.info.kind
    if not kind.has_file:
        return kind.name
    from roambench.runner.places.bench import bench_file_of

    return f"{kind.name}:{bench_file_of(folder.path)}"


def fleet_of(written: str, kinds: Iterable[FleetKind] = FLEET_KINDS.values()) -> tuple[FleetKind, str]:
    """The kind of fleet that is written, one of `kinds`, and its file; ConfigError for any other."""
    kinds = tuple(kinds)
    name, _, file = written.partition(":")
    for kind in kinds:
        if kind.name == name and (kind.has_file and file if ":" in written else not kind.has_file):
            return kind, file
    known = ", ".join(kind.usage for kind in kinds)
    raise ConfigError([f"--fleet: expected one of {known}, got {written!r}"])


def refuse_unfit(experiment: Experiment, kind: FleetKind) -> None:
    """ConfigError for what no fleet of this kind can do: in the file, or in a system of another package, all
    of them at once."""
    refuse_unfit_systems(experiment)
    if experiment.program.name and not kind.trains:
        raise ConfigError([f"--fleet {kind.name}: a {experiment.program.name} app has to run to be known"])
    if experiment.rounds.lookahead and kind.has_agents:
        raise ConfigError(
            ["rounds.lookahead: an oracle that no bench has; expected false except on virtual devices"]
        )
    if experiment.battery.capacity_wh and not kind.trains:
        raise ConfigError(
            [f"[battery]: --fleet {kind.name} draws no joules: expected none, or another fleet"]
        )
    cuts = experiment.battery.capacity_wh and experiment.battery.cut == "power"
    if cuts and kind.name == "local" and (real := ", ".join(sorted(experiment.local.meters))):
        why = f"nothing can cut the power of {real} (local.meters)"
        raise ConfigError([f'[battery]: {why}: expected cut = "absent"'])
    if kind.name == "local" and (names := ", ".join(experiment.simulated.classes)):
        text = f"simulated.classes: emulated boards are of one class, not of {names}"
        raise ConfigError([f"{text}: expected none on --fleet local, or --fleet simulated"])
    if experiment.simulated.precision == "float64" and kind.has_agents:
        text = "simulated.precision: float64 is a test mode of virtual devices; expected float32 on"
        raise ConfigError([f"{text} {kind.name} ones"])


def _class_of(kind: FleetKind) -> type[Place]:
    module, _, name = PLACES[kind.name].partition(":")
    return cast(type[Place], getattr(import_module(module), name))
