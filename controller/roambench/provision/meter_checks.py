"""Does the meter's output come back after a reset, and does nobody else open its port? Pure."""

from __future__ import annotations

import shlex
from typing import Final

from roambench.provision.bench import NO_METER, Host
from roambench.provision.checks import Check, Verdict
from roambench.provision.preflight_facts import HostFacts

_NONE: Final = "no such hardware"


def autorun(told: bool | str, host: Host) -> Check:
    """`told`: what the meter says, or why nobody knows."""
    name = "autorun"
    if host.meter.driver == NO_METER:
        return Check(name, Verdict.SKIP, _NONE)
    if isinstance(told, str):
        return Check(name, Verdict.SKIP, told)
    if told:
        return Check(name, Verdict.PASS, "on")
    return Check(
        name,
        Verdict.WARN,
        "off",
        "on: after a reset of the meter its output, and the board, stay off",
        f"roambench meter power autorun {shlex.quote(host.meter.port)} --on --driver {host.meter.driver}"
        + (f" --wifi {host.meter.wifi_hop}" if host.meter.wifi_hop else ""),
    )


def port_openers(facts: HostFacts, host: Host) -> Check:
    """Whether programs run that open the port of a meter: lines are lost to them, and the meter may reset."""
    name = "meter's port"
    if host.meter.emulated or not host.meter.port.startswith("/"):
        return Check(name, Verdict.SKIP, _NONE)
    if not facts.port_openers:
        return Check(name, Verdict.PASS, "nobody else opens serial ports")
    running = " and ".join(facts.port_openers)
    return Check(
        name,
        Verdict.WARN,
        f"{running} {'run' if len(facts.port_openers) > 1 else 'runs'}",
        "no program that opens serial ports by itself: that may reset the meter",
        f"systemctl mask --now {' '.join(facts.port_openers)}, if nothing on the board needs it",
    )
