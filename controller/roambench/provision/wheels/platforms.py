"""The kinds of hosts that wheels are fetched for, on a server that is of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

#: The Python and the C library of Debian 12.
PYTHON: Final = "3.11"
#: The image that both come with, on a board.
IMAGE: Final = "Raspberry Pi OS Lite (64-bit), Bookworm"
#: 1980, the first year a zip file knows, as SOURCE_DATE_EPOCH: equal sources are equal wheels.
EPOCH: Final = "315532800"
_GLIBC_MINOR: Final = 36
_OLDEST_GLIBC_MINOR: Final = 17


@dataclass(frozen=True, slots=True)
class Platform:
    """`machine` as `uname -m` says. `unlocked`: by package, what pip is asked for without a digest."""

    machine: str
    unlocked: Mapping[str, str] = field(default_factory=dict)

    @property
    def tags(self) -> list[str]:
        """Platform tags of wheels that Debian 12 can use, newest first; pip wants each of them named."""
        newest = range(_GLIBC_MINOR, _OLDEST_GLIBC_MINOR - 1, -1)
        return [f"manylinux_2_{minor}_{self.machine}" for minor in newest] + [
            f"manylinux2014_{self.machine}",
            f"linux_{self.machine}",
        ]

    @property
    def markers(self) -> Mapping[str, str]:
        """Values there of markers such as `; platform_machine == ...` in a requirement. pip would ask this
        server."""
        return {
            "implementation_name": "cpython",
            "implementation_version": f"{PYTHON}.2",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{PYTHON}.2",
            "python_version": PYTHON,
            "sys_platform": "linux",
            "extra": "",
        }


#: By `uname -m`: a Raspberry Pi with a 64-bit system, and containers on a server.
PLATFORMS: Final = {
    "aarch64": Platform("aarch64"),
    # Builds with and without CUDA have one version: which of them comes depends on where pip is to look.
    "x86_64": Platform("x86_64", {"torch": "torch==2.13.0"}),
}
