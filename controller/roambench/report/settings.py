"""Runs that differ in the seed alone are one setting: its figures are means over them, and two settings are
compared in pairs of runs with the same seed; pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from math import comb
from typing import Any, Final

from roambench.contract.counts import count
from roambench.contract.metric import ACCURACY, Metric
from roambench.energy.energy_value import Energy
from roambench.energy.ledger import Basis
from roambench.experiment.sections import resolved
from roambench.report.improvement import Improvement, Measured, improvement
from roambench.report.quantities import QUANTITIES, Quantity, figures_of
from roambench.report.spread import CONFIDENCE, Spread, interval_text, spread_of
from roambench.report.summaries.run import RunSummary
from roambench.runs.info import RunState
from roambench.runs.settings import SEED, SYSTEM, named, setting, varying

#: The quantities by which settings are compared, behind those that their runs are judged by.
_TO_THRESHOLD: Final = "rounds_to_threshold"
_COMPARED: Final = (_TO_THRESHOLD, "wasted_share", "consumed_j", "wasted_j", "whole_run_j")


@dataclass(frozen=True)
class RepeatedSetting:
    """`values`: its keys that differ from other settings'. `runs`: those of the means; `runs_in_all`: all of
    them."""

    name: str
    values: Mapping[str, Any]
    runs: tuple[RunSummary, ...]
    runs_in_all: int
    figures: tuple[Mapping[str, Energy | float], ...]

    @property
    def basis(self) -> Basis | None:
        """The basis of its joules."""
        return next((run.basis for run in self.runs if run.basis is not None), None)

    def spread(self, quantity: Quantity) -> Spread:
        """Mean and interval of a quantity."""
        return spread_of([figures.get(quantity.name) for figures in self.figures])

    def by_seed(self, quantity: Quantity) -> dict[int, Measured]:
        """The quantity of each seed."""
        return {
            run.info.seed: Measured(figure.joules, figure.terms)
            if isinstance(figure, Energy)
            else Measured(figure)
            for run, figures in zip(self.runs, self.figures, strict=True)
            if (figure := figures.get(quantity.name)) is not None
        }


@dataclass(frozen=True)
class Settings:
    """The settings in the order of their values, the quantities by which they are compared, and notes on runs
    that are in no mean."""

    rows: tuple[RepeatedSetting, ...]
    quantities: tuple[Quantity, ...]
    notes: tuple[str, ...]

    @property
    def repeated(self) -> bool:
        """True where means say more than the runs side by side: a setting has several runs, and there are
        more than two in all."""
        runs = [len(row.runs) for row in self.rows]
        return max(runs, default=0) > 1 and sum(runs) > 2

    @property
    def keys(self) -> list[str]:
        """The keys in which the settings differ."""
        return list(self.rows[0].values) if self.rows else []

    @property
    def best(self) -> list[Best]:
        """The best setting by each quantity."""
        found = (_best(quantity, self.rows) for quantity in self.quantities)
        return [one for one in found if one is not None]


@dataclass(frozen=True)
class Best:
    """The setting with the best mean of a quantity; `beside`: its improvement over every other one, from
    pairs of one seed, with intervals that hold for all pairs of settings together. Settings in which a run
    never reached the threshold have no mean of the rounds until then."""

    quantity: Quantity
    setting: RepeatedSetting
    beside: tuple[tuple[RepeatedSetting, Improvement], ...]
    without: int = 0  # settings that have no such mean
    seldom: int = 0  # those of them of which a run has none, having never reached the threshold

    @property
    def sentence(self) -> str:
        """Say which is best, and how sure that is."""
        heading = self.quantity.heading(self.quantity.basis_in(self.setting.basis))
        heading = heading[0].upper() + heading[1:]
        mean = interval_text(self.setting.spread(self.quantity), share=self.quantity.share)
        rest = ""
        if self.seldom:
            rest = f"; not every run of {count(self.seldom, 'more setting')} reached it"
        if all(found.difference == 0.0 for _, found in self.beside):
            those = f"the {len(self.beside) + 1} settings that have one" if self.without else "all settings"
            if self.seldom:
                those = f"{len(self.beside) + 1} settings"
            return f"{heading}: {those} have the same mean, {mean}{rest}."
        unsure = [other.name for other, found in self.beside if found.winner != "A"]
        others = count(len(self.beside), "other setting")
        if len(unsure) == len(self.beside):
            doubts = {found.doubt for _, found in self.beside}
            doubt = doubts.pop().replace(": ", ", ") if len(doubts) == 1 else "not resolved"
            return f"{heading}: {doubt}; {self.setting.name} has the best mean, {mean}{rest}."
        if not unsure:
            each = "the other setting" if len(self.beside) == 1 else f"each of the {others}"
            sure = f"surely better than {each}"
        else:
            few = ", ".join(unsure[:3]) + (f" and {len(unsure) - 3} more" if len(unsure) > 3 else "")
            sure = f"surely better than {len(self.beside) - len(unsure)} of the {others}"
            sure += f", not resolved from {few}"
        return f"{heading}: {self.setting.name} is best with {mean}; {sure}{rest}."


def settings_of(runs: Sequence[RunSummary]) -> Settings:
    """The settings of the runs. Those that did not finish are in no mean, nor those that are not fit beside
    fit ones, nor copies: earlier runs of a seed where chance has no other part."""
    metrics = [metric for metric in dict.fromkeys(run.learning.metric for run in runs) if metric != ACCURACY]
    judged = {f"final {metric.name}": _score(metric) for metric in metrics}
    groups: dict[str, list[RunSummary]] = {}
    values: dict[str, dict[str, Any]] = {}
    for run in runs:
        one = setting(run.info.system, run.info.seed, resolved(run.experiment)) | {"fleet": run.info.fleet}
        del one[SEED]
        groups.setdefault(repr(one), []).append(run)
        values[repr(one)] = one
    keys = [key for key in varying(list(values.values())) if key != SEED] or [SYSTEM]
    rows, notes = [], []
    for key, members in groups.items():
        name = named(values[key], keys)
        ended = [run for run in members if run.info.state is RunState.FINISHED]
        ended = [run for run in ended if not run.lost]
        fit = [run for run in ended if not run.unfit] or ended
        if left := [run.label for run in members if run not in fit and not run.lost]:
            notes.append(f"{name}: in no mean, as not finished or not fit: {', '.join(left)}")
        notes += [f"{name}: in no mean: {run.label}: {run.lost}" for run in members if run.lost]
        last = {run.info.seed: run for run in fit}
        of_own = [run.info.kind.has_agents or last[run.info.seed] is run for run in fit]
        if copies := [run.label for run, own in zip(fit, of_own, strict=True) if not own]:
            notes.append(f"{name}: in no mean, as another run has the same seed: {', '.join(copies)}")
        ordered = sorted(compress(fit, of_own), key=lambda run: run.info.seed)
        figures = tuple(_figures(run, judged.values()) for run in ordered)
        rows.append(
            RepeatedSetting(
                name, {k: values[key].get(k) for k in keys}, tuple(ordered), len(members), figures
            )
        )
    named_ones = [QUANTITIES[name] for name in ("final_accuracy", *_COMPARED)]
    known = {name for row in rows for figures in row.figures for name in figures}
    quantities = [one for one in (*judged.values(), *named_ones) if one.name in known]
    rows.sort(key=lambda row: [_place(value) for value in row.values.values()])
    return Settings(tuple(rows), tuple(quantities), tuple(notes))


def _place(value: Any) -> tuple[bool, float, str]:
    """Numbers by their size, all else by its letters."""
    number = isinstance(value, int | float)
    return (not number, value if number else 0.0, "" if number else str(value))


def _score(metric: Metric) -> Quantity:
    """The last score of runs that are judged by a task's metric."""

    def score(run: RunSummary) -> float | None:
        return run.learning.final_score if run.learning.metric == metric else None

    return Quantity(f"final {metric.name}", f"final {metric.name}", score, better=metric.better, places=4)


