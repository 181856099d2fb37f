from pathlib import Path

from roambench.experiment.reference import configuration_page
from roambench.experiment.sections import Experiment

PAGE = Path(__file__).parents[3] / "docs" / "configuration.md"


def test_the_configuration_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == configuration_page(), (
        "run: python -m roambench.experiment.reference docs/configuration.md"
    )


def test_every_key_is_described() -> None:
    undescribed = [
        f"{section}.{key}"
        for section, outer in Experiment.model_fields.items()
        for key, field in getattr(outer.annotation, "model_fields", {section: outer}).items()
        if not field.description
    ]
    assert undescribed == []
