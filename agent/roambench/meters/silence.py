"""Hints where a meter says nothing: what a person looks at first."""

from __future__ import annotations

_USUAL = "is it on, is its cable in?"
#: The vendor's commit 429051d of 2018-05-28, first in firmware 1.4, made it print readings on serial.
_SERIAL_SMARTPOWER2 = (
    "is its output on, is its cable in, is its firmware 1.4 or newer? An older one prints nothing on serial; "
    "http://192.168.4.1 over the meter's own Wi-Fi shows the version"
)


def why_silent(driver: str) -> str:
    """Return what to look at where a meter of this driver gives no reading."""
    return _SERIAL_SMARTPOWER2 if driver == "smartpower2" else _USUAL
