"""`rounds.orders = "replay:RUN"`: who trains at each step is who trained in an earlier run.

Of a system's choices selection alone may read models (losses, angles), and models of a float32 fleet differ
from machine to machine in their last digits: so two fleets may select differently, and then differ in
everything. Replayed, they are given equal orders, and what differs is the fleets' alone.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Final

from roambench.contract.counts import count
from roambench.contract.errors import ConfigError
from roambench.experiment.rounds_section import REPLAY
from roambench.rounds.records import BatteriesSeen, EnergyRules, EnergySeen, OrderGiven
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo, RunState
from roambench.systems.system import Candidates, Selected, System

_KEY: Final = "rounds.orders"


def replayed_log(orders: str, system: str) -> Path | None:
    """The event log of the run that `orders` names for the system; None where it names no run."""
    if not orders.startswith(REPLAY):
        return None
    return Path(orders.removeprefix(REPLAY).replace("{system}", system)) / "events.sqlite"


def with_orders(
    system: System, orders: str, *, name: str, seed: int, trace_hash: str, devices: int
) -> System:
    """`system` as it is, or with the selection of the run that `orders` names ({system}: the system's name).

    ConfigError lists in what that run was another experiment.
    """
    if (log := replayed_log(orders, name)) is None:
        return system
    with RunFolder.open(log.parent) as folder:
        _refuse_another(folder, name, seed, trace_hash, devices)
        trained, plain = _trained(folder), _plain(folder)

    def as_they_were(offered: Candidates) -> Selected:
        sent = plain.get(offered.step, ())
        return Selected([device for device in offered.devices if device in sent], offered.memory)

    def choose(offered: Candidates) -> Selected:
        then = trained.get(offered.step, {})
        chosen = [device for device in offered.devices if device in then]
        return Selected(chosen, offered.memory, {one: then[one] for one in chosen if then[one]})

    uploads = as_they_were if system.plain_uploads is not None else None
    return replace(system, selection=replace(system.selection, choose=choose), plain_uploads=uploads)


def replayed_digest(orders: str, system: str) -> str:
    """SHA-256 of who trained when in the run that `orders` names for the system; "" where it names no run."""
    if (log := replayed_log(orders, system)) is None:
        return ""
    with RunFolder.open(log.parent) as folder:
        trained = {step: sorted(devices) for step, devices in _trained(folder).items()}
    return hashlib.sha256(json.dumps(trained, sort_keys=True).encode()).hexdigest()


def replayed_batteries(orders: str, system: str) -> list[BatteriesSeen]:
    """The batteries of the run that `orders` names for the system; none where it had none, or names none."""
    if (log := replayed_log(orders, system)) is None:
        return []
    with RunFolder.open(log.parent) as folder:
        return list(folder.read_log().only(BatteriesSeen))


def replayed_energy(orders: str, info: RunInfo) -> dict[tuple[int, EnergyRules], EnergySeen]:
    """The joules that rules saw in the run that `orders` names, by step and rules, for a run of `info`; empty
    where it names no run. ConfigError lists in what that run was another experiment."""
    if (log := replayed_log(orders, info.system)) is None:
        return {}
    with RunFolder.open(log.parent) as folder:
        _refuse_another(folder, info.system, info.seed, info.trace_hash, len(info.device_names))
        return {(record.step, record.rules): record for record in folder.read_log().only(EnergySeen)}


def _refuse_another(folder: RunFolder, name: str, seed: int, trace_hash: str, devices: int) -> None:
    problems = [
        f"{_KEY}: {folder.path}: expected a run with {what}, got {found}"
        for what, found in _differences(folder.info, name, seed, trace_hash, devices)
    ]
    if problems:
        raise ConfigError(problems)


def _trained(folder: RunFolder) -> dict[int, dict[int, int]]:
    """Step -> the devices with an order to train, and the epochs that their selection chose (0: the
    system's)."""
    trained: dict[int, dict[int, int]] = {}
    for order in folder.read_log().only(OrderGiven):
        if order.kind == "train":
            trained.setdefault(order.step, {})[order.device] = order.epochs
    return trained


def _plain(folder: RunFolder) -> dict[int, set[int]]:
    """Step -> the devices whose upload was not coded by the system's choice."""
    plain: dict[int, set[int]] = {}
    for order in folder.read_log().only(OrderGiven):
        if order.plain:
            plain.setdefault(order.step, set()).add(order.device)
    return plain


def _differences(info: RunInfo, name: str, seed: int, trace_hash: str, devices: int) -> list[tuple[str, str]]:
    """(what was expected, what there is): placements are equal only where all of these are, and of a run that
    ended early no device would train from there on."""
    compared = (
        ("state finished", f"state {info.state.value}", f"state {RunState.FINISHED.value}"),
        (f"system {name}", info.system, name),
        (f"seed {seed}", f"seed {info.seed}", f"seed {seed}"),
        (count(devices, "device"), count(len(info.device_names), "device"), count(devices, "device")),
        (f"trace {trace_hash[:12]}", f"trace {info.trace_hash[:12]}", f"trace {trace_hash[:12]}"),
    )
    return [(wanted, found) for wanted, found, expected in compared if found != expected]
