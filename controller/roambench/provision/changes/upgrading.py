"""A new build onto hosts, and back to the one before where its agent does not come up."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from roambench.provision import layout
from roambench.provision.agent_asks import ask_agent
from roambench.provision.bench import Bench, Host
from roambench.provision.changes.removal import rollback
from roambench.provision.provisioning import Provisioned, Report, provision
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.ssh.script import Script

#: An agent imports grpc and opens its spool: 15 s on a Pi 3B+.
UP_S: Final = 90.0
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Upgraded:
    """`build` runs now; `changed` is what was done for it, () when it ran before."""

    build: str
    version: str
    changed: tuple[str, ...]


def upgrade(
    bench: Bench, hosts: Sequence[Host], report: Report, *, take: bool = False
) -> list[HostOutcome[Upgraded]]:
    """Provision the hosts with this source tree's build, and see each agent run it.

    A host whose agent does not start, or does not say so within UP_S, gets its build before back, and is a
    row with the reason. `take`: also boards that another bench has claimed.
    """
    found = {one.host.name: one for one in on_hosts(bench, hosts, _installed)}
    there = [host for host in hosts if not found[host.name].failed]
    provisioned = provision(bench, there, report=report, let_go=lambda host: None, take=take)
    done = {one.host.name: one for one in provisioned}

    def see(link: HostLink) -> Upgraded:
        return _seen(link, done[link.host.name], found[link.host.name].value or "")

    seen = {one.host.name: one for one in on_hosts(bench, there, see)}
    return [seen.get(host.name) or _unreached(found, host) for host in hosts]


def _installed(link: HostLink) -> str:
    """The build that is switched to, "" before the first."""
    return link.must(Script(f"readlink {layout.CURRENT} | cut -d/ -f2")).decode().strip()


def _unreached(found: Mapping[str, HostOutcome[str]], host: Host) -> HostOutcome[Upgraded]:
    return HostOutcome(host, None, found[host.name].reason, found[host.name].next_action)


def _seen(link: HostLink, done: HostOutcome[Provisioned], before: str) -> Upgraded:
    if done.value is not None:
        wanted = done.value.build
        if not (doubt := _doubt(link, wanted.hash)):
            return Upgraded(wanted.hash, wanted.version, done.value.changes)
        reason, then = f"not running build {wanted.hash} after {UP_S:.0f} s: {doubt}", "roambench fleet logs"
    else:
        reason, then = done.reason, done.next_action
    if not before or _installed(link) == before:
        raise HostError(link.host.name, reason, then)
    try:
        back = rollback(link)
    except HostError as error:
        raise HostError(link.host.name, f"{reason}; {error.reason}", then) from None
    raise HostError(link.host.name, f"{reason}; it has build {back.build} again", then)


def _doubt(link: HostLink, build: str) -> str:
    """Return why the agent does not run `build`, once UP_S are over; "" as soon as it does."""
    deadline_s = time.monotonic() + UP_S
    said = ""
    while time.monotonic() < deadline_s:
        try:
            running = str(ask_agent(link, "status").get("build", ""))
            if running == build:
                return ""
            said = f"the agent runs build {running or 'unknown'}"
        except HostError as error:
            said = error.reason
        time.sleep(_LOOK_S)
    return said
