"""A bench description becomes a Bench, or all its mistakes at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from benches import bench_of
from problem_lines import without_lines
from roambench.cli.main import app
from roambench.contract.errors import ConfigError
from roambench.provision.bench import METER_LINK
from roambench.provision.inventory.load import load_bench

_REPOSITORY = Path(__file__).parents[3]


def problems_of(folder: Path, text: str) -> list[str]:
    path = folder / "mine.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_bench(path)
    return list(without_lines(raised.value.problems))


def test_ranges_advance_together_and_keep_their_width(tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path,
        """
        [[hosts]]
        name = "pi-[08:11]"
        address = "10.36.[1:4].[250:253]"
        ssh_port = "[2201:2204]"
        meter.serial = ["A", "B", "C", "D"]
        meter.gain = [1.0, 1.01, 1.02, 1.03]
        tags = ["row-[1:4]", "x"]
        """.replace('"row-[1:4]", "x"', '"x"'),
    )
    assert [host.name for host in bench.hosts] == ["pi-08", "pi-09", "pi-10", "pi-11"]
    assert [host.address for host in bench.hosts] == [
        "10.36.1.250",
        "10.36.2.251",
        "10.36.3.252",
        "10.36.4.253",
    ]
    assert [host.ssh_port for host in bench.hosts] == [2201, 2202, 2203, 2204]
    assert [host.slot for host in bench.hosts] == [1, 2, 3, 4]
    assert [(host.meter.serial, host.meter.gain) for host in bench.hosts] == [
        ("A", 1.0),
        ("B", 1.01),
        ("C", 1.02),
        ("D", 1.03),
    ]
    assert {host.meter.port for host in bench.hosts} == {METER_LINK}


def test_what_only_the_benchs_own_commands_may_read(tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path,
        """
        [defaults]
        ssh_key = "keys/bench"
        [influxdb]
        url = "https://10.36.0.1:8086"
        bucket = "bench"
        token_file = "influx.token"
        [[hosts]]
        name = "pi-[1:2]"
        address = "10.36.1.[1:2]"
        meter.serial = ["A", "B"]
        power = { switch = "shelly", address = "10.36.2.[1:2]", password_file = "plug" }
        """,
    )
    files = ("influx.token", "keys/bench", "plug")
    assert bench.secrets == (bench.state_dir, *(tmp_path / file for file in files))


def test_a_meter_of_the_controller_is_read_for_one_board_and_says_so_in_one_place(tmp_path: Path) -> None:
    hosts = """
        [controller]
        address = "10.36.0.1"
        [[hosts]]
        name = "pi-[1:2]"
        address = "10.36.1.[1:2]"
        meter = { port = "/dev/ttyUSB0", host = "controller" }
        [[hosts]]
        name = "pi-3"
        address = "10.36.1.3"
        meter = { driver = "hwmon", i2c = "ina226@1-0040", host = "controller" }
        [[hosts]]
        name = "pi-4"
        address = "10.36.1.4"
        meter.port = "/dev/ttyUSB0?reader=controller"
        [[hosts]]
        name = "pi-5"
        address = "10.36.1.5"
        meter = { serial = "SN5", host = "controller" }
        [[hosts]]
        name = "pi-6"
        address = "10.36.1.6"
        meter = { driver = "hwmon", i2c = "ina219@1-0040", update_ms = 35 }
    """
    assert problems_of(tmp_path, hosts) == [
        "mine.toml: hosts: pi-3: meter.i2c: expected none with a meter.host (its kernel is not set), "
        "got 'ina226@1-0040'",
        "mine.toml: hosts: pi-4: meter.port: expected none with reader=, as meter.host says who reads it, "
        "got '/dev/ttyUSB0?reader=controller'",
        "mine.toml: hosts: pi-5: meter: expected a port, or a serial, or the driver 'none'",
        "mine.toml: hosts: pi-6: meter.update_ms: expected none, as an ina219 averages nothing, got 35",
        "mine.toml: hosts: meter.port: expected one host with '/dev/ttyUSB0 of the controller', got 2: "
        "pi-1 (slot 1), pi-2 (slot 2)",
    ]
    two = hosts[: hosts.index('[[hosts]]\n        name = "pi-4')].replace(
        'i2c = "ina226@1-0040"', 'port = "1-0040"'
    )
    bench = bench_of(tmp_path, "", more=two.replace("pi-[1:2]", "pi-1").replace("[1:2]", "1"))
    assert [host.meter.settings.port for host in bench.hosts] == [
        "/dev/ttyUSB0?reader=controller",
        "1-0040?reader=controller",
    ]


def test_a_host_overrides_the_defaults_key_by_key_and_adds_tags(tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path,
        """
        [defaults]
        ssh_user = "bench"
        ssh_key = "keys/bench"
        tags = ["3b+"]
        [defaults.meter]
        driver = "smartpower2-telnet"
        gain = 1.5
        [[hosts]]
        name = "a"
        address = "10.0.0.1"
        meter.port = "10.1.0.1:23"
        [[hosts]]
        name = "b"
        address = "b.lan"
        ssh_user = "root"
        slot = 7
        tags = ["spare", "3b+"]
        [hosts.meter]
        port = "10.1.0.2:23"
        gain = 1.25
        """,
    )
    first, second = bench.hosts
    assert (first.ssh_user, second.ssh_user) == ("bench", "root")
    assert first.ssh_key == tmp_path / "keys/bench"
    assert (first.slot, second.slot) == (1, 7)
    assert (first.tags, second.tags) == (("3b+",), ("3b+", "spare"))
    assert (first.meter.gain, second.meter.gain) == (1.5, 1.25)
    assert second.meter.driver == "smartpower2-telnet"


def test_the_bench_takes_its_name_state_and_time_from_file_and_controller(tmp_path: Path) -> None:
    hosts = '[[hosts]]\nname = "a"\naddress = "10.0.0.1"\nmeter.driver = "none"'
    bench = bench_of(tmp_path, hosts)
    assert (bench.name, bench.state_dir, bench.time_server) == ("bench", tmp_path / ".bench", "10.36.0.1")
    assert (bench.controller.control_port, bench.controller.data_port) == (21710, 21711)
    more = (
        'name = "other"\nstate_dir = "/var/bench"\ntime_server = "ntp.lan"\n[controller]\naddress = "c.lan"\n'
    )
    bench = bench_of(tmp_path, hosts, more=more)
    assert (bench.name, bench.state_dir, bench.time_server) == ("other", Path("/var/bench"), "ntp.lan")


def test_a_bench_by_relative_path_has_an_absolute_state_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent's wheel is built by a program that runs in another folder."""
    bench_of(tmp_path, '[[hosts]]\nname = "pi-01"\naddress = "10.0.0.2"\nmeter.serial = "A"\n')
    (file,) = tmp_path.glob("*.toml")
    monkeypatch.chdir(tmp_path)
    assert load_bench(Path(file.name)).state_dir == load_bench(file).state_dir
    assert load_bench(Path(file.name)).state_dir.is_absolute()


