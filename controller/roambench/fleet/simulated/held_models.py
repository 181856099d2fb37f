"""The models that every virtual device holds, as an agent's disk would: trained, its own, the global one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from roambench.contract.json_values import from_values, plain
from roambench.fleet.simulated.job import TrainingJob
from roambench.fleet.simulated.model_rows import ModelRows


@dataclass(slots=True)
class HeldRows:
    """Rows, -1 where there is none. `global_row` is shared with the published version it came from.

    `kept_row` is what the local algorithm keeps from training to training.

    A `deferred` training has no row yet: its job says how to compute the model when it is wanted.
    """

    trained_row: int = -1
    trained_order_id: str = ""
    deferred: TrainingJob | None = None
    own_row: int = -1
    global_row: int = -1
    kept_row: int = -1
    memory_row: int = -1  # what a codec has yet to send

    @property
    def own_rows(self) -> tuple[int, ...]:
        """Rows that are the device's alone."""
        return self.trained_row, self.own_row, self.kept_row, self.memory_row

    @property
    def start_row(self) -> int:
        """The device's own model: that of its last training, else the last global one."""
        return next((row for row in (self.trained_row, self.own_row, self.global_row) if row >= 0), -1)


class HeldModels:
    """By device. `shares` counts who uses the row of a published version: it is released with the last."""

    def __init__(self, rows: ModelRows) -> None:
        self._rows = rows
        self._held: dict[int, HeldRows] = {}
        self._shares: dict[int, int] = {}

    def of(self, device: int) -> HeldRows:
        """The models of a device, an empty place if there are none."""
        return self._held.setdefault(device, HeldRows())

    def trained(self, device: int, order_id: str, row: int) -> None:
        """A finished training replaces the one before."""
        held = self.of(device)
        self._forget(held)
        held.trained_row, held.trained_order_id = row, order_id

    def defer(self, device: int, order_id: str, job: TrainingJob) -> None:
        """A training to be computed later replaces the one before; the version it starts from is kept."""
        held = self.of(device)
        self.share(job.ap_row)
        self._forget(held)
        held.deferred, held.trained_order_id = job, order_id

    def release(self, device: int, order_id: str, *, as_own: bool) -> None:
        """Uploaded or discarded; `as_own` keeps it as the device's own model."""
        held = self.of(device)
        if held.trained_order_id != order_id:
            return
        if as_own and held.trained_row >= 0:
            self._free(held.own_row)
            held.own_row, held.trained_row = held.trained_row, -1
        self._forget(held)

    def synchronise(self, device: int, row: int) -> None:
        """The published model in `row` is the device's own and its global one."""
        held = self.of(device)
        self._forget(held)
        self._free(held.own_row)
        self.share(row)
        self.unshare(held.global_row)
        self._held[device] = HeldRows(global_row=row, kept_row=held.kept_row, memory_row=held.memory_row)

    def keep(self, device: int, row: int) -> None:
        """Note that what the local algorithm keeps on the device now lies in `row`."""
        held = self.of(device)
        self._free(held.kept_row)
        held.kept_row = row

    def remember(self, device: int, row: int) -> None:
        """Note that what a codec has yet to send lies in `row`."""
        held = self.of(device)
        self._free(held.memory_row)
        held.memory_row = row

    def snapshot(self) -> list[dict[str, Any]]:
        """Holders and their models, as JSON values; `restore` is the inverse."""
        return [{"device": device, **plain(held)} for device, held in sorted(self._held.items())]

    def restore(self, saved: Sequence[Mapping[str, Any]]) -> None:
        """Restore all but the published versions, which the caller shares again."""
        for values in saved:
            rest = {name: value for name, value in values.items() if name != "device"}
            held = self._held[values["device"]] = from_values(HeldRows, rest, "held models")
            if held.global_row >= 0:
                self.share(held.global_row)
            if held.deferred is not None:
                self.share(held.deferred.ap_row)

    def rows(self) -> set[int]:
        """All that are in use, shared ones among them."""
        own = {row for held in self._held.values() for row in held.own_rows}
        return (own | self._shares.keys()) - {-1}

    def share(self, row: int) -> None:
        """Count one more user of a row."""
        self._shares[row] = self._shares.get(row, 0) + 1

    def unshare(self, row: int) -> None:
        """Count one user less of a row; without any it is released."""
        if row < 0:
            return
        self._shares[row] -= 1
        if not self._shares[row]:
            del self._shares[row]
            self._rows.release(row)

    def _forget(self, held: HeldRows) -> None:
        """The finished training is gone, computed or not."""
        self._free(held.trained_row)
        if held.deferred is not None:
            self.unshare(held.deferred.ap_row)
        held.trained_row, held.trained_order_id, held.deferred = -1, "", None

    def _free(self, row: int) -> None:
        if row >= 0:
            self._rows.release(row)
