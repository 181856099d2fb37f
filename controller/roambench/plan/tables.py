"""A plan as people read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console

from roambench.contract.counts import count
from roambench.energy.energy_value import Energy
from roambench.plan.energy import PhaseJoules
from roambench.plan.plan import RunPlan
from roambench.report import numbers
from roambench.report.console import print_table
from roambench.report.table import ReportTable
from roambench.runner.screen import say, warn

#: An interval of this share of a net energy (2 u) is narrow enough to compare models.
GOOD_SHARE: Final = 0.05
#: A thread that gets less of a core than this shares it.
BUSY_BELOW: Final = 0.9


def print_plans(plans: Sequence[RunPlan], console: Console) -> None:
    """Totals per system, then joules by phase, then all systems together."""
    fleet = plans[0].fleet.name
    print_table(_totals(plans), console)
    if any(plan.joules for plan in plans):
        print_table(_phases(plans), console)
    wall_s = sum(plan.wall_s for plan in plans)
    disk = sum(plan.disk_bytes for plan in plans)
    gross_j = sum(item.gross_j for plan in plans for item in plan.joules)
    say(
        console,
        f"all {count(len(plans), 'system')} on the {fleet} fleet, one after the other: "
        f"{hours(wall_s)}, {numbers.joules(gross_j) if gross_j else 'no joules'}, {size(disk)} of disk. "
        "Nothing was started.",
    )

    if plans[0].classes:
        say(console, f"devices: {plans[0].classes}")
    for plan in plans:
        for sentence in widths_of(plan):
            say(console, f"{plan.system}: {sentence}")
    for doubt in dict.fromkeys(doubt for plan in plans for doubt in plan.doubts):
        warn(console, f"! {doubt}")
    share = plans[0].core_share
    if share < BUSY_BELOW:
        warn(
            console,
            f"! this machine is busy: a warm-up step got {share:.0%} of a core. The times are "
            "those of a free machine",
        )


def plans_document(plans: Sequence[RunPlan]) -> dict[str, Any]:
    """The same in JSON types: seconds, joules and bytes, a plan for each system."""
    return {
        "schema": "roambench.plan/1",
        "plans": [
            asdict(plan)
            | {"fleet": plan.fleet.name}
            | {"joules": [asdict(item) | {"gross_j": item.gross_j} for item in plan.joules]}
            for plan in plans
        ],
    }


def widths_of(plan: RunPlan) -> list[str]:
    """Return how sure the net energy of each measured phase will be, and what would bring it to 5 %."""
    found = []
    for item in plan.joules:
        if not item.u_net_j or item.net_j <= 0.0:
            continue
        share, lasting = 2.0 * item.u_net_j / item.net_j, 2.0 * item.u_lasting_j / item.net_j
        each_s = item.seconds / item.count
        text = f"net {item.phase} ± {percent_of(share)} % ({item.count:,} of {each_s:.1f} s)"
        if share > GOOD_SHARE > lasting:
            wanted = item.count * (share**2 - lasting**2) / (GOOD_SHARE**2 - lasting**2)
            text += f"; ± 5 % takes {math.ceil(wanted):,} of them"
            if 0.0 < 2.0 * item.u_faster_j <= GOOD_SHARE * item.net_j:
                text += ", or a meter that prints every 100 ms"
        found.append(text)
    moved = [item for item in plan.joules if item.u_net_j and item.net_j > 0.0 and item.phase != "train"]
    if len(moved) > 1:
        # One meter's gain is wrong in both directions alike.
        own_j = math.hypot(*(math.sqrt(item.u_net_j**2 - item.u_lasting_j**2) for item in moved))
        u_j = math.hypot(own_j, math.fsum(item.u_lasting_j for item in moved))
        net_j = math.fsum(item.net_j for item in moved)
        width = percent_of(2.0 * u_j / net_j)
        found.append(f"compare: all transfers ± {width} %, and what the link model adds")
    return found


def percent_of(share: float) -> str:
    """A share in percent by two digits, without an exponent: 0.34, 5, 12, 120."""
    return f"{float(f'{100.0 * share:.2g}'):,.10g}"


def hours(seconds: float) -> str:
    """Hours, and the same as people say it: 0.03 h (1 min 48 s)."""
    return f"{seconds / 3600.0:,.2f} h ({numbers.seconds(seconds)})"


def size(count: float) -> str:
    """12.3 kB, 4.5 MB, 6.7 GB (powers of 1000)."""
    for unit in ("B", "kB", "MB"):
        if count < 1000.0:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000.0
    return f"{count:,.1f} GB"


def _totals(plans: Sequence[RunPlan]) -> ReportTable:
    lines: list[tuple[str, Callable[[RunPlan], str]]] = [
        ("steps", lambda plan: f"{plan.steps:,}"),
        ("trainings", lambda plan: f"{plan.trainings:,}"),
        ("  computed", lambda plan: f"{plan.computed:,}"),
        ("transfers", lambda plan: f"{plan.transfers:,}"),
        ("bytes moved", lambda plan: size(plan.transferred_bytes)),
        ("time on this machine", lambda plan: hours(plan.wall_s)),
        ("  CPU of training", lambda plan: numbers.seconds(plan.cpu_s)),
        ("device time", lambda plan: hours(plan.device_s)),
        ("disk", lambda plan: size(plan.disk_bytes)),
        ("disk while it runs", lambda plan: size(plan.peak_disk_bytes)),
    ]
    if any(plan.trainer_peak_bytes for plan in plans):
        lines.append(("memory of a board's trainer", lambda plan: size(plan.trainer_peak_bytes)))
    if any(plan.joules for plan in plans):
        lines.append(("joules, gross", lambda plan: numbers.joules(sum(i.gross_j for i in plan.joules))))
        lines.append(("joules, net", lambda plan: numbers.joules(sum(i.net_j for i in plan.joules))))
    rows = tuple((name, *(cell_of(plan) for plan in plans)) for name, cell_of in lines)
    head = ("", *(plan.system for plan in plans))
    return ReportTable("plan", f"Plan: what it will take on the {plans[0].fleet.name} fleet", "", head, rows)


def _net(item: PhaseJoules) -> str:
    if not item.u_net_j:
        return numbers.joules(item.net_j)
    return numbers.energy(Energy(item.net_j, item.u_net_j, 1.0))


def _phases(plans: Sequence[RunPlan]) -> ReportTable:
    modelled = plans[0].fleet.is_virtual
    rows = [
        (
            plan.system,
            item.phase,
            numbers.seconds(item.seconds),
            numbers.joules(item.gross_j),
            numbers.joules(item.idle_j),
            _net(item),
        )
        for plan in plans
        for item in plan.joules
    ]
    title = "Joules that will be modelled" if modelled else "Joules that the meters will see"
    return ReportTable(
        "plan-joules", title, "", ("system", "phase", "device time", "gross", "idle", "net"), tuple(rows), 2
    )
