"""Tasmota and Shelly, at emulated devices behind real ports, and at servers that are no such device."""

from __future__ import annotations

import asyncio
import json
import shlex
import socket
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roambench.extras.power.emulated import (
    EmulatedShelly1,
    EmulatedShelly2,
    EmulatedSwitch,
    EmulatedTasmota,
    serving,
)
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import seen_switch, switch_power
from switch_benches import COMMANDS, done, secret_file, switched_host

pytestmark = [pytest.mark.asyncio, pytest.mark.lengthy]

#: The class, what a bench calls it, and the number of its first relay.
DEVICES = [
    pytest.param(EmulatedTasmota, "tasmota", 1, id="tasmota"),
    pytest.param(EmulatedShelly1, "shelly", 0, id="shelly1"),
    pytest.param(EmulatedShelly2, "shelly", 0, id="shelly2"),
]
Kind = type[EmulatedSwitch]


@pytest.mark.parametrize(("kind", "name", "first"), DEVICES)
@pytest.mark.parametrize("password", ["", 'p"a\\ss&w=rd %41ü'])
async def test_one_relay_is_switched_and_no_other(
    tmp_path: Path, kind: Kind, name: str, first: int, password: str
) -> None:
    if "ü" in password and kind is EmulatedShelly1:
        password = password.replace("ü", "")  # Basic has no word for its encoding
    secret_file(tmp_path / "secret", f"\ufeff{password}\r\n")  # as an editor of Windows saves it
    secret = {"password_file": "secret"} if password else {}
    device = kind([True, True, True], password)
    with serving(device) as address:
        power = {"switch": name, "address": address, "channel": first + 1, **secret}
        for command, on in COMMANDS:
            switched = await done(tmp_path, command, **power)
            assert (switched.done, switched.on, switched.reason) == (True, on, "")
            assert device.relays == [True, on, True]


@pytest.mark.parametrize(("kind", "name", "first"), DEVICES)
async def test_a_single_relay_too(tmp_path: Path, kind: Kind, name: str, first: int) -> None:
    device = kind([True])
    with serving(device) as address:
        switched = await done(tmp_path, PowerCommand.OFF, switch=name, address=address)
    assert (switched.on, device.relays) == (False, [False])


@pytest.mark.parametrize(("kind", "name", "first"), DEVICES)
async def test_to_ask_is_not_to_switch(tmp_path: Path, kind: Kind, name: str, first: int) -> None:
    device = kind([False])
    with serving(device) as address:
        host = switched_host(tmp_path, switch=name, address=address)
        seen = await seen_switch(host)
    assert (seen.asked, seen.on, seen.trouble, seen.reason) == (True, False, "", "")
    assert device.asked
    assert not [path for path in device.asked if "On" in path or "turn=" in path or "Switch.Set" in path]


@pytest.mark.parametrize(("kind", "name", "first"), DEVICES)
async def test_a_relay_that_would_switch_itself_off_is_found(
    tmp_path: Path, kind: Kind, name: str, first: int
) -> None:
    for after_s in (1.5, 90.0):
        with serving(kind([True], auto_off_s=after_s)) as address:
            seen = await seen_switch(switched_host(tmp_path, switch=name, address=address))
        assert f"off {after_s:g} s after on" in seen.trouble


@pytest.mark.parametrize(("kind", "name", "first"), DEVICES)
async def test_a_relay_that_is_not_there_switches_nothing(
    tmp_path: Path, kind: Kind, name: str, first: int
) -> None:
    device = kind([True])
    with serving(device) as address:
        switched = await done(tmp_path, PowerCommand.OFF, switch=name, address=address, channel=5)
    assert (switched.done, device.relays) == (False, [True])
    assert switched.reason.startswith(address)


@pytest.mark.parametrize(("kind", "name", "first"), DEVICES)
async def test_passwords_that_are_missing_or_wrong(tmp_path: Path, kind: Kind, name: str, first: int) -> None:
    secret_file(tmp_path / "secret", "wrong\n")
    device = kind([True], "right")
    with serving(device) as address:
        power = {"switch": name, "address": address}
        without = await done(tmp_path, PowerCommand.OFF, **power)
        wrong = await done(tmp_path, PowerCommand.OFF, **power, password_file="secret")
    assert (without.reason, wrong.reason) == (
        f"{address}: wants a password",
        f"{address}: refuses the password",
    )
    assert "password_file" in without.next_action
    assert device.relays == [True]
    (tmp_path / "secret").chmod(0o640)
    open_to_others = await done(tmp_path, PowerCommand.OFF, **power, password_file="secret")
    assert "others may read it: chmod 600" in open_to_others.reason
    nowhere = await done(tmp_path, PowerCommand.OFF, **power, password_file="nowhere")
    assert (
        nowhere.reason
        == f"power.password_file: {tmp_path / 'nowhere'} cannot be read: No such file or directory"
    )


