"""Tasks beside that of docs/adding.md: several labels, a class per place, mini-batches of its own."""

from typing import Final

FILES: Final = {
    "bench_extras/sums.py": '''\
import numpy as np
import torch
from torch import nn
from torch.nn import functional

from roambench.contract.draws import generator
from roambench.learning.datasets.dataset import Dataset
from roambench.learning.evaluation import Evaluation, outputs
from roambench.learning.shards import IGNORED


class Sums:
    """Of every number (0 to 3) in a sequence: its sum with the one before it, modulo 4."""

    metrics = {"token accuracy": "higher"}

    def load(self, folder, download):
        return Dataset(*self._draw(600, step=0), *self._draw(200, step=1), classes=4)

    def build(self, in_channels, classes):
        return Tagger(classes)

    def loss(self, logits, tokens):
        losses = functional.cross_entropy(logits, tokens, ignore_index=IGNORED, reduction="none")
        return losses.sum(dim=1) / (tokens != IGNORED).sum(dim=1)

    def evaluate(self, module, vector, images, tokens):
        logits, wanted = outputs(module, vector, images), torch.from_numpy(tokens)
        right = (logits.argmax(dim=1) == wanted)[wanted != IGNORED].float().mean()
        return Evaluation(None, float(self.loss(logits, wanted).mean()), {"token accuracy": right})

    def _draw(self, count, step):
        draws = generator(1, "sums", step=step)
        numbers = draws.integers(0, 4, (count, 12))
        sums = (numbers + np.pad(numbers, ((0, 0), (1, 0)))[:, :-1]) % 4
        there = np.arange(12) < draws.integers(4, 13, (count, 1))  # sequences are 4 to 12 long
        numbers, sums = np.where(there, numbers, 4), np.where(there, sums, IGNORED)
        return numbers.astype(np.float32)[:, None, None], sums.astype(np.int64)


class Tagger(nn.Module):
    """(n, 1, 1, places) -> (n, classes, places), as torch's cross-entropy wants it."""

    def __init__(self, classes):
        super().__init__()
        self.known = nn.Embedding(5, 8)
        self.look = nn.Sequential(nn.Conv1d(8, 32, 3, padding=1), nn.ReLU(), nn.Conv1d(32, classes, 1))

    def forward(self, images):
        return self.look(self.known(images.flatten(1).long()).transpose(1, 2))
''',
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
