"""The proof of which meter powers which board: how it is judged, kept, and when it no longer counts."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final

from roambench.contract.errors import FleetError
from roambench.contract.json_values import kept_in
from roambench.contract.whole_file import write_whole
from roambench.meters.catalogue import why_silent
from roambench.provision.bench import NO_METER, Bench, Host
from roambench.provision.meter_steps import BoardMeter, Match

#: A proof is this old at most: people re-plug cables.
MAX_AGE_DAYS: Final = 30.0
_NAME: Final = "meter_map.json"
_DAY_S: Final = 86_400.0


class Proof(StrEnum):
    """A verdict: the meter that the bench file gives a board is proven to be its own, or what is wrong."""

    PROVEN = "proven"
    SWAPPED = "swapped"  # another board's meter moved
    STRANGER = "unknown meter"  # a meter moved that the bench file does not name
    DEAD = "dead meter"  # its meter said nothing at all
    AMBIGUOUS = "ambiguous"
    UNMOVED = "nothing moved"
    NOT_LOADED = "not loaded"
    REOPENED = "opened again"  # it was proven, and may be another meter since


@dataclass(frozen=True, slots=True)
class MapEntry:
    """One board: the meter that the bench file gives it, the one that moved, and how sure that is.

    `separation` is the lead over the next meter in standard uncertainties (1e9: there was no other).
    """

    board: str
    expected: str
    found: str
    verdict: Proof
    step_w: float
    u_step_w: float
    runner_up: str
    runner_up_w: float
    separation: float
    reason: str
    machine_id: str
    cabling: str
    made_s: float  # seconds since the epoch
    build: str


@dataclass(frozen=True, slots=True)
class MeterMap:
    """All boards that were ever asked, each as it was the last time."""

    bench: str
    entries: tuple[MapEntry, ...]

    @property
    def reopened(self) -> set[str]:
        """The boards whose meter was opened again after it was proven."""
        return {entry.board for entry in self.entries if entry.verdict is Proof.REOPENED}

    def entry(self, board: str) -> MapEntry | None:
        """The entry of a board, if it has one."""
        return next((entry for entry in self.entries if entry.board == board), None)


def meter_id(host: Host) -> str:
    """The meter's own serial number where the bench file has it, else whose port it is on; "" for none."""
    if host.meter.driver == NO_METER:
        return ""
    return (
        f"{host.meter.driver}:{host.meter.serial}"
        if host.meter.serial
        else f"{host.meter.host or host.name}:{host.meter.port}"
    )


def cabling(host: Host) -> str:
    """The part of a host's description that a proof hangs on."""
    meter = host.meter
    where = (host.name, host.address, meter.driver, meter.port, meter.serial, meter.host)
    return " ".join(where).rstrip()


def judged(
    bench: Bench,
    hosts: Sequence[Host],
    found: Mapping[str, BoardMeter],
    silent: Sequence[str],
    machine_ids: Mapping[str, str],
    builds: Mapping[str, str],
    *,
    made_s: float,
) -> MeterMap:
    """Judge the windows against the bench file; `machine_ids` and agents' `builds` are by host. Hosts without
    a meter have no entry."""
    owners = {meter_id(host): host.name for host in bench.hosts}
    entries = []
    for host in hosts:
        if not (expected := meter_id(host)):
            continue
        answer = found.get(host.name) or BoardMeter(host.name, Match.NOT_LOADED, reason="not asked")
        verdict, reason = _verdict(answer, expected, owners, expected in silent)
        first, second = (answer.steps[place] if len(answer.steps) > place else None for place in (0, 1))
        entries.append(
            MapEntry(
                host.name,
                expected,
                answer.meter,
                verdict,
                first.watts if first else 0.0,
                first.u_watts if first else 0.0,
                second.meter if second else "",
                second.watts if second else 0.0,
                min(answer.separation, 1e9),
                reason,
                machine_ids.get(host.name, ""),
                cabling(host),
                made_s,
                builds.get(host.name, ""),
            )
        )
    return MeterMap(bench.name, tuple(entries))


