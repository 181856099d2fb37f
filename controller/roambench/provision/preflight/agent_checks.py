"""Is the host's agent the one we mean, can it train, does its meter say what an idle board draws? Pure."""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from roambench.contract.errors import IdentityError
from roambench.identity.authority import check, expiry_of, name_of, serial_of
from roambench.meters.catalogue import traits_at, why_silent
from roambench.meters.stream_meter import STALE_AFTER_S
from roambench.provision import layout
from roambench.provision.bench import NO_METER, Host
from roambench.provision.checks import Check, CheckVerdict
from roambench.provision.facts import Facts, PackageFacts
from roambench.provision.preflight.facts import AgentAnswers
from roambench.provision.wheels.program_kit import ProgramKit, described

_NONE: Final = "no such hardware"
_PROVISION: Final = "roambench fleet provision"
#: A certificate should still last this long.
_SOON: Final = dt.timedelta(days=2)


@dataclass(frozen=True, slots=True)
class BoardKind:
    """A kind of board and its idle power: published figures, with room for radio, Ethernet and the meter.

    `model` begins what the device tree calls the board.
    """

    model: str
    least_idle_w: float
    most_idle_w: float


#: The more special name first: a 3B+ is a "3 Model B", too. A 3B+ idles at 1.9 W (1.7 W without HDMI and
#: LEDs); one busy core makes it 2.7 W, four 5.1 W: what draws that is not idle.
KINDS: Final = (
    BoardKind("Raspberry Pi 3 Model B Plus", 1.3, 2.6),
    BoardKind("Raspberry Pi 3 Model B", 0.8, 2.0),
    BoardKind("Raspberry Pi 4", 1.8, 4.0),
    BoardKind("Raspberry Pi 5", 2.0, 5.0),
    BoardKind("Raspberry Pi Zero 2", 0.3, 1.3),
)
#: What the emulator makes of an idle board, on every container host.
EMULATED: Final = BoardKind("emulated Raspberry Pi 3B+", 1.3, 2.6)


def claim(claimed_by: str) -> Iterator[Check]:
    """Check whose board it is; no check at all of one that no other bench has claimed."""
    if claimed_by:
        take = "ask its owner, or take it: roambench fleet provision --take"
        yield Check("claim", CheckVerdict.FAIL, f"it belongs to {claimed_by}", "a board of this bench", take)


def kind_of(model: str) -> BoardKind | None:
    """None for an unknown board."""
    return next((kind for kind in KINDS if model.startswith(kind.model)), None)


def build(facts: Facts, agent: AgentAnswers, this_build: str, most_run: str) -> Check:
    """`this_build`: what this server provisions, "" where that is not known; `most_run` by such hosts."""
    name, expected = "agent", this_build or most_run
    state = facts.unit(layout.UNIT).active
    if state != "active" or agent.reason:
        found = agent.reason or f"{layout.UNIT} is {state or 'not installed'}"
        log = "see `journalctl -u roambench-agent` there"
        return Check(name, CheckVerdict.FAIL, found, "running", f"{_PROVISION}; {log}")
    running = agent.build or facts.current
    if running != facts.current:
        return Check(
            name,
            CheckVerdict.FAIL,
            f"runs {_short(running)}, installed is {_short(facts.current)}",
            "the installed build",
            "systemctl restart roambench-agent",
        )
    if expected and running != expected:
        return Check(
            name, CheckVerdict.FAIL, f"build {_short(running)}", f"build {_short(expected)}", _PROVISION
        )
    if agent.run:
        return Check(
            name,
            CheckVerdict.FAIL,
            f"takes part in run {agent.run}",
            "no run",
            "wait for it to end; if its controller is gone: roambench-agent ctl end-run",
        )
    if agent.ended_run:
        return Check(
            name,
            CheckVerdict.WARN,
            f"took part in run {agent.ended_run}, whose controller is gone: ended",
            "no run",
            "its last records are there: roambench fleet fetch",
        )
    if not this_build:
        return Check(
            name,
            CheckVerdict.WARN,
            f"build {_short(running)}, which most hosts run",
            "the build of this server, which is not known",
            f"{_PROVISION} from here",
        )
    return Check(name, CheckVerdict.PASS, f"build {_short(running)}")


def wheels(facts: Facts, expected: str) -> Check:
    """`expected`: the digest that most hosts of this kind and build have."""
    if facts.wheels is None:
        return Check("wheels", CheckVerdict.FAIL, "none installed", "", _PROVISION)
    if expected and facts.wheels != expected:
        return Check("wheels", CheckVerdict.FAIL, _short(facts.wheels), _short(expected), _PROVISION)
    return Check("wheels", CheckVerdict.PASS, _short(facts.wheels))


