"""Boards found in lease files, in the neighbour table and by what they answer; and the draft made of them."""

from __future__ import annotations

import json
import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import zeroconf

from benches import bench_of
from roambench.cli.main import main
from roambench.contract.errors import ConfigError
from roambench.extras.discovery.asking import BoardAnswer, read_answer
from roambench.extras.discovery.boards import boards, seen_addresses
from roambench.extras.discovery.dhcp_leases import read_leases
from roambench.extras.discovery.draft import drafted
from roambench.extras.discovery.mdns import browsed
from roambench.extras.discovery.neighbours import neighbours, neighbours_of_ipv6, swept
from roambench.extras.discovery.searching import StrangerLogin, found_boards, inside, unknown_to
from roambench.extras.discovery.sighting import Sighting, sighting
from roambench.provision.inventory.load import load_bench
from ssh_server import free_port, ssh_server

#: As dnsmasq 2.90 wrote it: three clients, one of them with an infinite lease, one without a name.
_DNSMASQ = """\
1795482877 00:11:22:33:44:55 192.168.77.141 * *
0 dc:a6:32:aa:bb:cc 192.168.77.126 pi-02 *
1795482877 b8:27:eb:12:34:56 192.168.77.116 raspberrypi *
"""
#: As isc-dhcp-4.4.3-P1 wrote it; then as its manual page has further entries of an address.
_ISC = """\
# The format of this file is documented in the dhcpd.leases(5) manual page.
# This lease file was written by isc-dhcp-4.4.3-P1

# authoring-byte-order entry is generated, DO NOT DELETE
authoring-byte-order little-endian;

server-duid "\\000\\001\\000\\0012\\227\\205_\\002\\000\\000\\000\\000\\001";

lease 192.168.77.100 {
  starts 1 2026/11/23 23:14:41;
  ends 2 2026/11/24 01:14:41;
  cltt 1 2026/11/23 23:14:41;
  binding state active;
  next binding state free;
  rewind binding state free;
  hardware ethernet b8:27:eb:12:34:56;
  client-hostname "raspberrypi";
}
lease 192.168.77.102 {
  starts 1 2026/11/23 23:14:43;
  ends 2 2026/11/24 01:14:43;
  cltt 1 2026/11/23 23:14:43;
  binding state active;
  next binding state free;
  rewind binding state free;
  hardware ethernet 00:11:22:33:44:55;
}
"""
_ISC_RELEASED = """\
lease 192.168.77.102 {
  starts 1 2026/11/23 23:14:43;
  ends 1 2026/11/23 23:20:00;
  tstp 1 2026/11/23 23:20:00;
  cltt 1 2026/11/23 23:14:43;
  binding state free;
  hardware ethernet 00:11:22:33:44:55;
}
lease 192.168.77.103 {
  starts epoch 1795475684;
  ends never;
  binding state active;
  next binding state free;
  hardware ethernet dc:a6:32:aa:bb:cc;
  client-hostname "pi-02";
}
"""
#: As kea-dhcp4 2.2.0 wrote it; the last two rows as its documentation has a deleted lease, and newer columns.
_KEA = """\
address,hwaddr,client_id,valid_lifetime,expire,subnet_id,fqdn_fwd,fqdn_rev,hostname,state,user_context
192.168.77.100,b8:27:eb:12:34:56,,7200,1795482848,1,0,0,raspberrypi,0,
192.168.77.101,dc:a6:32:aa:bb:cc,,7200,1795482848,1,0,0,pi-02,0,
192.168.77.102,00:11:22:33:44:55,,7200,1795482848,1,0,0,,0,
192.168.77.100,b8:27:eb:12:34:56,,7200,1795482848,1,0,0,raspberrypi,0,
"""
_KEA_DELETED = "192.168.77.102,00:11:22:33:44:55,,0,1795482848,1,0,0,,0,\n"
_NOW_S = 1795480000.0
_LATER_S = 1795490000.0


def _leases(folder: Path, text: str, now_s: float = _NOW_S) -> set[tuple[str, str, str]]:
    path = folder / "leases"
    path.write_text(text)
    return {(one.address, one.mac, one.name) for one in read_leases(path, now_s)}