def _verdict(answer: BoardMeter, expected: str, owners: Mapping[str, str], silent: bool) -> tuple[Proof, str]:
    if answer.match is Match.FOUND:
        if answer.meter == expected:
            return Proof.PROVEN, ""
        if (owner := owners.get(answer.meter)) is not None:
            return Proof.SWAPPED, (
                f"the meter of {owner} moved: swap the cables, or the meters in the bench file"
            )
        return Proof.STRANGER, f"{answer.meter} moved, which the bench file gives to no board"
    if answer.match is Match.NOT_LOADED:
        return Proof.NOT_LOADED, answer.reason
    if silent:
        return Proof.DEAD, f"{expected} said nothing: {why_silent(expected.partition(':')[0])}"
    if answer.match is Match.NOTHING_MOVED:
        return Proof.UNMOVED, f"{answer.reason}; is the board powered through any of these meters?"
    return Proof.AMBIGUOUS, (
        f"{answer.reason}; no other user may work on the boards meanwhile: "
        "when they rest, identify it again (--only)"
    )


def map_path(bench: Bench) -> Path:
    """The file of the bench's meter map."""
    return bench.state_dir / _NAME


def write_map(bench: Bench, made: MeterMap) -> Path:
    """Keep the proof; boards that were not asked now keep what was said of them before, also those that the
    bench file does not name at present: another file may share the folder."""
    asked = {entry.board for entry in made.entries}
    before = read_map(bench)
    kept = [] if before is None else [entry for entry in before.entries if entry.board not in asked]
    path = map_path(bench)
    text = json.dumps(asdict(MeterMap(made.bench, (*made.entries, *kept))), indent=1)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, text + "\n")
    except OSError as error:
        raise FleetError(f"{path}: cannot be written: {error.strerror or error}") from None
    return path


def read_map(bench: Bench) -> MeterMap | None:
    """The proof as it is kept; None without one, or where it cannot be read."""
    return kept_in(MeterMap, map_path(bench))


def void(bench: Bench, reopened: Mapping[str, tuple[float, str]]) -> None:
    """Boards whose meter was opened again are no longer proven: board -> (when, in seconds since the epoch,
    and why). A proof that was made later stays."""
    made = read_map(bench)
    entries = () if made is None else made.entries
    changed = [
        replace(entry, verdict=Proof.REOPENED, reason=reopened[entry.board][1])
        for entry in entries
        if entry.board in reopened
        and entry.verdict is Proof.PROVEN
        and entry.made_s < reopened[entry.board][0]
    ]
    if changed:
        write_map(bench, MeterMap(bench.name, tuple(changed)))


def doubts(
    made: MeterMap | None,
    hosts: Sequence[Host],
    now_s: float,
    machine_ids: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return why the energy of which boards cannot be trusted: host -> reason; empty when all are proven.

    A proof no longer counts when it is old, when the bench file gives the board another address or meter, or
    when another machine answers by its name (`machine_ids`: those that are known now).
    """
    found = {}
    for host in hosts:
        expected = meter_id(host)
        entry = made.entry(host.name) if made is not None else None
        if not expected:
            continue  # nothing is measured, so nothing can be measured wrongly
        if entry is None:
            found[host.name] = "no proof of its meter"
        elif entry.verdict is not Proof.PROVEN:
            found[host.name] = f"{entry.verdict}: {entry.reason}"
        elif now_s - entry.made_s > MAX_AGE_DAYS * _DAY_S:
            day = datetime.datetime.fromtimestamp(entry.made_s, datetime.UTC).date()
            found[host.name] = f"proven on {day}, more than {MAX_AGE_DAYS:g} days ago"
        elif entry.cabling != cabling(host):
            found[host.name] = "the bench file gives it another address or meter since the proof"
        elif _is_another(entry.machine_id, (machine_ids or {}).get(host.name, "")):
            found[host.name] = "another machine than the one that was proven answers by its name"
    return found


def _is_another(proven: str, now: str) -> bool:
    return bool(proven and now and proven != now)
