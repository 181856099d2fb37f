"""How long exchanges take and what they draw, computed by hand; plans of decentralised systems."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from roambench.cli.main import app
from roambench.contract.errors import ConfigError
from roambench.contract.local_training import LocalTraining
from roambench.contract.orders import ExchangeOrder
from roambench.experiment.load import load_experiment
from roambench.experiment.sections import Experiment
from roambench.meters.chips import chip_traits
from roambench.meters.traits import UNCALIBRATED_RAIL
from roambench.plan.costs import MachineCosts
from roambench.plan.energy import agents_joules
from roambench.plan.exchanges import ExchangeTiming
from roambench.plan.fleet import PlannedFleet, planned_fleet
from roambench.plan.plan import plan_experiment
from roambench.plan.rehearsed import AirTime, Batch, Rehearsed
from roambench.plan.times import planned_times
from roambench.plan.widths import ExpectedPhases
from roambench.rounds.peer_run import PeerSettings
from roambench.rounds.records import (
    MixingPlanned,
    ModelsExchanged,
    OrderAnswered,
    OrderGiven,
    RoundRecord,
    StepClosed,
)
from roambench.runner.composition import run_experiment
from roambench.runs.event_log import EventLog
from roambench.runs.fleet_kinds import FLEET_KINDS
from roambench.runs.folder import RunFolder

#: 2.5 MB are 20 Mbit: a second at 20 Mbit/s.
COSTS = MachineCosts(
    sgd_step_s=0.01,
    score_s=0.1,
    publish_s=0.2,
    mix_s=0.3,
    import_s=2.5,
    model_bytes=2_500_000,
    cores=4,
    core_share=1.0,
    board_step_s=0.4,
)
#: A line 0 - 1 - 2; device 1 has twice as many samples.
SAMPLES = (10, 20, 10)
PULL_S = 0.12  # 12 ms of a host whose devices' time runs ten times faster


def experiment_of(**tables: object) -> Experiment:
    return Experiment.model_validate(
        {
            "systems": ("d_psgd",),
            "local": {"time_scale": 10.0, "sgd_step_s": 0.5, "upload_mbit_s": 20.0, "download_mbit_s": 40.0},
            "simulated": {
                "sgd_step_s": 0.4,
                "speed_spread": 0.0,
                "upload_mbit_s": 20.0,
                "download_mbit_s": 10.0,
                "workers": 2,
            },
            **tables,
        }
    )


def line(start_digest: str = "") -> list[ExchangeOrder]:
    return [
        ExchangeOrder(
            f"r/0/{device}",
            device,
            0,
            neighbours,
            (0.5,) * len(neighbours),
            0.5,
            LocalTraining(1, 1),
            start_digest,
        )
        for device, neighbours in enumerate(((1,), (0, 2), (1,)))
    ]


def timing_on(fleet: PlannedFleet) -> ExchangeTiming:
    return ExchangeTiming(fleet, PeerSettings("r", 1, 1, SAMPLES, "plain"), 10, COSTS)


def test_a_device_waits_for_the_slowest_neighbour_and_for_all_that_this_one_sends() -> None:
    timing = timing_on(PlannedFleet(FLEET_KINDS["local"], experiment_of()))
    times = timing.of_step(line())
    # Half steps end at 0.5, 1 and 0.5 s. Device 1 sends 2 models, 1 to 3 s; the others' are there at 2 s.
    assert [times[device].train_s for device in range(3)] == [0.5, 1.0, 0.5]
    assert [times[device].exchange_s for device in range(3)] == pytest.approx(
        [PULL_S + 2.5, PULL_S + 2.0, PULL_S + 2.5]
    )
    assert timing.air["r/0/0"] == AirTime(pytest.approx(PULL_S + 1.0), pytest.approx(PULL_S + 2.0))
    assert timing.air["r/0/1"] == AirTime(pytest.approx(PULL_S + 2.0), pytest.approx(PULL_S + 2.0))
    assert timing.batches == [
        Batch(3, pytest.approx(3 * 3.12), pytest.approx(3.12), computed=3, sgd_steps=4, most_sgd_steps=2)
    ]
    assert timing.mixed == 7  # oneself and each neighbour


def test_a_start_model_comes_first_at_the_downlink_s_rate() -> None:
    times = timing_on(PlannedFleet(FLEET_KINDS["local"], experiment_of())).of_step(line("first"))
    assert [times[device].download_s for device in range(3)] == [0.5, 0.5, 0.5]
    assert times[0].exchange_s == pytest.approx(PULL_S + 2.5)


@pytest.mark.parametrize(("start", "rests"), [("", 2.5), ("first", 3.5)])
def test_a_plan_counts_the_rests_around_half_steps_and_exchanges(start: str, rests: float) -> None:
    touching, rested = (
        timing_on(PlannedFleet(FLEET_KINDS["local"], experiment_of(), rest_s=rest_s)) for rest_s in (0.0, 4.0)
    )
    assert touching.of_step(line(start)) == rested.of_step(line(start))
    took, takes = touching.batches[0], rested.batches[0]
    assert takes.device_s - took.device_s == pytest.approx(3 * 4.0 * rests)
    assert takes.longest_s - took.longest_s == pytest.approx(4.0 * rests)


def test_who_meets_nobody_does_not_exchange() -> None:
    alone = ExchangeOrder("r/0/0", 0, 0, (), (), 1.0, LocalTraining())
    timing = timing_on(PlannedFleet(FLEET_KINDS["local"], experiment_of()))
    assert timing.of_step([alone])[0].exchange_s == 0.0
    assert timing.air == {}


def test_a_virtual_device_sends_then_receives_and_waits_for_nobody() -> None:
    timing = timing_on(PlannedFleet(FLEET_KINDS["simulated"], experiment_of()))
    times = timing.of_step(line())
    assert [times[device].exchange_s for device in range(3)] == [1.0 + 2.0, 2.0 + 4.0, 1.0 + 2.0]
    assert [times[device].train_s for device in range(3)] == [0.4, 0.8, 0.4]


def exchanged(order: ExchangeOrder, timing: ExchangeTiming) -> list[RoundRecord]:
    """What the loop writes down of a step's orders."""
    times, device = timing.of_step(line())[order.device], order.device
    moved = COSTS.model_bytes * len(order.neighbours)
    return [
        OrderGiven(0, device, order.order_id, "exchange", -1),
        OrderAnswered(
            0, device, order.order_id, "done", "", 2 * moved, times.exchange_s, times.train_s, SAMPLES[device]
        ),
        ModelsExchanged(
            0, device, order.order_id, (), (), moved, moved, times.exchange_s, 0, 0.0, "", (), (), (), moved
        ),
    ]