def test_all_mistakes_are_told_at_once_with_table_and_key(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        """
        nmae = "x"
        [controller]
        control_port = 70000
        [influxdb]
        url = "http://localhost:8086"
        bucket = "b"
        [defaults]
        ssh_prot = 22
        [[hosts]]
        name = "Pi 1"
        address = "10.0.0.1"
        meter.driver = "none"
        [[hosts]]
        name = "pi-[01:02]"
        address = "10.0.0.[1:3]"
        [[hosts]]
        name = "pi-[03:02]"
        address = "10.0.0.9"
        [[hosts]]
        name = "pi-[04:06]"
        address = "10.0.0.[4:6]"
        meter.gain = -1.0
        [[hosts]]
        name = "pi-[07:09]"
        address = "10.0.0.[7:9]"
        meter.serial = ["only one"]
        """,
    )
    assert problems == [
        "mine.toml: nmae: unknown key, did you mean name?",
        "mine.toml: controller.address: is missing, expected an IP address or a host name",
        "mine.toml: controller.control_port: expected an integer ≥ 1 and ≤ 65535, got 70000",
        "mine.toml: defaults.ssh_prot: unknown key, did you mean ssh_port?",
        "mine.toml: hosts[1].name: expected a name of small letters, digits, '-' and '.', at most 64, "
        'got "Pi 1"',
        "mine.toml: hosts[2].name: expected as many as the entry's other ranges have (3), got 2",
        "mine.toml: hosts[3].name: expected a range like [01:36], upwards, got 'pi-[03:02]'",
        "mine.toml: hosts[4].meter.gain: expected a number > 0.0, got -1.0",
        "mine.toml: hosts[5].meter.serial: expected one value for each of 3 hosts, got 1",
    ]


