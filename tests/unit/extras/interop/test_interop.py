"""Inventories of Ansible, printed and read by Ansible itself, and files in the shape of labgrid's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import forked_commands
from roambench.contract.errors import ConfigError
from roambench.extras.interop.ansible import ansible_inventory, listed, read_ansible
from roambench.extras.interop.foreign import bench_text
from roambench.extras.interop.labgrid import read_labgrid
from roambench.provision.bench import Host
from roambench.provision.inventory.load import load_bench

ROOT = Path(__file__).parents[4]
_INI = """\
[rack1]
pi[01:03] ansible_port=2222
pi04 ansible_host=10.0.0.4 ansible_ssh_user=ann meter_serial=A4 meter_driver=smartpower2 meter_gain=1.01

[rack2]
pi05 ansible_host=10.0.0.5 ansible_ssh_common_args='-o ProxyJump=gate'
localhost ansible_connection=local

[bench:children]
rack1
rack2

[bench:vars]
ansible_user=pi
ansible_ssh_private_key_file=/keys/bench
"""


@pytest.fixture(autouse=True)
def ansibles_programs(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """On the path, as where people use them; with nobody's own configuration."""
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    (config := tmp_path_factory.mktemp("ansible") / "ansible.cfg").touch()
    monkeypatch.setenv("ANSIBLE_CONFIG", str(config))


def imported(folder: Path, inventory: Path, group: str = "all") -> list[Host]:
    found = read_ansible(listed(inventory), inventory.name, group)
    path = folder / "imported.toml"
    path.write_text(bench_text(found, inventory.name, found.controller or "10.0.0.1"))
    return list(load_bench(path).hosts)


