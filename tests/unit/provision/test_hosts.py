"""Links to hosts, against a real sshd on loopback."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import paramiko
import pytest

from benches import bench_of
from roambench.provision.bench import Bench
from roambench.provision.provisioning import perform
from roambench.provision.ssh import known_hosts
from roambench.provision.ssh.host_error import ConnectionLost, HostError
from roambench.provision.ssh.hosts import HostLink, on_hosts, open_link
from roambench.provision.ssh.known_hosts import KnownHosts
from roambench.provision.ssh.login import logged_in
from roambench.provision.ssh.sudo import _KEPT, keep_password
from roambench.provision.step import HostStep
from ssh_server import _CONFIG, SshServer, free_port, make_key, ssh_server


@pytest.fixture
def bench(server: SshServer, tmp_path: Path) -> Bench:
    return bench_of(tmp_path, _host("pi-01", server, server.port))


def _host(name: str, server: SshServer, port: int, *, key: Path | None = None, slot: int = 1) -> str:
    return f"""
[[hosts]]
name = "{name}"
slot = {slot}
address = "127.0.0.1"
ssh_user = "root"
ssh_port = {port}
ssh_key = "{key or server.client_key}"
meter.driver = "none"
"""


def test_a_command_answers_with_its_exit_code_and_both_its_outputs(bench: Bench) -> None:
    with open_link(bench, bench.hosts[0]) as link:
        ran = link.run("cat; echo oops >&2; exit 3", stdin=b"a\0b")
    assert (ran.exit_code, ran.out, ran.err, ran.why) == (3, b"a\0b", b"oops\n", "oops")


def test_megabytes_pass_both_ways_at_once(bench: Bench) -> None:
    content = os.urandom(8 * 2**20)  # more than the windows and pipes of both directions hold
    with open_link(bench, bench.hosts[0]) as link:
        ran = link.run("tee /dev/stderr", stdin=content)
    assert ran.out == content
    assert ran.err == content


#: sudo(8) as far as it is used here: -n never asks; -S reads the password's line, byte by byte, and no more.
_SUDO = """#!/bin/sh
case "$1" in
-n) shift; [ -e "{free}" ] || {{ echo "sudo: a password is required" >&2; exit 1; }} ;;
-k) shift 4; [ -e "{free}" ] || {{ read -r typed; echo "$typed" >>"{log}"; [ "$typed" = "gehe im" ] || {{
    echo "sudo: 1 incorrect password attempt" >&2; exit 1; }}; }} ;;
