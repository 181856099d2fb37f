"""MOHAWK's tables as they were printed, and ours beside them: ratios, bounds and what is left out."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roambench.experiment.sections import from_resolved
from roambench.extras.papers import mohawk as paper
from roambench.extras.papers.bounds import Bounds, factor, mean_of, ratio_of
from roambench.extras.papers.ratios import milestones_table, ratios_table
from roambench.extras.papers.runs import PaperRun, Setting, comparable, rounds_of, setting_of
from roambench.extras.papers.tables import paper_tables
from roambench.report.markdown import markdown_table
from roambench.report.table import ReportTable

SETTING = Setting("mnist", "IID", 5)
RUN = PaperRun("mohawk", SETTING, 1, 0.97, {
    "steps": 21, "rounds_to_threshold": 20, "final_accuracy": 0.98, "best_accuracy": 0.99,
    "aggregated_per_step": 22.0, "distance_km": 0.9, "distance_sd_km": 0.7,
    "communication_j_per_client": 100.0,
})  # fmt: skip


def like(run: PaperRun, **changes: Any) -> PaperRun:
    """The run with other figures, by their names, or another setting."""
    figures = {name: changes.pop(name) for name in tuple(changes) if name in run.figures}
    return replace(run, figures={**run.figures, **figures}, **changes)


#: As the paper's MNIST, IID, k2 = 5: 50 and 45 rounds against 20.
HIERFAVG = like(RUN, system="hierfavg", steps=51, rounds_to_threshold=50, aggregated_per_step=15.0,
                   distance_km=7.0, communication_j_per_client=260.0)  # fmt: skip
MACFL = like(HIERFAVG, system="macfl", steps=46, rounds_to_threshold=45, communication_j_per_client=240.0)
LOST = like(HIERFAVG, steps=744, rounds_to_threshold=None, communication_j_per_client=500.0)


def table(runs: list[PaperRun], key: str) -> ReportTable:
    (found,) = [table for table in paper_tables(runs) if table.key == key]
    return found


def test_runs_in_which_nothing_was_trained_took_no_rounds_to_any_accuracy() -> None:
    """As rehearsals: they play all their steps."""
    rehearsed = [
        like(
            run,
            rounds_to_threshold=None,
            final_accuracy=None,
            best_accuracy=None,
            communication_j_per_client=None,
        )
        for run in (RUN, HIERFAVG)
    ]
    (ours, _) = table(rehearsed, "paper-rounds").rows
    assert ours[4:7] == ("not trained", "–", "not trained")


@pytest.mark.parametrize(
    ("dataset", "data", "improvements"),
    [
        ("mnist", "IID", (3.67, 2.38, 2.0)),
        ("mnist", "non-IID", (3.8, 2.33, 1.77)),
        ("emnist", "IID", (3.55, 2.09, 2.47)),
        ("emnist", "non-IID", (2.83, 1.28, 2.1)),
        ("cifar10", "IID", (3.88, 2.49, 1.43)),
        ("cifar10", "non-IID", (2.85, 1.99, 1.58)),
        ("cifar100", "IID", (3.25, 2.47, 1.59)),
        ("cifar100", "non-IID", (2.66, 1.8, 1.58)),
    ],
)
def test_the_rounds_of_table_4_give_the_improvements_printed_below_them(
    dataset: str, data: str, improvements: tuple[float, ...]
) -> None:
    for k2, printed in zip(paper.K2, improvements, strict=True):
        hierfavg, macfl, mohawk = paper.ROUNDS[dataset, data, k2]
        assert (hierfavg + macfl) / 2 / mohawk == pytest.approx(printed, abs=0.0051)


@pytest.mark.parametrize(
    ("dataset", "data", "improvements"),
    [
        ("mnist", "IID", (3.86, 2.36, 1.99)),
        ("cifar10", "IID", (3.87, 2.49, 1.43)),
        ("mnist", "non-IID", (3.82, 2.34, 1.78)),
        ("cifar10", "non-IID", (2.87, 2.0, 1.57)),
    ],
)
def test_the_joules_of_table_6_give_the_improvements_printed_below_them(
    dataset: str, data: str, improvements: tuple[float, ...]
) -> None:
    for k2, printed in zip(paper.K2, improvements, strict=True):
        hierfavg, macfl, mohawk = paper.JOULES[dataset, data, k2]
        assert (hierfavg + macfl) / 2 / mohawk == pytest.approx(printed, abs=0.0051)


def test_table_3_is_whole_and_has_the_drops_that_the_text_names() -> None:
    """CIFAR-10 at k2 = 2: 7.89 % for HierFAVG (so the text; the table gives 5.56), 7.73 and 4.77 of it."""
    assert len(paper.ACCURACY_PERCENT) == 4 * 2 * 3
    iid, non_iid = (paper.ACCURACY_PERCENT["cifar10", data, 2] for data in (paper.IID, paper.NON_IID))
    assert [round(a - b, 2) for a, b in zip(iid, non_iid, strict=True)] == [5.56, 7.57, 4.6]


def test_a_figure_known_from_below_gives_ratios_that_are_bounds() -> None:
    never, four, eight = Bounds.at_least(743.0), Bounds.exactly(4.0), Bounds.exactly(8.0)
    assert ratio_of(eight, four) == Bounds(2.0, 2.0)
    assert ratio_of(never, four) == Bounds(185.75, math.inf)
    assert ratio_of(four, Bounds.at_least(8.0)) == Bounds(0.0, 0.5)
    assert mean_of([four, Bounds.at_least(8.0)]) == Bounds(6.0, math.inf)
    shown = [ratio_of(eight, four), ratio_of(never, four), ratio_of(four, never), ratio_of(never, never)]
    assert [factor(ratio) for ratio in shown] == ["2.00 ×", "≥ 185.75 ×", "≤ 0.01 ×", "–"]


def test_nothing_over_nothing_is_no_ratio() -> None:
    zero = Bounds.exactly(0.0)
    assert factor(ratio_of(zero, zero)) == "–"
    assert ratio_of(Bounds.exactly(1.0), zero) == Bounds(math.inf, math.inf)


def test_runs_that_went_as_the_papers_have_its_ratios() -> None:
    ours, theirs = table([RUN, HIERFAVG, MACFL], "paper-rounds").rows
    assert ours == ("mnist", "IID", "5", "ours", "50", "45", "20", "1 : 2.50 : 2.25", "2.38 ×")
    assert theirs == ("mnist", "IID", "5", "paper", "50", "45", "20", "1 : 2.50 : 2.25", "2.38 ×")


def test_a_baseline_that_never_got_there_is_a_lower_bound() -> None:
    runs = [RUN, LOST, MACFL]
    # (743 + 45) / 2 / 20 = 19.7; (500 + 240) / 2 / 100 = 3.7
    assert table(runs, "paper-rounds").rows[0][4:] == (
        "not in 743",
        "45",
        "20",
        "1 : ≥ 37.15 : 2.25",
        "≥ 19.70 ×",
    )
    joules = ("> 500.00 J", "240.00 J", "100.00 J", "1 : ≥ 5.00 : 2.40", "≥ 3.70 ×")
    assert table(runs, "paper-joules").rows[0][4:] == joules


def test_where_mohawk_never_got_there_its_ratio_is_an_upper_bound() -> None:
    runs = [like(RUN, steps=126, rounds_to_threshold=None), HIERFAVG, MACFL]
    assert table(runs, "paper-rounds").rows[0][4:] == (
        "50",
        "45",
        "not in 125",
        "1 : ≤ 0.40 : ≤ 0.36",
        "≤ 0.38 ×",
    )


def learning_curve(halving: float, seed: int, k2: int, steps: int) -> tuple[tuple[int, float], ...]:
    """Accuracies of a month of cloud aggregations that rise to about 99 %, noisily."""
    at = np.arange(k2, steps, k2)
    noise = np.random.default_rng(seed).normal(0.0, 0.006, len(at))
    return tuple(zip(at.tolist(), (0.99 - 0.9 * 0.5 ** (at / halving) + noise).tolist(), strict=True))


def of_seeds(system: str, halving: float, k2: int) -> list[PaperRun]:
    runs = []
    for seed in (42, 182, 392):
        scored = learning_curve(halving, seed, k2, 744)
        reached = next(step for step, accuracy in scored if accuracy >= 0.97)
        run = like(RUN, system=system, seed=seed, steps=744, rounds_to_threshold=reached, scored=scored)
        runs.append(like(run, setting=replace(SETTING, k2=k2)))
    return runs


@pytest.mark.parametrize("k2", paper.K2)
def test_rounds_over_seeds_are_those_of_the_mean_of_their_accuracies(k2: int) -> None:
    """And each seed's own ones, mean ± sd, stand in a row below."""
    systems = {"hierfavg": 40.0, "macfl": 36.0, "mohawk": 11.0}
    runs = [run for system, halving in systems.items() for run in of_seeds(system, halving, k2)]
    ours, per_seed, theirs = table(runs, "paper-rounds").rows
    for column, system in enumerate(systems, start=4):
        seeds = [run for run in runs if run.system == system]
        steps = np.array([step for step, _ in seeds[0].scored])
        mean = np.mean([[accuracy for _, accuracy in run.scored] for run in seeds], axis=0)
        crossing = int(steps[np.argmax(mean >= 0.97)])
        assert ours[column] == str(crossing)
        assert crossing % k2 == 0
        own = [steps[np.argmax(np.array([accuracy for _, accuracy in run.scored]) >= 0.97)] for run in seeds]
        assert per_seed[column] == f"{np.mean(own):,.4g} ± {np.std(own, ddof=1):,.4g}"
    assert (ours[3], per_seed[3], theirs[3]) == ("ours", "ours, per seed", "paper")
    assert "mean of their accuracies" in table(runs, "paper-rounds").caption
    found = ratios_table(runs)
    assert found is not None
    assert found.rows[0][2:5] == ours[4:7]