def test_leases_of_dnsmasq_are_read_and_over_when_they_are(tmp_path: Path):
    endless = ("192.168.77.126", "dc:a6:32:aa:bb:cc", "pi-02")
    assert _leases(tmp_path, _DNSMASQ) == {
        endless,
        ("192.168.77.141", "00:11:22:33:44:55", ""),
        ("192.168.77.116", "b8:27:eb:12:34:56", "raspberrypi"),
    }
    assert _leases(tmp_path, _DNSMASQ, _LATER_S) == {endless}
    ipv6 = "duid 00:01:00:01\n1795482877 1 fd00::7 pi-07 00:01\n"
    assert _leases(tmp_path, _DNSMASQ + ipv6) == _leases(tmp_path, _DNSMASQ)
    assert _leases(tmp_path, "") == set()


def test_of_isc_dhcpd_s_log_the_last_entry_of_an_address_counts(tmp_path: Path):
    first = ("192.168.77.100", "b8:27:eb:12:34:56", "raspberrypi")
    assert _leases(tmp_path, _ISC) == {first, ("192.168.77.102", "00:11:22:33:44:55", "")}
    later = _ISC + _ISC_RELEASED
    endless = ("192.168.77.103", "dc:a6:32:aa:bb:cc", "pi-02")
    assert _leases(tmp_path, later) == {first, endless}
    assert _leases(tmp_path, later, _LATER_S) == {endless}


def test_kea_s_log_is_read_by_its_head_and_the_last_row_counts(tmp_path: Path):
    named = {
        ("192.168.77.100", "b8:27:eb:12:34:56", "raspberrypi"),
        ("192.168.77.101", "dc:a6:32:aa:bb:cc", "pi-02"),
    }
    assert _leases(tmp_path, _KEA) == {*named, ("192.168.77.102", "00:11:22:33:44:55", "")}
    assert _leases(tmp_path, _KEA + _KEA_DELETED) == named
    wider = "\n".join(f"{line},0" for line in _KEA.splitlines()).replace(
        "user_context,0", "user_context,pool_id"
    )
    assert _leases(tmp_path, wider) == _leases(tmp_path, _KEA)
    assert _leases(tmp_path, _KEA, _LATER_S) == set()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("to be or not to be\n", "line 1: expected a lease of dnsmasq, ISC dhcpd or Kea, got 'to be"),
        (_DNSMASQ + "half a li\n", "line 4: expected a lease of dnsmasq"),
        (_KEA + "192.168.77.7,x\n", "line 6: expected a lease of Kea"),
    ],
)
def test_what_is_no_lease_file_is_said_with_its_line(text: str, said: str, tmp_path: Path):
    with pytest.raises(ConfigError) as raised:
        _leases(tmp_path, text)
    assert said in str(raised.value)


def test_any_bytes_are_leases_or_one_clear_error(tmp_path: Path):
    draws = random.Random(7)
    path = tmp_path / "leases"
    refused = others = 0
    for _ in range(300):
        content = bytearray(draws.choice([_DNSMASQ, _ISC + _ISC_RELEASED, _KEA]).encode())
        for _ in range(draws.randint(1, 30)):
            content[draws.randrange(len(content))] = draws.randrange(256)
        path.write_bytes(content)
        try:
            read_leases(path, _NOW_S)
        except ConfigError as error:
            refused += str(error).startswith(f"--leases {path}: line ")
            others += not str(error).startswith(f"--leases {path}: line ")
    assert 0 < refused < 300
    assert others == 0


