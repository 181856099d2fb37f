"""Boards of a bench switched at their meters, over the WebSocket of an emulated one."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from benches import a_bench, a_host
from roambench.emulation import control
from roambench.emulation.profiles import Transport
from roambench.provision.bench import Host
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import switch_power

pytestmark = pytest.mark.asyncio


@pytest.fixture
def host(start_emulator, tmp_path) -> Host:
    emulator = start_emulator({"websocket_port": 0}, tolerance=0.0)
    address = control.addresses(emulator.socket)["pi-00"][Transport.WEBSOCKET.value]
    hop = "127.0.0.1:" + address.rpartition(":")[2]
    (described,) = a_bench(tmp_path, a_host(1)).hosts
    meter = replace(described.meter, driver="smartpower2", port="/dev/ttyUSB0", wifi_hop=hop)
    return replace(described, meter=meter)


async def is_on(host: Host) -> bool:
    (found,) = await switch_power([host], PowerCommand.STATE)
    assert found.reason == ""
    assert found.on is not None
    return found.on


async def test_off_on_and_a_cycle_are_what_the_meter_says_afterwards(host):
    for command, on in ((PowerCommand.OFF, False), (PowerCommand.ON, True), (PowerCommand.CYCLE, True)):
        (done,) = await switch_power([host], command, 0.1)
        assert (done.on, await is_on(host)) == (on, on)


async def test_an_interrupted_cycle_leaves_no_board_off(host):
    cycle = asyncio.create_task(switch_power([host], PowerCommand.CYCLE, 600.0))
    while await is_on(host):
        await asyncio.sleep(0.05)
    cycle.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cycle
    assert await is_on(host)


async def test_a_meter_that_does_not_answer_is_a_row_and_the_others_are_switched(host):
    away = replace(host, name="pi-02", meter=replace(host.meter, wifi_hop="127.0.0.1:1"))
    found, lost = await switch_power([host, away], PowerCommand.OFF)
    assert (found.on, lost.on) == (False, None)
    assert "cannot be reached" in lost.reason
    assert lost.next_action == "is the gateway up, and in the meter's Wi-Fi?"
