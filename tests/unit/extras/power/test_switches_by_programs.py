"""A lab's own commands, uhubctl, and rows of other packages."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from pathlib import Path

import pytest

from foreign_packages import importable
from foreign_packages import install as install_package
from roambench.contract.errors import ConfigError
from roambench.extras.power import emulated_uhubctl
from roambench.extras.power.programs import run_program
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switch import SwitchError
from roambench.provision.power.switching import seen_switch, switch_power
from switch_benches import COMMANDS, done, switched_host

pytestmark = [pytest.mark.asyncio, pytest.mark.lengthy]


async def test_a_labs_own_commands(tmp_path: Path) -> None:
    outlet = tmp_path / "outlet"
    power = {
        "on": f"echo on >{outlet}",
        "off": f"echo off >{outlet}",
        "state": f"echo outlet 3 is $(cat {outlet})",
    }
    for command, on in COMMANDS:
        switched = await done(tmp_path, command, **power)
        assert (switched.done, switched.on, switched.reason) == (True, on, "")
        assert outlet.read_text() == ("on\n" if on else "off\n")
    assert (await seen_switch(switched_host(tmp_path, **power))).on is True


async def test_without_a_state_command_nothing_is_claimed(tmp_path: Path) -> None:
    power = {"on": f"echo on >>{tmp_path}/did", "off": f"echo off >>{tmp_path}/did"}
    switched = await done(tmp_path, PowerCommand.CYCLE, **power)
    assert (switched.done, switched.on) == (True, None)
    assert switched.detail == "cycle was done; nothing was read back: this switch cannot be asked"
    assert (tmp_path / "did").read_text() == "off\non\n"
    state = await done(tmp_path, PowerCommand.STATE, **power)
    assert (state.done, state.reason) == (False, "unknown: this switch cannot be asked")
    assert "state" in state.next_action
    seen = await seen_switch(switched_host(tmp_path, **power))
    assert (seen.asked, seen.reason) == (False, "")


async def test_a_cycle_is_off_for_its_time_and_on_also_where_off_failed(tmp_path: Path) -> None:
    power = {"on": f"date +%s.%N >{tmp_path}/on", "off": f"date +%s.%N >{tmp_path}/off"}
    (switched,) = await switch_power([switched_host(tmp_path, **power)], PowerCommand.CYCLE, 1.5)
    assert switched.done
    began, ended = (float((tmp_path / name).read_text()) for name in ("off", "on"))
    assert ended - began >= 1.5
    failed = await done(
        tmp_path, PowerCommand.CYCLE, on=f"touch {tmp_path}/again", off="echo no such outlet >&2; exit 3"
    )
    assert (failed.done, failed.reason) == (False, "power.off: no such outlet (exit code 3)")
    assert (tmp_path / "again").exists()


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("exit 7", "power.state: exit code 7"),
        ("true", "power.state: expected `on` or `off` as its last word, it prints nothing"),
        ("echo maybe", "power.state: expected `on` or `off` as its last word, it prints 'maybe'"),
        (
            "printf '\\033[2Jwhat\\377'",
            "power.state: expected `on` or `off` as its last word, it prints '?[2Jwhat",
        ),
        ("yes on", "power.state: answers with more than 64 KiB"),
        ("yes on >&2", "power.state: answers with more than 64 KiB"),
        ("sleep 60", "power.state: no answer within 1.5 s"),
        ("sleep 60 & echo on", "power.state: no answer within 1.5 s"),
        ("trap '' TERM INT HUP; while :; do sleep 1; done", "power.state: no answer within 1.5 s"),
    ],
)
async def test_commands_that_fail_lie_or_hang(tmp_path: Path, command: str, reason: str) -> None:
    switched = await done(tmp_path, PowerCommand.STATE, on="true", off="true", state=command, timeout_s=1.5)
    assert not switched.done
    assert switched.reason.startswith(reason)
    assert switched.reason.isprintable()


async def test_a_program_that_is_ended_leaves_nothing_behind(tmp_path: Path) -> None:
    mark = f"sleep {600 + os.getpid() % 100}.{time.time_ns()}"
    with pytest.raises(SwitchError, match="no answer within 1 s"):
        await run_program(["sh", "-c", f"({mark} & {mark}; true) & {mark}; true"], "it", 1.0)
    left = [mark.encode()]
    for _ in range(100):  # the killed are reaped by init in its own time
        left = [line for line in _command_lines() if mark.split()[1].encode() in line]
        if not left:
            break
        await asyncio.sleep(0.1)
    assert left == []


def _command_lines() -> list[bytes]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.append((process / "cmdline").read_bytes())
        except OSError:
            continue
    return found


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of an emulated uhubctl, first on the PATH, whose hub 1-1 has four ports."""
    folder = tmp_path / "bin"
    folder.mkdir()
    emulated_uhubctl.install(folder, "1-1", 4)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def ports(folder: Path) -> list[bool]:
    found = json.loads((folder / "hub.json").read_text())["ports"]
    assert isinstance(found, list)
    return found


async def test_one_port_of_a_hub_is_switched_and_no_other(hub: Path, tmp_path: Path) -> None:
    power = {"switch": "uhubctl", "location": "1-1", "port": 2}
    for command, on in COMMANDS:
        switched = await done(tmp_path, command, **power)
        assert (switched.done, switched.on, switched.reason) == (True, on, "")
        assert ports(hub) == [True, on, True, True]
    assert (await seen_switch(switched_host(tmp_path, **power))).trouble == ""


