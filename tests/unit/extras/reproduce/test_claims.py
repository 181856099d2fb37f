"""What runs decide of a claim: leads, their intervals, bounds, several rivals."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from roambench.contract.errors import RunError
from roambench.experiment.sections import Experiment
from roambench.extras.papers.finished_runs import FinishedRun, finished_runs
from roambench.extras.reproduce.catalogue import Claim, read_catalogue
from roambench.extras.reproduce.claims import (
    Bounded,
    ClaimVerdict,
    Difference,
    Judged,
    _alike,
    claims_table,
    judged,
)
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.study_page import study_page
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import points_of
from roambench.study.sweep.results import table_of
from roambench.study.sweep.results_files import write_results
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, write_outcome

CATALOGUE = Path(__file__).parents[4] / "experiments" / "reproduction.toml"
SWEEP = """\
fleet = "rehearsal"
metrics = ["final_accuracy", "rounds_to_0.8"]
[experiment]
[experiment.trace]
generator = "city"
steps = 6
parameters = { devices = 20, steps = 12 }
[experiment.fleet]
agents = 4
[grid]
systems = ["mohawk", "hierfavg", "macfl"]
rounds.cloud_every_steps = [2, 3]
"""


def runs_with(
    figures_of: Callable[[Experiment], dict[str, float | None]], out: Path, *, seeds: int = 4
) -> list[FinishedRun]:
    """The sweep's runs as it leaves them, with made-up figures; `reached` gives rounds to an accuracy."""
    path = out / "sweep.toml"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{SWEEP}seeds = {seeds}\n", encoding="utf-8")
    sweep = read_sweep(path)
    points = points_of(sweep)
    folder = SweepFolder(out / "runs")
    outcomes = []
    for point in points:
        made = figures_of(point.experiment)
        reached = made.pop("reached", None)
        scored = ((100, 0.1),) if reached is None else ((int(reached), 0.8),)
        figures = dict.fromkeys(METRICS) | {"steps": 100.0, "rounds": 99.0} | made
        outcomes.append(PointEnd(point.key, figures, scored=scored))
        write_outcome(folder.prepare(point, 1), outcomes[-1])
    write_results(folder, table_of(points, outcomes, sweep.metrics), points, outcomes)
    return finished_runs(out / "runs")


def claim(metric: str = "final_accuracy", better: str = "more", **more: object) -> Claim:
    values: dict[str, object] = {
        "says": "MOHAWK is ahead",
        "metric": metric,
        "of": {"systems": "mohawk"},
        "against": [{"systems": "hierfavg"}],
        "better": better,
    }
    return Claim.model_validate(values | more)


def test_two_runs_in_one_place_of_a_claim_are_refused(tmp_path: Path) -> None:
    runs = runs_with(lambda run: {"final_accuracy": 0.8}, tmp_path)
    twin = replace(runs[0], experiment=runs[0].experiment.model_copy(update={"name": "twin"}))
    with pytest.raises(RunError, match="two runs of seed 42 that differ in nothing else"):
        judged([claim()], [*runs, twin])


def test_the_interval_of_a_lead_is_students_of_the_seeds_differences(tmp_path: Path) -> None:
    draws = random.Random(7)
    drawn: dict[tuple[str, int, int], float] = {}

    def figures(run: Experiment) -> dict[str, float | None]:
        value = 0.7 + 0.2 * draws.random() + (0.05 if run.systems[0] == "mohawk" else 0.0)
        drawn[run.systems[0], run.rounds.cloud_every_steps, run.seed] = value
        return {"final_accuracy": value}

    runs = runs_with(figures, tmp_path)
    seeds = sorted({seed for _, _, seed in drawn})
    per_seed = [
        sum(drawn["mohawk", k2, seed] - drawn["hierfavg", k2, seed] for k2 in (2, 3)) / 2 for seed in seeds
    ]
    expected = stats.ttest_1samp(per_seed, 0.0).confidence_interval(0.95)
    (one,) = judged([claim()], runs)
    assert one.difference is not None
    assert one.difference.half is not None
    assert one.difference.lead.value - one.difference.half == pytest.approx(expected.low, abs=1e-12)
    assert one.difference.lead.value + one.difference.half == pytest.approx(expected.high, abs=1e-12)
    assert len(one.difference.leads) == 4


