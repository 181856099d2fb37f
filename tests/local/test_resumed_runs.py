"""Runs whose controller is killed with -9, again and again, end as if nothing had been."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from roambench.runner.model_files import GLOBAL_MODEL
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunState
from roambench.runs.models import load_model

from .resumed import KILLS, command, ended, killed_at_random, killed_when, rows, story

pytestmark = pytest.mark.timeout(900)

#: Devices have models of their own, and steps take a while.
ROUNDS = """
name = "cut"
seed = 5
systems = ["middle"]
rounds.cloud_every_steps = 2
trace = { generator = "city", steps = 9, parameters = { presence = "always", devices = 5 } }
fleet = { agents = 5, aps = 3 }
learning = { dataset = "digits", model = "mlp", images_per_device = 100, test_images = 50, local_epochs = 5 }
simulated = { workers = 2 }
"""
#: Its server keeps two vectors and every device one, and another travels with every model.
KEPT = ROUNDS.replace('"middle"', '"fedadam"').replace(" }\nsimulated", ", momentum = 0.0 }\nsimulated")
KEPT += 'algorithm.local = "scaffold"\n'
#: Codecs keep what they have yet to send on devices, and versions that differences are of.
CODED = ROUNDS + 'links = { codec_up = "topk:0.05", codec_down = "int8" }\n'
#: Velocities stay on the devices from one exchange to the next.
PEERS = """
name = "cut"
seed = 5
systems = ["d_psgd"]
fleet = { agents = 4 }
learning.dataset = "digits"
learning.model = "mlp"
learning.images_per_device = 100
learning.test_images = 50
learning.local_epochs = 5
learning.momentum = 0.9
mobility = { model = "reflected_walk" }
decentralised = { iterations = 9, evaluate_every = 4, half_step = "epochs" }
simulated = { workers = 2 }
"""


def tables(run: Path) -> dict[str, object]:
    found = {path.name: pq.read_table(path) for path in run.glob("*.parquet")}
    return {
        name: table.drop_columns(["wall_s"]) if name == "steps.parquet" else table
        for name, table in found.items()
    }


@pytest.mark.parametrize(
    ("text", "system"), [(ROUNDS, "middle"), (KEPT, "fedadam"), (CODED, "middle"), (PEERS, "d_psgd")]
)
def test_a_run_that_is_killed_again_and_again_ends_as_one_left_alone(
    tmp_path: Path, text: str, system: str
) -> None:
    file = tmp_path / "cut.toml"
    file.write_text(text)
    begin = ("run", str(file), "--fleet", "simulated", "--runs-dir")
    whole, run = (tmp_path / name / f"cut/latest/{system}" for name in ("whole", "killed"))
    with command(tmp_path, *begin, str(run.parents[2])) as process:
        # In the third step.
        asked = lambda: rows(run, "StepOpened") > 2 and (run / "checkpoint.json").is_file()  # noqa: E731
        killed_when(tmp_path, process, asked)
    closed = rows(run, "StepClosed")
    with command(tmp_path, "resume", str(run)) as process:
        killed_when(tmp_path, process, lambda: rows(run, "RunResumed") == 1)  # before anything is ready
    with command(tmp_path, "resume", str(run)) as process:
        killed_when(tmp_path, process, lambda: rows(run, "StepClosed") > closed + 1)
    state = RunFolder.open(run).info.state
    assert state is RunState.INTERRUPTED
    with (
        command(tmp_path, *begin, str(whole.parents[2])) as alone,
        command(tmp_path, *begin, str(run.parents[2])) as again,  # the same command goes on by itself
    ):
        ended(tmp_path, alone)
        ended(tmp_path, again)
    assert rows(run, "RunResumed") == 3
    assert [path.name for path in run.parent.iterdir() if path.is_dir()] == [run.name]
    assert story(run) == story(whole)
    assert (load_model(run / GLOBAL_MODEL) == load_model(whole / GLOBAL_MODEL)).all()
    assert tables(run) == tables(whole)
    assert not (run / "checkpoint.json").exists()
    assert not (run / "simulation").exists()


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("text", "system"), [(ROUNDS, "middle"), (PEERS, "d_psgd")])
def test_kills_at_random_moments(tmp_path: Path, text: str, system: str) -> None:
    """Of which some come before a resumed run is ready, and some in what follows its last step."""
    file, whole = tmp_path / "cut.toml", tmp_path / "whole" / f"cut/latest/{system}"
    file.write_text(text)
    begin = ("run", str(file), "--fleet", "simulated", "--runs-dir")
    with command(tmp_path, *begin, str(whole.parents[2])) as process:
        ended(tmp_path, process)
    for run in killed_at_random(
        tmp_path, begin, f"cut/latest/{whole.name}", seed=14, kills=KILLS, longest_s=8.0
    ):
        assert story(run) == story(whole)
        assert (load_model(run / GLOBAL_MODEL) == load_model(whole / GLOBAL_MODEL)).all()
        assert tables(run) == tables(whole)
