"""What this machine has to have for hosts in containers."""

from __future__ import annotations

import os
import shutil

import pytest

from hosts.lab.foreign import EMULATED, NATIVE

_TOOLS = (
    "debootstrap",
    "systemd-nspawn",
    "nsenter",
    "ip",
    "losetup",
    "mkfs.ext4",
    "ssh-keygen",
    "shellcheck",
    "mkfs.vfat",
    "fusefat",
    "mtype",
)


def need_tools(architecture: str = NATIVE) -> None:
    """Skip the test where something is missing; in CI it fails there."""
    if reason := lacking(architecture):
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)


def lacking(architecture: str = NATIVE) -> str:
    """What this machine lacks for hosts in containers; "" for nothing."""
    if os.geteuid() != 0:
        return "hosts in containers need root: sudo make test-hosts"
    paths = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    emulators = [f"qemu-{EMULATED[architecture].processor}-static"] if architecture in EMULATED else []
    missing = [tool for tool in (*_TOOLS, *emulators) if shutil.which(tool, path=paths) is None]
    words = f" {architecture}" if emulators else ""
    return f"{', '.join(missing)}: not installed (tests/hosts/install_tools.sh{words})" if missing else ""
