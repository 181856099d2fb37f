"""Raspberry Pi OS Bookworm: a script that systemd runs once, before anything else of the second boot.

The only way there that covers fixed addresses and the time server, and that a board cannot hang in: it waits
for no login, and takes itself off the command line first.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

from roambench.extras.first_boot.card_files import CardFile, common_files, connection_file
from roambench.extras.first_boot.cmdline import MEMORY_LIMITS, with_words
from roambench.extras.first_boot.settings import FirstBoot

SCRIPT: Final = "firstrun.sh"
_PLACE: Final = "/boot/firmware"
_END: Final = "END_OF_FILE"
# By its own path, not by /boot/firstrun.sh: an initramfs script rewrites any file of that name.
_WORDS: Final = (
    f"systemd.run={_PLACE}/{SCRIPT}",
    "systemd.run_success_action=reboot",
    "systemd.unit=kernel-command-line.target",
)


def bookworm_files(settings: FirstBoot, cmdline: str) -> dict[str, bytes]:
    """Files of the boot partition by name; `cmdline` is the line that is there."""
    country = (f"cfg80211.ieee80211_regdom={settings.country}",) if settings.country else ()
    return {
        SCRIPT: "\n".join([*_script(settings), ""]).encode("ascii"),
        "cmdline.txt": (with_words(cmdline, (MEMORY_LIMITS, *country, *_WORDS)) + "\n").encode("ascii"),
    }


def _script(settings: FirstBoot) -> Iterator[str]:
    yield f"""\
#!/bin/sh
# {settings.host}: written by roambench fleet image. It may run again; nothing in it waits for a person.
set +e
umask 022
exec >{_PLACE}/firstrun.log 2>&1
# Off the command line first: in any case the next boot is a plain one.
sed -i 's| systemd\\.[^ ]*||g' {_PLACE}/cmdline.txt

report() {{
    if [ "$1" = 0 ]; then echo "ok: $2"; else echo "FAILED ($1): $2"; fi
}}

# PATH MODE: a file of root's with what comes in.
lay() {{
    mkdir -p "${{1%/*}}" && rm -f "$1" && (umask 077 && cat >"$1") && chown root:root "$1" && chmod "$2" "$1"
    report $? "$1"
}}

imager_custom=/usr/lib/raspberrypi-sys-mods/imager_custom"""
    for what, *words in _calls(settings):
        yield f"{' '.join(words)}; report $? {shlex.quote(what)}"
    connection = connection_file(settings)
    for file in (*common_files(settings), *([connection] if connection else [])):
        yield from _laid(file)
    if settings.ssid:
        # The image's own state file has the radio off, and nmcli would need a NetworkManager that runs.
        yield from _laid(
            CardFile("/var/lib/NetworkManager/NetworkManager.state", "[main]\nWirelessEnabled=true\n")
        )
        yield "rfkill unblock wifi; report $? radio"
        yield 'for file in /var/lib/systemd/rfkill/*:wlan; do [ ! -e "$file" ] || echo 0 >"$file"; done'
    yield f"rm -f {_PLACE}/{SCRIPT}"
    yield "sync"
    yield "exit 0"


def _calls(settings: FirstBoot) -> Iterator[tuple[str, ...]]:
    """Return what it is, and the words of the image's own programs, as they take them."""
    custom = '"$imager_custom"'
    yield "host name", custom, "set_hostname", shlex.quote(settings.host)
    yield "key", custom, "enable_ssh", "-k", shlex.quote(settings.authorized_key)
    # "!" is no password's hash: no login is possible with one.
    yield "user", "/usr/lib/userconf-pi/userconf", shlex.quote(settings.user), "'!'"
    if settings.country:
        yield "country", custom, "set_wlan_country", shlex.quote(settings.country)
    yield "time zone", custom, "set_timezone", shlex.quote(settings.timezone)
    yield "locale", "update-locale", "LANG=C.UTF-8"


def _laid(file: CardFile) -> Iterator[str]:
    yield f"lay {shlex.quote(file.path)} {file.mode:04o} <<'{_END}'"
    yield f"{file.content}{_END}"
