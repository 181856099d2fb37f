"""The checks that a bench has to pass before a run measures anything on it, and those that were waived."""

from __future__ import annotations

import datetime as dt
import shlex
import time
from collections.abc import Mapping

from rich.console import Console

from roambench.contract.counts import count
from roambench.contract.errors import FleetError, HostsFailed
from roambench.energy.idle.baseline import MIN_BASELINE_S
from roambench.experiment.energy_section import EnergySection
from roambench.provision.bench import Bench, Host
from roambench.provision.checks import CheckVerdict
from roambench.provision.claims import ForeignBoard, barred
from roambench.provision.facts import PackageFacts
from roambench.provision.meter_map import doubts as meter_doubts
from roambench.provision.meter_map import read_map
from roambench.provision.preflight.preflight import check
from roambench.provision.wheels.program_kit import ProgramKit
from roambench.runner.screen import say, warn
from roambench.runs.measured.meters import VALID_FOR


def passed_gate(
    bench: Bench,
    hosts: tuple[Host, ...],
    *,
    preflight: bool,
    unproven: bool,
    console: Console,
    needed: Mapping[str, PackageFacts] | None = None,
    peers: bool = False,
    kit: ProgramKit | None = None,
) -> list[str]:
    """The doubts that the report must tell; FleetError where the bench is not fit and no option waives it.
    `needed`: the user's packages that the experiment has to find on every host, by name.
    `peers`: the hosts exchange models with each other. `kit`: the program that hosts shall have."""
    machine_ids: dict[str, str] = {}
    doubts = []
    if preflight:
        doubts += _preflight(bench, hosts, machine_ids, console, needed or {}, peers=peers, kit=kit)
    else:
        doubts.append("the run began without a preflight of the bench (--no-preflight)")
        doubts += claim_doubts(bench, hosts, console)
    known = read_map(bench)
    unsure = meter_doubts(known, hosts, time.time(), machine_ids)
    if unsure and not unproven:
        problem = "\n".join(
            [
                *(f"{host}: {reason}" for host, reason in unsure.items()),
                f"which meter powers which board is not proven for {len(unsure)} of {len(hosts)} hosts: "
                f"roambench fleet identify {shlex.quote(str(bench.file))} proves it; --unproven runs all the "
                "same and the report says so",
            ]
        )
        if known is not None and unsure.keys() <= known.reopened:  # the others of a campaign go on
            raise HostsFailed(list(unsure), problem)
        raise FleetError(problem)
    doubts += [
        f"--unproven: whose joules {host}'s meter reads is not proven: {why}" for host, why in unsure.items()
    ]
    return doubts


def claim_doubts(bench: Bench, hosts: tuple[Host, ...], console: Console) -> list[str]:
    """Ask the hosts whose they are where no preflight does; HostsFailed where another bench has any. The
    doubts name those that answer and do not say it; printed, too."""
    others = barred(bench, hosts)
    if foreign := {name: error for name, error in others.items() if isinstance(error, ForeignBoard)}:
        raise HostsFailed(list(foreign), "\n".join(map(str, foreign.values())))
    doubts = [f"{name}: whose board it is was not asked: {error.reason}" for name, error in others.items()]
    for line in doubts:
        warn(console, line)
    return doubts


def energy_doubts(
    energy: EnergySection, hosts: tuple[Host, ...], console: Console, *, baselines: bool
) -> list[str]:
    """Doubts about the experiment's idle baseline and these meters, one line each; printed, too.

    Doubts about calibrations are printed only: the report finds them by itself. `baselines`: it has any.
    """
    day = dt.datetime.now(dt.UTC).date()
    doubts = []
    if baselines and energy.idle_baseline_s < MIN_BASELINE_S:
        doubts.append(
            f"idle baselines last {energy.idle_baseline_s:g} s, on boards at least {MIN_BASELINE_S:g} s tell "
            f"the idle power (rule R8): --set energy.idle_baseline_s={MIN_BASELINE_S:g}"
        )
    all_doubts = list(doubts)
    for host in hosts:
        serial = host.meter.known_serial
        entry = energy.meters.get(serial) or energy.meters.get(host.name)
        if entry is None:
            continue
        if entry.date and day - dt.date.fromisoformat(entry.date) > VALID_FOR:
            all_doubts.append(
                f"{host.name}: its meter was calibrated {entry.date}: roambench meter calibrate"
            )
        if not entry.date:
            all_doubts.append(
                f"{host.name}: its meter's calibration has no date and may be older than a year: "
                "roambench meter calibrate"
            )
        if serial and serial not in energy.meters:
            all_doubts.append(
                f"{host.name}: its meter's calibration is filed under the board's name, which another meter "
                f"would inherit; rename its table to [{serial}]"
            )
    for line in all_doubts:
        warn(console, f"preflight: {line}")
    return doubts


def _preflight(
    bench: Bench,
    hosts: tuple[Host, ...],
    machine_ids: dict[str, str],
    console: Console,
    needed: Mapping[str, PackageFacts],
    *,
    peers: bool,
    kit: ProgramKit | None,
) -> list[str]:
    """The warnings; FleetError with every check that failed. `machine_ids` gets who answered."""
    made = check(bench, hosts, ends_runs=True, needed=needed, peers=peers, kit=kit)
    if not made.passed:
        failed = [host.host for host in made.hosts if host.of(CheckVerdict.FAIL)]
        raise HostsFailed(
            failed,
            "\n".join(
                [
                    *made.lines([CheckVerdict.FAIL]),
                    f"{len(failed)} of {len(hosts)} hosts failed the preflight; --only leaves hosts out",
                ]
            ),
        )
    machine_ids |= {host.host: host.machine_id for host in made.hosts}
    warnings = made.lines([CheckVerdict.WARN])
    for line in warnings:
        warn(console, f"preflight: {line}")
    say(console, f"preflight: {count(len(hosts), 'host')} passed")
    return [f"preflight warned: {line}" for line in warnings]
