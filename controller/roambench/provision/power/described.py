"""The `power` tables of a bench description: which switch, and the keys that this switch has."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from roambench.contract.errors import ConfigError
from roambench.provision.bench import Host, PowerEntry
from roambench.provision.power.switch import SwitchRow
from roambench.provision.power.table import SWITCHES
from roambench.written.mistakes import did_you_mean, mistakes_of, shown
from roambench.written.toml_file import Section

#: Of a table that names no switch.
_DEFAULT: Final = "command"


def power_of(
    table: Mapping[str, Any], host: Mapping[str, Any], folder: Path, forgiven: Collection[str] = ()
) -> tuple[PowerEntry, list[str]]:
    """Return what a host's merged `power` table says, and its mistakes, each with its key.

    `{host}` and `{address}` in its texts are the host's. `folder` is the bench description's. Keys that are
    `forgiven` may be missing: their mistake is reported elsewhere.
    """
    row, mistakes = _row(table)
    if row is None:
        told_elsewhere = "switch" in forgiven and "switch" not in table
        return PowerEntry(), [] if told_elsewhere else mistakes
    keys = {key: _filled(value, host) for key, value in table.items() if key != "switch"}
    try:
        return PowerEntry(_name(table), row.keys.model_validate(keys, context={"folder": folder})), []
    except ValidationError as error:
        missing = {f"power.{key}: is missing" for key in forgiven}
        lines = [str(mistake) for mistake in mistakes_of(error, row.keys, ("power",))]
        return PowerEntry(), [line for line in lines if line.partition(",")[0] not in missing]


def default_mistakes(table: Mapping[str, Any]) -> tuple[set[str], list[str]]:
    """Return the mistakes of the defaults' `power` table, which hosts may complete: the keys that are wrong,
    and why."""
    row, mistakes = _row(table)
    if row is None:
        return {"switch"}, mistakes
    keys = {key: value for key, value in table.items() if key != "switch"}
    try:
        row.keys.model_validate(keys, context={"folder": Path()})
    except ValidationError as error:
        wrong = {str(one["loc"][0]) for one in error.errors() if one["loc"] and one["type"] != "missing"}
        wrong &= keys.keys()
        found = mistakes_of(error, row.keys, ("power",))
        return wrong, [str(mistake) for mistake in found if mistake.path[1:2] and mistake.path[1] in wrong]
    return set(), []


def inherited(defaults: Any, own: Any) -> dict[str, Any]:
    """The `power` table of a host: its own keys over the defaults', unless it names another switch."""
    below = dict(defaults) if isinstance(defaults, Mapping) else {}
    if not isinstance(own, Mapping):
        return below
    another = _name(own) != _name(below) if "switch" in own or {"on", "off"} & own.keys() else False
    return dict(own) if another else {**below, **own}


def outlet_of(host: Host) -> str:
    """The switch and what it switches, which no two hosts may share; "" for a meter, whose way has its own
    rule."""
    outlet = SWITCHES.load(host.power.switch).outlet(host.power.keys)
    return f"{host.power.switch} {outlet}" if outlet else ""


def as_written(value: object) -> Any:
    """A value of a host for JSON: a `power` table as it is, anything else as text."""
    return value.model_dump() if isinstance(value, Section) else str(value)


def _name(table: Mapping[str, Any]) -> Any:
    return table.get("switch", _DEFAULT)


def _row(table: Mapping[str, Any]) -> tuple[SwitchRow | None, list[str]]:
    name = _name(table)
    names = SWITCHES.names()
    if name not in names or ("switch" not in table and not {"on", "off"} & table.keys()):
        wanted = "a name of `roambench list switches`"
        if "switch" not in table:
            return None, [f"power.switch: is missing, expected {wanted}, or on and off, which are commands"]
        near = did_you_mean(name, names) if isinstance(name, str) else ""
        return None, [f"power.switch: expected {wanted}, got {shown(name)}{near}"]
    try:
        return SWITCHES.load(name), []
    except ConfigError as error:
        return None, [f"power.switch: {problem}" for problem in error.problems]


def _filled(value: Any, host: Mapping[str, Any]) -> Any:
    if not isinstance(value, str):
        return value
    for word in ("name", "address"):
        if isinstance(host.get(word), str):
            value = value.replace("{host}" if word == "name" else "{address}", host[word])
    return value
