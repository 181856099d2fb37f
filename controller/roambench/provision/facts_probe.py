"""Runs on a host, as root, under its own Python and nothing else: tells what is there, as JSON.

That Python may be an older one than ours, down to 3.7: the facts say so.

The argument is JSON, too: which files, units and packages to look at, and the folder under which everything
is looked up (a test's; "/" else). What a host does not say is null or empty; nothing here changes anything.
"""

from __future__ import annotations

import csv
import grp
import hashlib
import json
import os
import platform
import pwd
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

#: Programs that open serial ports by themselves.
_PORT_OPENERS = ("ModemManager", "brltty")


def probe(request: dict[str, Any], root: Path) -> dict[str, Any]:
    """The keys of `facts.Facts`."""
    release = _os_release(root)
    opt = root / "opt/roambench"
    environment = (opt / "current").resolve()  # of the build that runs
    memory = _memory(root)
    no_way, own_address = _way(request.get("controller", ""))
    return {
        "machine": platform.machine(),
        "bits": 64 if sys.maxsize > 2**32 else 32,
        "os_id": release.get("ID", ""),
        "os_version": release.get("VERSION_ID", ""),
        "python": "{}.{}.{}".format(*sys.version_info[:3]),
        "is_root": os.geteuid() == 0,
        "init": _text(root / "proc/1/comm"),
        "container": _container(root),
        "model": _text(root / "proc/device-tree/model").rstrip("\0"),
        "machine_id": _text(root / "etc/machine-id"),
        "memory_bytes": memory.get("MemTotal", 0),
        "memory_available_bytes": memory.get("MemAvailable"),
        "disk_free_bytes": _free_bytes(opt.parent, root) or 0,
        "state_free_bytes": _free_bytes(root / "var/lib/roambench", root),
        "disk_mount": _mount(opt.parent, root),
        "state_mount": _mount(root / "var/lib/roambench", root),
        "packages": _packages(root, request["packages"]),
        "user_groups": _user_groups(request["user"]),
        "groups": sorted(group.gr_name for group in grp.getgrall()),
        "files": {path: _file(root, path) for path in request["files"]},
        "units": _units(root, request["units"]),
        "current": _link(opt / "current"),
        "previous": _link(opt / "previous"),
        "builds": {path.name: _json(path / "build.json") for path in _folders(opt / "builds")},
        "programs": {path.name: _json(path / "about.json") for path in _folders(opt / "programs")},
        "wheelhouses": [path.name for path in _folders(opt / "wheels")],
        "certificate_pem": _text(root / "etc/roambench/identity/cert.pem"),
        "authority_pem": _text(root / "etc/roambench/identity/ca.pem"),
        "claim": _text(root / "etc/roambench/claim.json")[:4096],
        "boot_config": _text(root / "boot/firmware/config.txt")[:65536],
        "network_manager": (root / "etc/NetworkManager/conf.d").is_dir(),
        "vcgencmd": shutil.which("vcgencmd") or "",
        "throttled": _throttled(root),
        "time_synchronised": _synchronised(root),
        "interfaces": sorted(path.name for path in (root / "sys/class/net").glob("*")),
        "port_openers": _running(root, _PORT_OPENERS),
        "no_way": no_way,
        "own_address": own_address,
        "wheels": _wheels(environment) if request["wheels"] else None,
        "python_packages": _python_packages(environment, request["python_packages"]),
        "board": _board(root),
        "serials": _serials(root),
    }


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _way(address: str) -> tuple[str | None, str]:
    """Return why there is no route to the address, "" where there is one, and this host's own address on it;
    only name queries are sent."""
    if not address:
        return None, ""
    try:
        ways = socket.getaddrinfo(address, 9, type=socket.SOCK_DGRAM)
    except OSError:
        return "no such name", ""
    reasons = []
    for family, kind, protocol, _, target in ways:
        try:
            with socket.socket(family, kind, protocol) as line:
                line.connect(target)
                return "", line.getsockname()[0].partition("%")[0]
        except OSError as error:
            reasons.append(f"{target[0]}: {error.strerror or error}")
    return "; ".join(dict.fromkeys(reasons)), ""


