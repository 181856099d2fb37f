"""A Joulescope by its maker's library, whose thread hands statistics to the running loop."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from roambench.extras.meters.library import library, on_loop
from roambench.meters.frames.means import line
from roambench.meters.sources.source import Lost, Take
from roambench.meters.traits import MeterTraits

#: The end of the highest ranges of both models.
MOST_A: Final = 10.0
MOST_V: Final = 15.0
#: Samples a second of statistics, as the library counts them.
_RATE_HZ: Final = {"js110": 2_000_000, "js220": 1_000_000}
#: What a JS110 works out itself; with other rates this machine does, of all its samples.
_JS110_OWN_HZ: Final = 2
_WRAP_MS: Final = 2**32


@dataclass
class JoulescopeDevice:
    """A `MeterSource`. `address`: a model, or `MODEL/SERIAL`."""

    address: str
    hz: int
    traits: MeterTraits
    unit: str = ""
    _driver: Any = None

    async def open(self, take: Take, lost: Lost) -> None:
        """Have the device measure; ValueError or OSError says why it does not."""
        module = library("pyjoulescope_driver", "pyjoulescope-driver", "joulescope")
        hand_over = on_loop(asyncio.get_running_loop())

        def came(value: Mapping[str, Any]) -> None:
            if self._driver is not None and (data := _line(value)):
                take(data)

        def removed(path: str) -> None:
            if self._driver is not None and path == self.unit:
                lost("the device was unplugged")

        self._driver, self.unit = await asyncio.to_thread(
            self._begin,
            module.Driver,
            lambda _topic, value: hand_over(came, value),
            lambda _topic, path: hand_over(removed, path),
        )

    async def close(self) -> None:
        """Stop the statistics; the board keeps its power."""
        driver, self._driver = self._driver, None
        if driver is not None:
            await asyncio.to_thread(_end, driver, self.unit)

    def _begin(
        self, new_driver: Callable[[], Any], on_value: Callable[..., None], on_removal: Callable[..., None]
    ) -> tuple[Any, str]:
        driver = new_driver()
        path = ""
        try:
            path = self._path(driver.device_paths())
            driver.open(path)
            *settings, statistics = _settings(path.split("/")[1], self.hz)
            for topic, value in settings:
                driver.publish(f"{path}/{topic}", value)
            driver.subscribe("@/!remove", "pub", on_removal)
            driver.subscribe(f"{path}/{statistics[0]}", "pub", on_value)
        except BaseException as error:
            _end(driver, path)
            if isinstance(error, RuntimeError):  # the library's own
                raise ValueError(str(error)) from None
            raise
        return driver, path

    def _path(self, paths: list[str]) -> str:
        found = [path for path in paths if f"{path}/".partition("/")[2].startswith(f"{self.address}/")]
        if len(found) == 1:
            return found[0]
        there = ", ".join(path.partition("/")[2] for path in found or paths)
        if found:
            raise ValueError(f"expected one of {there}")
        raise ValueError(
            f"not among the devices here, {there}"
            if paths
            else "no Joulescope answers here: is it plugged in, and are its udev rules installed?"
        )


def _settings(model: str, hz: int) -> Iterator[tuple[str, object]]:
    """Settings of a device that measures, as the library's command `statistics` has them; last the topic of
    its values."""
    count = _RATE_HZ[model] // hz
    if model == "js220":
        yield from (("s/i/range/mode", "auto"), ("s/stats/scnt", count), ("s/stats/ctrl", 1))
    else:
        yield "s/i/range/select", "auto"
        if hz == _JS110_OWN_HZ:
            yield "s/sstats/value", None
            return
        yield from ((f"s/{signal}/ctrl", "on") for signal in "ivp")
        yield from (("s/stats/scnt", count), ("s/stats/ctrl", "on"))
    yield "s/stats/value", None


def _end(driver: Any, path: str) -> None:
    with contextlib.suppress(RuntimeError, OSError):  # it is gone already
        if path:
            driver.close(path)
    driver.finalize()


def _line(value: Mapping[str, Any]) -> bytes:
    """The line of one window, which has the meter's clock by the count of its samples; b"" where its samples
    have no mean."""
    time, signals = value["time"], value["signals"]
    watts = signals["power"]["avg"]["value"]
    if not math.isfinite(watts):
        return b""
    current = signals["current"]
    full = current["max"]["value"] >= MOST_A or signals["voltage"]["max"]["value"] >= MOST_V
    end_ms = time["samples"]["value"][1] * 1000 // time["sample_freq"]["value"] % _WRAP_MS
    return line(watts, end_ms, amps=current["avg"]["value"], full=full)
