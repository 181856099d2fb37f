"""Who may take whose place, and what a dead board's card gives; the way there is tested on real hosts."""

from __future__ import annotations

import errno
import io
import os
import shutil
import stat
import subprocess
import tarfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.certificates import BenchAuthority
from roambench.provision.changes import replacing
from roambench.provision.changes.replacing import (
    _MOVING,
    _hand_over,
    _is_free,
    from_card,
    replace_board,
    take_back,
)
from roambench.provision.facts import Facts
from roambench.provision.inventory.load import load_bench
from roambench.provision.inventory.replacements import Replacement, read_replacements, write_replacements
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import open_link
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


def test_a_spare_whose_records_nobody_has_is_none_although_its_agent_does_not_run(tmp_path: Path):
    with ssh_server(tmp_path) as server:
        state = server.root / layout.STATE.lstrip("/")
        bench = server.bench(tmp_path)
        with open_link(bench, bench.hosts[0]) as link:
            _is_free(link)  # never provisioned
            (state / "unsent").mkdir(parents=True)
            _is_free(link)
            (state / "unsent" / "a run").touch()
            with pytest.raises(HostError, match="it has records of runs, and no agent runs"):
                _is_free(link)
            (state / _MOVING).touch()  # of a board that is moving in, when the connection was lost
            _is_free(link)


def test_of_a_boards_state_only_files_and_folders_reach_its_spare(tmp_path: Path):
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
        bench = server.bench(tmp_path)
        with open_link(bench, bench.hosts[0]) as link:
            _hand_over(link, packed)
        state = server.root / layout.STATE.lstrip("/")
    assert sorted(str(path.relative_to(state)) for path in state.rglob("*")) == [
        ".moving-in", "model-cache", "model-cache/trained.json", "sh",
    ]  # fmt: skip
    assert stat.S_IMODE((state / "sh").stat().st_mode) == 0o750


def with_a_spare(bench: Bench) -> Bench:
    text = bench.file.read_text()
    board = text[text.index("[[hosts]]") :]
    bench.file.write_text(text + board.replace("pi-01", "pi-02").replace("127.0.0.1", "localhost"))
    return load_bench(bench.file)


@pytest.mark.parametrize(("started", "said"), [
    ("exit 0", "nothing was replaced: its agent is in service as before"),
    ("echo no unit; exit 1", "its agent is stopped and cannot be started again: "),
])  # fmt: skip
def test_a_board_whose_spare_cannot_take_its_place_is_in_service_again_or_is_named(
    tmp_path: Path, started: str, said: str
) -> None:
    with ssh_server(tmp_path) as server:
        bench = with_a_spare(server.bench(tmp_path))
        (server.root / layout.STATE.lstrip("/")).mkdir(parents=True)
        asked = tmp_path / "asked"
        server.programs.mkdir()
        for name, script in (
            ("systemctl", f'echo "$*" >> {asked}\ncase $1 in enable) {started};; esac'),
            ("tar", 'case "$*" in *-xzf*) echo no space left >&2; exit 2;; esac\necho packed'),
        ):
            (server.programs / name).write_text(f"#!/bin/sh\n{script}\n")
            (server.programs / name).chmod(0o755)
        reported: list[str] = []
        with pytest.raises(FleetError, match=r"pi-02: .*no space left"):
            replace_board(bench, *bench.hosts, lambda host, text: reported.append(f"{host.name} {text}"))
    assert asked.read_text().splitlines()[-1] == f"enable --quiet --now {layout.UNIT}"
    (line,) = reported
    assert line.startswith(f"pi-01 {said}")
    if "cannot" in said:
        assert line.endswith(f"--only pi-01 --root -- systemctl enable --now {layout.UNIT}")
    assert read_replacements(bench.state_dir) == {}


def test_a_board_that_nothing_says_is_replaced_has_its_state_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's disk is full when the spare has got it all."""

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with ssh_server(tmp_path) as server:
        bench = with_a_spare(server.bench(tmp_path))
        state = server.root / layout.STATE.lstrip("/")  # here one folder is that of both
        state.mkdir(parents=True)
        (state / "spool").write_text("records")
        server.programs.mkdir()
        (server.programs / "systemctl").write_text("#!/bin/sh\n")
        (server.programs / "systemctl").chmod(0o755)
        monkeypatch.setattr(replacing, "write_replacements", full)
        reported: list[str] = []
        with pytest.raises(OSError, match="No space left"):
            replace_board(bench, *bench.hosts, lambda host, text: reported.append(f"{host.name} {text}"))
        assert [path.name for path in state.iterdir()] == [".moving-in"]
    assert reported == ["pi-01 nothing was replaced: its agent is in service as before"]


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


def test_a_card_gives_the_machine_and_its_state_but_no_training_data_and_no_links(tmp_path: Path):
    state = tmp_path / "var/lib/roambench"
    (state / "model-cache").mkdir(parents=True)
    (state / "shards").mkdir()
    (state / "model-cache/trained.json").write_text("{}")
    (state / "shards/abc").write_bytes(b"data")
    (state / "spool.sqlite").write_bytes(b"spool")
    (state / "passwords").symlink_to("/etc/shadow")
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("ab" * 16 + "\n")
    found = from_card("pi2", tmp_path)
    assert found.machine_id == "ab" * 16
    assert found.note.startswith("pi2's card handed over 0.0 MB")
    with tarfile.open(fileobj=io.BytesIO(found.state)) as tar:
        assert sorted(tar.getnames()) == ["./model-cache", "./model-cache/trained.json", "./spool.sqlite"]
        spool = tar.extractfile("./spool.sqlite")
        assert spool is not None
        assert spool.read() == b"spool"


def test_a_folder_that_is_no_boards_card_is_an_error_that_says_what_is_missing(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"--card .*: no .*etc/machine-id: expected the root of pi2's card"):
        from_card("pi2", tmp_path)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/machine-id").write_text("ab" * 16)
    with pytest.raises(ConfigError, match=r"--card .*: no .*var/lib/roambench"):
        from_card("pi2", tmp_path)


@pytest.mark.parametrize("name", ["etc", "etc/machine-id", "var", "var/lib", "var/lib/roambench"])
def test_a_link_on_the_card_does_not_lead_into_this_machine(tmp_path: Path, name: str):
    """The card is a board's that may have been taken over, and the command root's."""
    card, own = tmp_path / "card", tmp_path / "own"
    for root in (card, own):
        (root / "var/lib/roambench").mkdir(parents=True)
        (root / "etc").mkdir()
        (root / "etc/machine-id").write_text("ab" * 16)
    (own / "var/lib/roambench/id_ed25519").write_text("the controller's own")
    link = card / name
    shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(own / name)
    with pytest.raises(ConfigError, match=f"{name} is a link: no provisioned board has one there"):
        from_card("pi2", card)