def test_the_papers_own_rounds_are_multiples_of_k2_as_means_of_three_seeds_rounds_are_not() -> None:
    figures = [(value, key[2]) for key, values in paper.ROUNDS.items() for value in values]
    assert (sum(value % k2 == 0 for value, k2 in figures), len(figures)) == (69, 72)


def test_a_seed_that_ended_at_its_threshold_counts_with_its_last_accuracy() -> None:
    fast = like(RUN, steps=11, rounds_to_threshold=10, scored=((5, 0.9), (10, 0.98)))
    slow = like(RUN, seed=2, steps=31, rounds_to_threshold=30, scored=tuple(
        zip(range(5, 31, 5), (0.5, 0.8, 0.9, 0.95, 0.962, 0.975), strict=True)))  # fmt: skip
    # 0.98 and 0.962 make 97.1 % at t = 25.
    assert rounds_of([fast, slow]) == Bounds.exactly(25)
    never = like(slow, steps=31, rounds_to_threshold=None, scored=slow.scored[:5])
    assert rounds_of([fast, like(never, steps=24, scored=slow.scored[:4])]) == Bounds.at_least(23)
    assert rounds_of([fast, never, like(never, seed=3)]) == Bounds.at_least(30)
    assert rounds_of([fast, slow], 0.9) == Bounds.exactly(15)


