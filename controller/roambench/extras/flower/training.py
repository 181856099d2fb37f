"""A ClientApp that trains in our own systems: its model, its first numbers and its programs."""

from __future__ import annotations

import asyncio
import base64
import json
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import numpy as np

from roambench.agent.orders.program_host import REFUSAL
from roambench.agent.orders.program_process import ProgramEnded
from roambench.contract.errors import ConfigError
from roambench.contract.json_values import json_or_none
from roambench.contract.printable import printable
from roambench.contract.program_spec import ProgramSpec
from roambench.experiment.sections import Experiment
from roambench.extras.flower.app import FlowerApp, read_app, require_flwr
from roambench.extras.flower.nodes import client_settings, node_config, node_id, spec_of
from roambench.extras.flower.server_app import server_app
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
    """The form of the app's first message to train, and the first numbers. ConfigError for an app that sends
    none."""
    settings = {
        **client_settings(app, 0, devices, experiment.seed),
        "folder": str(app.folder),
        "serverapp": app.serverapp,
        "nodes": [(node_id(device), node_config(device, devices)) for device in range(devices)],
    }
    most_bytes, where = experiment.program.message_mib * 2**20, f"ServerApp of {app.name}"
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as thread:
        # In another loop: this one may be running.
        asked = thread.submit(asyncio.run, _first_frame(experiment, Path(folder), json.dumps(settings)))
        try:
            letter, answer = asked.result()
        except TimeoutError:
            raise ConfigError([f"{where}: sent no message to train within {_LIMIT_S:.0f} s"]) from None
        except ProgramEnded as error:
            raise ConfigError([f"{where}: no message to train: {printable(str(error))}"]) from None
    if letter == REFUSAL:
        raise ConfigError([f"{where}: {printable(answer.decode(errors='replace'))}"])
    line, _, numbers = answer.partition(b"\n")
    found = json_or_none(dict[str, Any], line) if letter == b"T" else None
    if found is None:
        raise ConfigError([f"{where}: it ended without a message to train"])
    if len(numbers) > most_bytes:
        raise ConfigError([f"program.message_mib: expected room for a model of {len(numbers):,} bytes"])
    return found, numbers


async def _first_frame(experiment: Experiment, folder: Path, settings: str) -> tuple[bytes, bytes]:
    section = experiment.program
    process = await server_app(section, settings, folder / "server-app", folder / "log", _MOST_HEADER_BYTES)
    try:
        async with asyncio.timeout(_LIMIT_S):
            return await process.receive()
    finally:
        await process.end()
