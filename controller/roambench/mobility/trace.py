"""A mobility trace: who is where at each step, and where the access points stand. Columnar NumPy, pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from roambench.contract.errors import TraceError

IntColumn = npt.NDArray[np.int32]
FloatColumn = npt.NDArray[np.float64]


#: A step table of 80 MB; more is a damaged header, or a number mistyped.
MAX_STEPS: Final = 10_000_000
#: 1.2 GB in memory; 70,000 devices that are there at every hour of a month.
MAX_FIXES: Final = 50_000_000
#: Said wherever distances of such a trace are shown or used.
MADE_UP: Final = "access-point coordinates are made up: distances mean nothing"


@dataclass(frozen=True, eq=False)  # compared and hashed by identity; `files.content_hash` compares content
class Trace:
    """Fixes of devices on a plane in metres (south-west corner at the origin), sorted by (step, device).

    `step`, `device`, `x_m`, `y_m` have one entry per (step, device) at which it is present: shape (fixes,).
    A device appears at most once per step. `ap_x_m`, `ap_y_m` have shape (aps,), `place_x_m`, `place_y_m`
    the candidate places (may be empty).
    """

    steps: int
    step_s: float
    device_names: tuple[str, ...]
    step: IntColumn
    device: IntColumn
    x_m: FloatColumn
    y_m: FloatColumn
    ap_names: tuple[str, ...]
    ap_x_m: FloatColumn
    ap_y_m: FloatColumn
    start_utc_s: int = 0
    place_x_m: FloatColumn = field(default_factory=lambda: np.empty(0))
    place_y_m: FloatColumn = field(default_factory=lambda: np.empty(0))
    provenance: Mapping[str, object] = field(default_factory=dict)  # source, seed, recipe, counts
    ap: IntColumn | None = None  # the AP that the source recorded for each fix, shape (fixes,); None: none

    def __post_init__(self) -> None:
        if self.steps < 1 or not self.step_s > 0:
            raise TraceError(
                f"a trace needs at least one step of positive length, got {self.steps} x {self.step_s} s"
            )
        fixes = len(self.step)
        if fixes > MAX_FIXES:
            raise TraceError(
                f"a trace of {fixes:,} fixes, expected at most {MAX_FIXES:,}: take fewer devices or steps"
            )
        if not len(self.device) == len(self.x_m) == len(self.y_m) == fixes:
            raise TraceError("trace columns differ in length")
        if self.ap is not None:
            if len(self.ap) != fixes:
                raise TraceError("trace columns differ in length")
            if fixes and not 0 <= self.ap.min() <= self.ap.max() < len(self.ap_names):
                raise TraceError(f"recorded access points must lie in 0..{len(self.ap_names) - 1}")
        if not len(self.ap_names) == len(self.ap_x_m) == len(self.ap_y_m):
            raise TraceError("access point columns differ in length")
        if len(self.place_x_m) != len(self.place_y_m):
            raise TraceError("place columns differ in length")
        for name in ("x_m", "y_m", "ap_x_m", "ap_y_m", "place_x_m", "place_y_m"):
            if not np.isfinite(getattr(self, name)).all():
                raise TraceError(f"{name} holds NaN or infinity")
        if fixes:
            key = self.step.astype(np.int64) * max(1, len(self.device_names)) + self.device
            if np.any(np.diff(key) <= 0):
                raise TraceError("fixes must be sorted by (step, device), each pair once")
            if self.step[0] < 0 or self.step[-1] >= self.steps:
                raise TraceError(f"steps must lie in 0..{self.steps - 1}")
            if self.device.min() < 0 or self.device.max() >= len(self.device_names):
                raise TraceError(f"devices must lie in 0..{len(self.device_names) - 1}")

    @property
    def made_up(self) -> bool:
        """True where its source only named access points, so that they stand on a grid of no meaning."""
        return self.provenance.get("coordinates") == "synthetic"

    @cached_property
    def _starts(self) -> npt.NDArray[np.int64]:
        return np.searchsorted(self.step, np.arange(self.steps + 1)).astype(np.int64)

    def rows(self, step: int) -> slice:
        """The slice of the columns that holds `step`."""
        return slice(int(self._starts[step]), int(self._starts[step + 1]))

    def present(self, step: int) -> IntColumn:
        """Indices of the devices present at `step`, ascending."""
        return self.device[self.rows(step)]

    def with_fixes(
        self, rows: slice | npt.NDArray[np.integer], step: IntColumn, device: IntColumn, **changed: Any
    ) -> Trace:
        """The trace of the fixes in these rows, at `step` and of `device` instead, shape (rows,); `changed`
        are other fields."""
        return replace(
            self,
            step=step,
            device=device,
            x_m=self.x_m[rows],
            y_m=self.y_m[rows],
            ap=None if self.ap is None else self.ap[rows],
            **changed,
        )

    def derived(self, made: Mapping[str, object]) -> Mapping[str, object]:
        """The provenance with one more entry in the list of what was made of the trace."""
        before = self.provenance.get("derived", [])
        return {**self.provenance, "derived": [*(before if isinstance(before, list) else []), made]}