def test_the_radio_draws_while_it_sends_and_while_it_receives() -> None:
    fleet = PlannedFleet(FLEET_KINDS["local"], experiment_of())
    timing = timing_on(fleet)
    records = [record for order in line() for record in exchanged(order, timing)]
    rehearsed = Rehearsed(EventLog.of(records), (), 0, 0, air=timing.air)
    download, train, exchange, rest = agents_joules(fleet, rehearsed, 3, 10.0)
    assert (download.phase, download.seconds) == ("download", 0.0)
    assert (train.phase, train.seconds, train.net_j) == ("train", 2.0, pytest.approx(2.0 * 0.8))
    # Sending at 20 Mbit/s: 250 + 20 x 10 mW; receiving: 150 + 20 x 5 mW.
    sending_s, receiving_s = 1.0 + 2.0 + 1.0 + 3 * PULL_S, 2.0 + 2.0 + 2.0 + 3 * PULL_S
    assert exchange.phase == "exchange"
    assert exchange.seconds == pytest.approx(2.5 + 2.0 + 2.5 + 3 * PULL_S)
    assert exchange.net_j == pytest.approx(0.45 * sending_s + 0.25 * receiving_s)
    assert rest.seconds == pytest.approx(30.0 - 2.0 - exchange.seconds)
    assert rest.idle_j == pytest.approx(1.9 * rest.seconds)


