"""Logging in as people do it: keys in a real ssh-agent, names and jump hosts of ~/.ssh/config, real sshds."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from fabric.exceptions import GroupException

from benches import bench_of
from roambench.contract.errors import ConfigError
from roambench.provision.bench import Bench
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostOutcome, on_hosts, open_link
from roambench.provision.ssh.known_hosts import KnownHosts
from roambench.provision.ssh.login import HostConnection, host_group
from ssh_server import SshServer, free_port, make_key, ssh_server


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
        command = next_action.removeprefix("if its SD card was flashed again: ").partition("; if not")[0]
        subprocess.run(["sh", "-ec", command], check=True, capture_output=True)
        assert outcome(bench).value == b"hi\n"
    finally:
        server.stop()
        server.start()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Host a\n  HostName 10.0.0.1\nFoo\n", "3: no argument after keyword"),
        ('Host "a\n', "1: "),
        ("Match nonsense\n  User x\n", "1: "),  # each OpenSSH has words of its own
        ("Host *\n CanonicalizeMaxDots x\n", "2: integer value invalid."),
    ],
)
def test_a_broken_ssh_config_is_the_users_to_mend(
    server: SshServer, tmp_path: Path, home: Path, text: str, reason: str
) -> None:
    (home / ".ssh/config").write_text(text)
    found, next_action = refusal(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key))
    assert found.startswith(f"no way to 127.0.0.1: {home}/.ssh/config")
    assert f"line {reason}" in found
    assert next_action == "ssh -G 127.0.0.1 shows what OpenSSH reads"


def test_a_config_that_openssh_takes_is_taken(server: SshServer, tmp_path: Path, home: Path) -> None:
    (home / ".ssh/config").write_bytes(
        b"# f\xfcr den Bastler\nHost *\n  IdentityFile ~/.ssh/not-there\n  ProxyJump none\n"
    )
    assert outcome(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key)).value == b"hi\n"
    (home / ".ssh/id_ed25519").write_bytes(server.client_key.read_bytes())
    # Where an IdentityFile is named, OpenSSH tries no other.
    assert refusal(bench_at(tmp_path, "127.0.0.1", server.port, None)) == (
        "root may not log in with any key of yours",
        f"ssh-copy-id -p {server.port} root@127.0.0.1",
    )
    (home / ".ssh/config").write_text("Host *\n  ProxyJump none\n")
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


def test_a_jump_host_may_be_named_by_its_ipv6_address(server: SshServer, tmp_path: Path, home: Path) -> None:
    (tmp_path / "gate").mkdir()
    with ssh_server(tmp_path / "gate", "::1") as gate:
        (home / ".ssh/config").write_text(
            f"Host board\n  HostName 127.0.0.1\n  ProxyJump root@[::1]:{gate.port}\n"
            f"Host *\n  IdentityFile {gate.client_key}\n"
        )
        bench = bench_at(tmp_path, "board", server.port, server.client_key)
        assert outcome(bench).value == b"hi\n"
    recorded = KnownHosts.of(bench).path.read_text().splitlines()
    assert [line.split()[0] for line in recorded] == [f"[::1]:{gate.port}", f"[127.0.0.1]:{server.port}"]


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


def test_jump_hosts_that_lead_in_circles_are_an_error(server: SshServer, tmp_path: Path, home: Path) -> None:
    (home / ".ssh/config").write_text("Host a\n  ProxyJump b\nHost b\n  ProxyJump a\nHost *\n  ProxyJump b\n")
    reason, _ = refusal(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key))
    assert reason.startswith("its jump host: ")
    (home / ".ssh/config").write_text("Host *\n  ProxyJump 127.0.0.1\n")
    reason, _ = refusal(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key))
    assert reason.endswith("jumphost loop via 127.0.0.1")


def test_an_address_with_a_port_in_it_is_a_reason(server: SshServer, tmp_path: Path) -> None:
    bench = bench_at(tmp_path, f"127.0.0.1:{server.port}", server.port, server.client_key)
    with pytest.raises(HostError, match="no way to 127"):
        open_link(bench, bench.hosts[0]).__enter__()


def board_only(folder: Path) -> Bench:
    """A bench file that leaves everything to ~/.ssh/config."""
    text = '[[hosts]]\nname = "pi-01"\naddress = "board"\ninterface = "lo"\nmeter.driver = "none"\n'
    return bench_of(folder, text)


def board_block(server: SshServer, *more: str) -> str:
    lines = ("HostName 127.0.0.1", "User root", f"Port {server.port}", f"IdentityFile {server.client_key}")
    return "Host board\n" + "".join(f"  {line}\n" for line in (*lines, *more))


def test_user_port_key_and_address_may_be_the_ssh_configs(
    server: SshServer, tmp_path: Path, home: Path
) -> None:
    (home / "boards.conf").write_text(board_block(server))
    (home / ".ssh/config").write_text(f"Include {home}/*.conf\nHost *\n  User nobody\n  Port 1\n")
    bench = board_only(tmp_path)
    assert (bench.hosts[0].ssh_user, bench.hosts[0].ssh_port) == (None, None)
    assert outcome(bench).value == b"hi\n"
    (tmp_path / "other").mkdir()
    spoken = bench_of(
        tmp_path / "other",
        '[[hosts]]\nname = "pi-01"\naddress = "board"\nssh_user = "ann"\nmeter.driver = "none"\n',
    )
    assert refusal(spoken)[0] == "ann may not log in with any key of yours"


def test_without_any_word_it_is_pi_at_port_22(tmp_path: Path, home: Path) -> None:
    connection = HostConnection(board_only(tmp_path), board_only(tmp_path).hosts[0])
    assert (connection.user, connection.host, connection.port) == ("pi", "board", 22)


def test_a_proxy_command_is_the_way_and_ends_with_it(server: SshServer, tmp_path: Path, home: Path) -> None:
    """OpenSSH's own client as the proxy: `ssh -W`, through the same server."""
    through = (
        f"ssh -q -F none -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -i {server.client_key} "
        f"-p {server.port} -W %h:%p %r@127.0.0.1 2>%%h"
    )
    (home / ".ssh/config").write_text(board_block(server, f"ProxyCommand {through}"))
    bench = board_only(tmp_path)
    with HostConnection(bench, bench.hosts[0]) as connection:
        assert connection.run("echo hi", hide=True, in_stream=False).stdout == "hi\n"
        (proxy,) = [child for child in psutil.Process().children() if child.name() == "ssh"]
        shutil.move("%h", tmp_path)  # where the proxy's errors went: %% is one %
    assert not proxy.is_running()


