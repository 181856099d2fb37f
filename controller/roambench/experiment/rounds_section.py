"""The table `[rounds]`: the time steps of systems with access points, and what all runs end by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import Field

from roambench.aggregation.attention import CosineReading
from roambench.contract.metric import ACCURACY, Metric
from roambench.written.toml_file import Section

#: Begins the value of `orders` that names a run folder.
REPLAY: Final = "replay:"
#: A rest that is long enough for what a meter averages over and a radio's tail, and for its lines: a number
#: of periods of it.
REST_S: Final = 1.25
REST_PERIODS: Final = 2.75


class RoundsSection(Section):
    """The time steps: when models meet, and with which weights."""

    cloud_every_steps: int = Field(5, ge=1, description="The cloud aggregates every this many steps (k2).")
    sigma: float = Field(
        0.1, ge=0.0, description="Strength of cosine attention (MOHAWK Eq. 5 and 6); 0 is a plain mean."
    )
    cosine: CosineReading = Field(
        "flat",
        description="Reading of the cosine in Eq. 5 and 6: of whole flat models (conventional), as printed, "
        "per state-dict entry, or per column as the authors' code computes it.",
    )
    accuracy_threshold: float = Field(
        0.8, gt=0.0, le=1.0, description="The report counts the steps until the global model reaches this."
    )
    metric_threshold: float | None = Field(
        None,
        description="Where a task's labels are no classes, so that there is no accuracy: the report counts "
        "the steps until the task's first metric is as good as this. Without it nothing is counted.",
    )
    stop_at_threshold: bool = Field(
        False,
        description="A run ends at the first cloud aggregation whose model has `accuracy_threshold`, or "
        "`metric_threshold`, instead "
        "of with the trace. What is outstanding then is wasted (end of run).",
    )
    evaluate_every: int = Field(
        1,
        ge=1,
        description="Score the global model at every n-th cloud aggregation (and at the last one): "
        "where the test set is large, scoring costs more than training. A threshold is met at a scored one.",
    )
    score_aps: bool = Field(
        False,
        description="After every step score every access point's model, too (before a cloud aggregation "
        "replaces it), and all models by class: metrics `AP 0`, `AP 0, class 3` and `class 3` of the run.",
    )
    lookahead: bool = Field(
        False,
        description="Train only devices that will be seen again in time, as MOHAWK's simulator does: an "
        "oracle. A bench cannot know the future, and waste loses its meaning: for virtual devices alone.",
    )
    empty_sync_clears: bool = Field(
        True,
        description="A cloud aggregation that is due while no AP aggregated anything still gives up what is "
        "outstanding (MOHAWK Alg. 1 line 29).",
    )
    step_close: str = Field(
        "answers",
        pattern=r"^(answers|clock:[0-9]+(\.[0-9]+)?|trace:(0*[1-9][0-9]*(\.[0-9]+)?|0*\.[0-9]*[1-9][0-9]*))$",
        json_schema_extra={"expected": '"answers", "clock:<seconds>" or "trace:<factor>"'},
        description="When a step ends: `answers` (every order answered or past its deadline; deterministic, "
        "as fast as possible), `clock:<seconds>` (not before that much device time per step has passed, "
        "either), or `trace:<factor>` (the same, faster by this factor than the trace itself; 1: in real "
        "time). Virtual devices and rehearsals wait for no clock.",
    )
    dither_s: float = Field(
        0.5,
        ge=0.0,
        description="A step starts late by a seeded draw between 0 and twice this much device time, so that "
        "a meter does not see the same part of every step. Half the period of the slowest meter; 0.5 s is "
        "right for one line a second and for every firmware known (its period goes into 1 s a whole number "
        "of times). 0: none. The draw depends on seed and step alone; virtual devices and rehearsals wait "
        "for nothing.",
    )
    rest_s: Literal["auto"] | Annotated[float, Field(ge=0.0)] = Field(
        "auto",
        json_schema_extra={"expected": '"auto" or a number ≥ 0'},
        description="Device time in which a board rests after every measured phase (download, train, upload, "
        "exchange), doing and sending nothing; before each it has idled or rested for half of it. Energy is "
        "then a sum of meter lines around the phase. `auto`: 1.25 s and 2.75 periods of the slowest meter "
        "(4 s for one line a second, 1.5 s for ten); where nothing is measured (virtual devices, "
        "rehearsals) 0. 0: none, and where phases touch only a model of power tells them apart. Orders have "
        "so much longer.",
    )
    orders: str = Field(
        "system",
        pattern=r"^(system|replay:.+)$",
        json_schema_extra={"expected": '"system" or "replay:<run folder>"'},
        description="Who trains: whom the system selects, or with `replay:<run folder>` who trained in that "
        "run of the same system, seed and trace (`{system}` stands for the system's name). Relative to the "
        "experiment file. Models of two fleets differ in their last digits, so a selection that reads them "
        "may differ in everything after.",
    )

    @property
    def stop_at(self) -> float | None:
        """The score at which a run ends; None: with its trace."""
        if not self.stop_at_threshold:
            return None
        return self.accuracy_threshold if self.metric_threshold is None else self.metric_threshold

    def rest_with(self, periods_s: Iterable[float]) -> float:
        """Return the device seconds of a rest beside meters with these periods (s); without any nothing
        is measured."""
        if self.rest_s != "auto":
            return self.rest_s
        return max((REST_S + REST_PERIODS * period_s for period_s in periods_s), default=0.0)

    def threshold_of(self, metric: Metric) -> float | None:
        """The value of what a run is judged by that its steps are counted to."""
        return self.accuracy_threshold if metric == ACCURACY else self.metric_threshold

    def misfits(self, *, has_accuracy: bool) -> list[str]:
        """Mistakes of the thresholds where models have an accuracy, as labels are classes, or have none."""
        if has_accuracy:
            if self.metric_threshold is None:
                return []
            return ["rounds.metric_threshold: labels are classes: expected rounds.accuracy_threshold instead"]
        if self.accuracy_threshold != type(self).model_fields["accuracy_threshold"].default:
            expected = (
                "labels are no classes, so there is no accuracy: expected rounds.metric_threshold instead"
            )
            return [f"rounds.accuracy_threshold: {expected}"]
        if self.stop_at_threshold and self.metric_threshold is None:
            return ["rounds.stop_at_threshold: expected rounds.metric_threshold beside it"]
        return []