def test_a_neighbour_is_who_has_answered(tmp_path: Path):
    table = tmp_path / "arp"
    table.write_text(
        "IP address       HW type     Flags       HW address            Mask     Device\n"
        "10.213.0.11      0x1         0x2         d2:f5:13:f4:f1:3f     *        rbh0\n"
        "10.213.0.12      0x1         0x0         00:00:00:00:00:00     *        rbh0\n"
        "192.0.2.1        0x1         0x6         02:fc:00:00:00:05     *        eth0\n"
        "half a line\n"
    )
    assert neighbours(table) == [
        Sighting("neighbour", "10.213.0.11", "d2:f5:13:f4:f1:3f", ""),
        Sighting("neighbour", "192.0.2.1", "02:fc:00:00:00:05", ""),
    ]
    assert neighbours(tmp_path / "none") == []
    assert neighbours_of_ipv6(
        "fd78::11 dev eth0 lladdr b8:27:eb:00:00:11 REACHABLE\n"
        "fd78::1 dev eth0 lladdr 02:fc:00:00:00:05 router STALE\n"
        "fd78::12 dev eth0 FAILED\nfe80::1 dev eth0 lladdr 02:fc:00:00:00:05 router STALE\nhalf a line\n\n"
    ) == [
        Sighting("neighbour", "fd78::11", "b8:27:eb:00:00:11", ""),
        Sighting("neighbour", "fd78::1", "02:fc:00:00:00:05", ""),
    ]


@pytest.mark.parametrize(
    ("subnet", "said"),
    [
        ("10.0.0.0/8", "expected a network of at most /20"),
        ("10.0.0.1/24", "expected a network as 192.168.50.0/24 or 2001:db8::/64"),
        ("2001:db8::1/64", "expected a network as 192.168.50.0/24 or 2001:db8::/64"),
        ("2001:db8::/64", "expected a network that this machine is in ("),
        ("::1/128", "expected a network that this machine is in ("),
        ("203.0.113.0/24", "expected a network that this machine is in ("),
    ],
)
def test_only_this_machine_s_own_networks_are_swept(subnet: str, said: str):
    with pytest.raises(ConfigError, match="--subnet") as raised:
        swept(subnet)
    assert said in str(raised.value)


def test_a_name_or_a_mac_that_can_be_none_is_left_out():
    assert sighting("lease", "10.0.0.1", "B8-27-EB-00-00-01", "Pi-01.lab.example") == Sighting(
        "lease", "10.0.0.1", "b8:27:eb:00:00:01", "pi-01"
    )
    assert sighting("lease", "10.0.0.1", "06-aa:bb", 'x"\n[[hosts]]') == Sighting("lease", "10.0.0.1", "", "")
    for address in ("224.0.0.251", "127.0.0.1", "0.0.0.0", "fe80::1", "255.255.255.255", "pi.lan"):
        assert sighting("lease", address) is None


_ANSWER = """\
serial-number 00000000a1b2c3d4
model Raspberry Pi 3 Model B Plus Rev 1.3
name raspberrypi
1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN mode DEFAULT group default\\    \
link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00
2: eth0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc pfifo_fast state UP mode DEFAULT\\    \
link/ether b8:27:eb:b2:c3:d4 brd ff:ff:ff:ff:ff:ff
3: wlan0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc pfifo_fast state UP mode DORMANT\\    \
link/ether b8:27:eb:e7:96:81 brd ff:ff:ff:ff:ff:ff
4: docker0: <NO-CARRIER,BROADCAST> mtu 1500 state DOWN\\    link/ether 02:42:aa:bb:cc:dd brd ff:ff:ff:ff:ff:ff
1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
2: eth0    inet 192.168.50.7/24 brd 192.168.50.255 scope global dynamic eth0\\       valid_lft 85sec
3: wlan0    inet 192.168.50.8/24 brd 192.168.50.255 scope global dynamic wlan0\\       valid_lft 85sec
"""


def test_a_board_says_who_it_is():
    told = read_answer(_ANSWER)
    assert (told.serial, told.model) == ("00000000a1b2c3d4", "Raspberry Pi 3 Model B Plus Rev 1.3")
    assert told.addresses == {"eth0": "192.168.50.7", "wlan0": "192.168.50.8"}
    assert told.macs["wlan0"] == "b8:27:eb:e7:96:81"
    assert read_answer("model \x1b[2J" + "x" * 9999).model.startswith("?[2Jxxx")
    assert len(read_answer("model " + "x" * 9999).model) == 100
    assert read_answer("2:\n3: \n4: inet\nmore\n\n") == BoardAnswer()


