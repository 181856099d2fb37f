"""Runs on a host as root, by its own Python and without roambench: prints what preflight judges, as JSON.

Arguments: the data interface, the folder under which everything is looked up (a test's; "/" else), and names
of packages. What a host does not have is null; nothing here changes anything.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: Programs that open serial ports which nobody gave them.
_PORT_OPENERS = ("ModemManager", "brltty")


def probe(root: Path, interface: str, packages: Sequence[str] = ()) -> dict[str, Any]:
    """The keys of `preflight.facts.HostFacts`."""
    release = _os_release(root)
    current = (root / "opt/roambench/current").resolve()  # the environment of the build that runs
    meminfo = _meminfo(root)
    disk = _disk(root / "var/lib/roambench") or _disk(root)
    device = root / "sys/class/net" / interface
    return {
        "os_id": release.get("ID", ""),
        "os_version": release.get("VERSION_ID", ""),
        "machine": os.uname().machine,
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "board": (_text(root / "proc/device-tree/model") or "").rstrip("\0"),
        "container": _container(root),
        "machine_id": _text(root / "etc/machine-id") or "",
        "unit": _output(root, "systemctl", "is-active", "roambench-agent.service") or "",
        "build": current.parent.name if current.name == "venv" else "",
        "wheels": _wheels(current),
        "packages": _packages(current, packages),
        "disk_free_bytes": disk[0] if disk else None,
        "disk_total_bytes": disk[1] if disk else None,
        "memory_total_bytes": meminfo.get("MemTotal"),
        "memory_available_bytes": meminfo.get("MemAvailable"),
        "governor": _text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "throttled": _throttled(root),
        "interface_there": device.exists(),
        "wireless": (device / "wireless").exists() or (device / "phy80211").exists(),
        "power_save": _power_save(root, interface),
        "time_synchronised": _synchronised(root),
        "certificate_pem": _text(root / "etc/roambench/identity/cert.pem"),
        "port_openers": _running(root, _PORT_OPENERS),
    }


def _running(root: Path, names: tuple[str, ...]) -> list[str]:
    """Which of these programs run, however they were started; names are cut to 15 letters by the kernel."""
    # Not by a pattern of more than one level: a process that ends meanwhile would be an error of the search.
    found = {_text(process / "comm") for process in root.glob("proc/[0-9]*")}
    return [name for name in names if name in found]


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _output(root: Path, *command: str) -> str | None:
    """What a program of this host prints; under a test's root what its file in `said` holds."""
    if root != Path("/"):
        return _text(root / "said" / command[0])
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=10, env={**os.environ, "PATH": path}
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def _os_release(root: Path) -> dict[str, str]:
    found = {}
    for line in (_text(root / "etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        found[key] = value.strip('"')
    return found


def _meminfo(root: Path) -> dict[str, int]:
    found = {}
    for line in (_text(root / "proc/meminfo") or "").splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdecimal():
            found[key] = int(words[0]) * 1024
    return found


def _disk(path: Path) -> tuple[int, int] | None:
    try:
        usage = shutil.disk_usage(path)
    except OSError:
        return None
    return usage.free, usage.total


def _container(root: Path) -> str:
    """Kind of the container, "" on a machine of its own."""
    kind = _output(root, "systemd-detect-virt", "--container") or ""
    return "" if kind == "none" else kind


def _throttled(root: Path) -> int | None:
    """As `vcgencmd get_throttled` spells it: bits 0 to 3 now, 16 to 19 since boot."""
    written = _text(root / "sys/devices/platform/soc/soc:firmware/get_throttled")
    if written is None:
        written = (_output(root, "vcgencmd", "get_throttled") or "").partition("=")[2]
    try:
        return int(written, 16)
    except ValueError:
        return None


def _power_save(root: Path, interface: str) -> bool | None:
    said = _output(root, "iw", "dev", interface, "get", "power_save") or ""
    if "Power save:" not in said:
        return None
    return said.rpartition(":")[2].strip() == "on"


def _synchronised(root: Path) -> bool | None:
    said = _output(root, "timedatectl", "show", "--property=NTPSynchronized", "--value")
    return {"yes": True, "no": False}.get(said or "")


def _wheels(venv: Path) -> str | None:
    """One digest over the records of all installed wheels, which have the digest of every file in them.

    Byte code is left out: it is made here. So is the path of the environment, which scripts have in them.
    """
    records = sorted(venv.glob("lib/python3*/site-packages/*.dist-info/RECORD"))
    if not records:
        return None
    found = hashlib.sha256()
    for record in records:
        lines = (_text(record) or "").splitlines()
        kept = sorted(line for line in lines if ".pyc" not in line and not line.startswith("../"))
        found.update("\n".join([record.parent.name, *kept]).encode())
    return found.hexdigest()


def _packages(venv: Path, names: Sequence[str]) -> dict[str, Any]:
    """Version and files of each package that is installed under one of these names (small letters, '-')."""
    found = {}
    for about in venv.glob("lib/python3*/site-packages/*-*.dist-info"):
        name, _, version = about.name.removesuffix(".dist-info").partition("-")
        plain = name.lower().replace("_", "-").replace(".", "-")
        if plain in names:
            found[plain] = {"version": version, "files": _files(about)}
    return found


def _files(about: Path) -> dict[str, str]:
    """The SHA-256 of every file that the package brought, by its path below site-packages; "" for one that is
    gone. Neither byte code, which is made here, nor what says how it was installed."""
    found = {}
    for row in csv.reader((_text(about / "RECORD") or "").splitlines()):
        path = row[0] if row else ""
        if path.endswith(".pyc") or path.partition("/")[0] in ("", "..", about.name):
            continue
        try:
            found[path] = hashlib.sha256((about.parent / path).read_bytes()).hexdigest()
        except OSError:
            found[path] = ""
    return found


if __name__ == "__main__":
    print(json.dumps(probe(Path(sys.argv[2]), sys.argv[1], sys.argv[3:])))
