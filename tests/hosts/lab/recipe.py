"""What a test host's root file system is made of: Debian 12 as small as it still resembles a Pi's."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Final

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


def key(architecture: str) -> str:
    """Names the cached root: another recipe is another root."""
    recipe = [SUITE, architecture, PACKAGES, FILES, STEPS]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
