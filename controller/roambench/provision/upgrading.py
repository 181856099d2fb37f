"""A new build onto hosts, and back to the one before where its agent does not come up."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from roambench.provision.agent_asks import ask_agent
from roambench.provision.host_error import HostError
from roambench.provision.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.inventory import Bench, Host
from roambench.provision.provisioning import Provisioned, Tell, provision
from roambench.provision.removal import rollback

#: An agent imports grpc and opens its spool: 15 s on a Pi 3B+.
UP_S: Final = 90.0
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Upgraded:
    """`build` runs now; `changed` is what was done for it, () when it ran before."""

    build: str
    version: str
    changed: tuple[str, ...]


def upgrade(bench: Bench, hosts: Sequence[Host], tell: Tell) -> list[HostOutcome[Upgraded]]:
    """Provision the hosts with this source tree's build, and see each agent run it.

    A host whose agent does not say so within UP_S gets its build before back, and is a row with the reason.
    """
    done = {one.host.name: one for one in provision(bench, hosts, tell=tell)}

    def see(link: HostLink) -> Upgraded:
        found = done[link.host.name].value
        assert found is not None
        return _seen(link, found)

    installed = [host for host in hosts if not done[host.name].failed]
    seen = {one.host.name: one for one in on_hosts(bench, installed, see)}
    return [
        seen.get(host.name) or HostOutcome(host, None, done[host.name].reason, done[host.name].next_action)
        for host in hosts
    ]


def _seen(link: HostLink, done: Provisioned) -> Upgraded:
    wanted = done.build.hash
    deadline_s = time.monotonic() + UP_S
    said = ""
    while time.monotonic() < deadline_s:
        try:
            running = str(ask_agent(link, "status").get("build", ""))
            if running == wanted:
                return Upgraded(wanted, done.build.version, done.changes)
            said = f"the agent runs build {running or 'unknown'}"
        except HostError as error:
            said = error.reason
        time.sleep(_LOOK_S)
    reason = f"not running build {wanted} after {UP_S:.0f} s: {said}"
    if "environment" not in done.changes:
        raise HostError(link.host.name, reason, "roambench fleet logs")
    try:
        back = rollback(link)
    except HostError as error:
        raise HostError(link.host.name, f"{reason}; {error.reason}", "roambench fleet logs") from None
    raise HostError(link.host.name, f"{reason}; it has build {back.build} again", "roambench fleet logs")
