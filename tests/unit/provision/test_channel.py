"""A command's channel against an SSH server that does not do what sshd does."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import paramiko
import pytest

from roambench.provision.ssh.channel import _give_up, perform


class Mute(paramiko.ServerInterface):
    """Lets everybody in, and does not answer when it is asked to run a command."""

    def __init__(self) -> None:
        self.over = threading.Event()

    def check_auth_none(self, username: str) -> int:
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        return paramiko.OPEN_SUCCEEDED

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        return self.over.wait(20) and False


@pytest.fixture
def channel() -> Iterator[paramiko.Channel]:
    mute = Mute()
    here, there = socket.socketpair()
    server = paramiko.Transport(there)
    server.add_server_key(paramiko.ECDSAKey.generate())
    client = paramiko.Transport(here)
    try:
        server.start_server(server=mute, event=threading.Event())
        client.start_client(timeout=300)
        client.auth_none("anybody")
        yield client.open_session(timeout=300)
    finally:
        mute.over.set()
        client.close()
        server.close()
        for transport in (client, server):
            transport.join(10)


def test_a_host_that_never_says_whether_it_began_is_given_up(channel: paramiko.Channel) -> None:
    with pytest.raises(TimeoutError):
        perform(channel, "true", b"", timeout_s=0.2, most_bytes=100)


def test_a_channel_whose_connection_broke_meanwhile_is_given_up_in_silence(channel: paramiko.Channel) -> None:
    channel.get_transport().sock.close()
    _give_up(channel)
    assert channel.closed