def users_keys(home: Path, line: str) -> str:
    """A known_hosts of the user's with one line; words for ~/.ssh/config."""
    (home / "known").write_text(line + "\n")
    return f"UserKnownHostsFile {home}/known"


def public_key(server: SshServer, name: str = "host") -> str:
    return " ".join((server.folder / f"{name}.pub").read_text().split()[:2])


def test_a_key_that_the_user_knows_has_to_be_shown(server: SshServer, tmp_path: Path, home: Path) -> None:
    name = f"[127.0.0.1]:{server.port}"
    make_key(tmp_path / "other")
    other = " ".join((tmp_path / "other.pub").read_text().split()[:2])
    (home / ".ssh/config").write_text(board_block(server, users_keys(home, f"{name} {other}")))
    bench = board_only(tmp_path)
    reason, next_action = refusal(bench)
    assert reason.startswith("another host key than recorded: SHA256:")
    assert f"ssh-keygen -R {shlex.quote(name)} -f {home}/known" in next_action
    assert not KnownHosts.of(bench).path.exists()
    users_keys(home, f"{name} {public_key(server)}")
    subprocess.run(["ssh-keygen", "-q", "-H", "-f", str(home / "known")], check=True, capture_output=True)
    assert "127.0.0.1" not in (home / "known").read_text()
    assert outcome(bench).value == b"hi\n"
    (recorded,) = KnownHosts.of(bench).path.read_text().splitlines()
    assert recorded == f"{name} {public_key(server)}"


def test_strangers_are_refused_where_the_ssh_config_wants_it(
    server: SshServer, tmp_path: Path, home: Path
) -> None:
    strict = "StrictHostKeyChecking yes"
    (home / ".ssh/config").write_text(board_block(server, strict, "UserKnownHostsFile none"))
    reason, next_action = refusal(board_only(tmp_path))
    assert reason.endswith("is in none of your known_hosts (StrictHostKeyChecking)")
    assert next_action.startswith(f"ssh-keyscan -p {server.port} 127.0.0.1")
    known = users_keys(home, f"[127.0.0.1]:* {public_key(server)}")  # a pattern
    (home / ".ssh/config").write_text(board_block(server, strict, known))
    assert outcome(board_only(tmp_path)).value == b"hi\n"


def test_a_revoked_key_is_refused_even_if_it_was_recorded(
    server: SshServer, tmp_path: Path, home: Path
) -> None:
    (home / ".ssh/config").write_text(board_block(server, "UserKnownHostsFile none"))
    bench = board_only(tmp_path)
    assert outcome(bench).value == b"hi\n"
    revoked = users_keys(home, f"@revoked * {public_key(server)}")
    (home / ".ssh/config").write_text(board_block(server, revoked))
    assert "is revoked by your known_hosts" in refusal(bench)[0]


