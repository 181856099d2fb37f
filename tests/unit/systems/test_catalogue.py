from __future__ import annotations

import math

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.trace import Trace
from roambench.systems.catalogue import SYSTEMS, make_system
from roambench.systems.options import SystemOptions
from roambench.systems.system import CloudInput, Participants, SyncRule, UploadRule

OF_EXTRAS = ("eafl", "fedzero", "refl")


@pytest.fixture
def trace():
    """Device 0 stands at AP 1, device 1 at AP 0."""
    return Trace(
        steps=1,
        step_s=3600.0,
        device_names=("d0", "d1"),
        step=np.zeros(2, np.int32),
        device=np.array([0, 1], np.int32),
        x_m=np.array([90.0, 10.0]),
        y_m=np.zeros(2),
        ap_names=("a0", "a1"),
        ap_x_m=np.array([0.0, 100.0]),
        ap_y_m=np.zeros(2),
    )


def test_mohawk_goes_to_the_nearest_ap_and_hierfavg_stays_with_its_own(trace):
    mohawk, hierfavg = (make_system(name, SystemOptions()) for name in ("mohawk", "hierfavg"))
    assert mohawk.association(trace, 0).placement(0).aps.tolist() == [1, 0]
    assert hierfavg.association(trace, 0).placement(0).aps.tolist() == [0, 1]


def test_the_rows_say_what_the_table_of_the_papers_says():
    mohawk, hierfavg = (make_system(name, SystemOptions(k1=4, k2=3)) for name in ("mohawk", "hierfavg"))
    assert mohawk.cloud_participants is Participants.AGGREGATED
    assert hierfavg.cloud_participants is Participants.ALL
    for system in (mohawk, hierfavg):
        assert (system.training.epochs, system.k2, system.training.objective) == (4, 3, "ce")
        assert system.upload is UploadRule.NEXT_STEP
        assert system.sync is SyncRule.APS
        assert not system.lookahead


def test_every_row_is_called_as_it_calls_itself():
    assert {name: make_system(name, SystemOptions()).name for name in SYSTEMS.own} == {
        n: n for n in SYSTEMS.own
    }


def test_the_cloud_is_due_every_k2_steps_but_never_before_anything_was_trained():
    system = make_system("mohawk", SystemOptions(k2=3))
    assert [step for step in range(10) if system.cloud_due(step)] == [3, 6, 9]


def test_nobody_trains_at_the_last_step_because_the_model_could_not_be_sent():
    system = make_system("hierfavg", SystemOptions())
    assert [system.trains_at(step, 3) for step in range(3)] == [True, True, False]


def test_an_unknown_system_is_answered_with_the_names_there_are():
    known = ", ".join(SYSTEMS.names())
    with pytest.raises(ConfigError, match=rf"'mowhawk': expected one of {known}"):
        make_system("mowhawk", SystemOptions())


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with two rows, installed as pip would: a module and its dist-info."""
    (tmp_path / "ours.py").write_text(
        "from dataclasses import replace\n"
        "from roambench.systems.catalogue import SYSTEMS\n"
        "def lazy(options):\n"
        "    return replace(SYSTEMS.load('mohawk')(options), name='lazy')\n"
    )
    info = tmp_path / "ours-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[roambench.systems]\nlazy = ours:lazy\nbroken = ours:missing\n")
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.usefixtures("installed")
def test_an_installed_package_adds_its_systems():
    assert SYSTEMS.names() == tuple(sorted({*SYSTEMS.own, *OF_EXTRAS, "broken", "lazy"}))
    assert make_system("lazy", SystemOptions(k1=2)).training.epochs == 2
    assert make_system("lazy", SystemOptions()).name == "lazy"


@pytest.mark.usefixtures("installed")
def test_a_system_that_cannot_be_loaded_says_which_and_why():
    with pytest.raises(ConfigError, match=r"'broken' \(ours ours:missing\) cannot be loaded: .*missing"):
        make_system("broken", SystemOptions())


def test_macfl_wanders_along_the_ring_and_weighs_by_attention_everywhere(trace):
    macfl = make_system("macfl", SystemOptions())
    assert macfl.association(trace, 3).placement(0).aps.tolist() == [0, 1]
    assert macfl.cloud_participants is Participants.ALL
    reference = np.array([1.0, 0.0], dtype=np.float32)
    models = [np.array(model, dtype=np.float32) for model in ((2, 0), (0, 2))]
    attentive = macfl.cloud_weights(CloudInput(reference, (0, 1), models, [1, 9], [1, 9], 2))[1]
    # exp(-0.1 cos): exp(-0.1) against 1.
    assert attentive[0] == pytest.approx(1 / (1 + math.exp(0.1)))
    plain = make_system("macfl", SystemOptions(macfl_cloud="mean"))
    equal = plain.cloud_weights(CloudInput(reference, (0, 1), models, [1, 9], [1, 9], 2))[1]
    assert equal.tolist() == [0.5, 0.5]


def test_fedprox_is_an_objective_of_any_system_that_trains_on_plain_cross_entropy():
    for name in ("fedavg", "hierfavg", "macfl", "mohawk"):
        assert make_system(name, SystemOptions(proximal=0.25)).training.objective == "fedprox:mu=0.25"


def test_ties_of_the_nearest_ap_are_drawn_if_asked():
    middle_of_the_road = Trace(
        steps=60,
        step_s=3600.0,
        device_names=("d0",),
        step=np.arange(60, dtype=np.int32),
        device=np.zeros(60, np.int32),
        x_m=np.full(60, 50.0),
        y_m=np.zeros(60),
        ap_names=("a0", "a1"),
        ap_x_m=np.array([0.0, 100.0]),
        ap_y_m=np.zeros(2),
    )
    for name in ("mohawk", "middle"):
        lowest, drawn = (make_system(name, SystemOptions(ties=ties)) for ties in ("lowest", "random"))
        assert set(lowest.association(middle_of_the_road, 1).aps.tolist()) == {0}
        assert set(drawn.association(middle_of_the_road, 1).aps.tolist()) == {0, 1}
