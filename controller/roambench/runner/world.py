"""The world an experiment runs in, the same for every fleet: trace, data, first model.

torch, seconds of a process's start, is imported when a model is asked for: a rehearsal needs none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import draw_key
from roambench.contract.errors import ConfigError
from roambench.contract.learning_spec import LearningSpec
from roambench.contract.link_codecs import LinkCodecs
from roambench.contract.orders import Vector
from roambench.contract.program_spec import ProgramSpec
from roambench.contract.table import Table
from roambench.experiment.learning_section import SyntheticSection
from roambench.experiment.sections import DEFAULT_APS, Experiment, TraceSection
from roambench.learning.datasets.catalogue import drawn_subset, require_files
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.datasets.synthetic import load_synthetic
from roambench.learning.local_algorithms import local_algorithm
from roambench.learning.partition import Indices
from roambench.learning.partitions import PartitionRequest
from roambench.learning.shards import Shard, are_classes, write_shard
from roambench.mobility.files import content_hash, read_trace
from roambench.mobility.selection import busiest_window_start, repeated, window, with_aps
from roambench.mobility.slots import on_boards
from roambench.mobility.trace import MADE_UP, Trace
from roambench.mobility.walks import GENERATORS
from roambench.runner.opened_files import opened_files
from roambench.systems.catalogue import make_system
from roambench.systems.choices import statistical_utility
from roambench.systems.options import SystemOptions
from roambench.systems.peers import PEER_SYSTEMS, is_peer_system
from roambench.systems.system import System

if TYPE_CHECKING:
    from roambench.learning.layout import Layout


@dataclass(frozen=True)
class Movement:
    """The part of a trace that an experiment replays, on as many devices as it has agents."""

    trace: Trace
    content_hash: str
    forgotten_aps: int = 0  # that the trace recorded, and the experiment drew others instead

    @property
    def doubts(self) -> tuple[str, ...]:
        """Doubts that a report must say before its numbers."""
        found = [f"{MADE_UP}, nor does energy that depends on them"] if self.trace.made_up else []
        if self.forgotten_aps:
            found.append(
                f"the trace recorded who was at which of {self.forgotten_aps} access points, and fleet.aps "
                f"drew {len(self.trace.ap_names)} others (fleet.aps = 0 keeps the recorded ones)"
            )
        return tuple(found)


@dataclass(frozen=True)
class LearningTask:
    """A learning task: data, the part of each device, and the first model."""

    dataset: Dataset
    parts: tuple[Indices, ...]  # per device: indices into the training set
    layout: Layout
    initial_model: Vector  # shape (parameters,)
    opened: frozenset[Path] = frozenset()  # files that were read for it
    #: What the model's `state_dict` has besides the layout's entries, as `companions_of` says.
    companions: Mapping[str, str | npt.NDArray[Any]] = field(default_factory=dict)
    channels_last: bool = True  # as wanted, unless the model cannot be trained so
    programs: tuple[ProgramSpec, ...] = ()  # per device, where programs answer in place of trainers
    scorer: ProgramSpec | None = None  # where these train a system's models: the program that scores them

    @cached_property
    def contents(self) -> dict[str, str]:
        """SHA-256 of the data as they were loaded and shared out, and of the first model, by what it is."""
        if self.programs:
            return {}  # only they know their data
        data = self.dataset
        arrays: dict[str, tuple[npt.NDArray[Any], ...]] = {
            "training images": (data.train_images,),
            "training labels": (data.train_labels,),
            "test images": (data.test_images,),
            "test labels": (data.test_labels,),
            "shares of the devices": self.parts,
            "first model": (self.initial_model,),
        }
        if data.train_groups is not None:
            arrays["training groups"] = (data.train_groups,)
        return {name: _digest(several) for name, several in arrays.items()}

    @property
    def chance_accuracy(self) -> float | None:
        """The accuracy of naming the test set's most frequent class for every sample; None where labels are
        no classes."""
        labels = self.dataset.test_labels
        if not are_classes(labels):
            return None
        return float(np.unique(labels, return_counts=True)[1].max() / len(labels))

    def shard(self, device: int, most: int | None = None) -> Shard:
        """Copy of the device's part of the training set: images and labels, in the order of `parts`; `most`
        of them, if that is given."""
        indices = self.parts[device][:most]
        return Shard(self.dataset.train_images[indices], self.dataset.train_labels[indices])


def _digest(arrays: Iterable[npt.NDArray[Any]]) -> str:
    content = hashlib.sha256()
    for array in arrays:
        content.update(f"{array.dtype.str} {array.shape} ".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


def movement_of(experiment: Experiment) -> Movement:
    """Read or generate the trace, cut its window, choose its devices, repeat it, draw its APs.

    Raises ConfigError with a line for each setting that does not fit the trace (`misfits_of`).
    """
    section, fleet = experiment.trace, experiment.fleet
    trace = read_trace(Path(section.file)) if section.file else generated(section, experiment.seed)
    if misfits := misfits_of(experiment, trace):
        raise ConfigError(misfits)
    aps = fleet.aps
    if aps is None:
        aps = min(DEFAULT_APS, len(trace.place_x_m)) if trace.ap is None else 0
    if section.offset:
        trace = window(trace, section.offset, trace.steps - section.offset)
    steps = min(section.steps, trace.steps)
    agents = fleet.agents_of(len(trace.device_names))
    first = busiest_window_start(trace, steps, agents) if section.window == "busiest" else 0
    trace = on_boards(window(trace, first, steps), agents, fleet.mapping, experiment.seed)
    trace = repeated(trace, section.repeat)
    forgotten = len(trace.ap_names) if aps and trace.ap is not None else 0
    if aps:
        trace = with_aps(trace, aps, experiment.seed)
    return Movement(trace, content_hash(trace), forgotten)


def misfits_of(experiment: Experiment, trace: Trace) -> list[str]:
    """A line for each setting that the whole trace cannot serve: APs to be drawn where no place is known or
    from fewer places, an offset behind its end, more agents than it has devices."""
    aps, offset, agents = experiment.fleet.aps or 0, experiment.trace.offset, experiment.fleet.agents
    places, devices, found = len(trace.place_x_m), len(trace.device_names), list[str]()
    if aps and trace.made_up:
        found.append(
            f"fleet.aps: expected 0 or nothing, got {aps}: the trace recorded who was at which access point, "
            "but not where these stand, so there is nowhere to draw others"
        )
    elif aps > places:
        own = f"its own {len(trace.ap_names)} access points"
        most = f"at most {places}, the places of the trace (0: {own})" if places else f"0 ({own})"
        found.append(f"fleet.aps: expected {most}, got {aps}")
    if offset >= trace.steps:
        found.append(
            f"trace.offset: expected 0 to {trace.steps - 1}, as the trace has {trace.steps} steps, "
            f"got {offset}"
        )
    if agents > devices:
        expected = f"expected at most {devices:,}, the devices of the trace (0 for all of them)"
        found.append(f"fleet.agents: {expected}, got {agents:,}")
    return found


def generated(section: TraceSection, seed: int) -> Trace:
    """Generate a trace by the section's generator; equal for equal parameters and seed. Where the window is
    the first, what lies outside may be left out."""
    first = range(section.offset, section.offset + section.steps) if section.window == "first" else None
    return GENERATORS.load(section.generator).generate(seed, section.parameters, first)


def require_data(experiment: Experiment) -> None:
    """ConfigError for files of the experiment's data set that are missing and that no run is to fetch."""
    learning = experiment.learning
    if not learning.task and not learning.download:
        require_files(learning.dataset, Path(learning.data_path) if learning.data_path else None)


