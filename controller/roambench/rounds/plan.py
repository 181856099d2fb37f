"""From the state to the orders of one step; pure. Orders come ascending by device."""

from __future__ import annotations

import operator
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Literal

from roambench.contract.draws import draw_key
from roambench.contract.errors import PluginError
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import (
    DiscardOrder,
    ExchangeOrder,
    IdleOrder,
    Order,
    ProgramOrder,
    SyncOrder,
    TrainOrder,
    UploadOrder,
    order_id,
)
from roambench.energy.links.throughput import Direction, link_name
from roambench.rounds.presence import Presence
from roambench.rounds.record_batch import RecordBatch
from roambench.rounds.records import OrderGiven
from roambench.rounds.rule_answers import checked_memory
from roambench.rounds.run import RunSettings, Throughput
from roambench.rounds.state import SELECTION_KEY, UPLOADS_KEY, RoundState
from roambench.systems.system import EDGE_PAIR, Candidates, Memory, Selected, SpentEnergy, System, Training


def candidates(
    settings: RunSettings, state: RoundState, here: Presence, undelivered: Collection[int] = ()
) -> Candidates:
    """The candidates of this step's selection, without their energy: everyone who is present and has nothing
    to deliver first."""
    free = {device: ap for device, ap in here.aps.items() if device not in undelivered}
    return Candidates(
        step=here.step,
        seed=settings.seed,
        devices=tuple(free),
        aps=tuple(free.values()),
        past=state.past,
        last_sync_step=state.last_sync_step,
        distances_m=tuple(here.distances_m[device] for device in free),
        memory=state.memories.get(SELECTION_KEY, {}),
        accuracy=None if state.score is None else state.score.accuracy,
    )


def select(system: System, offered: Candidates) -> tuple[tuple[int, ...], Memory | None, Mapping[int, int]]:
    """The devices that train, ascending, what the selection keeps (None: what it kept before), and epochs
    of devices. PluginError if the system chose what is no device that is there, or no number of epochs."""
    where = f"system {system.name!r}: selection.choose at step {offered.step}"
    answer = system.selection.choose(offered)
    devices, memory, epochs = (
        (answer.devices, answer.memory, answer.epochs) if isinstance(answer, Selected) else (answer, None, {})
    )
    if memory is not None:
        memory = checked_memory(memory, where)
    chosen = _chosen(devices, offered, where)
    for device, count in epochs.items():
        if not isinstance(count, int) or count < 1:
            raise PluginError(f"{where}: expected epochs of 1 or more for device {device}, got {count!r}")
    return chosen, memory, epochs


def asked_for(system: System, state: RoundState, here: Presence) -> list[Training]:
    """The trainings whose models APs ask for in this step: eligible ones of present devices."""
    return [
        training
        for device, training in sorted(state.outstanding.items())
        if device in here.aps and system.eligible(training.step, here.step, state.last_sync_step)
    ]


def select_plain(
    settings: RunSettings,
    system: System,
    state: RoundState,
    here: Presence,
    spent: Mapping[int, SpentEnergy],
) -> Selected | None:
    """The uploads that are not coded, and what the rule keeps; None without such a rule."""
    if system.plain_uploads is None:
        return None
    away = here.aps.keys() - {training.device for training in asked_for(system, state, here)}
    offered = candidates(settings, state, here, away)
    seen = {device: spent.get(device, SpentEnergy()) for device in offered.devices}
    memory = state.memories.get(UPLOADS_KEY, {})
    answer = system.plain_uploads(replace(offered, energy=seen, memory=memory))
    where = f"system {system.name!r}: plain_uploads at step {here.step}"
    if not isinstance(answer, Selected):
        raise PluginError(f"{where}: expected a Selected, got {type(answer).__name__}")
    devices = _chosen(answer.devices, offered, where)
    return replace(answer, devices=devices, memory=checked_memory(answer.memory, where))


def _chosen(devices: Sequence[int], offered: Candidates, where: str) -> tuple[int, ...]:
    """The devices that a rule named, ascending; PluginError for what is none of those that were `offered`."""
    try:
        chosen = tuple(sorted({operator.index(device) for device in devices}))
    except TypeError:
        raise PluginError(f"{where}: expected numbers of devices, got {devices!r}") from None
    if strangers := set(chosen) - set(offered.devices):
        raise PluginError(f"{where}: expected devices that are offered to it, got device {min(strangers)}")
    return chosen


