"""The verdicts of a study's runs on a paper's claims: differences of two kinds of runs, with intervals.

Runs are paired where every key that the study varies has one value, but for keys that both sides of the claim
name, in settings that all seeds have. A seed's difference is the mean over its pairs; the interval is
Student's of the seeds' differences. A claim has a direction: "reproduced" and "reversed" are one-sided
tests at 2.5 % each, which is what a 95 % interval shows. A claim against k others holds where it holds
against each of them, which needs no correction (an intersection-union test); it is reversed where
one of them leads at 2.5 % / k (the first step of S. Holm, Scand. J. Statist. 6 (1979) 65), which the interval
of a lead below 0 shows. A claim that runs are no worse has a margin, which stands in the place of 0: it holds
where the interval lies above minus the margin (a test of non-inferiority).

Runs that never reached an accuracy have bounds, whose scatter is not that of the figures: there the sign test
decides, of which at 2.5 % six seeds must agree (of a lead below 0 beside k others more).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any, Final

import scipy

from roambench.contract.errors import RunError
from roambench.experiment.sections import resolved
from roambench.extras.papers.alike import leaves
from roambench.extras.papers.finished_runs import FinishedRun
from roambench.extras.reproduce.catalogue import Claim, Values
from roambench.report.numbers import NONE
from roambench.report.quantities import UP_TO_THRESHOLD
from roambench.report.table import ReportTable
from roambench.study.sweep.metrics import accuracy_in, metric_of
from roambench.study.sweep.points import FREE, text

_ONE_SIDED: Final = 0.025  # of a 95 % interval
_MOST_PLACES: Final = 6
_SEED: Final = "seed"
_ROUNDING: Final = 1e-9  # of a figure
#: Costs that a run without the threshold has none of, by what they are of all its rounds.
_OF_ALL_ROUNDS: Final = {
    "communication_j_to_threshold": "communication_j_per_client",
    "to_threshold_j": "consumed_j",
}
_OF_THE_RUN: Final = ("consumed_j", "wasted_j")
#: Runs with `values_of` each.
_Runs = Sequence[tuple[FinishedRun, dict[str, Any]]]


class ClaimVerdict(StrEnum):
    """The verdict on a claim, in the order of a page: what speaks against a paper first."""

    WRONG_SIGN = "reversed"
    UNDECIDED = "undecided"
    ONE_SEED = "one seed: not tested"
    ALIKE = "the same in every seed: not tested"
    FITTED = "fitted, not reproduced"
    REPRODUCED = "reproduced"
    NOT_TRIED = "not tried"

    @property
    def has_reason(self) -> bool:
        """Return whether the catalogue's likely reason fits: a claim was tested and not reproduced."""
        return self in (ClaimVerdict.WRONG_SIGN, ClaimVerdict.FITTED)


@dataclass(frozen=True, slots=True)
class Bounded:
    """A figure; `at_least`, `at_most`: only a bound of it. Runs that never reached the accuracy count with
    all of their steps, which is the least that it takes them."""

    value: float
    at_least: bool = False
    at_most: bool = False

    def over(self, other: Bounded) -> Bounded:
        """The difference: this above the other."""
        return Bounded(
            self.value - other.value, self.at_least or other.at_most, self.at_most or other.at_least
        )

    @property
    def bound(self) -> str:
        """≥, ≤, ≷ (neither is known) or nothing."""
        return ("", "≥", "≤", "≷")[self.at_least + 2 * self.at_most]


