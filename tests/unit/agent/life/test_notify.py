"""systemd hears that the agent is ready and that its loop turns; without systemd nothing happens."""

import asyncio
import socket
from contextlib import closing

import pytest

from roambench.agent.life.notify import keep_watchdog, notify, watchdog_period_s


@pytest.fixture
def systemd(tmp_path, monkeypatch):
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind(str(tmp_path / "notify"))
        listening.settimeout(30)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        yield listening


def test_one_word_is_one_datagram(systemd):
    assert notify("READY=1")
    assert systemd.recv(100) == b"READY=1"


def test_an_abstract_socket_is_spelled_with_an_at_sign(monkeypatch):
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as listening:
        listening.bind("\0roambench-test-notify")
        monkeypatch.setenv("NOTIFY_SOCKET", "@roambench-test-notify")
        assert notify("READY=1")
        assert listening.recv(100) == b"READY=1"


def test_nobody_listens(monkeypatch, tmp_path):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    assert not notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    assert not notify("READY=1")


@pytest.mark.parametrize(("value", "period_s"), [("30000000", 15.0), ("", 0.0), ("soon", 0.0)])
def test_the_watchdog_is_fed_twice_as_often_as_systemd_looks(monkeypatch, value, period_s):
    monkeypatch.setenv("WATCHDOG_USEC", value)
    assert watchdog_period_s() == period_s


@pytest.mark.asyncio
async def test_it_is_fed_until_the_agent_ends(systemd):
    feeding = asyncio.create_task(keep_watchdog(0.01))
    heard = [await asyncio.to_thread(systemd.recv, 100) for _ in range(3)]
    feeding.cancel()
    await asyncio.gather(feeding, return_exceptions=True)
    assert heard == [b"WATCHDOG=1"] * 3
