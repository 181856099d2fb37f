"""Provisions hosts: asks for facts, performs what is to do, and looks again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Literal

from roambench.provision import layout
from roambench.provision.bench import Bench, Host
from roambench.provision.certificates import BenchAuthority, issue_for
from roambench.provision.claims import BoardClaim, claim_by, foreign, keep_off
from roambench.provision.facts import Facts, gather
from roambench.provision.planning import plan, unfit
from roambench.provision.ssh.host_error import ConnectionLost, HostError
from roambench.provision.ssh.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.ssh.script import Script
from roambench.provision.step import HostPlan, HostRefusal, HostStep
from roambench.provision.subjects.claim import claimed_for
from roambench.provision.subjects.identity import IDENTITY_SUBJECT, identity_reason
from roambench.provision.wanted import Identity, Wanted
from roambench.provision.wheels.agent_build import AgentBuild, Builds
from roambench.provision.wheels.program_kit import ProgramKit, kept_kit
from roambench.provision.wheels.shipping import Sent, ship
from roambench.provision.wheels.turns import Turns
from roambench.provision.wheels.user_packages import UserPackage, kept_packages
from roambench.spool.influx_settings import token_in

#: Hosts at a time. What they are sent goes through one network and one processor here, and in turns.
_AT_ONCE: Final = 64
#: Largest configuration file that is read from a host.
_MOST_BYTES: Final = 2**20

Report = Callable[[Host, str], None]


@dataclass(frozen=True, slots=True)
class Provisioned:
    """The steps on a host, done unless this was a dry run; none: it was as it should be."""

    build: AgentBuild
    plan: HostPlan
    seconds: float
    #: Of a dry run that was asked for differences: files as they are, by path.
    found: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def changes(self) -> tuple[str, ...]:
        """The subjects that were changed, each once."""
        return tuple(dict.fromkeys(step.subject for step in self.plan.steps))


def provision(
    bench: Bench,
    hosts: Sequence[Host],
    *,
    dry_run: bool = False,
    diff: bool = False,
    report: Report,
    let_go: Callable[[Host], None],
    packages: tuple[UserPackage, ...] | None = None,
    kit: ProgramKit | Literal["kept"] | None = "kept",
    take: bool = False,
) -> list[HostOutcome[Provisioned]]:
    """Make every host what the bench wants; a host where that fails is a row with its reason.

    Doing it again changes nothing. `report` gets each step as it begins, from several threads. The wheels
    are fetched when the first host of a kind needs them. `let_go` gets each host that could be logged in to
    as soon as nothing more is done to it, however that ended. `diff`: a dry run also fetches the files that
    would change. `packages`: the user's own, instead of those that the bench has; `kit`: its program, None:
    without one. `take`: also boards that another bench has claimed, before the wheels. ConfigError for an
    InfluxDB token that is missing.
    """
    builds = Builds(
        bench.state_dir,
        kept_packages(bench.state_dir) if packages is None else packages,
        kept_kit(bench.state_dir) if kit == "kept" else kit,
    )
    token, mine = _token(bench), claim_by(bench)
    turns = Turns()

    def work(link: HostLink) -> Provisioned:
        sent = Sent(lambda line: report(link.host, line))
        with ExitStack() as end, ExitStack() as again:
            end.callback(let_go, link.host)
            while True:
                try:
                    done = _provision(
                        link, builds, token, mine, sent, turns, dry_run=dry_run, report=report, take=take
                    )
                    return replace(done, found=_changing(link, done.plan)) if diff else done
                except ConnectionLost:
                    # A link that lives shorter than the wheels take gets them there, too, if it carries some.
                    if link.hung_up or not sent.worth_another():
                        raise
                report(link.host, "connection lost while wheels were sent: again")
                again.close()
                again.enter_context(link.reconnected())

    return on_hosts(bench, hosts, work, at_once=_AT_ONCE)


def _provision(
    link: HostLink,
    builds: Builds,
    token: bytes | None,
    mine: BoardClaim,
    sent: Sent,
    turns: Turns,
    *,
    dry_run: bool,
    report: Report,
    take: bool,
) -> Provisioned:
    began_s = time.monotonic()
    facts = gather(link)
    if not take:
        keep_off(link, mine, facts.claim)
    _refuse(link, unfit(facts))
    platform = facts.platform
    assert platform is not None  # a host of another kind is unfit
    taken = tuple(claimed_for(facts, mine)) if not dry_run and foreign(facts.claim, mine) else ()
    for step in taken:  # now: its owner hears of it, and wheels may take minutes
        report(link.host, f"{step.subject}: {step.reason}")
        perform(link, step)
        facts = replace(facts, claim=mine.to_json())
    build = builds.of(
        platform, lambda: report(link.host, f"wheels: fetched once to this machine, for {platform}")
    )
    reason = _identity_reason(link, facts)
    needs = bool(reason) and not dry_run
    wanted = Wanted(link.bench, link.host, build, Identity(reason), token, mine)
    _refuse(link, plan(facts, wanted).refusals)
    if needs:  # only now: a certificate that is issued is in the bench's record
        credential = issue_for(link.bench, link.host)
        wanted = replace(wanted, identity=Identity(reason, credential))
    todo = plan(facts, wanted)
    if not dry_run:
        _perform_all(link, todo, wanted.identity, sent, turns, report)
        if todo.steps:
            _look_again(link, wanted)
    return Provisioned(build, replace(todo, steps=taken + todo.steps), time.monotonic() - began_s)


def _changing(link: HostLink, todo: HostPlan) -> dict[str, bytes]:
    """The files that the plan would change, as they are; those that are not there are empty."""
    paths = [file.path for step in todo.steps for file in step.files if not file.secret]
    return {
        path: link.run(Script('cat -- "$1"'), path, root=True, most_bytes=_MOST_BYTES).out
        for path in paths
        if not path.endswith(".whl")
    }


def _perform_all(
    link: HostLink, todo: HostPlan, identity: Identity, sent: Sent, turns: Turns, report: Report
) -> None:
    """Until the certificate is there, a failure is noted in the record of certificates, too."""
    with ExitStack() as sending:
        if identity.credential is not None:
            authority = BenchAuthority(link.bench.state_dir)
            sending.enter_context(authority.sending(identity.credential))
        for step in todo.steps:
            report(link.host, f"{step.subject}: {step.reason}")
            perform(link, step, sent, turns)
            if step.subject == IDENTITY_SUBJECT:
                sending.close()


def perform(link: HostLink, step: HostStep, sent: Sent | None = None, turns: Turns | None = None) -> None:
    """Do one step; HostError with its subject, and with what is known of such a failure."""
    try:
        for file in step.files:
            link.put(file.content, file.path, mode=file.mode, owner=file.owner)
        if not step.script:
            return
        if step.shipment is not None:
            ship(link, step.shipment, sent or Sent(lambda line: None), turns or Turns())
        ran = link.run(step.script, *step.values, root=True, timeout_s=step.timeout_s)
    except HostError as error:
        raise type(error)(link.host.name, f"{step.subject}: {error.reason}", error.next_action) from None
    if ran.exit_code == 0:
        return
    if b"No space left" in ran.err:
        what = f"{step.subject}: no space left on its disk"
        raise HostError(link.host.name, what, link.make_room(layout.OPT))
    what, then = step.explained.get(
        ran.exit_code, ("", f"look at it: roambench fleet exec ... {link.host.name}")
    )
    said = f"{what} ({ran.why})" if what and ran.err.strip() else what or ran.why
    raise HostError(link.host.name, f"{step.subject}: {said}", then)


def _look_again(link: HostLink, wanted: Wanted) -> None:
    """The check of every step: with what it was to bring about there is nothing left to do."""
    facts = gather(link)
    wanted = replace(wanted, identity=Identity(_identity_reason(link, facts)))
    left = plan(facts, wanted).steps
    if left:
        problems = "; ".join(f"{step.subject}: {step.reason}" for step in left)
        raise HostError(link.host.name, f"still not so: {problems}", "again; then look at it with ssh")


def _identity_reason(link: HostLink, facts: Facts) -> str:
    authority = BenchAuthority(link.bench.state_dir)
    doubt = authority.doubt(link.host.name, facts.certificate_pem.encode())
    return identity_reason(facts, doubt, authority.trusted_pem)


def _refuse(link: HostLink, refusals: Sequence[HostRefusal]) -> None:
    if refusals:
        raise HostError(
            link.host.name,
            "; ".join(refusal.reason for refusal in refusals),
            "; ".join(dict.fromkeys(refusal.next_action for refusal in refusals)),
        )


def _token(bench: Bench) -> bytes | None:
    """The write-only token's file, as every host gets it."""
    if bench.influxdb is None or not bench.influxdb.token_file:
        return None
    return token_in(Path(bench.influxdb.token_file), "influxdb.token_file: ").encode() + b"\n"
