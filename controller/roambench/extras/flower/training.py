"""A ClientApp that trains in our own systems: its model, its first numbers and its programs."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from roambench.agent.orders import program_host
from roambench.agent.orders.program_host import HEADER_BYTES, REFUSAL, SETTINGS
from roambench.contract.errors import ConfigError
from roambench.contract.printable import printable
from roambench.contract.program_spec import ProgramSpec
from roambench.experiment.sections import Experiment
from roambench.extras.flower import first_process
from roambench.extras.flower.app import FlowerApp, read_app, require_flwr
from roambench.extras.flower.nodes import client_settings, node_config, node_id, spec_of
from roambench.runner.world import LearningTask, ProgramModel, task_of_programs

_LIMIT_S: Final = 3600.0
_MOST_HEADER_BYTES: Final = 2**24


def task_of_client_app(experiment: Experiment, devices: int) -> LearningTask:
    """The task whose model is that of the app's first message to train. ConfigError for what is no app, where
    flwr is missing, and for an app that has no such message."""
    section = experiment.program
    app = read_app(Path(section.folder or "."), section.settings)
    require_flwr(section.python)
    about, numbers = first_message(experiment, app, devices)
    form = about["form"]

    def spec(device: int, **more: Any) -> ProgramSpec:
        usual = client_settings(app, device, devices, experiment.seed)
        return spec_of(section, app.folder, {**usual, "model": form, **more})

    travelling = [(name, tuple(shape)) for name, dtype, shape in form["tensors"] if dtype is not None]
    scores = [(node_id(device), node_config(device, devices)) for device in range(devices)]
    model = ProgramModel(
        tuple(name for name, _ in travelling),
        tuple(shape for _, shape in travelling),
        np.frombuffer(numbers, "<f4").astype(np.float32),
        {
            name: np.frombuffer(base64.b64decode(body), dtype).reshape(shape)
            for name, (dtype, shape, body) in about["kept"].items()
        },
        spec(0, scores=scores),
    )
    programs = tuple(spec(device) for device in range(devices))
    return task_of_programs(programs, channels_last=experiment.learning.channels_last, model=model)


def first_message(experiment: Experiment, app: FlowerApp, devices: int) -> tuple[Mapping[str, Any], bytes]:
    """The answer of `first_process` about the app, and the first numbers. ConfigError where it refuses."""
    settings = {
        **client_settings(app, 0, devices, experiment.seed),
        "folder": str(app.folder),
        "serverapp": app.serverapp,
        "nodes": [(node_id(device), node_config(device, devices)) for device in range(devices)],
    }
    body = json.dumps(settings).encode()
    command = [experiment.program.python or sys.executable, "-P", str(Path(program_host.__file__).resolve())]
    command += [str(Path(first_process.__file__).resolve()), "run", "0", "[]"]
    sent, where = SETTINGS + len(body).to_bytes(8, "big") + body, f"ServerApp of {app.name}"
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command, input=sent, capture_output=True, cwd=folder, check=False, timeout=_LIMIT_S
            )
        except subprocess.TimeoutExpired:
            raise ConfigError([f"{where}: sent no message to train within {_LIMIT_S:.0f} s"]) from None
    letter, answer = done.stdout[:1], done.stdout[HEADER_BYTES:]
    if letter == REFUSAL:
        raise ConfigError([f"{where}: {printable(answer.decode(errors='replace'))}"])
    line, _, numbers = answer.partition(b"\n")
    if letter != b"T" or len(line) > _MOST_HEADER_BYTES:
        said = printable(done.stderr.decode(errors="replace").strip().rpartition("\n")[2])[:200]
        raise ConfigError([f"{where}: ended before it sent a message to train: {said}"])
    if len(numbers) > experiment.program.message_mib * 2**20:
        raise ConfigError([f"program.message_mib: expected room for a model of {len(numbers):,} bytes"])
    found: Mapping[str, Any] = json.loads(line)
    return found, numbers