def test_an_exchange_is_one_phase_of_its_board() -> None:
    """One sum has what is sent and what comes, at the same time: their sampling errors are one."""
    fleet = PlannedFleet(FLEET_KINDS["local"], experiment_of(energy={"u_gain": 0.0}), rest_s=4.0)
    timing = timing_on(fleet)
    records = exchanged(line()[1], timing)
    (exchange,) = (
        row
        for row in agents_joules(fleet, Rehearsed(EventLog.of(records), (), 0, 0, air=timing.air), 3, 10.0)
        if row.phase == "exchange"
    )
    assert exchange.count == 1
    tails_j = (0.25 + 0.15) * fleet.radio_tail_s
    whole, air_s = ExpectedPhases(), 2.0 + PULL_S
    whole.add(0.45 + 0.25, air_s, tails_j)
    assert exchange.u_net_j == pytest.approx(whole.u_j(4.0, fleet.meter(1)))
    # Who waits for others within the exchange has to know the idle power for longer.
    waits = ExpectedPhases()
    waits.add(0.45 + 0.25, air_s, tails_j, 5.0)
    assert waits.net_j == whole.net_j
    assert waits.u_j(4.0, fleet.meter(1)) > whole.u_j(4.0, fleet.meter(1))


def test_the_controller_mixes_and_scores_between_the_half_steps_of_virtual_devices() -> None:
    fleet = PlannedFleet(FLEET_KINDS["simulated"], experiment_of())
    timing = timing_on(fleet)
    records = [record for order in line() for record in exchanged(order, timing)]
    one = timing.batches[0]
    rehearsed = Rehearsed(
        EventLog.of([*records, StepClosed(0, 3, (), (), None, None)]),
        (one, one),
        scorings=4,
        published=5,
        mixed=7,
        controller_s=0.5,
    )
    times = planned_times(fleet, rehearsed, COSTS, 3, 1.0)
    controller_s = 6 * 0.0012 + 0.5 + 7 * 0.3 + 4 * 0.1 + 5 * 0.2
    assert times.controller_s == pytest.approx(controller_s + 1.2)
    # Four SGD steps by two workers, twice; then the processes and the folder.
    assert times.wall_s == pytest.approx(2 * 0.02 + controller_s + 3.0 + 1.2)
    assert times.device_s == pytest.approx(2 * (3.4 + 6.8 + 3.4))


def test_on_a_bench_nobody_shares_this_machine_and_boards_import_before_they_begin() -> None:
    local = {"cpu_slowdown": 10.0, "time_scale": 10.0}
    fleet = PlannedFleet(FLEET_KINDS["bench"], experiment_of(local=local, energy={"idle_baseline_s": 7.0}))
    assert (fleet.time_scale, fleet.up_mbit_s, fleet.down_mbit_s) == (1.0, 95.0, 95.0)
    batches = (Batch.of((100,), (3.0, 4.0)), Batch.of((100,), (2.0,)))
    rehearsed = Rehearsed(EventLog.of([]), batches, 1, 1, collected=2)
    times = planned_times(fleet, rehearsed, COSTS, 2, 1.0)
    controller_s = (3 + 2) * 0.012 + 0.1 + 0.2  # two orders more collect models
    assert times.device_s == pytest.approx(4.0 + 2.0 + controller_s + 14.0)
    assert times.wall_s == pytest.approx(times.device_s + 5.0 + 25.0 + 2.0)


