"""The kinds of hosts that wheels are fetched for, on a server that is of another kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

#: By `uname -m`: a Raspberry Pi with a 64-bit system, and containers on a server.
MACHINES: Final = ("aarch64", "x86_64")
#: Of each there are wheels of torch and grpcio for both machines. Debian 12 has 3.11, 13 has 3.13.
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
#: The image that fits a board.
IMAGE: Final = "Raspberry Pi OS Lite (64-bit), Bookworm or Trixie"
#: 1980, the first year a zip file knows, as SOURCE_DATE_EPOCH: equal sources are equal wheels.
EPOCH: Final = "315532800"
#: Debian 12's, the oldest of the systems.
_GLIBC_MINOR: Final = 36
_OLDEST_GLIBC_MINOR: Final = 17


@dataclass(frozen=True, slots=True)
class Platform:
    """`machine` as `uname -m` says, `python` without the third number."""

    machine: str
    python: str

    def __str__(self) -> str:
        return f"{self.machine} with Python {self.python}"

    @property
    def unlocked(self) -> Mapping[str, str]:
        """By package, the local version that pip is asked for without a digest. Builds of torch with CUDA,
        gigabytes that no board uses, share its version and have the digests of the lock."""
        return {} if self.machine == "aarch64" else {"torch": "+cpu"}

    @property
    def tags(self) -> list[str]:
        """Platform tags of wheels that Debian 12 and later can use, newest first; pip wants all named."""
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
            "implementation_version": f"{self.python}.2",
            "os_name": "posix",
            "platform_machine": self.machine,
            "platform_python_implementation": "CPython",
            "platform_release": "",
            "platform_system": "Linux",
            "platform_version": "",
            "python_full_version": f"{self.python}.2",
            "python_version": self.python,
            "sys_platform": "linux",
            "extra": "",
        }


def platform_of(machine: str, python: str) -> Platform | None:
    """The kind of a host with this `uname -m` and version of Python; None where agents cannot run."""
    short = ".".join(python.split(".")[:2])
    return Platform(machine, short) if machine in MACHINES and short in PYTHONS else None
