"""`roambench reproduce`: the catalogue of the papers' tables, and what runs decide of their claims."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from scipy import stats

from roambench.contract.errors import ConfigError, RunError
from roambench.experiment.sections import Experiment
from roambench.extras.papers.alike import leaves
from roambench.extras.papers.finished_runs import FinishedRun, finished_runs
from roambench.extras.reproduce.catalogue import Claim, read_catalogue
from roambench.extras.reproduce.claims import ClaimVerdict, claims_table, figure_of, is_of, judged, values_of
from roambench.extras.reproduce.scale import Scale
from roambench.extras.reproduce.study_page import study_page
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import FREE, Point, points_of, text
from roambench.study.sweep.results import table_of
from roambench.study.sweep.results_files import write_results
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd, SweepFolder, write_outcome

ROOT = Path(__file__).parents[4]
CATALOGUE = ROOT / "experiments" / "reproduction.toml"
#: Every table and figure of results in the five papers (schematic figures and tables of constants left out).
ITEMS = {
    "MOHAWK": {"Table": {3, 4, 5, 6, 7, 8, 9, 10}, "Fig": {3, 5, 6, 7}},
    "MIDDLE": {"Table": {2}, "Fig": {1, 2, 7, 8, 9, 10, 11, 12, 13}},
    "de Heredia": {"Table": {1, 2, 3, 4, 5, 6, 7, 8}, "Fig": {3, 4, 5, 6, 7, 8}},
    "DAM, DCM (workshop)": {"Table": set[int](), "Fig": {2, 3, 4, 5}},
    "DAM, DCM (journal)": {"Table": {2}, "Fig": {2, 3, 4, 5, 6, 7, 8}},
}
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
seeds = 4
"""


def runs_with(figures_of: Callable[[Experiment], dict[str, float | None]], out: Path) -> list[FinishedRun]:
    """The sweep's runs as it leaves them, with made-up figures; `scored` gives rounds to an accuracy."""
    path = out / "sweep.toml"
    out.mkdir(parents=True, exist_ok=True)
    path.write_text(SWEEP, encoding="utf-8")
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


def numbers_in(label: str) -> tuple[str, set[int]]:
    """("Fig", {9, ..., 13}) of "Figs. 9 to 13"."""
    kind = "Table" if label.startswith("Table") else "Fig"
    if label == "Table II":
        return kind, {2}
    if found := re.fullmatch(r"\D*(\d+) to (\d+)", label):
        first, last = map(int, found.groups())
        return kind, set(range(first, last + 1))
    return kind, set(map(int, re.findall(r"\d+", label)))


def test_every_table_and_figure_of_the_papers_has_a_row_that_is_reproducible_or_says_why_not() -> None:
    found: dict[str, dict[str, set[int]]] = {paper: {"Table": set(), "Fig": set()} for paper in ITEMS}
    for item in read_catalogue(CATALOGUE).items:
        for label in item.label.split(", Fig. "):
            label = label if label[0].isalpha() else f"Fig. {label}"
            kind, numbers = numbers_in(label)
            found[item.paper][kind] |= numbers
        assert item.study or item.missing
    assert found == ITEMS


#: Of runs that score access points' models.
BY_CLASS = {
    name: ((4, 0.5), (8, 0.5))
    for who in ("", "AP 0, ")
    for name in ("AP 0", *(f"{who}class {label}" for label in range(10)))
}


@pytest.fixture(scope="module")
def small_points() -> dict[str, list[Point]]:
    """The runs of each study's small sweep."""
    studies = read_catalogue(CATALOGUE).studies
    return {
        study.name: points_of(read_sweep(CATALOGUE.parent / study.small.file))
        for study in studies
        if study.small is not None
    }


