"""What a test host's root file system is made of: Debian 12 as small as it still resembles a Pi's."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Final

from hosts.lab import foreign

SUITE: Final = "bookworm"
MIRROR: Final = os.environ.get("ROAMBENCH_DEBIAN_MIRROR", "http://deb.debian.org/debian")

#: minbase and these. What a freshly flashed Raspberry Pi OS Lite has and provisioning relies on, no more.
PACKAGES: Final = (
    "ca-certificates",
    "chrony",
    "dbus",
    "iproute2",
    "iw",
    "kmod",
    "logrotate",
    "openssh-server",
    "procps",
    "python3",
    "python3-venv",
    "rfkill",
    "sudo",
    "systemd",
    "systemd-sysv",
    "udev",
)

#: The user whom Raspberry Pi Imager makes: passwordless sudo, key only.
USER: Final = "pi"

FILES: Final = {
    "etc/sudoers.d/010_pi-nopasswd": f"{USER} ALL=(ALL) NOPASSWD: ALL\n",
    "etc/ssh/sshd_config.d/key-only.conf": "PasswordAuthentication no\nUseDNS no\n",
    # A container has no clock of its own: chronyd may look at its servers, never set the machine's time.
    "etc/default/chrony": 'DAEMON_OPTS="-F 1 -x"\n',
    "etc/systemd/system/chrony.service.d/container.conf": "[Unit]\nConditionCapability=\n",
    # Nothing here has a screen, and the journal must outlive a reboot.
    "etc/systemd/journald.conf.d/persistent.conf": "[Journal]\nStorage=persistent\nSystemMaxUse=32M\n",
    "etc/hosts": "127.0.0.1 localhost\n",
}

#: Run inside, in this order, when packages and files are there.
STEPS: Final = (
    f"useradd --create-home --shell /bin/bash --groups sudo,dialout {USER}",
    # Written anew at the first boot, so that every host is a machine of its own.
    "rm -f /etc/ssh/ssh_host_* && : > /etc/machine-id && rm -f /var/lib/dbus/machine-id",
    "systemctl mask apt-daily.timer apt-daily-upgrade.timer e2scrub_all.timer fstrim.timer man-db.timer",
    "rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/*",
)


def files(architecture: str) -> dict[str, str]:
    """FILES, and what an emulated host needs besides: see `emulated`."""
    variables = foreign.environment(architecture)
    return {**FILES, **(emulated(variables) if variables else {})}


def emulated(variables: Mapping[str, str]) -> dict[str, str]:
    """What tells services, logins and sudo by which processor; and what goes without the system calls that
    qemu does not know: those of credentials (there are none) and of seccomp, whatever options chronyd has."""
    lines = [f"{name}={value}" for name, value in variables.items()]
    without = "[Service]\nLoadCredential=\n"
    units = ("systemd-sysusers", "systemd-tmpfiles-setup", "systemd-tmpfiles-setup-dev")
    chronyd = "[Service]\nExecStart=\nExecStart=!/usr/sbin/chronyd $DAEMON_OPTS -F 0\n"
    return {
        "etc/environment": "".join(f"{line}\n" for line in lines),
        "etc/sudoers.d/020_emulated": f'Defaults env_keep += "{" ".join(variables)}"\n',
        "etc/systemd/system.conf.d/emulated.conf": f"[Manager]\nDefaultEnvironment={' '.join(lines)}\n",
        **{f"etc/systemd/system/{unit}.service.d/emulated.conf": without for unit in units},
        "etc/systemd/system/chrony.service.d/emulated.conf": chronyd,
    }


def key(architecture: str) -> str:
    """Names the cached root: another recipe is another root."""
    recipe = [SUITE, architecture, PACKAGES, files(architecture), STEPS]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
