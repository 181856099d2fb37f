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

    cloud_every_steps: int = Field(5, ge=1, description="Steps between cloud aggregations (k2).")
    sigma: float = Field(
        0.1, ge=0.0, description="Strength of cosine attention (MOHAWK Eq. 5, 6); 0: plain mean."
    )
    cosine: CosineReading = Field(
        "flat",
        description="Reading of the cosine in Eq. 5 and 6 (docs/algorithms.md).",
    )
    accuracy_threshold: float = Field(
        0.8, gt=0.0, le=1.0, description="The report counts steps until the global model has it."
    )
    metric_threshold: float | None = Field(
        None,
        description="The same of a task's first metric where labels are no classes.",
    )
    stop_at_threshold: bool = Field(
        False,
        description="End the run at the threshold; what is outstanding is wasted.",
    )
    evaluate_every: int = Field(
        1,
        ge=1,
        description="Score the model at every n-th cloud aggregation, and the last.",
    )
    score_aps: bool = Field(
        False,
        description="Also score each access point's model and each class: metrics `AP 0`, `AP 0, "
        "class 3`, `class 3`.",
    )
    lookahead: bool = Field(
        False,
        description="Train only devices that come back in time, as MOHAWK's simulator: an oracle, for"
        " virtual devices.",
    )
    empty_sync_clears: bool = Field(
        True,
        description="A cloud aggregation without models empties what is outstanding (MOHAWK Alg. 1 line 29).",
    )
    step_close: str = Field(
        "answers",
        pattern=r"^(answers|clock:[0-9]+(\.[0-9]+)?|trace:(0*[1-9][0-9]*(\.[0-9]+)?|0*\.[0-9]*[1-9][0-9]*))$",
        json_schema_extra={"expected": '"answers", "clock:<seconds>" or "trace:<factor>"'},
        description="A step ends when all orders are answered (`answers`); not before this device time "
        "(`clock:S`); or at this multiple of the trace's speed (`trace:F`). Virtual devices do not wait.",
    )
    dither_s: float = Field(
        0.5,
        ge=0.0,
        description="Measured orders wait up to a period of the slowest meter, so that their starts are"
        " spread evenly over it, and no longer than twice this. 0: they do not wait.",
    )
    rest_s: Literal["auto"] | Annotated[float, Field(ge=0.0)] = Field(
        "auto",
        json_schema_extra={"expected": '"auto" or a number ≥ 0'},
        description="Rest after each measured phase, half of it before. `auto`: 1.25 s and 2.75 "
        "periods of the slowest meter; 0 where nothing is measured.",
    )
    orders: str = Field(
        "system",
        pattern=r"^(system|replay:.+)$",
        json_schema_extra={"expected": '"system" or "replay:<run folder>"'},
        description="Trainings: the system's choice, or those of another run (`{system}` is its name).",
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

    def dither_with(self, periods_s: Iterable[float]) -> float:
        """Return half the device seconds over which starts are spread, beside meters with these periods."""
        return min(self.dither_s, 0.5 * max(periods_s, default=0.0))

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