@pytest.mark.parametrize(("step_close", "pace_s"), [("answers", 0.0), ("clock:60", 60.0)])
def test_a_plan_counts_what_the_dither_of_starts_takes(step_close: str, pace_s: float) -> None:
    def device_s(dither_s: float) -> float:
        experiment = experiment_of(rounds={"step_close": step_close})
        closed = EventLog.of(StepClosed(step, 3, (), (), None, None) for step in range(4))
        rehearsed = Rehearsed(closed, (Batch.of((), (0.0,)),) * 5, 1, 1)
        return planned_times(
            PlannedFleet(FLEET_KINDS["local"], experiment, dither_s=dither_s), rehearsed, COSTS, 3, 1.0
        ).device_s

    # Half of the widest, five times; a step that waits for the clock has room for it.
    assert device_s(3.0) - device_s(0.0) == pytest.approx(0.0 if pace_s else 15.0)


def test_a_plan_is_as_sure_as_each_devices_own_meter() -> None:
    records: list[RoundRecord] = []
    for device in (0, 1):
        records.append(OrderGiven(0, device, f"{device}", "train", -1))
        records.append(OrderAnswered(0, device, f"{device}", "ok", train_s=2.3, samples=8))

    def planned(**local: object) -> tuple[PlannedFleet, float]:
        experiment = experiment_of(local=local, fleet={"agents": 2}, rounds={"rest_s": 4.0})
        fleet = planned_fleet(experiment, "local")
        rows = agents_joules(fleet, Rehearsed(EventLog.of(records), (), 1, 1), 2, 60.0)
        return fleet, next(row.u_net_j for row in rows if row.phase == "train")

    slow, slow_j = planned()
    fast, fast_j = planned(meter_profile="ina226")
    mixed, mixed_j = planned(meter_profiles={"pi-02": "ina226"})
    assert [meter.name for meter in mixed.meters] == [slow.meter(0).name, fast.meter(0).name]
    assert fast_j < mixed_j < slow_j
    assert slow.readings_hz < mixed.readings_hz < fast.readings_hz
    # Starts are spread over a period of the slowest meter.
    assert (slow.dither_s, mixed.dither_s) == (0.5, 0.5)
    assert fast.dither_s == fast.meter(0).nominal_s / 2 < 0.1
    real = {"pi-01": {"driver": "joulescope", "port": "js220?hz=10"}}
    powered, _ = planned(time_scale=1.0, meters=real)
    assert (powered.meter(0).name, powered.meter(0).nominal_s) == ("joulescope", 0.1)


PEERS = """
name = "peers"
seed = 3
systems = ["d_psgd"]
fleet = { agents = 6 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 100 }
decentralised = { iterations = 5, evaluate_every = 2, half_step = "epochs" }
mobility = { model = "dcm", mobile = 2, grid = 6 }
simulated = { workers = 1 }
"""