def plan_uploads(
    settings: RunSettings,
    system: System,
    state: RoundState,
    here: Presence,
    throughput: Throughput,
    plain: Collection[int] = (),
) -> list[UploadOrder]:
    """One upload per present holder of an eligible model, to the AP where it is now, not coded of those in
    `plain`.

    With the same-step rule that is the AP of the download: devices do not move within a step.
    """
    return [
        UploadOrder(
            order_id=order_id(settings.run_id, here.step, training.device, "upload"),
            device=training.device,
            step=here.step,
            ap=here.aps[training.device],
            train_order_id=training.order_id,
            upload_mbit_s=paced_mbit_s(settings, throughput, here.distances_m[training.device], "up"),
            keeps_model=system.keeps_models,
            base_digest=training.start_digest,
            plain=training.device in plain,
        )
        for training in asked_for(system, state, here)
    ]


def plan_trainings(
    settings: RunSettings,
    system: System,
    state: RoundState,
    here: Presence,
    chosen: Sequence[int],
    throughput: Throughput,
    epochs: Mapping[int, int] | None = None,
) -> list[TrainOrder]:
    """One training per chosen device (ascending, as `select` gives them), from its AP's model of now;
    `epochs` of those that have their own."""
    own = epochs or {}
    rules, pairs = system.start_model, system.start_model.moved == EDGE_PAIR
    names = [item.name for item in fields(system.training)]
    usual = [getattr(system.training, name) for name in names]
    epochs_at, seed, start_rule = (names.index(name) for name in ("epochs", "seed", "start_rule"))

    def training(device: int) -> LocalTraining:
        """`replace` takes four times as long, and months have millions."""
        usual[epochs_at] = own.get(device, system.training.epochs)
        usual[seed] = draw_key(settings.seed, "train", device, here.step)
        usual[start_rule] = rules.moved if _moved(state, here, device) else rules.stayed
        return LocalTraining(*usual)

    return [
        TrainOrder(
            order_id=order_id(settings.run_id, here.step, device, "train"),
            device=device,
            step=here.step,
            ap=here.aps[device],
            start_digest=state.ap_digests[here.aps[device]],
            training=training(device),
            download_mbit_s=paced_mbit_s(settings, throughput, here.distances_m[device], "down"),
            previous_digest=_previous_digest(state, here, device) if pairs else "",
        )
        for device in chosen
    ]


def plan_syncs(
    settings: RunSettings,
    system: System,
    state: RoundState,
    here: Presence,
    throughput: Throughput,
    occasion: str,
) -> list[SyncOrder]:
    """The global model for present devices that do not have it yet; `occasion` names the orders."""
    return [
        SyncOrder(
            order_id=order_id(settings.run_id, here.step, device, occasion),
            device=device,
            step=here.step,
            ap=here.aps[device],
            digest=state.global_digest,
            download_mbit_s=0.0
            if system.sync_is_free
            else paced_mbit_s(settings, throughput, here.distances_m[device], "down"),
            free=system.sync_is_free,
        )
        for device in sorted(state.unsynced)
        if device in here.aps
    ]


def plan_discards(
    settings: RunSettings, system: System, state: RoundState, here: Presence
) -> list[DiscardOrder]:
    """Tell present devices to free the models whose outcome was decided while they were away."""
    return [
        DiscardOrder(
            order_id=order_id(settings.run_id, here.step, device, "discard"),
            device=device,
            step=here.step,
            train_order_id=stale.train_order_id,
            reason=stale.reason,
            keeps_model=system.keeps_models,
        )
        for device, stale in sorted(state.stale.items())
        if device in here.aps
    ]


def plan_background(settings: RunSettings, here: Presence, busy: Collection[int]) -> list[IdleOrder]:
    """Tell everybody who is not `busy` at once whether it idles or is away.

    A device that trains later in this step idles until then: its phases stay a partition of its time.
    """
    asked = range(len(settings.samples)) if settings.orders_to_absent else here.aps
    return [
        IdleOrder(order_id(settings.run_id, here.step, device, "idle"), device, here.step, device in here.aps)
        for device in asked
        if device not in busy
    ]


