"""A bench's TOML file becomes a Bench, or a ConfigError that lists every mistake at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from roambench.contract.errors import ConfigError
from roambench.provision.bench import (
    CONTROLLER_READER,
    HWMON,
    METER_LINK,
    NEIGHBOUR_LINK,
    NO_METER,
    Bench,
    CardEntry,
    ControllerEntry,
    Host,
    MeterEntry,
    PowerEntry,
)
from roambench.provision.inventory.ranges import RangeMistake, expanded
from roambench.provision.inventory.replacements import read_replacements, standing_in
from roambench.provision.inventory.rules import broken_rules, host_mistakes
from roambench.provision.inventory.tables import (
    BenchTable,
    CardTable,
    HostDefaults,
    HostTable,
    InfluxTable,
    MeterTable,
)
from roambench.provision.power.described import default_mistakes, inherited, power_of
from roambench.spool.influx_settings import InfluxSettings
from roambench.written.lines import KeyLines
from roambench.written.mistakes import mistakes_of, shown
from roambench.written.toml_file import read_toml

_M = TypeVar("_M", bound=BaseModel)


def load_bench(path: Path | str) -> Bench:
    """The bench that the file describes; ConfigError's `problems` name file, table and key.

    The keys that are right are checked with each other, also where others beside them are not.
    """
    path = Path(path)
    problems: list[str] = []
    values = read_toml(path)
    tables = values.pop("hosts", [])
    defaults = values.pop("defaults", {})
    groups = values.pop("groups", {})
    bench = _checked(BenchTable, values, (), path.name, problems)
    if bench is None:
        right = _without(values, _mistaken(BenchTable, values))
        bench = _checked(BenchTable, right, (), path.name, [])
    _checked(HostDefaults, defaults, ("defaults",), path.name, problems)
    mistaken = _mistaken(HostDefaults, defaults)
    forgiven: set[str] = set()
    if isinstance(defaults, Mapping) and isinstance(defaults.get("power"), Mapping):
        forgiven, wrong = default_mistakes(defaults["power"])
        mistaken |= {("power",)} if "switch" in forgiven else {("power", key) for key in forgiven}
        problems += [f"{path.name}: defaults.{line}" for line in wrong]
    groups = _groups(groups, path.name, problems)
    entries, vague = _hosts(tables, _without(defaults, mistaken), groups, path, problems, forgiven)
    hosts = [host for _, host in entries]
    whole = not hosts or len(dict(entries)) == len(tables)
    problems += [
        f"{path.name}: groups.{name}: expected the tag of a host, and no host has it"
        for name in groups
        if hosts and whole and not any(name in host.tags for host in hosts)
    ]
    lines = KeyLines(path)
    problems = lines.put_in(problems, path.name)
    if bench is not None:
        broken = [f"{path.name}: {line}" for line in broken_rules(bench.controller, bench.influxdb)]
        problems += lines.put_in(broken, path.name)
    # The meter's table, or one that was to be it: what the hosts' meters lack may stand there.
    if any(key == "meter" or isinstance(defaults[key], Mapping) for key, *_ in mistaken):
        vague = hosts
    entry_of = {id(host): entry for entry, host in entries}
    for host, mistake in host_mistakes(hosts, vague=vague, whole=whole):
        problems.append(f"{path.name}{lines.at(entry_of[id(host)])}: {mistake}")
    if problems or bench is None:
        raise ConfigError(problems)
    name = bench.name or path.stem
    folder = path.absolute().parent  # programs that run elsewhere get paths below it
    state = folder / (Path(bench.state_dir).expanduser() if bench.state_dir else f".{name}")
    replaced = read_replacements(state)
    return Bench(
        name=name,
        file=path,
        hosts=tuple(standing_in(hosts, replaced)),
        stand_ins={one.spare: board for board, one in replaced.items()},
        controller=ControllerEntry(**bench.controller.model_dump()),
        influxdb=_influx(bench.influxdb, folder),
        time_server=bench.time_server or bench.controller.address,
        state_dir=state,
    )


def _checked(
    model: type[_M], values: Any, prefix: tuple[str, ...], source: str, problems: list[str]
) -> _M | None:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        if not isinstance(values, Mapping):
            problems.append(f"{source}: {'.'.join(prefix)}: expected a table, got {shown(values)}")
        else:
            problems += [f"{source}: {mistake}" for mistake in mistakes_of(error, model, prefix)]
        return None


def _mistaken(model: type[BaseModel], values: Any) -> set[tuple[str, ...]]:
    """The keys in `values`, with those of the tables around them, that are wrong by themselves."""
    try:
        model.model_validate(values)
    except ValidationError as error:
        found = (tuple(part for part in one["loc"] if isinstance(part, str)) for one in error.errors())
        return {path for path in found if path}
    return set()


def _without(values: Any, mistaken: set[tuple[str, ...]]) -> dict[str, Any]:
    """`values` but for those keys; nothing where it is no table."""
    if not isinstance(values, Mapping):
        return {}
    inner = {key: {path[1:] for path in mistaken if path[0] == key} for key in values}
    return {
        key: _without(value, inner[key]) if inner[key] and isinstance(value, Mapping) else value
        for key, value in values.items()
        if () not in inner[key]
    }


def _groups(tables: Any, source: str, problems: list[str]) -> dict[str, dict[str, Any]]:
    """The tables of `[groups.TAG]` without the keys that are wrong."""
    if not isinstance(tables, Mapping):
        problems.append(f"{source}: groups: expected tables [groups.TAG], got {shown(tables)}")
        return {}
    found = {}
    for name, table in tables.items():
        _checked(HostDefaults, table, ("groups", name), source, problems)
        found[name] = _without(table, _mistaken(HostDefaults, table))
    return found


def _hosts(
    tables: Any,
    defaults: Mapping[str, Any],
    groups: Mapping[str, Mapping[str, Any]],
    path: Path,
    problems: list[str],
    forgiven: Collection[str],
) -> tuple[list[tuple[str, Host]], list[Host]]:
    """The hosts, each with the entry that describes it: `hosts[3]`; those with wrong keys without these, and
    which of them have wrong ones in their meters."""
    if not isinstance(tables, list) or not tables or not all(isinstance(table, Mapping) for table in tables):
        problems.append(f"{path.name}: hosts: expected tables [[hosts]], at least one, got {shown(tables)}")
        return [], []
    hosts: list[tuple[str, Host]] = []
    vague: list[Host] = []
    place = 0
    for number, table in enumerate(tables, start=1):
        entry = f"hosts[{number}]"
        try:
            singles = expanded(table)
        except RangeMistake as mistake:
            problems.append(f"{path.name}: {'.'.join((entry, *mistake.path))}: {mistake}")
            continue
        found: list[str] = []
        for single in singles:
            place += 1
            shared = _shared(defaults, groups, single)
            values = {"slot": place, **_over(shared, single)}
            power = PowerEntry()
            if isinstance(values.get("power"), Mapping):
                values["power"] = inherited(shared.get("power"), single.get("power"))
                power, lines = power_of(values["power"], values, path.parent, forgiven)
                found += [f"{path.name}: {entry}.{line}" for line in lines]
            known = _checked(HostTable, values, (entry,), path.name, found)
            if known is not None:
                host = _host(known, path.parent, power)
            else:
                mistaken = _mistaken(HostTable, values)
                host = _half_known(values, mistaken, entry, place, path.parent, power)
                if any(key == "meter" for key, *_ in mistaken):
                    vague.append(host)
            hosts.append((entry, host))
        problems += dict.fromkeys(found)  # an entry's 36 hosts have its mistake only once
    return hosts, vague


def _half_known(
    values: Mapping[str, Any],
    mistaken: set[tuple[str, ...]],
    entry: str,
    place: int,
    folder: Path,
    power: PowerEntry,
) -> Host:
    """A host of the keys that are right, for rules only: what is `mistaken` breaks none of them."""
    wrong = {key for key, *_ in mistaken}
    if wrong & {"address", "card"}:  # the card's rules look at both
        mistaken = mistaken | {("card",)}
    other = f"stand-in-{place}"  # no two hosts have the same one
    stand_ins = {"name": other, "address": other, "slot": 10**9 + place}
    right = _without(values, mistaken) | {key: stand_ins[key] for key in stand_ins.keys() & wrong}
    host = _host(HostTable.model_validate(right), folder, power)
    name = values.get("name")
    return replace(
        host,
        name=name if isinstance(name, str) else entry,
        ssh_port=-place if "ssh_port" in wrong else host.ssh_port,
    )


def _shared(
    defaults: Mapping[str, Any], groups: Mapping[str, Mapping[str, Any]], single: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The values of `[defaults]` and, over them, of the groups of a host's tags in the file's order."""
    tags = _over(defaults, single).get("tags")
    found = defaults
    for name, table in groups.items():
        if isinstance(tags, list) and name in tags:
            power = {"power": inherited(found.get("power"), table["power"])} if "power" in table else {}
            found = _over(found, table) | power
    return found


