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
        description="Local algorithm (`roambench list local`) of systems on plain cross-entropy; "
        "numbers in `[algorithm.NAME]`.",
    )
    parameters: dict[str, dict[str, ParameterValue]] = Field(
        default_factory=dict,
        description="Parameters by system or local algorithm; `[algorithm.NAME]` is short for it.",
    )

    per_ap: int = Field(
        5,
        ge=1,
        description="K of the MIDDLE family and FedAvg: devices that train at each AP.",
    )
    proximal: float = Field(0.0, ge=0.0, description="FedProx's mu; 0: none.")
    lambda1: float = Field(0.01, ge=0.0, description="MIDDLE+ Eq. 22: pull of the base to its start.")
    lambda2: float = Field(0.01, ge=0.0, description="MIDDLE+ Eq. 22: pull of the base to the global model.")
    macfl_cloud: Literal["attention", "mean"] = Field(
        "attention", description="MACFL's cloud weights: Eq. 6, or equal."
    )
    self_attention: float = Field(0.5, ge=0.0, le=1.0, description="HeurFedAMP: share of an AP's own model.")
    association: Literal["nearest", "trace"] = Field(
        "nearest",
        description="Edge of the MIDDLE family's devices: the nearest AP, or the recorded one.",
    )
    ties: Literal["lowest", "random"] = Field(
        "lowest",
        description="Nearest of equally near APs.",
    )
    previous_edge: Literal["own", "edge_pair"] = Field(
        "own",
        description="FedMes, Ensemble: the own model stands for the previous edge's, or that is downloaded.",
    )
    fresh_uses_ap: bool = Field(
        False,
        description="A moved device that has not trained since the last sync starts from the AP's model.",
    )
    stayed_model: Literal["ap", "own"] = Field(
        "ap",
        description="MIDDLE: start of a device that stayed (text and Alg. 2, or Alg. 1).",
    )
    sync_download: Literal["charged", "free"] = Field(
        "charged",
        description="MIDDLE family: a sync's downloads are charged, or free and unmeasured.",
    )
    cloud_counts: Literal["since_sync", "printed"] = Field(
        "since_sync",
        description="Samples of MIDDLE's Eq. 7: of k2 steps, or k2 + 1 as printed.",
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
