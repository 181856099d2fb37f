"""A card of Raspberry Pi OS as it was flashed, with its boot partition, and what a board does with it.

Stand-ins play what only Raspberry Pi's archive has: firstboot (the first boot's init), imager_custom and
userconf. They take the words of the real ones (raspberrypi-sys-mods 3af395f, userconf-pi 0.9), do what those
do to Debian, write down how they were called, and refuse what those refuse.
"""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Final

from hosts.lab.command import do
from hosts.lab.container import Container

CALLS: Final = "/var/log/stand-ins"
#: As pi-gen leaves it, its root partition named as in an image.
CMDLINE: Final = (
    "console=serial0,115200 console=tty1 root=PARTUUID=4e639091-02 rootfstype=ext4 fsck.repair=yes rootwait "
    "quiet init=/usr/lib/raspberrypi-sys-mods/firstboot"
)
CONFIG: Final = "dtparam=audio=on\nauto_initramfs=1\ndtoverlay=vc4-kms-v3d\narm_64bit=1\n[all]\n"
ISSUE: Final = (
    "Raspberry Pi reference 2026-04-13\n"
    "Generated using pi-gen, https://github.com/RPi-Distro/pi-gen, d7a31c6, stage2\n"
)
_RECORD: Final = f"""\
#!/bin/sh
set -e
{{ printf '%s' "${{0##*/}}"; printf ' <%s>' "$@"; echo; }} >>{CALLS}
"""
_IMAGER_CUSTOM: Final = (
    _RECORD
    + r"""
user=$(getent passwd 1000 | cut -d: -f1)
home=$(getent passwd 1000 | cut -d: -f6)
command=$1
shift
case $command in
set_hostname)
    [ $# = 1 ]
    echo "$1" >/etc/hostname
    sed -i "s/127\.0\.1\.1.*/127.0.1.1\t$1/" /etc/hosts
    ;;
enable_ssh)
    for word; do
        case $word in
        -k) sed -i 's/^[# ]*PasswordAuthentication .*/PasswordAuthentication no/' /etc/ssh/sshd_config ;;
        -*) exit 1 ;;
        *)
            [ -d "$home/.ssh" ] || install -o "$user" -g "$user" -m 700 -d "$home/.ssh"
            echo "$word" >>"$home/.ssh/authorized_keys"
            chmod 600 "$home/.ssh/authorized_keys"
            chown "$user:$user" "$home/.ssh/authorized_keys"
            ;;
        esac
    done
    systemctl -q enable ssh
    ;;
set_wlan_country)
    [ $# = 1 ]
    grep -q "^$1[[:space:]]" /usr/share/zoneinfo/iso3166.tab
    sed -i -e 's/ *cfg80211.ieee80211_regdom=[^ ]*//' -e "s/\(.*\)/\1 cfg80211.ieee80211_regdom=$1/" \
        /boot/firmware/cmdline.txt
    ;;
set_timezone)
    [ $# = 1 ] && [ -f "/usr/share/zoneinfo/$1" ]
    rm /etc/localtime
    echo "$1" >/etc/timezone
    dpkg-reconfigure -f noninteractive tzdata 2>/dev/null
    ;;
*) exit 1 ;;
esac
"""
)
_USERCONF: Final = (
    _RECORD
    + r"""
[ $# = 2 ]
user=$(getent passwd 1000 | cut -d: -f1)
if [ "$user" != "$1" ]; then
    usermod -l "$1" "$user"
    usermod -m -d "/home/$1" "$1"
    groupmod -n "$1" "$user"
    sed -i "s/^$user /$1 /" /etc/sudoers.d/010_pi-nopasswd
fi
echo "$1:$2" | chpasswd -e
rm -f /etc/ssh/sshd_config.d/rename_user.conf
"""
)
#: What they are once pi-gen's long comments are left out.
SEED: Final = {
    "user-data": "#cloud-config\n# user-data\n#hostname: raspberrypi\n",
    "network-config": "# network-config\n#network:\n#  version: 2\n",
    "meta-data": "# meta-data\ndsmode: local\ninstance_id: rpios-image\n",
}
_WHERE: Final = """\
datasource_list: [NoCloud]
system_info: {network: {renderers: [netplan]}}
"""
_STAND_INS: Final = {
    "usr/lib/raspberrypi-sys-mods/imager_custom": _IMAGER_CUSTOM,
    "usr/lib/userconf-pi/userconf": _USERCONF,
}


