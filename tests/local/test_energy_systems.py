"""EAFL, REFL and FedZero on virtual devices with batteries, over a kill of the controller and a replay."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.rounds.records import BatteriesSeen, EnergySeen

from .resumed import command, ended, killed_when, rows, story
from .test_batteries import BATTERY, ROUNDS, log_of, models_are_equal, played, trained

pytestmark = pytest.mark.timeout(600)

NUMBERS = {
    "eafl": "f = 0.25",
    "refl": "hold_off_steps = 1\nperiod_steps = 4",
    "fedzero": "clients = 3\nmidnight_step = -12\nexcess_j = 30.0\ntraining_j = 10.0",
}


@pytest.mark.parametrize("system", NUMBERS)
def test_a_killed_run_and_a_replay_end_with_the_model_of_the_run(system: str, tmp_path: Path) -> None:
    rounds = ROUNDS.replace('"mohawk"', f'"{system}"')
    numbers = f"\n[algorithm]\nper_ap = 1\n[algorithm.{system}]\n{NUMBERS[system]}\n"
    whole = played(tmp_path, "whole", rounds + BATTERY + numbers, system)
    seen = list(log_of(whole).only(BatteriesSeen))
    assert any(one.off for one in seen)
    by_step = {step: {device for at, device in trained(whole) if at == step} for step, _ in trained(whole)}
    assert len(by_step) > 4
    assert len(set(map(frozenset, by_step.values()))) > 2
    assert bool(list(log_of(whole).only(EnergySeen))) is (system != "refl")

    run = tmp_path / "killed/cells/latest" / system
    begin = ("run", str(tmp_path / "whole.toml"), "--fleet", "simulated", "--runs-dir", str(run.parents[2]))
    with command(tmp_path, *begin) as process:
        begun = lambda: rows(run, "BatteriesSeen") > 4 and (run / "checkpoint.json").is_file()  # noqa: E731
        killed_when(tmp_path, process, begun)
    with command(tmp_path, "resume", str(run)) as process:
        ended(tmp_path, process)
    assert rows(run, "RunResumed") == 1
    assert story(run) == story(whole)
    assert models_are_equal(run, whole)

    orders = f'rounds.cloud_every_steps = 2\nrounds.orders = "replay:{whole}"'
    again = played(
        tmp_path, "again", rounds.replace("rounds.cloud_every_steps = 2", orders) + numbers, system
    )
    assert trained(again) == trained(whole)
    assert models_are_equal(again, whole)
