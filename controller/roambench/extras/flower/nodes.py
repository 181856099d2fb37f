"""Devices as Flower's nodes: their ids, their configuration, and the settings of their ClientApps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from roambench.contract.program_spec import ProgramSpec
from roambench.experiment.program_section import ProgramSection
from roambench.extras.flower.app import FlowerApp

#: A device's node id is its index and this; 0 and 1 are Flower's own.
FIRST_NODE: Final = 1000
#: Any number: it tells runs apart, and here each has separate processes.
RUN_ID: Final = 1


def node_id(device: int) -> int:
    """The node that the device is."""
    return FIRST_NODE + device


def node_config(device: int, devices: int) -> dict[str, int]:
    """The configuration of the device's node."""
    return {"partition-id": device, "num-partitions": devices}


def client_settings(app: FlowerApp, device: int, devices: int, seed: int) -> dict[str, Any]:
    """The settings of a device's ClientApp, as `client_process` takes them."""
    return {
        "clientapp": app.clientapp,
        "run_config": dict(app.run_config),
        "run_id": RUN_ID,
        "seed": seed,
        "node_id": node_id(device),
        "node_config": node_config(device, devices),
    }


def spec_of(section: ProgramSection, folder: Path, settings: Mapping[str, Any]) -> ProgramSpec:
    """The program of those settings and files, with the limits that the experiment gives."""
    return ProgramSpec(
        section.name,
        json.dumps(settings, sort_keys=True),
        str(folder),
        section.python,
        section.memory_mib * 2**20,
        section.message_mib * 2**20,
    )
