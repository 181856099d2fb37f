"""The tables `[learning]` and `[synthetic]` of an experiment file."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from roambench.contract.local_training import LocalTraining
from roambench.written.toml_file import Section


class LearningSection(Section):
    """The data, the model, and how every device trains it."""

    task: str = Field(
        "",
        description="Own data, model and partition, as `package.module:Name` (docs/sweeps.md), "
        "instead of `dataset` and `model`.",
    )
    dataset: str = Field("digits", description="Data set (`roambench list datasets`).")
    data_path: str = Field(
        "",
        description="Folder of the data set's files, relative to the experiment file.",
    )
    download: bool = Field(False, description="Fetch missing files, checked by checksums.")
    model: str = Field("mohawk_cnn", description="Model (`roambench list models`).")
    images_per_device: int = Field(60, ge=1, description="Training images of each device (MOHAWK: 500).")
    alpha: float = Field(
        100.0,
        gt=0.0,
        description="Dirichlet concentration of label distributions: 100 near IID, 0.1 far.",
    )
    partition: str = Field(
        "dirichlet",
        description="Rule of shares (`roambench list partitions`): `dirichlet` draws a class mix per device, "
        "`dirichlet_split` shares each class out, `major_class` is MIDDLE's (docs/algorithms.md).",
    )
    major_share: float = Field(
        0.85,
        gt=0.0,
        le=1.0,
        description="Share of a device's major class.",
    )
    shards_per_device: int = Field(2, ge=1, description="Label shards of each device, for `label_shards`.")
    local_epochs: int = Field(1, ge=1, description="Passes over its own images per training order (k1).")
    local_steps: int = Field(
        0,
        ge=0,
        description="Mini-batches per training order instead of epochs; 0: `local_epochs` counts.",
    )
    batch_size: int = Field(8, ge=1, description="Images per SGD step.")
    optimiser: Literal["sgd", "adam"] = Field(
        "sgd",
        description="Of local training, with a new state each time; Adam has betas 0.9 and 0.999.",
    )
    learning_rate: float = Field(0.01, gt=0.0, description="Step size.")
    momentum: float = Field(0.9, ge=0.0, lt=1.0, description="SGD momentum.")
    weight_decay: float = Field(0.0, ge=0.0, description="L2 penalty added to the gradient.")
    augmentation: Literal["none", "crop_flip"] = Field(
        "none", description="Random change of training images."
    )
    channels_last: bool = Field(
        True,
        description="Memory layout of convolutions, 1.2 times faster on CPUs.",
    )
    train_images: int = Field(
        0,
        ge=0,
        description="Training images in all, each class in its share; 0: all.",
    )
    test_images: int = Field(
        0,
        ge=0,
        description="Test images that score the model, drawn likewise; 0: all.",
    )
    score_precision: Literal["float32", "bfloat16"] = Field(
        "float32",
        description="Of scoring. bfloat16 halves its time where the processor has it; reports say so.",
    )

    def training(self) -> LocalTraining:
        """A training as long as the table says."""
        return LocalTraining(epochs=self.local_epochs, steps=self.local_steps)


class SyntheticSection(Section):
    """The drawn image set (`learning.dataset = "synthetic"`): 32x32 pixels, as all our models take them."""

    classes: int = Field(10, ge=2, description="Classes, each with a random smooth pattern.")
    channels: int = Field(1, ge=1, description="Colour channels.")
    train_images: int = Field(6_000, ge=1, description="Images of the training part.")
    test_images: int = Field(1_000, ge=1, description="Images of the test part.")
    noise: float = Field(1.5, ge=0.0, description="Deviation of white noise; patterns have 1.")
    seed: int = Field(1, ge=0, description="Draws the set; apart from the experiment's.")