@dataclass(frozen=True, slots=True)
class Difference:
    """Lead of the runs `of` a claim over those beside them, in the metric's unit; positive where the paper is
    right.

    `leads`: of each seed. `rivals`: k, how many the claim names. `ours`, `theirs`: the means of the two.
    `margin`: how far behind a lead is none yet.
    """

    against: str
    leads: tuple[Bounded, ...]
    ours: Bounded
    theirs: Bounded
    rivals: int = 1
    margin: float = 0.0

    @property
    def lead(self) -> Bounded:
        """The mean over the seeds."""
        return _mean(self.leads)

    @property
    def half(self) -> float | None:
        """Half of the interval, 95 % wide or, of k leads, 100 - 5 / k % below minus the margin; None of one
        seed and of bounds."""
        count = len(self.leads)
        if count < 2 or self.lead.bound:
            return None
        level = _ONE_SIDED / (self.rivals if self.lead.value < -self.margin else 1)
        return float(scipy.special.stdtrit(count - 1, 1.0 - level)) * self._sd / math.sqrt(count)

    @property
    def verdict(self) -> ClaimVerdict:
        """Return the verdict of this difference on the claim."""
        lead, half, least = self.lead, self.half, -self.margin
        if len(self.leads) < 2:
            return ClaimVerdict.ONE_SEED
        if self._sd <= self.rounding and not lead.bound:
            return ClaimVerdict.ALIKE if abs(lead.value - least) > self.rounding else ClaimVerdict.UNDECIDED
        if half is None:
            above = sum(one.value > least and not one.at_most for one in self.leads)
            below = sum(one.value < least and not one.at_least for one in self.leads)
            ahead = self._chance(above) <= _ONE_SIDED
            behind = self._chance(below) <= _ONE_SIDED / self.rivals
        else:
            ahead, behind = lead.value - half > least, lead.value + half < least
        if ahead:
            return ClaimVerdict.REPRODUCED
        return ClaimVerdict.WRONG_SIGN if behind else ClaimVerdict.UNDECIDED

    @property
    def rounding(self) -> float:
        """Leads and scatter up to this are none: figures are sums of rounded ones."""
        return _ROUNDING * max(abs(self.ours.value), abs(self.theirs.value))

    @property
    def _sd(self) -> float:
        mean = self.lead.value
        return math.sqrt(
            math.fsum((one.value - mean) ** 2 for one in self.leads) / max(1, len(self.leads) - 1)
        )

    def _chance(self, seeds: int) -> float:
        """The probability of this number of seeds or more with one sign if both are as likely."""
        return float(scipy.special.betainc(seeds, len(self.leads) - seeds + 1, 0.5)) if seeds else 1.0


@dataclass(frozen=True, slots=True)
class Judged:
    """A claim and the difference that decides it, None where no runs do.

    `fitted`: the runs are in a world whose parameters follow the paper's figures of this claim, so that
    their agreement is no evidence.
    """

    claim: Claim
    difference: Difference | None
    fitted: bool = False

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict on the claim."""
        if self.difference is None:
            return ClaimVerdict.NOT_TRIED
        verdict = self.difference.verdict
        return ClaimVerdict.FITTED if self.fitted and verdict is ClaimVerdict.REPRODUCED else verdict


def judged(claims: Iterable[Claim], runs: Sequence[FinishedRun]) -> list[Judged]:
    """Every claim by these runs, in the order of `ClaimVerdict`."""
    flat = [(run, values_of(run)) for run in runs]
    fixed = {
        key
        for key in {key for _, values in flat for key in values} - FREE
        if len({repr(values.get(key)) for _, values in flat}) > 1
    }
    found = []
    for claim in claims:
        others: list[Values | None] = [*claim.against] or [None]
        beside = [_difference(claim, values, flat, fixed) for values in others]
        known = [one for one in beside if one is not None]
        whole = known if len(known) == len(beside) else []
        fitted = bool(claim.fitted) and any(
            is_of(values, claim.of) and is_of(values, claim.fitted) for _, values in flat
        )
        found.append(Judged(claim, min(whole, key=_worst, default=None), fitted))
    order = list(ClaimVerdict)
    return sorted(found, key=lambda one: order.index(one.verdict))


def claims_table(found: Sequence[Judged], *, ours: bool = False) -> ReportTable:
    """A row for each claim; `ours`: no paper makes them, they are this project's own expectations."""
    rows = []
    for one in found:
        difference, verdict = one.difference, str(one.verdict)
        if difference is None:
            rows.append((one.claim.says, verdict, NONE, NONE, NONE, NONE))
            continue
        rows.append(
            (
                one.claim.says,
                verdict,
                _shown(one.claim.metric, difference.ours),
                f"{_shown(one.claim.metric, difference.theirs)} ({difference.against})",
                _lead(one.claim.metric, difference),
                str(len(difference.leads)),
            )
        )
    who, right = "the paper says are", "the paper is right"
    if ours:
        who, right = "we expected to be", "we were right"
    return ReportTable(
        "claims",
        f"What {'we expected' if ours else 'the paper says'}, and what came out",
        f"Lead: of the runs that {who} better over those in brackets (of several the worst for "
        f"the claim), mean over the seeds ± half of a 95 % interval; positive where {right}. Runs "
        "are paired by seed and by all that is varied besides. Both outcomes are one-sided tests at 2.5 %; "
        "of k rivals each must be led, and a lead below 0 has the interval of 2.5 % / k (Holm). "
        "≥, ≤: some never reached the accuracy and count with all of their rounds; ≷: on both sides. There "
        "the signs of the seeds' leads are tested, of which six must agree (behind one of k rivals more). "
        "Of claims that name a margin it stands in the place of 0.",
        ("expectation" if ours else "claim", "outcome", "ours", "beside", "lead", "seeds"),
        tuple(rows),
        numeric_from=2,
    )


