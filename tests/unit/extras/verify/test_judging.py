"""Kits of boards that this test draws by itself: a fair one is believed, each deviation is found."""

from __future__ import annotations

import zipfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from roambench.contract.errors import ConfigError
from roambench.extras.verify.board_judging import board_findings
from roambench.extras.verify.finding import Held
from roambench.extras.verify.judging import judged
from roambench.extras.verify.kit import (
    FORMAT,
    Kit,
    Looked,
    MeterSeries,
    TimedTransfer,
    read_kit,
    write_kit,
)

STEP_W = 3.81687e-3


@dataclass(frozen=True)
class World:
    """A meter that averages `window_s` back to back and prints, every `line_s`, what was finished last."""

    line_s: float = 1.0
    jitter_s: float = 0.004
    window_s: float = 0.2638
    extra_age_s: float = 0.0
    wander_s: float = 0.0  # of each conversion: they keep no time
    amps_gain: float = 1.0
    step_w: float = STEP_W
    wander_w: float = 0.0
    slope: float = 0.0  # of a transfer's power over its length
    tail_w: float = 0.0
    drift_ppm: float = 3.0
    lost: float = 0.0


def kit_of(world: World, seed: int = 1) -> Kit:
    rng = np.random.default_rng(seed)
    edges = 100.0 + 5.37 / 2 * np.arange(2 * 112)
    rests = ((5.0, 95.0), (edges[-1] + 10.0, edges[-1] + 100.0))
    moved, at = [], rests[1][1] + 5.0
    for direction in ["download"] * 5 + ["upload"] * 5:
        moved.append(TimedTransfer(direction, at, at + 12.0, 30_000_000))
        at += 25.0
    fine_s = 0.002
    t = np.arange(0.0, at, fine_s)
    power = 2.0 + 2.4 * ((np.searchsorted(edges, t, side="right") % 2) == 1) * (t < edges[-1])
    for one in moved:
        into = (t - one.first_s) / (one.last_s - one.first_s)
        power += ((into >= 0) & (into < 1)) * (0.7 + world.slope * (into - 0.5))
        power += ((t >= one.last_s) & (t < one.last_s + 4.0)) * world.tail_w
    power += world.wander_w * np.sin(2 * np.pi * t / 55.0)
    total = np.concatenate(([0.0], np.cumsum(power) * fine_s))

    def mean(from_s: np.ndarray, until_s: np.ndarray) -> np.ndarray:
        begun, ended = (np.interp(when, np.append(t, at), total) for when in (from_s, until_s))
        return (ended - begun) / (until_s - from_s)

    ends = 0.111 + world.window_s * np.arange(1, int(at / world.window_s))
    ends = np.sort(ends + rng.normal(0.0, 1.0, len(ends)) * world.wander_s)
    lines = np.arange(2.0, at, world.line_s) + 0.37
    lines = lines[rng.random(len(lines)) >= world.lost]
    shown = ends[np.searchsorted(ends, lines - world.extra_age_s, side="right") - 1]
    watts = mean(shown - world.window_s, shown) + rng.normal(0.0, 0.004, len(lines))
    watts = np.round(watts / world.step_w) * world.step_w
    arrived = lines + np.abs(rng.normal(0.0, world.jitter_s, len(lines)))
    volts = 5.1 + rng.normal(0.0, 0.004, len(lines))
    columns = (arrived, watts, volts, world.amps_gain * watts / volts)
    series = MeterSeries(*(tuple(column.tolist()) for column in columns))
    return Kit(
        format=FORMAT, version="0", board="simulated", driver="smartpower2", traits="smartpower2",
        nominal_s=1.0, cores=4, series=series, edges_s=tuple(edges.tolist()), rests_s=rests,
        moved=tuple(moved), offsets=((0.0, 0.01, 0.001), (900.0, 0.01 + 900e-6 * world.drift_ppm, 0.001)),
        checks=(Looked("governor", "pass", "ondemand"),),
    )  # fmt: skip