def test_boards_behind_one_address_are_told_apart_by_their_alias(
    server: SshServer, gate: SshServer, tmp_path: Path, home: Path
) -> None:
    """As behind two gates: the same name and port, another machine."""
    for machine, alias in ((server, "rack1"), (gate, "rack2"), (server, "rack1")):
        forward = f"ProxyCommand nc 127.0.0.1 {machine.port}" if shutil.which("nc") else ""
        forward = forward or f"ProxyCommand python3 {_piped(tmp_path)} {machine.port}"
        identity = f"IdentityFile {machine.client_key}"
        (home / ".ssh/config").write_text(
            f"Host board\n  HostName 10.99.99.99\n  User root\n  {identity}\n"
            f"  HostKeyAlias {alias}\n  {forward}\n"
        )
        assert outcome(board_only(tmp_path)).value == b"hi\n"
    recorded = KnownHosts.of(board_only(tmp_path)).path.read_text().splitlines()
    assert [line.split()[0] for line in recorded] == ["rack1", "rack2"]


def _piped(folder: Path) -> Path:
    """A program that is `nc 127.0.0.1 PORT`."""
    script = folder / "piped.py"
    script.write_text(
        "import os, socket, sys, threading\n"
        "s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))\n"
        "def up():\n"
        "    while data := os.read(0, 65536): s.sendall(data)\n"
        "    s.shutdown(1)\n"
        "threading.Thread(target=up, daemon=True).start()\n"
        "while data := s.recv(65536): os.write(1, data)\n"
    )
    return script


@pytest.mark.parametrize("certified", [False, True])
def test_what_only_the_agent_of_the_ssh_config_can_use_is_offered_and_no_more(
    server: SshServer,
    tmp_path: Path,
    home: Path,
    agent: Path,
    monkeypatch: pytest.MonkeyPatch,
    certified: bool,
) -> None:
    """A key, or a certificate of it, under IdentitiesOnly; its path has tokens in it."""
    for number in range(8):  # more than sshd lets a client try
        make_key(tmp_path / f"other-{number}")
        add_to_agent(tmp_path / f"other-{number}")
    key, ca, allowed = home / "board", tmp_path / "ca", server.folder / "authorized_keys"
    make_key(key)
    public, before = key.with_suffix(".pub").read_text(), allowed.read_text()
    if certified:
        make_key(ca)
        sign = ["ssh-keygen", "-q", "-s", str(ca), "-I", "lab", "-n", "root", str(key)]
        subprocess.run(sign, check=True)
        public = f"cert-authority {ca.with_suffix('.pub').read_text()}"
    add_to_agent(key)
    key.unlink()
    monkeypatch.delenv("SSH_AUTH_SOCK")
    monkeypatch.setenv("AGENTS", str(agent.parent))
    words = f"HostName 127.0.0.1\nUser root\nPort {server.port}\nIdentityFile {home}/%n.pub\n"
    words += "IdentityAgent ${AGENTS}/agent.sock\nIdentitiesOnly yes\n"
    (home / ".ssh/config").write_text(f"Host board\n{words}")
    allowed.write_text(before + public)
    try:
        assert outcome(board_only(tmp_path)).value == b"hi\n"
    finally:
        allowed.write_text(before)


def test_a_machine_without_openssh_says_what_it_lacks(
    server: SshServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refusal(bench_at(tmp_path, "127.0.0.1", server.port, server.client_key)) == (
        "this machine has no OpenSSH client",
        "apt-get install openssh-client",
    )


def test_a_labs_own_tasks_have_fabrics_group(server: SshServer, gate: SshServer, tmp_path: Path) -> None:
    hosts = (
        f'[[hosts]]\nname = "pi-{number}"\naddress = "127.0.0.1"\nssh_port = {machine.port}\n'
        f'ssh_user = "root"\nssh_key = "{machine.client_key}"\n'
        f'tags = ["rack{number}"]\nmeter.driver = "none"\n'
        for number, machine in ((1, server), (2, gate))
    )
    bench = bench_of(tmp_path, "\n".join(hosts))
    with host_group(bench) as group:
        results = group.run("echo $SSH_CONNECTION", hide=True, in_stream=False)
        ports = [
            connection.port for connection, result in results.items() if str(connection.port) in result.stdout
        ]
        assert sorted(ports) == sorted((server.port, gate.port))
    assert [connection.port for connection in host_group(bench, ["rack2"])] == [gate.port]
    with pytest.raises(ConfigError, match="no host and no tag"):
        host_group(bench, ["rack3"])
    server.stop()
    try:
        with host_group(bench) as group, pytest.raises(GroupException) as failed:
            group.run("true", hide=True, in_stream=False)
    finally:
        server.start()
    (error,) = failed.value.result.failed.values()
    assert (
        str(error)
        == f"pi-1: 127.0.0.1 port {server.port} refuses; is its SSH server enabled and on this port?"
    )