def values_of(run: FinishedRun) -> dict[str, Any]:
    """The experiment's keys with their values, dotted; "systems" is the run's one system."""
    return {**dict(leaves(resolved(run.experiment))), "systems": run.system}


def is_of(values: Mapping[str, Any], wanted: Values) -> bool:
    """Return whether a run has these values; what a key's table lacks is no value."""
    return all(key in values and values[key] == value for key, value in leaves(wanted))


def figure_of(run: FinishedRun, metric: str) -> tuple[float | None, bool]:
    """A metric of a run, and whether it is only a bound: an accuracy that it never reached counts as all of
    its rounds, or their joules."""
    value = run.outcome.figure(metric)
    counts_steps = accuracy_in(metric) is not None or metric == "rounds_to_threshold"
    if value is None and counts_steps:
        return run.outcome.figures["rounds"], True
    if value is None and metric in _OF_ALL_ROUNDS:
        value = run.outcome.figure(_OF_ALL_ROUNDS[metric])
    to_accuracy = metric in UP_TO_THRESHOLD or (
        metric in _OF_THE_RUN and run.experiment.rounds.stop_at_threshold
    )
    return value, to_accuracy and run.outcome.figures["rounds_to_threshold"] is None


def shown(metric: str, value: float) -> str:
    """With the places and the unit that a sweep's table gives it."""
    row = metric_of(metric)
    assert row is not None, metric  # the catalogue was checked
    return f"{100.0 * value:z,.1f} %" if row.share else f"{value:z,.{row.places}f} {row.unit}".rstrip()


def _shown(metric: str, figure: Bounded) -> str:
    return f"{figure.bound} {shown(metric, figure.value)}".lstrip()


def _difference(claim: Claim, against: Values | None, runs: _Runs, varied: set[str]) -> Difference | None:
    """None where no seed has a pair; against None: the figure itself."""
    named = {key for key, _ in leaves(claim.of)} & {key for key, _ in leaves(against or {})}
    mine = _by_cell(claim, claim.of, runs, varied - named)
    if against is None:
        beside: dict[tuple[str, ...], Bounded | None] = dict.fromkeys(mine, Bounded(0.0))
    else:
        others = _by_cell(claim, against, runs, varied - named)
        if any(mine.get(cell) is run for cell, run in others.items()):
            raise RunError(f"{claim.says}: a run stands beside itself: expected sides that share no run")
        beside = {cell: _bounded(run, claim.metric) for cell, run in others.items()}
    there: dict[tuple[str, ...], dict[str, tuple[Bounded, Bounded]]] = {}  # by setting, then by seed
    for cell, run in mine.items():
        own, other = _bounded(run, claim.metric), beside.get(cell)
        if own is not None and other is not None:
            seed, *setting = cell
            there.setdefault(tuple(setting), {})[seed] = own, other
    if not there:
        return None
    seeds, settings = _alike(there)
    pairs = {seed: [there[setting][seed] for setting in settings] for seed in seeds}
    more = claim.better == "more"
    leads = [
        _mean([own.over(other) if more else other.over(own) for own, other in of_seed])
        for of_seed in pairs.values()
    ]
    ours, theirs = zip(*(pair for of_seed in pairs.values() for pair in of_seed), strict=True)
    name = "0" if against is None else ", ".join(text(value) for _, value in leaves(against))
    rivals = max(1, len(claim.against))
    return Difference(name, tuple(leads), _mean(ours), _mean(theirs), rivals, claim.margin)


