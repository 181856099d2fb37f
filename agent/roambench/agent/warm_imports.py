"""The imports that agents share: their fork server makes them once before it
forks, and they share the pages.

After the fork each of them paid for it alone: 10.5 MB of its own and 0.11 CPU-seconds per agent, a third of
them for certificates (Rust and OpenSSL). grpc is not among it, nor is anything that imports grpc: forked
children of a process that holds it hang.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from importlib import import_module
from typing import Final

from roambench.agent.settings import AgentSettings
from roambench.contract.errors import ConfigError
from roambench.meters.catalogue import METERS

#: For every agent; a meter logger has no more.
_READER: Final = ("roambench.agent.meter_reader", "roambench.agent.stores")
#: For agents with a controller.
_ORDERED: Final = (
    "roambench.agent.ctl_handler",
    "roambench.agent.held_model",
    "roambench.agent.host_metrics",
    "roambench.agent.identity_files",
    "roambench.agent.peer_inbox",
    "roambench.agent.peer_mix",
    "roambench.agent.peer_offers",
    "roambench.agent.peer_traffic",
    "roambench.agent.model_cache",
    "roambench.agent.timeline",
    "roambench.wire.frames",
    "roambench.wire.v1.data_pb2",
    "roambench.wire.v1.methods",
    "roambench.wire.v1.peer_pb2",
)


def import_for(agents: Sequence[AgentSettings]) -> None:
    """Import what `agents` have in common, and their meters' drivers (an unknown one is theirs to report)."""
    for module in _READER:
        import_module(module)
    for driver in {settings.meter.driver for settings in agents if settings.meter.port}:
        with contextlib.suppress(ConfigError):
            METERS.load(driver)
    if any(settings.influxdb is not None for settings in agents):
        import_module("influxdb_client")  # half a second
    if any(settings.controller for settings in agents):  # meter loggers take no orders
        for module in _ORDERED:
            import_module(module)
