"""The ways of giving devices their training images, by name; all keyed by the seed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from roambench.contract.draws import generator
from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.learning.partition import Indices, partition
from roambench.learning.shards import Classes, Labels, are_classes


@dataclass(frozen=True, slots=True)
class PartitionRequest:
    """A request to divide the training set. Every rule reads what concerns it.

    `labels`: of the training set, or where they are no classes the groups that its source names, if it does.
    """

    labels: Labels
    devices: int
    images_per_device: int
    alpha: float
    seed: int
    major_share: float = 0.85
    shards_per_device: int = 2


#: Request -> for each device the indices of its images, int64; ConfigError with every reason why not.
PartitionRule = Callable[[PartitionRequest], list[Indices]]


def dirichlet(request: PartitionRequest) -> list[Indices]:
    """MOHAWK: each device draws `images_per_device` by its own label distribution; devices overlap."""
    return partition(
        _classes(request), request.devices, request.images_per_device, request.alpha, request.seed
    )


def dirichlet_repeats(request: PartitionRequest) -> list[Indices]:
    """`dirichlet` as MOHAWK's authors' code draws images: one may come to a device more than once."""
    return partition(
        _classes(request),
        request.devices,
        request.images_per_device,
        request.alpha,
        request.seed,
        replacement=True,
    )


def iid(request: PartitionRequest) -> list[Indices]:
    """Each device draws `images_per_device` of all images alike, without repeats; devices overlap."""
    _check(request, request.images_per_device)
    return [
        np.sort(
            generator(request.seed, "partition iid", device)
            .choice(len(request.labels), request.images_per_device, replace=False)
            .astype(np.int64)
        )
        for device in range(request.devices)
    ]


def dirichlet_split(request: PartitionRequest) -> list[Indices]:
    """Every class is shared out by Dirichlet(alpha) over the devices: the training set without overlap.

    Sizes differ between devices. A device that got nothing takes an image from the largest.
    """
    _check(request, request.devices, what="devices")
    if not request.alpha > 0.0:
        raise ConfigError([f"alpha = {request.alpha}: expected more than 0"])
    labels = _classes(request)
    parts: list[list[Indices]] = [[] for _ in range(request.devices)]
    for label in np.unique(labels).tolist():
        draws = generator(request.seed, "partition split", int(label))
        members = draws.permutation(np.flatnonzero(labels == label))
        shares = np.cumsum(draws.dirichlet(np.full(request.devices, request.alpha)))
        borders = np.rint(shares[:-1] * len(members)).astype(np.int64)
        for part, piece in zip(parts, np.split(members, borders), strict=True):
            part.append(piece)
    whole = [np.sort(np.concatenate(part).astype(np.int64)) for part in parts]
    for device in range(request.devices):
        if not len(whole[device]):
            giver = max(range(request.devices), key=lambda other: (len(whole[other]), -other))
            whole[device], whole[giver] = whole[giver][-1:], whole[giver][:-1]
    return whole


def major_class(request: PartitionRequest) -> list[Indices]:
    """MIDDLE: `major_share` of a device's images are of one class, the rest evenly of the others.

    Each device draws its major class among all classes alike. Within a device no image comes twice.
    """

    def drawn(device: int, classes: int) -> int:
        return int(generator(request.seed, "major class", device).integers(classes))

    return _with_major(request, drawn)


def major_class_in_order(request: PartitionRequest) -> list[Indices]:
    """`major_class` with the classes in the order of the devices: device d's is the
    floor(d * classes / devices)-th.

    HierFAVG's map and the start of edge-hopping give device d the edge floor(d * edges / devices), so every
    edge has its classes there (MIDDLE's Fig. 1 and 2: two edges, 70 % of the data of one half of ten
    classes each: a `major_share` of 0.46).
    """
    return _with_major(request, lambda device, classes: device * classes // request.devices)


def label_shards(request: PartitionRequest) -> list[Indices]:
    """The training set sorted by label and cut into equal shards, `shards_per_device` to each device.

    (McMahan et al., AISTATS 2017.) No overlap; what does not fill a shard is left out.
    """
    count = request.devices * request.shards_per_device
    _check(request, count, what="devices x shards_per_device")
    draws = generator(request.seed, "partition shards")
    order = draws.permutation(len(request.labels))
    by_label = order[np.argsort(_classes(request)[order], kind="stable")]
    size = len(by_label) // count
    shards = by_label[: size * count].reshape(count, size)
    dealt = draws.permutation(count).reshape(request.devices, request.shards_per_device)
    return [np.sort(shards[mine].reshape(-1).astype(np.int64)) for mine in dealt]


PARTITIONS: Final[Table[PartitionRule]] = Table(
    what="partition",
    group="roambench.partitions",
    own={
        "dirichlet": dirichlet,
        "dirichlet_repeats": dirichlet_repeats,
        "iid": iid,
        "dirichlet_split": dirichlet_split,
        "major_class": major_class,
        "major_class_in_order": major_class_in_order,
        "label_shards": label_shards,
    },
)


def make_partition(name: str, request: PartitionRequest) -> list[Indices]:
    """Carry out the rule `name`; ConfigError lists the names there are, or why it cannot be done."""
    return PARTITIONS.load(name)(request)


def _with_major(request: PartitionRequest, place_of: Callable[[int, int], int]) -> list[Indices]:
    """`place_of` takes a device and the number of classes: its major class is the so-many-th of them."""
    labels = _classes(request)
    classes = np.unique(labels)
    _check(request, request.images_per_device)
    if not 0.0 < request.major_share <= 1.0:
        raise ConfigError([f"major_share = {request.major_share}: expected a share above 0, up to 1"])
    major = int(np.ceil(request.major_share * request.images_per_device))
    found = []
    for device in range(request.devices):
        draws = generator(request.seed, "partition major class", device)
        label = classes[place_of(device, len(classes))]
        own, others = (np.flatnonzero((labels == label) == same) for same in (True, False))
        if len(own) < major:
            raise ConfigError(
                [
                    f"major_share = {request.major_share}: {major} images of class {label}, "
                    f"there are {len(own)}"
                ]
            )
        rest = _evenly(labels, others, request.images_per_device - major, draws)
        chosen = np.concatenate([draws.choice(own, major, replace=False), rest])
        found.append(np.sort(chosen.astype(np.int64)))
    return found


def _evenly(labels: Classes, members: Indices, count: int, draws: np.random.Generator) -> Indices:
    """`count` of `members`, as evenly over their classes as their numbers allow."""
    shuffled = draws.permutation(members)
    # The k-th image of each class comes in turn k: taking whole turns is taking evenly.
    order = np.argsort(labels[shuffled], kind="stable")
    _, starts, sizes = np.unique(labels[shuffled][order], return_index=True, return_counts=True)
    turns = np.arange(len(shuffled)) - np.repeat(starts, sizes)
    lots = draws.random(len(shuffled))
    ranked = shuffled[order][np.lexsort((lots, turns))]
    return np.asarray(ranked[:count], dtype=np.int64)


def _classes(request: PartitionRequest) -> Classes:
    if not are_classes(request.labels):
        raise ConfigError(
            [
                "learning.partition: this one goes by class, and the labels are no classes: expected "
                '"iid", a task with partition, or a Dataset with train_groups'
            ]
        )
    return request.labels


def _check(request: PartitionRequest, needed: int, what: str = "images_per_device") -> None:
    problems = []
    if request.devices < 1:
        problems.append(f"devices = {request.devices}: expected 1 or more")
    if needed < 1:
        problems.append(f"{what} = {needed}: expected 1 or more")
    elif needed > len(request.labels):
        problems.append(f"{what} = {needed}: the training set has {len(request.labels)} images")
    if problems:
        raise ConfigError(problems)
