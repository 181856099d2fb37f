from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints

import pytest

from roambench.contract.errors import ConfigError
from roambench.learning import catalogue


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("root", "math:sqrt", "roambench.models"),
            EntryPoint("own", "math:floor", "roambench.models"),
            EntryPoint("broken", "no_such_package:x", "roambench.models"),
        ]
    )
    monkeypatch.setattr(catalogue, "entry_points", lambda group: points.select(group=group))


@pytest.mark.usefixtures("installed")
def test_another_package_can_add_a_row_by_entry_point():
    assert catalogue.find({"own": abs}, "root", what="model", group="roambench.models")(9.0) == 3.0
    assert catalogue.names({"own": abs}, "roambench.models") == ["broken", "own", "root"]


@pytest.mark.usefixtures("installed")
def test_a_row_of_our_own_wins_over_an_entry_point_of_the_same_name():
    assert catalogue.find({"own": abs}, "own", what="model", group="roambench.models")(-2.5) == 2.5


@pytest.mark.usefixtures("installed")
def test_an_entry_point_that_cannot_be_loaded_is_named():
    with pytest.raises(ConfigError, match=r"model 'broken' \(no_such_package:x\) cannot be loaded"):
        catalogue.find({}, "broken", what="model", group="roambench.models")


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match="unknown thing 'c': expected one of a, b"):
        catalogue.find({"b": 1, "a": 2}, "c", what="thing")
