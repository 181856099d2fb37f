"""Is this host as the bench needs it? Operating system, clock, disk, memory, processor, network; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from roambench.contract.counts import count
from roambench.contract.throttling import throttle_names, throttle_names_since_boot
from roambench.provision import layout
from roambench.provision.bench import Host
from roambench.provision.checks import Check, CheckVerdict
from roambench.provision.facts import Facts
from roambench.provision.platforms import IMAGE, PYTHONS
from roambench.provision.power.switching import SeenSwitch
from roambench.provision.preflight.facts import ClockOffset, offset_words

_AGAIN: Final = "roambench fleet provision sets it"
_MIB: Final = 2**20
#: Between stamps of two machines (rule R2): from here on a run is flagged, and from there on refused.
_WARN_CLOCK_S, _FAIL_CLOCK_S = 0.1, 0.4
_WARN_DISK: Final = 2048 * _MIB
#: What a run may write to a host's disk before it is fetched.
LEAST_DISK_BYTES: Final = 512 * _MIB
#: A trainer of the small models takes 260 MB.
_WARN_MEMORY, _FAIL_MEMORY = 400 * _MIB, 200 * _MIB
_MOST_NAMED: Final = 5
#: By the id of the system in its os-release.
_SYSTEMS: Final = {"debian": ("12", "13"), "raspbian": ("12", "13"), "ubuntu": ("24.04",)}
#: These keep one clock rate, so that equal work costs equal joules.
_STEADY: Final = ("performance", "powersave", "userspace")


def os_image(facts: Facts) -> Check:
    """Return whether the host runs the operating system and Python that agents need."""
    found = f"{facts.os_id} {facts.os_version}, Python {facts.python}, {facts.machine}, {facts.bits} bit"
    good = (
        facts.os_version in _SYSTEMS.get(facts.os_id, ()) and facts.platform is not None and facts.bits == 64
    )
    if good:
        return Check("OS image", CheckVerdict.PASS, found)
    return Check(
        "OS image",
        CheckVerdict.FAIL,
        found,
        f"Debian 12 or 13, or Ubuntu 24.04, Python {PYTHONS[0]} to {PYTHONS[-1]}, 64 bit",
        f"flash {IMAGE}",
    )


def clock_bound(clock: ClockOffset) -> Check:
    """Return whether the host's clock is close enough to ours."""
    found = offset_words(clock.offset_s, clock.bound_s)
    expected = f"within {1e3 * _WARN_CLOCK_S:.0f} ms of this machine"
    verdict = (
        CheckVerdict.PASS
        if clock.worst_s <= _WARN_CLOCK_S
        else CheckVerdict.WARN
        if clock.worst_s <= _FAIL_CLOCK_S
        else CheckVerdict.FAIL
    )
    if verdict is CheckVerdict.PASS:
        return Check("clock", verdict, found)
    if abs(clock.offset_s) <= clock.bound_s:
        return Check("clock", verdict, found, expected, "slow: is the network or the host busy?")
    look = "look at `timedatectl timesync-status`, or `chronyc tracking`, on the host"
    return Check("clock", verdict, found, expected, look)


def time_sync(facts: Facts) -> Check:
    """Return whether something keeps the host's clock."""
    name = "time sync"
    if facts.container:
        return Check(name, CheckVerdict.SKIP, "a container has its host's clock")
    if facts.time_synchronised:
        return Check(name, CheckVerdict.PASS, "synchronised")
    found = "unknown" if facts.time_synchronised is None else "not synchronised"
    then = "does the bench's time server answer NTP? (chrony there needs an `allow` line)"
    return Check(name, CheckVerdict.WARN, found, "synchronised", then)


def way_to_controller(facts: Facts) -> Check:
    """Check that the host has a route to the controller's address, of IPv4 or IPv6 as that is."""
    name = "way to controller"
    if facts.no_way is None:
        return Check(name, CheckVerdict.SKIP, "unknown")
    if not facts.no_way:
        return Check(name, CheckVerdict.PASS, "there is a route")
    then = "give both an address of the same family (IPv4 or IPv6), or name another in controller.address"
    return Check(name, CheckVerdict.FAIL, facts.no_way, "a route to controller.address", then)


def ways_to_boards(peers: Mapping[str, str] | None) -> Iterator[Check]:
    """Check that the host reaches the others, to exchange models with them; no check where none was asked."""
    if not peers:
        return
    name = "ways to boards"
    lost = [f"{peer}: {reason}" for peer, reason in peers.items() if reason]
    if not lost:
        yield Check(name, CheckVerdict.PASS, f"{count(len(peers), 'board')} answered")
        return
    more = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    then = "one network and address family for all, and no firewall or access point that keeps them apart"
    found = "; ".join(lost[:_MOST_NAMED]) + more
    yield Check(name, CheckVerdict.FAIL, found, "an answer from each other board", then)


