"""The duration of a planned run: on this machine's clock, on its devices', and the controller's own CPU."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from roambench.plan.costs import MachineCosts
from roambench.plan.fleet import PlannedFleet
from roambench.plan.rehearsed import Rehearsed
from roambench.rounds.records import StepClosed
from roambench.runner.pacing import step_length_s

#: Until a fleet is ready, and per local agent (36 were ready in 20 s), in units of what importing the
#: learning library costs on the machine (`MachineCosts.import_s`; 2.5 s where these were measured).
_START_IMPORTS: Final = 1.2
_START_IMPORTS_PER_AGENT: Final = 0.22
#: Run folder, exports and warm-ups, however long the run: in the same units.
_FIXED_IMPORTS: Final = 0.48
_STOP_S: Final = 2.0
#: A Ray of one's own and its first actors, measured on two cores.
_RAY_START_S: Final = 7.0
#: Agents of a bench dial every 10 s; then each imports the learning library (half a minute on a Pi 3B+).
_DIAL_S: Final = 5.0
#: Controller and process overhead of one order on virtual devices, and on agents over gRPC.
_VIRTUAL_ORDER_S: Final = 0.002
_AGENTS_ORDER_S: Final = 0.012
_REHEARSED_ORDER_S: Final = 0.0001
#: The same of an exchange between virtual devices, besides what its rehearsal took.
_EXCHANGE_S: Final = 0.0012
_STEP_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class PlannedTimes:
    """Seconds. `device_s` is the fleet's clock from the first baseline to the last; on virtual devices, which
    have no common clock, all their seconds of work together."""

    wall_s: float
    device_s: float
    controller_s: float


def planned_times(
    fleet: PlannedFleet, rehearsed: Rehearsed, costs: MachineCosts, devices: int, trace_step_s: float
) -> PlannedTimes:
    """On a machine without other work."""
    controller_s = _controller_s(fleet, rehearsed, costs)
    if not fleet.kind.trains:
        return PlannedTimes(controller_s, 0.0, controller_s)
    rounds_s = controller_s + _orders_s(fleet, rehearsed, costs)
    if fleet.has_agents:
        return _of_agents(fleet, rehearsed, rounds_s, controller_s, devices, trace_step_s, costs.import_s)
    fixed_s = _FIXED_IMPORTS * costs.import_s
    ray = fleet.experiment.simulated.backend == "ray"
    return PlannedTimes(
        rounds_s + _START_IMPORTS * costs.import_s + (_RAY_START_S if ray else 0.0) + fixed_s,
        math.fsum(batch.device_s for batch in rehearsed.batches),
        controller_s + fixed_s,
    )


def _of_agents(
    fleet: PlannedFleet,
    rehearsed: Rehearsed,
    rounds_s: float,
    controller_s: float,
    devices: int,
    trace_step_s: float,
    import_s: float,
) -> PlannedTimes:
    """Agents keep device time, also while the controller does something else."""
    experiment, scale = fleet.experiment, fleet.time_scale
    pace_s = step_length_s(experiment.rounds.step_close, trace_step_s)
    # What batches of orders wait for their place in a meter's period, on average.
    rounds_s += fleet.dither_s * len(rehearsed.batches) / scale
    if pace_s:
        rounds_s = max(rounds_s, pace_s * _steps(rehearsed) / scale)
    device_s = rounds_s * scale + 2.0 * experiment.energy.idle_baseline_s
    if not fleet.kind.emulates:
        start_s = _DIAL_S + import_s * experiment.local.cpu_slowdown
    else:
        start_s = (_START_IMPORTS + _START_IMPORTS_PER_AGENT * devices) * import_s
    controller_s += _FIXED_IMPORTS * import_s
    return PlannedTimes(device_s / scale + start_s + _STOP_S, device_s, controller_s)


def _orders_s(fleet: PlannedFleet, rehearsed: Rehearsed, costs: MachineCosts) -> float:
    """Until the slowest device of every batch is done, one batch after the other."""
    workers = min(fleet.experiment.simulated.workers or costs.cores, costs.cores)
    wall_s = 0.0
    for batch in rehearsed.batches:
        work_s = costs.sgd_step_s * batch.sgd_steps
        longest_s = costs.sgd_step_s * batch.most_sgd_steps
        if fleet.kind.emulates:
            # Emulated boards wait for device time; a host that cannot keep up makes them wait longer.
            wall_s += max(batch.longest_s / fleet.time_scale, work_s / costs.cores, longest_s)
        elif fleet.has_agents:
            wall_s += batch.longest_s
        else:
            wall_s += max(work_s / workers, longest_s)
    return wall_s


def _controller_s(fleet: PlannedFleet, rehearsed: Rehearsed, costs: MachineCosts) -> float:
    """Seconds of the controller between batches: orders, aggregation or mixing, names, scores."""
    exchanging = rehearsed.exchanging
    each_s = _EXCHANGE_S if exchanging and fleet.kind.is_virtual else _order_s(fleet)
    rounds_s = each_s * sum(batch.orders for batch in rehearsed.batches)
    rounds_s += rehearsed.controller_s if exchanging else _STEP_S * _steps(rehearsed)
    if not fleet.kind.trains:
        return rounds_s
    mixed_s = costs.mix_s * rehearsed.mixed if fleet.kind.is_virtual else 0.0
    collected_s = _order_s(fleet) * rehearsed.collected if fleet.has_agents else 0.0
    return (
        rounds_s
        + collected_s
        + mixed_s
        + costs.score_s * rehearsed.scorings
        + costs.publish_s * rehearsed.published
    )


def _order_s(fleet: PlannedFleet) -> float:
    if fleet.has_agents:
        return _AGENTS_ORDER_S
    return _VIRTUAL_ORDER_S if fleet.kind.trains else _REHEARSED_ORDER_S


def _steps(rehearsed: Rehearsed) -> int:
    return rehearsed.records.count(StepClosed)