@pytest.mark.parametrize(
    ("lead", "scatter", "verdict"),
    [
        (0.05, 0.001, ClaimVerdict.REPRODUCED),
        (-0.05, 0.001, ClaimVerdict.WRONG_SIGN),
        (0.001, 0.05, ClaimVerdict.UNDECIDED),
    ],
)
def test_a_claim_is_reproduced_wrong_or_undecided(
    lead: float, scatter: float, verdict: ClaimVerdict, tmp_path: Path
) -> None:
    def figures(run: Experiment) -> dict[str, float | None]:
        ahead = lead if run.systems[0] == "mohawk" else 0.0
        sign = 1.0 if run.seed % 2 else -1.0
        return {"final_accuracy": 0.8 + ahead + (scatter * sign if run.systems[0] == "mohawk" else 0.0)}

    (one,) = judged([claim()], runs_with(figures, tmp_path))
    assert one.verdict is verdict


def test_against_several_the_worst_one_decides(tmp_path: Path) -> None:
    level = {"mohawk": 0.80, "hierfavg": 0.70, "macfl": 0.81}

    def figures(run: Experiment) -> dict[str, float | None]:
        scatter = 1e-6 * run.seed if run.systems[0] == "mohawk" else 0.0
        return {"final_accuracy": level[run.systems[0]] + scatter}

    runs = runs_with(figures, tmp_path)
    (one,) = judged([claim(against=[{"systems": "hierfavg"}, {"systems": "macfl"}])], runs)
    assert one.verdict is ClaimVerdict.WRONG_SIGN
    assert one.difference is not None
    assert one.difference.against == "macfl"
    assert one.difference.lead.value == pytest.approx(-0.01, abs=1e-4)


def test_one_of_several_rivals_ahead_by_what_chance_gives_one_of_them_decides_nothing(tmp_path: Path) -> None:
    """Against MACFL alone p is 0.018, below 2.5 %; as the worst of two it must be below 1.25 %."""

    def figures(run: Experiment) -> dict[str, float | None]:
        scatter = (0.0, 0.0063, 0.0095, 0.0)[run.seed % 4]
        return {"final_accuracy": 0.8 + (scatter + 0.004 if run.systems[0] == "macfl" else 0.0)}

    runs = runs_with(figures, tmp_path)
    k2_alike = [0.004 + scatter for scatter in (0.0, 0.0063, 0.0095, 0.0)]
    assert 0.0125 < stats.ttest_1samp(k2_alike, 0.0, alternative="greater").pvalue < 0.025
    rivals: list[dict[str, str]] = [{"systems": "macfl"}, {"systems": "hierfavg"}]
    (alone,) = judged([claim(against=rivals[:1])], runs)
    assert alone.verdict is ClaimVerdict.WRONG_SIGN
    (both,) = judged([claim(against=rivals)], runs)
    assert both.verdict is ClaimVerdict.UNDECIDED
    assert both.difference is not None
    assert both.difference.half is not None
    assert both.difference.half > -both.difference.lead.value > 0.0


def test_a_lead_that_no_seed_changes_is_not_tested(tmp_path: Path) -> None:
    """Who uploads follows from one trace: an interval of width 0 says nothing of another one."""
    runs = runs_with(lambda run: {"distance_km": 0.7 if run.systems[0] == "mohawk" else 0.8}, tmp_path)
    (one,) = judged([claim("distance_km", "less")], runs)
    assert str(one.verdict) == "the same in every seed: not tested"


