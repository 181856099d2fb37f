"""An emulated Nordic PPK2: its calibration text, its commands, its samples.

By ppk2-api 0.9.2 (command numbers, order of bits, `_parse_metadata`). Kinder than a real one: no spikes where
the range changes, no noise, a supply that is known, a buffer of a second, and a source that gives
any current. As a source it does not switch the emulated board: that draws its power with the output off, too.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from roambench.emulation.lines import LineLayout
from roambench.emulation.profiles import FirmwareProfile, Sensor, Transport
from roambench.extras.meters.ppk2_samples import ADC_V, RATE_HZ

_START, _STOP, _REGULATOR, _RUNNING, _MODE, _METADATA = 0x06, 0x07, 0x0D, 0x0C, 0x11, 0x19
_SOURCE: Final = 2
#: The two bytes of a voltage count millivolts from here on.
_REGULATOR_MV: Final = 800 - (3 << 8 | 32)
#: Bytes that follow a command.
_ARGUMENTS: Final = {_REGULATOR: 2, _RUNNING: 1, _MODE: 1}
_SHUNT_OHM: Final = (1003.3, 101.6, 10.3, 0.963, 0.0564)
_OFFSET: Final = 96.0
_GAIN: Final = 0.96
#: From here on the highest range measures.
_RANGE_4_A: Final = 0.07
#: Of the samples that a period has, more than this many are missing if a line was not printed.
_PERIOD_MS: Final = 10

_TEXT: Final = "\n".join(
    [
        "Calibrated: 0",
        *(f"R{k}: {ohm:.4f}" for k, ohm in enumerate(_SHUNT_OHM)),
        *(
            f"{key}{k}: {value:.4f}"
            for key, value in (
                ("GS", 0.0),
                ("GI", _GAIN),
                ("O", _OFFSET),
                ("S", 0.0),
                ("I", 0.0),
                ("UG", 1.0),
            )
            for k in range(5)
        ),
        "HW: 9173",
        "IA: 56",
        "END\n",
    ]
)


class Ppk2Dialog:
    """A `Dialog`: answers by the protocol, and makes samples of a line `MILLISECONDS AMPERES WATTS`.

    As a source it gives the amperes that those watts are at its own volts.
    """

    def __init__(self) -> None:
        self._heard = b""
        self._measuring = False
        self._is_source = False
        self._set_v = 0.0
        self._output = False
        self._last_ms = 0
        self._count = 0
        self._fraction = 0.0

    def hear(self, data: bytes) -> bytes:
        """Obey the commands; the answer to GET_META_DATA is the calibration."""
        self._heard += data
        answer = b""
        while self._heard and len(self._heard) > _ARGUMENTS.get(self._heard[0], 0):
            command, *argument = self._heard[: 1 + _ARGUMENTS.get(self._heard[0], 0)]
            self._heard = self._heard[1 + _ARGUMENTS.get(command, 0) :]
            if command == _METADATA:
                answer += _TEXT.encode()
            elif command in (_START, _STOP):
                self._measuring = command == _START
            elif command == _MODE:
                self._is_source = argument == [_SOURCE]
            elif command == _REGULATOR:
                self._set_v = 1e-3 * (int.from_bytes(argument) + _REGULATOR_MV)
            elif command == _RUNNING:
                self._output = argument != [0]
        return answer

    def say(self, line: bytes) -> bytes:
        """The samples since the line before; those of lines that were not printed are missing."""
        ms, amps, watts = line.split()
        if self._is_source:
            amps = b"%.9f" % (float(watts) / self._set_v if self._output and self._set_v else 0.0)
        passed_ms, self._last_ms = (int(ms) - self._last_ms) % 2**32, int(ms)
        if not self._measuring:
            return b""
        said_ms = passed_ms if passed_ms < 2 * _PERIOD_MS else _PERIOD_MS
        self._count += (passed_ms - said_ms) * RATE_HZ // 1000
        samples = said_ms * RATE_HZ // 1000
        at = 4 if float(amps) >= _RANGE_4_A else 3
        steps = (float(amps) / _GAIN / (ADC_V / _SHUNT_OHM[at]) + _OFFSET) / 4
        # Whole steps whose sum is exact to less than a step.
        sums = np.floor(self._fraction + steps * np.arange(samples + 1))
        self._fraction = (self._fraction + steps * samples) % 1.0
        words = np.diff(sums).astype(np.uint32)
        counter = (self._count + np.arange(samples)) % 64
        self._count += samples
        said: bytes = (words | np.uint32(at << 14) | counter.astype(np.uint32) << 18).astype("<u4").tobytes()
        return said


PPK2: Final = FirmwareProfile(
    name="ppk2",
    product="Nordic Power Profiler Kit II",
    traits="ppk2",
    sensor=Sensor.MEAN,
    period_s=_PERIOD_MS * 1e-3,
    lines={Transport.SERIAL: LineLayout("{meter_ms} {amps:.9f} {watts:.9f}", while_off=True)},
    boot=(),
    output_s=0.0,
    boot_s=0.0,
    messages=(),
    version="",
    rom=False,
    bauds={0: 12_000_000},  # USB at full speed
    drivers={Transport.SERIAL: "ppk2"},
    dialog=Ppk2Dialog,
    options="volts=5.1",
)