def test_every_sweep_of_the_catalogue_is_in_order_and_has_three_seeds_or_says_so() -> None:
    catalogue = read_catalogue(CATALOGUE)
    for study in catalogue.studies:
        assert study.small is None or not study.small.needs  # runs on any machine
        for scale in Scale:
            if (sweep := study.sweep(scale)) is not None:
                seeds = {point.seed for point in points_of(read_sweep(CATALOGUE.parent / sweep.file))}
                assert len(seeds) >= 3 or "one seed" in study.gap[scale], (study.name, scale)


def test_the_page_on_reproducing_counts_the_small_runs_and_adds_up_their_minutes(
    small_points: dict[str, list[Point]],
) -> None:
    small = [study.small for study in read_catalogue(CATALOGUE).studies if study.small is not None]
    runs = sum(map(len, small_points.values()))
    minutes = math.ceil(sum(int(sweep.lasts.removesuffix(" s")) for sweep in small) / 60)
    page = (ROOT / "docs" / "reproducing.md").read_text(encoding="utf-8")
    assert f"all {runs} runs take {minutes} minutes" in page
    assert f"SCALE=small: {minutes} minutes" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_claims_of_the_catalogue_find_runs_on_both_sides(
    tmp_path: Path, small_points: dict[str, list[Point]]
) -> None:
    """Its small sweep decides every claim: a value that no run has would leave it `not tried` for ever."""
    catalogue = read_catalogue(CATALOGUE)
    for study in catalogue.studies:
        if study.name not in small_points:
            continue
        runs = [
            FinishedRun(
                tmp_path,
                "simulated",
                point.experiment,
                PointEnd(
                    point.key, dict.fromkeys(METRICS, 1.0), scored=((5, 0.9), (9, 0.9)), metrics=BY_CLASS
                ),
            )
            for point in small_points[study.name]
        ]
        tried = [one for one in judged(study.claims, runs) if one.verdict is not ClaimVerdict.NOT_TRIED]
        assert len(tried) == len(study.claims), study.name


@pytest.mark.lengthy
@pytest.mark.parametrize("scale", list(Scale))
def test_a_claim_compares_one_run_of_each_side_that_differ_only_in_what_both_name(
    tmp_path: Path, scale: Scale
) -> None:
    """Every claim of every shipped study: a figure of its own for each run, paired again by comparing all of
    the experiments' values."""
    tried = 0
    for study in read_catalogue(CATALOGUE).studies:
        if (sweep := study.sweep(scale)) is None:
            continue
        draws = random.Random(study.name)
        runs = []
        for point in points_of(read_sweep(CATALOGUE.parent / sweep.file)):
            made = {name: draws.random() for name in METRICS}
            scored = ((draws.randrange(1, 9), 0.99),)
            end = PointEnd(
                point.key,
                made,
                scored=scored,
                metrics=dict.fromkeys(BY_CLASS, ((4, 0.5), (8, made["rounds"]))),
            )
            runs.append(FinishedRun(tmp_path, "simulated", point.experiment, end))
        values = [values_of(run) for run in runs]
        for one in judged(study.claims, runs):
            if one.difference is None or not one.claim.against:
                continue
            (against,) = (
                side
                for side in one.claim.against
                if ", ".join(text(value) for _, value in leaves(side)) == one.difference.against
            )
            both = {key for key, _ in leaves(one.claim.of)} & {key for key, _ in leaves(against)}
            pairs = []
            for ours, mine in enumerate(values):
                if is_of(mine, one.claim.of):
                    theirs = [
                        number
                        for number, other in enumerate(values)
                        if is_of(other, against)
                        and all(
                            mine.get(key) == other.get(key)
                            for key in mine.keys() | other.keys()
                            if key not in both | FREE - {"seed"}
                        )
                    ]
                    assert len(theirs) <= 1, (study.name, one.claim.says)
                    pairs += [(runs[ours], runs[number]) for number in theirs]
            for side, mean in enumerate((one.difference.ours, one.difference.theirs)):
                figures = [figure_of(pair[side], one.claim.metric)[0] for pair in pairs]
                assert mean == pytest.approx(sum(f for f in figures if f is not None) / len(pairs)), (
                    study.name,
                    one.claim.says,
                )
            tried += 1
    assert tried >= 10


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
    assert one.difference.mean - one.difference.half == pytest.approx(expected.low, abs=1e-12)
    assert one.difference.mean + one.difference.half == pytest.approx(expected.high, abs=1e-12)
    assert one.difference.seeds == 4


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
    assert one.difference.mean == pytest.approx(-0.01, abs=1e-4)


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
    assert both.difference.half > -both.difference.mean > 0.0


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
    assert one.difference.seeds == 2
    assert one.difference.mean == pytest.approx(0.015)
    assert one.verdict is ClaimVerdict.UNDECIDED


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
    mean, half = one.difference.mean, one.difference.half
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
        ({"trace.generator": "city"}, -0.1, "NOT REPRODUCED, the other way round"),
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