def test_leads_of_seeds_are_of_the_same_settings_in_a_sweep_that_has_not_ended(tmp_path: Path) -> None:
    """MOHAWK leads by 0.2 at k2 = 3, of which one seed has run; by 0.01 or 0.02 at k2 = 2."""

    def figures(run: Experiment) -> dict[str, float | None]:
        lead = 0.2 if run.rounds.cloud_every_steps == 3 else 0.01 * (run.seed - 41)
        return {"final_accuracy": 0.7 + (lead if run.systems[0] == "mohawk" else 0.0)}

    runs = [
        run
        for run in runs_with(figures, tmp_path)
        if (run.experiment.rounds.cloud_every_steps, run.experiment.seed) in {(2, 42), (2, 43), (3, 42)}
    ]
    (one,) = judged([claim()], runs)
    assert one.difference is not None
    assert len(one.difference.leads) == 2
    assert one.difference.lead.value == pytest.approx(0.015)
    assert one.verdict is ClaimVerdict.UNDECIDED


@pytest.mark.parametrize(
    ("seeds_of", "expected"),
    [
        ({"a": 8, "b": 8} | dict.fromkeys("cdefghij", 2), (8, "ab")),
        ({"a": 8, "b": 2, "c": 2, "d": 2, "e": 2}, (8, "a")),
        ({"a": 3, "b": 3, "c": 3, "d": 2, "e": 2}, (3, "abc")),
        ({"a": 8} | dict.fromkeys("bcdefghij", 7), (7, "abcdefghij")),
        ({"a": 2, "b": 1}, (2, "a")),
        ({"b": 1, "a": 1}, (1, "ab")),
    ],
)
def test_of_a_sweep_that_has_not_ended_what_says_most_counts(
    seeds_of: dict[str, int], expected: tuple[int, str]
) -> None:
    there = {(name,): dict.fromkeys(map(str, range(count))) for name, count in seeds_of.items()}
    for some in (there, dict(reversed(there.items()))):
        seeds, settings = _alike(some)
        assert (len(seeds), "".join(name for (name,) in settings)) == expected


def test_settings_that_each_lack_another_seed_count_with_those_that_they_share() -> None:
    there = {
        (name,): dict.fromkeys(set("12345678") - {seed}) for name, seed in zip("abcd", "5678", strict=True)
    }
    seeds, settings = _alike(there)
    assert (seeds, settings) == (["1", "2", "3", "4", "8"], [("a",), ("b",), ("c",)])


@pytest.mark.parametrize(
    ("leads", "printed"),
    [
        ((-0.0001, 0.0001, 0.0, -0.0001), "+0.00 ± 0.02 points"),
        ((-0.0003, 0.0006, -0.0006), "+0.0 ± 0.2 points"),
        ((0.0, 0.0, 0.0), "+0.0 ± 0.0 points"),
        ((0.1 + 0.2 - 0.3, 0.0), "+0.0 ± 0.0 points"),
    ],
)
def test_a_lead_near_zero_is_printed_as_what_it_is(leads: tuple[float, ...], printed: str) -> None:
    difference = Difference("rival", tuple(map(Bounded, leads)), Bounded(0.3), Bounded(0.3))
    assert difference.verdict is ClaimVerdict.UNDECIDED
    assert claims_table([Judged(claim(), difference)]).rows[0][4] == printed


def test_a_decided_lead_does_not_touch_zero_in_print(tmp_path: Path) -> None:
    scatter = (0.0, 0.01, 0.02, 0.03)
    sd = stats.tstd(scatter)
    level = stats.t.ppf(0.975, 3) * sd / 2.0 - stats.tmean(scatter) + 0.0001

    def figures(run: Experiment) -> dict[str, float | None]:
        lead = level + scatter[run.seed - 42]
        return {"final_accuracy": 0.5 + (lead if run.systems[0] == "mohawk" else 0.0)}

    (one,) = judged([claim()], runs_with(figures, tmp_path))
    assert one.difference is not None
    assert one.difference.half is not None
    mean, half = one.difference.lead.value, one.difference.half
    assert mean - half > 0.0
    assert f"{100 * mean:.1f}" == f"{100 * half:.1f}"
    assert claims_table([one]).rows[0][4] == f"{100 * mean:+.2f} ± {100 * half:.2f} points"


