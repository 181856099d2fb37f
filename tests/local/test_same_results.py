"""The order in which answers arrive, the cores there are and when steps start change no result of a run."""

from __future__ import annotations

import dataclasses

import pytest

from roambench.contract.model_blob import encode
from roambench.contract.model_digest import digest_of
from roambench.contract.phases import Outcome
from roambench.learning.layout import layout_of
from roambench.learning.models.build import build
from roambench.mobility.files import write_trace
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    OrderAnswered,
    OrderGiven,
    OutcomeDecided,
    StepClosed,
    StepOpened,
)
from roambench.runs.models import load_model
from samples import sampled
from small_traces import drawn_trace

pytestmark = pytest.mark.timeout(600)

SYSTEMS = ("mohawk", "hierfavg")
#: One row per device, one letter per step: the AP it is at, "-" while it is away.
WHEREABOUTS = ("aabbaabb", "ab-ab-ab", "-bbaa-ba", "b-a-ba-b")
_DISORDER = ("rounds.dither_s=0",), {"late": (0.15, 0.05)}
WAYS = {
    "plain": ((), {}),
    "disorder on one core": (_DISORDER[0], {**_DISORDER[1], "one_core": True}),
    "disorder": _DISORDER,
    "one core": ((), {"one_core": True}),
}


@pytest.fixture(scope="module")
def runs(launch):
    trace = launch.base / "drawn.parquet"
    write_trace(drawn_trace(WHEREABOUTS), trace)

    def begun(way: str):
        overrides, how = WAYS[way]
        return launch(
            f"systems={list(SYSTEMS)}".replace("'", '"'),
            f'trace={{file="{trace}", steps=8}}',
            "fleet.aps=0",
            "learning.alpha=0.5",  # unequal sample counts and classes: the weights differ
            "rounds.sigma=0.8",
            "local.time_scale=8",
            "local.upload_mbit_s=1",
            "local.download_mbit_s=1",
            "energy.idle_baseline_s=0",
            *overrides,
            **how,
        )

    first = ("plain", "disorder on one core")  # at the same time: they wait for device time
    done = {way: run.finish() for way, run in [(way, begun(way)) for way in first]}

    def of(way: str):
        if way not in done:
            done[way] = begun(way).finish()
        return done[way]

    return of


def story(run, system: str) -> list[object]:
    """Everything the run decided, in order; what the clock said is left out."""
    kept: list[object] = []
    for record in run.records(system):
        match record:
            case StepOpened() | OrderGiven() | EdgeAggregated() | CloudAggregated() | OutcomeDecided():
                kept.append(record)
            case OrderAnswered():
                kept.append(dataclasses.replace(record, transfer_s=0.0, train_s=0.0, late_s=0.0))
            case StepClosed():
                kept.append(dataclasses.replace(record, wall_s=0.0))
    return kept


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("way", sampled(["disorder on one core"], ["disorder", "one core"]))
def test_placements_orders_weights_and_digests_are_those_of_the_plain_run(runs, system, way):
    assert story(runs(way), system) == story(runs("plain"), system)


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_final_model_on_disk_is_the_same_and_the_one_the_cloud_aggregated_last(runs, system):
    layout = layout_of(build("mlp", 1, 10)).fingerprint
    for way in ("plain", "disorder on one core"):
        run = runs(way)
        final = load_model(run.folder(system) / "models" / "global.safetensors")
        assert final.shape == (2410,)
        assert digest_of(encode(final, layout)) == runs("plain").of(CloudAggregated, system)[-1].digest


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_compared_runs_hold_all_there_is_to_compare(runs, system):
    run = runs("plain")
    placements = [(r.devices, r.aps) for r in run.of(StepOpened, system)]
    assert [devices for devices, _ in placements[1:4]] == [(0, 1, 2), (0, 2, 3), (0, 1, 2)]
    if system == "mohawk":  # the nearest AP; HierFAVG's devices keep theirs
        assert [aps for _, aps in placements[1:4]] == [(0, 1, 1), (1, 1, 0), (1, 0, 0)]
    weights = {weight for r in run.of(EdgeAggregated, system) for weight in r.weights}
    if system == "mohawk":
        assert len(weights) > 4  # by cosine attention
    else:
        assert weights == {0.5, 1.0}  # equal sample counts
    assert len({r.digest for r in run.of(EdgeAggregated, system)}) > 5
    assert len({r.digest for r in run.of(CloudAggregated, system)}) == 2  # k2 = 3 in 8 steps: t = 3 and 6
    assert all(answer.status == "done" for answer in run.of(OrderAnswered, system))
    outcomes = [r.outcome for r in run.of(OutcomeDecided, system)]
    assert set(outcomes) == {Outcome.AGGREGATED, Outcome.WASTED}


def test_the_two_systems_do_differ(runs):
    plain = runs("plain")
    first, second = ([r.digest for r in plain.of(CloudAggregated, system)] for system in SYSTEMS)
    assert first[-1] != second[-1]
    wasted = [
        sum(r.outcome is Outcome.WASTED for r in plain.of(OutcomeDecided, system)) for system in SYSTEMS
    ]
    assert wasted[0] < wasted[1]


def test_the_disorder_was_real(runs):
    """The first of n devices answers 50 ms x n late and the last one 50 ms, and a step waits for all."""

    def wall_s(way: str) -> float:
        return sum(r.wall_s for r in runs(way).of(StepClosed))

    # In seven steps the first device trains or uploads, and waits 0.2 s before it says so.
    assert wall_s("disorder on one core") > 7 * 0.2