def ship(boot: Path) -> None:
    """The files of the image's boot partition that say what it is."""
    for name, text in (("cmdline.txt", f"{CMDLINE}\n"), ("config.txt", CONFIG), ("issue.txt", ISSUE)):
        (boot / name).write_text(text)


class FreshCard(Container):
    """A host of the flavour `raspios` that nobody has customised: no key, no SSH server, no address.

    `boot` is its boot partition, a folder: not every machine's kernel can mount a FAT.
    """

    @property
    def boot(self) -> Path:
        return self.card.mounted.parent / "bootfs"

    def flash(self) -> None:
        self.card.flash()
        self.card.insert()
        try:
            self._as_flashed(self.card.mounted)
        finally:
            self.card.pull()
        shutil.rmtree(self.boot, ignore_errors=True)
        self.boot.mkdir()
        ship(self.boot)

    def _as_flashed(self, root: Path) -> None:
        do("chroot", root, "systemctl", "--quiet", "disable", "ssh")
        (root / "etc/hostname").write_text("raspberrypi\n")
        (root / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 raspberrypi\n")
        (root / "boot/firmware").mkdir(exist_ok=True)
        state = root / "var/lib/NetworkManager/NetworkManager.state"
        state.write_text("[main]\nWirelessEnabled=false\n")
        for name, script in _STAND_INS.items():
            path = root / name
            path.parent.mkdir(parents=True)
            path.write_text(script)
            path.chmod(0o755)

    def first_boot(self) -> None:
        """The boot whose init is raspberrypi-sys-mods' firstboot: it makes SSH host keys and restarts."""
        line = (self.boot / "cmdline.txt").read_text()
        (self.boot / "cmdline.txt").write_text(
            line.replace(" init=/usr/lib/raspberrypi-sys-mods/firstboot", "")
        )
        self.card.insert()
        try:
            self.renew_host_keys()
        finally:
            self.card.pull()

    def second_boot(self, patience_s: float = 60.0) -> None:
        """Up to the reboot that the command line asks for; RuntimeError if there is none."""
        self.start(None)
        deadline_s = time.monotonic() + patience_s
        while self.on:
            if time.monotonic() > deadline_s:
                raise RuntimeError(f"no reboot: {self._log.read_text(errors='replace')[-4000:]}")
            time.sleep(0.05)

    def third_boot(self) -> None:
        """A plain one."""
        self.start_again(None)
        self.wait()

    def inside(self, script: str) -> str:
        """What a shell script prints that root runs there; RuntimeError when it fails."""
        return do("nsenter", "-t", self.init, "-a", "/bin/sh", "-ec", script)

    def more_words(self) -> list[str]:
        for file in self.boot.iterdir():
            file.chmod(0o755)  # as everything on a FAT is
        line = (self.boot / "cmdline.txt").read_text()
        kernel = [word for word in line.split() if re.match(r"systemd\.|cfg80211\.|quiet|ds=", word)]
        return [f"--bind={self.boot}:/boot/firmware", "--capability=CAP_NET_ADMIN", "--", *kernel]

    def discard(self) -> None:
        """Off, and out of the reader."""
        self.cut()
        self.card.discard()


class SeededCard(FreshCard):
    """A card whose first boot is cloud-init's, as Trixie's is: of the flavour `cloud`, Debian 12's release.

    What plays Raspberry Pi's own configuration of cloud-init says where the boot partition is, and that
    NetworkManager has the network.
    """

    def flash(self) -> None:
        super().flash()
        for name, text in SEED.items():
            (self.boot / name).write_text(text)
        (self.boot / "cmdline.txt").write_text(f"{CMDLINE.partition(' quiet')[0]} resize\n")

    def _as_flashed(self, root: Path) -> None:
        super()._as_flashed(root)
        # pi-gen c4e9044: a first boot to systemd, whose presets enable all units that Debian leaves off.
        (root / "etc/machine-id").write_text("uninitialized\n")
        (root / "etc/cloud/cloud.cfg.d/99-boot-partition.cfg").write_text(_WHERE)
        seed = root / "var/lib/cloud/seed"
        seed.mkdir(parents=True)
        (seed / "nocloud").symlink_to("/boot/firmware")
        renderer = root / "etc/netplan/00-network-manager.yaml"
        renderer.write_text("network: {version: 2, renderer: NetworkManager}\n")
        renderer.chmod(0o600)
