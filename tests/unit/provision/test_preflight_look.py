"""The probe on this machine and in a made-up root, and a whole preflight through a real SSH server."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from benches import a_host, bench_of
from roambench.contract.json_values import from_json
from roambench.emulation import control
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec
from roambench.provision import facts_probe
from roambench.provision.agent_asks import AGENT
from roambench.provision.bench import Bench
from roambench.provision.checks import Check, CheckVerdict
from roambench.provision.claims import claim_by
from roambench.provision.facts import Facts, questions_before_a_run
from roambench.provision.layout import UNIT
from roambench.provision.power.meter import autorun_of
from roambench.provision.preflight.facts import AgentAnswers, ClockOffset, Seen
from roambench.provision.preflight.preflight import builds_of, check
from roambench.provision.ssh.hosts import open_link
from roambench.provision.status import look_at
from roambench.provision.wheels.agent_build import NOT_MADE
from ssh_server import SshServer, free_port


def probed(root: Path) -> Facts:
    asked = questions_before_a_run([]).to_json(str(root))
    said = subprocess.run(
        [sys.executable, "-I", facts_probe.__file__, asked], capture_output=True, check=True, timeout=30
    )
    return from_json(Facts, said.stdout, "facts")


def write(root: Path, name: str, text: str = "") -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.fixture
def pi(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    write(root, "etc/os-release", 'PRETTY_NAME="Debian"\nID=debian\nVERSION_ID="12"\n')
    write(root, "etc/machine-id", "0123abcd\n")
    write(root, "etc/roambench/identity/cert.pem", "PEM\n")
    write(root, "proc/device-tree/model", "Raspberry Pi 3 Model B Plus Rev 1.3\0")
    write(root, "proc/meminfo", "MemTotal:  926720 kB\nMemAvailable:  614400 kB\nHugePages_Total: 0\n")
    write(root, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    write(root, "sys/devices/platform/soc/soc:firmware/get_throttled", "50005\n")
    write(root, "sys/class/net/wlan0/wireless/link")
    write(root, "said/iw", "Power save: on\n")
    write(root, "said/systemctl", "ActiveState=active\n")
    write(root, "said/timedatectl", "yes\n")
    write(root, "said/systemd-detect-virt", "none\n")
    venv = root / "opt/roambench/builds/abc123/venv"
    write(venv, "lib/python3.11/site-packages/torch-2.9.1.dist-info/RECORD", "torch/a.py,sha256=x,1\n")
    (root / "opt/roambench/current").symlink_to(venv)
    return root


def test_the_probe_finds_what_a_pi_has(pi: Path) -> None:
    found = probed(pi)
    assert (found.os_id, found.os_version, found.bits) == ("debian", "12", 64)
    assert (found.model, found.container) == ("Raspberry Pi 3 Model B Plus Rev 1.3", "")
    assert (found.machine_id, found.unit(UNIT).active, found.current) == ("0123abcd", "active", "abc123")
    assert (found.memory_bytes, found.memory_available_bytes) == (926720 * 1024, 614400 * 1024)
    assert (found.board.governors, found.throttled) == (("performance",), 0x50005)
    assert (found.interfaces, found.board.power_save) == (("wlan0",), {"wlan0": "on"})
    assert (found.time_synchronised, found.certificate_pem) == (True, "PEM")
    assert found.state_free_bytes
    assert (found.disk_mount, found.state_mount) == ("/", "/")


def test_the_probe_finds_nothing_where_nothing_is(tmp_path: Path) -> None:
    found = probed(tmp_path / "empty")
    assert (found.model, found.unit(UNIT).active, found.current, found.wheels) == ("", "", "", None)
    assert (found.memory_available_bytes, found.state_free_bytes) == (None, None)
    assert (found.throttled, found.time_synchronised) == (None, None)
    assert (found.board.governors, found.interfaces, found.board.power_save) == ((), (), {})
    assert (found.certificate_pem, found.port_openers) == ("", ())


def test_programs_that_open_serial_ports_are_found_by_what_really_runs(tmp_path: Path) -> None:
    """A real process of that name; the kernel tells it, whoever started it."""
    program = shutil.copy(shutil.which("sleep") or "", tmp_path / "brltty")
    with subprocess.Popen([program, "60"]) as running:
        try:
            assert "brltty" in probed(Path("/")).port_openers
        finally:
            running.kill()


@pytest.mark.parametrize("autorun", [True, False])
def test_autorun_is_read_from_the_meters_own_web_socket(tmp_path: Path, autorun: bool) -> None:
    spec = EmulatorSpec(
        (EmulatedDevice("pi-01", websocket_port=0, autorun=autorun),),
        socket_path=str(tmp_path / "emulator.sock"),
        truth_dir=str(tmp_path),
    )
    path = tmp_path / "spec.json"
    path.write_text(spec.to_json())
    with subprocess.Popen([sys.executable, "-m", "roambench.emulation", str(path)]) as running:
        try:
            while not Path(spec.socket_path).exists():
                assert running.poll() is None
                time.sleep(0.01)
            hop = control.addresses(Path(spec.socket_path))["pi-01"]["websocket"].removeprefix("ws://")
            assert asyncio.run(autorun_of(a_host(1, wifi_hop=hop))) is autorun
        finally:
            running.kill()


def test_why_autorun_is_not_known_is_said() -> None:
    def told(**meter: object) -> bool | str:
        return asyncio.run(autorun_of(a_host(1, **meter)))

    assert "the serial port only talks; name a wifi_hop" in str(told())
    assert "cannot be reached" in str(told(wifi_hop=f"127.0.0.1:{free_port()}"))
    assert "silence its reader" in str(told(driver="smartpower2-websocket", port="127.0.0.1"))
    assert "not asked" in str(told(driver="smartpower2-ytrikoz-telnet", port="127.0.0.1"))
    assert told(driver="none", port="") == "no meter"


def test_the_wheels_digest_knows_every_file_but_what_is_made_here(pi: Path) -> None:
    before = probed(pi).wheels
    record = pi / "opt/roambench/builds/abc123/venv/lib/python3.11/site-packages/torch-2.9.1.dist-info/RECORD"
    record.write_text("torch/__pycache__/a.cpython-311.pyc,,\n../../../bin/torchrun,sha256=y,3\n"
                      "torch/a.py,sha256=x,1\n")  # fmt: skip
    assert probed(pi).wheels == before
    record.write_text("torch/a.py,sha256=z,1\n")
    assert probed(pi).wheels != before


def test_the_probe_runs_on_this_machine() -> None:
    found = probed(Path("/"))
    assert "lo" in found.interfaces
    assert "lo" not in found.board.power_save
    assert found.machine == os.uname().machine


@pytest.fixture
def bench(server: SshServer, tmp_path: Path) -> Bench:
    def host(name: str, port: int) -> str:
        return f"""
