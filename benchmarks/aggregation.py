"""From received bytes to the aggregated model: ours against the memory's bandwidth and Flower's functions.

    python benchmarks/aggregation.py [--models 36 200 1000] [--repeats 5] [--flower PYTHON]

Every model has 430,106 float32 (1.72 MB) in 8 entries. What is timed begins with the bytes of all models in
memory and ends with their mean. CPU time of the one thread that works, best of the repeats, rows in turn:
other load on the machine moves the figures but hardly the ratios.

    bandwidth        np.sum over the same numbers: one "pass", the limit that all rows are told in
    streaming        Folding, what the round loop does where weights are data sizes: no model is kept
    matrix           weighted_mean over rows that are the received bytes themselves
    cosine-weighted  attention_mean: the same with the weights of MOHAWK's Eq. 5, made of the models first
    peer             `flwr.serverapp`'s aggregate_arrayrecords, and `flwr.server.strategy`'s aggregate()

Rows "and checks" read the bytes as the controller does: they refuse a wrong header, NaN and infinity, which
Flower does not look for. The data port checks digests at arrival; these are in no row. aggregate() is given
arrays that are decoded already. Flower 1.41 runs in an environment of its own,

    python3.11 -m venv flower-env && flower-env/bin/pip install flwr==1.41.0 numpy

as a child process that makes the same models in Flower's form (NumPy's file format, an entry each) and takes
its turn in every repeat; --flower names its interpreter. Without it the peer is the same per-entry loop over
np.load, written by us. Final vectors are checked: no entry differs from a float64 mean by more than 2e-6 (the
models' entries are normal, of standard deviation 1).

Goals, for every number of models: streaming >= 5 x faster than the peer, matrix >= 2.5 x, the cosine-weighted
mean <= 3.5 passes; a goal missed exits with 1. 1,000 models take 4 GB here and, with --flower, 4 GB there.
"""

from __future__ import annotations

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import numpy as np
from setting.figures import keep

SHAPES = ((32, 1, 5, 5), (32,), (64, 32, 5, 5), (64,), (500, 745), (500,), (10, 500), (10,))
SIGMA = 0.1
TOLERANCE = 2e-6
PEER_ROWS = ("aggregate_arrayrecords", "aggregate()")

Rows = dict[str, Callable[[], Any]]


def models(count: int) -> tuple[list[np.ndarray], list[int]]:
    """`count` flat models and their sample counts: the same in either process."""
    size = sum(int(np.prod(shape)) for shape in SHAPES)
    made = []
    for number in range(count):
        draws = np.random.default_rng([7, number])
        made.append(draws.standard_normal(size, dtype=np.float32))
    return made, np.random.default_rng(8).integers(100, 1000, count).tolist()


def entries(model: np.ndarray) -> list[np.ndarray]:
    """The model's entries in their shapes, as views."""
    borders = np.cumsum([int(np.prod(shape)) for shape in SHAPES])[:-1]
    return [part.reshape(shape) for part, shape in zip(np.split(model, borders), SHAPES, strict=True)]


def saved(model: np.ndarray) -> list[bytes]:
    """Every entry as NumPy's own file format, which is what Flower's Array holds."""
    files = []
    for entry in entries(model):
        file = io.BytesIO()
        np.save(file, entry, allow_pickle=False)
        files.append(file.getvalue())
    return files


# ---- the peer --------------------------------------------------------------------------------


def rewritten_rows(made: Sequence[np.ndarray], samples: Sequence[int]) -> Rows:
    """The peer's per-entry loop as we would write it, for when Flower is not there."""
    files = [saved(model) for model in made]
    shares = np.array(samples) / sum(samples)

    def per_entry() -> np.ndarray:
        totals: list[np.ndarray] = []
        for model, share in zip(files, shares.tolist(), strict=True):
            for number, file in enumerate(model):
                entry = np.load(io.BytesIO(file), allow_pickle=False)
                if number == len(totals):
                    totals.append(entry * share)
                else:
                    totals[number] += entry * share
        return np.concatenate([total.ravel() for total in totals])

    return {"per-entry loop (ours)": per_entry}


def flower_rows(made: Sequence[np.ndarray], samples: Sequence[int]) -> Rows:
    """Flower's own functions; in Flower's environment only."""
    from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
    from flwr.server.strategy.aggregate import aggregate
    from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords

    replies, lists = [], []
    for model, count in zip(made, samples, strict=True):
        arrays = {
            f"entry.{number}": Array("float32", shape, "numpy.ndarray", file)
            for number, (file, shape) in enumerate(zip(saved(model), SHAPES, strict=True))
        }
        metrics = MetricRecord({"num-examples": count})
        replies.append(RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics}))
        lists.append((entries(model), count))

    def arrayrecords() -> np.ndarray:
        record = aggregate_arrayrecords(replies, "num-examples")
        return np.concatenate([array.numpy().ravel() for array in record.values()])

    def decoded() -> np.ndarray:
        return np.concatenate([entry.ravel() for entry in aggregate(lists)])

    return dict(zip(PEER_ROWS, (arrayrecords, decoded), strict=True))


