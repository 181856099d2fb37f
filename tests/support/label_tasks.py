"""Two tasks beside those of docs/adding.md: several labels at once, and mini-batches of its own."""

from typing import Final

FILES: Final = {
    "bench_extras/traits.py": '''\
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from roambench.learning.datasets.catalogue import load_dataset
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation, outputs

TRAITS = np.float32([[d % 2 == 0, d > 4, d in (2, 3, 5, 7), d in (0, 6, 8, 9)] for d in range(10)])


class Traits:
    """Is a handwritten digit even, above 4, prime, and does it have a loop? Any number of these may hold."""

    metrics = {"micro F1": "higher", "all right": "higher"}

    def load(self, folder, download):
        digits = load_dataset("digits")
        train, test = digits.train_labels, digits.test_labels
        images = digits.train_images[:, :, ::4, ::4], digits.test_images[:, :, ::4, ::4]
        return Dataset(images[0], TRAITS[train], images[1], TRAITS[test], classes=4, train_groups=train)

    def build(self, in_channels, classes):
        layers = nn.Linear(64, 32, device="meta"), nn.ReLU(), nn.Linear(32, classes, device="meta")
        return nn.Sequential(nn.Flatten(), *layers)

    def loss(self, logits, traits):
        return functional.binary_cross_entropy_with_logits(logits, traits, reduction="none").mean(dim=1)

    def evaluate(self, module, vector, images, traits):
        logits, wanted = outputs(module, vector, images), torch.from_numpy(traits)
        said, holds = logits > 0.0, wanted > 0.5
        f1 = 2.0 * (said & holds).sum() / (said.sum() + holds.sum())
        right = (said == holds).all(dim=1).float().mean()
        return Evaluation(None, float(self.loss(logits, wanted).mean()), {"micro F1": f1, "all right": right})
''',
    "bench_extras/buckets.py": '''\
import numpy as np

from roambench.learning.shards import IGNORED

from bench_extras.sums import Sums


class BucketedSums(Sums):
    """The same with sequences of like length together, without the padding behind them."""

    def batches(self, images, tokens, batch_size, draws):
        lengths = (tokens != IGNORED).sum(axis=1)
        order = np.argsort(lengths + draws.random(len(lengths)))
        batches = np.split(order, range(batch_size, len(order), batch_size))
        for number in draws.permutation(len(batches)):
            chosen = batches[number]
            longest = lengths[chosen].max()
            yield images[chosen, :, :, :longest], tokens[chosen, :longest]
''',
}
