"""A board that died lives on in a spare: under its own name, where the spare is."""

from __future__ import annotations

from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.provision.changes.replacing import readers_changed
from roambench.provision.inventory.load import load_bench
from roambench.provision.inventory.replacements import Replacement, read_replacements, write_replacements

_BENCH = """
[controller]
address = "10.0.0.1"
[[hosts]]
name = "pi-[1:3]"
address = "10.0.0.1[1:3]"
tags = ["rack"]
meter = { driver = "smartpower2", serial = "S[1:3]" }
[[hosts]]
name = "spare-1"
address = "10.0.0.99"
ssh_user = "ann"
tags = ["spare"]
meter = { driver = "smartpower2", serial = "S99" }
"""


@pytest.fixture
def bench_file(tmp_path: Path) -> Path:
    path = tmp_path / "rig.toml"
    path.write_text(_BENCH)
    return path


def test_the_board_keeps_name_slot_and_tags_and_is_where_the_spare_is(bench_file: Path):
    before = load_bench(bench_file)
    write_replacements(before.state_dir, {"pi-2": Replacement("spare-1", "m2")})
    assert read_replacements(before.state_dir) == {"pi-2": Replacement("spare-1", "m2")}
    after = load_bench(bench_file)
    assert [host.name for host in after.hosts] == ["pi-1", "pi-2", "pi-3"]
    board = after.host("pi-2")
    assert (board.slot, board.tags, board.machine_id) == (2, ("rack",), "m2")
    assert (board.address, board.ssh_user, board.meter.serial) == ("10.0.0.99", "ann", "S99")
    assert after.host("pi-1") == before.host("pi-1")
    with pytest.raises(ConfigError, match=r"^--only spare-1: it plays pi-2: name that"):
        after.only(["spare-1"])


def test_meters_that_hang_on_other_hosts_are_read_there_by_the_names_in_service(tmp_path: Path):
    bench_file = tmp_path / "rig.toml"
    bench_file.write_text(
        _BENCH.replace('serial = "S99"', 'serial = "S99", host = "gateway"')
        + '[[hosts]]\nname = "gateway"\naddress = "10.0.0.50"\nmeter.driver = "none"\n'
        + '[[hosts]]\nname = "pi-4"\naddress = "10.0.0.4"\nmeter = { serial = "S4", host = "spare-1" }\n'
        + '[[hosts]]\nname = "spare-2"\naddress = "10.0.0.98"\nmeter = { serial = "S98", host = "pi-3" }\n'
    )
    before = load_bench(bench_file)
    write_replacements(
        before.state_dir, {"pi-2": Replacement("spare-1", "m2"), "pi-3": Replacement("spare-2", "m3")}
    )
    after = load_bench(bench_file)
    link = "/dev/roambench-meter"
    meters = {host.name: (host.meter.host, host.meter.port) for host in after.hosts}
    assert meters == {
        "pi-1": ("", link),
        "pi-2": ("gateway", f"{link}-pi-2"),
        "pi-3": ("", link),  # its reader was the board that it plays
        "gateway": ("", ""),
        "pi-4": ("pi-2", f"{link}-pi-4"),
    }
    assert all(after.host(host.reader) for host in after.hosts)
    assert readers_changed(before, after) == ["pi-2", "pi-3", "gateway"]
    assert readers_changed(after, before) == ["pi-2", "pi-3", "spare-1", "gateway"]


def test_taken_back_everything_is_as_before(bench_file: Path):
    before = load_bench(bench_file)
    write_replacements(before.state_dir, {"pi-2": Replacement("spare-1", "m2")})
    write_replacements(before.state_dir, {})
    assert load_bench(bench_file) == before
    assert read_replacements(before.state_dir) == {}


def test_names_that_the_description_lost_are_told(bench_file: Path):
    write_replacements(load_bench(bench_file).state_dir, {"pi-9": Replacement("spare-1")})
    with pytest.raises(ConfigError, match=r"pi-9 is replaced by spare-1: no host is called 'pi-9'"):
        load_bench(bench_file)


def test_a_file_that_is_none_is_told_with_its_name(bench_file: Path):
    state = load_bench(bench_file).state_dir
    state.mkdir()
    for text, expected in (
        ("[1]", "top level: expected an object"),
        ('{"pi-1": {}}', r"pi-1\.spare: is missing"),
        ('{"pi-1"', "not JSON"),
    ):
        (state / "replaced.json").write_text(text)
        with pytest.raises(ConfigError, match=rf"replaced\.json: .*{expected}"):
            load_bench(bench_file)
