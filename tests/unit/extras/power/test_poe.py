"""PoE over SNMP, at Net-SNMP's own agent: two rows of POWER-ETHERNET-MIB, one of them writable."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import Switched, seen_switch, switch_power
from ssh_server import free_port
from switch_benches import COMMANDS, secret_file, switched_host

_SYSTEM = "/usr/sbin:/sbin:" + os.environ.get("PATH", "")
_AGENT = shutil.which("snmpd", path=_SYSTEM)

pytestmark = [
    pytest.mark.asyncio,
    pytest.mark.lengthy,
    pytest.mark.skipif(
        _AGENT is None or shutil.which("snmpget") is None, reason="needs snmpd and snmp (make servers)"
    ),
]

_MIB = ".1.3.6.1.2.1.105.1.1.1"
_CONFIGURATION = f"""
rwcommunity "may write" 127.0.0.1
rocommunity looker 127.0.0.1
override -rw {_MIB}.3.1.7 integer 1
override -rw {_MIB}.6.1.7 integer 3
override -rw {_MIB}.3.1.8 integer 1
override -rw {_MIB}.6.1.8 integer 3
override -rw {_MIB}.3.2.7 integer 1
override -rw {_MIB}.3.1.9 integer 99
override -rw {_MIB}.3.1.10 octet_str {"x" * 400}
"""


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[str]:
    assert _AGENT is not None
    folder = tmp_path / "agent"
    folder.mkdir()
    (folder / "snmpd.conf").write_text(_CONFIGURATION)
    address = f"127.0.0.1:{free_port()}"
    for name, community in (("writer", "may write"), ("looker", "looker"), ("stranger", "stranger")):
        secret_file(tmp_path / name, f"{community}\n")
    environment = {**os.environ, "SNMP_PERSISTENT_DIR": str(folder), "MIBS": "", "MIBDIRS": str(folder)}
    process = subprocess.Popen(
        [_AGENT, "-f", "-Lf", str(folder / "log"), "-C", "-c", str(folder / "snmpd.conf"), f"udp:{address}"],
        env=environment,
    )
    try:
        while "NET-SNMP version" not in (folder / "log").read_text() if (folder / "log").exists() else True:
            assert process.poll() is None, (folder / "log").read_text()
        yield address
    finally:
        process.terminate()
        process.wait()


async def done(folder: Path, command: PowerCommand, address: str, **power: object) -> Switched:
    keys = {"switch": "poe", "port": 7, "community_file": "writer", "address": address, **power}
    (switched,) = await switch_power([switched_host(folder, **keys)], command, 0.1)
    return switched


def asked_by_hand(address: str, column: str) -> str:
    """What another program than ours says of it."""
    return subprocess.run(
        ["snmpget", "-v2c", "-c", "looker", "-Oqv", address, f"{_MIB}.{column}"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "MIBS": ""},
    ).stdout.strip()


def set_by_hand(address: str, column: str, value: str) -> None:
    words = ["snmpset", "-v2c", "-c", "may write", address, f"{_MIB}.{column}", "i", value]
    subprocess.run(words, check=True, capture_output=True, env={**os.environ, "MIBS": ""})


@pytest.mark.parametrize("version", ["1", "2c"])
async def test_one_port_is_switched_and_no_other(agent: str, tmp_path: Path, version: str) -> None:
    for command, on in COMMANDS:
        switched = await done(tmp_path, command, agent, version=version)
        assert (switched.done, switched.on, switched.reason) == (True, on, "")
        assert asked_by_hand(agent, "3.1.7") == ("1" if on else "2")
        assert [asked_by_hand(agent, other) for other in ("3.1.8", "3.2.7")] == ["1", "1"]
    assert switched.detail == "delivering power"
    member = await done(tmp_path, PowerCommand.OFF, agent, version=version, group=2)
    assert (member.on, member.detail, asked_by_hand(agent, "3.2.7")) == (False, "", "2")


async def test_what_an_agent_refuses_is_told_with_what_to_do(agent: str, tmp_path: Path) -> None:
    for version in ("1", "2c"):
        read_only = await done(tmp_path, PowerCommand.OFF, agent, community_file="looker", version=version)
        assert not read_only.done
        assert "community" in read_only.next_action
        no_port = await done(tmp_path, PowerCommand.STATE, agent, port=99, version=version)
        assert not no_port.done
        assert no_port.next_action
    assert asked_by_hand(agent, "3.1.7") == "1"
    for port in (9, 10):
        odd = await done(tmp_path, PowerCommand.STATE, agent, port=port)
        assert "expected 1 or 2" in odd.reason
        assert len(odd.reason) <= 300


async def test_an_agent_is_silent_for_a_stranger_and_the_message_says_so(agent: str, tmp_path: Path) -> None:
    stranger = await done(tmp_path, PowerCommand.OFF, agent, community_file="stranger")
    assert stranger.reason == f"{agent} port 7: no answer over SNMP"
    assert "a wrong community gets no answer" in stranger.next_action
    assert asked_by_hand(agent, "3.1.7") == "1"


async def test_a_port_that_finds_no_board_is_found_by_preflight(agent: str, tmp_path: Path) -> None:
    host = switched_host(tmp_path, switch="poe", address=agent, port=7, community_file="writer")
    assert (await seen_switch(host)).trouble == ""
    set_by_hand(agent, "6.1.7", "4")
    assert (await seen_switch(host)).trouble == "the port is enabled, its switch says: fault"


async def test_the_community_is_on_no_command_line_and_its_file_is_the_users_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = tmp_path / "bin" / "snmpget"
    spy.parent.mkdir()
    spy.write_text(
        '#!/bin/sh\nd=$(dirname "$0")\necho "$@" >"$d/words"\ntr "\\0" " " </proc/self/environ >>"$d/words"\n'
        'stat -c "%a" "$SNMPCONFPATH" >"$d/mode"\ncp "$SNMPCONFPATH/snmp.conf" "$d/conf"\necho 1\n'
    )
    spy.chmod(0o755)
    secret_file(tmp_path / "writer", "hush\n")
    monkeypatch.setenv("PATH", f"{spy.parent}:/usr/bin:/bin")
    assert (await done(tmp_path, PowerCommand.STATE, "10.0.0.2")).on is True
    assert "hush" in (spy.parent / "conf").read_text()
    assert "hush" not in (spy.parent / "words").read_text()
    assert stat.S_IMODE(int((spy.parent / "mode").read_text(), 8)) == 0o700


@pytest.mark.parametrize("text", ['a"b', "a\\b", "", "a\x07b"])
async def test_a_community_that_cannot_be_is_a_sentence(tmp_path: Path, text: str) -> None:
    secret_file(tmp_path / "writer", text)
    switched = await done(tmp_path, PowerCommand.STATE, "127.0.0.1:1")
    assert switched.reason.startswith("power.community_file: ")


@contextmanager
def udp_server(answer: Callable[[bytes], bytes]) -> Iterator[str]:
    """Answers every datagram."""
    ended = threading.Event()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.settimeout(0.05)

        def serve() -> None:
            while not ended.is_set():
                try:
                    asked, sender = server.recvfrom(65535)
                except TimeoutError:
                    continue
                server.sendto(answer(asked), sender)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{server.getsockname()[1]}"
        finally:
            ended.set()
            thread.join()


async def test_garbage_of_an_agent_ends_in_time_and_in_one_line(tmp_path: Path) -> None:
    """At once: what is no SNMP, what is cut off, what echoes the question, what claims to be endless."""
    answers: list[Callable[[bytes], bytes]] = [
        lambda asked: b"\x00" * 1400,
        lambda asked: asked[: len(asked) // 2],
        lambda asked: asked,
        lambda asked: b"\x30\x84\xff\xff\xff\xff" + asked,
        lambda asked: b"HTTP/1.1 200 OK\r\n\r\n",
    ]
    secret_file(tmp_path / "writer", "may write\n")

    async def one(answer: Callable[[bytes], bytes], number: int) -> Switched:
        folder = tmp_path / str(number)
        folder.mkdir()
        secret_file(folder / "writer", "may write\n")
        with udp_server(answer) as address:
            return await done(folder, PowerCommand.STATE, address)

    for switched in await asyncio.gather(*(one(answer, number) for number, answer in enumerate(answers))):
        assert not switched.done
        assert switched.reason.isprintable()
        assert len(switched.reason) <= 300
