"""Rounds of federated averaging: our simulated fleet, plain sequential PyTorch, Flower's simulation and pfl.

    python benchmarks/simulation.py [--images 100] [--rounds 6] [--cases H L] [--network wide] [--workers 2]
        [--flower PYTHON] [--pfl PYTHON] [--channels-first]

Case H is 10 clients with many images (--images 500 is the paper's), case L 100 clients of 8 images: one
SGD step each, so that what surrounds it shows. All train MOHAWK's CNN (`--network wide`: 2.6 times as
many parameters) by one epoch of batch 8, from the same start, in the same batch order; the mean of all
clients is the next round's model. Contenders live beside each other and take one round in turn, so that
other load on the machine meets all; a waiting one does nothing (Ray's idle processes excepted). The first
round of each, with its start, is told apart; one more round at the end is only there to watch the memory.

Sequential is what one writes first: one process, one thread, torch.optim.SGD, default layout. The peers
run the same network and training under their own engines; only ours uses its own network (pool before
ReLU, the same function), channels-last memory and its own SGD. The final model of everybody is compared
with sequential's. Float32 sums in another order drift apart, step by step: how far depends on the network, on
the data and on how many steps there are, and no number holds for all of them. So the case itself says: behind
the race sequential runs once more, in float64, and the distance of its two models is what float32's rounding
comes to here. Another order of the same sums is another draw of that rounding. Two draws are root 2 of it
apart, give or take: one ReLU that falls to the other side counts as much as many sums do, and in rounds of
100 images other orders were 0.9 to 2.3 of it apart. Four times are allowed.

Columns: seconds of a round, median and best; how many times faster ours is (median of the ratios of
neighbouring rounds); CPU seconds of all processes and how many times fewer ours needs; worker time beside
SGD per client, (workers x round - thread time of all SGD) / clients, in the best round, and the CPU time
of all processes beside SGD per client; peak memory of the process tree (sum of PSS); seconds from start
to the end of the first round; distance of the final model.

The peers need environments of their own, for example

    python3 -m venv /tmp/flower
    sh packaging/torch.sh /tmp/flower/bin/pip && /tmp/flower/bin/pip install torch numpy
    /tmp/flower/bin/pip install "flwr[simulation]==1.41.0"
    python3 -m venv /tmp/pfl
    sh packaging/torch.sh /tmp/pfl/bin/pip && /tmp/pfl/bin/pip install torch numpy
    /tmp/pfl/bin/pip install pfl==0.6.0
    python benchmarks/simulation.py --flower /tmp/flower/bin/python --pfl /tmp/pfl/bin/python

Telemetry of Flower and Ray is switched off. pfl runs under torchrun, one process per worker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from peers.case import Case
from peers.network import SIDES, network, vector_of
from setting.figures import keep

from roambench.contract.draws import draw_key, generator

PEERS = Path(__file__).parent / "peers"
OURS, SEQUENTIAL, EXACT = "roambench", "sequential", "float64"
#: How far two models may be apart, in distances of sequential's float32 model from its float64 one.
DRAWS_APART = 4.0
SHAPES = {"H": 10, "L": 100}  # clients


@dataclass
class Contender:
    """A program of `peers/`, started but waiting for its turn."""

    name: str
    workers: int
    command: list[str]
    case: Case
    seconds: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    sgd_s: list[float] = field(default_factory=list)
    first_s: float = 0.0
    peak_mb: float = 0.0

    def start(self, folder: Path) -> None:
        self._log = (folder / f"{self.name}.log").open("w+")
        path = folder / f"{self.name}.json"
        path.write_text(self.case.to_json())
        began_s = time.perf_counter()
        self._process = subprocess.Popen(
            [*self.command, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={
                **os.environ,
                "PYTHONPATH": str(PEERS),
                "OMP_NUM_THREADS": "1",
                "RAY_USAGE_STATS_ENABLED": "0",
            },
        )
        self._told("ready")
        self._turn()
        self.first_s = time.perf_counter() - began_s

    def round(self) -> None:
        """A steady round, timed from here."""
        cpu_s, began_s = self._cpu_s(), time.perf_counter()
        sgd_s = self._turn()
        self.seconds.append(time.perf_counter() - began_s)
        self.cpu_s.append(self._cpu_s() - cpu_s)
        self.sgd_s.append(sgd_s)

    def watched_round(self) -> None:
        """A round during which the memory of the process tree is read every 50 ms."""
        over = threading.Event()
        watching = threading.Thread(target=self._watch, args=(over,))
        watching.start()
        self._turn()
        over.set()
        watching.join()

    def final(self) -> np.ndarray:
        model = np.load(str(self._told("final")))
        self._process.wait(60)
        return model

    def end(self) -> None:
        if self._process.poll() is None:
            for process in self._tree():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            self._process.wait()
        self._log.close()

    @property
    def beside_ms(self) -> float:
        """Worker time beside SGD per client, of the best round."""
        rounds = zip(self.seconds, self.sgd_s, strict=True)
        return min((self.workers * wall_s - sgd_s) / self.case.clients * 1e3 for wall_s, sgd_s in rounds)

    @property
    def cpu_beside_ms(self) -> float:
        """CPU time beside SGD per client, median; CPU clocks tick every 10 ms, of all processes together."""
        rounds = zip(self.cpu_s, self.sgd_s, strict=True)
        return statistics.median((cpu_s - sgd_s) / self.case.clients * 1e3 for cpu_s, sgd_s in rounds)

    def _turn(self) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return float(self._told("sgd_s"))

    def _told(self, what: str) -> Any:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{") and what in (news := json.loads(line)):
                return news[what]
        self._log.seek(0)
        raise SystemExit(f"{self.name} ended early:\n{self._log.read()[-3000:]}")

    def _tree(self) -> list[psutil.Process]:
        root = psutil.Process(self._process.pid)
        return [root, *root.children(recursive=True)]

    def _cpu_s(self) -> float:
        spent_s = 0.0
        for process in self._tree():
            with_children = process.cpu_times()
            spent_s += with_children.user + with_children.system
        return spent_s

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(0.05):
            self.peak_mb = max(self.peak_mb, sum(pss_mb(process.pid) for process in self._tree()))


def pss_mb(pid: int) -> float:
    """Memory of one process, shared pages divided among those who share them; 0 if it is gone."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1e3
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def make_case(folder: Path, clients: int, images: int, options: argparse.Namespace) -> Case:
    """Noisy pictures of ten patterns, a start model, batch orders; rounds: first, steady, watched."""
    rounds = options.rounds + 2
    draws = generator(7, "benchmark")
    side = SIDES[options.network]
    labels = draws.integers(0, 10, (clients, images))
    patterns = draws.standard_normal((10, 1, side, side), dtype=np.float32)
    noise = draws.standard_normal((clients, images, 1, side, side), dtype=np.float32)
    seeds = np.array(
        [[draw_key(7, "benchmark", client, number) for client in range(clients)] for number in range(rounds)],
        dtype=np.uint64,
    )
    orders = [[generator(int(seed), "batches").permutation(images) for seed in row] for row in seeds]
    start = vector_of(network(options.network).parameters())
    arrays = {
        "images": 0.5 * patterns[labels] + noise,
        "labels": labels,
        "orders": np.array(orders),
        "seeds": seeds,
        "start": start,
    }
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return Case(
        folder=str(folder),
        network=options.network,
        clients=clients,
        images=images,
        rounds=rounds,
        batch_size=8,
        learning_rate=0.01,
        momentum=0.9,
        weight_decay=5e-4,
        workers=options.workers,
        final="",
        channels_last=not options.channels_first,
    )