def fails(kit: Kit) -> list[str]:
    findings = judged(kit)
    assert all(one.changes for one in findings if one.held is Held.FAILS)
    return [one.assumption for one in findings if one.held is Held.FAILS]


@pytest.mark.parametrize("seed", range(8))
def test_a_board_as_assumed_is_believed_in_everything(seed: int) -> None:
    board = {one.assumption for one in board_findings(kit_of(World()))}
    findings = [one for one in judged(kit_of(World(), seed)) if one.assumption not in board]
    assert [(one.assumption, one.found) for one in findings if one.held is not Held.HOLDS] == []
    assert len(findings) == 15


LINES, AGE = "a line every 1 s", "a value is at most 264 ms old"


@pytest.mark.parametrize(
    ("world", "found"),
    [
        (World(line_s=1.1), {LINES}),
        (World(jitter_s=0.2), {LINES, AGE}),
        (World(lost=0.05), {LINES}),
        (World(step_w=0.01), {"watts in steps of 3.82 mW"}),
        (World(amps_gain=1.05), {"watts are volts times amps"}),
        (World(window_s=0.6), {"a value is the mean of 264 ms", AGE}),
        (World(window_s=0.14), {"a value is the mean of 264 ms"}),
        (World(extra_age_s=0.5), {AGE}),
        (World(wander_s=0.015), {"conversions keep time"}),
        (World(wander_s=0.1), {"conversions keep time", AGE}),
        (World(wander_w=0.2), {"an idle board draws the same all the time"}),
        (World(slope=0.6), {"downloads draw constant power", "uploads draw constant power"}),
        (World(tail_w=0.3), {"nothing is drawn after downloads", "nothing is drawn after uploads"}),
        (World(drift_ppm=200.0), {"the board's clock keeps time within 50 ppm"}),
    ],
)
def test_a_deviation_is_found_and_no_other(world: World, found: set[str]) -> None:
    for seed in (1, 2, 3):
        assert set(fails(kit_of(world, seed))) == found


def test_what_was_not_seen_is_not_shown() -> None:
    whole = kit_of(World())
    empty = replace(whole, series=MeterSeries((), (), (), ()), edges_s=(), moved=(), rests_s=(), offsets=())
    held = {one.assumption: one.held for one in judged(empty)}
    assert set(held.values()) == {Held.UNKNOWN, Held.HOLDS}
    assert [name for name, one in held.items() if one is Held.HOLDS] == ["preflight: governor"]
    quiet = replace(whole, series=replace(whole.series, watts=tuple([2.0] * len(whole.series.at_s))))
    windows = [one for one in judged(quiet) if one.assumption.startswith(("a value", "conversions"))]
    assert [one.held for one in windows] == [Held.UNKNOWN] * 3
    with pytest.raises(ConfigError, match="expected meter traits"):
        judged(replace(whole, traits="nobody's"))


def test_a_kit_is_kept_and_read_again(tmp_path: Path) -> None:
    kit = kit_of(World())
    write_kit(tmp_path / "kit.zip", kit, ["said"])
    assert asdict(read_kit(tmp_path / "kit.zip")) == asdict(kit)
    with zipfile.ZipFile(tmp_path / "kit.zip") as archive:
        assert archive.read("report.txt") == b"said\n"


@pytest.mark.parametrize(
    "content",
    [b"", b"no zip", {"other.json": "{}"}, {"kit.json": "[" * 10000}, {"kit.json": '{"format": 1}'}],
)
def test_what_is_no_kit_is_an_error(tmp_path: Path, content: bytes | dict[str, str]) -> None:
    path = tmp_path / "kit.zip"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        with zipfile.ZipFile(path, "w") as archive:
            for name, text in content.items():
                archive.writestr(name, text)
    with pytest.raises(ConfigError, match=r"kit\.zip: "):
        read_kit(path)
