"""The table `[algorithm]` of an experiment file: numbers and readings that only some systems know."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from roambench.written.toml_file import Section

#: A value of a parameter, as TOML writes it.
ParameterValue = bool | int | float | str | list[int] | list[float] | list[str]


class AlgorithmSection(Section):
    """Numbers that only some systems read; the papers' own values, or ours where a paper gives none."""

    local: str = Field(
        "",
        description="Local algorithm (`roambench list local`), by which devices train in every system that "
        "trains on plain cross-entropy: with its own numbers in `[algorithm.NAME]`. Not together with "
        "`proximal`. Empty: cross-entropy alone.",
    )
    parameters: dict[str, dict[str, ParameterValue]] = Field(
        default_factory=dict,
        description="Parameters of a system's or a local algorithm's own, by its name; `[algorithm.NAME]` is "
        "short for `[algorithm.parameters.NAME]`. What is left out keeps its default.",
    )

    per_ap: int = Field(
        5,
        ge=1,
        description="K of the MIDDLE family and FedAvg: devices that train at each AP.",
    )
    proximal: float = Field(
        0.0, ge=0.0, description="FedProx's mu, for systems that train on plain cross-entropy; 0: none."
    )
    lambda1: float = Field(
        0.01, ge=0.0, description="MIDDLE+ (Eq. 22): pull of the base to where local training started."
    )
    lambda2: float = Field(
        0.01, ge=0.0, description="MIDDLE+ (Eq. 22): pull of the base to the last global model's."
    )
    macfl_cloud: Literal["attention", "mean"] = Field(
        "attention", description="MACFL's cloud weights: Eq. 6, or every AP the same."
    )
    self_attention: float = Field(
        0.5, ge=0.0, le=1.0, description="HeurFedAMP: share of an AP's own model in its new one."
    )
    association: Literal["nearest", "trace"] = Field(
        "nearest",
        description="Which edge serves a device of the MIDDLE family: the nearest AP, or `trace`, the AP "
        "that the trace itself recorded (it must have recorded one, and `fleet.aps` draws no others).",
    )
    ties: Literal["lowest", "random"] = Field(
        "lowest",
        description="Nearest of several equally near APs: the lowest index, or one drawn per device and "
        "step, as MOHAWK's authors do.",
    )
    previous_edge: Literal["own", "edge_pair"] = Field(
        "own",
        description="FedMes and Ensemble mix the AP's model with the previous edge's: `own`, the device's "
        "own model stands for it, or `edge_pair`, the previous AP's present model is downloaded too (and "
        "charged). A device that was away at the step before has no previous edge: it starts from the AP's.",
    )
    fresh_uses_ap: bool = Field(
        False,
        description="A moved device that has not trained since the last cloud aggregation holds that global "
        "model. MIDDLE's Eq. 9 mixes it in like any own model (false); true: such a device uses the AP's "
        "model (MIDDLE+: its base). For all systems that start from own models.",
    )
    stayed_model: Literal["ap", "own"] = Field(
        "ap",
        description="MIDDLE, a device that stayed: it starts from the AP's model (the text and Alg. 2 line "
        "9) or from its own, as Alg. 1 line 7 prints it.",
    )
    sync_download: Literal["charged", "free"] = Field(
        "charged",
        description="The device part of a cloud aggregation (MIDDLE family): a paced download that is "
        "counted and charged as communication, or `free`: unpaced, outside every measured phase, no bytes.",
    )
    cloud_counts: Literal["since_sync", "printed"] = Field(
        "since_sync",
        description="Samples that MIDDLE's Eq. 7 counts: those of the k2 steps since the last cloud "
        "aggregation, or `printed`: of k2 + 1 steps, the step of that aggregation once more.",
    )

    @model_validator(mode="before")
    @classmethod
    def _own_tables(cls, values: object) -> object:
        if not isinstance(values, dict):
            return values
        own = {name: table for name, table in values.items() if is_own_table(name, table)}
        written = values.get("parameters", {})
        if not own or not isinstance(written, dict):
            return values
        rest = {name: value for name, value in values.items() if name not in own}
        return {**rest, "parameters": {**written, **own}}


def is_own_table(name: str, value: object) -> bool:
    """Return whether a key of `[algorithm]` is the table of a system's or a local algorithm's own
    parameters."""
    return isinstance(value, dict) and name not in AlgorithmSection.model_fields
