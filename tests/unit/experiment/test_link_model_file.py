"""Link model files: what is written is read back, and every mistake in one is told at once."""

from __future__ import annotations

import math

import pytest

from roambench.contract.errors import ConfigError
from roambench.contract.link_power import LinkPower
from roambench.energy.links.models import ANY, MOHAWK, KnownLink, LinkModel, Provenance
from roambench.experiment.link_model_file import load_link_model, read_link_model, write_link_model

COVARIANCE = ((0.04, 0.0, -0.3), (0.0, 0.01, -0.1), (-0.3, -0.1, 4.0))
MODEL = LinkModel(
    "mybench",
    {ANY: KnownLink(LinkPower("mybench", 10.0, 5.0, 200.0), COVARIANCE, dof=4.5)},
    Provenance('two "Pis"', "2026-11-21", "smartpower2", "sweep", "calibration-1", (2.0, 20.0)),
    {
        "pi-01": KnownLink(
            LinkPower("mybench", 10.1, 5.1, 201.0), COVARIANCE, math.inf, 0.0136, "SP2-7, gain 1, u 0.0136"
        )
    },
    (0.1, 0.2, 3.0),
)


def test_a_written_model_is_read_back(tmp_path):
    write_link_model(tmp_path / "links" / "mybench.toml", MODEL)
    assert read_link_model(tmp_path / "links" / "mybench.toml") == MODEL


def test_a_model_is_found_by_its_name_by_its_file_or_built_in(tmp_path):
    path = tmp_path / "links" / "mybench.toml"
    write_link_model(path, MODEL)
    assert load_link_model("mybench", tmp_path) == MODEL
    assert load_link_model(str(path)) == MODEL
    assert load_link_model("links/mybench.toml", tmp_path) == MODEL
    assert load_link_model("mohawk") is MOHAWK


def test_an_unknown_name_is_told_the_known_ones(tmp_path):
    write_link_model(tmp_path / "links" / "mybench.toml", MODEL)
    with pytest.raises(ConfigError, match="one of mohawk, mybench, did you mean mybench"):
        load_link_model("mybanch", tmp_path)


def test_every_mistake_of_a_file_is_told(tmp_path):
    path = tmp_path / "wrong.toml"
    path.write_text(
        'format = 2\nname = "x"\ncolour = "red"\n'
        '[links.any]\nalpha_up_mw_per_mbit_s = "ten"\nalpha_down_mw_per_mbit_s = 5\nbeta_mw = nan\n'
    )
    with pytest.raises(ConfigError) as error:
        read_link_model(path)
    text = str(error.value)
    assert len(error.value.problems) == 4
    for key in ("format", "colour", "alpha_up_mw_per_mbit_s", "beta_mw"):
        assert key in text
    assert text.count(str(path)) == 4


@pytest.mark.parametrize(
    "rows",
    ["[[1.0, 0.0], [0.0, 1.0]]", "[[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]",
     "[[-1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]"],
)  # fmt: skip
def test_a_covariance_that_is_none_is_refused(tmp_path, rows):
    path = tmp_path / "wrong.toml"
    path.write_text(
        'format = 1\nname = "x"\n[links.any]\nalpha_up_mw_per_mbit_s = 1.0\nalpha_down_mw_per_mbit_s = 1.0\n'
        f"beta_mw = 1.0\ncovariance = {rows}\n"
    )
    with pytest.raises(ConfigError, match=r"links\.any\.covariance: expected 3 rows of 3 numbers"):
        read_link_model(path)


def test_bytes_that_are_no_toml_are_refused_with_the_files_name(tmp_path):
    path = tmp_path / "noise.toml"
    path.write_bytes(b"\xff\x00[[[")
    with pytest.raises(ConfigError, match=r"noise\.toml: UTF-16, expected UTF-8"):
        read_link_model(path)
