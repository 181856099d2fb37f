"""Wheels over a real sshd, whose connections break: nothing is sent twice, and nothing wrong is kept."""

from __future__ import annotations

import hashlib
import io
import random
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from benches import bench_of
from roambench.provision import layout
from roambench.provision.bench import Bench
from roambench.provision.ssh.host_error import ConnectionLost, HostError
from roambench.provision.ssh.hosts import open_link
from roambench.provision.step import Shipment, ShippedFile
from roambench.provision.wheels.shipping import Sent, ship
from roambench.provision.wheels.turns import Turns
from ssh_server import SshServer, ssh_server

HASH = "0123456789abcdef"


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        (running.root / layout.WHEELS.lstrip("/")).mkdir(parents=True)
        yield running


class Breaking:
    """A way to `target` on which each connection is broken once it has carried `bytes_each` towards it."""

    def __init__(self, target: int, bytes_each: int) -> None:
        self.carried = 0
        self._target, self._bytes_each = target, bytes_each
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._socket.accept()
                there = socket.create_connection(("127.0.0.1", self._target))
                for pair, most in (((here, there), self._bytes_each), ((there, here), 2**60)):
                    threading.Thread(target=self._carry, args=(*pair, most), daemon=True).start()

    def _carry(self, source: socket.socket, target: socket.socket, most: int) -> None:
        with closing(source), closing(target), suppress(OSError):
            while most > 0 and (piece := source.recv(min(65536, most))):
                target.sendall(piece)
                most -= len(piece)
                self.carried += len(piece) if most < 2**59 else 0
            for end in (source, target):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._socket.close()


def shipped(folder: Path, sizes: dict[str, int], seed: int = 1) -> tuple[Shipment, dict[str, bytes]]:
    draws = random.Random(seed)
    contents = {name: draws.randbytes(size) for name, size in sizes.items()}
    digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
    contents["SHA256SUMS"] = "".join(f"{digest}  {name}\n" for name, digest in digests.items()).encode()
    archive = folder / f"{seed}.tar"
    with tarfile.open(archive, "w") as tar:
        for name, content in contents.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    files = (
        ShippedFile(name, len(content), hashlib.sha256(content).hexdigest())
        for name, content in contents.items()
    )
    return Shipment(archive, f"{layout.WHEELS}/{HASH}", tuple(files)), contents


def bench_at(folder: Path, server: SshServer, port: int) -> Bench:
    return bench_of(
        folder,
        f'[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\nssh_user = "root"\nssh_port = {port}\n'
        f'ssh_key = "{server.client_key}"\nmeter.driver = "none"\n',
    )


def arrived(server: SshServer) -> dict[str, bytes]:
    folder = server.root / f"{layout.WHEELS}/{HASH}.new".lstrip("/")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def send(bench: Bench, shipment: Shipment, sent: Sent, turns: Turns | None = None) -> None:
    with open_link(bench, bench.hosts[0]) as link:
        ship(link, shipment, sent, turns or Turns())


def test_a_link_that_breaks_again_and_again_gets_everything_there_once(
    server: SshServer, tmp_path: Path
) -> None:
    shipment, contents = shipped(tmp_path, {"torch.whl": 9_000_000, "small.whl": 3_000, "empty.whl": 0})
    way = Breaking(server.port, 2_500_000)
    bench = bench_at(tmp_path, server, way.port)
    said: list[str] = []
    sent = Sent(said.append)
    attempts = 0
    with closing(way):
        while True:
            attempts += 1
            try:
                send(bench, shipment, sent)
                break
            except ConnectionLost:
                assert sent.worth_another()
    assert arrived(server) == contents
    assert attempts >= 4
    # Only what was under way is sent again: at most the window of an SSH channel.
    assert way.carried < 9_003_000 + attempts * 2.2e6
    assert len(said) == attempts - 1
    assert all(line.endswith(" of 9 MB are there") for line in said)


def test_what_is_sent_in_many_turns_arrives_whole(server: SshServer, tmp_path: Path) -> None:
    sizes = {"torch.whl": 3_000_001, "empty.whl": 0, "small.whl": 262_144, "last.whl": 5}
    shipment, contents = shipped(tmp_path, sizes)
    sent = Sent(lambda line: None)
    send(bench_at(tmp_path, server, server.port), shipment, sent, Turns(1, 0.0))
    assert arrived(server) == contents
    assert sent.sent_bytes == sum(map(len, contents.values()))


def test_a_link_that_brings_nothing_is_given_up(server: SshServer, tmp_path: Path) -> None:
    shipment, _ = shipped(tmp_path, {"torch.whl": 9_000_000})
    way = Breaking(server.port, 60_000)
    bench = bench_at(tmp_path, server, way.port)
    sent = Sent(lambda line: None)
    with closing(way):
        worth = []
        for _ in range(3):
            with pytest.raises(HostError):
                send(bench, shipment, sent)
            worth.append(sent.worth_another())
    assert worth == [True, False, False]


def test_what_an_older_wheelhouse_has_is_not_sent_and_what_is_no_file_of_ours_goes(
    server: SshServer, tmp_path: Path
) -> None:
    wheels = server.root / layout.WHEELS.lstrip("/")
    shipment, contents = shipped(tmp_path, {"torch.whl": 3_000_000, "own.whl": 1000, "longer.whl": 10})
    older = wheels / "fedcba9876543210"
    older.mkdir()
    sums = contents["SHA256SUMS"].decode().splitlines()
    (older / "torch.whl").write_bytes(contents["torch.whl"])
    (older / "own.whl").write_bytes(b"another")
    lines = [sums[0], f"{'0' * 64}  own.whl", f"{sums[1].split()[0]}  ../../own.whl", "no line at all"]
    (older / "SHA256SUMS").write_text("\n".join(lines) + "\n")
    fresh = wheels / f"{HASH}.new"
    for folder in (fresh, wheels / "1111111111111111.new"):
        folder.mkdir()
    (fresh / "longer.whl").write_bytes(b"longer than it is")
    (fresh / "it's $(rm -rf x)\n5 own.whl").write_bytes(b"12345")
    sent = Sent(lambda line: None)
    send(bench_at(tmp_path, server, server.port), shipment, sent)
    found = arrived(server)
    assert {name: found[name] for name in contents} == contents
    assert (fresh / "torch.whl").stat().st_ino == (older / "torch.whl").stat().st_ino
    assert sent.sent_bytes == 1000 + 10 + len(contents["SHA256SUMS"])
    assert not (wheels / "1111111111111111.new").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_said_and_what_fits_stays(server: SshServer, tmp_path: Path, small_disk: Path) -> None:
    wheels = server.root / layout.WHEELS.lstrip("/")
    (wheels / f"{HASH}.new").symlink_to(small_disk)
    shipment, contents = shipped(tmp_path, {"torch.whl": 3_000_000})
    with pytest.raises(HostError) as full:
        send(bench_at(tmp_path, server, server.port), shipment, Sent(lambda line: None))
    assert full.value.reason == "no space left on its disk"
    assert full.value.next_action.startswith("make room on /")
    part = (small_disk / "torch.whl").read_bytes()
    assert 0 < len(part) < 3_000_000
    assert contents["torch.whl"].startswith(part)
