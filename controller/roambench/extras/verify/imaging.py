"""The settings of a host's system: clock rate, logs, the meter's name, what was made quiet."""

from __future__ import annotations

from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_json
from roambench.extras.verify.kit import Image
from roambench.provision import layout
from roambench.provision.bench import METER_LINK
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script

#: Prints an `Image` as JSON.
_ASK: Final = f"""
import glob, json, os, subprocess
def text(path):
    try:
        return open(path).read().strip()
    except OSError:
        return ""
def now(path):
    words = text(path)
    return words.split("[")[1].split("]")[0] if "[" in words else words
listed = ["journalctl", "--list-boots", "-q", "--no-pager"]
boots = subprocess.run(listed, capture_output=True, text=True).stdout
governors = glob.glob("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")
rules = text("{layout.UDEV_RULES}")
notes = [line.split(" ", 2) for line in text("/run/roambench-board").splitlines()]
written = [note for note in notes if note[0] == "write" and len(note) == 3]
print(json.dumps({{
    "governors": [text(path) for path in governors][:64],
    "journal_on_card": bool(glob.glob("/var/log/journal/*/system*.journal")),
    "boots_kept": len([line for line in boots.splitlines() if line.strip() and "IDX" not in line]),
    "meter_named": os.path.exists("{METER_LINK}") if rules else None,
    "quiet": len(written),
    "loud": sum(now(path) == old for _, path, old in written),
}}))
"""


def image_of(link: HostLink) -> tuple[Image, ...]:
    """One, or none where the host says nothing that can be read."""
    ran = link.run(Script("python3 -"), root=True, stdin=_ASK.encode(), most_bytes=2**16)
    try:
        return (from_json(Image, ran.out, "image"),)
    except ConfigError:
        return ()
