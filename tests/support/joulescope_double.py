"""A double of `pyjoulescope_driver` 2.5: its topics and the values of its callbacks, with no device behind.

Facts from the library's sources: paths are BACKEND/MODEL/SERIAL, a JS220 counts blocks in samples of 1 MHz
and their ends in those of 2 MHz, values come from a thread of the library, its errors are RuntimeErrors.
Kinder than reality: it answers at once, means are exact, blocks are lost only when asked, and a device may be
opened twice.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

FREQ_HZ = 2_000_000
#: Topics of a device that take a value, by model.
TOPICS = {
    "js220": {"s/i/range/mode", "s/stats/scnt", "s/stats/ctrl"},
    "js110": {
        "s/i/range/select",
        "s/i/ctrl",
        "s/v/ctrl",
        "s/p/ctrl",
        "s/stats/scnt",
        "s/stats/ctrl",
    },
}
#: Of a JS110 at 2 Hz; it needs no setting.
OWN = "s/sstats/value"


class Plugged:
    """Devices on USB, the amperes at 5 V that flow through them, and how many blocks get lost."""

    def __init__(self, *paths: str) -> None:
        self.paths = list(paths)
        self.amps = 0.4
        self.lose = 0
        self.drivers: list[Any] = []

    def unplug(self, path: str) -> None:
        """Take a device out."""
        self.paths.remove(path)
        for driver in self.drivers:
            driver.say("@/!remove", path)

    def module(self) -> Any:
        """What `import pyjoulescope_driver` gives."""
        plugged = self

        class Driver(_Driver):
            def __init__(self) -> None:
                super().__init__(plugged)

        return type("pyjoulescope_driver", (), {"Driver": Driver})


class _Driver:
    def __init__(self, plugged: Plugged) -> None:
        self._plugged = plugged
        self._heard: dict[str, Callable[[str, Any], None]] = {}
        self._settings: dict[str, object] = {}
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        plugged.drivers.append(self)

    def device_paths(self) -> list[str]:
        return sorted(self._plugged.paths)

    def open(self, path: str) -> None:
        if path not in self._plugged.paths:
            raise RuntimeError(f"jsdrv_open failed 16 NOT_FOUND | {path}")
        self._thread = threading.Thread(target=self._measure, args=(path,), daemon=True)
        self._thread.start()

    def publish(self, topic: str, value: object) -> None:
        path, topic = "/".join(topic.split("/")[:3]), "/".join(topic.split("/")[3:])
        if topic not in TOPICS[path.split("/")[1]]:
            raise RuntimeError(f"jsdrv_publish failed 5 PARAMETER_INVALID | {topic}")
        self._settings[topic] = value

    def subscribe(self, topic: str, flags: str, call: Callable[[str, Any], None]) -> None:
        assert flags == "pub"
        self._heard[topic] = call

    def close(self, path: str) -> None:
        self._ended.set()
        if path not in self._plugged.paths:
            raise RuntimeError("jsdrv_close failed 16 NOT_FOUND")

    def finalize(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
        if self in self._plugged.drivers:
            self._plugged.drivers.remove(self)

    def say(self, topic: str, value: object) -> None:
        if topic in self._heard:
            self._heard[topic](topic, value)

    def _block(self, model: str) -> tuple[str, int]:
        """The topic and the samples at 2 MHz of the statistics that are asked for; 0: none are."""
        if model == "js110" and "s/stats/ctrl" not in self._settings:
            return OWN, FREQ_HZ // 2
        on = self._settings.get("s/stats/ctrl") in (1, "on")
        if model == "js110":
            on = on and all(self._settings.get(f"s/{signal}/ctrl") == "on" for signal in "ivp")
        count = int(str(self._settings.get("s/stats/scnt", 0)))
        return "s/stats/value", count * (2 if model == "js220" else 1) * on

    def _measure(self, path: str) -> None:
        model = path.split("/")[1]
        begin_s = time.monotonic()
        start = 123_457
        while not self._ended.is_set() and path in self._plugged.paths:
            topic, samples = self._block(model)
            if not samples:
                self._ended.wait(0.001)
                continue
            if (start - 123_457 + samples) / FREQ_HZ > time.monotonic() - begin_s:
                self._ended.wait(0.001)
                continue
            if self._plugged.lose:
                self._plugged.lose -= 1
            else:
                self.say(f"{path}/{topic}", statistics(start, samples, self._plugged.amps))
            start += samples


def statistics(start: int, samples: int, amps: float, volts: float = 5.0) -> dict[str, Any]:
    """The value of one block, as the library's binding makes it (fields that the driver may read)."""
    signals = {"current": (amps, "A"), "voltage": (volts, "V"), "power": (amps * volts, "W")}
    return {
        "time": {
            "samples": {"value": [start, start + samples], "units": "samples"},
            "sample_freq": {"value": FREQ_HZ, "units": "Hz"},
            "delta": {"value": samples / FREQ_HZ, "units": "s"},
        },
        "signals": {
            name: {key: {"value": value, "units": unit} for key in ("avg", "min", "max")}
            for name, (value, unit) in signals.items()
        },
        "source": "sensor",
    }