def child_main() -> None:
    """Answer each line `{"row": ..., "save": path or ""}` with the seconds the row took."""
    made, samples = models(json.loads(sys.stdin.readline())["models"])
    rows = flower_rows(made, samples)
    print("ready", flush=True)
    for line in sys.stdin:
        command = json.loads(line)
        took_s, result = timed(rows[command["row"]])
        if command["save"]:
            np.save(command["save"], result)
        print(took_s, flush=True)


@dataclass(slots=True)
class FlowerChild:
    """Flower's functions in another interpreter."""

    process: subprocess.Popen[str]
    folder: Path

    @classmethod
    def start(cls, python: str, count: int, folder: Path) -> FlowerChild:
        process = subprocess.Popen(
            [python, __file__, "--child"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        child = cls(process, folder)
        child._send({"models": count})
        if child._answer() != "ready":
            sys.exit(f"{python}: Flower's functions did not start")
        return child

    def timed(self, row: str, *, save: bool) -> tuple[float, np.ndarray | None]:
        path = self.folder / f"{row}.npy"
        self._send({"row": row, "save": str(path) if save else ""})
        took_s = float(self._answer())
        return took_s, np.load(path) if save else None

    def stop(self) -> None:
        self._pipe(self.process.stdin).close()
        self.process.wait()

    def _send(self, command: dict[str, Any]) -> None:
        pipe = self._pipe(self.process.stdin)
        pipe.write(json.dumps(command) + "\n")
        pipe.flush()

    def _answer(self) -> str:
        return self._pipe(self.process.stdout).readline().strip()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


# ---- ours ------------------------------------------------------------------------------------


def our_rows(made: Sequence[np.ndarray], samples: Sequence[int], reference: np.ndarray) -> Rows:
    """What the controller does, by the same functions and with freed memory kept as it does."""
    from roambench.aggregation import Folding, attention_mean, data_size_weights
    from roambench.contract.model_blob import decode, encode
    from roambench.learning.malloc import keep_freed_memory
    from roambench.vectors import weighted_mean

    keep_freed_memory()
    layout = "0" * 32
    blobs = [encode(model, layout) for model in made]
    start = len(blobs[0]) - made[0].nbytes

    def checked(blob: bytes) -> np.ndarray:
        return decode(blob, layout=layout)

    def bare(blob: bytes) -> np.ndarray:
        return np.frombuffer(blob, dtype=np.float32, offset=start)

    def streaming(read: Callable[[bytes], np.ndarray], shares: Sequence[int]) -> np.ndarray:
        folding = Folding()
        for blob, share in zip(blobs, shares, strict=True):
            folding.add(read(blob), share)
        return folding.close()[0]

    def matrix(read: Callable[[bytes], np.ndarray]) -> np.ndarray:
        return weighted_mean([read(blob) for blob in blobs], data_size_weights(samples))

    def cosine_weighted(read: Callable[[bytes], np.ndarray]) -> np.ndarray:
        return attention_mean(reference, [read(blob) for blob in blobs], SIGMA)[0]

    return {
        "bandwidth": lambda: sum(float(np.sum(bare(blob))) for blob in blobs),
        "streaming": lambda: streaming(bare, samples),
        "streaming, equal weights": lambda: streaming(bare, [1] * len(blobs)),
        "streaming and checks": lambda: streaming(checked, samples),
        "matrix": lambda: matrix(bare),
        "matrix and checks": lambda: matrix(checked),
        "cosine-weighted": lambda: cosine_weighted(bare),
        "cosine-weighted and checks": lambda: cosine_weighted(checked),
    }


def expected(
    made: Sequence[np.ndarray], samples: Sequence[int], reference: np.ndarray
) -> dict[str, np.ndarray]:
    """The three means in float64, worked out plainly."""

    def mean(weights: np.ndarray) -> np.ndarray:
        total = np.zeros(made[0].size)
        for model, weight in zip(made, weights.tolist(), strict=True):
            total += model.astype(np.float64) * weight
        return total / np.sum(weights)

    wide = reference.astype(np.float64)
    lengths = [np.linalg.norm(model.astype(np.float64)) for model in made]
    cosines = np.array(
        [wide @ model.astype(np.float64) / length for model, length in zip(made, lengths, strict=True)]
    ) / np.linalg.norm(wide)
    return {
        "data": mean(np.array(samples, dtype=np.float64)),
        "equal": mean(np.ones(len(made))),
        "cosine": mean(np.exp(-SIGMA * cosines)),
    }


# ---- the comparison --------------------------------------------------------------------------


@dataclass(slots=True)
class Comparison:
    """All rows with one number of models; `best_s` by row."""

    best_s: dict[str, float] = field(default_factory=dict)
    furthest: float = 0.0

    def note(self, row: str, took_s: float) -> None:
        self.best_s[row] = min(took_s, self.best_s.get(row, took_s))

    def passes(self, row: str) -> float:
        return self.best_s[row] / self.best_s["bandwidth"]


def timed(row: Callable[[], Any]) -> tuple[float, Any]:
    started_s = time.thread_time()
    result = row()
    return time.thread_time() - started_s, result


def compare(count: int, repeats: int, flower: str) -> tuple[Comparison, str]:
    """Returns the times and the name of the peer's row."""
    made, samples = models(count)
    reference = np.random.default_rng(9).standard_normal(made[0].size, dtype=np.float32) + made[0]
    right = expected(made, samples, reference)
    ours = our_rows(made, samples, reference)
    if not flower:
        ours.update(rewritten_rows(made, samples))
    peer = PEER_ROWS[0] if flower else "per-entry loop (ours)"
    del made
    comparison = Comparison()

    def check(row: str, result: np.ndarray) -> None:
        kind = "cosine" if row.startswith("cosine") else "equal" if "equal" in row else "data"
        comparison.furthest = max(comparison.furthest, float(np.abs(result - right[kind]).max()))
        if comparison.furthest > TOLERANCE:
            sys.exit(f"{row}: an entry is {comparison.furthest:.1e} off the float64 mean")

    with tempfile.TemporaryDirectory() as folder:
        child = FlowerChild.start(flower, count, Path(folder)) if flower else None
        for repeat in range(repeats + 1):  # the first, which warms up, is not counted
            for name, row in ours.items():
                took_s, result = timed(row)
                if repeat:
                    comparison.note(name, took_s)
                elif name != "bandwidth":
                    check(name, result)
            for name in PEER_ROWS if child is not None else ():
                assert child is not None
                took_s, result = child.timed(name, save=not repeat)
                if repeat:
                    comparison.note(name, took_s)
                else:
                    check(name, result)
        if child is not None:
            child.stop()
    return comparison, peer


def print_table(count: int, comparison: Comparison, peer: str) -> bool:
    """Returns whether all goals are met."""
    megabytes = 4e-6 * count * sum(int(np.prod(shape)) for shape in SHAPES)
    print(f"\n{count} models, {megabytes:.0f} MB; no entry is more than {comparison.furthest:.1e} off")
    print(f"{'':28}{'CPU ms':>9}{'GB/s':>7}{'passes':>8}{'x peer':>8}")
    for row, took_s in comparison.best_s.items():
        ratio = comparison.best_s[peer] / took_s
        print(
            f"{row:28}{took_s * 1e3:9.1f}{megabytes * 1e-3 / took_s:7.1f}"
            f"{comparison.passes(row):8.2f}{'' if row == 'bandwidth' else f'{ratio:8.2f}'}"
        )
    told = (
        (f"streaming >= 5 x {peer}", comparison.best_s[peer] / comparison.best_s["streaming"], 5.0, True),
        (f"matrix >= 2.5 x {peer}", comparison.best_s[peer] / comparison.best_s["matrix"], 2.5, True),
        ("cosine-weighted <= 3.5 passes", comparison.passes("cosine-weighted"), 3.5, False),
    )
    if count == 36 and peer in PEER_ROWS:
        limit = f"{comparison.best_s[peer] * 1e3:.0f} ms"
        keep("aggregation 36 × Flower", told[0][1], limit=limit)
        keep("aggregation rows × Flower", told[1][1], limit=limit)
    if count == 36:
        keep(
            "aggregation cosine × a pass", told[2][1], limit=f"{comparison.best_s['bandwidth'] * 1e3:.1f} ms"
        )
    met = [value >= goal if at_least else value <= goal for _, value, goal, at_least in told]
    for (name, value, _, _), is_met in zip(told, met, strict=True):
        print(f"{'PASS' if is_met else 'FAIL'}  {name}: {value:.2f}")
    return all(met)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--models", type=int, nargs="+", default=[36, 200, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--flower", default="", metavar="PYTHON", help="interpreter that has flwr 1.41")
    arguments = parser.parse_args()
    met = True
    for count in arguments.models:
        comparison, peer = compare(count, arguments.repeats, arguments.flower)
        met &= print_table(count, comparison, peer)
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--child"]:
        child_main()
    else:
        main()