def test_an_inventory_of_ansibles_is_a_bench(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_text(_INI)
    hosts = imported(tmp_path, tmp_path / "hosts")
    assert [(one.name, one.address, one.ssh_user, one.ssh_port) for one in hosts] == [
        ("pi01", "pi01", "pi", 2222), ("pi02", "pi02", "pi", 2222), ("pi03", "pi03", "pi", 2222),
        ("pi04", "10.0.0.4", "pi", None), ("pi05", "10.0.0.5", "pi", None),
    ]  # fmt: skip
    assert {one.ssh_key for one in hosts} == {Path("/keys/bench")}
    assert [set(one.tags) for one in hosts] == [{"bench", "rack1"}] * 4 + [{"bench", "rack2"}]
    assert [one.meter.driver for one in hosts] == ["none", "none", "none", "smartpower2", "none"]
    assert (hosts[3].meter.serial, hosts[3].meter.gain) == ("A4", 1.01)
    found = read_ansible(listed(tmp_path / "hosts"), "hosts")
    assert found.left_out == ["localhost: ansible_connection is local, expected ssh"]
    assert [note for one in found.hosts for note in one.notes] == [
        "ansible_ssh_common_args = -o ProxyJump=gate: put that into ~/.ssh/config"
    ]
    assert [one.name for one in imported(tmp_path, tmp_path / "hosts", "rack2")] == ["pi05"]


def test_a_bench_becomes_an_inventory_and_a_bench_again(tmp_path: Path) -> None:
    bench = load_bench(ROOT / "inventory/bench36.example.toml")
    (tmp_path / "hosts.yml").write_text(ansible_inventory(bench))
    assert imported(tmp_path, tmp_path / "hosts.yml") == list(bench.hosts)
    graph = subprocess.run(
        ["ansible-inventory", "-i", tmp_path / "hosts.yml", "--graph", "spare"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert (graph.stdout.split(), graph.stderr) == (["@spare:", "|--spare-01"], "")
    listing = subprocess.run(
        ["ansible-inventory", "-i", tmp_path / "hosts.yml", "--list"], capture_output=True, check=True
    )
    (tmp_path / "listed.json").write_bytes(listing.stdout)
    assert imported(tmp_path, tmp_path / "listed.json") == list(bench.hosts)


@pytest.mark.parametrize(
    ("name", "text", "problems"),
    [
        ("bad.yml", "a: [", ["ansible-inventory: [WARNING]: Failed to parse inventory with 'auto' plugin"]),
        ("bad.json", "[" * 100_000, ["expected JSON as `ansible-inventory --list` prints"]),
        ("bad.json", '{"x": 1}', ["expected what `ansible-inventory --list` prints"]),
        ("bad.json", '{"_meta": {"hostvars": {"a": 5}}}', ["expected what `ansible-inventory --list` "]),
        ("empty", "", ["expected at least one host, found none: it names none"]),
        (
            "hosts",
            "a ansible_host={{x}} meter_serial={{y}}\n",
            [
                "a: ansible_host: '{{x}}' is a template that Ansible fills in later: expected a value",
                "a: meter_serial: '{{y}}' is a template that Ansible fills in later: expected a value",
            ],
        ),
        (
            "hosts",
            "Pi_1 ansible_port=x\nb ansible_user=A+\n",
            [f"as a bench: hosts[{key}: " for key in ("1].name", "1].ssh_port", "2].ssh_user")],
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_a_bench_is_said_all_at_once(
    tmp_path: Path, name: str, text: str, problems: list[str]
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError) as refused:
        imported(tmp_path, tmp_path / name)
    found = sorted(line.replace(str(tmp_path / name), name) for line in refused.value.problems)
    assert len(found) == len(problems)
    for line, problem in zip(found, problems, strict=True):
        assert problem in line
        assert line.startswith(name)


def test_where_there_is_no_ansible_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts").write_text(_INI)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match=r"--list >listed\.json, and import that"):
        listed(tmp_path / "hosts")


#: Two boards made by a loop, one with what else labgrid's exporters hold, and one that SSH cannot reach.
_EXPORTER = """\
## the rack
# for n in ["07", "08"]
bench-pi{{n}}:
  location: lab
  NetworkService: {address: 192.168.50.1{{n}}, username: pi}
  NetworkPowerPort: {model: shelly_gen2, host: 'http://admin:secret@192.168.50.207', index: {{loop.index0}}}
# endfor
Rack_B:
  shell: {cls: NetworkService, address: 192.168.50.9%eth1, username: root, port: 2222, password: x}
  NetworkPowerPort: {model: gude, host: pdu-1, index: 3}
  USBSerialPort:
    match: {'@ID_PATH': 'pci-0000:03:00.2-usb-0:5.2.4:1.0'}
serial-only:
  RawSerialPort: {port: /dev/ttyUSB0}
"""
_PLACES = """\
pi07:
  acquired: null
  aliases: []
  comment: ''
  matches:
  - {cls: '*', exporter: '*', group: bench-pi07, name: null, rename: null}
  tags: {meter_serial: sp2-07, meter_driver: smartpower2, board: 3b+}
elsewhere:
  matches:
  - {cls: NetworkService, exporter: other, group: nowhere, name: null, rename: null}
  tags: {}
"""


def labgrids(folder: Path, *, places: bool) -> tuple[list[Host], list[str], list[str]]:
    (folder / "exporter.yaml").write_text(_EXPORTER)
    (folder / "places.yaml").write_text(_PLACES)
    found = read_labgrid(folder / "exporter.yaml", folder / "places.yaml" if places else None)
    (folder / "imported.toml").write_text(bench_text(found, "exporter.yaml", "10.0.0.1"))
    notes = [note for one in found.hosts for note in one.notes]
    return list(load_bench(folder / "imported.toml").hosts), list(found.left_out), notes


def test_an_exporters_groups_with_a_network_service_are_hosts(tmp_path: Path) -> None:
    hosts, left_out, notes = labgrids(tmp_path, places=False)
    assert [(one.name, one.address, one.ssh_user, one.ssh_port) for one in hosts] == [
        ("bench-pi07", "192.168.50.107", "pi", None), ("bench-pi08", "192.168.50.108", "pi", None),
        ("rack-b", "192.168.50.9", "root", 2222),
    ]  # fmt: skip
    assert left_out == ["serial-only: no NetworkService"]
    switch = (
        "switched by NetworkPowerPort: model = shelly_gen2, host = http://admin:...@192.168.50.207, index = 0"
    )
    assert notes == [
        switch, switch.replace("index = 0", "index = 1"), "labgrid calls it Rack_B",
        "labgrid reaches it over eth1 of the exporter: ProxyJump in ~/.ssh/config",
        "labgrid logs in with a password: give this host a key (ssh-copy-id)",
        "switched by NetworkPowerPort: model = gude, host = pdu-1, index = 3",
    ]  # fmt: skip
    tables = [one.table.get("power") for one in read_labgrid(tmp_path / "exporter.yaml").hosts]
    assert tables[0] == {"switch": "shelly", "address": "192.168.50.207", "channel": 0}
    assert tables[2] is None


def test_with_places_a_host_is_a_place_and_its_tags_name_the_meter(tmp_path: Path) -> None:
    (host,), left_out, _ = labgrids(tmp_path, places=True)
    assert (host.name, host.address, host.tags) == ("pi07", "192.168.50.107", ("3b+",))
    assert (host.meter.driver, host.meter.serial) == ("smartpower2", "sp2-07")
    assert left_out == ["elsewhere: none of its matches has a NetworkService in exporter.yaml"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: [", ":1: "),
        ("a: b", ": expected a mapping of names to mappings"),
        ("- a", ": expected a mapping of names to mappings"),
        ("# for x in\n", ":1: "),
        ("a: {{ missing.attribute }}\n", ": 'missing' is undefined (Jinja)"),
        ("a: {{ ''.__class__.__mro__ }}\n", "(Jinja)"),
        ("a: !!python/object/apply:os.system [touch /tmp/owned]\n", ": could not determine a constructor"),
        ("&a a: " + "[" * 5000, ""),
    ],
)
def test_what_is_no_file_of_labgrids_is_an_error(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "exporter.yaml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_labgrid(tmp_path / "exporter.yaml")
    (line,) = refused.value.problems
    assert line.startswith(f"{tmp_path}/exporter.yaml")
    assert problem in line


def test_the_commands_write_what_fleet_list_takes(tmp_path: Path) -> None:
    def roambench(*words: object) -> subprocess.CompletedProcess[str]:
        return forked_commands.roambench("fleet", *map(str, words), cwd=tmp_path)

    bench, hosts, again = (tmp_path / name for name in ("b.toml", "hosts.yml", "again.toml"))
    (tmp_path / "exporter.yaml").write_text(_EXPORTER)
    words = ("import", "labgrid", tmp_path / "exporter.yaml", "-o", bench)
    ran = roambench(*words, "--group", "x", "--controller", "10.0.0.1")
    assert (ran.returncode, ran.stderr) == (2, "roambench: --group: expected with ansible only\n")
    ran = roambench(*words, "--controller", "10.0.0.1")
    assert ran.returncode == 0, ran
    assert ran.stdout.splitlines()[-1] == f"3 hosts in {bench}: look at it, then roambench fleet list {bench}"
    assert roambench("export", bench, "-o", hosts).returncode == 0
    assert roambench("import", "ansible", hosts, "-o", again).returncode == 0
    first, second = (json.loads(roambench("list", file, "--json").stdout) for file in (bench, again))
    assert first == second
    ran = roambench("import", "ansible", hosts, "-o", again)
    assert (ran.returncode, ran.stderr) == (
        2, f"roambench: --output {again}: is there already, expected a new file\n",
    )  # fmt: skip
