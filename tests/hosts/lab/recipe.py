"""What test hosts' root file systems are made of: what a flashed card holds, and nothing that it lacks.

What a container cannot do is arranged at its boot (`container.py`) or by the test that needs it, below /run:
a file or folder put here for a test's sake would be one that no card has.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from hosts.lab import foreign

SUITE: Final = "bookworm"
_ELSEWHERE: Final = "http://deb.debian.org/debian"


@dataclass(frozen=True, slots=True)
class Flavour:
    """A card as somebody flashes it. Without a `base` its packages are debootstrap's own and these; else apt
    installs these on top of the base's root, with what they recommend unless `sparing`. `user` logs in at
    `port` by key and may sudo."""

    packages: tuple[str, ...]
    base: str = ""
    sparing: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    user: str = "pi"
    port: int = 22
    suite: str = SUITE
    archive: str = ""  # an archive other than Debian's


#: Stages 0 to 2 of pi-gen's bookworm-arm64 (d7a31c6, 2026-06-15), less what only Raspberry Pi's archive has
#: (raspberrypi-sys-mods, raspi-config, its kernel, firmware and tools), what compiles, and what is for other
#: file systems, cameras and sounds. iw and rfkill come by recommendation of two of those.
_RASPBERRY_PI_OS: Final = (
    *("avahi-daemon", "apt-listchanges", "bash-completion", "ca-certificates", "console-setup", "curl"),
    *("debconf-utils", "dosfstools", "dphys-swapfile", "ed", "ethtool", "fake-hwclock", "file", "gpiod"),
    *("htop", "iw", "keyboard-configuration", "less", "locales", "lua5.1", "luajit", "man-db", "ncdu"),
    *("net-tools", "netbase", "network-manager", "parted", "pciutils", "policykit-1", "psmisc"),
    *("python-is-python3", "python3-libgpiod", "python3-smbus2", "python3-spidev", "python3-venv"),
    *("rfkill", "rsync", "ssh", "ssh-import-id", "strace", "sudo", "systemd-timesyncd", "udisks2", "unzip"),
    *("usb-modeswitch", "usbutils", "wireless-tools", "wpasupplicant", "zip"),
)
_PI_GROUPS: Final = "adm,dialout,cdrom,audio,users,sudo,video,games,plugdev,input,gpio,spi,i2c,netdev,render"
#: The user that its base has goes.
_OTHER_USER: Final = "userdel --remove pi 2> /dev/null; rm -f /etc/sudoers.d/*_pi-nopasswd"

FLAVOURS: Final[Mapping[str, Flavour]] = {
    # Plain Debian 12 by debootstrap, SSH, and what README asks of a host: Python and sudo.
    "debian": Flavour(
        packages=("openssh-server", "python3", "sudo"),
        files={"etc/sudoers.d/010_pi-nopasswd": "pi ALL=(ALL) NOPASSWD: ALL\n"},
        steps=("useradd --create-home --shell /bin/bash --groups sudo,dialout pi",),
    ),
    "raspios": Flavour(
        packages=_RASPBERRY_PI_OS,
        base="debian",
        files={"etc/ssh/sshd_config.d/rename_user.conf": "PasswordAuthentication no\n"},
        steps=(
            "apt-get purge -y -qq ifupdown isc-dhcp-client > /dev/null",
            "for group in input spi i2c gpio; do groupadd -f -r $group; done",
            f"usermod --append --groups {_PI_GROUPS} pi",
            "chmod 0700 /home/pi",  # adduser's DIR_MODE
            "sed -i 's/^#*Storage=.*/Storage=volatile/' /etc/systemd/journald.conf",
            "sed -i 's/^#*publish-workstation=.*/publish-workstation=yes/' /etc/avahi/avahi-daemon.conf",
            "sed -i 's/^# *en_GB.UTF-8/en_GB.UTF-8/' /etc/locale.gen && locale-gen > /dev/null",
            "echo LANG=en_GB.UTF-8 > /etc/default/locale",
            "ln -sf /usr/share/zoneinfo/Europe/London /etc/localtime",
            # The swap file would be made at the first boot, of 512 MB, and no container may swap to it.
            "systemctl disable --quiet dphys-swapfile",
        ),
    ),
    # The same of Debian 13, whose Python is 3.13, and with Debian's torch: see `test_trixie_host.py`.
    "trixie": Flavour(
        packages=("openssh-server", "python3", "python3-torch", "sudo"),
        files={"etc/sudoers.d/010_pi-nopasswd": "pi ALL=(ALL) NOPASSWD: ALL\n"},
        steps=("useradd --create-home --shell /bin/bash --groups sudo,dialout pi",),
        suite="trixie",
    ),
    # Ubuntu 24.04, whose Python is 3.12 and whose SSH server systemd's socket starts.
    "ubuntu": Flavour(
        packages=("openssh-server", "python3", "sudo", "systemd-timesyncd"),
        files={"etc/sudoers.d/010_pi-nopasswd": "pi ALL=(ALL) NOPASSWD: ALL\n"},
        steps=("useradd --create-home --shell /bin/bash --groups sudo,dialout pi",),
        suite="noble",
        archive="http://archive.ubuntu.com/ubuntu",
    ),
    # As a careful department sets Debian up: another port, user and shell, umask 077, chrony.
    "hardened": Flavour(
        packages=("chrony", "fish"),
        base="debian",
        sparing=True,
        files={
            "etc/sudoers.d/lab": "lab ALL=(ALL) NOPASSWD: ALL\n",
            "etc/ssh/sshd_config.d/hardened.conf": (
                "Port 2222\nPasswordAuthentication no\nPermitRootLogin no\nMaxSessions 4\n"
                "Banner /etc/issue.net\n"
            ),
        },
        steps=(
            _OTHER_USER,
            "useradd --create-home --shell /usr/bin/fish --groups sudo lab",
            "for file in common-session common-session-noninteractive; do "
            "echo 'session optional pam_umask.so umask=077' >> /etc/pam.d/$file; done",
            "sed -i 's/^UMASK.*/UMASK 077/' /etc/login.defs",
            "ln -sf /usr/share/zoneinfo/Asia/Kathmandu /etc/localtime",
        ),
        user="lab",
        port=2222,
    ),
    # With what reads the files of a Trixie's first boot, in Debian 12's releases.
    "cloud": Flavour(packages=("cloud-init", "netplan.io"), base="raspios", sparing=True),
}

#: Of every flavour, last: each card gets keys and a machine id of its own.
_LAST_STEPS: Final = (
    "rm -f /etc/ssh/ssh_host_* && : > /etc/machine-id && rm -f /var/lib/dbus/machine-id",
    "rm -rf /var/cache/apt/archives/*.deb /var/lib/apt/lists/*",
)


def mirror() -> str:
    """$ROAMBENCH_DEBIAN_MIRROR, or where this machine's own apt gets Debian from."""
    if named := os.environ.get("ROAMBENCH_DEBIAN_MIRROR"):
        return named
    try:
        listed = subprocess.run(
            ["apt-get", "update", "--print-uris"], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return _ELSEWHERE
    return mirror_of(listed.stdout)


def mirror_of(listed: str) -> str:
    """The Debian archive among the addresses that apt would ask. Others name a suite like Debian's, but have
    not its updates beside it."""
    releases: dict[str, set[str]] = {}
    for archive, release in re.findall(r"'(\S+)/dists/([^/\s]+)/main/binary-", listed):
        releases.setdefault(archive, set()).add(release)

    def likely(archive: str) -> tuple[bool, bool]:
        found = releases[archive]
        return any(f"{release}-updates" in found for release in found), SUITE in found

    debian = [archive for archive in releases if SUITE in releases[archive] or archive.endswith("/debian")]
    return max(debian, key=likely, default=_ELSEWHERE)


def files(flavour: str, architecture: str) -> dict[str, str]:
    """Those of the flavour, and what an emulated host needs besides: see `emulated`."""
    variables = foreign.environment(architecture)
    return {**FLAVOURS[flavour].files, **(emulated(variables) if variables else {})}


def steps(flavour: str) -> tuple[str, ...]:
    """Run inside, in this order, when packages and files are there."""
    return (*FLAVOURS[flavour].steps, *_LAST_STEPS)


def emulated(variables: Mapping[str, str]) -> dict[str, str]:
    """What tells services, logins and sudo by which processor; and what goes without the system calls that
    qemu does not know: those of credentials (there are none)."""
    lines = [f"{name}={value}" for name, value in variables.items()]
    without = "[Service]\nLoadCredential=\n"
    units = ("systemd-sysusers", "systemd-tmpfiles-setup", "systemd-tmpfiles-setup-dev")
    return {
        "etc/environment": "".join(f"{line}\n" for line in lines),
        "etc/sudoers.d/020_emulated": f'Defaults env_keep += "{" ".join(variables)}"\n',
        "etc/systemd/system.conf.d/emulated.conf": f"[Manager]\nDefaultEnvironment={' '.join(lines)}\n",
        **{f"etc/systemd/system/{unit}.service.d/emulated.conf": without for unit in units},
    }


def key(flavour: str, architecture: str) -> str:
    """Names the cached root: another recipe is another root."""
    chosen = FLAVOURS[flavour]
    base = key(chosen.base, architecture) if chosen.base else chosen.suite
    made_of = {name: value for name, value in asdict(chosen).items() if name not in ("suite", "archive")}
    recipe = [base, architecture, made_of, files(flavour, architecture), _LAST_STEPS]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]
