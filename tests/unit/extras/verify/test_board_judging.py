"""What a kit tells of board, system, radio and switch: shown, not shown, and each deviation found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roambench.extras.verify.board_judging import board_findings
from roambench.extras.verify.finding import Held
from roambench.extras.verify.kit import (
    FORMAT,
    NOT_A_PI,
    Cut,
    Image,
    Kit,
    MeterSeries,
    Opening,
    read_kit,
    write_kit,
)
from roambench.meters.transcript import read_transcript

IMAGE = Image(("performance",) * 4, True, 3, True, 9, 0)
KIT = Kit(
    FORMAT, "0", "simulated", "smartpower2", "smartpower2", 1.0, 4, MeterSeries((), (), (), ()),
    trips_s=((0.06, 0.03),) * 5, step_cpu_s=0.6, throttle_bits=0,
    images=(IMAGE, replace(IMAGE, boots_kept=4)),
    openings=(Opening("the agent", True, False), Opening("verify", True, False)),
    cuts=(Cut(False, False, 31.0),),
    transcript="# meter: smartpower2\n0.001000\t5.161,0.662,3.416,0.000\\r\\n\n",
)  # fmt: skip
RADIO = "a radio that rested answers within 100 ms more"
STEP = "an SGD step takes 0.4 CPU-seconds"
THROTTLE = "ten minutes of load throttle nothing"
OPENING = "opening the meter's port leaves the board its power"
OFF = "a board that is switched off is off"
CLOCK = "the clock rate is fixed after a boot"
LOGS = "logs of the boot before are kept"
NAME = "the meter has its stable name after a boot"
QUIET = "what provisioning made quiet stays quiet"


def held(kit: Kit) -> dict[str, Held]:
    findings = list(board_findings(kit))
    assert all(bool(one.changes) == (one.held is Held.FAILS) for one in findings)
    return {one.assumption: one.held for one in findings}


def test_a_board_as_assumed_holds_everything() -> None:
    assert held(KIT) == dict.fromkeys(
        (RADIO, STEP, THROTTLE, OPENING, OFF, CLOCK, LOGS, NAME, QUIET), Held.HOLDS
    )


def test_what_was_not_tried_is_not_shown() -> None:
    untried = replace(
        KIT, trips_s=(), step_cpu_s=None, throttle_bits=None, images=(), openings=(), cuts=(), transcript=""
    )
    assert set(held(untried).values()) == {Held.UNKNOWN}
    uncut = replace(KIT, images=(replace(IMAGE, boots_kept=1),), cuts=(), openings=())
    assert {name for name, one in held(uncut).items() if one is Held.UNKNOWN} == {
        OPENING, OFF, CLOCK, LOGS, NAME
    }  # fmt: skip


def test_how_fast_a_machine_trains_that_is_no_raspberry_pi_shows_nothing() -> None:
    assert held(replace(KIT, board=NOT_A_PI, step_cpu_s=0.1))[STEP] is Held.UNKNOWN


@pytest.mark.parametrize(
    ("board", "step_s"), [("Raspberry Pi 4 Model B Rev 1.4", 0.2), ("Raspberry Pi 5 Model B Rev 1.0", 0.08)]
)
def test_a_faster_board_trains_as_fast_as_its_kind(board: str, step_s: float) -> None:
    name = f"an SGD step takes {step_s:g} CPU-seconds"
    assert held(replace(KIT, board=board, step_cpu_s=step_s))[name] is Held.HOLDS
    assert held(replace(KIT, board=board, step_cpu_s=0.6))[name] is Held.FAILS


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"trips_s": ((0.4, 0.03),) * 5}, RADIO),
        ({"step_cpu_s": 0.1}, STEP),
        ({"step_cpu_s": 1.2}, STEP),
        ({"throttle_bits": 0x80008}, THROTTLE),
        ({"throttle_bits": 0x20000}, THROTTLE),
        ({"openings": (Opening("verify", False, False),)}, OPENING),
        ({"openings": (Opening("verify", True, True),)}, OPENING),
        ({"cuts": (Cut(True, True, 1.0),)}, OFF),
        ({"cuts": (Cut(False, False, None),)}, OFF),
        ({"images": (IMAGE, replace(IMAGE, boots_kept=4, governors=("ondemand",)))}, CLOCK),
        ({"images": (IMAGE, replace(IMAGE, journal_on_card=False))}, LOGS),
        ({"images": (IMAGE, replace(IMAGE, boots_kept=3))}, LOGS),
        ({"images": (IMAGE, replace(IMAGE, boots_kept=4, meter_named=False))}, NAME),
        ({"images": (IMAGE, replace(IMAGE, boots_kept=4, loud=1))}, QUIET),
    ],
)
def test_a_deviation_is_found_and_no_other(changed: dict[str, Any], found: str) -> None:
    assert [name for name, one in held(replace(KIT, **changed)).items() if one is Held.FAILS] == [found]


def test_a_kit_s_transcript_can_be_replayed(tmp_path: Path) -> None:
    write_kit(tmp_path / "kit.zip", KIT, [])
    (tmp_path / "said.txt").write_text(read_kit(tmp_path / "kit.zip").transcript)
    assert [said for _, said in read_transcript(tmp_path / "said.txt")] == [b"5.161,0.662,3.416,0.000\r\n"]
