"""The chip of a board's kernel that a meter is, in the words of a udev rule."""

from __future__ import annotations

import re
from typing import Final

from roambench.meters.chips import CHIPS
from roambench.provision.bench import MeterEntry

_ADDRESS: Final = re.compile(r"\d+-[0-9a-f]{4}")


def chip_match(meter: MeterEntry) -> str:
    """The chip of the meter's port as a udev rule matches it; "" where only a rail's label is known."""
    chip = meter.i2c.partition("@")[2] or meter.port.partition("?")[0].partition("+")[0].partition("/")[0]
    if _ADDRESS.fullmatch(chip):
        return f'KERNELS=="{chip}"'
    return f'ATTR{{name}}=="{chip}"' if chip in CHIPS else ""
