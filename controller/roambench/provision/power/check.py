"""The preflight's check of what switches a board."""

from __future__ import annotations

from collections.abc import Iterator

from roambench.provision.bench import Host
from roambench.provision.checks import Check, Verdict
from roambench.provision.power.switching import SeenSwitch


def power_switch(seen: SeenSwitch, host: Host) -> Iterator[Check]:
    """Whether the switch of the host's `power` table answers, is on, and will leave the board so.

    No check at all of a host without that table: its meter has its own.
    """
    name = "power switch"
    if host.power.switch == "meter":
        return
    if seen.reason:
        yield Check(name, Verdict.WARN, seen.reason, "an answer", seen.next_action)
    elif not seen.asked:
        yield Check(name, Verdict.SKIP, seen.detail)
    elif not seen.on:
        what_to_do = f"is it the outlet of {host.name}? see its power table"
        yield Check(name, Verdict.WARN, "off, and the board runs", "on", what_to_do)
    elif seen.trouble:
        what_to_do = "see the switch's own settings"
        yield Check(name, Verdict.WARN, seen.trouble, "a switch that stays on", what_to_do)
    else:
        yield Check(name, Verdict.PASS, "on" + (f", {seen.detail}" if seen.detail else ""))