def test_seeds_are_averaged_and_one_that_got_lost_opens_the_mean() -> None:
    scored = ((20, 0.975), (30, 0.98))
    twice = [
        like(RUN, scored=scored[:1]),
        like(RUN, seed=2, rounds_to_threshold=30, final_accuracy=0.96, scored=((20, 0.95), *scored[1:])),
        like(LOST, scored=((50, 0.9), (740, 0.93))),
        like(HIERFAVG, seed=2, scored=((50, 0.975),)),
    ]
    rounds, per_seed, _ = table([*twice, MACFL], "paper-rounds").rows
    # MOHAWK: 97.5 and 95 % at t = 20, 97.5 and 98 % at 30. HierFAVG: 93 and 97.5 % at the most.
    assert rounds[4:7] == ("not in 743", "45", "30")
    # 20 and 30; 743 at least and 50: (743 + 50) / 2 = 396.5
    assert per_seed[4:7] == ("not in 396.5 (1 of 2 reached it)", "45", "25 ± 7.071")
    accuracy = table([*twice, MACFL], "paper-accuracy")
    assert accuracy.rows[0] == (
        "mnist", "IID", "5", "ours, last", "98.00 ± 0.00 %", "98.00 %", "97.00 ± 1.41 %",
    )  # fmt: skip
    assert accuracy.rows[2] == ("mnist", "IID", "5", "paper", "99.08 %", "99.14 %", "99.17 %")
    assert "mean ± sd over the seeds (those without ± of one seed)" in accuracy.caption
    joules = table([*twice, like(MACFL, communication_j_per_client=240.0)], "paper-joules").rows[0]
    assert joules[4:7] == ("> 380.00 J (1 of 2 reached it)", "240.00 J", "100.00 ± 0.00 J")


