"""Logging in as people do it: keys in a real ssh-agent, names and jump hosts of ~/.ssh/config, real sshds."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benches import bench_of
from roambench.provision.bench import Bench
from roambench.provision.host_error import HostError
from roambench.provision.hosts import HostOutcome, on_hosts, open_link
from roambench.provision.known_hosts import KnownHosts
from ssh_server import SshServer, free_port, make_key, ssh_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    with ssh_server(tmp_path_factory.mktemp("gate")) as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one, and no agent."""
    (tmp_path / "home/.ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return tmp_path / "home"


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A running ssh-agent, empty."""
    path = tmp_path / "agent.sock"
    with subprocess.Popen(["ssh-agent", "-D", "-a", str(path)], stdout=subprocess.DEVNULL) as process:
        try:
            while not path.exists():
                assert process.poll() is None
                time.sleep(0.01)
            monkeypatch.setenv("SSH_AUTH_SOCK", str(path))
            yield path
        finally:
            process.terminate()


def add_to_agent(key: Path, passphrase: str = "") -> None:
    ask = key.with_name("ask")
    ask.write_text(f"#!/bin/sh\necho '{passphrase}'\n")
    ask.chmod(0o700)
    key.chmod(0o600)
    environment = {**os.environ, "SSH_ASKPASS": str(ask), "SSH_ASKPASS_REQUIRE": "force"}
    subprocess.run(["ssh-add", "-q", str(key)], check=True, env=environment)


def bench_at(folder: Path, address: str, port: int, key: Path | None) -> Bench:
    named = f'ssh_key = "{key}"' if key else ""
    return bench_of(
        folder,
        f'[[hosts]]\nname = "pi-01"\naddress = "{address}"\nssh_user = "root"\nssh_port = {port}\n{named}\n'
        'meter.driver = "none"\n',
    )


def outcome(bench: Bench) -> HostOutcome[bytes]:
    (found,) = on_hosts(bench, bench.hosts, lambda link: link.must("echo hi"))
    return found


def refusal(bench: Bench) -> tuple[str, str]:
    found = outcome(bench)
    assert found.value is None
    return found.reason, found.next_action


@pytest.mark.parametrize(
    ("kind", "beside"),
    [
        (["-t", "ed25519"], False),
        (["-t", "ecdsa"], False),
        (["-t", "rsa"], False),
        (["-t", "rsa", "-m", "PEM"], True),  # the old format hides its public half
    ],
)
def test_a_key_with_a_passphrase_is_used_as_the_agent_holds_it(
    server: SshServer, tmp_path: Path, agent: Path, kind: list[str], beside: bool
) -> None:
    """Behind more other keys than sshd lets anybody try."""
    key = tmp_path / "it's mine"
    subprocess.run(["ssh-keygen", "-q", *kind, "-N", "geheim", "-f", str(key)], check=True)
    public = key.with_name(key.name + ".pub")
    with (server.folder / "authorized_keys").open("a") as authorized:
        authorized.write(public.read_text())
    if not beside:
        public.unlink()
    bench = bench_at(tmp_path, "127.0.0.1", server.port, key)
    for number in range(8):
        make_key(tmp_path / f"other-{number}")
        add_to_agent(tmp_path / f"other-{number}")
    reason, next_action = refusal(bench)
    assert reason == "the SSH key has a passphrase, and no ssh-agent holds it"
    assert next_action == f"ssh-add {shlex.quote(str(key))}"
    add_to_agent(key, "geheim")
    assert outcome(bench).value == b"hi\n"


def test_without_an_agent_one_is_told_to_start_one(server: SshServer, tmp_path: Path) -> None:
    key = tmp_path / "locked"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "geheim", "-f", str(key)], check=True)
    assert refusal(bench_at(tmp_path, "127.0.0.1", server.port, key)) == (
        "the SSH key has a passphrase, and no ssh-agent holds it",
        f'eval "$(ssh-agent)"; ssh-add {key}',
    )


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_only_the_key_that_the_bench_names_is_offered(
    server: SshServer, tmp_path: Path, agent: Path, home: Path, kind: str
) -> None:
    add_to_agent(server.client_key)
    (home / ".ssh/config").write_text(f"Host *\n  IdentityFile {server.client_key}\n")
    key = tmp_path / "stranger"
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", "", "-f", str(key)], check=True)
    assert refusal(bench_at(tmp_path, "127.0.0.1", server.port, key)) == (
        f"root may not log in with {key}",
        f"ssh-copy-id -i {key} -p {server.port} root@127.0.0.1",
    )
    assert outcome(bench_at(tmp_path, "127.0.0.1", server.port, None)).value == b"hi\n"


def test_a_file_that_is_no_key_is_named(server: SshServer, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a key\n")
    reason, next_action = refusal(bench_at(tmp_path, "127.0.0.1", server.port, tmp_path / "text"))
    assert reason.startswith(f"{tmp_path}/text: not a private key that can be used")
    assert next_action == "check ssh_key in the bench file"
    assert refusal(bench_at(tmp_path, "127.0.0.1", server.port, tmp_path / "nowhere")) == (
        f"{tmp_path}/nowhere: No such file or directory",
        "check ssh_key in the bench file",
    )


def test_the_remedy_for_a_changed_key_works_for_a_host_with_another_name(
    server: SshServer, tmp_path: Path, home: Path
) -> None:
    (home / ".ssh/config").write_text("Host lab-b\n  HostName 127.0.0.1\n")
    bench = bench_at(tmp_path, "lab-b", server.port, server.client_key)
    assert outcome(bench).value == b"hi\n"
    server.stop()
    server.start("another")
    try:
        reason, next_action = refusal(bench)
        assert reason.startswith("another host key than recorded: SHA256:")
        command = next_action.removeprefix("if its SD card was flashed anew: ").partition("; if not")[0]
        subprocess.run(["sh", "-ec", command], check=True, capture_output=True)
        assert outcome(bench).value == b"hi\n"
    finally:
        server.stop()
        server.start()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Host a\n  HostName 10.0.0.1\nFoo\n", "{config}: Unparsable line Foo"),
        ('Host "a\n', "{config}: "),
        ("Match nonsense\n  User x\n", "{config}: "),
        ("Host *\n CanonicalizeMaxDots x\n", "~/.ssh/config or /etc/ssh/ssh_config: no way to 127.0.0.1: "),
    ],
)
def test_a_broken_ssh_config_is_the_users_to_mend(
    server: SshServer, tmp_path: Path, home: Path, text: str, reason: str
) -> None:
    (home / ".ssh/config").write_text(text)
    found, next_action = refusal(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key))
    assert found.startswith(reason.format(config=home / ".ssh/config"))
    assert next_action in ("mend it, as for ssh itself", "ssh -G 127.0.0.1 shows what OpenSSH reads there")


def test_a_config_that_openssh_takes_is_taken(server: SshServer, tmp_path: Path, home: Path) -> None:
    (home / ".ssh/config").write_bytes(
        b"# f\xfcr den Bastler\nHost *\n  IdentityFile ~/.ssh/not-there\n  ProxyJump none\n"
    )
    assert outcome(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key)).value == b"hi\n"
    (home / ".ssh/id_ed25519").write_bytes(server.client_key.read_bytes())
    assert outcome(bench_at(tmp_path, "127.0.0.1", server.port, None)).value == b"hi\n"


def gated(gate: SshServer, home: Path, *more: str) -> None:
    """The board is behind two jump hosts, of which the first one is not behind itself."""
    identity = f"  User root\n  Port {gate.port}\n  IdentityFile {gate.client_key}\n"
    (home / ".ssh/config").write_text(
        f"Host outer\n  ProxyJump none\n  HostName 127.0.0.1\n{identity}"
        f"Host inner\n  HostName localhost\n{identity}"
        "Host board\n  HostName 127.0.0.1\nHost *\n  ProxyJump outer,inner\n" + "\n".join(more)
    )


def test_jump_hosts_are_gone_through_in_their_order_and_their_keys_recorded(
    server: SshServer, gate: SshServer, tmp_path: Path, home: Path
) -> None:
    gated(gate, home)
    bench = bench_at(tmp_path, "board", server.port, server.client_key)
    assert outcome(bench).value == b"hi\n"
    recorded = KnownHosts.of(bench).path.read_text().splitlines()
    assert [line.split()[0] for line in recorded] == [
        f"[127.0.0.1]:{gate.port}", f"[localhost]:{gate.port}", f"[127.0.0.1]:{server.port}",
    ]  # fmt: skip
    gate.stop()
    gate.start("another")
    try:
        reason, next_action = refusal(bench)
        assert reason.startswith("its jump host: another host key than recorded: SHA256:")
        assert f"ssh-keygen -R '[127.0.0.1]:{gate.port}' -f" in next_action
    finally:
        gate.stop()
        gate.start()


def test_who_does_not_answer_on_the_way_is_named(
    server: SshServer, gate: SshServer, tmp_path: Path, home: Path
) -> None:
    gated(gate, home)
    dead = free_port()
    assert refusal(bench_at(tmp_path, "board", dead, server.client_key)) == (
        f"its jump host localhost cannot reach 127.0.0.1 port {dead}: Connect failed",
        "is it powered, booted and on this network?",
    )
    authorized = gate.folder / "authorized_keys"
    allowed = authorized.read_text()
    authorized.write_text(f"restrict {allowed}")
    try:
        reason, next_action = refusal(bench_at(tmp_path, "board", server.port, server.client_key))
    finally:
        authorized.write_text(allowed)
    assert reason.startswith(f"its jump host 127.0.0.1 cannot reach localhost port {gate.port}: ")
    assert next_action == "AllowTcpForwarding in the jump host's sshd_config"
    gate.stop()
    try:
        assert refusal(bench_at(tmp_path, "board", server.port, server.client_key)) == (
            f"its jump host: 127.0.0.1 port {gate.port} refuses",
            "is its SSH server enabled and on this port?",
        )
    finally:
        gate.start()


def test_jump_hosts_that_lead_in_circles_are_an_error_or_left_out(
    server: SshServer, tmp_path: Path, home: Path
) -> None:
    (home / ".ssh/config").write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\nHost *\n  ProxyJump b\n")
    reason, _ = refusal(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key))
    assert reason.startswith("its jump host: ")
    (home / ".ssh/config").write_text("Host *\n  ProxyJump 127.0.0.1\n")
    assert outcome(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key)).value == b"hi\n"


def test_an_address_with_a_port_in_it_is_a_reason(server: SshServer, tmp_path: Path) -> None:
    bench = bench_at(tmp_path, f"127.0.0.1:{server.port}", server.port, server.client_key)
    with pytest.raises(HostError, match="no way to 127"):
        open_link(bench, bench.hosts[0]).__enter__()
