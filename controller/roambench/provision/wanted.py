"""The wishes for one host of a bench, as values: what the subjects compare the facts with."""

from __future__ import annotations

from dataclasses import dataclass

from roambench.identity.authority import Credential
from roambench.provision.bench import Bench, Host
from roambench.provision.claims import BoardClaim
from roambench.provision.wheels.agent_build import AgentBuild


@dataclass(frozen=True, slots=True)
class Identity:
    """`reason` says why the host needs a new certificate, "" that it does not. `credential` is that
    certificate; None where it was only asked what there is to do."""

    reason: str = ""
    credential: Credential | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """`influx_token` is what the token's file says; None without one. `claim`: the bench's own
    on the board."""

    bench: Bench
    host: Host
    build: AgentBuild
    identity: Identity
    influx_token: bytes | None = None
    claim: BoardClaim | None = None
