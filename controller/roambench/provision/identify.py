"""Identify: load one board after the other, collect what all meters said, and prove the map.

A reading belongs to the meter that made it, whichever machine reads it: each meter's series comes from the
host that the bench file gives it to, each load is put on a board by its own agent, and all times are brought
to this machine's clock.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from roambench.agent.readings.meter_watch import KEPT_EVERY_NS, NEWEST
from roambench.contract.errors import FleetError
from roambench.provision.agent_asks import ask_agent, ask_burn, ask_readings
from roambench.provision.bench import NO_METER, Bench, Host
from roambench.provision.claims import claim_by, keep_off
from roambench.provision.meter_map import MeterMap, judged, meter_id
from roambench.provision.meter_steps import BurnWindow, PowerSeries, meters_of_boards, silent_meters
from roambench.provision.meters_here import HeardMeter, meters_here
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink, on_hosts, open_link
from roambench.provision.ssh.script import Script

BURN_S: Final = 8.0
REST_S: Final = 10.0
#: An agent keeps that long what its meter says, however fast that speaks: it is fetched in time.
_KEPT_S: Final = NEWEST * KEPT_EVERY_NS * 1e-9
#: What the login and asking every host take at most.
_SLOW_S: Final = 30.0
_EXCHANGES: Final = 4


def identify(
    bench: Bench,
    hosts: Sequence[Host],
    *,
    burn_s: float = BURN_S,
    rest_s: float = REST_S,
    rounds: int = 1,
    report: Callable[[str], None],
) -> MeterMap:
    """Load each of the hosts that have a meter, `rounds` times, and find the meter that moves.

    The caller holds the bench: no other user may work on it meanwhile. FleetError where no host has a meter;
    a host or a meter that fails is an entry of the map with its reason.
    """
    boards = [host for host in hosts if host.meter.driver != NO_METER]
    readers = [host for host in bench.hosts if host.meter.driver != NO_METER]
    if not boards:
        raise FleetError(f"{bench.name}: none of these hosts has a meter")
    with meters_here(bench, readers) as here:
        return _identified(bench, boards, readers, here, burn_s, rest_s, rounds, report)


def _identified(
    bench: Bench,
    boards: Sequence[Host],
    readers: Sequence[Host],
    here: Mapping[str, HeardMeter],
    burn_s: float,
    rest_s: float,
    rounds: int,
    report: Callable[[str], None],
) -> MeterMap:
    machine_ids, builds, not_loaded = _who_they_are(bench, boards)
    loadable = [host for host in boards if host.name not in not_loaded]
    windows: list[BurnWindow] = []
    pieces: dict[str, list[PowerSeries]] = {}
    began_s = time.monotonic()
    time.sleep(rest_s)
    for board in (host for _ in range(rounds) for host in loadable):
        if board.name in not_loaded:
            continue  # it failed in the round before
        report(f"{board.name}: loaded for {burn_s:g} s")
        try:
            with open_link(bench, board) as link:
                start_s, end_s = _burnt(link, burn_s)
            windows.append(BurnWindow(board.name, start_s, end_s, rest_s))
        except HostError as error:
            not_loaded[board.name] = error.reason
        time.sleep(rest_s)
        if not _keeps_another(time.monotonic() - began_s, burn_s + rest_s):
            _collect(bench, readers, here, began_s, pieces)
            began_s = time.monotonic()
            time.sleep(rest_s)
    _collect(bench, readers, here, began_s, pieces)
    series = {meter: _joined(parts) for meter, parts in pieces.items()}
    found = meters_of_boards(
        [window for window in windows if window.board not in not_loaded], series, not_loaded
    )
    silent = silent_meters([meter_id(host) for host in readers], series)
    return judged(bench, boards, found, silent, machine_ids, builds, made_s=time.time())


def _who_they_are(
    bench: Bench, boards: Sequence[Host]
) -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Machine ids, builds, and why a board cannot be loaded; one that is in a run must not be."""

    def ask(link: HostLink) -> tuple[str, str]:
        keep_off(link, mine)
        status = ask_agent(link, "status")
        if status.get("run"):
            raise HostError(link.host.name, f"takes part in run {status['run']}")
        return link.must(Script("cat /etc/machine-id")).decode().strip(), str(status.get("build", ""))

    mine = claim_by(bench)
    ids, builds, failed = {}, {}, {}
    for outcome in on_hosts(bench, boards, ask):
        if outcome.value is None:
            failed[outcome.host.name] = outcome.reason
        else:
            ids[outcome.host.name], builds[outcome.host.name] = outcome.value
    return ids, builds, failed


