"""Modules that stand in for what examples of Flower download: drawn rows of the same columns and shapes."""

from __future__ import annotations

from pathlib import Path

_DATASETS = '''
"""Drawn rows in place of a download, with the calls of Hugging Face's datasets that examples make."""
import zlib

import numpy as np

COLUMNS = {
    "uoft-cs/cifar10": {"img": (32, 32, 3), "label": 10},
    "zalando-datasets/fashion_mnist": {"image": (28, 28), "label": 10},
    "hitorilabs/iris": {
        **dict.fromkeys(("petal_length", "petal_width", "sepal_length", "sepal_width"), ()),
        "species": 3,
    },
    "jxie/higgs": {"inputs": (28,), "label": 2},
}


class Dataset:
    def __init__(self, columns, transform=None, form=None):
        self.columns, self.transform, self.form = columns, transform, form

    def __len__(self):
        return len(next(iter(self.columns.values())))

    def __getitem__(self, which):
        one = isinstance(which, (int, np.integer))
        rows = {name: values[[which] if one else which] for name, values in self.columns.items()}
        if self.form == "pandas":
            import pandas

            return pandas.DataFrame(rows)
        if self.transform is not None:
            rows = self.transform({name: list(values) for name, values in rows.items()})
        return {name: values[0] for name, values in rows.items()} if one else rows

    def with_transform(self, transform):
        return Dataset(self.columns, transform, self.form)

    def with_format(self, form):
        return Dataset(self.columns, self.transform, form)

    def set_format(self, form):
        self.form = form

    def train_test_split(self, test_size, seed):
        places = np.random.default_rng(seed).permutation(len(self))
        count = round(test_size * len(self))
        parts = {"train": places[count:], "test": places[:count]}
        return DatasetDict({name: self.chosen(part) for name, part in parts.items()})

    def chosen(self, places):
        columns = {name: values[places] for name, values in self.columns.items()}
        return Dataset(columns, self.transform, self.form)


class DatasetDict(dict):
    def with_transform(self, transform):
        return DatasetDict({name: part.with_transform(transform) for name, part in self.items()})


def drawn(name, split, rows):
    draw = np.random.default_rng(zlib.crc32(f"{name} {split}".encode()))
    columns = COLUMNS[name]
    classes = next(kind for kind in columns.values() if isinstance(kind, int))
    labels, found = draw.integers(0, classes, rows), {}
    for column, kind in columns.items():
        if isinstance(kind, int):
            found[column] = labels
            continue
        values = draw.random((rows, *kind)) + labels.reshape(-1, *[1] * len(kind)) / classes
        found[column] = (values * 100).astype(np.uint8) if len(kind) > 1 else values
    return Dataset(found)


def load_dataset(name, split=None):
    if split is None:
        return DatasetDict({part: drawn(name, part, 64) for part in ("train", "test")})
    return drawn(name, split, 64)
'''
_FEDERATED = """
import numpy as np
from datasets import drawn


class FederatedDataset:
    def __init__(self, dataset, partitioners):
        self.name, self.partitioners = dataset, partitioners

    def load_partition(self, partition_id, split="train"):
        count = self.partitioners[split].num_partitions
        return drawn(self.name, split, 50 * count).chosen(np.arange(50) * count + partition_id)
"""
_PARTITIONER = """
class IidPartitioner:
    def __init__(self, num_partitions, **more):
        self.num_partitions = num_partitions


DirichletPartitioner = IidPartitioner
"""
_TRANSFORMS = """
import numpy as np
import torch


class Compose(list):
    def __init__(self, transforms):
        super().__init__(transforms)

    def __call__(self, image):
        for transform in self:
            image = transform(image)
        return image


class ToTensor:
    def __call__(self, image):
        values = torch.from_numpy(np.atleast_3d(np.asarray(image)).astype(np.float32) / 255)
        return values.permute(2, 0, 1).contiguous()


class Normalize:
    def __init__(self, mean, std):
        self.mean, self.std = torch.tensor(mean), torch.tensor(std)

    def __call__(self, image):
        return (image - self.mean.view(-1, 1, 1)) / self.std.view(-1, 1, 1)


class RandomCrop:
    def __init__(self, size, padding):
        self.size, self.padding = size, padding

    def __call__(self, image):
        left, top = torch.randint(0, 2 * self.padding + 1, (2,)).tolist()
        wide = np.pad(np.asarray(image), self.padding)
        return wide[top : top + self.size, left : left + self.size]


class RandomHorizontalFlip:
    def __call__(self, image):
        return np.asarray(image)[:, ::-1] if torch.rand(1).item() < 0.5 else image
"""
_WANDB = """
def init(**about):
    pass


def log(values, step):
    pass
"""

_MODULES = {
    "datasets.py": _DATASETS,
    "flwr_datasets/__init__.py": _FEDERATED,
    "flwr_datasets/partitioner.py": _PARTITIONER,
    "torchvision/__init__.py": "",
    "torchvision/transforms.py": _TRANSFORMS,
    "wandb.py": _WANDB,
}


def write_standins(app: Path) -> None:
    """Write the modules into an app's folder, from which Flower imports."""
    for name, text in _MODULES.items():
        file = app / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