def test_nothing_over_one_seed_is_called_a_mean_over_seeds() -> None:
    for made in paper_tables([RUN, HIERFAVG, MACFL]):
        assert "over the seeds" not in made.caption
        assert "± sd of" not in made.caption
        assert not any("per seed" in cell for row in made.rows for cell in row)


def test_table_5_tells_the_plain_ratio_and_the_one_the_paper_seems_to_print() -> None:
    ours, theirs = table([RUN, HIERFAVG, MACFL], "paper-devices").rows
    assert ours == ("5", "ours", "15.000", "15.000", "22.000", "1.47 ×", "+31.82 %")
    assert theirs == ("5", "paper", "15", "15", "22", "1.47 ×", "+31.82 % (printed: 29.69 %)")
    distance = table([RUN, HIERFAVG, MACFL], "paper-distance").rows
    assert distance[0] == ("ours", "7.00 ± 0.70", "7.00 ± 0.70", "0.90 ± 0.70", "7.78 ×")
    assert distance[1] == ("paper", "7.08 ± 3.92", "7.01 ± 3.83", "0.91 ± 0.75", "7.74 ×")


def test_devices_per_step_are_those_of_the_runs_that_played_longest() -> None:
    """A run that stopped at its threshold saw the first hours only."""
    short = like(HIERFAVG, aggregated_per_step=2.0)
    longer = like(HIERFAVG, steps=744, aggregated_per_step=15.0, seed=2)
    assert table([RUN, short, longer, MACFL], "paper-devices").rows[0][2] == "15.000"


def test_another_threshold_than_the_papers_is_said() -> None:
    runs = [like(run, threshold=0.9) for run in (RUN, HIERFAVG, MACFL)]
    told = table(runs, "paper-rounds")
    assert "threshold of 90 %" in told.title
    assert told.caption.endswith("The paper's threshold is another: 97 % for mnist.")
    assert "another" not in table([RUN, HIERFAVG, MACFL], "paper-rounds").caption


def test_a_data_set_the_paper_lacks_has_no_figures_of_its_own() -> None:
    digits = replace(SETTING, dataset="digits")
    runs = [like(run, setting=digits) for run in (RUN, HIERFAVG, MACFL)]
    assert table(runs, "paper-rounds").rows[1][3:] == ("paper", "–", "–", "–", "–", "–")


def test_runs_are_set_beside_the_paper_only_where_mohawk_met_a_baseline() -> None:
    elsewhere = like(HIERFAVG, setting=replace(SETTING, k2=2))
    assert paper_tables([RUN, elsewhere]) == []
    assert paper_tables([HIERFAVG, MACFL]) == []
    assert comparable([RUN, HIERFAVG, like(RUN, system="fedavg")]) == [RUN, HIERFAVG]


