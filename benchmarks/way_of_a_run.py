"""Count the modules that `run_experiment` enters on its way to the first orders, and the calls that climb.

    python benchmarks/way_of_a_run.py [EXPERIMENT] [--calls 400]

Counted are calls of Python functions from one module of roambench into another, without imports, bodies of
classes, generated methods and resumed generators; each pair of functions once; on virtual devices, up to the
first orders or the 400th call. Rooms: distinct modules called. Climbs: calls into a module of a higher layer
of pyproject.toml that had been entered before. Returns: all calls into a module entered before.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, Final

from rich.console import Console

from roambench.experiment.load import load_experiment
from roambench.runner.composition import run_experiment
from roambench.runner.ready import DEMO

_PYPROJECT: Final = Path(__file__).parents[1] / "pyproject.toml"
_GENERATORS: Final = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
_BEGINNING: Final = 8  # bytes of code before a generator first stops
_FIRST_ORDERS: Final = "plan_trainings"


def layers() -> dict[str, int]:
    """The height of each package: 0 for the lowest layer."""
    contracts = tomllib.loads(_PYPROJECT.read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (rows,) = (each["layers"] for each in contracts if each["type"] == "layers")
    heights = enumerate(reversed(rows))
    return {name.strip().split(".")[1]: height for height, row in heights for name in row.split("|")}


@dataclass
class Way:
    """The first `calls` calls from module to module, in order."""

    calls: int
    heights: dict[str, int]
    steps: dict[tuple[str, str], tuple[str, str]] = field(default_factory=dict)  # modules by functions
    ended: bool = False

    def profile(self, frame: FrameType, event: str, _argument: Any) -> None:
        """Take one event of `sys.setprofile`."""
        if event != "call" or self.ended or not _is_call(frame):
            return
        back = frame.f_back
        while back is not None and not _module(back).startswith("roambench."):
            if "importlib" in back.f_code.co_filename:
                return
            back = back.f_back
        if back is None or _module(back) == _module(frame):
            return
        functions = back.f_code.co_qualname, frame.f_code.co_qualname
        self.steps.setdefault(functions, (_module(back), _module(frame)))
        self.ended = frame.f_code.co_qualname == _FIRST_ORDERS or len(self.steps) >= self.calls

    def rooms(self) -> list[str]:
        """Distinct modules by their first call."""
        return list(dict.fromkeys(module for _, module in self.steps.values()))

    def returns(self) -> Iterator[tuple[str, str]]:
        """Calls into a module that had been entered before."""
        entered = {"roambench.runner.composition"}
        for caller, module in self.steps.values():
            if module in entered:
                yield caller, module
            entered.add(module)

    def climbs(self) -> list[tuple[str, str]]:
        """Those of the returns that go up."""
        return [step for step in self.returns() if self._height(step[1]) > self._height(step[0])]

    def _height(self, module: str) -> int:
        return self.heights[module.split(".")[1]]


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__", ""))


def _is_call(frame: FrameType) -> bool:
    """Leave out bodies of modules and classes, generated methods, resumed generators and other packages."""
    code = frame.f_code
    is_function = bool(code.co_flags & inspect.CO_OPTIMIZED) and not code.co_name.startswith("<")
    resumed = code.co_flags & _GENERATORS and frame.f_lasti > _BEGINNING
    return (
        is_function
        and not resumed
        and code.co_filename != "<string>"
        and _module(frame).startswith("roambench.")
    )


def walk(file: Path, calls: int) -> Way:
    """The way of the experiment on virtual devices, one worker, one step."""
    changes = ["trace.steps=2", "simulated.workers=1", 'systems=["mohawk"]']
    experiment = load_experiment(file, changes)
    way = Way(calls, layers())
    with tempfile.TemporaryDirectory() as runs, Path("/dev/null").open("w") as nowhere:
        sys.setprofile(way.profile)
        try:
            run_experiment(experiment, fleet="simulated", runs_dir=Path(runs), console=Console(file=nowhere))
        finally:
            sys.setprofile(None)
    return way


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("experiment", nargs="?", type=Path, default=DEMO)
    parser.add_argument("--calls", type=int, default=400)
    arguments = parser.parse_args()
    way = walk(arguments.experiment, arguments.calls)
    for (_, function), (caller, module) in way.steps.items():
        print(f"{caller.removeprefix('roambench.')} -> {module.removeprefix('roambench.')}: {function}")
    climbs = way.climbs()
    for caller, module in climbs:
        print(f"climb: {caller} -> {module}")
    rooms, returns = len(way.rooms()), len(list(way.returns()))
    print(f"{len(way.steps)} calls: {rooms} rooms, {len(climbs)} climbs, {returns} returns")


if __name__ == "__main__":
    main()