def disk(facts: Facts) -> Check:
    """Return whether enough of the disk is free."""
    free = facts.state_free_bytes
    if free is None:
        return Check("disk", CheckVerdict.WARN, "unknown", "", "look at /var/lib/roambench on the host")
    better = f"make room on {facts.state_mount}, where {layout.STATE} is, or fetch and remove old runs"
    return _at_least("disk", free, _WARN_DISK, LEAST_DISK_BYTES, better)


def memory(facts: Facts) -> Check:
    """Return whether enough memory is free."""
    free = facts.memory_available_bytes
    if free is None:
        return Check("memory", CheckVerdict.WARN, "unknown", "", "look at /proc/meminfo on the host")
    return _at_least("memory", free, _WARN_MEMORY, _FAIL_MEMORY, "what else runs there? try a reboot")


def governor(facts: Facts) -> Check:
    """Return whether the CPU's frequency is held steady."""
    if _no_board(facts):
        return _no_hardware("governor")
    found = facts.board.governors[0] if facts.board.governors else ""
    if found in _STEADY:
        return Check("governor", CheckVerdict.PASS, found)
    return Check(
        "governor",
        CheckVerdict.FAIL if found else CheckVerdict.WARN,
        found or "unknown",
        "performance: a rate that changes mixes idle and busy power",
        _AGAIN,
    )


def under_voltage(facts: Facts) -> Check:
    """Return whether the board has seen too low a voltage."""
    name = "power supply"
    if _no_board(facts):
        return _no_hardware(name)
    if facts.throttled is None:
        return Check(name, CheckVerdict.WARN, "unknown", "", "is vcgencmd there?")
    now, since_boot = throttle_names(facts.throttled), throttle_names_since_boot(facts.throttled)
    better = "5.1 to 5.2 V at the meter, a short thick cable, better cooling; then reboot"
    if now:
        return Check(name, CheckVerdict.FAIL, f"now: {', '.join(now)}", "no throttling", better)
    if since_boot:
        return Check(name, CheckVerdict.WARN, f"since boot: {', '.join(since_boot)}", "no throttling", better)
    return Check(name, CheckVerdict.PASS, "never throttled since boot")


def power_save(facts: Facts, host: Host) -> Check:
    """Return whether the Wi-Fi's power saving is off."""
    name = "Wi-Fi power save"
    if host.interface not in facts.interfaces:
        return Check(
            name,
            CheckVerdict.FAIL,
            f"no interface {host.interface}",
            host.interface,
            "correct it in the bench file",
        )
    if host.interface not in facts.board.power_save:
        return Check(name, CheckVerdict.SKIP, f"no such hardware: {host.interface} is no radio")
    found = facts.board.power_save[host.interface]
    if not found:
        return Check(name, CheckVerdict.WARN, "unknown", "off", "is iw installed?")
    if found == "on":
        return Check(name, CheckVerdict.FAIL, "on", "off: it delays and bends every transfer", _AGAIN)
    return Check(name, CheckVerdict.PASS, "off")


def power_switch(seen: SeenSwitch, host: Host) -> Iterator[Check]:
    """Return whether the switch of the host's `power` table answers, is on, and will leave the board so.

    No check at all of a host without that table: its meter has its own.
    """
    name = "power switch"
    if host.power.switch == "meter":
        return
    if seen.reason:
        yield Check(name, CheckVerdict.WARN, seen.reason, "an answer", seen.next_action)
    elif not seen.asked:
        yield Check(name, CheckVerdict.SKIP, seen.detail)
    elif not seen.on:
        what_to_do = f"is it the outlet of {host.name}? see its power table"
        yield Check(name, CheckVerdict.WARN, "off, and the board runs", "on", what_to_do)
    elif seen.trouble:
        what_to_do = "see the switch's own settings"
        yield Check(name, CheckVerdict.WARN, seen.trouble, "a switch that stays on", what_to_do)
    else:
        yield Check(name, CheckVerdict.PASS, "on" + (f", {seen.detail}" if seen.detail else ""))


def _at_least(name: str, free: int, warn: int, fail: int, what_to_do: str) -> Check:
    verdict = CheckVerdict.FAIL if free < fail else CheckVerdict.WARN if free < warn else CheckVerdict.PASS
    found = f"{free / _MIB:,.0f} MiB free"
    if verdict is CheckVerdict.PASS:
        return Check(name, verdict, found)
    return Check(name, verdict, found, f"at least {warn / _MIB:,.0f} MiB", what_to_do)


def _no_board(facts: Facts) -> bool:
    return bool(facts.container) or not facts.model


def _no_hardware(name: str) -> Check:
    return Check(name, CheckVerdict.SKIP, "no such hardware")
