"""A command that is planted in a bench description is refused or stays data, whatever field it is in.

The fields are those of the tables' own classes: a new field is tried as soon as it is there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
import tomlkit

from host_facts import FRESH
from planted import PLANTED, fields_of
from roambench.contract.errors import ConfigError
from roambench.extras.first_boot.bookworm import bookworm_files
from roambench.extras.first_boot.settings import first_boots
from roambench.extras.first_boot.trixie import trixie_files
from roambench.extras.interop.ansible import ansible_inventory
from roambench.extras.verify.cutting import recorded
from roambench.identity.authority import Credential
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.inventory.load import load_bench
from roambench.provision.inventory.tables import BenchTable, HostTable
from roambench.provision.planning import plan
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import switch_power
from roambench.provision.power.table import SWITCHES
from roambench.provision.ssh.hosts import open_link
from roambench.provision.ssh.script import shell_words
from roambench.provision.subjects.settings import agent_settings
from roambench.provision.wanted import Identity, Wanted
from roambench.provision.wheels.agent_build import AgentBuild
from roambench.provision.wheels.wheel_closure import Wheel
from roambench.provision.wheels.wheelhouse import Wheelhouse
from ssh_server import make_key, ssh_server

T = TypeVar("T")

#: Commands of the lab's own, by their very meaning.
_COMMANDS = {("power", "command", key) for key in ("on", "off", "state")}
_OUR_PROGRAMS = ("curl", "snmpget", "snmpset", "ssh", "uhubctl")


def _all_fields() -> list[tuple[str, ...]]:
    found = [*fields_of(BenchTable), *(("hosts", *path) for path in fields_of(HostTable))]
    for name in SWITCHES.names():
        found += [("power", name, *path) for path in fields_of(SWITCHES.load(name).keys)]
    return [path for path in found if path not in _COMMANDS]


def _description(key: Path) -> dict[str, Any]:
    return {
        "controller": {"address": "10.36.0.1"},
        "influxdb": {"url": "http://10.36.0.1:8086", "bucket": "b"},
        "hosts": {
            "name": "pi-01",
            "address": "127.0.0.1",
            "ssh_user": "pi",
            "ssh_key": str(key),
            "interface": "wlan0",
            "meter": {"driver": "smartpower2", "port": "/dev/ttyUSB0", "serial": "SN1"},
            "card": {
                "ssid": "lab",
                "country": "CH",
                "subnet": "127.0.0.0/24",
                "passphrase_file": str(key.with_name("passphrase")),
            },
        },
    }


_SWITCH_KEYS: dict[str, dict[str, Any]] = {
    "command": {"on": "true", "off": "true", "state": "echo on"},
    "uhubctl": {"location": "1-1", "port": 1},
    "poe": {"address": "10.0.0.1", "port": 1},
    "shelly": {"address": "10.0.0.1"},
    "tasmota": {"address": "10.0.0.1"},
    "meter": {},
}


def _written(path: tuple[str, ...], text: str, folder: Path) -> Path:
    """A bench description with `text` in that field, which is right otherwise."""
    values = _description(folder / "key")
    where: dict[str, Any] = values
    if path[0] == "power":
        where = values["hosts"]["power"] = {"switch": path[1], **_SWITCH_KEYS[path[1]]}
        path = path[2:]
    for name in path[:-1]:
        where = where.setdefault(name, {})
    where[path[-1]] = [text] if path[-1] == "tags" else text
    values["hosts"] = [values["hosts"]]
    file = folder / "bench.toml"
    file.write_text(tomlkit.dumps(values))
    return file


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the only programs that a shell finds are: `touch`, which is planted, and some that do nothing."""
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "touch").symlink_to(str(shutil.which("touch")))
    real = {name: shutil.which(name) for name in ("sh", "env", "ssh-keygen", "cat")}
    for name, place in real.items():
        (programs / name).symlink_to(str(place))
    for name in ("sudo", "systemctl", "install", "curl", "snmpget", "snmpset", "uhubctl"):
        (programs / name).write_text("#!/bin/sh\nexit 0\n")
        (programs / name).chmod(0o755)
    # As a login's shell takes the words that ssh hands over, joined.
    real_ssh = shutil.which("ssh")
    (programs / "ssh").write_text(
        f'#!/bin/sh\n[ "$1" = -G ] && exec {real_ssh} "$@"\n'
        'while [ "$1" != -- ]; do shift; done; shift 2; exec sh -c "$*"\n'
    )
    (programs / "ssh").chmod(0o755)
    make_key(tmp_path / "key")
    (tmp_path / "passphrase").write_text("a passphrase of the lab")
    (tmp_path / "passphrase").chmod(0o600)
    monkeypatch.setenv("PATH", str(programs))
    return tmp_path


