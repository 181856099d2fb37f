"""Running another processor's programs: the kernel hands them to qemu, once it is told how to know them."""

from __future__ import annotations

from pathlib import Path

from hosts.lab.command import do

_KERNEL = Path("/proc/sys/fs/binfmt_misc")
#: What Debian's qemu-user-static brings: a line for the kernel per processor.
_RULES = Path("/usr/lib/binfmt.d")
_NATIVE = "amd64"
_PROCESSORS = {"arm64": "aarch64"}


def let_run(architecture: str) -> None:
    """Programs of Debian's `architecture` run here from now on; RuntimeError where they cannot."""
    if architecture == _NATIVE:
        return
    name = f"qemu-{_PROCESSORS[architecture]}"
    if not (_KERNEL / "register").exists():
        do("mount", "-t", "binfmt_misc", "binfmt_misc", _KERNEL)
    if (_KERNEL / name).exists():
        return
    rule = _RULES / f"{name}.conf"
    if not rule.exists():
        raise RuntimeError(f"{rule}: no such file: tests/hosts/install_tools.sh arm64")
    (_KERNEL / "register").write_text(rule.read_text().strip())
