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
        description="The user's own data, model and partition, as `package.module:Name` (docs/sweeps.md): "
        "instead of `dataset` and `model`. Has to be importable wherever the run trains.",
    )
    dataset: str = Field("digits", description="Data set (`roambench list datasets`).")
    data_path: str = Field(
        "",
        description="Folder of the data set's files, for data sets that do not come with a package. "
        "Relative to the experiment file.",
    )
    download: bool = Field(
        False, description="Fetch the data set's missing files from the network, checked by their checksums."
    )
    model: str = Field("mohawk_cnn", description="Model (`roambench list models`).")
    images_per_device: int = Field(60, ge=1, description="Training images of each device (MOHAWK: 500).")
    alpha: float = Field(
        100.0,
        gt=0.0,
        description="Dirichlet concentration of each device's label distribution: 100 is near IID, 0.1 far.",
    )
    partition: str = Field(
        "dirichlet",
        description="Who gets which training images (`roambench list partitions`): `dirichlet` draws a class "
        "mix per device (MOHAWK; `dirichlet_repeats` with replacement, as its authors' code does), "
        "`dirichlet_split` shares each class out, `major_class` is MIDDLE's (`major_class_in_order` with "
        "its own classes at every edge of the generator `edge-hopping`).",
    )
    major_share: float = Field(
        0.85,
        gt=0.0,
        le=1.0,
        description="Share of a device's major class, for `major_class` and `major_class_in_order`.",
    )
    shards_per_device: int = Field(2, ge=1, description="Label shards of each device, for `label_shards`.")
    local_epochs: int = Field(1, ge=1, description="Passes over its own images per training order (k1).")
    local_steps: int = Field(
        0,
        ge=0,
        description="Mini-batches per training order instead (the other reading of MIDDLE's I), over as many "
        "passes as they take; 0: `local_epochs` counts.",
    )
    batch_size: int = Field(8, ge=1, description="Images per SGD step.")
    optimiser: Literal["sgd", "adam"] = Field(
        "sgd",
        description="Of local training, with a new state every time: SGD, or Adam with betas 0.9 and 0.999 "
        "(MIDDLE's speech task: `learning_rate = 0.001`; momentum then plays no part).",
    )
    learning_rate: float = Field(0.01, gt=0.0, description="Step size.")
    momentum: float = Field(0.9, ge=0.0, lt=1.0, description="SGD momentum; a new buffer for every training.")
    weight_decay: float = Field(0.0, ge=0.0, description="L2 penalty added to the gradient.")
    augmentation: Literal["none", "crop_flip"] = Field(
        "none", description="Random change of training images; `crop_flip` is the usual one for CIFAR."
    )
    channels_last: bool = Field(
        True,
        description="Memory layout of convolutions; about 1.2 times faster on the CPUs we measured. A model "
        "that cannot be trained so (`view` may need `false`) is trained with `false`, on every fleet.",
    )
    train_images: int = Field(
        0,
        ge=0,
        description="Training images that devices get theirs from, drawn with every class in its share, the "
        "same for every seed; 0: all.",
    )
    test_images: int = Field(
        0,
        ge=0,
        description="Test images that score the global model, drawn as `train_images` are; 0: all, as the "
        "papers do.",
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
    noise: float = Field(
        1.5, ge=0.0, description="Deviation of each pixel's white noise; that of the patterns is 1."
    )
    seed: int = Field(
        1, ge=0, description="Draws the set. It does not follow the experiment's, as no data set does."
    )
