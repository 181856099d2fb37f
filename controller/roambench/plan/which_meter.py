"""The table of `docs/which-meter.md`: widths of joules by meter, from the formula of `run --plan`.

python -m roambench.plan.which_meter
"""

from __future__ import annotations

import math
from typing import Final

from roambench.emulation.electric.power import Activity, PiPower
from roambench.experiment.rounds_section import REST_PERIODS, REST_S
from roambench.meters.traits import TRAITS, MeterTraits
from roambench.plan.tables import percent_of
from roambench.plan.widths import ExpectedPhases

_TRANSFERS: Final = 20
_SECONDS: Final = (1.0, 2.0, 10.0)
_UPLOAD: Final = Activity(tx_mbit_s=20.0)
#: Mean power of a board over a whole run, W.
_MEAN_W: Final = 2.2


def table() -> str:
    """The table of `docs/which-meter.md`: a line for each row of traits that is ours."""
    names = [name for name in TRAITS.names() if not TRAITS.added_by(name)]
    head = ("traits", "a value each", "mean of", *(f"{seconds:g} s" for seconds in _SECONDS), "whole run")
    return "\n".join(
        [
            f"| {' | '.join(head)} |",
            f"|---|{'---:|' * (len(head) - 1)}",
            *(f"| `{name}` {_row(TRAITS.load(name))}" for name in names),
        ]
    )


def _row(meter: MeterTraits) -> str:
    rest_s = REST_S + REST_PERIODS * meter.nominal_s
    board = PiPower()
    cells = [f"{meter.nominal_s:g} s", f"{float(f'{1e3 * meter.window_s:.3g}'):g} ms"]
    for seconds in _SECONDS:
        uploads = ExpectedPhases()
        for _ in range(_TRANSFERS):
            uploads.add(board.watts(_UPLOAD) - board.idle_w, seconds)
        u_j = math.hypot(uploads.u_j(rest_s, meter), meter.u_gain * uploads.net_j)
        cells.append(_width(u_j / uploads.net_j))
    cells.append(_width(math.hypot(meter.u_gain, meter.u_offset_w / _MEAN_W)))
    return f"| {' | '.join(cells)} |"


def _width(share: float) -> str:
    return f"± {percent_of(2.0 * share)} %"


if __name__ == "__main__":
    print(table())