def learning_task_of(experiment: Experiment, devices: int) -> LearningTask:
    """Load the data set, split it over `devices`, draw the first model; all keyed by the seed. A program that
    trains has both."""
    if experiment.program.name:
        return PROGRAM_TASKS.load(experiment.program.name)(experiment, devices)
    with opened_files() as opened:
        made = _learning_task(experiment, devices)
    return replace(made, opened=frozenset(opened))


def _learning_task(experiment: Experiment, devices: int) -> LearningTask:
    from roambench.learning.layout import companions_of, flatten, layout_of
    from roambench.learning.learner import works_channels_last
    from roambench.learning.task_parts import build_model, load_data, require_classes, share_out
    from roambench.learning.training import single_threaded

    section = experiment.learning
    folder = Path(section.data_path) if section.data_path else None
    if section.dataset == "synthetic" and not section.task:
        dataset = synthetic_of(experiment.synthetic)
    else:
        dataset = load_data(section.task, section.dataset, folder, download=section.download)
    if problems := experiment.rounds.misfits(has_accuracy=are_classes(dataset.train_labels)):
        raise ConfigError(problems)
    labels = dataset.train_labels if dataset.groups is None else dataset.groups
    shared = drawn_subset(labels, section.train_images or len(labels), "train")
    parts = share_out(
        section.task,
        section.partition,
        PartitionRequest(
            labels[shared],
            devices,
            section.images_per_device,
            section.alpha,
            experiment.seed,
            section.major_share,
            section.shards_per_device,
        ),
    )
    channels = dataset.train_images.shape[1]
    seed = draw_key(experiment.seed, "initial model")
    module = build_model(section.task, section.model, channels, dataset.classes, seed)
    initial_model: Vector = flatten(module).astype(experiment.simulated.model_precision, copy=False)
    held = tuple(shared[part] for part in parts)
    wanted = section.channels_last
    found = LearningTask(
        dataset,
        held,
        layout_of(module),
        initial_model,
        companions=companions_of(module),
        channels_last=wanted,
    )
    require_classes(section.task, section.model, module, dataset)
    if wanted:
        single_threaded()
        works = works_channels_last(learning_spec(experiment, found, ""), found.shard(0, most=2))
        found = replace(found, channels_last=works)
    return found


