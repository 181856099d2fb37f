"""Links that are modelled really are slow; a calibration of real agents finds the radios that were drawn.

Times on a busy machine are what they are: a paced transfer is never faster than its rate, and how much
slower it may be here is generous. `benchmarks/` and docs/calibrating.md have the figures.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from forked_commands import roambench
from roambench.contract.phases import Phase
from roambench.energy.links.throughput import DistanceStatistics, throughput_mbit_s
from roambench.experiment.link_model_file import load_link_model
from roambench.experiment.load import load_experiment
from roambench.rounds.records import OrderAnswered, OrderGiven

# Alone: where others keep the machine busy, lines come late and readings have holes.
pytestmark = [pytest.mark.timeout(600), pytest.mark.alone]

#: Below what Eq. 2 gives for near devices.
PORT_MBIT_S = 20.0
MODELLED = (
    "fleet.agents=3",
    'learning.model="mohawk_cnn"',
    "learning.images_per_device=8",
    "trace.steps=3",
    "local.time_scale=2",
    "local.cpu_slowdown=1",
    "local.radio_spread=0.3",
    'local.power_shape="steady"',  # as Eq. 1 has it
    "energy.idle_baseline_s=1",
    'links.link="modelled"',
    f"links.port_mbit_s={PORT_MBIT_S}",
)
CALIBRATE = """
name = "bench"
seed = 5
fleet = { agents = 2 }
learning = { model = "mlp", images_per_device = 20, test_images = 50 }
local = { time_scale = 10.0, radio_spread = 0.3, power_shape = "steady" }
"""


@pytest.fixture(scope="module")
def modelled(launch):
    return launch(*MODELLED).finish()


def transfers(run) -> list[tuple[OrderGiven, OrderAnswered]]:
    answered = {record.order_id: record for record in run.of(OrderAnswered)}
    given = [record for record in run.of(OrderGiven) if record.kind in ("train", "upload")]
    pairs = [(record, answered[record.order_id]) for record in given]
    return [pair for pair in pairs if pair[1].transferred_bytes]


def test_every_transfer_runs_at_the_rate_that_eq_2_gives_for_its_distance(modelled):
    info = json.loads((modelled.folder() / "run.json").read_text())
    statistics = DistanceStatistics(info["distance_mean_m"], info["distance_sd_m"])
    pairs = transfers(modelled)
    assert len(pairs) >= 8
    shares = []
    for given, answered in pairs:
        direction = "down" if given.kind == "train" else "up"
        asked = min(PORT_MBIT_S, float(throughput_mbit_s(given.distance_m, statistics, direction)))
        assert given.paced_mbit_s == pytest.approx(asked)
        shares.append(answered.transferred_bytes * 8e-6 / answered.transfer_s / asked)
    assert max(shares) <= 1.001
    slow = [share for share, (given, _) in zip(shares, pairs, strict=True) if given.link == "lte"]
    assert np.median(slow) > 0.95, shares


def test_a_link_that_is_modelled_faster_than_the_port_is_clipped_and_recorded(modelled):
    given = [given for given, _ in transfers(modelled)]
    assert all(record.paced_mbit_s == min(PORT_MBIT_S, record.throughput_mbit_s) for record in given)
    clipped = sum(record.paced_mbit_s < record.throughput_mbit_s for record in given)
    assert clipped > 0
    (note,) = [line for line in modelled.text().splitlines() if "clipped" in line]
    assert f"{clipped} modelled faster than the port's 20 Mbit/s" in note


def test_the_phases_of_a_slow_link_draw_what_eq_1_says_of_its_rate(modelled):
    """The truth, that no meter saw: alpha per megabit moved and beta while the transfer lasted."""
    from roambench.emulation.spec import EmulatorSpec
    from roambench.emulation.truth import energy_j

    spec = EmulatorSpec.from_json((modelled.folder() / "emulator.json").read_text())
    checked = 0
    for device in modelled.energy().devices:
        board = next(row for row in spec.devices if row.name == device.device)
        truth = modelled.folder() / "truth" / f"{device.device}.csv"
        for span in device.spans:
            if span.phase not in (Phase.DOWNLOAD, Phase.UPLOAD) or not span.transferred_bytes:
                continue
            radio, up = board.power.radio, span.phase is Phase.UPLOAD
            alpha = radio.alpha_up_mw_per_mbit_s if up else radio.alpha_down_mw_per_mbit_s
            net_mj = alpha * span.transferred_bytes * 8e-6 + radio.beta_mw * span.duration_s
            idle_j = board.power.idle_w * span.duration_s
            found_mj = 1e3 * (energy_j(truth, span.start_ns, span.end_ns) - idle_j)
            assert found_mj == pytest.approx(net_mj, rel=0.02), span
            checked += 1
    assert checked >= 8


def test_a_calibration_of_real_agents_finds_the_radios_that_were_drawn(tmp_path):
    experiment = tmp_path / "bench.toml"
    experiment.write_text(CALIBRATE)
    out, page = tmp_path / "links" / "mybench.toml", tmp_path / "mybench.html"
    words = [
        "calibrate", str(experiment), "-o", str(out), "--page", str(page), "--json",
        "--runs-dir", str(tmp_path / "runs"), "--sizes", "1", "--rates", "4,12,30", "--windows", "1",
        "--min-s", "10", "--idle-s", "4", "--at-once", "2",
    ]  # fmt: skip
    done = roambench(*words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert [device["device"] for device in made["devices"]] == ["pi-01", "pi-02"]
    model = load_link_model("mybench", tmp_path)
    for device in made["devices"]:
        assert device["windows"] == 6, device["flags"]
        known = model.of("lte", device["device"])
        truth = np.array(device["truth"])
        # 95 % intervals fail one time in twenty each; twice as wide they do not.
        assert np.all(np.abs(known.values - truth) <= 2.0 * known.half_widths()), device
        assert known.half_widths()[2] < 0.5 * known.values[2], device
    # The folder can be analysed again, to the same model; an experiment may name it.
    analysed = str(tmp_path / "runs" / made["run"])
    again = roambench("calibrate", analysed, "-o", str(tmp_path / "links" / "again.toml"), cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    second = load_link_model("again", tmp_path)
    assert second.of("lte").values == pytest.approx(model.of("lte").values)
    experiment.write_text(CALIBRATE + '[links]\nmodel = "mybench"\n')
    assert load_link_model(load_experiment(experiment).links.model) == model
    text = page.read_text()
    assert "truth inside" in text
    assert "http://" not in text.split("<script>")[0]