def test_a_single_seed_decides_nothing_and_says_so(tmp_path: Path) -> None:
    runs = runs_with(lambda run: {"final_accuracy": 0.9 if run.systems[0] == "mohawk" else 0.8}, tmp_path)
    (one,) = judged([claim()], [run for run in runs if run.experiment.seed == 42])
    assert str(one.verdict) == "one seed: not tested"


@pytest.mark.parametrize(
    ("fitted", "lead", "verdict"),
    [
        ({"trace.generator": "city"}, 0.1, "fitted, not reproduced"),
        ({"trace.generator": "city"}, -0.1, "reversed"),
        ({"trace.generator": "markov"}, 0.1, "reproduced"),
    ],
)
def test_a_figure_to_which_the_world_was_fitted_is_not_reproduced_in_it(
    fitted: dict[str, str], lead: float, verdict: str, tmp_path: Path
) -> None:
    def figures(run: Experiment) -> dict[str, float | None]:
        return {"distance_km": 1.0 - ((lead + 1e-6 * run.seed) if run.systems[0] == "mohawk" else 0.0)}

    (one,) = judged([claim("distance_km", "less", fitted=fitted)], runs_with(figures, tmp_path))
    assert str(one.verdict) == verdict


@pytest.mark.parametrize("seeds", [5, 6])
def test_an_accuracy_that_was_never_reached_counts_with_all_steps_and_is_a_bound(
    seeds: int, tmp_path: Path
) -> None:
    """The signs of the seeds decide: with five, chance makes all alike in 3 % of cases."""

    def figures(run: Experiment) -> dict[str, float | None]:
        return {"reached": 40.0 + run.seed % 3 if run.systems[0] == "mohawk" else None}

    runs = runs_with(figures, tmp_path, seeds=seeds)
    decided = seeds >= 6
    (one,) = judged([claim("rounds_to_0.8", "less")], runs)
    assert one.verdict is (ClaimVerdict.REPRODUCED if decided else ClaimVerdict.UNDECIDED)
    assert one.difference is not None
    assert one.difference.theirs == Bounded(99.0, at_least=True)
    ours = 40.0 + sum(seed % 3 for seed in range(42, 42 + seeds)) / seeds
    assert claims_table([one]).rows[0][2:5] == (f"{ours:.1f}", "≥ 99.0 (hierfavg)", f"≥ +{99.0 - ours:.1f}")
    turned = claim("rounds_to_0.8", "less", of={"systems": "hierfavg"}, against=[{"systems": "mohawk"}])
    (other,) = judged([turned], runs)
    assert other.verdict is (ClaimVerdict.WRONG_SIGN if decided else ClaimVerdict.UNDECIDED)
    assert claims_table([other]).rows[0][2:5] == ("≥ 99.0", f"{ours:.1f} (mohawk)", f"≤ -{99.0 - ours:.1f}")


def test_of_several_that_never_reached_it_the_signs_must_be_as_sure_as_of_one_that_is_ahead(
    tmp_path: Path,
) -> None:
    """Six seeds behind are 1.6 %, which is less than 2.5 % and more than 1.25 %."""

    def figures(run: Experiment) -> dict[str, float | None]:
        return {"reached": None if run.systems[0] == "mohawk" else 40.0 + run.seed % 3}

    runs = runs_with(figures, tmp_path, seeds=6)
    rivals: list[dict[str, str]] = [{"systems": "macfl"}, {"systems": "hierfavg"}]
    alone, both = (
        judged([claim("rounds_to_0.8", "less", against=rivals[:count])], runs)[0].verdict for count in (1, 2)
    )
    assert (alone, both) == (ClaimVerdict.WRONG_SIGN, ClaimVerdict.UNDECIDED)


def test_equal_bounds_are_no_equal_leads(tmp_path: Path) -> None:
    """MOHAWK is always there after ten rounds, and the others never."""
    runs = runs_with(lambda run: {"reached": 10.0 if run.systems[0] == "mohawk" else None}, tmp_path, seeds=6)
    (one,) = judged([claim("rounds_to_0.8", "less")], runs)
    assert one.verdict is ClaimVerdict.REPRODUCED


