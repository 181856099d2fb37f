"""Decentralised experiment files: all mistakes at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from peers_file import PEERS, peers_file
from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment


def problems_of(folder: Path, text: str) -> tuple[str, ...]:
    with pytest.raises(ConfigError) as caught:
        load_experiment(peers_file(folder, text))
    return without_lines(caught.value.problems)


def test_all_mistakes_of_a_decentralised_file_are_told_at_once(tmp_path: Path) -> None:
    text = PEERS.replace('"metropolis_hastings"]', '"mohawk"]')
    text = text.replace("mobile = 2", "mobile = 9").replace('"full_batch"', '"whole"')
    text = text.replace("workers = 1", 'workers = 1, backend = "stacked"') + "contacts = { radius = -1.0 }\n"
    problems = "\n".join(problems_of(tmp_path, text))
    assert (
        "peers.toml: systems: expected decentralised systems only beside d_psgd, or none, got mohawk"
        in problems
    )
    assert "mobility.mobile: expected at most the 5 devices, got 9" in problems
    assert 'decentralised.half_step: expected one of "mini_batch", "full_batch", "epochs"' in problems
    assert "contacts.radius" in problems
    assert 'learning.momentum: expected 0 beside simulated.backend = "stacked"' in problems


def test_movers_that_go_by_the_data_of_others_need_somebody_who_stays(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, PEERS.replace("mobile = 2", "mobile = 5"))
    assert problem.endswith('expected fewer than the 5 devices: "dcm" goes where static devices are')


def test_all_devices_of_a_trace_make_sense_only_where_there_is_one(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, PEERS.replace("agents = 5", "agents = 0"))
    assert 'fleet.agents: expected a number of devices beside mobility.model = "dcm"' in problem


def test_adam_is_refused(tmp_path: Path) -> None:
    (problem,) = problems_of(tmp_path, PEERS.replace("images_per", 'optimiser = "adam", images_per'))
    assert 'learning.optimiser: expected "sgd"' in problem