def _over(defaults: Mapping[str, Any], table: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with what it leaves out from `defaults`, tables within it likewise; tags add up."""
    merged = dict(defaults)
    for key, value in table.items():
        below = defaults.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            merged[key] = _over(below, value)
        elif key == "tags" and isinstance(value, list) and isinstance(below, list):
            merged[key] = [*below, *value]
        else:
            merged[key] = value
    return merged


def _host(table: HostTable, folder: Path, power: PowerEntry) -> Host:
    return Host(
        name=table.name,
        address=table.address,
        ssh_user=table.ssh_user,
        ssh_port=table.ssh_port,
        ssh_key=folder / Path(table.ssh_key).expanduser() if table.ssh_key else None,
        slot=table.slot,
        meter=_meter(table.meter, table.name),
        interface=table.interface,
        tags=tuple(dict.fromkeys(table.tags)),
        card=_card(table.card, folder),
        power=power,
    )


def _card(table: CardTable, folder: Path) -> CardEntry:
    file = table.passphrase_file
    values = table.model_dump() | {"passphrase_file": folder / Path(file).expanduser() if file else None}
    return CardEntry(**values)


def _meter(table: MeterTable, board: str) -> MeterEntry:
    known_by_serial = (
        table.serial
        and not table.emulated
        and table.host != CONTROLLER_READER
        and table.driver not in (NO_METER, HWMON)
    )
    link = NEIGHBOUR_LINK.format(board) if table.host else METER_LINK
    port = table.port or table.i2c.partition("@")[2] or (link if known_by_serial else "")
    return MeterEntry(
        driver=table.driver,
        port=port,
        serial=table.serial,
        gain=table.gain,
        offset_watts=table.offset_watts,
        wifi_hop=table.wifi_hop,
        emulated=table.emulated,
        reopen_allowed=table.reopen_allowed,
        site=table.site,
        host=table.host,
        i2c=table.i2c,
        shunt_uohm=table.shunt_uohm,
        update_ms=table.update_ms,
    )


def _influx(table: InfluxTable | None, folder: Path) -> InfluxSettings | None:
    if table is None:
        return None
    token = str(folder / Path(table.token_file).expanduser()) if table.token_file else ""
    return InfluxSettings(
        url=table.url, bucket=table.bucket, org=table.org, api=table.api, token_file=token, token_env=""
    )
