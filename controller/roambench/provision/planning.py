"""The steps to do on a host: facts and wishes in, steps in their order out. Pure: a dry run is this."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.platforms import IMAGE, MACHINES, PYTHONS
from roambench.provision.step import HostPlan, HostRefusal, HostStep, Skip
from roambench.provision.subjects.account import account, folders
from roambench.provision.subjects.board import board
from roambench.provision.subjects.claim import claim
from roambench.provision.subjects.clock import clock
from roambench.provision.subjects.environment import environment, needed_bytes
from roambench.provision.subjects.identity import identity
from roambench.provision.subjects.journal import journal
from roambench.provision.subjects.meter import meter
from roambench.provision.subjects.packages import packages
from roambench.provision.subjects.program import needed_bytes as program_bytes
from roambench.provision.subjects.program import program
from roambench.provision.subjects.sensor import sensor
from roambench.provision.subjects.service import running, service
from roambench.provision.subjects.settings import settings
from roambench.provision.wanted import Wanted

Subject = Callable[[Facts, Wanted], Iterator[HostStep | Skip]]

#: In this order; the agent itself is started after all of them.
SUBJECTS: Final[tuple[Subject, ...]] = (
    claim,
    packages,
    account,
    folders,
    journal,
    clock,
    meter,
    sensor,
    environment,
    program,
    identity,
    settings,
    board,
    service,
)


def plan(facts: Facts, wanted: Wanted) -> HostPlan:
    """The steps that make the host what is wanted; none when it is that already."""
    found = [item for subject in SUBJECTS for item in subject(facts, wanted)]
    steps = [item for item in found if isinstance(item, HostStep)]
    skips = [item for item in found if isinstance(item, Skip)]
    steps += running(facts, restart=any(step.restarts for step in steps))
    return HostPlan(tuple(steps), tuple(skips), tuple(_room(facts, wanted)))


def unfit(facts: Facts) -> tuple[HostRefusal, ...]:
    """Return the reason why a host like this can never be provisioned."""
    found = []
    flash = f"flash {IMAGE}, or another system that docs/build.md names"
    if facts.machine not in MACHINES or facts.bits != 64:
        kinds = ", ".join(MACHINES)
        found.append(HostRefusal(f"it is a {facts.bits}-bit {facts.machine} system, expected {kinds}", flash))
    if ".".join(facts.python.split(".")[:2]) not in PYTHONS:
        expected = f"expected {PYTHONS[0]} to {PYTHONS[-1]}"
        found.append(HostRefusal(f"its Python is {facts.python}, {expected}", flash))
    if facts.init != "systemd":
        found.append(HostRefusal(f"its init is {facts.init or 'unknown'}, expected systemd", flash))
    if not facts.is_root:
        found.append(HostRefusal("sudo does not make us root", "see its /etc/sudoers.d"))
    return tuple(found)


def _room(facts: Facts, wanted: Wanted) -> Iterator[HostRefusal]:
    needed = needed_bytes(facts, wanted) | program_bytes(facts, wanted.build)
    if facts.disk_free_bytes < sum(needed.values()):
        for_what = ", ".join(f"{size / 1e6:.0f} for {what}" for what, size in needed.items())
        yield HostRefusal(
            f"{layout.OPT} is on {facts.disk_mount}, which has {facts.disk_free_bytes / 1e6:.0f} MB left, "
            f"needs {sum(needed.values()) / 1e6:.0f} MB ({for_what})",
            f"make room on {facts.disk_mount} (df -h; journalctl --vacuum-size=16M; apt-get clean), or a "
            "larger SD card",
        )
