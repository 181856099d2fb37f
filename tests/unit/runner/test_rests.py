"""How long boards rest: by the experiment, or by the slowest meter of who takes part."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benches import a_bench, a_host
from problem_lines import without_lines
from roambench.contract.errors import ConfigError
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment, from_resolved, resolved
from roambench.meters.catalogue import traits_at
from roambench.plan.plan import RunPlan, plan_experiment
from roambench.runner.bench_options import BenchOptions
from roambench.runner.places.bench import BenchPlace
from roambench.runner.places.place import dither_s_at, rest_s_at
from roambench.runner.places.table import place_of
from roambench.runs.folder import RunFolder
from roambench.runs.info import RunInfo


def rest_s(fleet: str, **sections: Any) -> float:
    return rest_s_at(place_of(Experiment.model_validate(sections), fleet, BenchOptions()))


@pytest.mark.parametrize(
    ("local", "expected_s"),
    [
        ({}, 4.0),
        ({"meter_profile": "smartpower2-100ms"}, 1.525),
        ({"meter_profile": "smartpower3-2.2", "meter_interval_ms": 10}, 1.2775),
        ({"meter_profile": "smartpower3-2.2", "meter_interval_ms": 1000}, 4.0),
        (
            {
                "meter_profile": "smartpower2-100ms",
                "time_scale": 1.0,
                "meters": {"pi-01": {"driver": "smartpower2", "port": "/dev/ttyUSB0"}},
            },
            4.0,
        ),
    ],
)
def test_auto_is_long_enough_for_the_slowest_meter(local: dict[str, Any], expected_s: float) -> None:
    assert rest_s("local", local=local) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("meters", "expected_s", "dither_s"),
    [
        ([("smartpower2", "/dev/ttyUSB0"), ("smartpower3", "/dev/ttyUSB0?interval_ms=100")], 4.0, 0.5),
        ([("none", ""), ("smartpower3", "/dev/ttyUSB0?interval_ms=100")], 1.525, 0.05),
        ([("none", ""), ("none", "")], 0.0, 0.0),
    ],
)
def test_on_a_bench_the_hosts_that_take_part_decide(
    tmp_path: Path, meters: list[tuple[str, str]], expected_s: float, dither_s: float
) -> None:
    hosts = [
        a_host(number, meter=replace(a_host(number).meter, driver=driver, port=port))
        for number, (driver, port) in enumerate(meters, 1)
    ]
    bench = a_bench(tmp_path, *hosts)
    place = BenchPlace(bench, bench.hosts, Experiment(), BenchOptions())
    assert rest_s_at(place) == pytest.approx(expected_s)
    assert dither_s_at(place) == dither_s
    shorter = Experiment.model_validate({"rounds": {"dither_s": 0.04}})
    assert dither_s_at(BenchPlace(bench, bench.hosts, shorter, BenchOptions())) == min(0.04, dither_s)


@pytest.mark.parametrize("fleet", ["simulated", "rehearsal"])
def test_where_nothing_is_measured_only_a_number_rests(fleet: str) -> None:
    assert rest_s(fleet) == 0.0
    assert rest_s(fleet, rounds={"rest_s": 2.5}) == 2.5


@pytest.mark.parametrize("written", [0, 0.0, 3, 7.5])
def test_a_number_is_meant_as_it_is_written(written: float) -> None:
    assert rest_s("local", rounds={"rest_s": written}) == float(written)


@pytest.mark.parametrize("written", ["never", -1.0, True, float("inf")])
def test_anything_else_is_a_mistake_that_says_what_was_expected(tmp_path: Path, written: object) -> None:
    file = tmp_path / "e.toml"
    value = f'"{written}"' if isinstance(written, str) else str(written).lower()
    file.write_text(f"rounds.rest_s = {value}\n")
    with pytest.raises(ConfigError) as caught:
        load_experiment(file)
    (problem,) = without_lines(caught.value.problems)
    assert problem.startswith('e.toml: rounds.rest_s: expected "auto" or a number ≥ 0, got ')


@pytest.mark.parametrize(
    ("driver", "port", "expected_s"),
    [
        ("smartpower2", "/dev/ttyUSB0", 1.0),
        ("smartpower2", "/dev/ttyUSB0?period_s=0.5", 0.5),
        ("smartpower2-100ms", "/dev/ttyUSB0", 0.1),
        ("smartpower2-ytrikoz", "/dev/ttyUSB0", 0.25),
        ("smartpower3", "/dev/ttyUSB0?interval_ms=100", 0.1),
        ("mqtt", "broker/plug?period_s=10", 10.0),
        ("ppk2", "/dev/ttyACM0?volts=5&hz=10", 0.1),
        ("joulescope", "js220?hz=2", 0.5),
        ("smartpower3", "/dev/ttyUSB0", 1.0),  # its own clock will tell
        ("replay", "a.txt", 1.0),
        ("another package's", "/dev/ttyUSB0", 1.0),
    ],
)
def test_a_meters_period_is_known_before_it_is_opened(driver: str, port: str, expected_s: float) -> None:
    assert traits_at(driver, port).nominal_s == expected_s


def test_a_run_folder_keeps_how_long_boards_rested_and_an_older_one_had_no_rests(tmp_path: Path) -> None:
    about: dict[str, Any] = {
        "run_id": "r", "system": "mohawk", "trace_hash": "", "fleet": "local", "device_names": ["pi-01"],
    }  # fmt: skip
    with RunFolder.create(tmp_path / "new", Experiment(), **about, rest_s=4.0) as folder:
        assert RunFolder.open(folder.path).info.rest_s == 4.0
        assert RunFolder.open(folder.path).experiment.rounds.rest_s == "auto"
    old = resolved(Experiment())
    del old["rounds"]["rest_s"]
    assert from_resolved(old).rounds.rest_s == 0.0
    told = RunInfo.read(tmp_path / "new" / "run.json").to_json().replace('  "rest_s": 4.0,\n', "")
    (tmp_path / "run.json").write_text(told)
    assert RunInfo.read(tmp_path / "run.json").rest_s == 0.0


def test_a_plan_counts_the_rests_of_trainings_and_uploads() -> None:
    def plan(rest_s: float) -> RunPlan:
        trace = {"steps": 3, "parameters": {"devices": 4, "presence": "always"}}
        sections = {
            "systems": ["mohawk"],
            "trace": trace,
            "learning": {"model": "mlp", "images_per_device": 20},
        }
        experiment = Experiment.model_validate(
            {**sections, "fleet": {"agents": 2, "aps": 2}, "rounds": {"rest_s": rest_s}}
        )
        return plan_experiment(experiment, "simulated")[0]

    touching, rested = plan(0.0), plan(2.0)
    uploads = rested.transfers - rested.trainings
    assert uploads > 0
    rests_s = 2.0 * (2.5 * rested.trainings + 1.5 * uploads)
    assert rested.device_s - touching.device_s == pytest.approx(rests_s)
    assert {item.phase: item.seconds for item in rested.joules}["rest"] == pytest.approx(rests_s)
    assert "rest" not in {item.phase for item in touching.joules}