def test_a_board_of_two_interfaces_is_one_and_its_radio_counts():
    seen = [
        Sighting("lease", "192.168.50.7", "b8:27:eb:b2:c3:d4", "raspberrypi"),
        Sighting("mDNS", "192.168.50.7", "b8:27:eb:b2:c3:d4", "raspberrypi"),
        Sighting("neighbour", "192.168.50.8", "b8:27:eb:e7:96:81", ""),
        Sighting("neighbour", "192.168.50.9", "b8:27:eb:00:00:09", ""),
    ]
    troubles = {"192.168.50.8": "no answer", "192.168.50.9": "may not log in"}
    first, second = boards(seen_addresses(seen), {"192.168.50.7": read_answer(_ANSWER)}, troubles)
    assert (first.address, first.interface, first.serial) == ("192.168.50.8", "wlan0", "00000000a1b2c3d4")
    assert first.addresses == ("192.168.50.7", "192.168.50.8")
    assert first.macs == ("b8:27:eb:b2:c3:d4", "b8:27:eb:e7:96:81")
    assert first.seen_by == ("lease", "mDNS", "neighbour")
    assert first.trouble == ""
    assert (second.address, second.trouble) == ("192.168.50.9", "may not log in")


def test_a_board_that_has_both_families_is_one_and_may_have_ipv6_alone(tmp_path: Path):
    mac = "b8:27:eb:b2:c3:d4"
    both = [Sighting("lease", "192.168.50.7", mac, ""), Sighting("neighbour", "fd78::7", mac, "")]
    assert [one.addresses for one in boards(seen_addresses(both), {}, {})] == [("192.168.50.7", "fd78::7")]
    answer = read_answer(_ANSWER + "3: wlan0    inet6 fd78::8/64 scope global dynamic\\  valid_lft 85sec\n")
    (one,) = boards(seen_addresses([Sighting("neighbour", "fd78::8", "", "")]), {"fd78::8": answer}, {})
    assert (one.address, one.interface) == ("fd78::8", "wlan0")
    (tmp_path / "draft.toml").write_text(drafted([one], "fd78::1", user=None, key=""))
    assert [host.address for host in load_bench(tmp_path / "draft.toml").hosts] == ["fd78::8"]


def test_the_draft_is_a_bench_whatever_boards_are_called(tmp_path: Path):
    seen = [
        sighting("lease", f"192.168.50.{n}", f"b8:27:eb:00:00:{n:02x}", name)
        for n, name in enumerate(["raspberrypi", "raspberrypi", "pi-07", "pi-07", "", "bench-1"], start=10)
    ]
    found = boards(
        seen_addresses([one for one in seen if one]),
        {
            "192.168.50.10": BoardAnswer(
                "00000000a1b2c3d4", 'B"\\ [[hosts]] #', "raspberrypi", {}, {"eth0": "192.168.50.10"}
            )
        },
        {"192.168.50.11": "it says\u2028'''"},
    )
    text = drafted(found, "192.168.50.1", user="pi", key="~/.ssh/id", port=2022, taken=["bench-1"])
    path = tmp_path / "draft.toml"
    path.write_text(text)
    bench = load_bench(path)
    names = [host.name for host in bench.hosts]
    assert {host.ssh_port for host in bench.hosts} == {2022}
    assert names == ["pi-b2c3d4", "pi-00000b", "pi-07", "pi-00000d", "pi-00000e", "pi-00000f"]
    assert [host.interface for host in bench.hosts] == ["eth0"] + ["wlan0"] * 5
    assert text.count('# meter = { driver = "smartpower2", serial = "" }') == 6
    assert "serial 00000000a1b2c3d4; b8:27:eb:00:00:0a; seen by lease" in text
    assert unknown_to(bench, found) == []


def test_neighbours_outside_the_named_networks_are_not_asked():
    seen = [Sighting("neighbour", address, "", "") for address in ("192.168.50.8", "10.1.0.9", "192.0.2.1")]
    found = inside(seen, ["192.168.50.0/24", "10.1.0.0/16"])
    assert [one.address for one in found] == ["192.168.50.8", "10.1.0.9"]
    assert inside(seen, []) == seen


