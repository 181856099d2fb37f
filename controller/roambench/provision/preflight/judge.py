"""From what was seen of all hosts to the checks of each; pure."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from roambench.provision.bench import Host
from roambench.provision.checks import Check, CheckVerdict, HostChecks
from roambench.provision.facts import PackageFacts
from roambench.provision.platforms import Platform
from roambench.provision.preflight import agent_checks, host_checks
from roambench.provision.preflight.agent_checks import Trust
from roambench.provision.preflight.facts import Seen
from roambench.provision.wheels.program_kit import ProgramKit


def judge(
    hosts: Sequence[Host],
    seen: Mapping[str, Seen],
    *,
    builds: Mapping[Platform, str],
    trust: Trust | None,
    now: dt.datetime,
    needed: Mapping[str, PackageFacts] | None = None,
    kit: ProgramKit | None = None,
) -> tuple[HostChecks, ...]:
    """The checks of every host. `builds`: the agent that this server provisions, by kind of host; where it is
    not known, the one that most hosts run is what is compared with. `needed`: the user's packages, by
    name, as they are here. `kit`: the program that they have to have."""
    return tuple(
        HostChecks(
            host.name,
            _checks(host, found, seen, builds, trust, now, needed or {}, kit),
            found.facts.machine_id if found.facts else "",
        )
        for host in hosts
        for found in [seen[host.name]]
    )


def _checks(
    host: Host,
    found: Seen,
    seen: Mapping[str, Seen],
    builds: Mapping[Platform, str],
    trust: Trust | None,
    now: dt.datetime,
    needed: Mapping[str, PackageFacts],
    kit: ProgramKit | None,
) -> tuple[Check, ...]:
    facts, clock, agent = found.facts, found.clock, found.agent
    if facts is None or clock is None:
        return (Check("SSH", CheckVerdict.FAIL, found.reason, "", found.next_action),)
    most_run = _usual(
        other.agent.build
        for other in seen.values()
        if other.facts is not None and other.facts.platform == facts.platform and not other.agent.reason
    )
    alike = _usual(
        other.facts.wheels
        for other in seen.values()
        if other.facts is not None
        and (other.facts.platform, other.facts.current) == (facts.platform, facts.current)
    )
    return (
        Check("SSH", CheckVerdict.PASS, host.address),
        host_checks.os_image(facts),
        agent_checks.build(facts, agent, builds.get(facts.platform, "") if facts.platform else "", most_run),
        agent_checks.wheels(facts, alike),
        *([agent_checks.packages(facts, needed)] if needed else []),
        *(agent_checks.program(facts, agent, kit) if kit is not None else []),
        *agent_checks.claim(found.claimed_by),
        agent_checks.certificate(facts, host, trust, now),
        host_checks.clock_bound(clock),
        host_checks.time_sync(facts),
        host_checks.way_to_controller(facts),
        *host_checks.ways_to_boards(found.peers),
        host_checks.disk(facts),
        host_checks.memory(facts),
        host_checks.governor(facts),
        host_checks.under_voltage(facts),
        host_checks.power_save(facts, host),
        agent_checks.smoke(agent),
        agent_checks.meter_fresh(agent, host),
        agent_checks.autorun(found.autorun, host),
        *host_checks.power_switch(found.switch, host),
        agent_checks.port_openers(facts, host),
        agent_checks.idle_watts(facts, agent, host),
    )


def _usual(values: Iterable[str | None]) -> str:
    """The commonest that is not empty, of equally common ones the smallest; "" without any."""
    counts = Counter(value for value in values if value)
    return min(counts, key=lambda value: (-counts[value], value)) if counts else ""
