"""`power` tables of a bench description: which switch, with which keys, or every mistake at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches import bench_of
from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.provision.bench import PowerEntry
from roambench.provision.inventory.load import load_bench
from roambench.provision.inventory.replacements import Replacement, standing_in
from roambench.provision.power.described import outlet_of
from roambench.provision.power.table import SWITCHES

_TOP = '[controller]\naddress = "10.36.0.1"\n[defaults]\nmeter.driver = "none"\n'


def _hosts(*tables: str) -> str:
    return "".join(
        f'[[hosts]]\nname = "pi-{number}"\naddress = "10.36.0.{number}"\n{table}\n'
        for number, table in enumerate(tables, start=1)
    )


def _problems(folder: Path, text: str) -> list[str]:
    path = folder / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_bench(path)
    return list(without_lines(raised.value.problems))


def test_a_host_without_a_table_has_its_meter(tmp_path: Path) -> None:
    (host,) = bench_of(tmp_path, _hosts(""), more=_TOP).hosts
    assert host.power == PowerEntry("meter", None)
    assert outlet_of(host) == ""


def test_every_switch_has_its_own_keys(tmp_path: Path) -> None:
    hosts = bench_of(
        tmp_path,
        _hosts(
            'power = {switch = "tasmota", address = "10.0.0.5", channel = 2, password_file = "secrets/plug"}',
            'power = {switch = "shelly", address = "[fd00::5]:8080"}',
            'power = {switch = "poe", address = "10.0.0.2", port = 7, community_file = "~/poe"}',
            'power = {switch = "uhubctl", location = "1-1", port = 2, host = "pi@gate"}',
            'power = {switch = "command", on = "pdu 3 on", off = "pdu 3 off", state = "pdu 3"}',
            'power = {on = "x10 on", off = "x10 off"}',
            'power = {switch = "meter"}',
        ),
        more=_TOP,
    ).hosts
    assert [outlet_of(host) for host in hosts] == [
        "tasmota 10.0.0.5 channel 2",
        "shelly [fd00::5]:8080 channel 0",
        "poe 10.0.0.2 group 1 port 7",
        "uhubctl pi@gate hub 1-1 port 2",
        "command pdu 3 off",
        "command x10 off",
        "",
    ]
    assert hosts[0].power.keys.password_file == str(tmp_path / "secrets/plug")
    assert hosts[2].power.keys.community_file == str(Path("~/poe").expanduser())


def test_ranges_count_the_ports_and_host_names_fill_the_texts(tmp_path: Path) -> None:
    hosts = bench_of(
        tmp_path,
        '[[hosts]]\nname = "pi-[08:10]"\naddress = "10.36.0.[8:10]"\npower.port = "[1:3]"\n'
        '[[hosts]]\nname = "pi-[11:12]"\naddress = "10.36.0.[11:12]"\n'
        'power = {on = "outlet {host} on {address}", off = "outlet {host} off"}\n',
        more=_TOP + 'power = {switch = "poe", address = "10.0.0.2", community_file = "c"}\n',
    ).hosts
    assert [host.power.keys.port for host in hosts[:3]] == [1, 2, 3]
    assert hosts[4].power.keys.on == "outlet pi-12 on 10.36.0.12"
    # A spare that plays pi-11 is still switched where the spare is.
    (played, *_) = standing_in(hosts[3:], {"pi-11": Replacement("pi-12", "machine")})
    assert (played.name, played.power.keys.off) == ("pi-11", "outlet pi-12 off")


def test_all_mistakes_are_told_at_once_with_table_and_key(tmp_path: Path) -> None:
    found = _problems(
        tmp_path,
        _TOP
        + _hosts(
            'power = {switch = "tasmotta", address = "10.0.0.5"}',
            'power = {switch = "tasmota", adress = "10.0.0.5", channel = 0}',
            'power = {switch = "poe", address = "-o", port = "7"}',
            'power = {switch = "uhubctl", location = "1-1; reboot", port = 2, host = "-oProxyCommand=x"}',
            'power = {on = "x", timeout_s = 999}',
            "power = {}",
            'power = "on"',
            "power = {switch = 3}",
        ),
    )
    assert found == [
        'mine.toml: hosts[1].power.switch: expected a name of `roambench list switches`, got "tasmotta", '
        "did you mean tasmota?",
        "mine.toml: hosts[2].power.address: is missing, expected HOST or HOST:PORT; an IPv6 address in "
        "brackets",
        "mine.toml: hosts[2].power.channel: expected an integer ≥ 1 and ≤ 32, got 0",
        "mine.toml: hosts[2].power.adress: unknown key, did you mean address?",
        "mine.toml: hosts[3].power.address: expected HOST or HOST:PORT; an IPv6 address in brackets, "
        'got "-o"',
        'mine.toml: hosts[3].power.port: expected an integer ≥ 1 and ≤ 65535, got "7"',
        "mine.toml: hosts[3].power.community_file: is missing, expected a path; of ~NAME, NAME has to have a "
        "home on this machine",
        'mine.toml: hosts[4].power.location: expected a hub\'s place as uhubctl lists it, such as "1-1", '
        'got "1-1; reboot"',
        'mine.toml: hosts[4].power.host: expected a machine as ssh takes it, got "-oProxyCommand=x"',
        "mine.toml: hosts[5].power.off: is missing, expected a text, at least 1",
        "mine.toml: hosts[5].power.timeout_s: expected a number > 0.0 and ≤ 120.0, got 999",
        "mine.toml: hosts[6].power.switch: is missing, expected a name of `roambench list switches`, or on "
        "and off, which are commands",
        'mine.toml: hosts[7].power: expected a table, got "on"',
        "mine.toml: hosts[8].power.switch: expected a name of `roambench list switches`, got 3",
    ]


def test_a_mistake_of_the_defaults_is_told_once_and_there(tmp_path: Path) -> None:
    wrong = 'power = {switch = "tasmota", address = 5, chanel = 1}\n'
    assert _problems(tmp_path, _TOP + wrong + _hosts("power.channel = 1", "power.channel = 2")) == [
        "mine.toml: defaults.power.address: expected HOST or HOST:PORT; an IPv6 address in brackets, got 5",
        "mine.toml: defaults.power.chanel: unknown key, did you mean channel?",
    ]
    wrong = 'power = {switch = "hue", address = "10.0.0.5"}\n'
    (line,) = _problems(tmp_path, _TOP + wrong + _hosts("power.channel = 1", ""))
    assert line.startswith("mine.toml: defaults.power.switch: expected a name of")


def test_what_the_defaults_leave_open_every_host_has_to_say(tmp_path: Path) -> None:
    below = 'power = {switch = "tasmota", channel = 1}\n'
    (line,) = _problems(tmp_path, _TOP + below + _hosts('power.address = "10.0.0.5"', ""))
    assert line.startswith("mine.toml: hosts[2].power.address: is missing")


def test_a_host_with_another_switch_inherits_no_key(tmp_path: Path) -> None:
    below = 'power = {switch = "tasmota", address = "10.0.0.5"}\n'
    hosts = bench_of(
        tmp_path,
        _hosts("", 'power = {on = "a", off = "b"}', 'power = {switch = "meter"}'),
        more=_TOP + below,
    ).hosts
    assert [host.power.switch for host in hosts] == ["tasmota", "command", "meter"]


@pytest.mark.parametrize(
    ("power", "outlet"),
    [
        ('switch = "tasmota", address = "10.0.0.5", channel = 2', "tasmota 10.0.0.5 channel 2"),
        (
            'switch = "poe", address = "10.0.0.2", port = 7, community_file = "c"',
            "poe 10.0.0.2 group 1 port 7",
        ),
        ('switch = "uhubctl", location = "1-1", port = 2', "uhubctl hub 1-1 port 2"),
        ('on = "pdu on", off = "pdu off"', "command pdu off"),
    ],
)
def test_two_hosts_may_not_share_an_outlet(tmp_path: Path, power: str, outlet: str) -> None:
    assert _problems(tmp_path, _TOP + _hosts(f"power = {{{power}}}", "", f"power = {{{power}}}")) == [
        f"mine.toml: hosts: power: expected one host with {outlet!r}, got 2: pi-1 (slot 1), pi-3 (slot 3)"
    ]


def test_a_host_that_is_wrong_elsewhere_is_told_with_its_power(tmp_path: Path) -> None:
    found = _problems(tmp_path, _TOP + _hosts('interface = ""\npower = {switch = "poe"}'))
    assert [line.split(": ")[1] for line in found] == [
        "hosts[1].interface",
        "hosts[1].power.address",
        "hosts[1].power.port",
        "hosts[1].power.community_file",
    ]


def test_the_rows_say_what_they_are() -> None:
    for name in SWITCHES.names():
        row = SWITCHES.load(name)
        assert row.summary
        assert all(field.description for field in row.keys.model_fields.values()), name