def contenders(case: Case, options: argparse.Namespace) -> list[Contender]:
    found = [
        (OURS, case.workers, [sys.executable, str(PEERS / "roambench_fleet.py")]),
        (SEQUENTIAL, 1, [sys.executable, str(PEERS / "sequential.py")]),
    ]
    if options.flower:
        found.append(("Flower", case.workers, [options.flower, str(PEERS / "flower_simulation.py")]))
    if options.pfl:
        torchrun = [options.pfl, "-m", "torch.distributed.run", "--standalone"]
        torchrun += [f"--nproc-per-node={case.workers}", str(PEERS / "pfl_simulation.py")]
        found.append(("pfl", case.workers, torchrun))
    return [
        Contender(name, workers, command, replace(case, final=f"{case.folder}/{name}.npy"))
        for name, workers, command in found
    ]


def compete(
    case: Case, options: argparse.Namespace, folder: Path
) -> tuple[list[Contender], dict[str, float]]:
    """All rounds, everybody in turn; and how far each final model is from sequential's, EXACT's too."""
    rivals = contenders(case, options)
    begun: list[Contender] = []
    try:
        for rival in rivals:
            begun.append(rival)
            rival.start(folder)
        for number in range(options.rounds):
            # Whoever follows whom changes, so that nobody always inherits the same neighbour's caches.
            for rival in rivals if number % 2 == 0 else rivals[::-1]:
                rival.round()
        for rival in rivals:
            rival.watched_round()
        finals = {rival.name: rival.final().astype(np.float64) for rival in rivals}
        finals[EXACT] = exact_model(case, options, folder, begun)
    finally:
        for rival in begun:
            rival.end()
    reference = finals[SEQUENTIAL]
    return rivals, {
        name: float(np.linalg.norm(model - reference) / np.linalg.norm(reference))
        for name, model in finals.items()
    }


