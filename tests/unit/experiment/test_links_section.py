"""[links]: which model, found beside the experiment; mistakes are told before anything starts."""

from __future__ import annotations

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LinkPower
from roambench.energy.links.models import ANY, KnownLink, LinkModel, Provenance
from roambench.experiment.link_model_file import load_link_model, write_link_model
from roambench.experiment.load import load_experiment

MODEL = LinkModel("mybench", {ANY: KnownLink(LinkPower("mybench", 10.0, 5.0, 200.0))}, Provenance("test"))


def write(tmp_path, text):
    path = tmp_path / "experiment.toml"
    path.write_text(text)
    return path


def test_links_are_native_and_compared_with_the_papers_radio_by_default(tmp_path):
    links = load_experiment(write(tmp_path, "")).links
    assert (links.link, links.port_mbit_s, links.model) == ("native", 95.0, "mohawk")


def test_a_model_is_found_beside_the_experiment_by_name_and_by_file(tmp_path, monkeypatch):
    write_link_model(tmp_path / "links" / "mybench.toml", MODEL)
    monkeypatch.chdir("/")
    for written in ("mybench", "links/mybench.toml"):
        experiment = load_experiment(write(tmp_path, f'[links]\nlink = "modelled"\nmodel = "{written}"\n'))
        assert load_link_model(experiment.links.model) == MODEL


def test_a_model_that_is_not_there_or_is_damaged_is_a_mistake_of_the_file(tmp_path):
    with pytest.raises(ConfigError, match=r"links\.model: link model 'mybanch': expected a file, or one of"):
        load_experiment(write(tmp_path, '[links]\nmodel = "mybanch"\n'))
    (tmp_path / "broken.toml").write_text("format = 1\n")
    with pytest.raises(ConfigError) as error:
        load_experiment(write(tmp_path, '[links]\nmodel = "broken.toml"\nlink = "fast"\n'))
    text = str(error.value)
    assert 'links.link: expected one of "native", "modelled"' in text
    assert "broken.toml: name: is missing" in text
    assert "broken.toml: links: is missing" in text


@pytest.mark.parametrize("wrong", ["0.0", "-1.0", '"fast"'])
def test_a_port_has_a_speed(tmp_path, wrong):
    with pytest.raises(ConfigError, match=r"links\.port_mbit_s: expected a number > 0"):
        load_experiment(write(tmp_path, f"[links]\nport_mbit_s = {wrong}\n"))