[[hosts]]
name = "{name}"
address = "127.0.0.1"
ssh_user = "root"
ssh_port = {port}
ssh_key = "{server.client_key}"
interface = "lo"
meter = {{ driver = "smartpower2", port = "/dev/null", emulated = true }}
power = {{ on = "touch {tmp_path}/switched", off = "touch {tmp_path}/{name}-off", state = "echo on" }}
"""

    return bench_of(tmp_path, host("pi-01", server.port) + host("pi-02", free_port()))


STATUS = {
    "build": "abc",
    "run": "",
    "meter": {"state": "ok", "last": {"age_s": 0.2, "watts": 4.9}},
}
#: The minute before is idle at 1.9 W; what a login costs comes behind it.
READINGS = {
    "now_ns": 100_000_000_000,
    "ns": [n * 1_000_000_000 for n in range(41, 101)],
    "watts": [1.9] * 53 + [4.9] * 7,
    "flags": [0] * 60,
}


def install_agent(server: SshServer, folder: Path, **answers: object) -> None:
    """It answers `ctl WHAT` with what `folder`/WHAT.json holds, and `end-run` with what end-run.sh does."""
    lines = ['case "$2" in', f"end-run) . {folder}/end-run.sh;;"]
    for what, answer in answers.items():
        (folder / f"{what}.json").write_text(json.dumps(answer))
        lines.append(f"{what}) cat {folder / what}.json;;")
    server.install_agent("\n".join([*lines, "esac"]))


def test_a_preflight_asks_all_hosts_and_keeps_who_answered(
    bench: Bench, server: SshServer, tmp_path: Path
) -> None:
    smoke = {"ok": True, "step_s": 0.4}
    install_agent(server, tmp_path, status=STATUS, readings=READINGS, smoke=smoke)
    made = check(bench)
    here, away = made.hosts
    assert (here.host, away.host) == ("pi-01", "pi-02")
    assert [(c.name, c.verdict) for c in away.checks] == [("SSH", CheckVerdict.FAIL)]
    assert "refuses" in away.checks[0].found
    found = {c.name: c for c in here.checks}
    assert found["SSH"].verdict is CheckVerdict.PASS
    # The same clock: how well that is seen depends on what else runs here.
    assert (clock := re.fullmatch(r"([+-]\d+) ± (\d+) ms", found["clock"].found)) is not None
    assert abs(int(clock[1])) <= int(clock[2]) + 1
    assert (found["torch"].verdict, found["torch"].found) == (CheckVerdict.PASS, "step_s 0.4")
    assert (found["meter"].verdict, found["meter"].found) == (CheckVerdict.PASS, "a reading 0.2 s ago")
    assert (found["idle watts"].verdict, found["idle watts"].found) == (CheckVerdict.PASS, "1.90 W")
    assert (found["power switch"].verdict, found["power switch"].found) == (CheckVerdict.PASS, "on")
    assert list(tmp_path.glob("*switched")) + list(tmp_path.glob("*-off")) == []  # asked, not switched
    assert found["Wi-Fi power save"].found == "no such hardware: lo is no radio"
    assert found["certificate"].verdict is CheckVerdict.FAIL  # this machine is no provisioned host
    assert not made.passed


def test_an_agent_that_has_only_just_begun_is_judged_by_what_it_has(
    bench: Bench, server: SshServer, tmp_path: Path
) -> None:
    young = {"now_ns": 100_000_000_000, "ns": [98_000_000_000, 99_000_000_000], "watts": [2.0, None]}
    install_agent(server, tmp_path, status=STATUS, readings=young | {"flags": [0, 0]})
    (host,) = check(bench, bench.hosts[:1], smoke=False).hosts
    assert {c.name: c.found for c in host.checks}["idle watts"] == "2.00 W"


@pytest.mark.parametrize(("session", "ends"), [("dialling", True), ("open", False), ("leaving", False)])
def test_a_run_without_a_controller_is_ended_by_whoever_holds_the_bench(
    bench: Bench, server: SshServer, tmp_path: Path, session: str, ends: bool
) -> None:
    in_it = {**STATUS, "run": "dead", "session": session}
    (tmp_path / "over.json").write_text(json.dumps(STATUS))
    (tmp_path / "end-run.sh").write_text(
        f'cp {tmp_path}/over.json {tmp_path}/status.json; echo \'{{"ended": "dead"}}\''
    )
    install_agent(server, tmp_path, status=in_it, readings=READINGS)

    def run_after(**more: bool) -> str:
        check(bench, bench.hosts[:1], smoke=False, **more)
        return json.loads((tmp_path / "status.json").read_text())["run"]

    assert run_after() == "dead"
    assert run_after(ends_runs=True) == ("" if ends else "dead")


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({}, "ctl readings: exit code 0"),
        ({"readings": {"now_ns": 1, "ns": [1], "watts": [], "flags": []}}, "not what an agent says"),
        ({"readings": READINGS, "status": {"meter": 7}}, "ctl status: not what an agent says"),
    ],
)
def test_an_agent_that_says_nonsense_costs_only_its_own_lines(
    bench: Bench, server: SshServer, tmp_path: Path, answers: dict[str, object], found: str
) -> None:
    install_agent(server, tmp_path, **answers)
    (host,) = check(bench, bench.hosts[:1], smoke=False).hosts
    agent = next(c for c in host.checks if c.name == "agent")
    assert agent.verdict is CheckVerdict.FAIL
    assert found in agent.found
    assert host.checks[0].verdict is CheckVerdict.PASS


def test_a_meter_that_hangs_on_another_host_is_asked_of_that_hosts_agent(
    bench: Bench, server: SshServer, tmp_path: Path
) -> None:
    """Both boards are this server, whose agent tells the neighbour's meter when it is asked for that."""
    reader = bench.hosts[0]
    hung = dataclasses.replace(reader.meter, port="/dev/zero", host="pi-01")
    board = dataclasses.replace(reader, name="pi-03", address="localhost", slot=3, meter=hung)
    bench = dataclasses.replace(bench, hosts=(reader, board))

    def seen(status: dict[str, object]) -> dict[str, Check]:
        install_agent(server, tmp_path, status=status, readings={**READINGS, "watts": []})
        (tmp_path / "pi-03.json").write_text(json.dumps(READINGS))
        agent = server.root / AGENT.lstrip("/")
        told = f'[ "$2 $4" = "readings pi-03" ] && exec cat {tmp_path}/pi-03.json'
        agent.write_text(agent.read_text().replace("\n", f"\n{told}\n", 1))
        (host,) = check(bench, [board], smoke=False).hosts
        return {one.name: one for one in host.checks}

    own = {"state": "lost", "last": None}
    found = seen({**STATUS, "meter": own, "neighbours": {"pi-03": STATUS["meter"]}})
    assert (found["meter"].verdict, found["meter"].found) == (CheckVerdict.PASS, "a reading 0.2 s ago")
    assert (found["idle watts"].verdict, found["idle watts"].found) == (CheckVerdict.PASS, "1.90 W")
    with open_link(bench, board) as link:
        assert look_at(link, claim_by(bench)).meter_state == "ok"
    lacking = seen(STATUS)["meter"]
    assert (lacking.verdict, lacking.found) == (CheckVerdict.FAIL, "unavailable")
    assert lacking.what_to_do == "the agent of pi-01 does not read it: roambench fleet provision"


def test_no_agent_at_all_says_to_provision(bench: Bench, server: SshServer) -> None:
    shutil.rmtree(server.root, ignore_errors=True)
    (host,) = check(bench, bench.hosts[:1]).hosts
    assert next(c for c in host.checks if c.name == "agent").found == "no agent is installed"


def test_looking_fetches_no_wheels_also_when_the_server_asks_for_others_now(bench: Bench, pi: Path) -> None:
    """Then no host can be right: what most of them run counts only where nothing was ever fetched."""
    facts = dataclasses.replace(probed(pi), machine="aarch64")
    seen = {"pi-01": Seen(facts, ClockOffset(0.0, 0.0), AgentAnswers())}
    assert builds_of(bench, seen) == {}
    of_before = (
        bench.state_dir
        / "wheelhouse"
        / f"aarch64-{sys.version_info[0]}.{sys.version_info[1]}-of-another-lock"
    )
    of_before.mkdir(parents=True)
    assert builds_of(bench, seen) == {facts.platform: NOT_MADE}
    assert list(of_before.parent.iterdir()) == [of_before]
