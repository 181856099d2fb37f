"""Machines that tell their names by mDNS: avahi has each Raspberry Pi OS publish its MAC, too."""

from __future__ import annotations

import logging
import re
import time
from importlib.util import find_spec
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.contract.extra_packages import install_command
from roambench.extras.discovery.sighting import Sighting, sighting

_TYPE: Final = "_workstation._tcp.local."
_MOST: Final = 4096
#: "NAME [MAC]" is what avahi calls an instance.
_INSTANCE: Final = re.compile(r"\[([0-9A-Fa-f:]{17})\]")


def mdns_is_there() -> bool:
    """Return whether the extra `mdns` is installed."""
    return find_spec("zeroconf") is not None


def browsed(seconds: float) -> list[Sighting]:
    """Return the boards that answer within `seconds`; ConfigError without the extra, or where no socket can
    be had."""
    try:
        import zeroconf
    except ImportError:
        raise ConfigError([f"--mdns: needs zeroconf: {install_command('mdns')}"]) from None
    logging.getLogger("zeroconf").addHandler(logging.NullHandler())
    names: dict[str, None] = {}

    def heard(*, name: str, state_change: Any, **_: Any) -> None:
        if state_change is not zeroconf.ServiceStateChange.Removed and len(names) < _MOST:
            names[name] = None

    found: list[Sighting | None] = []
    try:
        with zeroconf.Zeroconf(ip_version=zeroconf.IPVersion.V4Only) as line:
            browser = zeroconf.ServiceBrowser(line, _TYPE, handlers=[heard])
            time.sleep(seconds)
            browser.cancel()
            for name in list(names):
                info = line.get_service_info(_TYPE, name, timeout=1000)
                if info is None:
                    continue
                mac = _INSTANCE.search(name)
                found += [
                    sighting("mDNS", address, mac[1] if mac else "", info.server or "")
                    for address in info.parsed_addresses(zeroconf.IPVersion.V4Only)
                ]
    except OSError as error:
        raise ConfigError([f"--mdns: {error.strerror or error}"]) from None
    return [one for one in found if one is not None]
