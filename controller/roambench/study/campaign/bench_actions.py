"""The hands of a campaign on a real bench: its hosts are asked over SSH, switched, replaced."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from roambench.contract.errors import RoambenchError
from roambench.provision.agent_asks import ask_agent
from roambench.provision.bench import NO_METER, Bench, Host
from roambench.provision.checks import CheckVerdict
from roambench.provision.claims import barred
from roambench.provision.inventory.load import load_bench
from roambench.provision.power.power_command import PowerCommand
from roambench.provision.power.switching import switch_power
from roambench.provision.preflight.preflight import check
from roambench.provision.ssh.hosts import HostLink, on_hosts
from roambench.provision.ssh.script import Script
from roambench.runner.bench_options import BenchOptions
from roambench.runner.stopping import run_async
from roambench.study.campaign.board_pool import BoardPool
from roambench.study.campaign.campaign_log import CampaignLog, CampaignRow
from roambench.study.campaign.maintenance import Maintenance

#: Provisioning a spare from nothing ships 250 MB to it.
REPLACE_S: Final = 2700.0
_IDENTIFY_S: Final = 600.0
_READ: Final = Script(
    "for zone in /sys/class/thermal/thermal_zone*; do "
    'case "$(cat $zone/type)" in cpu-thermal|cpu_thermal) cat $zone/temp;; esac; done'
)


@dataclass(slots=True)
class BenchActions:
    """Actions on a real bench, whose lease this process holds. Its description is read again each time:
    spares that play a board stand in it, and people mend it."""

    file: Path
    options: BenchOptions

    def _bench(self) -> Bench:
        return load_bench(self.file)

    def hosts(self) -> Sequence[Host]:
        """The hosts as they are described now."""
        return self._bench().hosts

    def trouble(self, boards: Sequence[str]) -> dict[str, str]:
        """By the preflight; where the user waived that, whether the agent answers."""
        bench = self._bench()
        hosts = [host for host in bench.hosts if host.name in boards]
        try:
            if not self.options.preflight:
                return {
                    one.host.name: one.reason
                    for one in on_hosts(bench, hosts, lambda link: ask_agent(link, "status"))
                    if one.failed
                }
            made = check(bench, hosts, ends_runs=True)
        except RoambenchError as error:
            return dict.fromkeys(boards, str(error))
        found = {}
        for host in made.hosts:
            if failed := host.of(CheckVerdict.FAIL):
                found[host.host] = "; ".join(f"{one.name}: {one.found}" for one in failed)
        return found

    def power_cycle(self, boards: Sequence[str]) -> dict[str, str]:
        """Each by its own switch."""
        bench = self._bench()
        hosts = [host for host in bench.hosts if host.name in boards]
        others = barred(bench, hosts)
        free = [host for host in hosts if host.name not in others]
        switched = run_async(switch_power(free, PowerCommand.CYCLE))
        failed = {one.host.name: one.reason for one in switched if not one.done}
        return failed | {name: error.reason for name, error in others.items()}

    def temperatures(self, boards: Sequence[str]) -> Mapping[str, float]:
        """By a file of the kernel's."""
        bench = self._bench()
        return bench_temperatures(bench, [host for host in bench.hosts if host.name in boards])

    def replace(self, board: str, spare: str) -> str:
        """By `fleet replace` and, for the meter's proof, `fleet identify`, in processes that can be ended."""
        if why := _command(["fleet", "replace", str(self.file), board, spare], REPLACE_S):
            return why
        host = self._bench().host(board)
        if self.options.unproven or host.meter.driver == NO_METER:
            return ""
        words = ["fleet", "identify", str(self.file), "--only", board]
        return _command(words, _IDENTIFY_S) and _command(words, _IDENTIFY_S)  # a noisy minute spoils one


def board_pool_of(
    file: Path,
    options: BenchOptions,
    *,
    failures: int,
    least: int | None,
    log: CampaignLog,
    rows: Sequence[CampaignRow],
    report: Callable[[str], None],
) -> BoardPool:
    """The boards of the bench in `file`, with the standing that `rows` (of earlier sessions) tell."""
    return BoardPool(BenchActions(file, options), options, least, log, report, Maintenance(failures, rows))


def bench_temperatures(bench: Bench, hosts: Sequence[Host]) -> dict[str, float]:
    """Return the temperature of every host that reports one; asked with as little work as possible."""

    def ask(link: HostLink) -> float | None:
        said = link.run(_READ).out.split()
        return max(int(value) for value in said) / 1000.0 if said and all(map(bytes.isdigit, said)) else None

    return {
        outcome.host.name: outcome.value
        for outcome in on_hosts(bench, hosts, ask)
        if outcome.value is not None
    }


def _command(words: list[str], most_s: float) -> str:
    """Run a command of ours; its last words where it failed, "" where it did what it should."""
    process = subprocess.Popen(
        [sys.executable, "-m", "roambench.cli.main", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        said, _ = process.communicate(timeout=most_s)
    except subprocess.TimeoutExpired:
        return f"roambench {' '.join(words[:2])}: no end within {most_s:.0f} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode == 0:
        return ""
    last = [line.strip() for line in said.splitlines() if line.strip()][-3:]
    return " ".join(last) or f"roambench {' '.join(words[:2])} ended with status {process.returncode}"
