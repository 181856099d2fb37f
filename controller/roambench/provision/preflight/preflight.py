"""Preflight: ask every host of a bench what a run on it depends on, and judge the answers."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision.agent_asks import ask_agent, ask_readings, ask_smoke
from roambench.provision.bench import NO_METER, Bench, Host
from roambench.provision.certificates import BenchAuthority
from roambench.provision.checks import Preflight
from roambench.provision.claims import BoardClaim, claim_by, foreign, read
from roambench.provision.facts import PackageFacts, gather, questions_before_a_run
from roambench.provision.meters_here import AskedMeter, HeardMeter, meter_elsewhere, meters_here
from roambench.provision.platforms import Platform
from roambench.provision.power.meter import autorun_of
from roambench.provision.power.switching import seen_switch
from roambench.provision.preflight.agent_checks import Trust
from roambench.provision.preflight.facts import AgentAnswers, Seen
from roambench.provision.preflight.host_clock import host_clock
from roambench.provision.preflight.judge import judge
from roambench.provision.preflight.peer_ways import ways_between
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, on_hosts
from roambench.provision.wheels.agent_build import expected_build
from roambench.provision.wheels.program_kit import ProgramKit

#: Idle is what the board drew in this half minute, but for the last seconds: a login costs a core.
_IDLE_S, _LOGIN_S = 30.0, 6.0
#: Seconds for which a meter that hangs on this machine is heard before the first login.
_HEARD_S: Final = 8.0
#: An agent that has just begun (importing torch takes a Pi's core half a minute) gets time to come to rest.
_SETTLED_S: Final = 60.0
_CLOCK_EXCHANGES: Final = 8


def check(
    bench: Bench,
    hosts: Sequence[Host] | None = None,
    *,
    smoke: bool = True,
    ends_runs: bool = False,
    needed: Mapping[str, PackageFacts] | None = None,
    peers: bool = False,
    kit: ProgramKit | None = None,
) -> Preflight:
    """Ask the hosts (all of the bench's by default) at once, and judge; no host's trouble is an error here.

    `smoke` trains a step on every host. `ends_runs`: the bench is ours; a run that a host is in without a
    controller is ended there. `needed`: the user's packages that hosts shall have as they are
    here, by name. `peers`: hosts exchange models with each other, so each has to reach each other's address.
    `kit`: the program that hosts shall have.
    """
    asked = tuple(bench.hosts if hosts is None else hosts)
    asked_s = time.time()
    names, mine = tuple(needed or ()), claim_by(bench)
    with meters_here(bench, asked) as here:
        if here:
            time.sleep(_HEARD_S)
        outcomes = on_hosts(
            bench,
            asked,
            lambda link: look(
                link,
                smoke=smoke,
                ends_runs=ends_runs,
                packages=names,
                controller=bench.controller.address,
                mine=mine,
                heard=here.get(link.host.name) or meter_elsewhere(bench, link.host),
            ),
        )
    seen = {
        outcome.host.name: outcome.value
        if outcome.value is not None
        else Seen(None, None, AgentAnswers(), outcome.reason, outcome.next_action)
        for outcome in outcomes
    }
    if peers:
        seen = _with_peers(bench, asked, seen)
    now = dt.datetime.now(dt.UTC)
    builds, trust = builds_of(bench, seen), trust_of(bench)
    judged = judge(asked, seen, builds=builds, trust=trust, now=now, needed=needed, kit=kit)
    return Preflight(bench.name, asked_s, judged)


def _with_peers(bench: Bench, hosts: Sequence[Host], seen: Mapping[str, Seen]) -> dict[str, Seen]:
    """Add to what was seen which of the other hosts answer each host that answered, all asked at once."""
    addresses = {name: one.facts.own_address for name, one in seen.items() if one.facts is not None}
    ways = ways_between(bench, [host for host in hosts if addresses.get(host.name)], addresses)
    unknown = {"others": "not known"}
    return {
        name: one if one.facts is None else replace(one, peers=ways.get(name, unknown))
        for name, one in seen.items()
    }


def builds_of(bench: Bench, seen: Mapping[str, Seen]) -> dict[Platform, str]:
    """Builds that this server provisions, by the kinds of hosts that answered; without those for which it
    never did: looking fetches no wheels."""
    builds = {}
    for platform in {found.facts.platform for found in seen.values() if found.facts is not None}:
        if platform is None:
            continue
        if any((bench.state_dir / "wheelhouse").glob(f"{platform.machine}-{platform.python}-*")):
            with contextlib.suppress(ConfigError, FleetError):
                builds[platform] = expected_build(bench, platform)
    return builds


def trust_of(bench: Bench) -> Trust | None:
    """Return the bench's trust; None while it has no authority: looking makes none."""
    if not (bench.state_dir / "authority").is_dir():
        return None
    authority = BenchAuthority(bench.state_dir)
    return Trust(authority.trusted_pem, frozenset(authority.revocations.serials()))


def look(
    link: HostLink,
    *,
    smoke: bool = True,
    ends_runs: bool = False,
    packages: Sequence[str] = (),
    controller: str = "",
    mine: BoardClaim | None = None,
    heard: HeardMeter | AskedMeter | None = None,
) -> Seen:
    """All that one host says, what is quiet first: its idle power is taken before anything is started. On a
    board that another bench than `mine` has claimed nothing is started or ended. `heard`: its meter, where
    another machine reads it."""
    other = foreign(read(link).text, mine) if mine is not None else None
    free = other is None
    agent = _agent(link, smoke=smoke and free, ends_runs=ends_runs and free, heard=heard)
    clock = host_clock(link, _CLOCK_EXCHANGES)
    facts = gather(link, questions_before_a_run(packages, controller))
    try:
        autorun, switch = asyncio.run(autorun_of(link.host)), asyncio.run(seen_switch(link.host))
        by = "" if other is None else other.described()
        return Seen(facts, clock, agent, autorun=autorun, switch=switch, claimed_by=by)
    except ConfigError as error:
        raise HostError(link.host.name, error.problems[0]) from None


def _agent(
    link: HostLink, *, smoke: bool, ends_runs: bool, heard: HeardMeter | AskedMeter | None = None
) -> AgentAnswers:
    try:
        metered = link.host.meter.driver != NO_METER
        idle_watts = _idle_watts(link, heard) if metered else None
        status = ask_agent(link, "status")
        if metered and (unsettled_s := _unsettled_s(status)) > 0.0:
            time.sleep(unsettled_s)
            idle_watts = _idle_watts(link, heard)
        ended = ""
        if ends_runs and status.get("run") and status.get("session") == "dialling":
            ended = str(ask_agent(link, "end-run").get("ended", ""))
            status = ask_agent(link, "status")
        answered: dict[str, Any] | None = None
        if smoke and not status.get("run"):
            answered = ask_smoke(link)
        if heard is not None:
            status = {**status, "meter": heard.status()}
        return replace(AgentAnswers.of(status, answered, idle_watts), ended_run=ended)
    except HostError as error:
        return AgentAnswers(reason=error.reason)
    except ConfigError as error:
        return AgentAnswers(reason=error.problems[0])


def _unsettled_s(status: Mapping[str, Any]) -> float:
    """Seconds until the agent has lived for `_SETTLED_S`."""
    lived_s = status.get("uptime_s")
    return min(max(0.0, _SETTLED_S - lived_s), _SETTLED_S) if isinstance(lived_s, int | float) else 0.0


def _idle_watts(link: HostLink, heard: HeardMeter | AskedMeter | None) -> float | None:
    now_s, power = ask_readings(link, _IDLE_S) if heard is None else heard.readings(_IDLE_S)
    before = power.watts[power.at_s < now_s - _LOGIN_S]
    chosen = before if len(before) else power.watts  # an agent that has only just begun
    return float(np.median(chosen)) if len(chosen) else None
