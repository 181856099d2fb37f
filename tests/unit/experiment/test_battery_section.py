"""Mistakes of `[battery]`, and fleets that have no batteries."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.runner.places.table import refuse_unfit
from roambench.runs.fleet_kinds import FLEET_KINDS

OFF_AT_HALF = "[battery]\ncapacity_wh = 1.0\ncut_off = 0.5\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[battery]\nstart = 0.5\n", "capacity_wh: expected a number > 0 beside"),
        (OFF_AT_HALF + "back_at = 0.5\n", "back_at: expected more than cut_off = 0.5, got 0.5"),
        (OFF_AT_HALF + "start = 0.2\nback_at = 1.0\n", "start: expected more than cut_off = 0.5"),
        ('[battery]\ncapacity_wh = 1.0\ncharging = "always"\n', "charge_w: expected a number > 0"),
        ("[battery]\ncapacity_wh = 1.0\ncharge_w = 1.0\n", "charging: expected when it is charged"),
        (
            '[battery]\ncapacity_wh = 1.0\ncharging = "hours"\ncharge_w = 1.0\ncharge_from_h = 6.0\n',
            "charge_until_h: expected another hour",
        ),
        ("[rounds]\nlookahead = true\n[battery]\ncapacity_wh = 1.0\n", "lookahead: expected false"),
        ('systems = ["d_psgd"]\n[battery]\ncapacity_wh = 1.0\n', "expected systems with access points"),
    ],
)
def test_mistakes_name_key_and_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "cells.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    assert any(said in problem and file.name in problem for problem in caught.value.problems), caught.value


def test_a_fleet_without_joules_has_no_batteries(tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    file.write_text("[battery]\ncapacity_wh = 1.0\n")
    experiment = load_experiment(file)
    for name in sorted(FLEET_KINDS.keys() - {"rehearsal"}):
        refuse_unfit(experiment, FLEET_KINDS[name])
    with pytest.raises(ConfigError, match="rehearsal draws no joules"):
        refuse_unfit(experiment, FLEET_KINDS["rehearsal"])


def test_a_board_that_is_not_emulated_can_only_be_absent(tmp_path: Path) -> None:
    file = tmp_path / "cells.toml"
    meter = '[local.meters.pi-01]\ndriver = "smartpower2"\nport = "/dev/ttyUSB0"\n'
    text = f"[local]\ntime_scale = 1.0\n{meter}[battery]\ncapacity_wh = 1.0\n"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r'cut the power of pi-01 .*: expected cut = "absent"'):
        refuse_unfit(load_experiment(file), FLEET_KINDS["local"])
    file.write_text(text + 'cut = "absent"\n')
    refuse_unfit(load_experiment(file), FLEET_KINDS["local"])