async def test_a_hub_that_switches_all_its_ports_together_is_found(hub: Path, tmp_path: Path) -> None:
    emulated_uhubctl.install(hub, "1-1", 4, ganged=True)
    seen = await seen_switch(switched_host(tmp_path, switch="uhubctl", location="1-1", port=2))
    assert seen.trouble == "this hub switches all of its ports together"


async def test_hubs_and_ports_that_are_not_there(hub: Path, tmp_path: Path) -> None:
    no_hub = await done(tmp_path, PowerCommand.OFF, switch="uhubctl", location="2-1.4", port=1)
    assert no_hub.reason == "hub 2-1.4 port 1: uhubctl finds no such hub with switchable ports"
    assert "udev rule" in no_hub.next_action
    no_port = await done(tmp_path, PowerCommand.OFF, switch="uhubctl", location="1-1", port=9)
    assert no_port.reason.startswith("hub 1-1 port 9: uhubctl tells nothing of it")
    assert ports(hub) == [True] * 4


@pytest.mark.skipif(
    shutil.which("uhubctl", path="/usr/sbin:/usr/bin") is None, reason="needs uhubctl (make servers)"
)
async def test_the_real_uhubctl_without_such_a_hub_says_the_same(tmp_path: Path) -> None:
    found = await done(tmp_path, PowerCommand.STATE, switch="uhubctl", location="99-7", port=1)
    assert found.reason == "hub 99-7 port 1: uhubctl finds no such hub with switchable ports"


#: As uhubctl 2 prints them: a USB 3 hub in its two halves, and a device with "power" in its name.
_PRINTED = """\
Current status for hub 2-1.4 [2109:0817 VIA Labs, Inc. USB3.0 Hub, USB 3.00, 4 ports, ppps]
  Port 2: 02a0 power 5gbps Rx.Detect
Current status for hub 1-1.4 [2109:2817 VIA Labs, Inc. USB2.0 Hub, USB 2.10, 4 ports, ppps]
  Port 2: 0000 off
  Port 3: 0503 power highspeed enable connect [0483:3748 STMicroelectronics STM32 STLink]
  Port 4: 0003 off enable connect [0483:3748 power supply]
"""


@pytest.mark.parametrize(
    ("location", "port", "on"),
    [("1-1.4", 2, False), ("1-1.4", 3, True), ("1-1.4", 4, False), ("2-1.4", 2, True), ("2-1.4", 3, None)],
)
async def test_of_two_halves_the_named_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str, port: int, on: bool | None
) -> None:
    program = tmp_path / "uhubctl"
    (tmp_path / "printed").write_text(_PRINTED)
    program.write_text(f"#!/bin/sh\ncat {tmp_path}/printed\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    found = await done(tmp_path, PowerCommand.STATE, switch="uhubctl", location=location, port=port)
    assert (found.on, found.done) == (on, on is not None)


async def test_a_hub_on_another_machine_is_switched_there(
    hub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An `ssh` that runs the command here, and writes down whom it was asked to log in to."""
    program = tmp_path / "ssh-bin" / "ssh"
    program.parent.mkdir()
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\necho "$1" >"$(dirname "$0")/host"\nshift\n'
        'exec sh -c "$*"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    power = {"switch": "uhubctl", "location": "1-1", "port": 3, "host": "pi@gate"}
    switched = await done(tmp_path, PowerCommand.OFF, **power)
    assert (switched.on, ports(hub)) == (False, [True, True, False, True])
    assert (program.parent / "host").read_text() == "pi@gate\n"


async def test_a_machine_that_ssh_does_not_reach(tmp_path: Path) -> None:
    power = {"switch": "uhubctl", "location": "1-1", "port": 3, "host": "no-such-gate.invalid"}
    found = await done(tmp_path, PowerCommand.STATE, **power)
    assert "ssh" in found.reason
    assert found.next_action == "does `ssh no-such-gate.invalid` log in by itself?"


_FOREIGN = """
import asyncio

from roambench.meters.switching import PowerState
from roambench.provision.power.switch import SwitchRow
from roambench.written.toml_file import Section


class Keys(Section):
    outlet: int


class Odd:
    def __init__(self, keys, host):
        self.keys, self.host = keys, host

    async def on(self):
        raise ZeroDivisionError("\\x1b[2J of theirs")

    async def off(self):
        pass

    async def state(self):
        return PowerState(True, detail=f"outlet {self.keys.outlet} of {self.host.name}")


ODD = SwitchRow("an odd one", Keys, lambda keys: str(keys.outlet), Odd)
NONE = 3
"""


async def test_a_row_of_another_package_is_used_and_its_errors_are_rows(tmp_path: Path) -> None:
    points = {"roambench.switches": {"odd": "pocket_bench.odd:ODD", "broken": "pocket_bench.odd:NONE"}}
    site = install_package(tmp_path / "packages", {"pocket_bench/odd.py": _FOREIGN}, points)
    with importable(site):
        state = await done(tmp_path, PowerCommand.STATE, switch="odd", outlet=4)
        assert (state.on, state.detail) == (True, "outlet 4 of pi-01")
        failed = await done(tmp_path, PowerCommand.ON, switch="odd", outlet=4)
        assert (failed.done, failed.reason) == (False, "switch 'odd': ZeroDivisionError: ?[2J of theirs")

        with pytest.raises(ConfigError) as raised:
            switched_host(tmp_path, switch="broken", outlet=4)
    (line,) = raised.value.problems
    assert "hosts[1].power.switch: switch 'broken' (pocket-bench pocket_bench.odd:NONE): expected a" in line
