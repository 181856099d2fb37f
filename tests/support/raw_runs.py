"""Figures of finished runs by SQLite, NumPy and the papers' equations alone: nothing of the code that makes
summaries, ledgers or pages."""

from __future__ import annotations

import json
import re
import sqlite3
import statistics
from collections import defaultdict
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import load_file
from scipy import stats

from roambench.learning.datasets.digits import load_digits

#: docs/algorithms.md: Eq. 1 of MOHAWK, α up and down in W per Mbit/s, β in W.
EQ_1 = {"lte": (0.43839, 0.05197, 1.28804), "wifi": (0.28317, 0.13701, 0.13286)}

Event = tuple[str, dict[str, Any]]


@dataclass(frozen=True)
class RawRun:
    """A run folder's event log and last model."""

    folder: Path

    @cached_property
    def experiment(self) -> dict[str, Any]:
        return json.loads((self.folder / "experiment.json").read_text(encoding="utf-8"))

    @property
    def system(self) -> str:
        return str(self.experiment["systems"][0])

    @property
    def seed(self) -> int:
        return int(self.experiment["seed"])

    @cached_property
    def events(self) -> list[Event]:
        with closing(sqlite3.connect(f"file:{self.folder / 'events.sqlite'}?mode=ro", uri=True)) as log, log:
            rows = log.execute("SELECT kind, body FROM event ORDER BY id").fetchall()
        return [(kind, json.loads(body)) for kind, body in rows]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [body for name, body in self.events if name == kind]

    def scored(self) -> list[tuple[int, float]]:
        """(step, accuracy in %) wherever the log has one."""
        closed = self.of("StepClosed")
        return [(row["step"], 100.0 * row["accuracy"]) for row in closed if row["accuracy"] is not None]

    def final(self) -> float:
        return self.scored()[-1][1]

    def best(self) -> float:
        return max(accuracy for _, accuracy in self.scored())

    def last_score_percent(self) -> float:
        """Of the global model or, decentralised, of the mean of all models."""
        peers = self.of("ModelsScored")
        return 100.0 * peers[-1]["average_score"] if peers else self.final()

    def first_round(self) -> int:
        """Of MOHAWK's kind t = 0 only trains; the others' first step is round 1."""
        return 0 if self.system in ("mohawk", "hierfavg", "macfl") else 1

    def step_of(self, accuracy: float) -> int | None:
        """The first whose cloud aggregation's model had this accuracy in %."""
        clouds = {row["step"] for row in self.of("CloudAggregated")}
        return next((step for step, found in self.scored() if step in clouds and found >= accuracy), None)

    def rounds_to(self, accuracy: float) -> int | None:
        """The same as the papers count."""
        step = self.step_of(accuracy)
        return None if step is None else step + self.first_round()

    def aggregated_per_step(self) -> float:
        """Of all steps but the first, in which no model can have come."""
        steps = len(self.of("StepClosed"))
        merged = sum(len(row["devices"]) for row in self.of("EdgeAggregated") if row["step"] > 0)
        return merged / (steps - 1)

    def distance_km(self) -> float:
        """Of the devices that are there to their access points, over all steps."""
        return statistics.mean(metres for row in self.of("StepOpened") for metres in row["distances_m"]) / 1e3

    def wasted_percent(self) -> float:
        found = [row["outcome"] for row in self.of("OutcomeDecided")]
        return 100.0 * found.count("wasted") / len(found)

    def local_divergence(self) -> float:
        """MIDDLE's Eq. 23, as the log has it (test_local_divergence.py has it from the models)."""
        found = [dict(zip(row["names"], row["values"], strict=True)) for row in self.of("MetricsScored")]
        return [row["local model divergence"] for row in found if "local model divergence" in row][-1]

    def gain_between_clouds(self) -> float:
        """From one cloud aggregation's accuracy to the next one's, mean, in points."""
        clouds = {row["step"] for row in self.of("CloudAggregated")}
        found = [accuracy for step, accuracy in self.scored() if step in clouds]
        return (found[-1] - found[0]) / (len(found) - 1)

    def last_models_percent(self) -> tuple[float, float]:
        """Accuracy of the model in models/; and how much of it are digits whose two best classes differ by
        rounding alone."""
        logits, labels = self.last_models_logits()
        best = np.sort(logits, axis=1)[:, -2:]
        ties = best[:, 1] - best[:, 0] < 1e-4
        right = logits.argmax(axis=1) == labels
        return 100.0 * float(right.mean()), 100.0 * float(ties.mean())

    def percent_by_class(self) -> npt.NDArray[np.float64]:
        """The same of the images of each class."""
        logits, labels = self.last_models_logits()
        right = logits.argmax(axis=1) == labels
        return np.array([100.0 * right[labels == label].mean() for label in range(10)])

    def last_models_logits(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
        """Of the model in models/, a perceptron of 8 x 8 averages, forward by NumPy; and the labels."""
        weights = load_file(self.folder / "models" / "global.safetensors")
        digits = load_digits()
        images = digits.test_images[:, 0].reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(-1, 64)
        hidden = np.maximum(images @ weights["2.weight"].T + weights["2.bias"], 0.0)
        return hidden @ weights["4.weight"].T + weights["4.bias"], digits.test_labels

    def joules_per_client(self, accuracy: float) -> float:
        """MOHAWK's Table 6: of every round until the accuracy, the mean over the models aggregated in it of
        both their transfers."""
        given = {row["order_id"]: row for row in self.of("OrderGiven")}
        joules, arrived = defaultdict[str, float](float), dict[str, int]()
        for answer in self.of("OrderAnswered"):
            order = given[answer["order_id"]]
            if order["kind"] not in ("train", "upload") or not answer["transferred_bytes"]:
                continue
            training = order["train_order_id"] or order["order_id"]
            up, down, beta = EQ_1[order["link"]]
            rate, mbit = order["throughput_mbit_s"], answer["transferred_bytes"] * 8e-6
            joules[training] += ((up if order["kind"] == "upload" else down) * rate + beta) * mbit / rate
            if order["kind"] == "upload":
                arrived[training] = answer["step"]
        reached = self.step_of(accuracy)
        last = len(self.of("StepClosed")) - 1 if reached is None else reached
        rounds = defaultdict[int, list[float]](list)
        for row in self.of("OutcomeDecided"):
            step = arrived.get(row["train_order_id"], -1)
            if row["outcome"] == "aggregated" and 0 <= step <= last:
                rounds[step].append(joules[row["train_order_id"]])
        return sum(statistics.mean(found) for found in rounds.values())

    def lead_of_the_fast(self) -> float:
        """Mean over what was scored: fast clients' accuracy less the slow ones', in points."""
        fast = set(self.of("PeersDescribed")[-1]["high_mobility"])
        gaps = []
        for row in self.of("ModelsScored"):
            kinds = defaultdict[bool, list[float]](list)
            for device, accuracy in zip(row["devices"], row["scores"], strict=True):
                kinds[device in fast].append(100.0 * accuracy)
            gaps.append(statistics.mean(kinds[True]) - statistics.mean(kinds[False]))
        return statistics.mean(gaps)

    def contacts(self) -> list[set[tuple[int, int]]]:
        """Of every iteration, the pairs that exchanged."""
        found = []
        for row in self.of("MixingPlanned"):
            columns = iter(row["columns"])
            pairs = [(me, next(columns)) for me, count in enumerate(row["counts"]) for _ in range(count)]
            found.append({(me, other) for me, other in pairs if me != other})
        return found

    def neighbours(self) -> float:
        """Per client and iteration."""
        contacts = self.contacts()
        return sum(map(len, contacts)) / (len(contacts) * len(self.of("MixingPlanned")[0]["counts"]))

    def connected_within(self) -> int | None:
        """B: the least length of which all whole windows, one after the other, connect everybody."""
        contacts, devices = self.contacts(), len(self.of("MixingPlanned")[0]["counts"])
        for length in range(1, len(contacts) + 1):
            starts = range(0, len(contacts) - length + 1, length)
            if all(_connected(set().union(*contacts[at : at + length]), devices) for at in starts):
                return length
        return None


def _connected(pairs: set[tuple[int, int]], devices: int) -> bool:
    reached, open_ = {0}, [0]
    while open_:
        here = open_.pop()
        new = {other for me, other in pairs if me == here} - reached
        reached |= new
        open_ += new
    return len(reached) == devices


def lead_interval(ours: list[float], theirs: list[float]) -> tuple[float, float]:
    """Mean of the differences and half of Student's 95 % interval."""
    leads = [mine - other for mine, other in zip(ours, theirs, strict=True)]
    interval = stats.ttest_1samp(leads, 0.0).confidence_interval(0.95)
    return statistics.mean(leads), (interval.high - interval.low) / 2.0


def shown(cell: str) -> list[float]:
    """The numbers of a cell: 41.5 ± 1.1 % is [41.5, 1.1]."""
    return [float(number) for number in re.findall(r"-?[\d.]+", cell.replace(",", ""))]


def rows_of(page: str, heading: str) -> list[dict[str, str]]:
    """The table below a heading, by its columns' names."""
    lines = page.split(f"## {heading}", 1)[1].split("\n\n")[1].splitlines()
    cells = [[cell.strip().replace("\\", "") for cell in line.strip("| ").split(" | ")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