def test_runs_that_a_sweep_ended_before_an_accuracy_are_called_faster_no_oftener_than_promised() -> None:
    """Both sides take 40 rounds in the mean, the rivals with more scatter, and a run ends after 42: what is
    cut off looks alike in every seed, and Student's interval of that is far too short."""
    draws, trials = np.random.default_rng(5), 4000
    for seeds in (3, 6, 8):
        outcomes = []
        for _ in range(trials):
            theirs, ours = draws.normal(40.0, 20.0, seeds), draws.normal(40.0, 0.5, seeds)
            leads = tuple(
                Bounded(min(42.0, one), at_least=bool(one > 42.0)).over(Bounded(own))
                for one, own in zip(theirs, ours, strict=True)
            )
            outcomes.append(Difference("rival", leads, Bounded(40.0), Bounded(42.0)).verdict)
        assert outcomes.count(ClaimVerdict.REPRODUCED) < 0.035 * trials
        assert outcomes.count(ClaimVerdict.WRONG_SIGN) < 0.035 * trials


def test_joules_until_an_accuracy_that_was_never_reached_are_a_bound(tmp_path: Path) -> None:
    def figures(run: Experiment) -> dict[str, float | None]:
        ours = run.systems[0] == "mohawk"
        joules = 9.0 + 0.01 * (run.seed - 42) if ours else 5.0
        return {"communication_j_per_client": joules, "rounds_to_threshold": 20.0 if ours else None}

    (one,) = judged([claim("communication_j_per_client", "less")], runs_with(figures, tmp_path))
    assert claims_table([one]).rows[0][2:5] == ("9.0 J", "≥ 5.0 J (hierfavg)", "≥ -4.0 J")
    assert one.verdict is ClaimVerdict.UNDECIDED


@pytest.mark.parametrize(
    ("metric", "of_all_rounds"),
    [("communication_j_to_threshold", "communication_j_per_client"), ("to_threshold_j", "consumed_j")],
)
def test_runs_that_never_reached_a_threshold_are_not_dropped_from_its_joules(
    metric: str, of_all_rounds: str, tmp_path: Path
) -> None:
    """HierFAVG is there in one seed of six, with fewer joules than MOHAWK, and has most in the others."""

    def figures(run: Experiment) -> dict[str, float | None]:
        reaches = run.systems[0] == "mohawk" or run.seed == 42
        joules = 9.0 if run.systems[0] == "mohawk" else 5.0 if reaches else 30.0
        return {
            metric: joules if reaches else None,
            of_all_rounds: joules,
            "rounds_to_threshold": 20.0 if reaches else None,
        }

    (one,) = judged([claim(metric, "less")], runs_with(figures, tmp_path, seeds=6))
    assert one.difference is not None
    assert len(one.difference.leads) == 6
    assert one.difference.lead == Bounded(pytest.approx((5 * 21.0 - 4.0) / 6), at_least=True)
    assert one.verdict is ClaimVerdict.UNDECIDED


def test_a_lead_that_may_be_more_or_less_decides_nothing(tmp_path: Path) -> None:
    """Of two settings each side reaches the accuracy in one; both leads are far from 0."""

    def figures(run: Experiment) -> dict[str, float | None]:
        reaches = (run.systems[0] == "mohawk") == (run.rounds.cloud_every_steps == 2)
        last = 10.0 + run.seed % 3 if run.systems[0] == "mohawk" else 60.0
        return {"reached": last if reaches else None}

    fewer, more = (
        judged([claim("rounds_to_0.8", better)], runs_with(figures, tmp_path / better))[0]
        for better in ("less", "more")
    )
    assert [one.verdict for one in (fewer, more)] == [ClaimVerdict.UNDECIDED] * 2
    assert claims_table([fewer]).rows[0][4].startswith("≷ +2")