async def test_no_password_is_on_a_command_line_or_in_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A `curl` of ours in front of the real one writes down the words that it is called with."""
    secret_file(tmp_path / "secret", "hush\n")
    spy = tmp_path / "bin" / "curl"
    spy.parent.mkdir()
    said = shlex.quote(str(tmp_path / "words"))
    spy.write_text(
        f'#!/bin/sh\necho "$@" >>{said}\ntr "\\0" " " </proc/self/environ >>{said}\nexec /usr/bin/curl "$@"\n'
    )
    spy.chmod(0o755)
    monkeypatch.setenv("PATH", f"{spy.parent}:/usr/bin:/bin")
    for kind, name in (
        (EmulatedTasmota, "tasmota"),
        (EmulatedShelly1, "shelly"),
        (EmulatedShelly2, "shelly"),
    ):
        with serving(kind([True], "other")) as address:
            wrong = await done(
                tmp_path, PowerCommand.OFF, switch=name, address=address, password_file="secret"
            )
        assert not wrong.done
        assert "hush" not in wrong.reason + wrong.next_action
    assert "--config" in (tmp_path / "words").read_text()
    assert "hush" not in (tmp_path / "words").read_text()


async def test_a_device_that_does_not_do_what_it_is_told(tmp_path: Path) -> None:
    class Stuck(EmulatedTasmota):
        """Its relay is welded: whatever it is told, it is on."""

        def reply(self, path: str, query: object, authorization: str, method: str = "GET"):  # type: ignore[no-untyped-def,override]
            self.relays[0] = True
            return super().reply(path, {"cmnd": "Power1"}, authorization)

    with serving(Stuck([True])) as address:
        switched = await done(tmp_path, PowerCommand.OFF, switch="tasmota", address=address)
    assert (switched.done, switched.on) == (False, None)
    assert switched.reason == f"{address}: was switched off, but says that it is on"


@contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Whoever connects to it gets this answer."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.settimeout(0.05)
    ended = threading.Event()

    def serve(connection: socket.socket) -> None:
        with connection:
            connection.settimeout(20)
            try:
                connection.recv(65536)
                answer(connection)
            except OSError:
                pass

    def listen() -> None:
        while not ended.is_set():
            try:
                threads.append(threading.Thread(target=serve, args=(listener.accept()[0],)))
            except TimeoutError:
                continue
            threads[-1].start()

    threads: list[threading.Thread] = []
    thread = threading.Thread(target=listen)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        ended.set()
        thread.join()
        for one in threads:
            one.join()
        listener.close()


def body(text: str, status: str = "200 OK") -> Callable[[socket.socket], None]:
    head = f"HTTP/1.1 {status}\r\nContent-Length: {len(text.encode())}\r\nConnection: close\r\n\r\n"
    return lambda connection: connection.sendall((head + text).encode())


@pytest.mark.parametrize("name", ["tasmota", "shelly"])
@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("", "200 OK"),
        ("<html>router</html>", "200 OK"),
        ("[]", "200 OK"),
        ("null", "200 OK"),
        ("[" * 60000, "200 OK"),
        ('{"POWER": "\x1b[2J\x07MAYBE", "type": 3, "ison": "yes"}', "200 OK"),
        ('{"POWER": null, "gen": 2, "output": 1}', "200 OK"),
        ('{"POWER2": "ON", "gen": 2, "output": null}', "200 OK"),
        ('{"POWER": {"POWER": "ON"}, "type": "x", "ison": 1e999}', "200 OK"),
        ("gone", "500 Internal Server Error"),
        ('{"POWER": ' + "9" * 5000 + "}", "200 OK"),
    ],
)
async def test_what_no_such_device_would_answer_is_one_line(
    tmp_path: Path, name: str, text: str, status: str
) -> None:
    with server(body(text, status)) as address:
        switched = await done(tmp_path, PowerCommand.OFF, switch=name, address=address)
    assert not switched.done
    assert switched.reason.startswith(f"{address}: ")
    assert switched.reason.isprintable()
    assert len(switched.reason) <= 300


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    device = EmulatedTasmota([True])
    with serving(device) as real:

        def redirect(connection: socket.socket) -> None:
            connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: http://{real}/cm\r\n\r\n".encode())

        with server(redirect) as address:
            switched = await done(tmp_path, PowerCommand.OFF, switch="tasmota", address=address)
    assert not switched.done
    assert device.asked == []


async def test_silence_slow_bytes_and_endless_bodies_end_within_their_time(tmp_path: Path) -> None:
    """At once, and beside them a device that works: nobody waits for the others."""
    ended = threading.Event()

    def silent(connection: socket.socket) -> None:
        ended.wait(20)

    def slow(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        while not ended.wait(0.2):
            connection.sendall(b"x")

    def endless(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        while not ended.is_set():
            connection.sendall(b"x" * 65536)

    def announced(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{")
        ended.wait(20)

    device = EmulatedTasmota([True])
    with (
        serving(device) as works,
        server(silent) as a,
        server(slow) as b,
        server(endless) as c,
        server(announced) as d,
    ):
        addresses = [a, b, c, d, works]
        folders = [tmp_path / str(number) for number in range(5)]
        hosts = []
        for folder, address in zip(folders, addresses, strict=True):
            folder.mkdir()
            hosts.append(switched_host(folder, switch="tasmota", address=address))
        found = await switch_power(hosts, PowerCommand.OFF)
        ended.set()
    assert [one.done for one in found] == [False, False, False, False, True]
    assert "no whole answer within 8 s" in found[0].reason
    assert "no whole answer within 8 s" in found[1].reason
    assert "64 KiB" in found[2].reason
    assert "64 KiB" in found[3].reason
    assert device.relays == [False]


async def test_nobody_there_and_no_such_name(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and nobody listens
        closed = await done(
            tmp_path, PowerCommand.OFF, switch="shelly", address=f"127.0.0.1:{taken.getsockname()[1]}"
        )
    too_long = f"{'x' * 64}.invalid"  # no name server is asked, which might not answer in time
    unknown = await done(tmp_path, PowerCommand.OFF, switch="shelly", address=too_long)
    assert "connect" in closed.reason
    assert "resolve" in unknown.reason
    assert closed.next_action == unknown.next_action == "is it powered and in this network?"


async def test_a_proxy_or_a_curlrc_of_the_user_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".curlrc").write_text('url = "http://127.0.0.1:1/"\nuser-agent = "x"\nfail\n')
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    with serving(EmulatedShelly2([True])) as address:
        switched = await done(tmp_path, PowerCommand.STATE, switch="shelly", address=address)
    assert switched.on is True


async def test_a_machine_without_curl_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    switched = await done(tmp_path, PowerCommand.STATE, switch="shelly", address="127.0.0.1:1")
    assert switched.reason == "127.0.0.1:1: this machine has no curl"
    assert switched.next_action == "sudo apt-get install curl"


async def test_the_emulated_switches_are_a_command(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "roambench.cli.main", "fleet", "emulate-switches", str(tmp_path / "hub")),
        *("--tasmota", "2", "--shelly2", "1", "--hub", "4"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        lines = [(await process.stdout.readline()).decode() for _ in range(3)]
        addresses = [line.partition('address = "')[2].partition('"')[0] for line in lines]
        for line, address, name in zip(lines[1:], addresses[1:], ("tasmota", "shelly"), strict=True):
            assert f'switch = "{name}"' in line
            assert (await done(tmp_path, PowerCommand.OFF, switch=name, address=address)).on is False
        assert str(tmp_path / "hub" / "uhubctl") in lines[0]
    finally:
        process.terminate()
        await process.wait()


async def test_the_emulated_shellys_take_what_other_clients_post() -> None:
    """A form for the first generation, JSON-RPC for the others: so do labgrid's drivers."""

    def posted(url: str, body: bytes) -> dict[str, object]:
        with urllib.request.urlopen(url, body, timeout=300) as answer:
            found = json.load(answer)
        assert isinstance(found, dict)
        return found

    first, later = EmulatedShelly1([True]), EmulatedShelly2([True, True])
    with serving(first) as one, serving(later) as two:
        said = await asyncio.to_thread(posted, f"http://{one}/relay/0", b"turn=off")
        assert (said["ison"], first.relays) == (False, [False])
        frame = {"id": 1, "method": "Switch.Set", "params": {"id": 1, "on": False}}
        said = await asyncio.to_thread(posted, f"http://{two}/rpc", json.dumps(frame).encode())
        assert (said["id"], said["result"], later.relays) == (1, {"was_on": True}, [True, False])
        frame = {"id": 2, "method": "Switch.GetStatus", "params": {"id": 9}}
        said = await asyncio.to_thread(posted, f"http://{two}/rpc", json.dumps(frame).encode())
        assert said["error"] == {"code": -105, "message": "Argument 'id', value 9 not found!"}


async def test_json_of_the_emulated_devices_is_what_the_vendors_show() -> None:
    """The keys that clients rely on are there, as on the vendors' pages."""
    # https://shelly-api-docs.shelly.cloud/gen2/ComponentsAndServices/Switch#status
    told = EmulatedShelly2([True]).reply("/rpc/Switch.GetStatus", {"id": "0"}, "").values
    assert isinstance(told, dict)
    assert json.loads(json.dumps(told))["output"] is True
    # https://shelly-api-docs.shelly.cloud/gen2/General/CommonErrors
    wrong = EmulatedShelly2([True]).reply("/rpc/Switch.GetStatus", {}, "").values
    assert isinstance(wrong, dict)
    assert wrong["code"] == -103
    # https://tasmota.github.io/docs/Commands/#control
    assert EmulatedTasmota([True]).reply("/cm", {"cmnd": "Power"}, "").values == {"POWER": "ON"}
