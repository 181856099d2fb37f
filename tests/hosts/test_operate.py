"""What one does with a bench's hosts besides runs: look, run a command, reboot, switch power."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hosts.card_walk import ROOT
from hosts.lab.bench_hosts import BenchHosts
from hosts.lab.cli import roambench
from roambench.provision.inventory.load import load_bench
from roambench.provision.ssh.login import host_group


@pytest.fixture
def all_on(bench_hosts: BenchHosts) -> Iterator[BenchHosts]:
    yield bench_hosts
    for name in bench_hosts.names:
        bench_hosts.on(name)


def test_exec_says_whose_line_each_is_and_whose_command_failed(bench_hosts: BenchHosts):
    said = roambench("fleet", "exec", bench_hosts.bench, "--", "hostname")
    assert (said.code, sorted(said.out.splitlines())) == (0, ["pi1: pi1", "pi2: pi2", "pi3: pi3"])
    command = 'test "$(hostname)" != pi2'
    said = roambench("fleet", "exec", bench_hosts.bench, "--root", "--", command)
    assert (said.code, said.err.splitlines()) == (1, ["pi2: exit code 1"])


def test_the_pages_fabric_task_runs_on_the_bench_and_so_do_files_and_sudo(
    bench_hosts: BenchHosts, tmp_path: Path
):
    page = (ROOT / "docs/operate.md").read_text()
    (tmp_path / "fabfile.py").write_text(page.partition("```python\n")[2].partition("```")[0])
    fab = Path(sys.executable).with_name("fab")
    subprocess.run(
        [fab, "kernels", "--bench", bench_hosts.bench, "--only", "pi1 pi3"], cwd=tmp_path, check=True
    )
    written = {file.stem: file.read_text() for file in (tmp_path / "boards").iterdir()}
    assert sorted(written) == ["pi1", "pi3"]
    assert all(bench_hosts.inside(name, "uname -r").strip() in text for name, text in written.items())
    (tmp_path / "sent").write_text("ours\n")
    with host_group(load_bench(bench_hosts.bench)) as group:
        group.put(str(tmp_path / "sent"), "sent")
        results = group.sudo("sh -c 'cp sent /root/ && id -un'", hide=True, in_stream=False)
        assert [result.stdout for result in results.values()] == ["root\n"] * 3
        group.sudo("rm /root/sent && rm sent", hide=True, in_stream=False)
    assert sorted(connection.bench_host.name for connection in results) == ["pi1", "pi2", "pi3"]


def test_logs_are_in_the_order_of_their_times_and_following_ends_without_a_trace(
    provisioned: BenchHosts, tmp_path: Path
):
    said = roambench("fleet", "logs", provisioned.bench, "-n", "30", "--json")
    lines = [json.loads(line) for line in said.out.splitlines()]
    assert said.code == 0
    assert {line["host"] for line in lines} == set(provisioned.names)
    assert [line["at"] for line in lines] == sorted(line["at"] for line in lines)
    assert len({line["at"][:13] for line in lines if line["at"]}) <= 24  # UTC, whatever the hosts' zones are
    command = [sys.executable, "-m", "roambench.cli.main", "fleet", "logs", str(provisioned.bench)]
    options = ["--follow", "-n", "0", "--only", "pi2", "-o", str(tmp_path)]
    following = "pgrep -fc '^journalctl .*--follow' || true"
    with subprocess.Popen([*command, *options]) as process:
        wait_for(lambda: provisioned.inside("pi2", following).strip() == "1")
        provisioned.inside("pi2", "systemctl restart roambench-agent")
        log = tmp_path / "pi2.log"
        wait_for(lambda: log.exists() and "\n" in log.read_text())
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=120) == 130
    assert log.read_text().startswith("20")
    wait_for(lambda: provisioned.inside("pi2", following).strip() == "0")
    said = roambench("fleet", "logs", provisioned.bench, "--only", "pi2", "--follow", "--since", "whenever")
    assert said.code == 1
    assert said.err.startswith("pi2: its journal ended: "), said


def wait_for(reached: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 120.0
    while not reached():
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def test_a_host_without_power_is_a_row_with_reason_and_next_action_and_stops_no_other(all_on: BenchHosts):
    all_on.off("pi2")
    said = roambench("fleet", "status", all_on.bench, "--json")
    assert said.code == 1
    told = {row["host"]: row for row in json.loads(said.out)}
    assert [told[name]["up"] for name in ("pi1", "pi2", "pi3")] == [True, False, True]
    assert told["pi2"]["reason"].startswith("no answer from") or "No route to host" in told["pi2"]["reason"]
    assert told["pi2"]["next_action"] == "is it powered, booted and on this network?"
    assert abs(told["pi1"]["clock_offset_s"]) <= told["pi1"]["clock_bound_s"] < 0.5  # the kernel is the same


def test_reboot_waits_for_another_boot_of_the_chosen_hosts_only(bench_hosts: BenchHosts):
    boot = "cat /proc/sys/kernel/random/boot_id"
    before = {name: bench_hosts.inside(name, boot) for name in bench_hosts.names}
    said = roambench("fleet", "reboot", bench_hosts.bench, "--only", "pi3")
    assert said.code == 0, said
    assert said.rows()["pi3"]["back after"].endswith(" s")
    after = {name: bench_hosts.inside(name, boot) for name in bench_hosts.names}
    assert [after[name] == before[name] for name in ("pi1", "pi2", "pi3")] == [True, True, False]


def test_power_goes_through_the_meter_and_takes_the_board_with_it(all_on: BenchHosts):
    said = roambench("fleet", "power", all_on.bench, "off", "--only", "pi3")
    assert (said.code, said.rows()["pi3"]["output"]) == (0, "off, 5.10 V")
    told = json.loads(roambench("fleet", "power", all_on.bench, "state", "--json").out)
    assert [row["on"] for row in told] == [True, True, False]
    said = roambench("fleet", "power", all_on.bench, "cycle", "--only", "pi3")
    assert (said.code, said.rows()["pi3"]["output"]) == (0, "on, 5.10 V")


def test_a_meter_without_a_gateway_to_its_wifi_says_that_it_cannot_be_switched(
    bench_hosts: BenchHosts, tmp_path: Path
):
    lines = bench_hosts.bench.read_text().splitlines()
    first = next(line for line in lines if "wifi_hop" in line)
    bench = tmp_path / "bench.toml"
    bench.write_text("\n".join(line for line in lines if line != first))
    said = roambench("fleet", "power", bench, "state")
    assert said.code == 1
    rows = said.rows()
    assert rows["pi1"]["output"] == ""
    assert rows["pi1"]["reason"].startswith("the serial port only talks")
    assert rows["pi2"]["output"] == "on, 5.10 V"
