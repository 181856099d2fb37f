"""A run on a bench: what stops it, what a user may waive, and what the report then has to say."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benches import a_bench, a_host
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import FleetError, HostsFailed
from roambench.contract.events import EventKind
from roambench.contract.records import AgentEvent, RecordKind
from roambench.experiment.energy_section import EnergySection
from roambench.experiment.sections import Experiment
from roambench.meters.traits import MeterDescription
from roambench.provision.bench import Bench, Host
from roambench.provision.checks import Check, CheckVerdict, HostChecks, Preflight
from roambench.provision.meter_map import MapEntry, MeterMap, Proof, cabling, meter_id, void, write_map
from roambench.runner.benches import bench_gate
from roambench.runner.benches.bench_gate import energy_doubts, passed_gate
from roambench.runner.benches.void_proofs import void_proofs
from small_runs import a_run

GOOD = Check("SSH", CheckVerdict.PASS, "10.0.0.1")
HOT = Check("power supply", CheckVerdict.WARN, "since boot: throttled", "no throttling", "better cooling")
FULL = Check("disk", CheckVerdict.FAIL, "11 MiB free", "at least 2,048 MiB", "free some space")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return a_bench(tmp_path, a_host(1), a_host(2))


def prove(bench: Bench, *boards: str) -> None:
    entries = tuple(
        MapEntry(
            host.name, meter_id(host), meter_id(host), Proof.PROVEN, 3.2, 0.01, "", 0.0, 1e9, "",
            f"machine-{host.slot}", cabling(host), time.time(), "abc",
        )
        for host in bench.hosts
        if host.name in boards
    )  # fmt: skip
    write_map(bench, MeterMap(bench.name, entries))


def gate(bench: Bench, *, preflight: bool = False, unproven: bool = False) -> list[str]:
    return passed_gate(
        bench, bench.hosts, preflight=preflight, unproven=unproven, console=Console(quiet=True)
    )


def answers(monkeypatch: pytest.MonkeyPatch, *hosts: HostChecks) -> None:
    """What the hosts of this bench, which are made up, would say."""
    monkeypatch.setattr(
        bench_gate,
        "check",
        lambda bench, asked, *, ends_runs, needed, peers, kit: Preflight(bench.name, 0.0, hosts),
    )


def test_a_proven_bench_that_passed_leaves_no_doubt(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    prove(bench, "pi-01", "pi-02")
    answers(monkeypatch, *(HostChecks(f"pi-0{n}", (GOOD,), f"machine-{n}") for n in (1, 2)))
    assert gate(bench, preflight=True) == []


def test_a_bench_that_nobody_proved_is_refused_with_what_to_do(bench: Bench) -> None:
    prove(bench, "pi-01")
    with pytest.raises(FleetError) as refused:
        gate(bench)
    assert str(refused.value).splitlines() == [
        "pi-02: no proof of its meter",
        "which meter powers which board is not proven for 1 of 2 hosts: roambench fleet identify "
        f"{bench.file} proves it; --unproven runs all the same and the report says so",
    ]


def test_a_meter_that_a_run_saw_opened_again_is_proven_no_more_until_it_is_identified_again(
    bench: Bench,
) -> None:
    prove(bench, "pi-01", "pi-02")
    began_s = time.time()
    void(bench, {"pi-02": (began_s - 60.0, "before the proof")})
    assert gate(bench) == ["the run began without a preflight of the bench (--no-preflight)"]
    why = "in run a its line was lost"
    void(bench, {"pi-02": (began_s + 60.0, why), "pi-03": (began_s + 60.0, "of another bench")})
    with pytest.raises(HostsFailed, match=f"pi-02: opened again: {why}\n.* not proven for 1 of 2") as refused:
        gate(bench)
    assert refused.value.hosts == ("pi-02",)
    assert gate(bench, unproven=True)[1:] == [
        f"--unproven: whose joules pi-02's meter reads is not proven: opened again: {why}"
    ]
    prove(bench, "pi-02")
    assert gate(bench) == ["the run began without a preflight of the bench (--no-preflight)"]


def test_what_a_run_saw_of_its_meters_voids_their_proofs(bench: Bench, tmp_path: Path) -> None:
    prove(bench, "pi-01", "pi-02")
    clock = DeviceClock()
    now_ns = clock.now_ns() + 10**9

    def opened(unit: str, ns: int) -> AgentEvent:
        return MeterDescription("smartpower2", "/dev/ttyUSB0", "smartpower2", unit=unit).to_event(ns)

    lost = AgentEvent(EventKind.METER_LOST, now_ns + 1, "the port has gone")
    with a_run(tmp_path / "run", "bench", ["pi-01", "pi-02"], Experiment()) as folder:
        for name, units in (("pi-01", ("usb a", "usb a")), ("pi-02", ("usb b", ""))):
            events = [opened(units[0], now_ns), lost, opened(units[1], now_ns + 2)]
            rows = [(seq, int(RecordKind.EVENT), event.to_bytes()) for seq, event in enumerate(events)]
            folder.records.insert(name, f"spool of {name}", rows)
        void_proofs(bench, bench.hosts, folder, clock)
    why = "opened again: in run run it was opened again, as its line was lost (the port has gone)"
    assert gate(bench, unproven=True)[1:] == [
        f"--unproven: whose joules pi-02's meter reads is not proven: {why}"
    ]


def test_what_is_waived_is_told_host_by_host(bench: Bench) -> None:
    prove(bench, "pi-01")
    assert gate(bench, unproven=True) == [
        "the run began without a preflight of the bench (--no-preflight)",
        "--unproven: whose joules pi-02's meter reads is not proven: no proof of its meter",
    ]


def test_another_machine_under_a_proven_name_is_noticed(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove(bench, "pi-01", "pi-02")
    answers(monkeypatch, HostChecks("pi-01", (GOOD,), "machine-1"), HostChecks("pi-02", (GOOD,), "spare"))
    with pytest.raises(FleetError, match="pi-02: another machine than the one that was proven"):
        gate(bench, preflight=True)


def test_a_host_that_fails_stops_the_run_and_a_warning_is_told(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    prove(bench, "pi-01", "pi-02")
    answers(monkeypatch, HostChecks("pi-01", (GOOD, HOT)), HostChecks("pi-02", (FULL,)))
    with pytest.raises(FleetError) as refused:
        gate(bench, preflight=True)
    assert str(refused.value).splitlines() == [
        "pi-02: disk: 11 MiB free, expected at least 2,048 MiB: free some space",
        "1 of 2 hosts failed the preflight; --only leaves hosts out",
    ]
    answers(monkeypatch, HostChecks("pi-01", (GOOD, HOT)), HostChecks("pi-02", (replace(GOOD),)))
    assert gate(bench, preflight=True) == [
        "preflight warned: pi-01: power supply: since boot: throttled, expected no throttling: better cooling"
    ]


def test_short_baselines_old_calibrations_and_those_of_boards_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def told(hosts: tuple[Host, ...], *, baselines: bool = True, **values: object) -> tuple[list[str], str]:
        energy = EnergySection.model_validate(values)
        return energy_doubts(energy, hosts, Console(width=300), baselines=baselines), capsys.readouterr().out

    hosts = (a_host(1), a_host(2, port="/dev/ttyUSB0?serial=B7", serial=""), a_host(3))
    doubts, printed = told(hosts)
    assert len(doubts) == 1
    assert "idle baselines last 20 s" in doubts[0]
    assert "--set energy.idle_baseline_s=60" in printed
    assert told(hosts, baselines=False) == ([], "")
    today = dt.datetime.now(dt.UTC).date()
    old, new = ({"u_gain": 0.01, "date": str(today - dt.timedelta(days=days))} for days in (366, 365))
    doubts, printed = told(hosts, idle_baseline_s=60.0, meters={"SN1": old, "B7": new, "pi-03": new})
    assert doubts == []
    lines = printed.splitlines()
    assert lines[0].startswith(f"preflight: pi-01: its meter was calibrated {old['date']}")
    assert lines[1].endswith("rename its table to [SN3]")
    assert len(lines) == 2
    _, printed = told(hosts, idle_baseline_s=60.0, meters={"SN1": {"u_gain": 0.01}, "B7": new})
    assert printed.startswith("preflight: pi-01: its meter's calibration has no date")
    assert printed.count("\n") == 1
