"""All that was seen of one board and its meter, without names, addresses, serial numbers and keys.

A file of it can be sent to another person, and judged there again.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.json_values import from_json

FORMAT: Final = 1
_KIT: Final = "kit.json"
#: `Kit.board` of a machine that says no model.
NOT_A_PI: Final = "not a Raspberry Pi"
#: Half an hour of readings is 150 kB.
_MOST_BYTES: Final = 64 * 2**20


@dataclass(frozen=True, slots=True)
class MeterSeries:
    """The meter's values, by the host's clock from its first line on; None is what a line does not have."""

    at_s: tuple[float, ...]
    watts: tuple[float | None, ...]
    volts: tuple[float | None, ...]
    amps: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class TimedTransfer:
    """One transfer over SSH: "download" (to the board) or "upload", from its first byte there to its last."""

    direction: str
    first_s: float
    last_s: float
    bytes_moved: int


@dataclass(frozen=True, slots=True)
class Looked:
    """One line of a preflight."""

    name: str
    verdict: str
    found: str


@dataclass(frozen=True, slots=True)
class Image:
    """The settings of a host's system, asked once. None: there is no such thing there.

    `boots_kept`: of how many boots its journal has lines. `meter_named`: whether the bench's name for the
    meter leads to a port. `quiet`, `loud`: values that provisioning has written, and those that are back.
    """

    governors: tuple[str, ...] = ()
    journal_on_card: bool = False
    boots_kept: int = 0
    meter_named: bool | None = None
    quiet: int = 0
    loud: int = 0


@dataclass(frozen=True, slots=True)
class Opening:
    """The meter's port was opened: `lived` if the board did, `restarted` if the meter said its boot text."""

    by: str
    lived: bool
    restarted: bool


@dataclass(frozen=True, slots=True)
class Cut:
    """The board switched off and on again. `answered`: it did so while off; `same_boot`: it never went down.

    `back_after_s`: from "on" until it could be logged in to; None: it did not come back.
    """

    answered: bool
    same_boot: bool
    back_after_s: float | None


@dataclass(frozen=True, slots=True)
class Kit:
    """`edges_s` are when all cores began to compute, rested, began again, and so on.

    `rests_s` are (from, until) in which the board was asked for nothing. `offsets` are (at, offset,
    bound) of the host's wall clock against the controller's. All times in s.

    `trips_s`: how long the first answer after a rest took, and the next ones in the median. `images`: before,
    and after a cut. `transcript`: the meter's own bytes, as `meters.transcript` writes them.
    """

    format: int
    version: str
    board: str
    driver: str
    traits: str
    nominal_s: float
    cores: int
    series: MeterSeries
    edges_s: tuple[float, ...] = ()
    rests_s: tuple[tuple[float, float], ...] = ()
    moved: tuple[TimedTransfer, ...] = ()
    offsets: tuple[tuple[float, float, float], ...] = ()
    checks: tuple[Looked, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    trips_s: tuple[tuple[float, float], ...] = ()
    step_cpu_s: float | None = None
    throttle_bits: int | None = None
    images: tuple[Image, ...] = ()
    openings: tuple[Opening, ...] = ()
    cuts: tuple[Cut, ...] = ()
    transcript: str = ""


def write_kit(path: Path, kit: Kit, report: Sequence[str]) -> None:
    """The kit and what was made of it, as text; OSError."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_KIT, json.dumps(asdict(kit)))
        archive.writestr("report.txt", "".join(f"{line}\n" for line in report))


def read_kit(path: Path) -> Kit:
    """ConfigError for a file that is no kit."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(_KIT) as file:
            text = file.read(_MOST_BYTES + 1)
    except OSError as error:
        raise ConfigError([f"{path}: cannot be read: {error.strerror or error}"]) from None
    except (zipfile.BadZipFile, KeyError, RuntimeError, NotImplementedError, ValueError):
        raise ConfigError([f"{path}: expected a kit that `roambench fleet verify -o` wrote"]) from None
    if len(text) > _MOST_BYTES:
        raise ConfigError([f"{path}: larger than any kit"])
    kit = from_json(Kit, text, str(path))
    lengths = {len(part) for part in (kit.series.at_s, kit.series.watts, kit.series.volts, kit.series.amps)}
    if kit.format != FORMAT or len(lengths) != 1:
        raise ConfigError([f"{path}: expected a kit of format {FORMAT} with columns of one length"])
    return kit
