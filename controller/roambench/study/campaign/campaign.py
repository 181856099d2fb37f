"""A campaign: points one after the other, each as often as it takes, with all events in its log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from roambench.contract.errors import FleetError, RoambenchError
from roambench.provision.inventory.load import load_bench
from roambench.provision.leases.holding import HeldLease, holding
from roambench.runner.bench_options import BenchOptions
from roambench.runner.places.table import fleet_of
from roambench.runs.database import naming
from roambench.study.campaign.board_pool import BoardPool
from roambench.study.campaign.campaign_log import (
    CampaignEvent,
    CampaignLog,
    CampaignRow,
    End,
    Listener,
    read_campaign,
)
from roambench.study.campaign.cooling import Cooled, Cooling, Thermometer, cool_down, thermometer_of
from roambench.study.campaign.disk_room import GIB, DiskRoom
from roambench.study.campaign.interrupted import note_command

#: Tries of a point, and what stays free of the disk, where the fleet is a bench.
BENCH_TRIES: Final = 3
BENCH_KEEP_FREE_GIB: Final = 5.0
FAILURES: Final = 2


@dataclass(frozen=True, slots=True)
class CampaignOptions:
    """The options by which a campaign goes on by itself.

    `tries` of a point that fails or is not fit; `failures` in a row until something is done about a board;
    `least` boards (None: all but a tenth, or but one); bytes of the disk to keep free; the wait before each
    point (None: none); `wait_s` for a bench in use. `heard` is called with every row noted.
    """

    heard: Listener
    tries: int = 1
    failures: int = FAILURES
    least: int | None = None
    keep_free_bytes: int = 0
    cooling: Cooling | None = None
    wait_s: float = 0.0


#: What fails is left to the next session, as elsewhere than on a bench.
ONE_TRY: Final = CampaignOptions(heard=lambda row: None)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a point's try, and which boards made it so."""

    end: End
    reason: str = ""
    boards: tuple[str, ...] = ()
    wall_s: float = 0.0


class CampaignTask(Protocol):
    """A point of a sweep or a comparison, on the disk."""

    @property
    def name(self) -> str:
        """The name of its folder."""
        ...

    @property
    def label(self) -> str:
        """The name for people."""
        ...

    @property
    def folder(self) -> Path:
        """The point's folder."""
        ...

    @property
    def tried(self) -> int:
        """The number of tries that have ended."""
        ...

    @property
    def attempt(self) -> int:
        """The number of the attempt that comes next, from 1."""
        ...

    def put_aside(self, *, counts: bool) -> None:
        """Keep the latest attempt, if one ended, for another is to come."""
        ...

    def cooled(self, cooled: Cooled) -> None:
        """Keep how its start was waited for."""
        ...

    def run(self, left_out: tuple[str, ...]) -> Ended:
        """Try it."""
        ...


class Campaign:
    """The session of a campaign in `folder`, made by `campaign`."""

    def __init__(
        self,
        options: CampaignOptions,
        log: CampaignLog,
        disk: DiskRoom,
        board_pool: BoardPool | None,
        thermometer: Thermometer | None,
        report: Callable[[str], None],
    ) -> None:
        self._options = options
        self.log = log
        self.disk = disk
        self.board_pool = board_pool
        self._thermometer = thermometer
        self._report = report
        self._longest_s: float | None = None

    def run(self, task: CampaignTask, held: HeldLease | None) -> None:
        """Run the point until it is finished and fit, or its tries are used up. FleetError where the campaign
        cannot go on, or the bench is no longer ours: the same point is then to be run again."""
        if task.tried:
            task.put_aside(counts=True)
        while True:
            if held is not None:
                self._make_way(held)
            self.disk.wait()
            left_out = self.board_pool.at_start() if self.board_pool is not None else ()
            self._cool(task)
            ended = self._try(task, left_out)
            self.disk.ended(task.folder)
            if ended.end is End.FINISHED:
                return
            if held is not None and not held.still():
                task.put_aside(counts=False)
                held.ensure()
            acted = self.board_pool is not None and self.board_pool.after(
                ended.boards, ended.reason, left_out, failed=ended.end is End.FAILED
            )
            # A start that failed by boards is no try of the point, once they were looked after or well again.
            counts = not (acted and ended.end is End.FAILED)
            if counts and task.tried >= self._options.tries:
                return
            task.put_aside(counts=counts)

    def heard(self, rows: Sequence[CampaignRow]) -> None:
        """Learn from earlier sessions how long a try takes."""
        took_s = [row.wall_s for row in rows if row.event is CampaignEvent.POINT_ENDED and row.wall_s]
        self._longest_s = max(took_s, default=None)

    def _make_way(self, held: HeldLease) -> None:
        """Nothing begins that would run into another booking: a try may take as long as the longest."""
        began_s, announced = time.monotonic(), False

        def report(line: str) -> None:
            nonlocal announced
            announced = True
            self._report(line)
            self.log.note(CampaignRow(CampaignEvent.WAITED, line, wall_s=0.0))

        held.make_way(self._longest_s, report)
        if announced:
            waited_s = time.monotonic() - began_s
            self.log.note(CampaignRow(CampaignEvent.WAITED, "the bench is ours again", wall_s=waited_s))

    def _try(self, task: CampaignTask, left_out: tuple[str, ...]) -> Ended:
        row = CampaignRow(
            CampaignEvent.POINT_BEGAN,
            point=task.name,
            label=task.label,
            attempt=task.attempt,
            without=left_out,
        )
        self.log.note(row)
        began_s = time.monotonic()
        ended = task.run(left_out)
        self._longest_s = max(self._longest_s or 0.0, time.monotonic() - began_s)
        row = self.log.note(
            replace(
                row, event=CampaignEvent.POINT_ENDED, end=ended.end, reason=ended.reason, wall_s=ended.wall_s
            )
        )
        if self.board_pool is not None:
            self.board_pool.maintenance.hear(row)
        return ended

    def _cool(self, task: CampaignTask) -> None:
        thermometer = self._thermometer
        if self.board_pool is not None and thermometer is None:
            thermometer = self.board_pool.temperatures
        if self._options.cooling is None or thermometer is None:
            return

        def report(line: str) -> None:
            self._report(f"{task.label}: {line}")

        cooled = cool_down(self._options.cooling, thermometer, report)
        task.cooled(cooled)
        if cooled.note:
            report(cooled.note)
        if cooled.waited_s or cooled.note:
            self.log.note(
                CampaignRow(
                    CampaignEvent.COOLED,
                    cooled.note,
                    point=task.name,
                    label=task.label,
                    wall_s=cooled.waited_s,
                )
            )