@dataclass(frozen=True)
class ProgramModel:
    """The model that programs train: names and shapes of its tensors, first numbers, and `companions` as
    `LearningTask` has them. `scorer` scores it."""

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    first: Vector
    companions: Mapping[str, npt.NDArray[Any]]
    scorer: ProgramSpec


def task_of_programs(
    programs: tuple[ProgramSpec, ...], *, channels_last: bool, model: ProgramModel | None = None
) -> LearningTask:
    """The task of devices whose programs have the data, and the model, too, where none is given. How many
    samples a device has is known when it has trained: until then it counts as one."""
    from roambench.learning.layout import Layout

    images, labels = np.zeros((0, 1, 1, 1), np.float32), np.zeros(0, np.int64)
    nothing = Dataset(images, labels, images, labels, classes=0)
    if model is None:
        parts, layout, first = np.zeros(0, np.int64), Layout((), ()), np.zeros(0, np.float32)
        companions: Mapping[str, npt.NDArray[Any]] = {}
    else:
        parts, first, companions = np.zeros(1, np.int64), model.first, model.companions
        layout = Layout(model.names, model.shapes, trained=first.size)
    return LearningTask(
        nothing,
        (parts,) * len(programs),
        layout,
        first,
        companions=companions,
        channels_last=channels_last,
        programs=programs,
        scorer=model.scorer if model is not None else None,
    )


#: What programs train in systems of ours: functions of the experiment and the number of devices.
PROGRAM_TASKS: Final[Table[Callable[[Experiment, int], LearningTask]]] = Table(
    what="program that trains",
    group="roambench.program_tasks",
    own={},
)


def synthetic_of(section: SyntheticSection) -> Dataset:
    """The drawn image set of the sizes that the experiment gives."""
    return load_synthetic(
        section.train_images,
        section.test_images,
        classes=section.classes,
        channels=section.channels,
        seed=section.seed,
        noise=section.noise,
    )


def learning_spec(
    experiment: Experiment, learning_task: LearningTask, shard: Path | str, device: int = 0
) -> LearningSpec:
    """`shard`: the data's path where it is trained on, or a reference by digest. `device`: whose program it
    names, where programs answer."""
    section = experiment.learning
    return LearningSpec(
        model=section.model,
        in_channels=learning_task.dataset.train_images.shape[1],
        classes=learning_task.dataset.classes,
        learning_rate=section.learning_rate,
        momentum=section.momentum,
        weight_decay=section.weight_decay,
        batch_size=section.batch_size,
        shard=str(shard),
        augmentation=section.augmentation,
        channels_last=learning_task.channels_last,
        task=section.task,
        height=learning_task.dataset.train_images.shape[2],
        width=learning_task.dataset.train_images.shape[3],
        optimiser=section.optimiser,
        precision=experiment.simulated.model_precision,
        codecs=link_codecs(experiment),
        program=learning_task.programs[device] if learning_task.programs else None,
    )