def test_more_rounds_than_a_rival_are_a_bound_of_the_claims_own_runs(tmp_path: Path) -> None:
    runs = runs_with(
        lambda run: {"reached": None if run.systems[0] == "mohawk" else 40.0 + run.seed}, tmp_path, seeds=6
    )
    (one,) = judged([claim("rounds_to_0.8", "more")], runs)
    assert one.difference is not None
    assert one.difference.lead.bound == one.difference.ours.bound == "≥"
    assert one.difference.theirs.bound == ""
    assert one.verdict is ClaimVerdict.REPRODUCED


def test_a_run_beside_itself_is_refused(tmp_path: Path) -> None:
    """Each side fixes another key, so that a run with both values is paired with itself."""
    runs = runs_with(lambda run: {"final_accuracy": 0.8}, tmp_path)
    with pytest.raises(RunError, match="MOHAWK is ahead: a run stands beside itself"):
        judged([claim(against=[{"rounds": {"cloud_every_steps": 3}}])], runs)


def test_a_claim_against_nothing_is_about_the_sign_of_the_figure(tmp_path: Path) -> None:
    runs = runs_with(lambda run: {"mobility_gap": -0.03 + 0.001 * (run.seed % 3)}, tmp_path)
    (one,) = judged([claim("mobility_gap", against=[])], runs)
    assert one.verdict is ClaimVerdict.WRONG_SIGN


def test_without_figures_on_one_side_a_claim_is_not_tried(tmp_path: Path) -> None:
    level = {"mohawk": 0.8, "hierfavg": 0.7, "macfl": None}
    runs = runs_with(lambda run: {"final_accuracy": level[run.systems[0]]}, tmp_path)
    (one,) = judged([claim(against=[{"systems": "hierfavg"}, {"systems": "macfl"}])], runs)
    assert one.verdict is ClaimVerdict.NOT_TRIED


def test_a_page_has_no_reason_for_what_was_not_tried_or_not_decided(tmp_path: Path) -> None:
    runs_with(lambda run: {"final_accuracy": 0.8 + 1e-5 * run.seed**2}, tmp_path)
    catalogue = read_catalogue(CATALOGUE)
    why = {Scale.SMALL: "The reason is open."}
    claims = [
        claim(says="It is level", why=why),
        claim(says="Not tried", of={"systems": "oort"}, why=why),
    ]
    study = catalogue.study("mohawk-boards").model_copy(update={"claims": claims, "printed": []})
    made = study_page(
        catalogue, study, Scale.SMALL, tmp_path / "runs", ("final_accuracy",), curves_name="x.svg"
    )
    assert made.text.splitlines()[2].startswith("**Of 2 claims: 1 undecided; 1 not tried")
    assert "The reason is open." not in made.text


def test_wrong_signs_are_named_first_on_a_page(tmp_path: Path) -> None:
    runs_with(
        lambda run: {
            "final_accuracy": {"hierfavg": 0.9, "macfl": 0.8 + 1e-5 * run.seed}.get(
                run.systems[0], 0.8 + 1e-5 * run.seed**2
            )
        },
        tmp_path,
    )
    catalogue = read_catalogue(CATALOGUE)
    why = "The reason is open."
    study = catalogue.study("mohawk-boards").model_copy(
        update={
            "claims": [
                claim(
                    says="The others are behind", of={"systems": "hierfavg"}, against=[{"systems": "macfl"}]
                ),
                claim(why={Scale.SMALL: why}),
            ],
            "printed": [],
        }
    )
    made = study_page(
        catalogue, study, Scale.SMALL, tmp_path / "runs", ("final_accuracy",), curves_name="x.svg"
    )
    (claims,) = [table for table in made.tables if table.key == "claims"]
    assert [row[1] for row in claims.rows] == [ClaimVerdict.WRONG_SIGN, ClaimVerdict.REPRODUCED]
    opening = made.text.splitlines()[2]
    assert opening.startswith("**Of 2 claims: 1 reversed; 1 reproduced")
    assert f"MOHAWK is ahead: **{ClaimVerdict.WRONG_SIGN}**. {why}" in made.text
