"""Rebooting a host and waiting until it is another boot of the same machine."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from roambench.provision.ssh.channel import SIGNALLED
from roambench.provision.ssh.host_error import ConnectionLost, HostError
from roambench.provision.ssh.hosts import HostLink, open_link
from roambench.provision.ssh.script import Script

_BOOT_ID: Final = Script("cat /proc/sys/kernel/random/boot_id")
_LOOK_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rebooted:
    """`back_after_s`: from the request until SSH let us in again; None: not waited for."""

    back_after_s: float | None


def reboot(link: HostLink, wait_s: float) -> Rebooted:
    """Reboot, and wait at most `wait_s` (0: not at all) for another boot; HostError if none comes."""
    before = link.must(_BOOT_ID)
    asked_s = time.monotonic()
    with suppress(ConnectionLost):  # it was faster than its answer
        ran = link.run(Script("systemctl reboot --no-block || reboot"), root=True)
        if ran.exit_code not in (0, SIGNALLED):
            raise HostError(link.host.name, f"systemctl reboot: {ran.why}")
    if not wait_s:
        return Rebooted(None)
    while time.monotonic() - asked_s < wait_s:
        time.sleep(_LOOK_S)
        try:
            with open_link(link.bench, link.host) as fresh:
                if fresh.must(_BOOT_ID) != before:
                    return Rebooted(time.monotonic() - asked_s)
        except HostError:
            continue  # it is on its way down, or up
    raise HostError(
        link.host.name,
        f"not back within {wait_s:g} s",
        "look at its screen or its power; roambench fleet power",
    )