@dataclass(frozen=True, slots=True)
class Trust:
    """The trust of a bench: its authorities' certificates, and the serials that it revoked."""

    authority_pem: bytes
    revoked: frozenset[int] = frozenset()


def packages(facts: Facts, needed: Mapping[str, PackageFacts]) -> Check:
    """Return whether the user's packages are there that the experiment `needed`, and are what they are
    here."""
    found = [_unlike(name, here, facts.python_packages.get(name)) for name, here in needed.items()]
    if wrong := [reason for reason in found if reason]:
        give = f"{_PROVISION} --with-package its wheel or folder"
        return Check("packages", CheckVerdict.FAIL, "; ".join(wrong), "as on this machine", give)
    return Check(
        "packages", CheckVerdict.PASS, ", ".join(f"{name} {one.version}" for name, one in needed.items())
    )


#: Said of a board whose kernel cannot keep a program from the agent's files.
UNCONFINED: Final = "the kernel has no Landlock: a program can read the agent's keys and end what it runs"
CONFINE: Final = "run your own code alone, or flash Debian or Ubuntu, whose kernels have it"


def program(facts: Facts, agent: AgentAnswers, kit: ProgramKit) -> Iterator[Check]:
    """Check that the host has the program of the experiment, as it is on this machine; one that would run
    unconfined is warned of."""
    yield _program(facts, kit)
    if agent.confines_programs is False:
        yield Check("program confined", CheckVerdict.WARN, UNCONFINED, "Landlock, of Linux 5.19 on", CONFINE)


def _program(facts: Facts, kit: ProgramKit) -> Check:
    name, spec = "program", kit.spec
    there = facts.programs.get(kit.digest)
    expected = f"{spec.name} {spec.version} ({kit.digest})"
    if there is not None and facts.programs.get(there.get("environment", "")) is not None:
        return Check(name, CheckVerdict.PASS, expected)
    others = [
        f"{described(one)} ({digest})" for digest, one in facts.programs.items() if one and "name" in one
    ]
    has = ", ".join(others) or "none"
    return Check(name, CheckVerdict.FAIL, has, expected, f"roambench fleet {spec.program} BENCH APP_DIR")


def _unlike(name: str, here: PackageFacts, there: PackageFacts | None) -> str:
    """Return why a host's package is not this machine's, "" if it is. What only this machine has makes no
    difference where wheels may leave it out: files that are no source, and folders such as tests."""
    if there is None or there.version != here.version:
        return f"lacks {name} {here.version}" + (f" (it has {there.version})" if there else "")
    tops = {path.partition("/")[0] for path in here.files}
    folders = {path.rpartition("/")[0] for path in there.files}
    other = sorted(
        path
        for path in {*here.files, *there.files}
        if path.partition("/")[0] in tops
        and here.files.get(path) != there.files.get(path)
        and (path in there.files or (path.endswith(".py") and path.rpartition("/")[0] in folders))
    )
    more = f" and {len(other) - 1} more" if len(other) > 1 else ""
    return f"{name} {here.version} has not the {other[0]}{more} that is here" if other else ""


def certificate(facts: Facts, host: Host, trust: Trust | None, now: dt.datetime) -> Check:
    """`trust` None: the bench has no authority yet, so its issuer is unknown."""
    name = "certificate"
    if not facts.certificate_pem:
        return Check(name, CheckVerdict.FAIL, "none", f"one of {host.name}", _PROVISION)
    pem = facts.certificate_pem.encode()
    try:
        if (owner := name_of(pem)) != host.name:
            return Check(name, CheckVerdict.FAIL, f"of {owner}", f"one of {host.name}", _PROVISION)
        if trust is not None:
            check(pem, trust.authority_pem, now=now)
            if serial_of(pem) in trust.revoked:
                raise IdentityError("revoked")
        until = expiry_of(pem)
    except IdentityError as error:
        return Check(name, CheckVerdict.FAIL, str(error), "", "roambench fleet certs rotate")
    found = f"until {until:%F %H:%M} UTC"
    if until <= now:
        return Check(name, CheckVerdict.FAIL, f"expired {until:%F}", "", "roambench fleet certs rotate")
    if until - now < _SOON:
        return Check(name, CheckVerdict.WARN, found, "two days or more left", "roambench fleet certs rotate")
    return Check(name, CheckVerdict.PASS, found)