esac
exec "$@"
"""


@pytest.fixture
def sudo(server: SshServer, tmp_path: Path) -> Iterator[Path]:
    """A sudo on the server that wants a password, until there is a file `free` in the folder."""
    server.programs.mkdir(exist_ok=True)
    program = server.programs / "sudo"
    program.write_text(_SUDO.format(free=tmp_path / "free", log=tmp_path / "log"))
    program.chmod(0o755)
    yield tmp_path
    program.unlink()
    _KEPT.clear()


def _as_ann(bench: Bench) -> Iterator[HostLink]:
    with open_link(bench, bench.hosts[0]) as link:
        link.user = "ann"  # root's login stands for one that needs sudo
        yield link


def test_sudo_gets_its_password_and_the_command_its_own_input(bench: Bench, sudo: Path) -> None:
    keep_password("gehe im")
    for link in _as_ann(bench):
        assert link.run("cat", root=True, stdin=b"data\n").out == b"data\n"
        pieces: list[bytes] = []
        assert link.stream("cat", pieces.append, pieces.append, root=True, stdin=b"more") == 0
        link.put(b"x", str(sudo / "file"))
        shown = link.run('tr "\\0" " " </proc/$PPID/cmdline; env', root=True).out
    assert (b"".join(pieces), (sudo / "file").read_bytes()) == (b"more", b"x")
    assert b"gehe im" not in shown
    (sudo / "free").touch()  # NOPASSWD: a password on its input would be the command's
    for link in _as_ann(bench):
        assert link.run("cat", root=True, stdin=b"data\n").out == b"data\n"


def test_a_wrong_password_is_tried_once_and_none_is_a_reason(bench: Bench, sudo: Path) -> None:
    for link in _as_ann(bench):
        with pytest.raises(HostError, match=r"ann may not sudo without a password; -K asks you"):
            link.run("true", root=True)
    keep_password("falsch")
    for link in _as_ann(bench):
        for _ in range(2):
            with pytest.raises(HostError, match=r"^pi-01: sudo refuses ann: sudo: 1 incorrect"):
                link.run("true", root=True)
    assert (sudo / "log").read_text() == "falsch\n"


def test_a_host_without_sudo_says_so(bench: Bench, sudo: Path, server: SshServer) -> None:
    program = server.programs / "env"  # which finds no program but those of this folder
    program.write_text('#!/bin/sh\nexec /usr/bin/env PATH=/nowhere "$@"\n')
    program.chmod(0o755)
    for link in _as_ann(bench):
        with pytest.raises(HostError, match="it has no sudo"):
            link.run("true", root=True)
    program.unlink()


def test_a_command_that_never_ends_is_given_up(bench: Bench) -> None:
    with (
        open_link(bench, bench.hosts[0]) as link,
        pytest.raises(HostError, match=r"sleep 30: no end within 0\.2 s"),
    ):
        link.run("sleep 30", timeout_s=0.2)


def test_a_command_that_reads_nothing_is_judged_by_its_exit_code(bench: Bench) -> None:
    with open_link(bench, bench.hosts[0]) as link:
        assert link.run("exit 4", stdin=bytes(8 * 2**20)).exit_code == 4


def test_what_root_makes_is_readable_whatever_umask_the_login_has(tmp_path: Path) -> None:
    """sshd hands its umask on: so pam_umask, or a careful administrator, may have set it."""
    (tmp_path / "sshd").mkdir()
    before = os.umask(0o077)
    try:
        with ssh_server(tmp_path / "sshd") as server:
            os.umask(before)
            bench = bench_of(tmp_path, _host("pi-01", server, server.port))
            with open_link(bench, bench.hosts[0]) as link:
                umask = link.run("umask").text.strip()
                link.put(b"x", str(tmp_path / "opt/drop in.d/file"))
                link.must(f"mkdir {tmp_path}/opt/made", root=True)
    finally:
        os.umask(before)
    assert umask == "0077"
    found = {path.name: oct(path.stat().st_mode & 0o777) for path in tmp_path.glob("opt/**/*")}
    assert found == {"drop in.d": "0o755", "file": "0o644", "made": "0o755"}
    assert (tmp_path / "opt").stat().st_mode & 0o777 == 0o755


def test_a_connection_that_ends_in_a_command_is_no_exit_code(bench: Bench) -> None:
    lost = r"^pi-01: environment: connection lost; look at its power and its network, then again$"
    dropped = HostStep("environment", "is missing", "kill -9 $PPID; sleep 20")  # the sshd of this connection
    with open_link(bench, bench.hosts[0]) as link:
        with pytest.raises(HostError, match=lost):
            perform(link, dropped)
        with pytest.raises(ConnectionLost, match=r"^pi-01: connection lost"):
            link.run("true")
    with open_link(bench, bench.hosts[0]) as link:
        assert link.run("kill -9 $$").why == "killed by a signal (out of memory?)"
        assert link.run("echo still here").out == b"still here\n"


def test_a_lost_link_is_begun_anew_and_one_that_was_hung_up_is_not(bench: Bench) -> None:
    with open_link(bench, bench.hosts[0]) as link:
        with pytest.raises(ConnectionLost):
            link.run("kill -9 $PPID; sleep 20")
        assert not link.hung_up
        with link.reconnected():
            assert link.run("true").exit_code == 0
            link.hang_up()
            with pytest.raises(ConnectionLost):
                link.run("true")
        assert link.hung_up
        with pytest.raises(HostError, match="interrupted"), link.reconnected():
            pass


def test_more_than_an_answer_may_be_is_called_so(bench: Bench) -> None:
    with open_link(bench, bench.hosts[0]) as link:
        with pytest.raises(HostError, match=r"^pi-01: yes: more than 1 MiB of output; look at it"):
            link.run("yes", most_bytes=2**20)
        with pytest.raises(HostError, match=r"^pi-01: yes >&2: more than 1 MiB of output; look at it"):
            link.run("yes >&2", most_bytes=2**20)
        assert link.run("echo still here").out == b"still here\n"


def test_a_file_arrives_whole_with_its_mode_or_not_at_all(bench: Bench, tmp_path: Path) -> None:
    remote = tmp_path / "it's here"
    with open_link(bench, bench.hosts[0]) as link:
        link.put(b"secret", str(remote), mode=0o600)
        assert (remote.read_bytes(), oct(remote.stat().st_mode & 0o777)) == (b"secret", "0o600")
        with pytest.raises(HostError, match="here/folder: cannot be written: mkdir: cannot create"):
            link.put(b"x", str(remote / "folder"))
    assert sorted(path.name for path in tmp_path.iterdir() if "here" in path.name) == ["it's here"]


def test_a_link_that_somebody_laid_in_the_way_is_not_followed(bench: Bench, tmp_path: Path) -> None:
    """Root writes into folders that are the agent's, too."""
    victim, remote = tmp_path / "victim", tmp_path / "cert.pem"
    victim.write_text("mine")
    victim.chmod(0o400)
    remote.with_name("cert.pem.new").symlink_to(victim)
    with open_link(bench, bench.hosts[0]) as link:
        link.put(b"new", str(remote), mode=0o640, owner="nobody:nogroup")
    assert (victim.read_text(), victim.stat().st_uid, victim.stat().st_mode & 0o777) == ("mine", 0, 0o400)
    assert (remote.read_text(), remote.is_symlink(), remote.stat().st_mode & 0o777) == ("new", False, 0o640)
    assert (remote.owner(), remote.group()) == ("nobody", "nogroup")