def test_a_board_is_asked_at_the_port_that_is_named(tmp_path: Path):
    seen = [Sighting("lease", "127.0.0.1", "b8:27:eb:00:00:01", "")]
    with ssh_server(tmp_path) as server:
        (named,) = found_boards(seen, StrangerLogin("root", server.client_key, server.port), every=False)
        (other,) = found_boards(seen, StrangerLogin("root", server.client_key, free_port()), every=False)
    assert (named.name, named.trouble) == (socket.gethostname(), "")
    assert "refuses" in other.trouble


def test_hosts_that_the_bench_has_are_no_news(tmp_path: Path):
    seen = [
        Sighting("lease", "127.0.0.1", "b8:27:eb:00:00:01", ""),
        Sighting("lease", "192.168.50.8", "b8:27:eb:00:00:02", "pi-08"),
        Sighting("lease", "192.168.50.9", "b8:27:eb:00:00:03", "pi-09"),
    ]
    hosts = "".join(
        f'[[hosts]]\nname = "h{n}"\naddress = "{address}"\nmeter.driver = "none"\n'
        for n, address in enumerate(["localhost", "pi-08.local"])
    )
    new = unknown_to(bench_of(tmp_path, hosts), boards(seen_addresses(seen), {}, {}))
    assert [board.address for board in new] == ["192.168.50.9"]


def _call(*words: object) -> int | str | None:
    with pytest.raises(SystemExit) as ended:
        main(["fleet", "discover", *map(str, words)])
    return ended.value.code


def test_the_command_draws_up_what_a_lease_file_has(tmp_path: Path, capsys):
    leases, draft = tmp_path / "dnsmasq.leases", tmp_path / "bench.toml"
    leases.write_text(_DNSMASQ.replace("1795482877", "0"))
    words = ("--leases", leases, "--no-mdns", "--no-ask")
    assert _call(*words, "--json") == 0
    rows = {row["address"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["192.168.77.116"]["name"] == "raspberrypi"
    assert "192.168.77.141" not in rows  # no Raspberry Pi's MAC
    assert _call(*words, "--all", "-o", draft) == 0
    assert "192.168.77.141" in draft.read_text()
    capsys.readouterr()
    assert _call(*words, "--bench", draft, "--json") == 0
    assert not {"192.168.77.116", "192.168.77.126"} & {
        row["address"] for row in json.loads(capsys.readouterr().out)
    }
    assert _call(*words, "-o", draft) == 2
    assert f"--output {draft}: is there already" in capsys.readouterr().err
    assert _call("--leases", tmp_path / "none", "--no-mdns") == 2
    assert "none: cannot be read: No such file or directory" in capsys.readouterr().err


@pytest.fixture
def babbler() -> Iterator[None]:
    """A sender on this machine's network that throws rubbish at the mDNS group."""
    over = threading.Event()
    draws = random.Random(11)

    def babble() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
            line.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            line.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("127.0.0.1"))
            while not over.wait(0.002):
                head = struct.pack(">HHHHHH", 0, 0x8400, 0, draws.randint(0, 9), 0, 0)
                line.sendto(head + draws.randbytes(draws.randint(0, 300)), ("224.0.0.251", 5353))

    thread = threading.Thread(target=babble)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.mark.lengthy
@pytest.mark.usefixtures("babbler")
def test_workstations_are_heard_among_rubbish_and_one_without_ipv4_by_its_address_beyond_the_link():
    """Published by the library's own other half; a real avahi: tests/hosts/test_discover.py."""
    addresses = {"desk-7": ["192.0.2.77"], "desk-8": ["fe80::77", "2001:db8::77"]}
    wanted = {
        Sighting("mDNS", places[-1], f"b8:27:eb:00:00:0{name[-1]}", name)
        for name, places in addresses.items()
    }
    service = "_workstation._tcp.local."
    with zeroconf.Zeroconf() as line:
        for name, places in addresses.items():
            instance = f"{name} [b8:27:eb:00:00:0{name[-1]}].{service}"
            info = zeroconf.ServiceInfo(
                service, instance, 9, parsed_addresses=places, server=f"{name}.local."
            )
            line.register_service(info, cooperating_responders=True)
        deadline_s = time.monotonic() + 60.0
        while not wanted <= (seen := set(browsed(4.0))):
            assert time.monotonic() < deadline_s, seen  # processors busy with other tests answer late
        assert not [one for one in seen if one.address.startswith("fe80")]
