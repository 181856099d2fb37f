"""`roambench fleet power`, as it is typed, over boards with switches of several sorts."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import forked_commands
from benches import bench_of
from roambench.extras.power.emulated import EmulatedShelly2, EmulatedTasmota, serving
from roambench.extras.power.emulated_uhubctl import install
from roambench.provision.checks import CheckVerdict
from roambench.provision.power.switching import NOT_ASKED, SeenSwitch, seen_switch
from roambench.provision.preflight.host_checks import power_switch
from switch_benches import switched_host

pytestmark = pytest.mark.lengthy

_PLAIN = {"COLUMNS": "250", "NO_COLOR": "1"}


def roambench(*words: object, **others: str) -> subprocess.CompletedProcess[str]:
    return forked_commands.roambench(*map(str, words), cwd=Path.cwd(), env={**os.environ, **_PLAIN, **others})


def described(folder: Path, *tables: str) -> Path:
    hosts = "".join(
        f'[[hosts]]\nname = "pi-{number}"\naddress = "10.36.0.{number}"\nmeter.driver = "none"\n{table}\n'
        for number, table in enumerate(tables, start=1)
    )
    return bench_of(folder, hosts).file


def test_every_host_has_its_row_and_one_that_fails_stops_no_other(tmp_path: Path) -> None:
    tasmota, shelly = EmulatedTasmota([True, True]), EmulatedShelly2([True])
    with serving(tasmota) as plug, serving(shelly) as strip:
        bench = described(
            tmp_path,
            f'power = {{switch = "tasmota", address = "{plug}", channel = 2}}',
            f'power = {{switch = "shelly", address = "{strip}"}}',
            f'power = {{on = "true", off = "echo {{host}} >{tmp_path}/did"}}',
            'power = {switch = "shelly", address = "127.0.0.1:1"}',
            "",
        )
        told = roambench("fleet", "power", bench, "off", "--json")
    assert told.returncode == 1, told.stderr
    rows = {row["host"]: row for row in json.loads(told.stdout)}
    assert [rows[f"pi-{number}"]["done"] for number in range(1, 6)] == [True, True, True, False, False]
    assert [rows[f"pi-{number}"]["on"] for number in range(1, 6)] == [False, False, None, None, None]
    assert "nothing was read back" in rows["pi-3"]["detail"]
    assert (tmp_path / "did").read_text() == "pi-3\n"
    assert (tasmota.relays, shelly.relays) == ([True, False], [False])
    assert rows["pi-4"]["next_action"] == "is it powered and in this network?"
    assert rows["pi-5"]["reason"] == "the host has no meter"
    assert "power table" in rows["pi-5"]["next_action"]


def test_a_device_with_several_outlets_is_asked_one_thing_at_a_time(tmp_path: Path) -> None:
    strip, other = EmulatedTasmota([True] * 6, takes_s=0.02), EmulatedShelly2([True] * 4, takes_s=0.02)
    with serving(strip) as address, serving(other) as beside:
        tables = [
            f'power = {{switch = "tasmota", address = "{address}", channel = {number}}}'
            for number in range(1, 7)
        ]
        tables += [f'power = {{switch = "shelly", address = "{beside}", channel = {n}}}' for n in range(4)]
        told = roambench("fleet", "power", described(tmp_path, *tables), "off", "--json")
        preflight = asked_at_once(tmp_path, address)
    assert told.returncode == 0, told.stderr
    assert (strip.relays, other.relays) == ([False] * 6, [False] * 4)
    assert preflight == [False] * 6
    assert (strip.busiest, other.busiest) == (1, 1)


def asked_at_once(folder: Path, address: str) -> list[bool | None]:
    """As preflight asks the switches of its hosts: from a thread each."""
    hosts = [
        switched_host(folder, switch="tasmota", address=address, channel=number) for number in range(1, 7)
    ]
    with ThreadPoolExecutor(6) as pool:
        return [seen.on for seen in pool.map(lambda host: asyncio.run(seen_switch(host)), hosts)]


def test_ports_of_a_machines_hubs_are_switched_one_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "1-1", 4)
    real = (tmp_path / "uhubctl").rename(tmp_path / "real")
    log = tmp_path / "log"
    (tmp_path / "uhubctl").write_text(
        f'#!/bin/sh\necho begins >>{log}\n{real} "$@"\ncode=$?\necho ends >>{log}\nexit $code\n'
    )
    (tmp_path / "uhubctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    tables = [f'power = {{switch = "uhubctl", location = "1-1", port = {port}}}' for port in range(1, 5)]
    told = roambench("fleet", "power", described(tmp_path, *tables), "off")
    assert told.returncode == 0, told.stdout + told.stderr
    lines = log.read_text().split()
    assert lines == ["begins", "ends"] * (len(lines) // 2)
    assert len(lines) >= 4 * 2


def test_the_table_says_what_was_read_back_and_what_was_not(tmp_path: Path) -> None:
    bench = described(
        tmp_path,
        f'power = {{on = "touch {tmp_path}/on", off = "rm -f {tmp_path}/on", '
        f'state = "test -e {tmp_path}/on && echo on || echo off"}}',
        'power = {on = "true", off = "true # of {host}"}',
    )
    switched = roambench("fleet", "power", bench, "on")
    assert switched.returncode == 0, switched.stderr
    lines = {line.split("│")[1].strip(): line for line in switched.stdout.splitlines() if "│ pi-" in line}
    assert lines["pi-1"].split("│")[2].strip() == "on"
    assert lines["pi-2"].split("│")[2].strip().startswith("on was done; nothing was read back")
    state = roambench("fleet", "power", bench, "state")
    assert state.returncode == 1
    assert "unknown: this switch" in state.stdout


def test_off_for_less_than_the_capacitors_need_is_refused(tmp_path: Path) -> None:
    bench = described(tmp_path, 'power = {on = "true", off = "true"}')
    refused = roambench("fleet", "power", bench, "cycle", "--off-for", "4.9")
    assert refused.returncode == 2
    assert "greater than or equal to 5" in " ".join(refused.stderr.split())


def test_a_cycle_that_somebody_interrupts_leaves_no_board_off(tmp_path: Path) -> None:
    outlet = tmp_path / "outlet"
    bench = described(
        tmp_path, f'power = {{on = "sleep 0.3; echo on >{outlet}", off = "echo off >{outlet}"}}'
    )
    words = ("fleet", "power", str(bench), "cycle", "--off-for", "600")
    with forked_commands.started(*words, cwd=Path.cwd()) as (process, _, _):
        while not outlet.exists() or outlet.read_text() != "off\n":
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert outlet.read_text() == "on\n"


def test_somebody_elses_lease_is_respected(tmp_path: Path) -> None:
    bench = described(tmp_path, f'power = {{on = "true", off = "touch {tmp_path}/did", state = "echo on"}}')
    assert roambench("fleet", "lease", bench, "--hours", "1", "--purpose", "mine").returncode == 0
    held = roambench("fleet", "power", bench, "off", HOME=str(tmp_path), USER="other", LOGNAME="other")
    assert (held.returncode, (tmp_path / "did").exists()) == (1, False), held.stdout + held.stderr


def test_list_shows_the_outlets_and_the_switches(tmp_path: Path) -> None:
    bench = described(
        tmp_path,
        'power = {switch = "tasmota", address = "10.0.0.5", channel = 2, password_file = "plug"}',
        "",
    )
    assert "tasmota 10.0.0.5 channel 2" in roambench("fleet", "list", bench).stdout
    first, second = json.loads(roambench("fleet", "list", bench, "--json").stdout)
    assert first["power"]["switch"] == "tasmota"
    assert first["power"]["keys"]["channel"] == 2
    assert second["power"] == {"switch": "meter", "keys": None}
    listed = roambench("list", "switches").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["command", "meter", "poe", "shelly", "tasmota", "uhubctl"]


def test_preflight_warns_of_a_switch_that_is_silent_off_or_armed(tmp_path: Path) -> None:
    host = switched_host(tmp_path, on="true", off="false")
    for seen, verdict, words in (
        (SeenSwitch(True, True, "delivering power"), CheckVerdict.PASS, "on, delivering power"),
        (SeenSwitch(True, False), CheckVerdict.WARN, "off, and the board runs"),
        (SeenSwitch(True, True, "", "PulseTime1 switches it off"), CheckVerdict.WARN, "PulseTime1"),
        (SeenSwitch(True, reason="no answer", next_action="look"), CheckVerdict.WARN, "no answer"),
        (SeenSwitch(False, detail="cannot be asked"), CheckVerdict.SKIP, "cannot be asked"),
    ):
        (check,) = power_switch(seen, host)
        assert check.verdict is verdict
        assert words in check.found
    (metered,) = bench_of(tmp_path, '[[hosts]]\nname = "a"\naddress = "b"\nmeter.driver = "none"').hosts
    assert list(power_switch(NOT_ASKED, metered)) == []