def test_the_first_key_is_recorded_and_another_one_refused(server: SshServer, tmp_path: Path) -> None:
    bench = bench_of(tmp_path, _host("pi-01", server, server.port))
    with open_link(bench, bench.hosts[0]):
        pass
    known = KnownHosts.of(bench)
    recorded = known.path.read_text()
    assert recorded.startswith(f"[127.0.0.1]:{server.port} ssh-ed25519 ")
    server.stop()
    server.start("other")
    try:
        (outcome,) = on_hosts(bench, bench.hosts, lambda link: link.must("true"))
        assert "another host key than recorded: SHA256:" in outcome.reason
        assert f"ssh-keygen -R '[127.0.0.1]:{server.port}' -f {known.path}" in outcome.next_action
        assert known.path.read_text() == recorded
        remedy = outcome.next_action.partition(": ")[2].partition("; if not")[0]
        subprocess.run(["sh", "-c", remedy], check=True, capture_output=True)
        with open_link(bench, bench.hosts[0]):
            assert known.path.read_text() != recorded
    finally:
        server.stop()
        server.start()


def test_of_two_keys_that_are_seen_at_once_one_is_trusted(bench: Bench) -> None:
    known, name = KnownHosts.of(bench), "10.0.0.1"
    first, second = paramiko.ECDSAKey.generate(), paramiko.ECDSAKey.generate()
    known.record(name, first)
    known.record(name, first)
    with pytest.raises(paramiko.BadHostKeyException):
        known.record(name, second)
    assert known.path.read_text() == f"{name} {first.get_name()} {first.get_base64()}\n"


def test_whoever_cannot_be_reached_is_a_row_and_the_others_are_done(
    server: SshServer, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger"
    make_key(stranger)
    dead = free_port()
    bench = bench_of(
        tmp_path,
        _host("pi-01", server, server.port)
        + _host("pi-02", server, dead, slot=2)
        + _host("pi-03", server, server.port, key=stranger, slot=3).replace("127.0.0.1", "127.0.0.2")
        + _host("pi-04", server, server.port, slot=4).replace("127.0.0.1", "no-such-host.invalid"),
    )
    outcomes = on_hosts(bench, bench.hosts, lambda link: link.must("echo hi"))
    assert [outcome.host.name for outcome in outcomes] == ["pi-01", "pi-02", "pi-03", "pi-04"]
    assert [outcome.value for outcome in outcomes] == [b"hi\n", None, None, None]
    assert outcomes[1].reason == f"127.0.0.1 port {dead} refuses"
    assert outcomes[1].next_action == "is its SSH server enabled and on this port?"
    assert all(outcome.failed and outcome.next_action for outcome in outcomes[1:])


def test_an_interface_that_this_machine_does_not_have_is_named(tmp_path: Path, server: SshServer) -> None:
    bench = bench_of(tmp_path, _host("pi-01", server, 22).replace("127.0.0.1", "fe80::1%nope"))
    with pytest.raises(HostError, match="fe80::1%nope: this machine has no interface nope; see the bench"):
        open_link(bench, bench.hosts[0]).__enter__()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "MaxSessions 0",
            "its SSH server opens no session: Connect failed; see MaxSess",
        ),
        (
            "KexAlgorithms sntrup761x25519-sha512@openssh.com",
            r"takes no algorithm .*\(no acceptable kex",
        ),
        (
            "Ciphers chacha20-poly1305@openssh.com",
            r"takes no algorithm .*\(no acceptable ciphers\)",
        ),
        ("PubkeyAuthentication no\nPasswordAuthentication yes", "takes no keys; PubkeyAuthentication yes in"),
    ],
)
def test_what_the_settings_of_an_ssh_server_refuse_is_said_with_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, setting: str, said: str
) -> None:
    monkeypatch.setattr("ssh_server._CONFIG", f"{setting}\n{_CONFIG}")
    (tmp_path / "shut").mkdir()
    with ssh_server(tmp_path / "shut") as shut:
        bench = bench_of(tmp_path, _host("pi-01", shut, shut.port))
        with pytest.raises(HostError, match=said), open_link(bench, bench.hosts[0]) as link:
            link.run("true")


