"""The state of one host: what its agent says by `ctl status`, and its clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from roambench.contract.json_values import beyond_64_bits, json_or_none
from roambench.contract.printable import printable
from roambench.contract.throttling import throttle_names, throttle_names_since_boot
from roambench.provision import layout
from roambench.provision.agent_asks import LOOK, ask_agent
from roambench.provision.bench import CONTROLLER_READER, MeterEntry
from roambench.provision.claims import BoardClaim, foreign, read
from roambench.provision.meters_here import meter_elsewhere
from roambench.provision.preflight.agent_checks import CONFINE, UNCONFINED
from roambench.provision.preflight.host_checks import LEAST_DISK_BYTES
from roambench.provision.preflight.host_clock import host_clock
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.provision.wheels.program_kit import described

_CLOCK_EXCHANGES: Final = 3
_ABOUT: Final = Script(
    f'for file in {layout.PROGRAMS}/*/about.json; do head -c 4096 -- "$file" 2>/dev/null; echo; done'
)


@dataclass(frozen=True, slots=True)
class HostStatus:
    """None: the host, or the meter, does not say. `trouble` tells why there is no agent's word at all.

    The clock offset is the host's minus this machine's and lies within `clock_bound_s` on either side.
    `spool_depth` counts records that the controller has yet to get, `unsent_runs` names the finished runs
    whose records `fleet fetch` can collect. `program`: what answers messages there, with its version.
    `confines_programs`: the board's kernel keeps a program from the agent's keys and processes.
    """

    version: str = ""
    build: str = ""
    session: str = ""
    run: str = ""
    phase: str = ""
    clock_offset_s: float | None = None
    clock_bound_s: float | None = None
    temperature_c: float | None = None
    throttle_bits: int | None = None
    disk_free_bytes: int | None = None
    disk_total_bytes: int | None = None
    spool_depth: int | None = None
    unsent_runs: tuple[str, ...] = ()
    meter_state: str = ""
    watts: float | None = None
    meter_age_s: float | None = None
    program: str = ""
    confines_programs: bool | None = None
    trouble: str = ""
    next_action: str = ""


def look_at(link: HostLink, mine: BoardClaim) -> HostStatus:
    """Ask clock, agent and claim. A host whose agent does not answer is up, with a trouble."""
    clock = host_clock(link, _CLOCK_EXCHANGES)
    try:
        answer = ask_agent(link, "status")
        if beyond_64_bits(answer):
            raise HostError(
                link.host.name, "ctl status: not what an agent says: a number beyond 64 bits", LOOK
            )
        if elsewhere := meter_elsewhere(link.bench, link.host):
            answer = {**answer, "meter": elsewhere.status()}
        status = status_of(answer)
    except HostError as error:
        status = HostStatus(trouble=error.reason, next_action=error.next_action)
    else:
        free = status.disk_free_bytes
        if free is not None and free < LEAST_DISK_BYTES:
            status = replace(status, next_action=link.make_room(layout.STATE))
        if other := foreign(read(link).text, mine):
            status = replace(status, next_action=f"it belongs to {other.described()}")
    if link.host.reader == CONTROLLER_READER:
        status = replace(status, meter_state=controllers_meter(link.host.meter))
    program = _program(link)
    if program and status.confines_programs is False and not status.next_action:
        status = replace(status, next_action=f"{UNCONFINED}: {CONFINE}")
    return replace(status, clock_offset_s=clock.offset_s, clock_bound_s=clock.bound_s, program=program)


def _program(link: HostLink) -> str:
    """The program that the board has, "" for none."""
    lines = link.run(_ABOUT).text.splitlines()
    found = [json_or_none(dict[str, str], line) or {} for line in lines]
    return printable(", ".join(described(about) for about in found if "name" in about))


def controllers_meter(meter: MeterEntry) -> str:
    """Return what reads a meter of the controller, and whether its port is there; nothing is opened, as that
    may reset the meter."""
    reader, address = "read by the controller in a run", meter.port.partition("?")[0]
    if not address.startswith("/"):
        return reader
    return f"{reader}: {address} is {'there' if Path(address).exists() else 'not there'}"


def status_of(answer: Mapping[str, Any]) -> HostStatus:
    """From the agent's answer, taking what is there: the agent may be of another build than we are."""
    host, disk = _table(answer, "host"), _table(answer, "disk")
    meter = _table(answer, "meter")
    last = _table(meter, "last")
    spool = _table(answer, "spool")
    depths = [_whole(_table(spool, consumer).get("depth")) for consumer in spool]
    return HostStatus(
        version=_word(answer, "version"),
        build=_word(answer, "build"),
        session=_word(answer, "session"),
        run=_word(answer, "run"),
        phase=_word(answer, "phase"),
        temperature_c=_number(host.get("temperature_c")),
        throttle_bits=_whole(host.get("throttle_bits")),
        disk_free_bytes=_whole(disk.get("free_bytes")),
        disk_total_bytes=_whole(disk.get("total_bytes")),
        spool_depth=max((depth for depth in depths if depth is not None), default=None),
        unsent_runs=tuple(sorted(printable(str(run)) for run in _table(answer, "unsent_runs"))),
        meter_state=_word(meter, "state"),
        watts=_number(last.get("watts")),
        meter_age_s=_number(last.get("age_s")),
        confines_programs=said if isinstance(said := answer.get("confines_programs"), bool) else None,
    )


def throttle_words(bits: int | None) -> str:
    """Bits of `vcgencmd get_throttled` in words: "under-voltage now, throttled since boot"; "" for
    nothing."""
    if not bits:
        return ""
    now = throttle_names(bits)
    since = [name for name in throttle_names_since_boot(bits) if name not in now]
    return ", ".join([*(f"{name} now" for name in now), *(f"{name} since boot" for name in since)])


def _table(values: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = values.get(key)
    return found if isinstance(found, Mapping) else {}


def _word(values: Mapping[str, Any], key: str) -> str:
    return printable(str(values.get(key, "")))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