def order_record(order: Order, here: Presence, throughput: Throughput, usual_epochs: int = 0) -> OrderGiven:
    """The journal's line of an order; `throughput` is Eq. 2, whether or not the link is paced to it. Epochs
    are written where they are not the usual ones."""
    match order:
        case TrainOrder(start_digest=digest):
            made = _transfer_record(order, "train", digest, "down", order.download_mbit_s, here, throughput)
            own = order.training.epochs
            return made if own == usual_epochs else replace(made, epochs=own)
        case ProgramOrder(digest=digest):
            kind: Literal["train", "evaluate"] = "evaluate" if order.evaluates else "train"
            return _transfer_record(order, kind, digest, "down", order.download_mbit_s, here, throughput)
        case SyncOrder(digest=digest):
            return _transfer_record(order, "sync", digest, "down", order.download_mbit_s, here, throughput)
        case UploadOrder():
            return _transfer_record(order, "upload", "", "up", order.upload_mbit_s, here, throughput)
        case DiscardOrder(train_order_id=training):
            return OrderGiven(
                order.step, order.device, order.order_id, "discard", -1, train_order_id=training
            )
        case ExchangeOrder(start_digest=digest):
            return OrderGiven(
                order.step,
                order.device,
                order.order_id,
                "exchange",
                -1,
                start_digest=digest,
                link=link_name(0.0),  # the radio of short ways
                paced_mbit_s=order.exchange_mbit_s,
            )
        case IdleOrder():
            return OrderGiven(order.step, order.device, order.order_id, "idle", -1)


def order_batch(
    orders: Sequence[Order], here: Presence, throughput: Throughput, usual_epochs: int = 0
) -> RecordBatch | None:
    """The `order_record` of each, as columns; None where they are not all trainings or all uploads."""
    kinds = {type(order) for order in orders}
    trains = kinds == {TrainOrder}
    if not trains and kinds != {UploadOrder}:
        return None

    def column(name: str) -> list[Any]:
        return [getattr(order, name) for order in orders]

    own: dict[str, Any]
    if trains:
        epochs = [training.epochs for training in column("training")]
        usual = [0 if count == usual_epochs else count for count in epochs]
        own = {"kind": "train", "start_digest": column("start_digest"), "epochs": usual}
    else:
        own = {"kind": "upload", "train_order_id": column("training_id"), "plain": column("plain")}
    distances_m = [here.distances_m[order.device] for order in orders]
    return RecordBatch.of(
        OrderGiven,
        len(orders),
        step=here.step,
        device=column("device"),
        order_id=column("order_id"),
        ap=column("ap"),
        distance_m=distances_m,
        link=[link_name(distance_m) for distance_m in distances_m],
        throughput_mbit_s=[throughput(distance_m, "down" if trains else "up") for distance_m in distances_m],
        paced_mbit_s=column("download_mbit_s" if trains else "upload_mbit_s"),
        **own,
    )


def _transfer_record(
    order: TrainOrder | ProgramOrder | SyncOrder | UploadOrder,
    kind: Literal["train", "evaluate", "sync", "upload"],
    start_digest: str,
    direction: Direction,
    paced_mbit_s: float,
    here: Presence,
    throughput: Throughput,
) -> OrderGiven:
    distance_m = here.distances_m[order.device]
    return OrderGiven(
        order.step,
        order.device,
        order.order_id,
        kind,
        order.ap,
        train_order_id=order.training_id if isinstance(order, UploadOrder) else "",
        start_digest=start_digest,
        distance_m=distance_m,
        link=link_name(distance_m),
        throughput_mbit_s=throughput(distance_m, direction),
        paced_mbit_s=paced_mbit_s,
        plain=isinstance(order, UploadOrder) and order.plain,
    )


def paced_mbit_s(
    settings: RunSettings, throughput: Throughput, distance_m: float, direction: Direction
) -> float:
    """The rate an order carries: the modelled one, clipped to the port; 0 (native) unless links are paced."""
    return min(throughput(distance_m, direction), settings.port_mbit_s) if settings.pace_links else 0.0


def _moved(state: RoundState, here: Presence, device: int) -> bool:
    """Return the devices that moved: absent at t-1 counts as moved; at the first step none has moved."""
    return here.step > 0 and state.previous_aps.get(device) != here.aps[device]


def _previous_digest(state: RoundState, here: Presence, device: int) -> str:
    """The present model of the AP where a moved device was at t-1; empty if it was at none, or if that AP has
    the very model that the device downloads anyway."""
    before = state.previous_aps.get(device)
    if before is None or not _moved(state, here, device):
        return ""
    digest = state.ap_digests[before]
    return "" if digest == state.ap_digests[here.aps[device]] else digest
