"""Addresses and what else two hosts of a bench may not share."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benches import bench_of
from roambench.provision.inventory.load import load_bench

from .test_inventory import problems_of


def test_an_ipv6_address_may_stand_in_brackets_and_name_its_interface(tmp_path: Path) -> None:
    addresses = [
        "[2001:db8::1]",
        "fd78::2",
        "::ffff:10.0.0.1",
        "fe80::1%eth0",
        "[fe80::2%eth0]",
        "[1:2:3:4:5:6:7:8]",
    ]
    hosts = "".join(
        f'[[hosts]]\nname = "h{number}"\naddress = "{address}"\nmeter.driver = "none"\n'
        for number, address in enumerate(addresses)
    )
    path = tmp_path / "mine.toml"
    path.write_text(f'[controller]\naddress = "[fd78::1]"\n{hosts}')
    bench = load_bench(path)
    assert [host.address for host in bench.hosts] == [address.strip("[]") for address in addresses]
    assert (bench.controller.address, bench.time_server) == ("fd78::1", "fd78::1")


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("fd78::1", "FD78:0::1", "fd78::1"),
        ("[fd78::1]", "fd78:0:0:0::1", "fd78::1"),
        ("10.0.0.5", "::ffff:10.0.0.5", "10.0.0.5"),
        ("fe80::1%eth0", "fe80:0::1%eth0", "fe80::1%eth0"),
        ("pi.lab", "PI.lab", "pi.lab"),
    ],
)
def test_an_address_in_another_spelling_is_the_same(
    first: str, second: str, said: str, tmp_path: Path
) -> None:
    hosts = "".join(
        f'[[hosts]]\nname = "{name}"\naddress = "{address}"\nmeter.driver = "none"\n'
        for name, address in (("a", first), ("b", second))
    )
    (problem,) = problems_of(tmp_path, f'[controller]\naddress = "10.0.0.1"\n{hosts}')
    assert problem == (
        f"mine.toml: hosts: address: expected one host with '{said} port 22', got 2: a (slot 1), b (slot 2)"
    )
    hops = hosts
    for number, hop in enumerate(("[fd78::9]:81", "[FD78:0::9]:81")):
        meter = f'meter = {{ port = "/dev/x", wifi_hop = "{hop}" }}'
        address = (first, second)[number]
        hops = hops.replace(f'"{address}"\nmeter.driver = "none"', f'"10.0.0.{number}"\n{meter}')
    (problem,) = problems_of(tmp_path, f'[controller]\naddress = "10.0.0.1"\n{hops}')
    assert "meter.wifi_hop: expected one host with '[fd78::9]:81', got 2" in problem


def test_an_address_that_no_machine_can_be_reached_by_is_a_mistake_of_the_file(tmp_path: Path) -> None:
    host = '[[hosts]]\nname = "a"\naddress = "{}"\nmeter.driver = "none"\n'
    link = "expected an interface with an address of one link, as fe80::1%eth0, got 'fe80::1'"
    for text, problem in (
        (f'[controller]\naddress = "10.0.0.1"\n{host.format("fe80::1")}', f"hosts: a: address: {link}"),
        (f'[controller]\naddress = "fe80::1"\n{host.format("10.0.0.2")}', f"controller.address: {link}"),
    ):
        assert problems_of(tmp_path, text) == [f"mine.toml: {problem}"]
    label = "a" * 64
    (problem,) = problems_of(tmp_path, f'[controller]\naddress = "10.0.0.1"\n{host.format(f"{label}.lab")}')
    assert problem.startswith("mine.toml: hosts: a: address: expected at most 63 letters between two dots")


@pytest.mark.parametrize("host", ["", "not an address", "[::"])
def test_where_the_controller_listens_is_an_address(host: str, tmp_path: Path) -> None:
    text = f'[controller]\naddress = "10.0.0.1"\nlisten_host = "{host}"\n'
    said = f'mine.toml: controller.listen_host: expected an IP address or a host name, got "{host}"'
    host_table = '[[hosts]]\nname = "a"\naddress = "10.0.0.2"\nmeter.driver = "none"\n'
    assert problems_of(tmp_path, text + host_table) == [said]
    for good in ("[::]", "::", "::1", "0.0.0.0", "server.lab"):
        bench_of(tmp_path, host_table, more=text.replace(f'"{host}"', f'"{good}"'))


def test_what_two_hosts_share_is_a_mistake_that_names_both(tmp_path: Path) -> None:
    problems = problems_of(
        tmp_path,
        """
        [controller]
        address = "10.36.0.1"
        [[hosts]]
        name = "a"
        address = "10.0.0.1"
        meter = {driver = "smartpower2-telnet", port = "10.1.0.1:23", serial = "S1", wifi_hop = "10.2.0.1"}
        [[hosts]]
        name = "a"
        slot = 1
        address = "10.0.0.1"
        meter = {driver = "smartpower2-telnet", port = "10.1.0.1:23", serial = "S1", wifi_hop = "10.2.0.1"}
        """,
    )
    both = "got 2: a (slot 1), a (slot 1)"
    assert problems == [
        f"mine.toml: hosts: name: expected one host with 'a', {both}",
        f"mine.toml: hosts: slot: expected one host with '1', {both}",
        f"mine.toml: hosts: address: expected one host with '10.0.0.1 port 22', {both}",
        f"mine.toml: hosts: meter.serial: expected one host with 'S1', {both}",
        f"mine.toml: hosts: meter.port: expected one host with '10.1.0.1:23', {both}",
        f"mine.toml: hosts: meter.wifi_hop: expected one host with '10.2.0.1', {both}",
    ]


def test_a_file_of_its_own_and_its_own_loopback_may_be_called_alike_on_every_host(tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path,
        """
        [[hosts]]
        name = "a-[1:2]"
        address = "10.0.0.[1:2]"
        meter.port = "/dev/ttyUSB0"
        [[hosts]]
        name = "b-[1:2]"
        address = "10.0.1.[1:2]"
        meter = {driver = "smartpower2-telnet", port = "127.0.0.1:2323", emulated = true}
        """,
    )
    assert len(bench.hosts) == 4


def test_a_meter_hangs_on_another_host_of_the_bench_and_on_no_port_twice(tmp_path: Path) -> None:
    hosts = """
        [controller]
        address = "10.36.0.1"
        [[hosts]]
        name = "pi-1"
        address = "10.36.1.1"
        meter = { port = "/dev/ttyUSB0", host = "pi-2" }
        [[hosts]]
        name = "pi-2"
        address = "10.36.1.2"
        meter = { port = "/dev/ttyUSB0?serial=A" }
        [[hosts]]
        name = "pi-3"
        address = "10.36.1.3"
        meter = { port = "/dev/ttyUSB0", host = "pi-3" }
        [[hosts]]
        name = "pi-4"
        address = "10.36.1.4"
        meter = { port = "/dev/ttyUSB1", host = "pi_2" }
        [[hosts]]
        name = "pi-5"
        address = "10.36.1.5"
        meter = { port = "/dev/ttyUSB1", host = "pi-22" }
    """
    name = "hosts[4].meter.host: expected a name of small letters"
    refused = problems_of(tmp_path, hosts)
    assert any(name in line for line in refused), refused
    assert [line for line in refused if name not in line] == [
        "mine.toml: hosts: pi-3: meter.host: expected 'controller' or another host of the bench, got 'pi-3'",
        "mine.toml: hosts: pi-5: meter.host: expected 'controller' or another host of the bench, got 'pi-22'"
        ", did you mean pi-2?",
        "mine.toml: hosts: meter.port: expected one host with '/dev/ttyUSB0 of pi-2', got 2: "
        "pi-1 (slot 1), pi-2 (slot 2)",
    ]
    two = hosts[: hosts.index('[[hosts]]\n        name = "pi-3')].replace(
        'port = "/dev/ttyUSB0",', 'serial = "B",'
    )
    bench = bench_of(tmp_path, "", more=two)
    first, second = bench.hosts
    assert first.meter.settings.port == "/dev/roambench-meter-pi-1?serial=B&reader=pi-2"
    assert (bench.read_by(second), bench.read_by(first)) == ((first,), ())
    bare = replace(first, meter=replace(first.meter, driver="none"))
    assert bare.reader == "pi-1"  # a host without a meter has no reader


@pytest.mark.parametrize("user", ["john.doe", "Ann", "_lab-1"])
def test_users_may_be_called_as_directories_of_a_company_call_them(tmp_path: Path, user: str) -> None:
    (host,) = bench_of(
        tmp_path, f'[[hosts]]\nname = "a"\naddress = "10.0.0.1"\nmeter.driver = "none"\nssh_user = "{user}"'
    ).hosts
    assert host.ssh_user == user


def test_a_wrong_range_invents_no_mistake_of_those_who_name_its_hosts(tmp_path: Path) -> None:
    hosts = """
        [controller]
        address = "10.36.1.9"
        [groups.reading]
        interface = "eth0"
        [[hosts]]
        name = "pi-1"
        address = "10.36.1.1"
        meter = { port = "/dev/ttyUSB0", host = "pi-2" }
        [[hosts]]
        name = "pi-[2:3]"
        address = "10.36.1.[2:4]"
        tags = ["reading"]
        meter = { driver = "none" }
    """
    (refused,) = problems_of(tmp_path, hosts)
    assert refused.startswith(
        "mine.toml: hosts[2].name: expected as many as the entry's other ranges have (3)"
    )