def _figures(run: RunSummary, judged: Iterable[Quantity]) -> dict[str, Energy | float]:
    found = figures_of(run)
    return found | {one.name: value for one in judged if (value := one.figure(run)) is not None}


def _best(quantity: Quantity, rows: Sequence[RepeatedSetting]) -> Best | None:
    # The rounds of those runs alone that reached it would favour a setting that seldom does.
    whole = [
        row
        for row in rows
        if quantity.name != _TO_THRESHOLD or all(_TO_THRESHOLD in figures for figures in row.figures)
    ]
    means = [(mean, row) for row in whole if (mean := row.spread(quantity).mean) is not None]
    if len(means) < 2 or not quantity.better:
        return None
    choose = max if quantity.better == "higher" else min
    _, best = choose(means, key=lambda one: one[0])
    confidence = 1.0 - (1.0 - CONFIDENCE) / comb(len(means), 2)
    own, beside = best.by_seed(quantity), []
    for _, other in means:
        theirs = other.by_seed(quantity)
        pairs = [(own[seed], theirs[seed]) for seed in own if seed in theirs]
        if other is not best and pairs:
            beside.append((other, improvement(pairs, quantity.better, confidence)))
    seldom = sum(bool(row.runs) for row in rows if row not in whole)
    return Best(quantity, best, tuple(beside), len(rows) - len(means), seldom) if beside else None
