"""Figures by access point and class, against sums by hand."""

from __future__ import annotations

import pytest

from roambench.study.sweep.class_metrics import class_metric_of
from roambench.study.sweep.metrics import metric_of

#: Cloud aggregations end the steps 1, 3 and 5; access point 0 is scored in every step before them.
CLOUDS = {1: 0.5, 3: 0.7, 5: 0.6}
METRICS = {
    "AP 0": {0: 0.1, 1: 0.4, 2: 0.5, 3: 0.65, 4: 0.7, 5: 0.6},
    "AP 0, class 3": {1: 0.2, 3: 0.9, 5: 0.8},
    "AP 0, class 12": {1: 0.6, 3: 0.5, 5: 0.2},
    "class 3": {1: 0.5, 3: 0.75, 5: 0.25},
    "class 12": {1: 0.25, 3: 0.25, 5: 0.75},
}


@pytest.mark.parametrize(
    ("name", "figure"),
    [
        ("ap0", 0.6),
        ("ap0_of_3", 0.8),
        ("ap0_of_3_12", (0.8 + 0.2) / 2),
        ("global_of_3_12", (0.25 + 0.75) / 2),
        ("ap0_drift", ((0.65 - 0.5) + (0.6 - 0.7)) / 2),
        ("ap0_drift_of_12", ((0.5 - 0.25) + (0.2 - 0.25)) / 2),
        ("ap0_drift_of_3_12", ((0.7 - 0.375) + (0.5 - 0.5)) / 2),
        ("ap1", None),
        ("ap0_of_4", None),
        ("global_of_3_4", None),
    ],
)
def test_a_figure_is_the_last_accuracy_or_the_mean_gain_between_clouds(
    name: str, figure: float | None
) -> None:
    metric = class_metric_of(name)
    assert metric is not None
    found = metric.figure(METRICS, CLOUDS)
    assert found is None if figure is None else found == pytest.approx(figure)


def test_before_a_second_cloud_aggregation_there_is_no_gain() -> None:
    drift = class_metric_of("ap0_drift")
    assert drift is not None
    assert drift.figure(METRICS, {1: 0.5}) is None


def test_other_names_are_no_such_metrics() -> None:
    for name in ("ap", "apx", "global", "ap0_of", "ap0_of_", "global_drift_of_3", "final_accuracy"):
        assert class_metric_of(name) is None
    metric = metric_of("ap3_drift_of_0_1")
    assert metric is not None
    assert metric.share
    assert metric.title == "AP 3 on 0, 1, gain between clouds"
