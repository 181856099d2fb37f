"""labgrid's resources, as an exporter's configuration names them, and its coordinator's places.

A host is a group with a NetworkService: its address, user and port. With places it is a place whose matches
find one, and is called as the place is; tags of the place named `meter_...` are keys of its meter, the others
tags of the host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import jinja2
import yaml
from jinja2.sandbox import SandboxedEnvironment

from roambench.contract.errors import ConfigError
from roambench.extras.interop.foreign import ForeignBench, ForeignHost
from roambench.provision.bench import MeterEntry

_SERVICE: Final = "NetworkService"
_POWER: Final = "PowerPort"
_METER: Final = tuple(MeterEntry.__dataclass_fields__)
_MOST_BYTES: Final = 2**22
#: By labgrid's model of a NetworkPowerPort: our switch, and its key for labgrid's index.
_SWITCHES: Final = {
    "poe_mib": ("poe", "port"),
    **dict.fromkeys(("shelly_gen1", "shelly_gen2"), ("shelly", "channel")),
}


def read_labgrid(exporter: Path, places: Path | None = None) -> ForeignBench:
    """The hosts of an exporter's configuration; with `places` (the coordinator's places.yaml) its places.

    ConfigError where a file is none of labgrid's.
    """
    groups = _resources(exporter)
    if places is None:
        services = {name: _services(found) for name, found in groups.items()}
        left_out = [f"{name}: no {_SERVICE}" for name, found in services.items() if not found]
        hosts = [_host(name, found[0], groups[name], {}) for name, found in services.items() if found]
        return ForeignBench(hosts, left_out)
    hosts, left_out = [], []
    for name, place in _mapping(_yaml(places), places).items():
        matched = [(group, one) for group, one in _matched(place, groups, places)]
        if matched:
            group, service = matched[0]
            tags = place.get("tags") or {}
            hosts.append(_host(name, service, groups[group], tags if isinstance(tags, Mapping) else {}))
        else:
            left_out.append(f"{name}: none of its matches has a {_SERVICE} in {exporter.name}")
    return ForeignBench(hosts, left_out)


def _yaml(path: Path, *, rendered: bool = False) -> Any:
    try:
        text = path.read_bytes()[:_MOST_BYTES].decode()
        if rendered:  # as labgrid does: lines that begin with # are Jinja's
            environment = SandboxedEnvironment(line_statement_prefix="#", line_comment_prefix="##")
            text = environment.from_string(text).render()
        return yaml.safe_load(text)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError:
        raise ConfigError([f"{path}: expected text in UTF-8"]) from None
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError([f"{path}:{error.lineno}: {error.message} (Jinja)"]) from None
    except jinja2.TemplateError as error:
        raise ConfigError([f"{path}: {error.message} (Jinja)"]) from None
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f":{mark.line + 1}" if mark else ""
        raise ConfigError([f"{path}{where}: {getattr(error, 'problem', None) or 'no YAML'}"]) from None


def _mapping(found: Any, path: Path) -> dict[str, Mapping[str, Any]]:
    if not isinstance(found, Mapping) or not all(isinstance(value, Mapping) for value in found.values()):
        raise ConfigError([f"{path}: expected a mapping of names to mappings, as labgrid writes it"])
    return {str(name): value for name, value in found.items()}


def _resources(exporter: Path) -> dict[str, Mapping[str, Any]]:
    return _mapping(_yaml(exporter, rendered=True), exporter)


def _services(group: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [one for name, one in _of_class(group) if name == _SERVICE]


def _of_class(group: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each resource with its class: its name, unless it says another one (`cls`)."""
    for name, one in group.items():
        if isinstance(one, Mapping):
            yield str(one.get("cls", name)), one


def _matched(
    place: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]], path: Path
) -> Iterator[tuple[str, Mapping[str, Any]]]:
    matches = place.get("matches") or []
    if not isinstance(matches, list) or not all(isinstance(one, Mapping) for one in matches):
        raise ConfigError([f"{path}: matches: expected a list of mappings, as labgrid writes it"])
    for match in matches:
        for name, group in groups.items():
            if fnmatchcase(name, str(match.get("group", "*"))) and fnmatchcase(
                _SERVICE, str(match.get("cls", "*"))
            ):
                yield from ((name, one) for one in _services(group))


def _host(
    name: str, service: Mapping[str, Any], group: Mapping[str, Any], tags: Mapping[str, Any]
) -> ForeignHost:
    address, _, link = str(service.get("address", "")).partition("%")
    table: dict[str, Any] = {"name": re.sub(r"[^a-z0-9-]+", "-", name.lower()).strip("-"), "address": address}
    if service.get("username"):
        table["ssh_user"] = service["username"]
    if service.get("port", 22) != 22:
        table["ssh_port"] = service["port"]
    words = {str(key): str(value) for key, value in tags.items()}
    others = [value or key for key, value in words.items() if not key.startswith("meter_")]
    if others:
        table["tags"] = others
    if switch := next(filter(None, map(_switch, group.items())), None):
        table["power"] = switch
    meter = {key: _number(words[f"meter_{key}"]) for key in _METER if f"meter_{key}" in words}
    if meter:
        table["meter"] = meter
    return ForeignHost(table, tuple(_notes(name, table["name"], service, group, link)))


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _notes(
    name: str, ours: str, service: Mapping[str, Any], group: Mapping[str, Any], link: str
) -> Iterator[str]:
    if name != ours:
        yield f"labgrid calls it {name}"
    if link:
        yield f"labgrid reaches it over {link} of the exporter: ProxyJump in ~/.ssh/config"
    if service.get("password"):
        yield "labgrid logs in with a password: give this host a key (ssh-copy-id)"
    for cls, one in _of_class(group):
        if cls.endswith(_POWER) and (_switch((cls, one)) is None or "@" in str(one.get("host", ""))):
            words = ", ".join(
                f"{key} = {value}" for key, value in one.items() if not isinstance(value, Mapping)
            )
            yield f"switched by {cls}: {_without_password(words)}"


def _switch(resource: tuple[str, Any]) -> dict[str, Any] | None:
    """The `power` table of a power port that we have a switch for."""
    name, one = resource
    if not isinstance(one, Mapping) or one.get("cls", name) != "NetworkPowerPort":
        return None
    switch, key = _SWITCHES.get(str(one.get("model")), ("", ""))
    host, index = str(one.get("host", "")), str(one.get("index", ""))
    try:
        address = urlsplit(host if "//" in host else f"//{host}").netloc.rpartition("@")[2]
    except ValueError:
        return None
    return {"switch": switch, "address": address, key: int(index)} if switch and index.isdecimal() else None


def _without_password(words: str) -> str:
    return re.sub(r"(//[^:/@\s]*):[^@/\s]*@", r"\1:...@", words)