@pytest.mark.parametrize(
    ("learning", "data"),
    [
        ({"partition": "dirichlet", "alpha": 100.0}, "IID"),
        ({"partition": "dirichlet_repeats", "alpha": 0.1}, "non-IID"),
        ({"partition": "iid", "alpha": 0.1}, "IID"),
        ({"partition": "dirichlet", "alpha": 1.0}, "dirichlet, alpha 1"),
        ({"partition": "dirichlet_split", "alpha": 0.1}, "dirichlet_split, alpha 0.1"),
    ],
)
def test_iid_and_non_iid_are_the_partitions_the_paper_means(learning: dict[str, object], data: str) -> None:
    config = {"learning": {"dataset": "mnist", **learning}, "rounds": {"cloud_every_steps": 5}}
    assert setting_of(from_resolved(config)) == Setting("mnist", data, 5)


def test_a_report_has_the_ratios_in_a_line_per_figure() -> None:
    found = ratios_table([RUN, LOST, MACFL])
    assert found is not None
    where, papers = "mnist, IID, k2 = 5", ("1 : 2.50 : 2.25", "2.38 ×")
    assert found.rows == (
        (where, "rounds", "not in 743", "45", "20", "1 : ≥ 37.15 : 2.25", "≥ 19.70 ×", *papers),
        ("", "J per client", "> 500.00", "240.00", "100.00", "1 : ≥ 5.00 : 2.40", "≥ 3.70 ×",
         "1 : 2.48 : 2.23", "2.36 ×"),
        ("", "devices per step", "15.00", "15.00", "22.00", "1 : 0.68 : 0.68", "1.47 ×",
         "1 : 0.68 : 0.68", "1.47 ×"),
        ("", "km to the AP", "7.00", "7.00", "0.90", "1 : 7.78 : 7.78", "7.78 ×",
         "1 : 7.78 : 7.70", "7.74 ×"),
    )  # fmt: skip
    assert ratios_table([RUN, like(MACFL, setting=replace(SETTING, k2=2))]) is None


def test_without_energy_and_a_baseline_a_report_has_what_is_left() -> None:
    found = ratios_table(
        [like(RUN, communication_j_per_client=None), like(MACFL, communication_j_per_client=None)]
    )
    assert found is not None
    assert [row[1] for row in found.rows] == ["rounds", "devices per step", "km to the AP"]
    assert found.rows[0][2:7] == ("–", "45", "20", "1 : – : 2.25", "–")


def test_markdown_cells_cannot_end_themselves() -> None:
    made = ReportTable("k", "T", "C", ("a", "b"), (("x|y", "1"), ("<b>*", "2\n3")))
    assert markdown_table(made).splitlines() == [
        "## T", "", "| a | b |", "| --- | ---: |", "| x\\|y | 1 |", "| \\<b>\\* | 2 3 |", "", "C",
    ]  # fmt: skip


def test_lower_accuracies_have_ratios_where_the_threshold_has_only_bounds() -> None:
    """MOHAWK at 80, 90 and 95 % after 10, 20 and 30 rounds; HierFAVG after 40 and 90, then never in 743."""
    mohawk = like(RUN, scored=((10, 0.82), (20, 0.91), (30, 0.96), (40, 0.97)))
    hierfavg = like(LOST, scored=((40, 0.8), (90, 0.93), (740, 0.94)))
    macfl = like(LOST, system="macfl", scored=((30, 0.85), (110, 0.9), (120, 0.95)))
    found = milestones_table([mohawk, hierfavg, macfl])
    assert found is not None
    assert [row[3:] for row in found.rows] == [
        ("80 %", "40", "30", "10", "1 : 4.00 : 3.00", "3.50 ×"),
        ("90 %", "90", "110", "20", "1 : 4.50 : 5.50", "5.00 ×"),
        ("95 %", "not in 743", "120", "30", "1 : ≥ 24.77 : 4.00", "≥ 14.38 ×"),
    ]
    assert milestones_table([RUN, HIERFAVG]) is None  # nothing was scored
