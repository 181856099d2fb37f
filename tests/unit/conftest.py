"""A real emulator process, started per test."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.emulation.spec import EmulatedDevice, EmulatorSpec


@dataclass
class Emulator:
    """A running emulator: its spec, clock and process."""

    spec: EmulatorSpec
    clock: DeviceClock
    process: subprocess.Popen[bytes]

    @property
    def socket(self) -> Path:
        return Path(self.spec.socket_path)

    def port(self, index: int) -> str:
        return self.spec.devices[index].link_path

    def truth(self, index: int) -> Path:
        return Path(self.spec.truth_dir) / f"{self.spec.devices[index].name}.csv"

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)


StartEmulator = Callable[..., Emulator]


@pytest.fixture
def start_emulator(tmp_path: Path) -> Iterator[StartEmulator]:
    """Call it with one dict of EmulatedDevice options per meter; `time_scale` 12 unless said otherwise."""
    started: list[Emulator] = []

    def start(*devices: dict[str, object], time_scale: float = 12.0, **options: object) -> Emulator:
        folder = tmp_path
        (folder / "truth").mkdir(exist_ok=True)
        clock = started[0].clock if started else DeviceClock(time.monotonic_ns(), time_scale)
        spec = EmulatorSpec(
            devices=tuple(
                EmulatedDevice(
                    f"pi-{i:02d}",
                    **{"link_path": str(folder / f"meter-{i:02d}"), **values},  # type: ignore[arg-type]
                )
                for i, values in enumerate(devices)
            ),
            socket_path=str(options.pop("socket_path", folder / "emulator.sock")),
            truth_dir=str(folder / "truth"),
            epoch_ns=clock.epoch_ns,
            time_scale=clock.time_scale,
            **options,  # type: ignore[arg-type]
        )
        path = folder / "emulator.json"
        path.write_text(spec.to_json())
        process = subprocess.Popen([sys.executable, "-m", "roambench.emulation", str(path)])
        emulator = Emulator(spec, clock, process)
        started.append(emulator)
        deadline = time.monotonic() + 60
        while not emulator.socket.exists():
            assert process.poll() is None, "the emulator ended"
            assert time.monotonic() < deadline, "the emulator did not come up"
            time.sleep(0.01)
        return emulator

    yield start
    for emulator in started:
        emulator.process.kill()
        emulator.process.wait(60)
