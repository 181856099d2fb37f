"""Who trains: top K at every AP, by each paper's own measure, ties drawn by a key."""

import math

import numpy as np
import pytest

from roambench.systems import choices
from roambench.systems.system import Candidates, PastTraining, Training


def offered(past: dict[int, PastTraining], *, step: int = 9, sync: int = 4, seed: int = 1) -> Candidates:
    """Devices 0..3 at AP 0, devices 4 and 5 at AP 2."""
    return Candidates(step, seed, (0, 1, 2, 3, 4, 5), (0, 0, 0, 0, 2, 2), past, sync, (50.0,) * 6)


def trained(samples: int = 30, mean_squared_loss: float = 0.25) -> Training:
    return Training(1, 6, 0, "order", samples, 0.4, mean_squared_loss)


def test_every_ap_trains_its_own_best_k_and_all_it_has_if_there_are_fewer():
    past = {
        device: PastTraining(6, 0, utility) for device, utility in enumerate([5.0, 9.0, 7.0, 1.0, 2.0, 3.0])
    }
    assert choices.top_k(3, choices.most_useful).choose(offered(past)) == [1, 2, 0, 5, 4]


def test_oort_takes_whoever_never_trained_first():
    past = {0: PastTraining(6, 0, 1e9), 1: PastTraining(6, 0, 1.0), 3: PastTraining(6, 0, 2.0)}
    assert choices.top_k(2, choices.most_useful).choose(offered(past))[:2] == [2, 0]


def test_oorts_utility_is_samples_times_the_root_of_the_mean_squared_loss():
    nothing = np.zeros(1, dtype=np.float32)
    assert choices.statistical_utility(trained(30, 0.25), nothing, nothing) == 15.0


def test_middle_prefers_the_update_that_resembles_the_global_model_least():
    past = {0: PastTraining(6, 0, 0.9), 1: PastTraining(6, 0, 0.2), 2: PastTraining(6, 0, 0.5)}
    past[3] = PastTraining(6, 0, 0.1)
    assert choices.top_k(2, choices.least_similar).choose(offered(past))[:2] == [3, 1]


def test_middle_forgets_what_was_trained_before_the_last_cloud_aggregation():
    # Trained at step 4, aggregated by the cloud at the end of step 4: the device holds the global model.
    assert choices.least_similar(PastTraining(4, 0, 0.9), 4) == 0.0
    assert choices.least_similar(PastTraining(5, 0, 0.9), 4) == -0.9
    assert choices.least_similar(None, -1) == 0.0


def test_middles_similarity_is_that_of_the_update_and_never_negative():
    globally = np.array([3.0, 4.0], dtype=np.float32)
    # The update is (1, 0): cos = 3/5.
    model = np.array([4.0, 4.0], dtype=np.float32)
    assert choices.update_similarity(trained(), model, globally) == pytest.approx(0.6)
    back = np.array([2.0, 4.0], dtype=np.float32)
    assert choices.update_similarity(trained(), back, globally) == 0.0
    assert choices.update_similarity(trained(), globally, globally) == 0.0


def test_ties_are_drawn_anew_at_every_step_and_the_same_way_for_one_seed():
    rule = choices.random_k(2)
    drawn = {tuple(rule.choose(offered({}, step=step))[:2]) for step in range(60)}
    assert len(drawn) > 8  # 12 ordered pairs of 4 devices
    assert rule.choose(offered({}, step=3)) == rule.choose(offered({}, step=3))
    shares = np.bincount(
        [device for step in range(2000) for device in rule.choose(offered({}, step=step))[:2]], minlength=4
    )
    assert shares == pytest.approx([1000] * 4, abs=4 * math.sqrt(2000 * 0.25))


def test_a_device_absent_from_the_list_is_never_chosen():
    candidates = Candidates(1, 1, (7,), (3,), {}, -1, (50.0,))
    assert choices.random_k(5).choose(candidates) == [7]
