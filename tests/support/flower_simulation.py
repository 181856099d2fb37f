"""Run by an interpreter with flwr and Ray: an app in Flower's own simulation, and nothing of roambench."""

from __future__ import annotations

import json
import os
import random
import sys
from pathlib import Path

os.environ["FLWR_TELEMETRY_ENABLED"] = "0"
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

from flwr.app import Context, RecordDict
from flwr.common.config import get_fused_config_from_dir, get_project_config
from flwr.simulation.run_simulation import _run_simulation
from flwr.supercore.constant import NOOP_FEDERATION_ID
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.supercore.telemetry import EventType


def main() -> None:
    about = json.loads(sys.argv[1])
    folder = Path(about["app"])
    components = get_project_config(folder)["tool"]["flwr"]["app"]["components"]
    config = get_fused_config_from_dir(folder, about["config"])
    run = Run.create_empty(1)
    run.primary_task_id, run.federation_id, run.override_config = 1, NOOP_FEDERATION_ID, about["config"]
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    random.seed(about["seed"])
    _run_simulation(
        about["nodes"],
        EventType.PYTHON_API_RUN_SIMULATION_LEAVE,
        client_app_attr=components["clientapp"],
        server_app_attr=components["serverapp"],
        server_app_context=Context(1, 1, {}, RecordDict(), config),
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0}, "init_args": {"num_cpus": 1}},
        app_dir=str(folder),
        run=run,
        is_app=True,
    )


main()