_RACK = """
[controller]
address = "10.36.0.1"
[[hosts]]
name = "a"
address = "10.0.0.11"
meter.serial = "S1"
[[hosts]]
name = "b"
address = "10.0.0.11"
ssh_port = 2223
meter.serial = "S2"
"""


@pytest.mark.parametrize(
    ("defaults", "mistakes"),
    [
        (
            'ssh_usr = "ann"\nssh_port = 2222\nmeter.driver = "smartpowr2"',
            [
                "defaults.ssh_usr: unknown key, did you mean ssh_user?",
                "hosts: a: meter.driver: expected 'none' or a name of `roambench meter list`, "
                "got 'smartpowr2', did you mean smartpower2?",
                "hosts: b: meter.driver: expected 'none' or a name of `roambench meter list`, "
                "got 'smartpowr2', did you mean smartpower2?",
            ],
        ),
        (
            'ssh_port = "2222"\nmeter.gain = -1.0\nmeter.drivr = "none"\ntags = ["x", 3]',
            [
                'defaults.ssh_port: expected an integer ≥ 1 and ≤ 65535, got "2222"',
                "defaults.meter.gain: expected a number > 0.0, got -1.0",
                "defaults.meter.drivr: unknown key, did you mean driver?",
                "defaults.tags: expected a list of texts, got 3",
            ],
        ),
        ("metre.gain = 1.1", ["defaults.metre: unknown key, did you mean meter?"]),
        ("meter = 3", ["defaults.meter: expected a table, got 3"]),
    ],
)
def test_a_wrong_key_in_the_defaults_hides_and_invents_no_other_mistake(
    tmp_path: Path, defaults: str, mistakes: list[str]
) -> None:
    found = problems_of(tmp_path, f"[defaults]\n{defaults}\n{_RACK}")
    assert found == [f"mine.toml: {mistake}" for mistake in mistakes]


def test_a_wrong_default_of_the_meters_calls_no_meter_incomplete(tmp_path: Path) -> None:
    rack = _RACK.replace('meter.serial = "S1"\n', "").replace('"S2"', '"S1"\nmeter.wifi_hop = "gate:x"')
    found = problems_of(tmp_path, f"[defaults]\nmeter.driver = 3\nmeter.sreial = 7\n{rack}")
    assert [line.removeprefix("mine.toml: ").partition(": expected")[0] for line in found] == [
        "defaults.meter.driver",
        "defaults.meter.sreial: unknown key, did you mean serial?",
        "hosts: b: meter.wifi_hop",
    ]


def test_a_wrong_key_of_a_host_hides_and_invents_no_other_mistake(tmp_path: Path) -> None:
    address = "address: expected an IP address or a host name"
    rack = _RACK.replace('"a"', '"PI-01"\nslot = 0\ncard.gateway = "10.0.0.1"\ncard.subnet = "10/8/8"')
    rack = rack.replace('"S1"', '"S2"\nmeter.driver = "smartpower"')
    rack += '[[hosts]]\naddress = "?"\nmeter.host = "b"\nmeter.sreial = "S3"\ncard.subnet = "10.0.0.0/8"\n'
    for serial in ("S4", "S5"):
        rack += f'[[hosts]]\naddress = "?"\nmeter.host = "b"\nmeter.serial = "{serial}"\n'
    assert [line.partition("mine.toml: ")[2].partition(", ")[0] for line in problems_of(tmp_path, rack)] == [
        "hosts[1].name: expected a name of small letters",
        "hosts[1].slot: expected an integer ≥ 1",
        "hosts[1].card.subnet: expected a network as 192.168.50.0/24 or fd78::/64",
        "hosts[3].name: is missing",
        f"hosts[3].{address}",
        "hosts[3].meter.sreial: unknown key",
        *(f"hosts[{n}].{what}" for n in (4, 5) for what in ("name: is missing", address)),
        "hosts: PI-01: meter.driver: expected 'none' or a name of `roambench meter list`",
        "hosts: meter.serial: expected one host with 'S2'",
    ]


