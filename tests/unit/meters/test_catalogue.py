"""Meters by name."""

import subprocess
import sys

import pytest

from roambench.contract.device_time import DeviceClock
from roambench.contract.errors import ConfigError
from roambench.meters.catalogue import METERS, open_meter
from roambench.meters.stream_meter import StreamMeter


def test_every_row_of_the_table_makes_a_meter():
    for name in METERS.own:
        assert open_meter(name, "localhost", DeviceClock(), reopen_allowed=True).state == "closed"
    assert isinstance(open_meter("smartpower2", "/dev/ttyUSB0", DeviceClock()), StreamMeter)
    assert {"smartpower2", "replay"} <= set(METERS.names())


def test_an_unknown_meter_is_refused_with_the_names_there_are():
    with pytest.raises(ConfigError, match=r"unknown meter 'smartpower9': expected one of .*smartpower2"):
        open_meter("smartpower9", "/dev/ttyUSB0", DeviceClock())


def test_a_driver_is_imported_when_its_meter_is_opened_and_not_before():
    code = "import sys, roambench.meters.catalogue; print('serial' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"