def _bounded(run: FinishedRun, metric: str) -> Bounded | None:
    value, bound = figure_of(run, metric)
    return None if value is None else Bounded(value, bound)


def _alike(
    there: Mapping[tuple[str, ...], Mapping[str, object]],
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Seeds and settings of which each has all of the other, sorted: of a sweep that has not ended, the
    choice whose numbers let expect the shortest interval, t(n - 1) / sqrt(n m) of n seeds in m settings.
    Leads over other settings would be no draws of one figure."""
    order = sorted(there, key=lambda setting: (-len(there[setting]), setting))
    seeds_of = [frozenset(there[setting]) for setting in order]
    choices = {*seeds_of, *accumulate(seeds_of, frozenset.intersection)} - {frozenset()}

    def expected(seeds: frozenset[str]) -> tuple[float, int, list[str]]:
        settings, count = sum(seeds <= some for some in seeds_of), len(seeds)
        student = float(scipy.special.stdtrit(count - 1, 1.0 - _ONE_SIDED)) if count > 1 else math.inf
        return student / math.sqrt(count * settings), -settings, sorted(seeds)

    seeds = min(choices, key=expected)
    return sorted(seeds), sorted(setting for setting in there if seeds <= there[setting].keys())


def _by_cell(
    claim: Claim, wanted: Values, runs: _Runs, alike: set[str]
) -> dict[tuple[str, ...], FinishedRun]:
    """The runs with these values by what they are paired by; RunError where two would stand in one place."""
    cells: dict[tuple[str, ...], FinishedRun] = {}
    for run, values in runs:
        if is_of(values, wanted) and cells.setdefault(_cell(values, alike), run) is not run:
            raise RunError(
                f"{claim.says}: {text(wanted)}: two runs of seed {values[_SEED]} that differ in nothing "
                "else that is varied: expected one"
            )
    return cells


def _worst(difference: Difference) -> tuple[int, float]:
    """The one that speaks most against the claim first."""
    return list(ClaimVerdict).index(difference.verdict), difference.lead.value - (difference.half or 0.0)


def _lead(metric: str, difference: Difference) -> str:
    row = metric_of(metric)
    assert row is not None, metric
    scale, places, unit = (100.0, 1, " points") if row.share else (1.0, row.places, f" {row.unit}".rstrip())
    mean = scale * difference.lead.value
    if difference.half is None:
        return f"{difference.lead.bound} {mean:+z,.{places}f}{unit}".lstrip()
    half, none = scale * difference.half, scale * difference.rounding
    margin = scale * difference.margin

    def misleads() -> bool:
        """The print touches 0, or minus the margin, where the lead does not, or the other way round, or shows
        no scatter."""
        touches = round(half, places) >= round(abs(round(mean, places) + margin), _MOST_PLACES)
        return touches != (half + none >= abs(mean + margin)) or (half > none and not round(half, places))

    while misleads() and places < _MOST_PLACES:
        places += 1
    return f"{mean:+z,.{places}f} ± {half:,.{places}f}{unit}"


def _cell(values: Mapping[str, Any], alike: set[str]) -> tuple[str, ...]:
    return (repr(values[_SEED]), *(repr(values.get(key)) for key in sorted(alike)))


def _mean(figures: Sequence[Bounded]) -> Bounded:
    """A mean of figures of which one is a bound is one."""
    return Bounded(
        math.fsum(one.value for one in figures) / len(figures),
        any(one.at_least for one in figures),
        any(one.at_most for one in figures),
    )
