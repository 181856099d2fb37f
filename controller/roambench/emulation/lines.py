"""How each firmware spells one printout, per transport: pure, one small function each; None says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: 12 V adapters are common; these boards were seen with 15.3 V. The converter loses a tenth and 0.6 W.
INPUT_V: Final = 15.3
INPUT_OHM: Final = 0.05
CONVERTER_SHARE: Final = 0.90
OWN_W: Final = 0.6


@dataclass(frozen=True, slots=True)
class Printout:
    """The values that a firmware holds when it prints. `on`: the output is on.

    `watt_hours` is the meter's own counter after this tick, `watt_hours_before` before it; `meter_ms` its own
    clock.
    """

    on: bool
    volts: float
    amps: float
    watts: float
    watt_hours: float = 0.0
    watt_hours_before: float = 0.0
    meter_ms: int = 0


def smartpower2_serial(at: Printout) -> bytes | None:
    """Silent while off; the counter is printed before the tick that raises it."""
    if not at.on:
        return None
    return b"%.3f,%.3f,%.3f,%.3f\r\n" % (at.volts, at.amps, at.watts, at.watt_hours_before)


def smartpower2_telnet(at: Printout) -> bytes:
    """Zeros while off."""
    return b"%.3f,%.3f,%.3f,%.3f\r\n" % (at.volts, at.amps, at.watts, at.watt_hours)


def smartpower2_web(at: Printout) -> bytes | None:
    """Watts first."""
    if not at.on:
        return None
    return b"d%.3f,%.3f,%.3f,%.3f" % (at.watts, at.volts, at.amps, at.watt_hours)


def smartpower2_web_old(at: Printout) -> bytes | None:
    """Up to firmware 1.1 volts and amperes had two decimals."""
    if not at.on:
        return None
    return b"d%.3f,%.2f,%.2f,%.3f" % (at.watts, at.volts, at.amps, at.watt_hours)


def ytrikoz_serial(at: Printout) -> bytes | None:
    """Milliamperes below half an ampere; a carriage return alone ends the line."""
    if not at.on:
        return None
    if at.amps < 0.5:
        return b"%.2fV %3.0fmA %.2fW\r" % (at.volts, 1e3 * at.amps, at.watts)
    return b"%.2fV %.2fA %.2fW\r" % (at.volts, at.amps, at.watts)


def ytrikoz_web(at: Printout) -> bytes | None:
    """One JSON frame of the ytrikoz firmware's WebSocket; None while the output is off."""
    if not at.on:
        return None
    return b'{"v":%.3f,"i":%.3f,"p":%.3f,"wh":%.6f}' % (at.volts, at.amps, at.watts, at.watt_hours)


def ytrikoz_telnet(at: Printout) -> bytes | None:
    """The same frame as a line of its telnet port."""
    text = ytrikoz_web(at)
    return None if text is None else text + b"\r"


def _smartpower3_fields(at: Printout) -> tuple[bytes, bytes, bytes]:
    """Input, channel 0 (the board), channel 1 (nothing): mV, mA, mW, as the firmware's three buffers."""
    milliamps = round(1e3 * at.amps)
    milliwatts = round(1e3 * at.watts)
    input_w = OWN_W + at.watts / CONVERTER_SHARE
    input_a = input_w / INPUT_V
    first = b"%010d,%05d,%04d,%05d,0," % (
        at.meter_ms,
        1e3 * (INPUT_V - INPUT_OHM * input_a),
        1e3 * input_a,
        1e3 * input_w,
    )
    if at.on:
        board = b"%05d,%04d,%05d,1,00," % (round(1e3 * at.volts), milliamps, milliwatts)
    else:
        board = b"00000,0000,00000,0,00,"
    return first, board, b"00000,0000,00000,0,00"


def _checksums(data: bytes, *, cast: bool) -> bytes:
    """Two's complement of the sum, and the xor. Without the `cast` to a byte a sum of 0 prints as `100`."""
    complement = 256 - (sum(data) & 0xFF)
    if cast:
        complement &= 0xFF
    folded = int.from_bytes(data)
    for shift in range(9, 2, -1):  # halves of one long number onto each other: eight times as fast
        folded ^= folded >> 2**shift
    return b"%02x,%02x" % (complement, folded & 0xFF)


def _smartpower3_parts(at: Printout, *, cast: bool, end: bytes) -> tuple[bytes, bytes, bytes, bytes]:
    first, board, other = _smartpower3_fields(at)
    other += b","
    return first, board, other, _checksums(first + board + other, cast=cast) + end


def smartpower3_1_6(at: Printout) -> bytes:
    """15 fields, no checksum, the line's end the wrong way round."""
    return b"".join(_smartpower3_fields(at)) + b"\n\r"


def smartpower3_1_6_tcp(at: Printout) -> bytes:
    """Each buffer is sent with the zero that ends it."""
    return b"\0".join(_smartpower3_fields(at)) + b"\n\r\0"


def smartpower3_1_7(at: Printout) -> bytes:
    """A line of firmware 1.7: 15 fields, two checksums, the line's end the wrong way round."""
    return b"".join(_smartpower3_parts(at, cast=False, end=b"\n\r"))


def smartpower3_1_7_udp(at: Printout) -> bytes:
    """Buffers of 31, 23, 23 and 8 bytes with their zeros: 85 bytes; `100` pushes the last zero out."""
    first, board, other, sums = _smartpower3_parts(at, cast=False, end=b"\n\r")
    return first + b"\0" + board + b"\0" + other + b"\0" + (sums + b"\0")[:8]


def smartpower3_1_8(at: Printout) -> bytes:
    """A line of firmware 1.8: 15 fields, two checksums, the line's end the right way round."""
    return b"".join(_smartpower3_parts(at, cast=False, end=b"\r\n"))


def smartpower3_1_8_udp(at: Printout) -> bytes:
    """80 bytes: the newline is left out; after `100` the carriage return, too."""
    *fields, sums = _smartpower3_parts(at, cast=False, end=b"\r\n")
    return b"".join(fields) + sums[:6]


def smartpower3_1_9_udp(at: Printout) -> bytes:
    """81 bytes; after `100` the newline is lost."""
    *fields, sums = _smartpower3_parts(at, cast=False, end=b"\r\n")
    return b"".join(fields) + sums[:7]


def smartpower3_2_2(at: Printout) -> bytes:
    """The same line on serial and in a datagram, `100` mended."""
    return b"".join(_smartpower3_parts(at, cast=True, end=b"\r\n"))
