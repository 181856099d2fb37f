"""The contents of a host's card: from the bench description, the login key and the Wi-Fi's passphrase."""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_network
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.provision.bench import Bench, Host
from roambench.provision.ssh.login import public_key
from roambench.provision.ssh.options import NoOptionsError, SshOptions, ssh_options

#: Where the Wi-Fi's passphrase may be instead of a file; it goes before that.
PASSPHRASE_VARIABLE: Final = "ROAMBENCH_WIFI_PASSPHRASE"
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")  # RFC 1123, as raspi-config has it
_USER: Final = re.compile(r"[a-z][a-z0-9-]{0,31}")  # what userconf-pi takes


@dataclass(frozen=True, slots=True)
class FirstBoot:
    """Everything that one card is written from. `psk`: the Wi-Fi's key in hex, "" with a cable.

    `address` is with its prefix length ("192.168.50.11/24", "fd78::11/64"), "" if the router gives one.
    `known_as` is the name that known_hosts files have for it.
    """

    host: str
    user: str
    authorized_key: str
    ssh_port: int
    interface: str
    ssid: str
    hidden: bool
    psk: str = field(repr=False)
    country: str
    address: str
    gateway: str
    dns: str
    time_server: str
    timezone: str
    known_as: str
    sensor_bus: bool = False  # a power sensor is on the board's I2C bus


def first_boots(bench: Bench, hosts: Sequence[Host]) -> list[FirstBoot]:
    """One for each host; ConfigError with all that the bench description lacks for them."""
    problems: list[str] = []
    passphrases: dict[Path | None, str | list[str]] = {}
    made: list[FirstBoot] = []
    for host in hosts:
        where = f"{bench.file.name}: hosts: {host.name}"
        try:
            way = ssh_options(host.address, host.ssh_user, host.ssh_port)
        except NoOptionsError as error:
            problems.append(f"{where}: {error.reason}; {error.next_action}")
            continue
        found = [f"{where}: {problem}" for problem in _mistakes(host, way)]
        key = _authorized_key(host, way, where, found)
        psk = ""
        if host.card.ssid:
            file = host.card.passphrase_file
            if file not in passphrases:
                passphrases[file] = _passphrase(file)
            passphrase = passphrases[file]
            if isinstance(passphrase, str):
                psk = pre_shared_key(host.card.ssid, passphrase)
            else:
                found += [f"{where}: {problem}" for problem in passphrase]
        problems += found
        made.append(_first_boot(bench, host, way, key, psk))
    if problems:
        raise ConfigError(problems)
    return made


def _first_boot(bench: Bench, host: Host, way: SshOptions, key: str, psk: str) -> FirstBoot:
    card = host.card
    return FirstBoot(
        host=host.name,
        user=way.user,
        authorized_key=key,
        ssh_port=way.port,
        interface=host.interface,
        ssid=card.ssid,
        hidden=card.hidden,
        psk=psk,
        country=card.country,
        address=f"{host.address}/{ip_network(card.subnet).prefixlen}" if card.subnet else "",
        gateway=card.gateway,
        dns=card.dns,
        time_server=bench.time_server,
        timezone=card.timezone,
        known_as=way.known_as,
        sensor_bus=bool(host.meter.i2c),
    )


def _mistakes(host: Host, way: SshOptions) -> Iterator[str]:
    """Return what is right for a bench and not for a card of Raspberry Pi OS."""
    if not _LABEL.fullmatch(host.name):
        yield f"name: expected a host name of at most 63 letters, digits and '-', got {host.name!r}"
    if way.user == "root" or not _USER.fullmatch(way.user):
        yield (
            "ssh_user: expected a user other than root, of at most 32 small letters, digits and '-', "
            f"got {way.user!r}"
        )
    if not host.card.ssid and not host.interface.startswith("e"):
        yield f"card.ssid: is missing, expected a Wi-Fi for the interface {host.interface!r}"


def _authorized_key(host: Host, way: SshOptions, where: str, problems: list[str]) -> str:
    """The line for authorized_keys, made of the key's own bytes: no comment, nothing to be quoted."""
    files = (host.ssh_key,) if host.ssh_key else way.identity_files
    blob = next((blob for file in files if (blob := public_key(file)) is not None), None)
    if blob is None:
        private = shlex.quote(str(host.ssh_key))
        made = f"ssh-keygen -y -f {private} > {private}.pub" if host.ssh_key else "ssh-keygen"
        sought = ", ".join(map(str, files))
        problems.append(f"{where}: ssh_key: no public key to let in ({sought}): {made}")
        return ""
    kind = blob[4 : 4 + int.from_bytes(blob[:4], "big")].decode("ascii", "replace")
    return f"{kind} {base64.b64encode(blob).decode()}"


def _passphrase(file: Path | None) -> str | list[str]:
    """The passphrase, or what is wrong with it, which never quotes it."""
    source, text = f"${PASSPHRASE_VARIABLE}", os.environ.get(PASSPHRASE_VARIABLE, "")
    if not text:
        if file is None:
            return [
                "card.passphrase_file: is missing, expected a file with the Wi-Fi's passphrase, "
                f"or ${PASSPHRASE_VARIABLE}"
            ]
        source = f"card.passphrase_file: {file}"
        try:
            if file.stat().st_mode & 0o077:
                return [f"{source}: others may read it: chmod 600 {shlex.quote(str(file))}"]
            text = file.read_text("utf-8-sig")
        except OSError as error:
            return [f"{source}: cannot be read: {error.strerror}"]
        except UnicodeDecodeError:
            return [f"{source}: not text"]
    text = text.removesuffix("\n").removesuffix("\r")
    if re.fullmatch("[0-9a-fA-F]{64}|[ -~]{8,63}", text):
        return text
    return [f"{source}: expected 8 to 63 ASCII characters, or the 64 hexadecimal digits of the key"]


def pre_shared_key(ssid: str, passphrase: str) -> str:
    """The key of a WPA2 network, 64 hexadecimal digits (IEEE 802.11-2020, J.4): a card holds the key, which
    opens that one network. A `passphrase` of 64 characters is the key already."""
    if len(passphrase) == 64:
        return passphrase.lower()
    return hashlib.pbkdf2_hmac("sha1", passphrase.encode(), ssid.encode(), 4096, 32).hex()
