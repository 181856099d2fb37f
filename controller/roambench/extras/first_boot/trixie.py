"""Raspberry Pi OS Trixie: cloud-init reads three files of the boot partition at the first boot."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from ipaddress import ip_interface
from typing import Final

from roambench.extras.first_boot.card_files import common_files
from roambench.extras.first_boot.cmdline import MEMORY_LIMITS, with_words
from roambench.extras.first_boot.settings import FirstBoot

FILES: Final = ("user-data", "network-config", "meta-data")
_MARK: Final = "written by roambench fleet image"


def trixie_files(settings: FirstBoot, cmdline: str) -> dict[str, bytes]:
    """Files of the boot partition by name; `cmdline` is the line that is there."""
    user = "\n".join([*_user_data(settings), ""])
    network = "\n".join([*_network_config(settings), ""])
    # cloud-init acts again on an instance that it has not met: other contents, another instance.
    digest = hashlib.sha256(f"{user}\0{network}".encode()).hexdigest()[:16]
    instance = f"roambench-{settings.host}-{digest}"
    meta = f"# {settings.host}: {_MARK}\ndsmode: local\ninstance-id: {_text(instance)}\n"
    country = (f"cfg80211.ieee80211_regdom={settings.country}",) if settings.country else ()
    words = (MEMORY_LIMITS, *country, f"ds=nocloud;i={instance}")
    return {
        "user-data": user.encode(),
        "network-config": network.encode(),
        "meta-data": meta.encode(),
        "cmdline.txt": (with_words(cmdline, words) + "\n").encode("ascii"),
    }


def is_shipped_or_ours(name: str, content: bytes) -> bool:
    """True where the file may be replaced: as the image brings it (comments), or as we wrote it."""
    lines = content.decode("utf-8", "replace").splitlines()
    if any(_MARK in line for line in lines[:2]):
        return True
    said = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
    return not said or (name == "meta-data" and said == ["dsmode: local", "instance_id: rpios-image"])


def _user_data(settings: FirstBoot) -> Iterator[str]:
    yield "#cloud-config"
    yield f"# {settings.host}: {_MARK}"
    yield f"hostname: {_text(settings.host)}"
    yield "manage_etc_hosts: true"
    yield "manage_resolv_conf: false"
    yield f"timezone: {_text(settings.timezone)}"
    yield "locale: C.UTF-8"
    # "user", not "users": the image's own user with its groups, under this name.
    yield "user:"
    yield f"  name: {_text(settings.user)}"
    yield "  shell: /bin/bash"
    yield "  lock_passwd: true"
    yield f"  ssh_authorized_keys: [{_text(settings.authorized_key)}]"
    yield "  sudo: ALL=(ALL) NOPASSWD:ALL"
    yield "ssh_pwauth: false"
    yield "write_files:"
    for file in common_files(settings):
        yield f"- path: {file.path}"
        yield f"  permissions: '{file.mode:04o}'"
        yield f"  content: {_text(file.content)}"
    yield "runcmd:"
    # The image's machine id is "uninitialized" (pi-gen c4e9044): systemd's presets then enable the socket
    # that Debian leaves off: it listens at port 22 and takes no port from sshd's configuration.
    yield "- [systemctl, disable, --now, ssh.socket]"
    yield "- [systemctl, enable, ssh]"
    yield "- [systemctl, restart, ssh]"
    yield "- [systemctl, restart, systemd-timesyncd]"
    if settings.ssid:
        yield "- [rfkill, unblock, wifi]"
        yield "- [nmcli, radio, wifi, 'on']"
        yield "- [nmcli, general, reload, conf]"


def _network_config(settings: FirstBoot) -> Iterator[str]:
    yield f"# {settings.host}: {_MARK}"
    yield "network:"
    yield "  version: 2"
    if not settings.ssid:
        yield "  ethernets:"
        yield f"    {settings.interface}:"
        yield from _addresses(settings)
        return
    yield "  ethernets:"
    yield "    eth0: {dhcp4: true, dhcp6: true, optional: true}"
    yield "  wifis:"
    yield f"    {settings.interface}:"
    yield f"      regulatory-domain: {_text(settings.country)}"
    yield from _addresses(settings)
    yield "      access-points:"
    yield f"        {_text(settings.ssid)}:"
    if settings.hidden:
        yield "          hidden: true"
    yield f"          password: {_text(settings.psk)}"


def _addresses(settings: FirstBoot) -> Iterator[str]:
    yield "      optional: true"
    fixed = ip_interface(settings.address).version if settings.address else 0
    for version in (4, 6):  # the router gives an address of the family that has no fixed one
        yield f"      dhcp{version}: {_text(version != fixed)}"
    if not settings.address:
        return
    yield f"      addresses: [{_text(settings.address)}]"
    if settings.gateway:
        yield f"      routes: [{{to: default, via: {_text(settings.gateway)}}}]"
    if settings.dns:
        yield f"      nameservers: {{addresses: [{_text(settings.dns)}]}}"


def _text(value: str | bool) -> str:
    """A scalar: a JSON string of printable letters is a double-quoted one."""
    return json.dumps(value, ensure_ascii=False)