def run_campaign(
    campaign: Campaign,
    tasks: Sequence[CampaignTask],
    ours: Callable[[Callable[[str], None]], AbstractContextManager[HeldLease | None]],
    report: Callable[[str], None],
) -> None:
    """Run the points in their order, under the lease of their bench (`ours`); one that is lost meanwhile is
    asked for again."""
    left = list(tasks)
    while left:
        held: HeldLease | None = None
        try:
            with ours(report) as held:
                while left:
                    campaign.run(left[0], held)
                    del left[0]
        except FleetError as error:
            if held is None or not held.lost:
                raise
            report(str(error))
            campaign.log.note(CampaignRow(CampaignEvent.WAITED, str(error), wall_s=0.0))


def lease_of(
    fleet: str, purpose: str, wait_s: float, log: CampaignLog, options: BenchOptions | None = None
) -> Callable[[Callable[[str], None]], AbstractContextManager[HeldLease | None]]:
    """The lease over a whole campaign, so that no other run comes between two points; none without a
    bench. Waiting for it is on the log. With `options.only` it is of these boards and the spares."""
    kind, file = fleet_of(fleet)
    if not kind.has_file:
        return lambda report: nullcontext()

    @contextmanager
    def ours(report: Callable[[str], None]) -> Iterator[HeldLease]:
        began_s, announced = time.monotonic(), False

        def waiting(line: str) -> None:
            nonlocal announced
            announced = True
            report(line)
            log.note(CampaignRow(CampaignEvent.WAITED, line, wall_s=0.0))

        bench = load_bench(Path(file))
        boards = [
            host.name
            for host in bench.hosts
            if options is not None and options.only
            if options.waits(host) or host.is_chosen(options.only)
        ]
        with holding(bench, purpose, waiting, wait_s, boards=boards) as held:
            if announced:
                waited_s = time.monotonic() - began_s
                log.note(CampaignRow(CampaignEvent.WAITED, "the bench is ours", wall_s=waited_s))
            yield held

    return ours


@contextmanager
def campaign_in(
    folder: Path,
    what: str,
    fleet: str,
    options: CampaignOptions,
    *,
    points: int,
    open_points: Callable[[], int],
    report: Callable[[str], None],
    bench: BenchOptions | None = None,
    thermometer: Thermometer | None = None,
) -> Iterator[Campaign]:
    """A session of the campaign in `folder`: goes on with what its log tells, and has its end on it."""
    with naming(folder):
        rows = read_campaign(folder)
    log = CampaignLog(folder, options.heard)
    kind, file = fleet_of(fleet)
    board_pool = None
    if kind.has_file:
        # Late: it brings SSH and gRPC, which takes 0.1 s, and campaigns elsewhere have no use for it.
        from roambench.study.campaign.bench_actions import board_pool_of

        board_pool = board_pool_of(
            Path(file),
            bench or BenchOptions(),
            failures=options.failures,
            least=options.least,
            log=log,
            rows=rows,
            report=report,
        )
    elif thermometer is None:
        thermometer = thermometer_of(fleet)
    disk = DiskRoom(folder, options.keep_free_bytes, log, report)
    for point in (folder / "points").glob("*"):
        disk.ended(point)
    note_command(folder)
    began = CampaignEvent.RESUMED if rows else CampaignEvent.BEGAN
    log.note(CampaignRow(began, what, points=points, open_points=open_points()))
    campaign = Campaign(options, log, disk, board_pool, thermometer, report)
    campaign.heard(rows)
    end, reason = End.FAILED, "an unexpected error"
    try:
        yield campaign
        end, reason = End.FINISHED, ""
    except KeyboardInterrupt as stopped:
        end, reason = End.INTERRUPTED, str(stopped)
        raise
    except RoambenchError as error:
        reason = str(error)
        raise
    finally:
        log.note(CampaignRow(CampaignEvent.ENDED, reason, end=end, open_points=open_points()))
        if log.lost:
            report(f"the campaign's log could not be written: {log.lost}")


def keep_free(gib: float | None, *, on_bench: bool) -> int:
    """Bytes of the disk that a campaign leaves free: as asked, else the usual on a bench."""
    return int((BENCH_KEEP_FREE_GIB * on_bench if gib is None else gib) * GIB)