def exact_model(case: Case, options: argparse.Namespace, folder: Path, begun: list[Contender]) -> np.ndarray:
    """The final model of sequential in float64, without float32's rounding; it is added to those `begun`."""
    command = [sys.executable, str(PEERS / "sequential.py")]
    exact = Contender(EXACT, 1, command, replace(case, double=True, final=f"{case.folder}/{EXACT}.npy"))
    begun.append(exact)
    exact.start(folder)
    for _ in range(options.rounds):
        exact.round()
    exact.watched_round()
    return exact.final().astype(np.float64)


def show(rivals: list[Contender], distances: dict[str, float]) -> None:
    ours = rivals[0]
    print(
        f"{'':12}{'workers':>8}{'s/round':>16}{'ours is':>9}{'CPU s':>8}{'ours':>8}"
        f"{'beside SGD':>12}{'its CPU':>10}{'memory':>9}{'first':>8}{'distance':>10}"
    )
    for rival in rivals:
        faster = statistics.median(
            theirs / mine for theirs, mine in zip(rival.seconds, ours.seconds, strict=True)
        )
        leaner = statistics.median(
            theirs / mine for theirs, mine in zip(rival.cpu_s, ours.cpu_s, strict=True)
        )
        print(
            f"{rival.name:12}{rival.workers:8}"
            f"{statistics.median(rival.seconds):8.2f} ({min(rival.seconds):5.2f}){faster:8.2f}x"
            f"{statistics.median(rival.cpu_s):8.2f}{leaner:7.2f}x"
            f"{rival.beside_ms:9.1f} ms{rival.cpu_beside_ms:7.1f} ms{rival.peak_mb:6.0f} MB"
            f"{rival.first_s:6.1f} s{distances[rival.name]:10.1e}"
        )
    rounding = distances[EXACT]
    allowed = DRAWS_APART * rounding
    print(f"float32 alone moves sequential's model by {rounding:.1e} here: {allowed:.1e} is allowed")
    strayed = [rival.name for rival in rivals if not distances[rival.name] <= allowed]
    if strayed:
        raise SystemExit(f"{', '.join(strayed)}: another model than sequential training's")


def keep_figures(case: str, rivals: list[Contender]) -> None:
    ours = rivals[0]
    for rival in rivals[1:]:
        ratios = [theirs / mine for theirs, mine in zip(rival.seconds, ours.seconds, strict=True)]
        limit = f"{statistics.median(rival.seconds):.2g} s"
        keep(f"simulation {case} × {rival.name}", statistics.median(ratios), limit=limit)
    if case == "L":
        keep("simulation L beside SGD", ours.cpu_beside_ms)
        keep("simulation L memory", ours.peak_mb)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(SHAPES), default=list(SHAPES))
    parser.add_argument("--images", type=int, default=100, help="of each client in case H")
    parser.add_argument("--rounds", type=int, default=6, help="steady ones")
    parser.add_argument("--network", choices=list(SIDES), default="mohawk")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--flower", help="python of an environment with Flower")
    parser.add_argument("--pfl", help="python of an environment with pfl")
    parser.add_argument("--channels-first", action="store_true", help="the default layout for ours too")
    options = parser.parse_args()
    for name in options.cases:
        clients, images = SHAPES[name], options.images if name == "H" else 8
        print(f"\n{name}: {clients} clients x {images} images, {options.network}, {options.rounds} rounds")
        with tempfile.TemporaryDirectory() as folder:
            case = make_case(Path(folder), clients, images, options)
            rivals, distances = compete(case, options, Path(folder))
            show(rivals, distances)
            keep_figures(name, rivals)


if __name__ == "__main__":
    main()