def link_codecs(experiment: Experiment) -> LinkCodecs:
    """The codecs of models on their way."""
    links = experiment.links
    difference = links.codec_of == "difference"
    return LinkCodecs(links.codec_up, links.codec_down, difference, draw_key(experiment.seed, "codecs"))


def save_shards(learning_task: LearningTask, folders: Mapping[int, Path]) -> dict[int, Path]:
    """Write every device's data into its own folder; returns the files."""
    files = {device: folder / "shard.safetensors" for device, folder in folders.items()}
    for device, path in files.items() if not learning_task.programs else ():
        write_shard(path, learning_task.shard(device))
    return files


def system_of(experiment: Experiment, name: str, shapes: tuple[tuple[int, ...], ...] = ()) -> System:
    """Compose the system `name` with the experiment's settings.

    `shapes` of the model's tensors are for systems that weigh by layer. ConfigError for an unknown name.
    """
    return make_system(
        name, system_options(experiment, shapes), experiment.algorithm.parameters.get(name, {})
    )


def system_options(experiment: Experiment, shapes: tuple[tuple[int, ...], ...] = ()) -> SystemOptions:
    """The options of systems, each from the key of its name in `[learning]`, `[rounds]` or `[algorithm]`,
    and the battery's capacity."""
    learning, rounds, algorithm = experiment.learning, experiment.rounds, experiment.algorithm
    renamed = {
        "k1": learning.local_epochs,
        "k2": rounds.cloud_every_steps,
        "local": local_text(experiment),
        "shapes": shapes,
        "capacity_wh": experiment.battery.capacity_wh,
    }
    values = {**dict(learning), **dict(rounds), **dict(algorithm), **renamed}
    return SystemOptions(**{option.name: values[option.name] for option in fields(SystemOptions)})


def local_text(experiment: Experiment) -> str:
    """The local algorithm that the experiment names, spelled with its numbers; "" where it names none."""
    name = experiment.algorithm.local
    numbers = experiment.algorithm.parameters.get(name, {}) if name else {}
    return f"{name}:{','.join(f'{key}={value!r}' for key, value in numbers.items())}" if numbers else name


def refuse_unfit_systems(experiment: Experiment) -> None:
    """ConfigError, with every mistake of every system, where one could not run."""
    problems: list[str] = []
    for name in experiment.systems if not experiment.is_program_alone else ():
        try:
            if is_peer_system(name):
                PEER_SYSTEMS.load(name)
            else:
                system = system_of(experiment, name)
                problems += _local_mistakes(experiment, system)
                problems += _program_mistakes(experiment, system)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(list(dict.fromkeys(problems)))


def _local_mistakes(experiment: Experiment, system: System) -> list[str]:
    """Mistakes of a system's local algorithm with the experiment's optimiser and backend."""
    text, learning, backend = system.training.objective, experiment.learning, experiment.simulated.backend
    algorithm = local_algorithm(text)
    found = []
    if experiment.algorithm.local and text != local_text(experiment):
        found.append(f"expected none beside system {system.name!r}, whose devices train by {text!r}")
    if misfit := algorithm.misfit(learning.optimiser, learning.momentum):
        found.append(f"{text!r}: {misfit}")
    if algorithm.keeps and backend != "workers":
        found.append(
            f'{text!r} keeps vectors on devices: expected simulated.backend = "workers", got "{backend}"'
        )
    return [f"algorithm.local: {problem}" for problem in found]


def _program_mistakes(experiment: Experiment, system: System) -> list[str]:
    """Demands of a system on its devices' training that a program does not meet."""
    if not experiment.program.name:
        return []
    found = []
    if system.training.objective != "ce":
        found.append(f"trains by {system.training.objective!r}")
    if system.selection.rate is statistical_utility:
        found.append("chooses devices by the losses of their samples")
    if system.name == "fednova":
        found.append("weighs by SGD steps")
    return [
        f"systems: {system.name!r} {text}: expected a system that leaves training to the program"
        for text in found
    ]


def versions() -> dict[str, Any]:
    """Versions that a run was made with, for its folder."""
    import platform
    from importlib.metadata import version

    from roambench.contract.sources import own_code

    packages = ("roambench", "torch", "numpy", "grpcio", "protobuf")
    own = {f"roambench {what}": value for what, value in own_code().items() if what != "version"}
    return {"python": platform.python_version(), **{name: version(name) for name in packages}, **own}
