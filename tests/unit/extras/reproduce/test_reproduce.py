"""`roambench reproduce`: the catalogue of the papers' tables, figures and claims."""

from __future__ import annotations

import math
import random
import re
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.extras.papers.alike import leaves
from roambench.extras.papers.finished_runs import FinishedRun
from roambench.extras.reproduce.catalogue import read_catalogue
from roambench.extras.reproduce.claims import ClaimVerdict, figure_of, is_of, judged, values_of
from roambench.extras.reproduce.scale import Scale
from roambench.study.sweep.metrics import METRICS
from roambench.study.sweep.points import FREE, Point, points_of, text
from roambench.study.sweep.sweep_file import read_sweep
from roambench.study.sweep.sweep_folder import PointEnd

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


def test_every_sweep_of_the_catalogue_is_in_order_and_has_three_seeds() -> None:
    catalogue = read_catalogue(CATALOGUE)
    for study in catalogue.studies:
        assert study.small is None or not study.small.needs  # runs on any machine
        for scale in Scale:
            if (sweep := study.sweep(scale)) is not None:
                seeds = {point.seed for point in points_of(read_sweep(CATALOGUE.parent / sweep.file))}
                assert len(seeds) >= 3, (study.name, scale)


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
        claims = [claim for claim in study.claims if Scale.SMALL in claim.at]
        tried = [one for one in judged(claims, runs) if one.verdict is not ClaimVerdict.NOT_TRIED]
        assert len(tried) == len(claims), study.name


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
            for side, mean in enumerate((one.difference.ours.value, one.difference.theirs.value)):
                figures = [figure_of(pair[side], one.claim.metric)[0] for pair in pairs]
                assert mean == pytest.approx(sum(f for f in figures if f is not None) / len(pairs)), (
                    study.name,
                    one.claim.says,
                )
            tried += 1
    assert tried >= 10


def test_a_catalogue_with_mistakes_names_all_of_them(tmp_path: Path) -> None:
    path = tmp_path / "reproduction.toml"
    path.write_text(
        '[[study]]\nname = "a"\ntitle = "A"\ngap.medium = "g"\n'
        'small = { file = "none.toml", lasts = "1 min" }\n'
        '[[study.claim]]\nsays = "s"\nmetric = "final_acuracy"\nof = { systems = "mohawk" }\n'
        'better = "more"\nfitted = { trace.generater = "city" }\n'
        '[[study.claim]]\nsays = "s"\nmetric = "final_accuracy"\nof = { rounds.stop = true }\n'
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
    assert "study a: trace.generater: expected a key of an experiment, or systems" in told
    assert "study a: rounds.stop: expected a key of an experiment, or systems" in told
    assert "study a: claim: expected once: s" in told


@pytest.mark.parametrize(
    ("name", "label", "setting", "where", "key"),
    [
        ("../a", "Table 1", "MNIST", 'systems = "mohawk"', "study.name"),
        ("a", "Table 1; 2", "MNIST", 'systems = "mohawk"', "item.label"),
        ("a", "Table 1", "MNIST; 36 boards", 'systems = "mohawk"', "study.printed.setting"),
        ("a", "Table 1", "MNIST", "", "study.printed.where"),
    ],
)
def test_a_catalogue_whose_figures_no_row_could_name_is_refused(
    tmp_path: Path, name: str, label: str, setting: str, where: str, key: str
) -> None:
    path = tmp_path / "reproduction.toml"
    path.write_text(
        f'[[study]]\nname = "{name}"\ntitle = "A"\n[[study.printed]]\nitem = "{label}"\n'
        f'metric = "final_accuracy"\nvalue = 1.0\nsetting = "{setting}"\nwhere = {{ {where} }}\n'
        f'[[item]]\npaper = "P"\nlabel = "{label}"\nshows = "x"\nstudy = "{name}"\n'
    )
    with pytest.raises(ConfigError) as error:
        read_catalogue(path)
    (problem,) = error.value.problems
    assert problem.startswith(f"reproduction.toml: {key}: expected ")
