"""Data sets and traces that the points of a study read, looked at once before any of them runs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from roambench.contract.errors import ConfigError, TraceError
from roambench.mobility.files import read_trace
from roambench.runner.places.table import fleet_of
from roambench.runner.world import misfits_of, require_data
from roambench.study.sweep.points import Point


def refuse_absent_inputs(points: Iterable[Point]) -> None:
    """ConfigError names each data set that is missing, each trace that cannot be read, and each setting that
    does not fit its trace, once."""
    if problems := absent_inputs(points):
        raise ConfigError(problems)


def absent_inputs(points: Iterable[Point]) -> Sequence[str]:
    """The same as lines."""
    data, traces = dict[tuple[object, ...], Point](), defaultdict[str, list[Point]](list)
    for point in points:
        learning = point.experiment.learning
        if fleet_of(point.fleet)[0].trains:
            asked = (learning.dataset, learning.data_path, learning.download, learning.task)
            data.setdefault(asked, point)
        if point.experiment.trace.file:
            traces[point.experiment.trace.file].append(point)
    problems = dict[str, None]()
    for point in data.values():
        try:
            require_data(point.experiment)
        except ConfigError as error:
            problems.update(dict.fromkeys(error.problems))
    for file, readers in traces.items():
        try:
            trace = read_trace(Path(file))
        except TraceError as error:
            problems.update(dict.fromkeys(str(error).splitlines()))
            continue
        for point in readers:
            problems.update(dict.fromkeys(misfits_of(point.experiment, trace)))
    return list(problems)
