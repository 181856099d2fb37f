"""A Joulescope: by its maker's library without a device, and by a double of that library with one."""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
from collections.abc import Callable

import numpy as np
import pytest

from joulescope_double import FREQ_HZ, Plugged, statistics
from meter_items import items
from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError, MeterError
from roambench.contract.events import EventKind
from roambench.contract.records import ReadingFlag
from roambench.extras.meters.joulescope_device import _line
from roambench.meters.catalogue import open_meter, traits_at
from roambench.meters.frames.means import MeansFrames
from roambench.meters.protocol import Meter

JS220, JS110 = "u/js220/000415", "u/js110/000003"


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Plugged]:
    """Plugs devices in, of a double of the library."""

    def plug(*paths: str) -> Plugged:
        usb = Plugged(*paths)
        monkeypatch.setitem(sys.modules, "pyjoulescope_driver", usb.module())
        return usb

    return plug


def opened(port: str) -> Meter:
    return open_meter("joulescope", port, DeviceClock(), reopen_allowed=True)


@pytest.mark.parametrize(
    ("port", "expected"),
    [
        ("/dev/ttyACM0", "expected js110, js220, or one of them with a slash and its serial number"),
        ("js220?hz=200", "hz: expected one of 1, 2, 5, 10, 20, 50, 100, got '200'"),
    ],
)
def test_a_port_that_names_no_joulescope_is_refused(port: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        opened(port)
    assert traits_at("joulescope", "js220?hz=10").nominal_s == 0.1


def test_a_missing_library_is_one_sentence_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyjoulescope_driver", None)
    with pytest.raises(MeterError, match=r"pyjoulescope-driver is not installed .*-m pip install 'pyjou"):
        asyncio.run(opened("js220").open())


def test_the_real_library_has_what_is_called_and_finds_no_device_here() -> None:
    module = pytest.importorskip("pyjoulescope_driver")
    called = {"device_paths", "open", "publish", "subscribe", "close", "finalize"}
    assert called <= set(dir(module.Driver))
    with contextlib.closing(_Finalized(module.Driver())) as library:
        if library.driver.device_paths():
            pytest.skip("a Joulescope is plugged in here")
        with pytest.raises((RuntimeError, OSError)):
            library.driver.open(JS220)
    with pytest.raises(MeterError, match="no Joulescope answers here: is it plugged in"):
        asyncio.run(opened("js220").open())


class _Finalized:
    def __init__(self, driver) -> None:
        self.driver = driver

    def close(self) -> None:
        self.driver.finalize()


def test_of_several_devices_the_port_says_which(plugged) -> None:
    plugged(JS110, JS220, "u/js220/000416")
    with pytest.raises(MeterError, match="expected one of js220/000415, js220/000416"):
        asyncio.run(opened("js220").open())
    with pytest.raises(MeterError, match="not among the devices here, js110/000003, js220/000415"):
        asyncio.run(opened("js220/0004").open())


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("path", "port", "step_ms"),
    [
        (JS220, "js220", 10),
        (JS220, "js220/000415?hz=50", 20),
        (JS110, "js110", 10),
        (JS110, "js110?hz=2", 500),
    ],
)
async def test_readings_are_the_means_of_whole_windows_by_the_devices_own_clock(
    plugged, path: str, port: str, step_ms: int
) -> None:
    plugged(path)
    async with contextlib.aclosing(opened(port)) as meter:
        readings, events = await items(meter, readings=4)
    assert events[0].kind == EventKind.METER_DESCRIBED
    assert path in events[0].detail
    assert [r.watts for r in readings] == pytest.approx([2.0] * 4)
    assert {r.amps for r in readings} == {0.4}
    assert list(np.diff([r.meter_ms for r in readings])) == [step_ms] * 3


@pytest.mark.asyncio
async def test_lost_blocks_are_a_gap_and_the_ranges_end_is_told(plugged) -> None:
    usb = plugged(JS220)
    async with contextlib.aclosing(opened("js220")) as meter:
        before, _ = await items(meter, readings=3)
        usb.lose = 5
        readings, _ = await items(meter, readings=20)
        assert sorted(np.diff([r.meter_ms for r in before + readings])) == [*[10] * 21, 60]
        usb.amps = 10.2
        readings, events = await items(meter, kind=EventKind.METER_ALARM)
        assert events[-1].detail == "range: more than 10 A or 15 V"
        readings, _ = await items(meter, readings=1)
        assert readings[0].flags == ReadingFlag.SATURATED
        usb.amps = 0.4
        _, events = await items(meter, kind=EventKind.METER_ALARM)
        assert events[-1].detail == "range: none"


@pytest.mark.asyncio
async def test_a_device_that_is_unplugged_is_lost_and_comes_back(plugged) -> None:
    usb = plugged(JS220)
    async with contextlib.aclosing(opened("js220")) as meter:
        await items(meter, readings=2)
        usb.unplug(JS220)
        _, events = await items(meter, kind=EventKind.METER_LOST)
        assert events[-1].detail == "the device was unplugged"
        usb.paths.append(JS220)
        await items(meter, readings=2)
    assert usb.drivers == []


def test_a_window_without_a_mean_is_no_reading_and_the_clock_wraps() -> None:
    assert _line(statistics(0, 20_000, float("nan"))) == b""
    end = 2**32 * FREQ_HZ // 1000
    (reading,) = MeansFrames().feed(_line(statistics(end - 20_000, 20_000, 0.4)), 1)
    assert (reading.meter_ms, reading.watts) == (0, 2.0)


@pytest.mark.parametrize(
    ("port", "window_s", "current_limit", "offset_a"),
    [("js220", 0.01, 0.0025, 1.5e-3), ("js220?hz=1", 1.0, 0.0025, 1.5e-3), ("js110", 0.01, 0.01, 1.49e-3)],
)
def test_traits_are_the_makers_limits_of_the_model_and_a_value_is_the_mean_of_its_period(
    port: str, window_s: float, current_limit: float, offset_a: float
) -> None:
    row, volts_limit = traits_at("joulescope", port), math.hypot(10.2e-3 / 5.1, 0.005)
    assert row.nominal_s == row.window_s == window_s
    assert row.u_gain == pytest.approx(math.hypot(current_limit, volts_limit) / math.sqrt(3))
    assert row.u_offset_w == pytest.approx(offset_a * 5.1 / math.sqrt(3))