def _mark(folder: Path) -> Path:
    return folder / "planted"


def _carried_out(words: Sequence[str], folder: Path) -> None:
    """By a real shell, with everything of a host below `folder`."""
    roots = (layout.OPT, layout.ETC, layout.STATE, "/run/", "/etc/", "/boot/")
    moved = []
    for word in words:
        for root in roots:
            word = word.replace(root, f"{folder}/host{root}")
        moved.append(word)
    (folder / "host").mkdir(exist_ok=True)
    subprocess.run(
        moved, cwd=folder / "host", capture_output=True, check=False, timeout=300, stdin=subprocess.DEVNULL
    )


def _or_problems(make: Callable[..., T], *words: Any) -> tuple[T | None, list[str]]:
    try:
        return make(*words), []
    except ConfigError as error:
        return None, error.problems


def _used(bench: Bench, folder: Path, seen: set[tuple[str, ...]]) -> None:
    """All that is made of a description for a shell, and what comes of it elsewhere; what was `seen` is not
    carried out once more."""
    (host,) = bench.hosts
    pip = Wheel("pip", "26.3", "pip-26.3-py3-none-any.whl", "1" * 64, 2_000_000, 10_000_000, ())
    house = Wheelhouse("aarch64", "3.11", "house", folder / "key", (pip,))
    build = AgentBuild("code", folder / "key", "1.0", house)
    credential = Credential(b"cert", b"key", b"ca")
    wanted = Wanted(bench, host, build, Identity("none", credential), b"token\n")
    planned = plan(FRESH, wanted)
    for step in planned.steps:
        words = tuple(shell_words(step.script, step.values, root=True))
        if words not in seen:
            _carried_out(words, folder)
            seen.add(words)
        for file in step.files:
            if file.path == layout.SETTINGS:
                assert json.loads(file.content) == json.loads(agent_settings(bench, host, FRESH).to_json())
            elif file.path.endswith((".conf", ".service", ".rules", ".env")):
                assert "touch" not in file.content.decode(), file
    exported, problems = _or_problems(ansible_inventory, bench)
    assert "{{" not in (exported or "")
    assert bool(problems) is (exported is None)
    cards, _ = _or_problems(first_boots, bench, [host])
    for card in cards or ():
        script = bookworm_files(card, "console=tty1")["firstrun.sh"].decode()
        _carried_out(["sh", "-c", script], folder)
        trixie_files(card, "console=tty1")
    for command in (PowerCommand.OFF, PowerCommand.STATE):
        if host.power.switch != "meter":
            asyncio.run(switch_power([host], command))


@pytest.mark.parametrize("path", _all_fields(), ids=".".join)
def test_a_planted_command_is_refused_or_stays_data(path: tuple[str, ...], folder: Path) -> None:
    seen: set[tuple[str, ...]] = set()
    for planted in PLANTED:
        text = planted.format(f"touch {_mark(folder)}")
        bench, problems = _or_problems(load_bench, _written(path, text, folder))
        assert all(map(str.isprintable, problems)), problems
        if bench is not None:
            _used(bench, folder, seen)
        assert not _mark(folder).exists(), (path, planted)


def test_the_shell_here_would_run_a_planted_command(folder: Path) -> None:
    """Or the test above would show nothing."""
    _carried_out(["sh", "-c", f"true ;touch {_mark(folder)};"], folder)
    assert _mark(folder).exists()


@pytest.mark.parametrize("planted", PLANTED)
def test_a_meters_port_reaches_the_host_as_one_word(planted: str, tmp_path: Path) -> None:
    """Over a real sshd, with a program in the place of the agent's Python that says what it got."""
    mark = tmp_path / "planted"
    port = f"/dev/ttyUSB0{planted.format(f'touch {mark}')}"
    with ssh_server(tmp_path) as server:
        python = server.root / layout.CURRENT.lstrip("/") / "bin/python"
        python.parent.mkdir(parents=True)
        python.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
        python.chmod(0o755)
        file = _written(("hosts", "meter", "driver"), "smartpower2", tmp_path)
        bench = load_bench(_on(server.port, server.client_key, file))
        host = dataclasses.replace(bench.hosts[0], meter=dataclasses.replace(bench.hosts[0].meter, port=port))
        with open_link(bench, host) as link:
            said = recorded(link, 1.0).out.decode().split("\0")
    assert said[2:] == [port, "1", "smartpower2", ""]
    assert not mark.exists()


def _on(port: int, key: Path, file: Path) -> Path:
    values = tomlkit.parse(file.read_text()).unwrap()
    values["hosts"][0] |= {"ssh_user": "root", "ssh_port": port, "ssh_key": str(key), "card": {}}
    file.write_text(tomlkit.dumps(values))
    return file
