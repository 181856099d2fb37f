"""Running another processor's programs: the kernel hands them to qemu, once it is told how to know them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hosts.lab.command import do

_KERNEL = Path("/proc/sys/fs/binfmt_misc")
#: What Debian's qemu-user-static brings: a line for the kernel per processor.
_RULES = Path("/usr/lib/binfmt.d")


@dataclass(frozen=True, slots=True)
class Emulated:
    """A processor as qemu calls it, of the `model` that qemu shall be: by default it is one that can do
    everything, and a program that a real board dies of (SIGILL) would run."""

    processor: str
    model: str


NATIVE: Final = "amd64"
#: By Debian's architecture. A Raspberry Pi 3B+ has four Cortex-A53.
EMULATED: Final[Mapping[str, Emulated]] = {"arm64": Emulated("aarch64", "cortex-a53")}
ARCHITECTURES: Final = (NATIVE, *EMULATED)


def environment(architecture: str) -> dict[str, str]:
    """What every process on such a host has to have in its environment."""
    return {"QEMU_CPU": EMULATED[architecture].model} if architecture in EMULATED else {}


def times_slower(architecture: str) -> float:
    """How much longer one waits for a boot, to be on the safe side."""
    return 8.0 if architecture in EMULATED else 1.0


def let_run(architecture: str) -> None:
    """Programs of Debian's `architecture` run here from now on; RuntimeError where they cannot."""
    if architecture == NATIVE:
        return
    processor = EMULATED[architecture].processor
    name = f"roambench-{processor}"
    if not (_KERNEL / "register").exists():
        do("mount", "-t", "binfmt_misc", "binfmt_misc", _KERNEL)
    if (_KERNEL / name).exists():
        return
    rule = _RULES / f"qemu-{processor}.conf"
    if not rule.exists():
        raise RuntimeError(f"{rule}: no such file: tests/hosts/install_tools.sh arm64")
    # By a name of its own: of all rules that fit, the kernel takes the last one. C: sudo becomes root.
    known_by, _, flags = rule.read_text().strip().removeprefix(f":qemu-{processor}:").rpartition(":")
    (_KERNEL / "register").write_text(f":{name}:{known_by}:{flags}C")
