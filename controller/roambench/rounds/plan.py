"""From the state to the orders of one step; pure. Orders come ascending by device."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from roambench.contract.draws import draw_key
from roambench.contract.errors import ConfigError
from roambench.contract.orders import (
    DiscardOrder,
    IdleOrder,
    Order,
    SyncOrder,
    TrainOrder,
    UploadOrder,
    order_id,
)
from roambench.energy.link_model import link_name
from roambench.rounds.presence import Presence
from roambench.rounds.records import OrderGiven
from roambench.rounds.run import RunSettings, Throughput
from roambench.rounds.state import RunState
from roambench.systems.system import Candidates, System


def candidates(settings: RunSettings, state: RunState, here: Presence) -> Candidates:
    """What selection may know at this step: everyone who is present."""
    return Candidates(
        step=here.step,
        seed=settings.seed,
        devices=tuple(here.aps),
        aps=tuple(here.aps.values()),
        past=state.past,
        last_sync_step=state.last_sync_step,
    )


def select(system: System, offered: Candidates) -> tuple[int, ...]:
    """The devices that train, ascending. ConfigError if the system chose somebody who is not there."""
    chosen = tuple(sorted(set(system.selection.choose(offered))))
    strangers = set(chosen) - set(offered.devices)
    if strangers:
        raise ConfigError(
            [f"system {system.name!r} selected device {min(strangers)}, absent at step {offered.step}"]
        )
    return chosen


def plan_uploads(
    settings: RunSettings, system: System, state: RunState, here: Presence, throughput: Throughput
) -> list[UploadOrder]:
    """One upload per present holder of an eligible model, to the AP where it is now.

    With the same-step rule that is the AP of the download: nobody moves within a step.
    """
    return [
        UploadOrder(
            order_id=order_id(settings.run_id, here.step, device, "upload"),
            device=device,
            step=here.step,
            ap=here.aps[device],
            train_order_id=training.order_id,
            upload_mbit_s=_pace(settings, throughput(here.distances_m[device], "up")),
            keeps_model=system.keeps_models,
        )
        for device, training in sorted(state.outstanding.items())
        if device in here.aps and system.eligible(training.step, here.step, state.last_sync_step)
    ]


def plan_trainings(
    settings: RunSettings,
    system: System,
    state: RunState,
    here: Presence,
    chosen: Sequence[int],
    throughput: Throughput,
) -> list[TrainOrder]:
    """One training per chosen device (ascending, as `select` gives them), from its AP's model of now."""
    return [
        TrainOrder(
            order_id=order_id(settings.run_id, here.step, device, "train"),
            device=device,
            step=here.step,
            ap=here.aps[device],
            start_digest=state.ap_digests[here.aps[device]],
            local_epochs=system.k1,
            seed=draw_key(settings.seed, "train", device, here.step),
            start_rule=system.start_model.moved if _moved(state, here, device) else system.start_model.stayed,
            objective=system.objective,
            download_mbit_s=_pace(settings, throughput(here.distances_m[device], "down")),
        )
        for device in chosen
    ]


def plan_syncs(
    settings: RunSettings, state: RunState, here: Presence, throughput: Throughput, occasion: str
) -> list[SyncOrder]:
    """The global model for present devices that do not have it yet; `occasion` names the orders."""
    return [
        SyncOrder(
            order_id=order_id(settings.run_id, here.step, device, occasion),
            device=device,
            step=here.step,
            ap=here.aps[device],
            digest=state.global_digest,
            download_mbit_s=_pace(settings, throughput(here.distances_m[device], "down")),
        )
        for device in sorted(state.unsynced)
        if device in here.aps
    ]


def plan_discards(
    settings: RunSettings, system: System, state: RunState, here: Presence
) -> list[DiscardOrder]:
    """Tell present devices to free the models whose fate was decided while they were away."""
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
    asked = range(len(settings.samples)) if settings.tell_absent else here.aps
    return [
        IdleOrder(order_id(settings.run_id, here.step, device, "idle"), device, here.step, device in here.aps)
        for device in asked
        if device not in busy
    ]


def order_record(order: Order, here: Presence, throughput: Throughput) -> OrderGiven:
    """The journal's line of an order; `throughput` is Eq. 2, whether or not the link is paced to it."""
    match order:
        case TrainOrder():
            distance_m = here.distances_m[order.device]
            return OrderGiven(
                order.step,
                order.device,
                order.order_id,
                "train",
                order.ap,
                start_digest=order.start_digest,
                distance_m=distance_m,
                link=link_name(distance_m),
                throughput_mbit_s=throughput(distance_m, "down"),
                paced_mbit_s=order.download_mbit_s,
            )
        case UploadOrder():
            distance_m = here.distances_m[order.device]
            return OrderGiven(
                order.step,
                order.device,
                order.order_id,
                "upload",
                order.ap,
                train_order_id=order.train_order_id,
                distance_m=distance_m,
                link=link_name(distance_m),
                throughput_mbit_s=throughput(distance_m, "up"),
                paced_mbit_s=order.upload_mbit_s,
            )
        case SyncOrder():
            distance_m = here.distances_m[order.device]
            return OrderGiven(
                order.step,
                order.device,
                order.order_id,
                "sync",
                order.ap,
                start_digest=order.digest,
                distance_m=distance_m,
                link=link_name(distance_m),
                throughput_mbit_s=throughput(distance_m, "down"),
                paced_mbit_s=order.download_mbit_s,
            )
        case DiscardOrder():
            return OrderGiven(
                order.step, order.device, order.order_id, "discard", -1, train_order_id=order.train_order_id
            )
        case IdleOrder():
            return OrderGiven(order.step, order.device, order.order_id, "idle", -1)


def _pace(settings: RunSettings, modelled_mbit_s: float) -> float:
    """The rate an order carries: the modelled one, clipped to the port; 0 (native) unless links are paced."""
    return min(modelled_mbit_s, settings.port_mbit_s) if settings.pace_links else 0.0


def _moved(state: RunState, here: Presence, device: int) -> bool:
    """Absent at t-1 counts as moved; at the first step nobody has moved."""
    return here.step > 0 and state.previous_aps.get(device) != here.aps[device]