def _keeps_another(elapsed_s: float, next_s: float) -> bool:
    """Return whether agents still have the first reading when another board of `next_s` is over."""
    return elapsed_s + next_s + _SLOW_S <= _KEPT_S


def _burnt(link: HostLink, seconds: float) -> tuple[float, float]:
    """Load the board; when it was, by this machine's monotonic clock."""
    asked_s = time.monotonic()
    began_s, ended_s = ask_burn(link, seconds)
    answered_s = time.monotonic()
    shift_s = seconds_to_here(link, (began_s, ended_s), (asked_s, answered_s))
    return began_s + shift_s, ended_s + shift_s


def _collect(
    bench: Bench,
    readers: Sequence[Host],
    here: Mapping[str, HeardMeter],
    since_s: float,
    pieces: dict[str, list[PowerSeries]],
) -> None:
    """Add what every meter said since `since_s`; those of a host that does not answer are silent."""

    def said(link: HostLink, board: Host) -> PowerSeries:
        asked_s = time.monotonic()
        now_s, power = ask_readings(link, asked_s - since_s, board)
        answered_s = time.monotonic()
        return PowerSeries(
            power.at_s + seconds_to_here(link, (now_s, now_s), (asked_s, answered_s)), power.watts
        )

    def ask(link: HostLink) -> dict[str, PowerSeries]:
        return {meter_id(board): said(link, board) for board in asked[link.host.name]}

    asked: dict[str, list[Host]] = {}
    for host in readers:
        if host.name in here:
            _, power = here[host.name].readings(time.monotonic() - since_s)
            pieces.setdefault(meter_id(host), []).append(power)
        else:
            asked.setdefault(host.reader, []).append(host)
    for outcome in on_hosts(bench, [bench.host(name) for name in asked], ask):
        for meter, power in (outcome.value or {}).items():
            pieces.setdefault(meter, []).append(power)


def seconds_to_here(link: HostLink, there_s: tuple[float, float], here_s: tuple[float, float]) -> float:
    """Seconds to add to a host's monotonic time to get this machine's.

    What was asked here at here_s[0] happened there from there_s[0] to there_s[1] and was answered here at
    here_s[1]: that bounds it to the second that a Pi needs to start the command. The kernel's uptime is the
    same clock and quick to ask; it is used where it lies within those bounds.
    """
    bounds = here_s[0] - there_s[0], here_s[1] - there_s[1]
    best: tuple[float, float] | None = None
    for _ in range(_EXCHANGES):
        asked_s = time.monotonic()
        said = link.must(Script("cat /proc/uptime"))
        answered_s = time.monotonic()
        try:
            uptime_s = float(said.split()[0])
        except (ValueError, IndexError):
            break
        if best is None or answered_s - asked_s < best[0]:
            best = answered_s - asked_s, (asked_s + answered_s) / 2.0 - uptime_s
    if best is not None and bounds[0] - best[0] <= best[1] <= bounds[1] + best[0]:
        return best[1]
    return (bounds[0] + bounds[1]) / 2.0


def _joined(parts: Sequence[PowerSeries]) -> PowerSeries:
    """One series of pieces that do not overlap but for the jitter of clocks."""
    at_s = np.concatenate([part.at_s for part in parts])
    watts = np.concatenate([part.watts for part in parts])
    order = np.argsort(at_s, kind="stable")
    return PowerSeries(at_s[order], watts[order])
