"""docs/simulating.md names every key and column that there is."""

from __future__ import annotations

from pathlib import Path

from roambench.energy.links.models import MOHAWK
from roambench.energy.modelled.device_power import DevicePower
from roambench.energy.modelled.ledger import EnergyModel
from roambench.experiment.simulated_section import SimulatedSection
from roambench.runs.info import RunInfo
from roambench.runs.modelled.accounts import LINK_MODEL_FILE, ModelledEnergy, ledger_of_log
from roambench.runs.modelled.summary import SCHEMA, summary_of

from .test_codecs_page import typed

PAGE = (Path(__file__).parents[3] / "docs" / "simulating.md").read_text(encoding="utf-8")


def test_the_experiment_of_the_page_is_planned_as_it_says(tmp_path: Path) -> None:
    typed(PAGE, tmp_path)


def keys(values: dict) -> list[str]:
    found = []
    for key, value in values.items():
        found.append(key)
        if isinstance(value, dict):
            found += keys(value)
    return found


def test_every_key_of_the_summary_is_explained() -> None:
    info = RunInfo("r", "mohawk", 1, "", "simulated", ("pi-01",))
    power = DevicePower(1.9, 0.8)
    ledger = ledger_of_log((), ["pi-01"], EnergyModel(MOHAWK, power))
    summary = summary_of(info, (), ModelledEnergy(ledger, MOHAWK, power, "distance"), 0.8)
    missing = [key for key in keys(summary) if f"`{key}`" not in PAGE]
    assert missing == []
    assert f"`{SCHEMA}`" in PAGE


def test_the_assumptions_are_told_with_their_defaults() -> None:
    section = SimulatedSection()
    assert f"({section.idle_w:g} W, {section.train_w:g} W)" in PAGE
    for key in ("idle_w", "train_w", "power_spread", "speed_spread", "sgd_step_s", "energy_rate"):
        assert f"`{key}" in PAGE
        assert key in SimulatedSection.model_fields
    assert f"`{LINK_MODEL_FILE}`" in PAGE
