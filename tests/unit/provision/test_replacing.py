"""Who may take whose place; the way there over SSH is tested on real hosts."""

from __future__ import annotations

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from benches import bench_of
from roambench.contract.errors import ConfigError
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.certificates import BenchAuthority
from roambench.provision.facts import Facts
from roambench.provision.host_error import HostError
from roambench.provision.hosts import open_link
from roambench.provision.inventory import load_bench
from roambench.provision.replacements import Replacement, read_replacements, write_replacements
from roambench.provision.replacing import _MOVING, _hand_over, _is_free, replace_board, take_back
from roambench.provision.subjects.settings import agent_settings
from ssh_server import ssh_server

_BENCH = """
[controller]
address = "10.0.0.1"
[[hosts]]
name = "pi-[1:3]"
address = "10.0.0.1[1:3]"
meter = { driver = "none" }
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    path = tmp_path / "rig.toml"
    path.write_text(_BENCH)
    return load_bench(path)


def test_a_board_is_not_its_own_spare(bench: Bench):
    with pytest.raises(ConfigError, match="pi-1: is no spare"):
        replace_board(bench, bench.host("pi-1"), bench.host("pi-1"), lambda host, text: None)


def test_a_board_that_is_played_by_a_spare_is_none_itself(bench: Bench):
    write_replacements(bench.state_dir, {"pi-2": Replacement("pi-3")})
    with pytest.raises(ConfigError, match="pi-2: is no spare"):
        replace_board(bench, bench.host("pi-1"), bench.host("pi-2"), lambda host, text: None)


def test_a_spare_whose_records_nobody_has_is_none_although_its_agent_does_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    state = tmp_path / "state"
    monkeypatch.setattr(layout, "STATE", str(state))
    monkeypatch.setattr(layout, "CTL_SOCKET", str(tmp_path / "ctl.sock"))
    with ssh_server(tmp_path) as server:
        bench = bench_of(
            tmp_path,
            f'[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nssh_user = "root"\n'
            f'ssh_port = {server.port}\nssh_key = "{server.client_key}"\nmeter.driver = "none"\n',
        )
        with open_link(bench, bench.hosts[0]) as link:
            _is_free(link)  # never provisioned
            (state / "unsent").mkdir(parents=True)
            _is_free(link)
            (state / "unsent" / "a run").touch()
            with pytest.raises(HostError, match="it has records of runs, and no agent runs"):
                _is_free(link)
            (state / _MOVING).touch()  # of a board that is moving in, when the connection was lost
            _is_free(link)


def test_of_a_boards_state_only_files_and_folders_reach_its_spare(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    state = tmp_path / "state"
    monkeypatch.setattr(layout, "STATE", str(state))
    board = tmp_path / "board"
    (board / "model-cache").mkdir(parents=True)
    (board / "model-cache/trained.json").write_text("{}")
    (board / "sh").write_text("#!/bin/sh")
    (board / "sh").chmod(0o6777)
    (board / "passwords").symlink_to("/etc/shadow")
    os.mkfifo(board / "pipe")
    with suppress(PermissionError):  # some containers' root may not
        os.mknod(board / "memory", 0o666 | stat.S_IFCHR, os.makedev(1, 1))
    packed = subprocess.run(["tar", "-C", board, "-czf", "-", "."], check=True, capture_output=True).stdout
    with ssh_server(tmp_path) as server:
        bench = bench_of(
            tmp_path,
            f'[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nssh_user = "root"\n'
            f'ssh_port = {server.port}\nssh_key = "{server.client_key}"\nmeter.driver = "none"\n',
        )
        with open_link(bench, bench.hosts[0]) as link:
            _hand_over(link, packed)
    assert sorted(str(path.relative_to(state)) for path in state.rglob("*")) == [
        "model-cache", "model-cache/trained.json", "sh",
    ]  # fmt: skip
    assert stat.S_IMODE((state / "sh").stat().st_mode) == 0o750


def test_taking_a_board_back_refuses_the_certificates_its_spare_had(bench: Bench):
    authority = BenchAuthority(bench.state_dir)
    authority.issue("pi-2")
    serial = authority.newest("pi-2")
    assert serial is not None
    write_replacements(bench.state_dir, {"pi-2": Replacement("pi-3")})
    assert take_back(bench, "pi-2") == "pi-3"
    assert read_replacements(bench.state_dir) == {}
    assert authority.revocations.serials() == {int(serial.serial, 16)}
    with pytest.raises(ConfigError, match="pi-2: no spare plays it"):
        take_back(bench, "pi-2")


def test_the_agent_of_a_spare_says_that_it_is_the_board_it_plays(bench: Bench):
    facts = cast(Facts, SimpleNamespace(vcgencmd=""))  # all that settings look at
    write_replacements(bench.state_dir, {"pi-2": Replacement("pi-3", "ab" * 16)})
    after = load_bench(bench.file)
    assert agent_settings(after, after.host("pi-2"), facts).machine_id == "ab" * 16
    assert agent_settings(after, after.host("pi-1"), facts).machine_id == ""