def _output(root: Path, *command: str) -> str:
    """Return what a program of this host prints; under a test's root what its file in `said` holds."""
    if root != Path("/"):
        return _text(root / "said" / command[0])
    path = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
    try:
        answer = subprocess.run(
            command, capture_output=True, text=True, timeout=20, env={**os.environ, "PATH": path}
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return answer.stdout


def _container(root: Path) -> str:
    kind = _output(root, "systemd-detect-virt", "--container").strip()
    return "" if kind == "none" else kind


def _os_release(root: Path) -> dict[str, str]:
    found = {}
    for line in _text(root / "etc/os-release").splitlines():
        key, _, value = line.partition("=")
        found[key] = value.strip('"')
    return found


def _memory(root: Path) -> dict[str, int]:
    found = {}
    for line in _text(root / "proc/meminfo").splitlines():
        key, _, value = line.partition(":")
        words = value.split()
        if words and words[0].isdecimal():
            found[key] = int(words[0]) * 1024
    return found


def _free_bytes(path: Path, root: Path) -> int | None:
    """Return the free bytes of the disk where `path` is, or would be."""
    try:
        return shutil.disk_usage(path if path.is_dir() else root).free
    except OSError:
        return None


def _mount(path: Path, root: Path) -> str:
    """The folder on which the file system of `path` is mounted, or of the root if there is no such path."""
    found = path if path.is_dir() else root
    while not os.path.ismount(found) and found not in (root, found.parent):
        found = found.parent
    return str(Path("/") / found.relative_to(root))


def _packages(root: Path, names: list[str]) -> dict[str, str]:
    """The versions of those that are installed."""
    if not names:
        return {}  # without names it lists all
    said = _output(root, "dpkg-query", "-W", "-f", "${db:Status-Abbrev}\t${Package}\t${Version}\n", *names)
    rows = [line.split("\t") for line in said.splitlines()]
    return {row[1]: row[2] for row in rows if len(row) == 3 and row[0].startswith("ii")}


def _user_groups(name: str) -> list[str] | None:
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        return None
    return sorted(
        group.gr_name for group in grp.getgrall() if name in group.gr_mem or group.gr_gid == user.pw_gid
    )


def _file(root: Path, written: str) -> dict[str, Any] | None:
    path = root / written.lstrip("/")
    try:
        status = path.lstat()
        digest = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
    except OSError:
        return None
    return {"sha256": digest, "mode": status.st_mode & 0o7777, "owner": f"{_user(status)}:{_group(status)}"}


def _user(status: os.stat_result) -> str:
    try:
        return pwd.getpwuid(status.st_uid).pw_name
    except KeyError:
        return str(status.st_uid)


def _group(status: os.stat_result) -> str:
    try:
        return grp.getgrgid(status.st_gid).gr_name
    except KeyError:
        return str(status.st_gid)


def _units(root: Path, names: list[str]) -> dict[str, dict[str, str]]:
    said = _output(root, "systemctl", "show", "-p", "Id,ActiveState,UnitFileState,NeedDaemonReload", *names)
    found = {}
    for name, block in zip(names, said.split("\n\n")):
        rows = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
        found[name] = {
            "active": rows.get("ActiveState", ""),
            "enabled": rows.get("UnitFileState", ""),
            "stale": rows.get("NeedDaemonReload", ""),
        }
    return found


def _link(path: Path) -> str:
    """The build that a link leads to: OPT/builds/HASH/venv."""
    try:
        return Path(os.readlink(path)).parent.name  # noqa: PTH115 - Path.readlink is Python 3.9's
    except OSError:
        return ""


def _folders(path: Path) -> list[Path]:
    if not path.is_dir():
        return []
    return sorted(entry for entry in path.iterdir() if entry.is_dir() and "." not in entry.name)


def _json(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(_text(path))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _board(root: Path) -> dict[str, Any]:
    """The parts of a board that can be made quiet; a container shows its machine's, which is none of its
    business."""
    system = root / "sys"
    governors = [
        _text(path) for path in sorted(system.glob("devices/system/cpu/cpu*/cpufreq/scaling_governor"))
    ]
    leds = {path.parent.name: _chosen(_text(path)) for path in sorted(system.glob("class/leds/*/trigger"))}
    radio_files = (path for name in ("phy80211", "wireless") for path in system.glob(f"class/net/*/{name}"))
    wireless = sorted({path.parent.name for path in radio_files})
    swaps = [line.split()[0] for line in _text(root / "proc/swaps").splitlines()[1:] if line]
    radios = [path.parent for path in system.glob("class/rfkill/*/type") if _text(path) == "bluetooth"]
    return {
        "governors": governors,
        "leds": {name: trigger for name, trigger in leds.items() if name in ("ACT", "PWR", "led0", "led1")},
        "screens": {
            path.parent.name: _text(path) for path in sorted(system.glob("class/drm/card*HDMI*/status"))
        },
        "power_save": {name: _power_save(root, name) for name in wireless},
        "swaps": [name for name in swaps if "zram" not in name],
        "bluetooth": {radio.name: _text(radio / "soft") for radio in sorted(radios)},
    }


def _chosen(text: str) -> str:
    """Return the chosen word: "mmc0" of "none [mmc0] timer"."""
    return text.partition("[")[2].partition("]")[0]


def _power_save(root: Path, interface: str) -> str:
    """ "on", "off", or "" where it is not known."""
    state = _output(root, "iw", "dev", interface, "get", "power_save").partition("Power save:")[2]
    return state.strip()


def _serials(root: Path) -> dict[str, str]:
    """USB serial number of every serial port that has one."""
    found = {}
    for link in sorted((root / "sys/class/tty").glob("tty[UA][SC][BM]*")):
        for folder in (link.resolve(), *link.resolve().parents):
            serial = _text(folder / "serial")
            if serial:
                found[link.name] = serial
                break
    return found


def _running(root: Path, names: tuple[str, ...]) -> list[str]:
    """Return which of these programs run, however they were started; names are cut to 15 letters by the
    kernel."""
    # Not by a pattern of more than one level: a process that ends meanwhile would be an error of the search.
    found = {_text(process / "comm") for process in root.glob("proc/[0-9]*")}
    return [name for name in names if name in found]


def _throttled(root: Path) -> int | None:
    """Return the bits as `vcgencmd get_throttled` spells it: bits 0 to 3 now, 16 to 19 since boot."""
    written = _text(root / "sys/devices/platform/soc/soc:firmware/get_throttled")
    if not written:
        written = _output(root, "vcgencmd", "get_throttled").partition("=")[2]
    try:
        return int(written, 16)
    except ValueError:
        return None


def _synchronised(root: Path) -> bool | None:
    said = _output(root, "timedatectl", "show", "--property=NTPSynchronized", "--value")
    return {"yes": True, "no": False}.get(said.strip())


def _wheels(venv: Path) -> str | None:
    """One digest over the records of all installed wheels, which have the digest of every file in them.

    Byte code is left out: it is made here. So is the path of the environment, which scripts have in them.
    """
    records = sorted(venv.glob("lib/python3*/site-packages/*.dist-info/RECORD"))
    if not records:
        return None
    found = hashlib.sha256()
    for record in records:
        lines = _text(record).splitlines()
        kept = sorted(line for line in lines if ".pyc" not in line and not line.startswith("../"))
        found.update("\n".join([record.parent.name, *kept]).encode())
    return found.hexdigest()


def _python_packages(venv: Path, names: list[str]) -> dict[str, Any]:
    """Version and files of each package that is installed under one of these names (small letters, '-')."""
    found = {}
    for about in venv.glob("lib/python3*/site-packages/*-*.dist-info"):
        name, _, version = about.stem.partition("-")
        plain = name.lower().replace("_", "-").replace(".", "-")
        if plain in names:
            found[plain] = {"version": version, "files": _files(about)}
    return found


def _files(about: Path) -> dict[str, str]:
    """The SHA-256 of every file that the package brought, by its path below site-packages; "" for one that is
    gone. Neither byte code, which is made here, nor what says how it was installed."""
    found = {}
    for row in csv.reader(_text(about / "RECORD").splitlines()):
        path = row[0] if row else ""
        if path.endswith(".pyc") or path.partition("/")[0] in ("", "..", about.name):
            continue
        try:
            found[path] = hashlib.sha256((about.parent / path).read_bytes()).hexdigest()
        except OSError:
            found[path] = ""
    return found


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    print(json.dumps(probe(asked, Path(asked["root"]))))
