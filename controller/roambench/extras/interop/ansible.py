"""Ansible inventories: read as `ansible-inventory --list` prints them, written as an inventory in JSON.

A host's address, user, port and key are Ansible's own variables, its tags Ansible's groups. What Ansible has
no word for goes by variables of ours: `meter_driver`, `meter_serial` and the other keys of a meter,
`roambench_interface`, `roambench_slot`, `roambench_tags`, `roambench_power`.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from roambench.contract.errors import ConfigError
from roambench.extras.interop.foreign import ForeignBench, ForeignHost
from roambench.provision.bench import METER_LINK, Bench, Host, MeterEntry
from roambench.provision.power.described import as_written

_PATIENCE_S: Final = 120.0
_MOST_BYTES: Final = 64 * 2**20
#: Our key of a host, and the variable that holds it.
_VARIABLES: Final = {
    "address": "ansible_host",
    "ssh_user": "ansible_user",
    "ssh_port": "ansible_port",
    "ssh_key": "ansible_ssh_private_key_file",
    "interface": "roambench_interface",
    "slot": "roambench_slot",
}
_OLD_NAMES: Final = {f"ansible_ssh_{word}": f"ansible_{word}" for word in ("host", "user", "port")}
_TAGS: Final = "roambench_tags"
_POWER: Final = "roambench_power"
_CONTROLLER: Final = "roambench_controller"
_METER: Final = tuple(name for name in MeterEntry.__dataclass_fields__)
_SSH_ARGUMENTS: Final = ("ansible_ssh_common_args", "ansible_ssh_extra_args")
#: Groups that every inventory has.
_GIVEN: Final = frozenset({"all", "ungrouped", "_meta"})
_TEMPLATE: Final = re.compile(r"\{[{%#]")
#: What Ansible takes for a group's name without a warning.
_GROUP: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def listed(inventory: Path) -> Any:
    """Return what `ansible-inventory --list` prints of an inventory; a `.json` is such a print.
    ConfigError."""
    if inventory.suffix == ".json":
        try:
            return json.loads(inventory.read_bytes()[:_MOST_BYTES])
        except OSError as error:
            raise ConfigError([f"{inventory}: cannot be read: {error.strerror}"]) from None
        except (ValueError, RecursionError):
            raise ConfigError([f"{inventory}: expected JSON as `ansible-inventory --list` prints"]) from None
    if not inventory.exists():
        raise ConfigError([f"{inventory}: no such file or folder"])
    command = ["ansible-inventory", "-i", str(inventory), "--list"]
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_PATIENCE_S, check=False)
    except FileNotFoundError:
        raise ConfigError(
            [
                f"{inventory}: this machine has no ansible-inventory; where it is: "
                f"ansible-inventory -i {inventory} --list >listed.json, and import that"
            ]
        ) from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError([f"{inventory}: ansible-inventory: {error}"]) from None
    said = ran.stderr.decode(errors="replace")
    # A file that none of its parsers understands is a warning of Ansible's, and an empty inventory.
    complaints = [
        line for line in said.splitlines() if "Failed to parse" in line or "Unable to parse" in line
    ]
    if ran.returncode != 0 or complaints:
        lines = complaints or said.splitlines() or [f"exit code {ran.returncode}"]
        raise ConfigError([f"{inventory}: ansible-inventory: {lines[0]}"])
    return json.loads(ran.stdout)


def read_ansible(data: Any, source: str, group: str = "all") -> ForeignBench:
    """The hosts of a group, in the order of the listing; `source` is the file's name.

    ConfigError names all hosts whose words make no sense.
    """
    try:
        variables = {str(name): dict(found) for name, found in data["_meta"]["hostvars"].items()}
        groups = {name: _members(data, name) for name in data if name != "_meta"}
    except (TypeError, KeyError, AttributeError, ValueError, RecursionError):
        raise ConfigError([f"{source}: expected what `ansible-inventory --list` prints"]) from None
    if group not in groups and group != "all":
        known = ", ".join(sorted(groups))
        raise ConfigError([f"--group {group}: no such group (there are {known})"])
    names = groups.get("all") or list(variables)
    chosen = names if group == "all" else [name for name in names if name in groups[group]]
    problems: list[str] = []
    hosts, left_out, controllers = [], [], set()
    for name in chosen:
        found = {_OLD_NAMES.get(str(key), str(key)): value for key, value in variables.get(name, {}).items()}
        connection = found.get("ansible_connection", "ssh")
        if connection not in ("ssh", "smart", "paramiko", "paramiko_ssh"):
            left_out.append(f"{name}: ansible_connection is {connection}, expected ssh")
            continue
        problems += [
            f"{source}: {name}: {key}: {value!r} is a template that Ansible fills in later: expected a value"
            for key, value in found.items()
            if (key in _VARIABLES.values() or key.startswith("meter_")) and "{{" in str(value)
        ]
        controllers.add(str(found.get(_CONTROLLER, "")))
        tags = [one for one, members in groups.items() if name in members and one not in _GIVEN]
        hosts.append(_host(name, found, tags))
    if problems:
        raise ConfigError(problems)
    (controller,) = controllers if len(controllers) == 1 else ("",)
    return ForeignBench(hosts, left_out, controller)


def ansible_inventory(bench: Bench) -> str:
    """The bench as an inventory that Ansible reads (JSON is YAML); `read_ansible` makes its hosts of it.

    ConfigError for a value that Ansible would take for a template: it may run commands on this machine.
    """
    hosts = {host.name: _variables(bench, host) for host in bench.hosts}
    problems = [
        f"{bench.file.name}: hosts: {name}: {key}: {text!r} is a template that Ansible fills in: "
        "expected a value without {{, {% and {#"
        for name, variables in hosts.items()
        for key, value in variables.items()
        if _TEMPLATE.search(text := json.dumps(value, ensure_ascii=False))
    ]
    if problems:
        raise ConfigError(problems)
    children: dict[str, Any] = {re.sub(r"\W", "_", bench.name): {"hosts": hosts}}
    for tag in dict.fromkeys(tag for host in bench.hosts for tag in host.tags):
        if _GROUP.fullmatch(tag) and tag not in children:
            children[tag] = {"hosts": {host.name: {} for host in bench.hosts if tag in host.tags}}
    return json.dumps({"all": {"children": children}}, indent=2) + "\n"


def _variables(bench: Bench, host: Host) -> dict[str, Any]:
    values = {key: getattr(host, key) for key in _VARIABLES}
    values["ssh_key"] = str(host.ssh_key.absolute()) if host.ssh_key else None
    meter = {f"meter_{key}": value for key, value in asdict(host.meter).items() if value not in ("", False)}
    power = (
        {}
        if host.power.keys is None
        else {_POWER: {"switch": host.power.switch, **as_written(host.power.keys)}}
    )
    return {
        **{_VARIABLES[key]: value for key, value in values.items() if value is not None},
        **{_CONTROLLER: bench.controller.address, _TAGS: list(host.tags)},
        **meter,
        **power,
    }


def _members(data: Mapping[str, Any], group: str, above: tuple[str, ...] = ()) -> list[str]:
    """The hosts of a group and of the groups in it, in their order."""
    if group in above or group not in data:
        return []
    found = [str(name) for name in data[group].get("hosts", [])]
    for child in data[group].get("children", []):
        found += _members(data, child, (*above, group))
    return list(dict.fromkeys(found))


def _host(name: str, found: Mapping[str, Any], groups: list[str]) -> ForeignHost:
    table: dict[str, Any] = {"name": name, "address": name}
    table |= {key: found[variable] for key, variable in _VARIABLES.items() if variable in found}
    if str(table.get("ssh_port", "")).isdecimal():  # an INI file's numbers may be texts
        table["ssh_port"] = int(table["ssh_port"])
    own = found.get(_TAGS)
    table["tags"] = [str(tag) for tag in own] if isinstance(own, list) else groups
    meter = {key: found[f"meter_{key}"] for key in _METER if f"meter_{key}" in found}
    if meter.get("serial") and meter.get("port") == METER_LINK:
        del meter["port"]  # what a meter with a serial number has by itself
    if meter:
        table["meter"] = meter
    if isinstance(found.get(_POWER), Mapping):
        table["power"] = found[_POWER]
    return ForeignHost(table, tuple(_notes(found)))


def _notes(found: Mapping[str, Any]) -> Iterator[str]:
    for name in _SSH_ARGUMENTS:
        if found.get(name):
            yield f"{name} = {found[name]}: put that into ~/.ssh/config"
    if "ansible_password" in found or "ansible_ssh_pass" in found:
        yield "Ansible logs in with a password: give this host a key (ssh-copy-id)"
    if found.get("ansible_become_method", "sudo") != "sudo":
        yield f"ansible_become_method = {found['ansible_become_method']}: expected sudo without a password"
