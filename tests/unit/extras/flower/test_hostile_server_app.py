"""A ServerApp that lies, floods or looks for keys ends its own run, and the controller goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flower_apps import experiment_of, played, values_of, written_app
from roambench.agent.orders.program_host import landlock_abi
from roambench.agent.orders.program_process import hidden_from_programs
from roambench.contract.errors import ConfigError, RoambenchError
from roambench.extras.flower.app import read_app
from roambench.extras.flower.training import first_message

pytestmark = pytest.mark.lengthy

SERVER = """
import os

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


def message(node, size, kind="train"):
    arrays = ArrayRecord()
    arrays["w"] = Array(np.zeros(size, np.float32))
    return Message(RecordDict({"arrays": arrays, "config": ConfigRecord({"lr": 0.1})}), node, kind)


@app.main()
def main(grid, context):
    nodes = list(grid.get_node_ids())
"""
FLOOD = "    grid.push_messages(message(nodes[0], 200_000) for _ in range(4))\n"
HUGE = "    grid.push_messages([message(nodes[0], 10_000_000)])\n"
GARBAGE = "    os.write(4, b'M' + (9).to_bytes(8, 'big') + bytes(9))\n    grid.get_node_ids()\n"
BITS = "    os.write(4, b'T' + (9).to_bytes(8, 'big') + bytes([255] * 9))\n"
DEATH = "    os._exit(3)\n"


def of_one(app: Path) -> dict[str, Any]:
    return values_of(app, 2, {}, program={"message_mib": 1})


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (FLOOD, "sends more at once than a message of program.message_mib = 1 to each of 2 nodes"),
        (HUGE, "its program sent 40,0"),
        (GARBAGE, "sent a frame that cannot be read"),
        (DEATH, r"its program ended \(exit status 3\)"),
    ],
    ids=["flood", "huge", "garbage", "death"],
)
def test_it_ends_its_own_run_with_a_sentence(does: str, expected: str, tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    (app / "squares/server_app.py").write_text(SERVER + does)
    with pytest.raises(RoambenchError, match=f"ServerApp.*{expected}"):
        played(of_one(app), tmp_path / "runs")


@pytest.mark.parametrize(
    ("does", "expected"),
    [
        (HUGE, "its program sent 40,0"),
        (BITS, "it ended without a message to train"),
        (DEATH, r"its program ended \(exit status 3\)"),
    ],
    ids=["huge", "garbage", "death"],
)
def test_one_that_shall_say_the_form_of_its_models_does_not_hurt_either(
    does: str, expected: str, tmp_path: Path
) -> None:
    app = written_app(tmp_path, "least-squares")
    (app / "squares/server_app.py").write_text(SERVER + does)
    experiment = experiment_of(of_one(app))
    with pytest.raises(ConfigError, match=expected):
        first_message(experiment, read_app(app, {}), 2)


@pytest.mark.skipif(landlock_abi() < 2, reason="a kernel without Landlock hides nothing")
def test_it_cannot_read_what_the_controller_hides(tmp_path: Path) -> None:
    app = written_app(tmp_path, "least-squares")
    (tmp_path / "bench").mkdir()
    key = tmp_path / "bench/signer.pem"
    key.write_text("secret")
    (app / "squares/server_app.py").write_text(SERVER + f"    open({str(key)!r}).read()\n")
    with hidden_from_programs([key.parent]), pytest.raises(RoambenchError, match="PermissionError"):
        played(of_one(app), tmp_path / "runs")