def test_a_host_that_accepts_and_says_nothing_is_given_up(tmp_path: Path, server: SshServer) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        bench = bench_of(tmp_path, _host("pi-01", server, silent.getsockname()[1]))
        with (
            pytest.raises(HostError) as given_up,
            logged_in(bench, bench.hosts[0], connect_s=1),
        ):
            pass
    assert given_up.value.reason.startswith("no proper SSH server answers at 127.0.0.1 port")
    assert given_up.value.next_action == "is it still booting? try again in a minute"


def test_a_mistake_of_ours_at_one_host_stops_no_other(bench: Bench, server: SshServer) -> None:
    first = threading.Event()

    def work(link: HostLink) -> str:
        if not first.is_set():
            first.set()
            raise KeyError("a bug")
        return "done"

    outcomes = on_hosts(bench, [*bench.hosts, *bench.hosts], work, at_once=1)
    assert [(outcome.value, outcome.reason) for outcome in outcomes] == [
        (None, "KeyError: 'a bug'"),
        ("done", ""),
    ]
    kept = bench.state_dir / "traceback-pi-01.txt"
    assert outcomes[0].next_action == f"this is a bug: report it with {kept}"
    assert 'raise KeyError("a bug")' in kept.read_text()


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EROFS, "the file system is read-only: its disk may fail (dmesg)"),
        (errno.ENOLCK, "the file system gives no lock: start NFS's lock service, or move to a local disk"),
    ],
)
def test_a_key_that_this_machine_cannot_keep_is_not_the_hosts_trouble(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, advice: str
) -> None:
    def refused(path: Path, *rest: object, **more: object) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(known_hosts, "append_lines", refused)
    (outcome,) = on_hosts(bench, bench.hosts, lambda link: "done")
    file = bench.state_dir / "known_hosts"
    said = f"{file}: this machine cannot keep the host's key: {os.strerror(number)}; {advice}"
    assert outcome.reason == said


#: Does two things on the host, the first of which takes long.
_TWO_THINGS = """
import sys
from pathlib import Path
from roambench.provision.ssh.hosts import on_hosts
from roambench.provision.inventory.load import load_bench

def work(link):
    link.must("what takes long")
    Path(sys.argv[2]).touch()

bench = load_bench(sys.argv[1])
on_hosts(bench, bench.hosts, work, at_once=1)
"""


def test_ctrl_c_waits_for_no_host(server: SshServer, tmp_path: Path) -> None:
    bench = bench_of(
        tmp_path,
        _host("pi-01", server, server.port)
        + _host("pi-02", server, server.port, slot=2).replace("127.0.0.1", "127.0.0.2"),
    )
    begun, done, over = tmp_path / "begun", tmp_path / "done", tmp_path / "over"
    first = f"touch {begun}; until test -e {over}; do sleep 0.1; done"
    script = _TWO_THINGS.replace("what takes long", first)
    with subprocess.Popen([sys.executable, "-c", script, str(bench.file), str(done)]) as process:
        try:
            while not begun.exists():
                assert process.poll() is None
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == -signal.SIGINT
        finally:
            process.kill()
            over.touch()
    assert not done.exists()
