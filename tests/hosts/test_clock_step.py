"""The clock's step by real NTP: Raspberry Pi OS's timesyncd and a lab's chrony follow the bench's server.

Provisioning leaves a container's clock alone, so the step is asked for here, of hosts that are taken for
boards. What keeps their clients from running in a container is lifted below /run, where no step looks.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench
from roambench.provision.facts import gather
from roambench.provision.inventory.load import load_bench
from roambench.provision.provisioning import perform
from roambench.provision.ssh.hosts import HostLink, HostOutcome, on_hosts
from roambench.provision.step import HostStep
from roambench.provision.subjects.clock import clock
from roambench.provision.wanted import Identity, Wanted
from roambench.provision.wheels.agent_build import Builds

_UNITS = "/run/systemd/system"
_CLIENTS = {
    "pi1": (
        "systemd-timesyncd",
        "[Unit]\\nConditionCapability=\\nConditionVirtualization=\\n[Service]\\nAmbientCapabilities=\\n",
    ),
    "pi3": (
        "chrony",
        "[Unit]\\nConditionCapability=\\n[Service]\\nExecStart=\\n"
        "ExecStart=!/usr/sbin/chronyd \\$DAEMON_OPTS -x\\n",
    ),
}
#: A second chronyd on pi3, which serves its own clock.
_SERVER = r"""
printf 'local stratum 8\nallow\ncmdport 0\nbindcmdaddress /\npidfile /run/server.pid\n' >/run/server.conf
chronyd -x -f /run/server.conf
"""
_BROKEN = "[Service]\\nExecStart=\\nExecStart=!/usr/sbin/chronyd -f /etc/chrony/nowhere.conf\\n"


@pytest.fixture
def boards(provisioned: BenchHosts) -> Iterator[BenchHosts]:
    """Afterwards pi3 waits for no chrony at its next boot, which would not run there."""
    for name, (unit, drop_in) in _CLIENTS.items():
        folder = f"{_UNITS}/{unit}.service.d"
        provisioned.inside(name, f'mkdir -p {folder}; printf "{drop_in}" >{folder}/board.conf')
    provisioned.inside("pi3", _SERVER)
    yield provisioned
    provisioned.inside("pi3", "kill $(cat /run/server.pid); systemctl disable --quiet chrony-wait")
    for name, (unit, _) in _CLIENTS.items():
        provisioned.inside(
            name, f"systemctl stop {unit}; rm -r {_UNITS}/{unit}.service.d; systemctl daemon-reload"
        )


def _set(hosts: BenchHosts, *names: str) -> list[HostOutcome[list[str]]]:
    """The steps of the clock performed, with pi3 for the time server; subjects that are left to do."""
    bench = replace(load_bench(hosts.bench), time_server=hosts.address("pi3"))
    builds = Builds(bench.state_dir, ())

    def work(link: HostLink) -> list[str]:
        for step in _steps(link):
            perform(link, step)
        return [step.subject for step in _steps(link)]

    def _steps(link: HostLink) -> list[HostStep]:
        board = replace(gather(link), container="")
        assert board.platform is not None
        found = clock(board, Wanted(bench, link.host, builds.of(board.platform), Identity()))
        return [step for step in found if isinstance(step, HostStep)]

    return on_hosts(bench, [bench.host(name) for name in names], work)


def test_timesyncd_and_chrony_take_the_time_from_the_bench_s_server_and_a_boot_waits_for_it(
    boards: BenchHosts,
):
    assert [(one.reason, one.value) for one in _set(boards, "pi1", "pi3")] == [("", [])] * 2
    server = boards.address("pi3")
    timesyncd = "timedatectl show-timesync -p ServerAddress -p PollIntervalMaxUSec -p NTPMessage"
    told = _until(boards, "pi1", timesyncd, "PacketCount=")
    assert f"ServerAddress={server}" in told
    assert "PollIntervalMaxUSec=1min 4s" in told
    assert "Stratum=8" in told
    _until(boards, "pi3", "chronyc -n -c sources", f"^,*,{server},8,")
    for name, waiter in (("pi1", "systemd-time-wait-sync"), ("pi3", "chrony-wait")):
        assert boards.inside(name, f"systemctl is-enabled {waiter}") == "enabled\n"


def test_a_chrony_that_does_not_start_is_a_reason_in_its_own_words(boards: BenchHosts):
    boards.inside(
        "pi3", f"printf '{_BROKEN}' >{_UNITS}/chrony.service.d/trial.conf; rm -f /etc/chrony/roambench.conf"
    )
    (one,) = _set(boards, "pi3")
    assert one.reason.startswith("clock: chrony does not start (")
    assert "nowhere.conf" in one.reason
    assert one.next_action == "journalctl -u chrony.service on it"


def test_a_container_s_clock_is_left_alone(provisioned: BenchHosts):
    said = roambench("fleet", "provision", provisioned.bench, "--dry-run", "--diff", "--only", "pi3")
    assert "clock: not applicable here: a container has its machine's clock" in said.out


def _until(hosts: BenchHosts, name: str, command: str, words: str) -> str:
    deadline_s = time.monotonic() + 120.0
    while words not in (told := hosts.inside(name, command)):
        assert time.monotonic() < deadline_s, told
        time.sleep(0.5)
    return told