def test_an_accuracy_that_was_never_reached_counts_with_all_steps_and_is_a_bound(tmp_path: Path) -> None:
    def figures(run: Experiment) -> dict[str, float | None]:
        return {"reached": 40.0 + run.seed % 3 if run.systems[0] == "mohawk" else None}

    runs = runs_with(figures, tmp_path)
    (one,) = judged([claim("rounds_to_0.8", "less")], runs)
    assert one.verdict is ClaimVerdict.REPRODUCED
    assert one.difference is not None
    assert one.difference.at_least
    assert not one.difference.at_most
    assert one.difference.theirs == 99.0
    (turned,) = judged(
        [claim("rounds_to_0.8", "less", of={"systems": "hierfavg"}, against=[{"systems": "mohawk"}])], runs
    )
    assert turned.verdict is ClaimVerdict.WRONG_SIGN
    assert turned.difference is not None
    assert turned.difference.at_most


def test_joules_until_an_accuracy_that_was_never_reached_are_a_bound(tmp_path: Path) -> None:
    def figures(run: Experiment) -> dict[str, float | None]:
        ours = run.systems[0] == "mohawk"
        joules = 9.0 + 0.01 * (run.seed - 42) if ours else 5.0
        return {"communication_j_per_client": joules, "rounds_to_threshold": 20.0 if ours else None}

    (one,) = judged([claim("communication_j_per_client", "less")], runs_with(figures, tmp_path))
    assert claims_table([one]).rows[0][4] == "≥ -4.0 ± 0.0 J"
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
        lambda run: {"reached": None if run.systems[0] == "mohawk" else 40.0 + run.seed}, tmp_path
    )
    (one,) = judged([claim("rounds_to_0.8", "more")], runs)
    assert one.difference is not None
    assert (one.difference.at_least, one.difference.at_most) == (True, False)
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
    why = "Nobody knows."
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
    assert opening.startswith("**Of 2 claims: 1 NOT REPRODUCED, the other way round; 1 reproduced")
    assert f"MOHAWK is ahead: **{ClaimVerdict.WRONG_SIGN}**. {why}" in made.text


def test_a_catalogue_with_mistakes_names_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "reproduction.toml"
    path.write_text(
        '[[study]]\nname = "a"\ntitle = "A"\ngap.medium = "g"\n'
        'small = { file = "none.toml", lasts = "1 min" }\n'
        '[[study.claim]]\nsays = "s"\nmetric = "final_acuracy"\nof = { systems = "mohawk" }\n'
        'better = "more"\n'
        '[[item]]\npaper = "P"\nlabel = "Table 1"\nshows = "x"\nstudy = "b"\n'
        '[[item]]\npaper = "P"\nlabel = "Table 2"\nshows = "x"\n',
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as error:
        read_catalogue(path)
    told = str(error.value)
    assert "item P, Table 1: study: expected one of a, got b" in told
    assert "item P, Table 2: missing: expected why no study has it" in told
    assert "study a: small: file: none.toml does not exist" in told
    assert "study a: gap.small: expected what small has less of than the paper" in told
    assert "metric final_acuracy: unknown, did you mean final_accuracy?" in told
