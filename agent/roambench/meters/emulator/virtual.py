"""A meter in virtual time: a schedule of activities in, stamped bytes and the truth out; nobody sleeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from roambench.contract.records import Reading
from roambench.meters.emulator.board import EmulatedBoard
from roambench.meters.emulator.firmware import Chunk
from roambench.meters.emulator.power import Activity, PiPower
from roambench.meters.emulator.signal import PowerSignal
from roambench.meters.emulator.spec import EmulatedDevice, EmulatorSpec, Fault
from roambench.meters.frames.smartpower2 import Smartpower2Frames


@dataclass(frozen=True, slots=True)
class VirtualRun:
    """`chunks`: (received_ns, bytes), ascending; `truth`: the power that never passed through a sensor."""

    chunks: list[Chunk]
    truth: PowerSignal

    def readings(self) -> list[Reading]:
        """The chunks through the real parser."""
        frames = Smartpower2Frames()
        return [reading for ns, data in self.chunks for reading in frames.feed(data, ns)]


def emulate(
    schedule: Iterable[tuple[float, Activity]],
    duration_s: float,
    seed: int,
    *,
    device: int = 0,
    power: PiPower | None = None,
    gain: float = 1.0,
    offset_w: float = 0.0,
    ppm: float | None = None,
    tolerance: float = 1.0,
    noise_per_line: float = 0.0,
    boots: bool = False,
    faults: Iterable[Fault] = (),
    profile: str = "smartpower2-1.6",
    start_ns: int = 0,
) -> VirtualRun:
    """Emulate one board from `start_ns` for `duration_s`.

    `schedule` holds (seconds after the start, activity from then on); before its first entry the board is
    idle. `device` keys the draws (window phase, tolerances, crystal), with `seed`. `tolerance` 0 makes a
    meter of perfect parts; it still has steps, windows and the firmware's 0.059 %.
    """
    row = EmulatedDevice(f"board-{device}", "", gain, offset_w, ppm, power or PiPower(), tuple(faults))
    spec = EmulatorSpec(
        devices=(row,) * (device + 1),
        socket_path="",
        truth_dir="",
        seed=seed,
        profile=profile,
        tolerance=tolerance,
        noise_per_line=noise_per_line,
        boots=boots,
    )
    board = EmulatedBoard(spec, device, start_ns)
    for at_s, activity in schedule:
        board.work(activity, start_ns + round(at_s * 1e9))
    end_ns = start_ns + round(duration_s * 1e9)
    return VirtualRun([chunk for chunk in board.advance(end_ns) if chunk[0] <= end_ns], board.signal)
