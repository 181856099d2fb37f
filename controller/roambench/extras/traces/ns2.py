r"""ns-2's setdest, as BonnMotion and The ONE's MovementNs2Report write it.

    $node_(0) set X_ 131.89                                     where a node starts; Y_ and Z_ alike
    $ns_ at 0.0 "$node_(0) setdest 353.66 171.85 0.8055"        towards x, y, with metres per second

A node moves in a straight line from where it is until it arrives or the next order comes; speed 0 stops it.
`#` starts a comment (BonnMotion's pauses). The ONE escapes the dollar (`\$node_`) and has negative times: the
warm-up, which a window from second 0 leaves out. BonnMotion shifts all positions by +10 m.

    $ns_ at 36.0 "$g(1) start"; # SUMO-ID: route0.1             and `stop`: when a node comes and when it goes

SUMO's traceExporter writes these into a separate file (activity.tcl) beside the movement (mobility.tcl),
and `stop` at second 0 for what is still there at the end. Without any every node is there all the time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from roambench.mobility.readers.account import RowAccount, check_metres, number, seconds
from roambench.mobility.readers.documents import Document, Head, numbered_rows
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions
from roambench.mobility.readers.sampling import Path, sampled

_N: Final = r"([^\s\"]+)"
_SET: Final = re.compile(rf"\\?\$node_\((\d+)\)\s+set\s+([XYZ])_\s+{_N}", re.ASCII)
_SETDEST: Final = re.compile(
    rf"\$ns_\s+at\s+{_N}\s+\"\\?\$node_\((\d+)\)\s+setdest\s+{_N}\s+{_N}\s+{_N}\"", re.ASCII
)
_ACTIVITY: Final = re.compile(rf"\$ns_\s+at\s+{_N}\s+\"\\?\$g\((\d+)\)\s+(start|stop)\"\s*(?:;.*)?", re.ASCII)
_SETTING: Final = re.compile(r"(?:set|append)\s+opt\(.*")  # config.tcl, traceExporter's third file
_A_MOMENT_S: Final = 1e-6  # so that the end itself is in a span
_ANY: Final = re.compile(f"{_SET.pattern}|{_SETDEST.pattern}|{_ACTIVITY.pattern}", re.ASCII)


@dataclass(slots=True)
class _Node:
    x_m: float | None = None
    y_m: float | None = None
    #: (t, line, x, y, speed)
    orders: list[tuple[float, int, float, float, float]] = field(default_factory=list)
    #: (t, whether it comes, line, file)
    changes: list[tuple[float, bool, int, str]] = field(default_factory=list)
    file: str = ""  # of the orders


def read(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """One fix per node and step in which it is there: while it is active if any file says so of any node,
    else from the first second to the last that any order tells.

    Rows of a node whose start is unknown are malformed.
    """
    account = RowAccount(options.file)
    nodes: dict[str, _Node] = {}
    for document in documents:
        with closing(document.lines()) as lines:
            for line, row in numbered_rows(lines):
                try:
                    _read_row(row, line, document.path, nodes, account)
                except ValueError as error:
                    account.reject(line, str(error), document.path)
    for name in [name for name, node in nodes.items() if node.x_m is None or node.y_m is None]:
        node = nodes.pop(name)
        rows = [(order[1], node.file) for order in node.orders] + [change[2:] for change in node.changes]
        for line, file in rows:
            account.used -= 1
            account.reject(line, f"node {name} has no starting X_ and Y_", file)
    first_s, last_s = _extent(nodes)
    given = any(node.changes for node in nodes.values())
    paths = {name: _path(node, first_s, last_s, given) for name, node in nodes.items()}
    return sampled(paths, options.step_s, account, options.origin_s)


def _read_row(row: str, line: int, file: str, nodes: dict[str, _Node], account: RowAccount) -> None:
    if start := _SET.fullmatch(row):
        _set(nodes.setdefault(start[1][-18:], _Node()), start[2], number(start[3], start[2]))
    elif order := _SETDEST.fullmatch(row):
        t_s, x_m, y_m = seconds(order[1]), number(order[3], "x"), number(order[4], "y")
        speed = number(order[5], "speed")
        check_metres(x_m, y_m)
        if speed < 0:
            raise ValueError(f"speed {speed:g} is negative")
        node = nodes.setdefault(order[2][-18:], _Node())
        node.orders.append((t_s, line, x_m, y_m, speed))
        node.file = file
    elif change := _ACTIVITY.fullmatch(row):
        t_s = seconds(change[1])
        nodes.setdefault(change[2][-18:], _Node()).changes.append((t_s, change[3] == "start", line, file))
    elif _SETTING.fullmatch(row):
        account.leave_out("settings of the simulation")
        return
    else:
        raise ValueError(f"{row[:60]!r} is neither `set` nor `setdest`, `start` or `stop`")
    account.used += 1


def _set(node: _Node, axis: str, value: float) -> None:
    check_metres(value, 0.0)
    if axis == "X":
        node.x_m = value
    elif axis == "Y":
        node.y_m = value


def _extent(nodes: dict[str, _Node]) -> tuple[float, float]:
    """From the first order (or 0) to the last order, arrival or change of all nodes."""
    first_s = min([0.0, *(order[0] for node in nodes.values() for order in node.orders)])
    last_s = max([0.0, *(t_s for node in nodes.values() for t_s, *_ in node.changes)])
    if last_s:  # one that goes does not arrive; one still there at the end has its last order then
        return first_s, max([last_s, *(order[0] for node in nodes.values() for order in node.orders)])
    for node in nodes.values():
        waypoints = _waypoints(node, first_s)
        last_s = max(last_s, waypoints[-1][0])
    return first_s, last_s


def _waypoints(node: _Node, first_s: float) -> list[tuple[float, float, float]]:
    x_m, y_m = node.x_m or 0.0, node.y_m or 0.0
    points = [(first_s, x_m, y_m)]
    ordered = sorted(node.orders)  # by time, then by line
    for at, (t_s, _, to_x, to_y, speed) in enumerate(ordered):
        points.append((t_s, x_m, y_m))
        distance = float(np.hypot(to_x - x_m, to_y - y_m))
        if not (speed > 0 and distance > 0):
            continue
        arrival = t_s + distance / speed
        following = ordered[at + 1][0] if at + 1 < len(ordered) else float("inf")
        if arrival <= following:
            x_m, y_m = to_x, to_y
            if arrival < float(1 << 40):
                points.append((arrival, x_m, y_m))
            continue
        share = (following - t_s) / (arrival - t_s)
        x_m, y_m = x_m + (to_x - x_m) * share, y_m + (to_y - y_m) * share
    return points


def _path(node: _Node, first_s: float, last_s: float, given: bool) -> Path:
    table = np.array(_waypoints(node, first_s))
    spans = _spans(node, last_s) if given else [(first_s, last_s)]
    return Path(table[:, 0], table[:, 1], table[:, 2], spans)


def _spans(node: _Node, last_s: float) -> list[tuple[float, float]]:
    """From every start to the stop after it, else to the end; a stop that follows none stops nothing."""
    starts = sorted(t_s for t_s, comes, *_ in node.changes if comes)
    stops = sorted(t_s for t_s, comes, *_ in node.changes if not comes)
    spans: list[tuple[float, float]] = []
    for start_s in starts:
        if spans and start_s < spans[-1][1]:
            continue
        later = bisect_right(stops, start_s)
        spans.append((start_s, stops[later] if later < len(stops) else last_s + _A_MOMENT_S))
    return spans


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    if head.mostly(_ANY):
        return "lines of `$node_(0) set X_`, `setdest` or `$g(0) start`"
    return None


NS2: Final = Reader(
    "ns2",
    "movement for ns-2 (setdest) of BonnMotion, The ONE and SUMO (mobility.tcl with activity.tcl)",
    read_together=read,
    recognises=recognises,
)
