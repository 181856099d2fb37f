"""Which meter powers which board, found by loading emulated boards one at a time."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benches import a_bench, a_host
from roambench.emulation.electric.power import Activity
from roambench.emulation.spec import Fault, FaultKind
from roambench.emulation.virtual import emulate
from roambench.provision.identify import _keeps_another
from roambench.provision.meter_map import (
    Proof,
    doubts,
    judged,
    map_path,
    meter_id,
    read_map,
    write_map,
)
from roambench.provision.meter_steps import (
    BurnWindow,
    Match,
    PowerSeries,
    PowerStep,
    meters_of_boards,
    silent_meters,
    steps_in,
)

BURN_S, REST_S = 8.0, 8.0


def windows_of(boards: Sequence[str], rounds: int = 1) -> list[BurnWindow]:
    """One board after the other, a rest before each and behind the last."""
    order = [board for _ in range(rounds) for board in boards]
    return [
        BurnWindow(board, start := REST_S + place * (BURN_S + REST_S), start + BURN_S, REST_S)
        for place, board in enumerate(order)
    ]


def emulated(
    powers: Mapping[str, str],
    windows: Sequence[BurnWindow],
    *,
    also: Iterable[tuple[str, float, float]] = (),
    faults: Mapping[str, tuple[Fault, ...]] | None = None,
    profile: str = "smartpower2-1.6",
) -> dict[str, PowerSeries]:
    """Meters of uncalibrated parts; `powers`: meter -> the board that hangs on it. `also`: (board, from, to)
    that somebody else loads."""
    end_s = windows[-1].end_s + REST_S
    series = {}
    for number, (meter, board) in enumerate(powers.items()):
        loads = [(window.start_s, window.end_s) for window in windows if window.board == board]
        loads += [(start, end) for name, start, end in also if name == board]
        schedule = [
            change
            for start, end in sorted(loads)
            for change in ((start, Activity(busy_cores=4.0)), (end, Activity()))
        ]
        run = emulate(
            schedule,
            end_s,
            seed=3,
            device=number,
            profile=profile,
            noise_per_line=0.01,
            faults=(faults or {}).get(meter, ()),
        )
        readings = run.readings()
        series[meter] = PowerSeries(
            np.array([reading.monotonic_ns * 1e-9 for reading in readings]),
            np.array([reading.watts for reading in readings]),
        )
    return series


def straight(count: int) -> dict[str, str]:
    return {f"smartpower2:SN{n}": f"pi-{n:02d}" for n in range(1, count + 1)}


def test_each_board_is_found_on_its_own_meter() -> None:
    windows = windows_of(list(straight(5).values()))
    found = meters_of_boards(windows, emulated(straight(5), windows))
    assert {board: answer.meter for board, answer in found.items()} == {
        board: meter for meter, board in straight(5).items()
    }
    for answer in found.values():
        assert answer.match is Match.FOUND
        # 4 busy cores: 1.9 to 5.1 W, read by an uncalibrated meter; the others did not move.
        assert answer.steps[0].watts == pytest.approx(3.2, rel=0.05)
        assert abs(answer.steps[1].watts) < 0.02
        assert answer.separation > 100.0


def test_swapped_cables_are_named_with_the_meter_that_moved(tmp_path: Path) -> None:
    crossed = {"smartpower2:SN1": "pi-02", "smartpower2:SN2": "pi-01", "smartpower2:SN3": "pi-03"}
    windows = windows_of(["pi-01", "pi-02", "pi-03"])
    bench = a_bench(tmp_path)
    made = judged(
        bench,
        bench.hosts,
        meters_of_boards(windows, emulated(crossed, windows)),
        (),
        {},
        {"pi-01": "build of a Pi", "pi-03": "of a server"},
        made_s=0.0,
    )
    one, two, three = made.entries
    assert [entry.build for entry in made.entries] == ["build of a Pi", "", "of a server"]
    assert (one.verdict, one.found) == (Proof.SWAPPED, "smartpower2:SN2")
    assert one.reason == "the meter of pi-02 moved: swap the cables, or the meters in the bench file"
    assert (two.verdict, two.found) == (Proof.SWAPPED, "smartpower2:SN1")
    assert (three.verdict, three.found, three.reason) == (Proof.PROVEN, "smartpower2:SN3", "")
    assert doubts(made, bench.hosts, 0.0).keys() == {"pi-01", "pi-02"}


def test_a_dead_meter_is_named_and_costs_the_others_nothing(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    windows = windows_of(["pi-01", "pi-02", "pi-03"])
    series = emulated(straight(3), windows)
    del series["smartpower2:SN2"]
    silent = silent_meters([meter_id(host) for host in bench.hosts], series)
    assert silent == ("smartpower2:SN2",)
    made = judged(bench, bench.hosts, meters_of_boards(windows, series), silent, {}, {}, made_s=0.0)
    assert [entry.verdict for entry in made.entries] == [Proof.PROVEN, Proof.DEAD, Proof.PROVEN]
    assert made.entries[1].reason.startswith(
        "smartpower2:SN2 said nothing: is its output on, is its cable in, "
    )


def test_a_meter_that_is_stuck_does_not_move() -> None:
    windows = windows_of(["pi-01", "pi-02"])
    series = emulated(straight(2), windows)
    stuck = series["smartpower2:SN1"]
    series["smartpower2:SN1"] = PowerSeries(stuck.at_s, np.full_like(stuck.watts, 1.9))
    found = meters_of_boards(windows, series)
    assert found["pi-01"].match is Match.NOTHING_MOVED
    assert found["pi-01"].reason.startswith("largest step: smartpower2:SN")
    assert found["pi-02"].match is Match.FOUND


def test_somebody_elses_work_at_the_same_time_is_ambiguous(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    windows = windows_of(["pi-01", "pi-02", "pi-03"])
    busy = ("pi-03", windows[0].start_s, windows[0].end_s)
    found = meters_of_boards(windows, emulated(straight(3), windows, also=[busy]))
    assert [found[board].match for board in ("pi-01", "pi-02", "pi-03")] == [
        Match.SEVERAL_MOVED, Match.FOUND, Match.FOUND,
    ]  # fmt: skip
    made = judged(bench, bench.hosts, found, (), {}, {}, made_s=0.0)
    assert made.entries[0].verdict is Proof.AMBIGUOUS
    assert "smartpower2:SN1 by 3." in made.entries[0].reason
    assert "smartpower2:SN3 by 3." in made.entries[0].reason
    assert made.entries[0].reason.endswith("identify it again (--only)")


def test_two_boards_on_one_meter_are_both_in_doubt() -> None:
    windows = windows_of(["pi-01", "pi-02"])
    one = emulated({"smartpower2:SN1": "pi-01"}, windows)["smartpower2:SN1"]
    other = emulated({"smartpower2:SN1": "pi-02"}, windows)["smartpower2:SN1"]
    both = PowerSeries(one.at_s, one.watts + np.interp(one.at_s, other.at_s, other.watts))
    found = meters_of_boards(windows, {"smartpower2:SN1": both})
    assert [answer.match for answer in found.values()] == [Match.SHARED] * 2
    assert found["pi-01"].reason == "smartpower2:SN1 moved for pi-02, too"


def test_a_board_that_warms_up_is_no_step() -> None:
    at_s = np.arange(0.0, 60.0)
    drift = PowerSeries(at_s, 1.9 + 0.02 * at_s)  # 1.2 W in a minute
    (step,) = steps_in(BurnWindow("pi-01", 20.0, 30.0, 10.0), {"m": drift})
    assert step.watts == pytest.approx(0.0, abs=1e-12)
    assert not step.moved


def test_a_step_and_its_uncertainty_by_hand() -> None:
    """Readings 1, 3 alternate at rest (mean 2), 5, 7 in the window (mean 6): a step of about 4 W."""
    at_s = np.arange(0.5, 40.0)
    watts = np.where(np.arange(40) % 2 == 0, 1.0, 3.0)
    watts[(at_s > 15.0) & (at_s < 25.0)] += 4.0
    (step,) = steps_in(BurnWindow("pi-01", 15.0, 25.0, 10.0), {"m": PowerSeries(at_s, watts)})
    # Inside 16.5 to 24.5 s: 9 readings, 5 low and 4 high, mean 53/9, at 20.5 s on the mean. Before, 6.5 to
    # 12.5 s: 7 readings, mean 13/7, at 9.5 s; behind, 26.5 to 34.5 s: 9 readings, mean 17/9, at 30.5 s.
    share = (20.5 - 9.5) / (30.5 - 9.5)
    assert step.watts == pytest.approx(53 / 9 - (1 - share) * 13 / 7 - share * 17 / 9)
    # Of 9 alternating readings the mean's variance is 9/8 * 4 * 5/9 * 4/9 / 9 = 10/81, of 7 it is 8/49.
    u2 = 10 / 81 + (1 - share) ** 2 * 8 / 49 + share**2 * 10 / 81
    assert step.u_watts == pytest.approx(math.sqrt(u2), rel=1e-4)
    assert step.moved


@pytest.mark.parametrize(
    ("watts", "u_watts", "moved"),
    [(0.29, 0.0, False), (0.375, 0.0625, True), (0.74, 0.125, False), (0.75, 0.125, True)],
)
def test_what_counts_as_moved(watts: float, u_watts: float, moved: bool) -> None:
    """0.3 W and six standard uncertainties."""
    assert PowerStep("m", watts, u_watts).moved is moved


def test_a_meter_whose_lead_is_in_anothers_noise_proves_nothing() -> None:
    """Meter a rises by 4 W without noise; the mean of b by 3 W, in a noise of 2 W that hides anything."""
    at_s = np.arange(0.5, 40.0)
    loaded = (at_s > 15.0) & (at_s < 25.0)
    noise = np.where(np.arange(40) % 2 == 0, -2.0, 2.0)
    series = {
        "a": PowerSeries(at_s, np.where(loaded, 6.0, 2.0)),
        "b": PowerSeries(at_s, 10.0 + noise + np.where(loaded, 3.0, 0.0)),
    }
    window = BurnWindow("pi-01", 15.0, 25.0, 10.0)
    first, second = steps_in(window, series)
    assert (first.meter, first.moved, second.moved) == ("a", True, False)
    found = meters_of_boards([window], series)["pi-01"]
    assert found.match is Match.SEVERAL_MOVED
    assert 0.0 < found.separation < 6.0


def test_a_noisy_meter_proves_nothing() -> None:
    draws = np.random.default_rng(1)
    at_s = np.arange(0.0, 40.0)
    watts = 2.0 + 1.5 * draws.standard_normal(40) + np.where((at_s >= 16) & (at_s < 24), 1.0, 0.0)
    found = meters_of_boards([BurnWindow("pi-01", 15.0, 25.0, 10.0)], {"m": PowerSeries(at_s, watts)})
    assert found["pi-01"].match is Match.NOTHING_MOVED


def test_a_lost_line_and_a_stall_do_not_hide_the_step() -> None:
    windows = windows_of(["pi-01", "pi-02"])
    faults = {
        "smartpower2:SN1": (
            Fault(FaultKind.STALL, at_s=10.0, duration_s=2.0),
            Fault(FaultKind.DROP, at_s=20.0, count=2),
            Fault(FaultKind.GARBAGE, at_s=14.0, count=3),
        )
    }
    found = meters_of_boards(windows, emulated(straight(2), windows, faults=faults))
    assert [answer.meter for answer in found.values()] == ["smartpower2:SN1", "smartpower2:SN2"]


def test_windows_of_one_board_have_to_agree() -> None:
    windows = windows_of(["pi-01", "pi-02"], rounds=2)
    series = emulated(straight(2), windows)
    assert meters_of_boards(windows, series)["pi-01"].meter == "smartpower2:SN1"
    lying = [*windows[:2], replace(windows[2], board="pi-02"), replace(windows[3], board="pi-01")]
    found = meters_of_boards(lying, series)
    assert found["pi-01"].match is Match.SEVERAL_MOVED
    assert found["pi-01"].reason == "once smartpower2:SN1, once smartpower2:SN2"


def test_36_boards_at_random_cables_are_all_found() -> None:
    order = [int(n) for n in np.random.default_rng(36).permutation(36)]
    powers = {f"smartpower2:SN{n}": f"pi-{order[n]:02d}" for n in range(36)}
    windows = windows_of([f"pi-{n:02d}" for n in range(36)])
    found = meters_of_boards(windows, emulated(powers, windows))
    assert {answer.meter: board for board, answer in found.items()} == powers
    assert min(answer.separation for answer in found.values()) > 50.0


def test_a_board_that_could_not_be_loaded_says_why(tmp_path: Path) -> None:
    bench = a_bench(tmp_path)
    windows = windows_of(["pi-01", "pi-02"])
    found = meters_of_boards(windows, emulated(straight(2), windows), {"pi-03": "no answer from 10.0.0.3"})
    made = judged(bench, bench.hosts, found, (), {}, {}, made_s=0.0)
    assert made.entries[2].verdict is Proof.NOT_LOADED
    assert made.entries[2].reason == "no answer from 10.0.0.3"


DAY_S = 86_400.0


def proof(tmp_path: Path) -> tuple[object, ...]:
    bench = a_bench(tmp_path)
    windows = windows_of(["pi-01", "pi-02", "pi-03"])
    found = meters_of_boards(windows, emulated(straight(3), windows))
    ids = {host.name: f"machine-{host.slot}" for host in bench.hosts}
    return bench, judged(bench, bench.hosts, found, (), ids, dict.fromkeys(ids, "abc"), made_s=1000.0)


def test_a_proof_is_kept_and_read_again(tmp_path: Path) -> None:
    bench, made = proof(tmp_path)
    path = write_map(bench, made)  # type: ignore[arg-type]
    assert path == map_path(bench)  # type: ignore[arg-type]
    assert read_map(bench) == made  # type: ignore[arg-type]
    assert json.loads(path.read_text())["entries"][0]["machine_id"] == "machine-1"
    assert doubts(made, bench.hosts, 1000.0) == {}  # type: ignore[arg-type, attr-defined]
    path.write_text("{")
    assert read_map(bench) is None  # type: ignore[arg-type]


def test_a_proof_of_one_board_leaves_the_others_as_they_were(tmp_path: Path) -> None:
    bench, made = proof(tmp_path)
    write_map(bench, made)  # type: ignore[arg-type]
    later = replace(made, entries=(replace(made.entries[1], made_s=9000.0),))  # type: ignore[type-var, attr-defined]
    write_map(bench, later)  # type: ignore[arg-type]
    kept = read_map(bench)  # type: ignore[arg-type]
    assert kept is not None
    assert {entry.board: entry.made_s for entry in kept.entries} == {
        "pi-01": 1000.0, "pi-02": 9000.0, "pi-03": 1000.0,
    }  # fmt: skip


def test_what_was_said_of_a_board_stays_while_the_bench_file_does_not_name_it(tmp_path: Path) -> None:
    bench, made = proof(tmp_path)
    write_map(bench, made)  # type: ignore[arg-type]
    smaller = replace(bench, hosts=bench.hosts[:2])  # type: ignore[type-var, attr-defined]
    write_map(smaller, replace(made, entries=made.entries[:1]))  # type: ignore[arg-type, type-var, attr-defined]
    kept = read_map(smaller)  # type: ignore[arg-type]
    assert kept is not None
    assert [entry.board for entry in kept.entries] == ["pi-01", "pi-02", "pi-03"]
    assert doubts(kept, bench.hosts, 1000.0) == {}  # type: ignore[attr-defined]


def test_a_proof_ends_with_its_age_the_cables_and_the_machine(tmp_path: Path) -> None:
    bench, made = proof(tmp_path)
    hosts = list(bench.hosts)  # type: ignore[attr-defined]
    assert doubts(None, hosts[:1], 0.0) == {"pi-01": "no proof of its meter"}
    old = doubts(made, hosts, 1000.0 + 30.1 * DAY_S)  # type: ignore[arg-type]
    assert old["pi-01"] == "proven on 1970-01-01, more than 30 days ago"
    assert doubts(made, hosts, 1000.0 + 29.9 * DAY_S) == {}  # type: ignore[arg-type]
    other_meter = [a_host(1, serial="SN9"), *hosts[1:]]
    assert doubts(made, other_meter, 1000.0) == {  # type: ignore[arg-type]
        "pi-01": "the bench file gives it another address or meter since the proof"
    }
    calibrated = [a_host(1, gain=1.01), *hosts[1:]]
    assert doubts(made, calibrated, 1000.0) == {}  # type: ignore[arg-type]
    ids = {"pi-01": "machine-1", "pi-02": "another", "pi-03": ""}
    assert doubts(made, hosts, 1000.0, ids) == {  # type: ignore[arg-type]
        "pi-02": "another machine than the one that was proven answers by its name"
    }


def test_a_board_without_a_meter_needs_no_proof(tmp_path: Path) -> None:
    bare = a_host(1, driver="none", port="", serial="")
    assert meter_id(bare) == ""
    assert doubts(None, [bare], 0.0) == {}
    assert judged(a_bench(tmp_path, bare), [bare], {}, (), {}, {}, made_s=0.0).entries == ()


def test_a_meter_without_a_serial_is_called_by_the_host_that_reads_it() -> None:
    assert meter_id(a_host(4, serial="")) == "pi-04:/dev/roambench-meter"


@pytest.mark.parametrize(
    ("elapsed_s", "burn_s", "rest_s", "enough"),
    [
        (672.0, 8.0, 10.0, True),
        (673.0, 8.0, 10.0, False),
        (450.0, 120.0, 120.0, True),
        (451.0, 120.0, 120.0, False),
    ],
)
def test_readings_are_fetched_before_agents_drop_them(
    elapsed_s: float, burn_s: float, rest_s: float, enough: bool
) -> None:
    """Agents keep 1800 readings 0.4 s apart, 720 s; half a minute is for logins."""
    assert _keeps_another(elapsed_s, burn_s + rest_s) is enough