#: Devices that exchange with nobody: their models go to access points.
STARS = """
name = "stars"
seed = 3
systems = ["mohawk"]
trace = { generator = "city", steps = 8 }
fleet = { agents = 3, aps = 4 }
learning = { model = "mlp", images_per_device = 60 }
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plan") / "peers.toml"
    path.write_text(PEERS)
    return path


@pytest.fixture(scope="module")
def runs(file: Path, workers_of_one_server: None) -> dict[str, Path]:
    """Really run, by fleet."""
    experiment, quiet = load_experiment(file), Console(quiet=True)
    found = {}
    for fleet in ("simulated", "rehearsal"):
        (found[fleet],) = run_experiment(
            experiment, fleet=fleet, runs_dir=file.parent / f"runs-{fleet}", console=quiet
        )
    return found


def told(run: Path, *kinds: type) -> list[RoundRecord]:
    with RunFolder.open(run) as folder:
        return [record for record in folder.read_log() if isinstance(record, kinds)]


def test_virtual_devices_take_the_joules_bytes_and_trainings_that_were_planned(
    file: Path, runs: dict[str, Path]
) -> None:
    (plan,) = plan_experiment(load_experiment(file), "simulated")
    summary = json.loads((runs["simulated"] / "summary.json").read_text())
    modelled = summary["modelled"]
    assert plan.trainings == plan.computed == summary["trainings"] == 30
    assert plan.transferred_bytes == modelled["bytes"] > 0
    assert [item.phase for item in plan.joules] == ["download", "train", "exchange"]
    for item in plan.joules:
        real = modelled["phases"][item.phase]
        assert item.gross_j == pytest.approx(real["gross_j"], rel=1e-9)
        assert item.net_j == pytest.approx(real["net_j"], rel=1e-9)
    assert plan.device_s == pytest.approx(sum(item.seconds for item in plan.joules), rel=1e-9)
    models = told(runs["simulated"], ModelsExchanged)
    size = max(record.model_bytes for record in models)  # type: ignore[union-attr]
    moved = sum(record.received_bytes for record in models)  # type: ignore[union-attr]
    assert plan.transfers == moved // size + 6


def test_the_disk_of_virtual_devices_is_near_what_was_planned(file: Path, runs: dict[str, Path]) -> None:
    (plan,) = plan_experiment(load_experiment(file), "simulated")
    real = sum(path.stat().st_size for path in runs["simulated"].rglob("*") if path.is_file())
    assert real / 1.5 <= plan.disk_bytes <= real * 1.5
    # Five rows of 2,410 parameters for each device, and the training set.
    assert plan.peak_disk_bytes - plan.disk_bytes > 6 * 5 * 2410 * 4


def test_a_rehearsal_meets_whom_the_run_meets(runs: dict[str, Path]) -> None:
    planned = told(runs["rehearsal"], MixingPlanned)
    assert planned == told(runs["simulated"], MixingPlanned)
    assert len(planned) == 5
    assert all(record.sent_bytes == 0 for record in told(runs["rehearsal"], ModelsExchanged))  # type: ignore[union-attr]


def test_a_rehearsal_is_planned_without_bytes_and_joules(file: Path) -> None:
    (plan,) = plan_experiment(load_experiment(file), "rehearsal")
    assert (plan.trainings, plan.computed, plan.transferred_bytes, plan.joules) == (30, 0, 0, ())
    assert plan.device_s == plan.cpu_s == 0.0


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    path = tmp_path / "bench.toml"
    host = '[[hosts]]\nname = "board-{0}"\naddress = "10.0.0.{0}"\nmeter.port = "/dev/meter"\n'
    hosts = "".join(host.format(number) for number in range(3))
    path.write_text(f'[controller]\naddress = "10.0.0.9"\n{hosts}')
    return path


def test_a_bench_s_file_says_who_takes_part_and_nobody_is_asked(file: Path, bench: Path) -> None:
    experiment = load_experiment(file, ['mobility.model="random"'])
    fleet = planned_fleet(experiment, f"bench:{bench}")
    assert (fleet.kind.name, fleet.experiment.fleet.agents) == ("bench", 3)
    assert fleet.names == ("board-0", "board-1", "board-2")
    (plan,) = plan_experiment(experiment, f"bench:{bench}", ["board-0", "board-2"])
    assert (plan.fleet.name, plan.trainings, plan.computed) == ("bench", 10, 0)


def test_rounds_with_a_server_are_planned_on_a_bench_too(tmp_path: Path, bench: Path) -> None:
    file = tmp_path / "rounds.toml"
    file.write_text(
        'systems = ["hierfavg"]\ntrace = { parameters = { devices = 20, steps = 48 }, steps = 3 }\n'
        'learning = { model = "mlp", images_per_device = 40 }\nlocal.sgd_step_s = 0.5\n'
        "energy.idle_baseline_s = 30.0\n"
    )
    (plan,) = plan_experiment(load_experiment(file), f"bench:{bench}")
    assert plan.trainings > 0
    assert plan.device_s > 60.0
    gross_j = sum(item.gross_j for item in plan.joules)
    net_j = sum(item.net_j for item in plan.joules)
    assert gross_j - net_j == pytest.approx(3 * 1.9 * plan.device_s)


@pytest.mark.parametrize("fleet", ["nowhere", "bench:", "bench"])
def test_a_fleet_that_is_none_is_named(file: Path, fleet: str) -> None:
    with pytest.raises(ConfigError) as refused:
        plan_experiment(load_experiment(file), fleet)
    assert refused.value.problems == (
        f"--fleet: expected one of local, simulated, rehearsal, bench:FILE, got {fleet!r}",
    )


def test_what_a_fleet_would_refuse_to_run_is_not_planned_on_it(file: Path, bench: Path) -> None:
    experiment = load_experiment(file, ['simulated.precision="float64"'])
    for fleet, kind in (("local", "local"), (f"bench:{bench}", "bench")):
        with pytest.raises(ConfigError) as refused:
            planned_fleet(experiment, fleet)
        (problem,) = refused.value.problems
        assert problem.startswith("simulated.precision: float64 is a test mode of virtual devices")
        assert problem.endswith(f"expected float32 on {kind} ones")
    assert planned_fleet(experiment, "simulated").kind == FLEET_KINDS["simulated"]


def test_the_command_prints_the_plan_and_starts_nothing(tmp_path: Path) -> None:
    file = tmp_path / "stars.toml"
    file.write_text(STARS)
    words = ["run", str(file), "--plan", "--fleet", "rehearsal", "--runs-dir", str(tmp_path / "runs")]
    told = CliRunner().invoke(app, words)
    assert told.exit_code == 0, told.output
    assert "mohawk" in told.output
    assert "Nothing was started" in told.output
    assert not (tmp_path / "runs").exists()


def test_the_command_plans_a_decentralised_experiment(file: Path, tmp_path: Path) -> None:
    words = ["run", str(file), "--plan", "--fleet", "local", "--runs-dir", str(tmp_path / "runs")]
    answer = CliRunner().invoke(app, words)
    assert answer.exit_code == 0, answer.output
    assert "Nothing was started" in answer.output
    assert "exchange" in answer.output
    assert not (tmp_path / "runs").exists()


def test_a_kernel_s_sensor_is_planned_by_its_chip_where_the_bench_names_it(
    file: Path, tmp_path: Path
) -> None:
    path = tmp_path / "bench.toml"
    meters = (
        'i2c = "ina226@1-0040"\nmeter.shunt_uohm = 100000',
        'port = "ina226"\nmeter.shunt_uohm = 100000',
        'port = "VDD_IN"',
        'port = "ina3221/VDD_CPU+ina3221/VDD_SOC"',
        'port = "ina3221/VDD_CPU"',
    )
    hosts = "".join(
        f'[[hosts]]\nname = "board-{n}"\naddress = "10.0.0.{n}"\nmeter.driver = "hwmon"\nmeter.{text}\n'
        for n, text in enumerate(meters)
    )
    path.write_text(f'[controller]\naddress = "10.0.0.9"\n{hosts}')
    experiment = load_experiment(file, ['mobility.model="random"'])
    named, by_port, unknown, two, one = planned_fleet(experiment, f"bench:{path}").meters
    assert named == by_port == chip_traits("ina226", 100_000 * 1e-6, 0.1, 16 * 2.2e-3)
    assert unknown == UNCALIBRATED_RAIL
    assert one == chip_traits("ina3221", 0.0, 0.1, power=False)
    assert two.u_offset_w == pytest.approx(math.sqrt(2) * one.u_offset_w)
    (plan,) = plan_experiment(experiment, f"bench:{path}")
    assert [doubt for doubt in plan.doubts if "chip" in doubt] == [
        "board-2: the bench does not name the chip of its sensor: planned with 2 % and 0.1 W (assumed)"
    ]
    assert [doubt for doubt in plan.doubts if "update_ms" in doubt] == [
        "board-0, board-1: the bench has no update_ms for its sensor: planned with the 35 ms that the "
        "kernel's driver sets"
    ]
