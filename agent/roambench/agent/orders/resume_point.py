"""The models that a device held before the step with which its run goes on should the controller die."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Protocol

from roambench.contract.json_values import kept_in
from roambench.contract.whole_file import sync, write_whole

_DESCRIPTION: Final = "point.json"


class ModelKeeper(Protocol):
    """Keeps models for the device: the model cache, or what a decentralised run's device holds."""

    def files(self) -> Sequence[Path]:
        """All that it keeps now, in files that are replaced and never changed."""
        ...

    def put_back(self, folder: Path) -> None:
        """Keep from now on what `files` were when they were linked into `folder`."""
        ...


@dataclass(frozen=True, slots=True)
class _Point:
    run_id: str
    step: int
    part: int


class ResumePoint:
    """Links, in `folder`, to what `keepers` (by name) kept before a step: no model is copied.

    The links are synced before the description names them, and only then those of an earlier step go:
    whichever process dies when, there is one point, and it is whole.
    """

    def __init__(self, folder: Path, keepers: Mapping[str, ModelKeeper]) -> None:
        self._folder = folder
        self._keepers = keepers
        self._run_id, self._part = "", 0
        self._point = self._read()

    def begin(self, run_id: str, resumes_at: int, part: int, *, left: bool = False) -> None:
        """A controller says whose it is. Where an earlier one of its run died since, or the device had `left`
        the run, it holds again what it held before step `resumes_at`: what it did later is void."""
        self._run_id, self._part = run_id, part
        if not (left or self.is_behind(run_id, part)):
            return
        point = self._point
        if point is not None and self.is_before(run_id, resumes_at):
            for name, keeper in self._keepers.items():
                keeper.put_back(self._place(point) / name)
        # Without such a point the device has had no order since the run's checkpoint.
        self._take(_Point(run_id, resumes_at, part))

    def is_of(self, run_id: str) -> bool:
        """Return whether there is a point of that run."""
        return self._point is not None and self._point.run_id == run_id

    def is_before(self, run_id: str, resumes_at: int) -> bool:
        """Return whether there is a point to which the device can go back for that step of that run."""
        point = self._point
        return point is not None and (point.run_id, point.step) == (run_id, resumes_at)

    def is_behind(self, run_id: str, part: int) -> bool:
        """Return whether the device still knows of an earlier controller of that run only."""
        point = self._point
        known = point.part if point is not None and point.run_id == run_id else 0
        return part > known

    def reach(self, resumes_at: int) -> None:
        """To be called before an order is carried out, with what it says."""
        if self.is_due(resumes_at):
            self._take(_Point(self._run_id, resumes_at, self._part))

    def is_due(self, resumes_at: int) -> bool:
        """Return whether `reach` has anything to do."""
        point = self._point
        return resumes_at > (point.step if point is not None and point.run_id == self._run_id else 0)

    def clear(self) -> None:
        """The run is over."""
        self._point = None
        (self._folder / _DESCRIPTION).unlink(missing_ok=True)  # first: it never names what is gone
        shutil.rmtree(self._folder, ignore_errors=True)

    def _take(self, point: _Point) -> None:
        """OSError: the point before is still there, and whole."""
        place = self._place(point)
        shutil.rmtree(place, ignore_errors=True)
        try:
            self._link(place)
            write_whole(self._folder / _DESCRIPTION, json.dumps(asdict(point)))
        except OSError:
            if point != self._point:
                shutil.rmtree(place, ignore_errors=True)
            raise
        self._point = point
        for other in self._folder.iterdir():
            if other.is_dir() and other != place:
                shutil.rmtree(other, ignore_errors=True)

    def _link(self, place: Path) -> None:
        for name, keeper in self._keepers.items():
            (place / name).mkdir(parents=True)
            for file in keeper.files():
                os.link(file, place / name / file.name)
            sync(place / name)
        sync(place)

    def _place(self, point: _Point) -> Path:
        return self._folder / f"{point.step}-{point.part}"

    def _read(self) -> _Point | None:
        """A damaged one counts as none."""
        point = kept_in(_Point, self._folder / _DESCRIPTION)
        return point if point is not None and self._place(point).is_dir() else None