def test_no_host_has_a_name_of_the_controller(tmp_path: Path) -> None:
    for name in ("controller", "roambench-controller"):
        assert problems_of(tmp_path, _RACK.replace('"b"', f'"{name}"')) == [
            f"mine.toml: hosts: {name}: name: expected another than the controller's own"
        ]


def test_a_wrong_key_beside_the_controller_hides_no_other_mistake(tmp_path: Path) -> None:
    rack = _RACK.replace("[[hosts]]", "control_port = 21711\n[[hosts]]", 1)
    assert problems_of(tmp_path, f'nmae = "x"\n{rack}') == [
        "mine.toml: nmae: unknown key, did you mean name?",
        "mine.toml: controller.data_port: expected another than control_port, got 21711",
    ]


def test_a_meter_is_checked_by_its_driver(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        """
        [controller]
        address = "10.36.0.1"
        [influxdb]
        url = "http://127.0.0.1:8086"
        bucket = "b"
        [[hosts]]
        name = "a"
        address = "10.0.0.1"
        [[hosts]]
        name = "b"
        address = "10.0.0.2"
        meter = {driver = "smartpowr2", port = "/dev/ttyUSB0"}
        [[hosts]]
        name = "c"
        address = "10.0.0.3"
        meter = {port = "/dev/ttyUSB0?colour=red", wifi_hop = "gateway:x"}
        [[hosts]]
        name = "d"
        address = "10.0.0.4"
        meter = {driver = "none", port = "/dev/ttyUSB0"}
        """,
    )
    assert [problem.partition("mine.toml: ")[2].split(": ")[:3] for problem in problems] == [
        ["influxdb.url", "expected an address that the hosts can reach, not their own loopback"],
        ["hosts", "a", "meter"],
        ["hosts", "b", "meter.driver"],
        ["hosts", "c", "meter.wifi_hop"],
        ["hosts", "c", "meter.port"],
        ["hosts", "d", "meter.port"],
    ]
    assert "did you mean smartpower2?" in problems[2]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "mine.toml: hosts: expected tables [[hosts]], at least one, got []"),
        ('hosts = "all"', 'mine.toml: hosts: expected tables [[hosts]], at least one, got "all"'),
        ("defaults = 3", "mine.toml: defaults: expected a table, got 3"),
        (
            'state_dir = "~nobody-here/x"',
            "mine.toml: state_dir: expected a path; of ~NAME, NAME has to have a home on this machine, got "
            '"~nobody-here/x"',
        ),
        (
            '[defaults]\nssh_key = "~nobody-here/x"',
            "mine.toml: defaults.ssh_key: expected a path; of ~NAME, NAME has to have a home on this machine"
            ', got "~nobody-here/x"',
        ),
        (
            'time_server = "10.0.0.1\\nallow all"',
            'mine.toml: time_server: expected an IP address or a host name, got "10.0.0.1\\nallow all"',
        ),
        (
            '[controller]\naddress = "10.0.0.1"\ncontrol_port = 5\ndata_port = 5',
            "mine.toml: controller.data_port: expected another than control_port, got 5",
        ),
        (
            "x = [",
            'mine.toml: not TOML: line 1, column 6: expected a value: "a text", a number, true, false, '
            "a date, [a list] or {a table}, got x = [",
        ),
    ],
)
def test_a_file_of_another_form_is_a_mistake_too(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in problems_of(tmp_path, text)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot be read: No such file"):
        load_bench(tmp_path / "nowhere.toml")


def test_only_takes_names_and_tags_in_the_order_of_the_file(tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path,
        """
        [defaults]
        meter.driver = "none"
        [[hosts]]
        name = "pi-[1:4]"
        address = "10.0.0.[1:4]"
        [[hosts]]
        name = "spare"
        address = "10.0.0.5"
        tags = ["cold"]
        """,
    )
    names = [host.name for host in bench.only(["cold", "pi-3", "pi-1"])]
    assert names == ["pi-1", "pi-3", "spare"]
    assert [host.name for host in bench.only([], 2)] == ["pi-1", "pi-2"]
    for words, chosen in (
        (["pi-1,spare", "pi-2"], "pi-1 pi-2 spare"),
        (["pi-*,!pi-[23]"], "pi-1 pi-4"),
        (["!cold, !pi-1"], "pi-2 pi-3 pi-4"),
        (["co?d", "!pi-*"], "spare"),
    ):
        assert " ".join(host.name for host in bench.only(words)) == chosen
    with pytest.raises(ConfigError) as error:
        bench.only(["pi-1,pi-9", "!x*", ""])
    named = [line.partition(":")[0] for line in error.value.problems]
    assert named == ["--only pi-9", "--only ", "--only x*"]
    assert "is called so, did you mean pi-" in error.value.problems[0]
    with pytest.raises(ConfigError, match=r"--only pi-1,!pi-\*: leaves no host of bench\.toml"):
        bench.only(["pi-1", "!pi-*"])


def test_a_group_is_what_hosts_with_its_tag_have_in_common(tmp_path: Path) -> None:
    """Between the defaults and a host's own keys; of two groups the later one in the file counts."""
    text = """
        [defaults]
        meter.driver = "none"
        ssh_user = "pi"
        [defaults.power]
        switch = "tasmota"
        address = "10.0.0.9"
        [groups.kitchen]
        ssh_port = 2022
        ssh_user = "lab"
        power.channel = 3
        [groups.cold]
        ssh_port = 2222
        [[hosts]]
        name = "a"
        address = "10.0.0.1"
        tags = ["cold", "kitchen"]
        [[hosts]]
        name = "b"
        address = "10.0.0.2"
        tags = ["kitchen"]
        ssh_user = "ann"
        power.channel = 2
        [[hosts]]
        name = "c"
        address = "10.0.0.3"
        """
    a, b, c = bench_of(tmp_path, text).hosts
    assert [(host.ssh_user, host.ssh_port) for host in (a, b, c)] == [
        ("lab", 2222),
        ("ann", 2022),
        ("pi", None),
    ]
    assert [host.power.keys.channel for host in (a, b, c)] == [3, 2, 1]
    wrong = text.replace("[groups.cold]", "[groups.attic]").replace('ssh_user = "lab"', 'ssh_usr = "lab"')
    with pytest.raises(ConfigError) as error:
        bench_of(tmp_path, wrong)
    assert list(without_lines(error.value.problems)) == [
        "bench.toml: groups.kitchen.ssh_usr: unknown key, did you mean ssh_user?",
        "bench.toml: groups.attic: expected the tag of a host, and no host has it",
    ]


def test_the_example_describes_36_boards_with_a_meter_each() -> None:
    bench = load_bench(_REPOSITORY / "inventory/bench36.example.toml")
    assert [host.name for host in bench.hosts][:36] == [f"pi-{number:02d}" for number in range(1, 37)]
    assert len({host.meter.serial for host in bench.hosts if host.meter.serial}) >= 36


def test_a_list_of_hosts_breaks_no_name_and_says_once_what_all_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    example = _REPOSITORY / "inventory/bench36.example.toml"
    printed = CliRunner().invoke(app, ["fleet", "list", str(example)]).stdout.splitlines()
    assert printed[1].split() == ["host", "address", "slot", "meter", "tags"]
    assert printed[2].split() == ["pi-01", "10.36.0.101", "1", "smartpower2", "02A1C001", "3b+"]
    assert len(printed) == 2 + 37 + 1
    assert printed[-1] == "all: login pi, interface wlan0, port /dev/roambench-meter"