def smoke(agent: AgentAnswers) -> Check:
    """Return whether the agent's torch does a step of SGD."""
    name = "torch"
    if agent.reason:
        return Check(name, CheckVerdict.FAIL, "not tried: no agent answers", "a step of SGD", _PROVISION)
    if agent.smoke_ok is None:
        return Check(name, CheckVerdict.SKIP, "not tried")
    if agent.smoke_ok:
        return Check(name, CheckVerdict.PASS, agent.smoke or "a step of SGD")
    return Check(
        name,
        CheckVerdict.FAIL,
        agent.smoke,
        "a step of SGD",
        "illegal instruction: wheels of another board; provision again, else take it out",
    )


def meter_fresh(agent: AgentAnswers, host: Host) -> Check:
    """Return whether the meter has readings of just now."""
    name = "meter"
    if host.meter.driver == NO_METER:
        return Check(name, CheckVerdict.SKIP, _NONE)
    if agent.reason:
        return Check(name, CheckVerdict.FAIL, "not known: no agent answers", "a reading", _PROVISION)
    age_s = agent.meter_age_s
    fresh_s = max(STALE_AFTER_S, 3.0 * traits_at(host.meter.driver, host.meter.port).nominal_s)
    if agent.meter_state == "ok" and age_s is not None and age_s <= fresh_s:
        settings = f"; {agent.meter_settings}" if agent.meter_settings else ""
        return Check(name, CheckVerdict.PASS, f"a reading {age_s:.1f} s ago{settings}")
    found = agent.meter_state + ("" if age_s is None else f", last reading {age_s:.0f} s ago")
    what_to_do = why_silent(host.meter.driver)
    if agent.meter_state == "unavailable" and agent.meter_detail:
        what_to_do = agent.meter_detail  # names the port and the cause, and where it is the latch the way out
    return Check(name, CheckVerdict.FAIL, found, f"a reading within {fresh_s:g} s", what_to_do)


def autorun(state: bool | str, host: Host) -> Check:
    """Check that the meter's output comes back after a reset. `state`: what it says, or why it is unknown."""
    name = "autorun"
    if host.meter.driver == NO_METER:
        return Check(name, CheckVerdict.SKIP, _NONE)
    if isinstance(state, str):
        return Check(name, CheckVerdict.SKIP, state)
    if state:
        return Check(name, CheckVerdict.PASS, "on")
    return Check(
        name,
        CheckVerdict.WARN,
        "off",
        "on: after a reset of the meter its output, and the board, stay off",
        f"roambench meter power autorun {shlex.quote(host.meter.port)} --on --driver {host.meter.driver}"
        + (f" --wifi {host.meter.wifi_hop}" if host.meter.wifi_hop else ""),
    )


def port_openers(facts: Facts, host: Host) -> Check:
    """Return whether programs run that open the port of a meter: lines are lost to them, and the meter may
    reset."""
    name = "meter's port"
    if host.meter.emulated or host.meter.host or not host.meter.port.startswith("/"):
        return Check(name, CheckVerdict.SKIP, _NONE)
    if not facts.port_openers:
        return Check(name, CheckVerdict.PASS, "no other process opens serial ports")
    running = " and ".join(facts.port_openers)
    return Check(
        name,
        CheckVerdict.WARN,
        f"{running} {'run' if len(facts.port_openers) > 1 else 'runs'}",
        "no program that opens serial ports by itself: that may reset the meter",
        f"systemctl mask --now {' '.join(facts.port_openers)}, if nothing on the board needs it",
    )


def idle_watts(facts: Facts, agent: AgentAnswers, host: Host) -> Check:
    """Return whether the idle board draws what such a board does."""
    name = "idle watts"
    if host.meter.driver == NO_METER:
        return Check(name, CheckVerdict.SKIP, _NONE)
    if agent.idle_watts is None:
        return Check(
            name, CheckVerdict.FAIL, "no readings", "readings of an idle board", "see the meter's line"
        )
    watts = host.meter.gain * agent.idle_watts + host.meter.offset_watts
    kind = EMULATED if host.meter.emulated else kind_of(facts.model)
    if kind is None:
        board = facts.model or "this machine"
        return Check(
            name,
            CheckVerdict.WARN,
            f"{watts:.2f} W",
            "",
            f"what {board} draws is unknown: judge for yourself",
        )
    found, expected = f"{watts:.2f} W", f"{kind.least_idle_w:g} to {kind.most_idle_w:g} W ({kind.model})"
    if kind.least_idle_w <= watts <= kind.most_idle_w:
        return Check(name, CheckVerdict.PASS, found)
    what_to_do = (
        "less than the board needs: is it powered through this meter? roambench fleet identify tells"
        if watts < kind.least_idle_w
        else "what runs on the board, what hangs on its USB ports? is the calibration its meter's?"
    )
    return Check(name, CheckVerdict.FAIL, found, expected, what_to_do)


def _short(digest: str) -> str:
    return digest[:12] or "unknown"
