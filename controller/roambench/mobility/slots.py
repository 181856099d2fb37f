"""Choice of the devices of a trace that a bench with fewer boards plays, and of their boards. Pure.

`top`: the busiest, one per board. `random`: any, by a draw. `waves`: boards take turns, a board plays devices
one after the other, each from the first step to the last in which it is present, so that the most (device,
step) pairs of the trace are played. To the learning side a board is one device all the while: data and an
unfinished model stay with the board.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from roambench.contract.draws import generator
from roambench.contract.errors import TraceError
from roambench.mobility.selection import busiest_devices
from roambench.mobility.trace import Trace

BoardMapping = Literal["top", "waves", "random"]


class Stay(NamedTuple):
    """A device's time in the trace: steps [first, end), in `present` of which it is there."""

    first: int
    end: int
    present: int


def on_boards(trace: Trace, boards: int, mapping: BoardMapping, seed: int) -> Trace:
    """The part of the trace that `boards` boards play; board i is device i of the result.

    Raises TraceError when the trace has fewer devices than boards.
    """
    total = len(trace.device_names)
    if not 1 <= boards <= total:
        raise TraceError(f"cannot play the devices of {total} on {boards} boards")
    if mapping == "top":
        return busiest_devices(trace, boards)
    if mapping == "random":
        return _played(trace, [[device] for device in _drawn(trace, boards, seed)], "random")
    return _played(trace, _waves(trace, boards), "waves")


def most_played(stays: Sequence[Stay], boards: int) -> list[int]:
    """Indices of the stays that `boards` boards can play, none two at once, with the most presence in all.

    A maximum-weight choice of intervals on parallel machines: a minimum-cost flow of one unit per board along
    the steps, where a stay is an edge from its first step to its end that costs minus its presence.
    """
    points = sorted({0, *(stay.first for stay in stays), *(stay.end for stay in stays)})
    at = {step: node for node, step in enumerate(points)}
    flow = _Flow(len(points))
    for node in range(len(points) - 1):
        flow.edge(node, node + 1, boards, 0)
    edges = [flow.edge(at[stay.first], at[stay.end], 1, -stay.present) for stay in stays]
    for _ in range(boards):
        if flow.send_one() >= 0:
            break  # one more board would play nothing
    return [index for index, edge in enumerate(edges) if not flow.left[edge]]


class _Flow:
    """Successive cheapest paths from the first node to the last; ties go to the edge that was added first."""

    def __init__(self, nodes: int) -> None:
        self.left: list[int] = []  # capacity left, of edge 2i and of its reverse 2i + 1
        self._to: list[int] = []
        self._cost: list[int] = []
        self._out: list[list[int]] = [[] for _ in range(nodes)]
        self._potential: list[int] | None = None

    def edge(self, start: int, end: int, capacity: int, cost: int) -> int:
        """Its number. Edges lead from lower nodes to higher ones."""
        number = len(self._to)
        for here, there, room, price in ((start, end, capacity, cost), (end, start, 0, -cost)):
            self._out[here].append(len(self._to))
            self._to.append(there)
            self.left.append(room)
            self._cost.append(price)
        return number

    def send_one(self) -> int:
        """Send a unit along the cheapest path; returns what that costs."""
        nodes = len(self._out)
        potential = self._potential or self._first_potential()
        distance = [0 if node == 0 else 1 << 60 for node in range(nodes)]
        by: list[int] = [-1] * nodes
        heap = [(0, 0)]
        while heap:
            reached, node = heapq.heappop(heap)
            if reached > distance[node]:
                continue
            for edge in self._out[node]:
                there = self._to[edge]
                further = reached + self._cost[edge] + potential[node] - potential[there]
                if self.left[edge] and further < distance[there]:
                    distance[there], by[there] = further, edge
                    heapq.heappush(heap, (further, there))
        self._potential = [before + more for before, more in zip(potential, distance, strict=True)]
        node, cost = nodes - 1, 0
        while node:
            edge = by[node]
            self.left[edge] -= 1
            self.left[edge ^ 1] += 1
            cost += self._cost[edge]
            node = self._to[edge ^ 1]
        return cost

    def _first_potential(self) -> list[int]:
        """Cheapest ways from node 0 while all edges lead upwards."""
        cheapest = [0 if node == 0 else 1 << 60 for node in range(len(self._out))]
        for node, edges in enumerate(self._out):
            for edge in edges:
                if self.left[edge]:
                    there = self._to[edge]
                    cheapest[there] = min(cheapest[there], cheapest[node] + self._cost[edge])
        return cheapest


def _waves(trace: Trace, boards: int) -> list[list[int]]:
    """The devices that each board plays, in order."""
    present = np.bincount(trace.device, minlength=len(trace.device_names))
    first = np.full(len(present), trace.steps, np.int64)
    last = np.full(len(present), -1, np.int64)
    np.minimum.at(first, trace.device, trace.step)
    np.maximum.at(last, trace.device, trace.step)
    seen = np.flatnonzero(present).tolist()
    stays = [Stay(int(first[device]), int(last[device]) + 1, int(present[device])) for device in seen]
    chosen = sorted(
        (stays[index].first, seen[index], stays[index].end) for index in most_played(stays, boards)
    )
    played: list[list[int]] = [[] for _ in range(boards)]
    free_from = [-1] * boards
    for begin, device, end in chosen:  # to the board that is idle the longest: none stays without a device
        board = min((since, board) for board, since in enumerate(free_from) if since <= begin)[1]
        played[board].append(device)
        free_from[board] = end
    spare = iter(np.flatnonzero(present == 0).tolist())
    return [devices or [next(spare)] for devices in played]


def _drawn(trace: Trace, boards: int, seed: int) -> list[int]:
    """Devices of the trace, ascending: drawn from those that ever come, then the first of the others."""
    came = np.unique(trace.device)
    drawn = generator(seed, "devices on boards").choice(came, min(boards, len(came)), replace=False)
    others = np.setdiff1d(np.arange(len(trace.device_names)), came)[: boards - len(drawn)]
    return sorted(np.concatenate((drawn, others)).tolist())


def _played(trace: Trace, played: Sequence[Sequence[int]], mapping: BoardMapping) -> Trace:
    board = np.full(len(trace.device_names), -1, np.int32)
    for index, devices in enumerate(played):
        board[list(devices)] = index
    rows: npt.NDArray[np.intp] = np.flatnonzero(board[trace.device] >= 0)
    rows = rows[np.lexsort((board[trace.device[rows]], trace.step[rows]))]
    names = [[trace.device_names[device] for device in devices] for devices in played]
    return trace.with_fixes(
        rows,
        trace.step[rows],
        board[trace.device[rows]],
        device_names=tuple(first if not others else f"{first}+{len(others)}" for first, *others in names),
        provenance=trace.derived({"on_boards": {"mapping": mapping, "played": names}}),
    )
