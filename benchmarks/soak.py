"""Random faults of many kinds in real runs, until there are enough of them; what held, and what broke.

    python benchmarks/soak.py --faults 1000 --seed 1
    python benchmarks/soak.py --seed 1 --run 17        that run again, with all its faults
    python benchmarks/soak.py --seed 1 --campaign      a campaign of 24 runs on three hosts and a spare

Every run is `roambench run` on a local fleet (real agents, emulated meters, gRPC with certificates), with
access points or without a server, with InfluxDB where it is installed, on virtual devices, or on the hosts in
containers of tests/hosts where they can be had (root; $ROAMBENCH_HOSTS_SET: those that are up). After each it
is checked that every reading that a meter said and an agent read is stored once and at its time, that what
was learned is what the unfaulted run learned wherever no training was lost, and that nothing is left behind.
The folder of a run that broke is kept.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from roambench.runs.folder import RunFolder
from soaking.campaign import CampaignSoak, hosts_with_a_spare, judged
from soaking.faults import KINDS
from soaking.hosts import SoakedHosts, lacking, soaked_hosts
from soaking.influxd import ServerMissing, binary
from soaking.plan import SHARES, PlannedRun, planned_run
from soaking.underway import Broken, Struck, Switches, Underway, compiled_shim, fleet_words
from soaking.verdict import Ended, Reference, broken, reference_of
from soaking.worlds import WORLDS, World


@dataclass(frozen=True)
class Result:
    planned: PlannedRun
    struck: tuple[Struck, ...]
    problems: tuple[str, ...]
    readings: int
    seconds: float


@dataclass
class Soak:
    """`folder` is where runs are made; those that hold are removed."""

    folder: Path
    seed: int
    keep: bool = False
    shim: Path | None = None
    hosts: SoakedHosts | None = None
    _references: dict[str, Reference] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _hosts_lock: threading.Lock = field(default_factory=threading.Lock)

    def reference(self, world: World) -> Reference:
        """What the same experiment learns when nobody disturbs it: on virtual devices, but where only agents
        tell what each of them holds after every exchange."""
        text = replace(world, quiet=False).text()
        fleet = fleet_words(world, self._hosts_of(world)) if world.peers else ["--fleet", "simulated"]
        with self._lock:
            if text not in self._references:
                base = self.folder / f"reference-{len(self._references)}"
                base.mkdir()
                (base / "soak.toml").write_text(text)
                roambench("run", str(base / "soak.toml"), *fleet, "--runs-dir", str(base))
                self._references[text] = reference_of(base / world.reference)
            return self._references[text]

    def _hosts_of(self, world: World) -> SoakedHosts | None:
        return self.hosts if world.fleet == "bench" else None

    def carry_out(self, planned: PlannedRun) -> Result:
        """One run from its plan to its verdict; on hosts one after the other."""
        with self._hosts_lock if self._hosts_of(WORLDS[planned.world]) else nullcontext():
            return self._carry_out(planned)

    def _carry_out(self, planned: PlannedRun) -> Result:
        began_s = time.monotonic()
        base = self.folder / f"run-{planned.number:04d}"
        switches = None
        if self.shim is not None:
            switches = Switches(self.shim, self.folder / f"switches-{planned.number:04d}")
            switches.folder.mkdir()
        reference = self.reference(WORLDS[planned.world])
        run = Underway(planned, base, switches, hosts=self._hosts_of(WORLDS[planned.world]))
        problems: list[str] = []
        try:
            run.carry_out()
        except Broken as error:
            problems.append(str(error))
        problems += run.not_done
        left = run.left_over()
        if run.hosts is not None:
            problems += run.hosts.not_back()
            if problems or run.status:
                run.hosts.end_run()
        try:
            if not problems:
                there = run.influx_readings() if run.influxd is not None else None
                ended = Ended(run.status or 0, run.ended_by, run.text(), left)
                problems += broken(run.folder, run.world, reference, run.struck, ended, there)
            if run.folder.is_dir():
                problems += self._report(run.folder)
        finally:
            if run.influxd is not None:
                run.influxd.stop()
        if switches is not None:
            shutil.rmtree(switches.folder, ignore_errors=True)
        readings = len(run.text()) and _readings(run.folder, run.world)
        if not problems and not self.keep:
            shutil.rmtree(base, ignore_errors=True)
        seconds = time.monotonic() - began_s
        return Result(planned, tuple(run.struck), tuple(problems), readings, seconds)

    def _report(self, folder: Path) -> list[str]:
        """`roambench report` works."""
        done = roambench("report", str(folder), "--json", check=False)
        if done.returncode:
            return [f"roambench report ends with {done.returncode}: {done.stderr.strip()[-300:]}"]
        return []


def roambench(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "roambench.cli.main", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if check and done.returncode:
        raise SystemExit(f"roambench {' '.join(words)}:\n{done.stderr}")
    return done


def _readings(folder: Path, world: World) -> int:
    if world.fleet == "bench":
        with RunFolder.open(folder) as run:
            return sum(len(run.records.readings(name)) for name in run.info.device_names)
    return sum((path.read_text().count("\n=") for path in folder.glob("agents/*/witness.txt")), start=0)


def table_of(results: list[Result]) -> Table:
    """Kind, injected, held, broken. All faults of a run that broke count as broken: any may be why."""
    injected, bad = Counter[str](), Counter[str]()
    for result in results:
        for struck in result.struck:
            injected[struck.fault.kind] += 1
            bad[struck.fault.kind] += bool(result.problems)
    table = Table("kind", "injected", "held", "broken")
    for name in KINDS:
        if injected[name]:
            row = (injected[name], injected[name] - bad[name], bad[name])
            table.add_row(name, *map(str, row))
    total, worse = injected.total(), bad.total()
    table.add_section()
    table.add_row("all", str(total), str(total - worse), str(worse))
    return table


def told(result: Result) -> str:
    planned = result.planned
    what = ", ".join(f"{s.fault.kind} ({s.fault.device} at {s.fault.at_s:.1f} s)" for s in result.struck)
    line = (
        f"run {planned.number} ({planned.world}): {len(result.struck)} faults, {result.readings} readings, "
        f"{result.seconds:.0f} s: {'BROKEN' if result.problems else 'held'}"
    )
    if result.problems:
        line += "".join(f"\n    {problem}" for problem in result.problems) + f"\n    faults: {what}"
    return line


def soaked(
    soak: Soak, faults: int, first: int, jobs: int, worlds: dict[str, float], console: Console
) -> list[Result]:
    """Runs from number `first` on, `jobs` at a time, until so many faults were injected; after Ctrl-C, those
    begun are the last."""
    results: list[Result] = []
    number, done = first, 0
    with ThreadPoolExecutor(jobs) as pool:
        pending: set[Future[Result]] = set()
        while done < faults or pending:
            while done < faults and len(pending) < jobs:
                pending.add(pool.submit(soak.carry_out, planned_run(soak.seed, number, worlds)))
                number += 1
            try:
                ready, pending = wait(pending, return_when=FIRST_COMPLETED)
            except KeyboardInterrupt:
                console.print(f"stopped: {len(pending)} runs are still under way")
                faults = 0
                continue
            for future in ready:
                try:
                    result = future.result()
                except Exception:  # no run's fault: nothing after it could be trusted
                    console.print_exception()
                    console.print("the soak itself failed")
                    faults = 0
                    continue
                results.append(result)
                done += len(result.struck)
                console.print(told(result), highlight=False, markup=False, soft_wrap=True)
    return results


def _tell_of(result: Result, console: Console) -> None:
    console.print(told(result), highlight=False, markup=False, soft_wrap=True)
    for struck in sorted(result.struck, key=lambda one: one.fault.at_s):
        fault = struck.fault
        console.print(
            f"  {fault.at_s:6.2f} s  {fault.kind}: {fault.device}, {struck.what}, {fault.lasts_s:.1f} s; "
            f"device time {struck.begun_ns} to {struck.ended_ns}",
            highlight=False,
        )


def _campaign(folder: Path, seed: int, seeds: int, console: Console) -> int:
    """Its exit status; the folder is kept."""
    with hosts_with_a_spare() as hosts:
        soak = CampaignSoak(hosts, folder, seed, seeds)
        verdict = judged(soak, soak.carry_out(patience_s=7200.0))
    console.print(verdict.told)
    for what, count in verdict.figures.items():
        console.print(f"{what}: {count}", highlight=False, markup=False)
    for problem in verdict.problems:
        console.print(f"BROKEN: {problem}", highlight=False, markup=False, soft_wrap=True)
    console.print(f"seed {seed}; kept in {folder}", highlight=False, soft_wrap=True)
    return bool(verdict.problems)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--faults", type=int, default=20, help="how many at least")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--run", type=int, help="only this run of the seed")
    parser.add_argument("--first", type=int, default=0, help="begin with this run: go on where one stopped")
    parser.add_argument("--world", action="append", choices=list(WORLDS), help="only these; repeatable")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time")
    parser.add_argument("--folder", type=Path, help="where runs are made, new")
    parser.add_argument("--keep", action="store_true", help="keep runs that held, too")
    parser.add_argument("--campaign", action="store_true", help="one campaign on hosts; half an hour or more")
    parser.add_argument("--seeds", type=int, default=6, help="of the campaign, which has 4 runs for each")
    asked = parser.parse_args()
    console = Console(width=150)
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="soak-"))
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    if asked.campaign:
        sys.exit(_campaign(folder, asked.seed, asked.seeds, console))
    worlds = {name: share for name, share in SHARES.items() if not asked.world or name in asked.world}
    try:
        binary("influxd")
    except ServerMissing as error:
        console.print(f"without InfluxDB: {error}")
        worlds.pop("influxdb", None)
    if reason := lacking():
        console.print(f"without hosts: {reason}")
        worlds = {name: share for name, share in worlds.items() if WORLDS[name].fleet != "bench"}
    shim = compiled_shim(folder)
    if shim is None:
        console.print("without faults of disks and clocks: no C compiler here")
    soak = Soak(folder, asked.seed, asked.keep or asked.run is not None, shim)
    planned = None if asked.run is None else planned_run(asked.seed, asked.run, worlds)
    with ExitStack() as stack:
        if any(WORLDS[name].fleet == "bench" for name in ([planned.world] if planned else worlds)):
            soak.hosts = stack.enter_context(soaked_hosts())
        if planned is not None:
            results = [soak.carry_out(planned)]
            _tell_of(results[0], console)
        else:
            results = soaked(soak, asked.faults, asked.first, asked.jobs, worlds, console)
    console.print(table_of(results))
    bad = [result.planned.number for result in results if result.problems]
    console.print(
        f"{len(results)} runs, {sum(result.readings for result in results)} readings, seed {asked.seed}; "
        + (f"broken: runs {bad}, kept in {folder}" if bad else "all held")
    )
    if not bad and asked.folder is None and not soak.keep:
        shutil.rmtree(folder)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
