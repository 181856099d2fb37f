"""A campaign on hosts under random faults, from its first command to its table, and whether it is all true.

It is `roambench sweep` in processes of its own, on three hosts and a spare. The checks read the files that a
user has (`campaign.jsonl`, results, run folders, `table.json`) and use the reader of the campaign's log only.
"""

from __future__ import annotations

import csv
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil
from rich.table import Table

from roambench.report.report import report
from roambench.rounds.records import (
    CloudAggregated,
    EdgeAggregated,
    ModelsScored,
    OrderAnswered,
    OutcomeDecided,
    StepClosed,
)
from roambench.runs.folder import RunFolder
from roambench.study.campaign.campaign_log import CampaignEvent, CampaignRow, End, read_campaign
from soaking.hosts import BenchHosts, SoakedHosts, roambench, running_hosts, running_sets

#: Three boards and who waits for one of them to die.
BOARDS: Final = ("pi1", "pi2", "pi3")
SPARE: Final = "pi4"
HOSTS: Final = ("pi1:raspios", "pi2:debian", "pi3:hardened", f"{SPARE}:debian")
#: Rule R4: less of a board's run than this was read, and its joules are not to be trusted.
COVERAGE: Final = 0.99

SWEEP: Final = """\
fleet = "%(fleet)s"
metrics = ["final_accuracy", "final_loss", "steps", "trainings", "wasted_share", "aggregated_per_step",
           "cloud_aggregations"]

[grid]
systems = ["mohawk", "hierfavg"]
rounds.cloud_every_steps = [1, 2]
seeds = %(seeds)d

[experiment]
name = "night"
seed = 7

[experiment.trace]
parameters = { presence = "always", devices = 3, places = 200, aps = 20, steps = 8 }
window = "first"
steps = 4

[experiment.fleet]
agents = 3
deadline_s = 20.0

[experiment.learning]
dataset = "digits"
model = "mlp"
images_per_device = 40
test_images = 200
local_epochs = 60

[experiment.rounds]
rest_s = 0.0

[experiment.energy]
idle_baseline_s = 3.0
"""


@dataclass(frozen=True)
class Kind:
    """What is done; `lasts_s` from and to."""

    name: str
    lasts_s: tuple[float, float] = (0.0, 0.0)


POWER_CUT: Final = Kind("host's power cut", (10.0, 60.0))
AGENT_KILLED: Final = Kind("host's agent killed")
AGENT_STOPPED: Final = Kind("host's agent stopped", (5.0, 90.0))
LINK_CUT: Final = Kind("host's link cut", (5.0, 90.0))
DISK_FULL: Final = Kind("host's disk full", (30.0, 120.0))
METER_UNPLUGGED: Final = Kind("meter unplugged", (5.0, 60.0))
METER_SILENT: Final = Kind("meter silent", (5.0, 60.0))
SWEEP_KILLED: Final = Kind("campaign's process killed")
POINT_KILLED: Final = Kind("run's process killed")
ALL_KILLED: Final = Kind("all processes killed")
DIES: Final = Kind("host dies for good")
#: Every kind comes before one comes again; a host dies once.
KINDS: Final = (
    *(POWER_CUT, AGENT_KILLED, AGENT_STOPPED, LINK_CUT, DISK_FULL, METER_UNPLUGGED, METER_SILENT),
    *(SWEEP_KILLED, POINT_KILLED, ALL_KILLED),
)


@dataclass(frozen=True)
class Fault:
    """`after_s` after the one before. `draw` decides whom it hits."""

    kind: Kind
    after_s: float
    lasts_s: float
    draw: int


@dataclass(frozen=True)
class Struck:
    """A fault as it happened; `device` is whom it hit, "" for this machine's own processes."""

    fault: Fault
    device: str
    began: datetime
    ended: datetime
    problem: str = ""


def planned(seed: int, gap_s: tuple[float, float]) -> Iterator[Fault]:
    """Without an end: whoever plays it stops when the campaign has ended. The third is a death."""
    draw = random.Random(seed)
    number = 0
    while True:
        for kind in draw.sample(KINDS, len(KINDS)):
            for one in (DIES, kind) if number == 2 else (kind,):
                yield Fault(one, draw.uniform(*gap_s), draw.uniform(*one.lasts_s), draw.randrange(1 << 30))
            number += 1


@dataclass
class CampaignSoak:
    """A campaign of 4 x `seeds` runs in `folder`, on `hosts`, whose bench says that `SPARE` is a spare."""

    hosts: SoakedHosts
    folder: Path
    seed: int
    seeds: int = 6
    gap_s: tuple[float, float] = (60.0, 180.0)
    words: tuple[str, ...] = ()
    struck: list[Struck] = field(default_factory=list)
    dead: list[str] = field(default_factory=list)
    commands: int = 0
    _process: subprocess.Popen[bytes] | None = None
    _ended: threading.Event = field(default_factory=threading.Event)
    _killed: threading.Event = field(default_factory=threading.Event)

    @property
    def out(self) -> Path:
        """The sweep's folder."""
        return self.folder / "night"

    def carry_out(self, patience_s: float) -> int:
        """The same command until it ends by itself; its exit status. RuntimeError when that takes longer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for name, fleet in (("night.toml", self.hosts.fleet), ("whole.toml", "simulated")):
            (self.folder / name).write_text(SWEEP % {"fleet": fleet, "seeds": self.seeds})
        strikes = threading.Thread(target=self._strike, daemon=True)
        deadline_s = time.monotonic() + patience_s
        strikes.start()
        try:
            while True:
                status = self._once(deadline_s)
                if not self._killed.is_set():
                    return status
                self._killed.clear()
                time.sleep(random.Random(self.commands).uniform(0.0, 10.0))
        finally:
            self._ended.set()
            strikes.join(300.0)

    def _once(self, deadline_s: float) -> int:
        self.commands += 1
        words = ["sweep", str(self.folder / "night.toml"), "-o", str(self.out), "--unproven"]
        with (self.folder / "campaign.txt").open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "roambench.cli.main", *words, "--pause", "0", *self.words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
                start_new_session=True,
            )
        try:
            return self._process.wait(max(1.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise RuntimeError(f"the campaign did not end in time; {self.folder / 'campaign.txt'}") from None

    def _strike(self) -> None:
        for fault in planned(self.seed, self.gap_s):
            if self._ended.wait(fault.after_s) or not self._something_to_hit(fault.kind):
                return
            device, began, problem = "", datetime.now(UTC), ""
            try:
                device = self._do(fault)
            except Exception as error:  # a fault that could not be made is told of, and the others come
                problem = f"{type(error).__name__}: {error}"
            self.struck.append(Struck(fault, device, began, datetime.now(UTC), problem))

    def _something_to_hit(self, kind: Kind) -> bool:
        """Wait until a run's process lives, where that is to be killed; False: the campaign ended before."""
        while kind in (POINT_KILLED, ALL_KILLED) and not self._points():
            if self._ended.wait(0.5):
                return False
        return True

    def _do(self, fault: Fault) -> str:
        alive = [name for name in self.in_play() if name not in self.dead]
        name, hosts = alive[fault.draw % len(alive)], self.hosts
        match fault.kind:
            case _ if fault.kind in (SWEEP_KILLED, POINT_KILLED, ALL_KILLED):
                self._kill(fault.kind)
                return ""
            case _ if fault.kind == POWER_CUT:
                hosts.cut_power(name, fault.lasts_s)
            case _ if fault.kind == AGENT_KILLED:
                hosts.kill_agent(name)
            case _ if fault.kind == AGENT_STOPPED:
                hosts.stop_agent(name, fault.lasts_s)
            case _ if fault.kind == LINK_CUT:
                hosts.cut_link(name, fault.lasts_s)
            case _ if fault.kind == DISK_FULL:
                hosts.fill_disk(name, fault.lasts_s)
            case _ if fault.kind in (METER_UNPLUGGED, METER_SILENT):
                hosts.disturb_meter(name, fault.lasts_s, unplug=fault.kind == METER_UNPLUGGED)
            case _ if fault.kind == DIES:
                self.dead.append(name)
                hosts.die(name)
        return name

    def in_play(self) -> tuple[str, ...]:
        """Boards that take part, the spare once it was called for."""
        rows = read_campaign(self.out) if self.out.is_dir() else []
        called = any(row.event is CampaignEvent.REPLACED and row.done for row in rows)
        return (*BOARDS, SPARE) if called else BOARDS

    def _kill(self, kind: Kind) -> None:
        assert self._process is not None
        points = self._points()
        if kind != POINT_KILLED and self._process.poll() is None:
            self._killed.set()
            self._process.kill()
        if kind != SWEEP_KILLED:
            for point in points:
                with suppress(psutil.NoSuchProcess):
                    point.kill()

    def _points(self) -> list[psutil.Process]:
        """The processes of the run that is under way."""
        if self._process is None:
            return []
        try:
            children = psutil.Process(self._process.pid).children()
            return [one for one in children if any("point_process" in word for word in one.cmdline())]
        except psutil.NoSuchProcess:
            return []


@dataclass(frozen=True)
class Verdict:
    """`problems` is empty where all held. `told`: every fault and what followed; `figures`: counts."""

    problems: tuple[str, ...]
    told: Table
    figures: dict[str, Any]


def judged(soak: CampaignSoak, status: int) -> Verdict:
    """Whether it is complete, every record fit, the log true, and the table that of an undisturbed sweep."""
    problems = [f"the campaign ended with status {status}"] if status else []
    problems += [f"{one.fault.kind.name}: {one.problem}" for one in soak.struck if one.problem]
    rows = read_campaign(soak.out)
    points = sorted(path for path in (soak.out / "points").iterdir() if path.is_dir())
    wanted = 4 * soak.seeds
    if len(points) != wanted:
        problems.append(f"{len(points)} points, {wanted} wanted")
    roambench("sweep", soak.folder / "whole.toml", "-o", soak.folder / "whole", timeout_s=1200)
    disturbed = dict(filter(None, (_of_point(point, soak, problems) for point in points)))
    problems += _of_log(rows, soak)
    lost = {name: why for name, why in disturbed.items() if why}
    table = _consequences(soak, rows, lost)
    problems += _tables_differ(soak, lost)
    ended = [row for row in rows if row.event is CampaignEvent.POINT_ENDED]
    figures = {
        "runs": len(points),
        "attempts": sum(row.event is CampaignEvent.POINT_BEGAN for row in rows),
        "faults": len(soak.struck),
        "commands": soak.commands,
        **{f"attempts that ended {end}": count for end, count in Counter(r.end for r in ended).items()},
        **{str(event): count for event, count in Counter(r.event for r in rows).items() if event in _TREATED},
        "runs that lost an order": len(lost),
        "minutes": round((rows[-1].at - rows[0].at).total_seconds() / 60.0, 1) if rows else 0.0,
    }
    return Verdict(tuple(problems), table, figures)


_TREATED: Final = (
    CampaignEvent.BOARD_FAILED,
    CampaignEvent.POWER_CYCLED,
    CampaignEvent.REPLACED,
    CampaignEvent.LEFT_OUT,
    CampaignEvent.CAME_BACK,
    CampaignEvent.WAITED,
    CampaignEvent.RESUMED,
)


def _of_point(point: Path, soak: CampaignSoak, problems: list[str]) -> tuple[str, str] | None:
    """Its folder's name and what it lost, "" for a run that was as if nobody had disturbed it."""
    result = json.loads((point / "result.json").read_text()) if (point / "result.json").exists() else {}
    if not result or result.get("reason"):
        problems.append(f"{point.name}: not finished: {result.get('reason', 'no result')}")
        return None
    runs = [path for path in (point / "runs").iterdir() if path.is_dir()]
    if len(runs) != 1:
        problems.append(f"{point.name}: {len(runs)} run folders")
        return None
    (summary,) = report(runs).summaries
    energy = summary.energy
    if energy is None or not energy.boards:
        problems.append(f"{point.name}: no energy")
        return None
    problems += [
        f"{point.name}: {board.device}: read for {board.whole_run.coverage:.1%} of it, and not repeated"
        for board in energy.boards
        if board.whole_run.coverage < COVERAGE
    ]
    if len(energy.boards) != len(BOARDS):
        problems.append(f"{point.name}: {len(energy.boards)} boards in its sums")
    twins = (soak.folder / "whole/points").glob(f"{point.name.rpartition('-')[0]}-*")
    whole = next(twin for twin in twins if _row_of(twin) == _row_of(point))
    lost = _lost_orders(runs[0])
    if not lost and _decided(runs[0]) != _decided(next((whole / "runs").iterdir())):
        problems.append(f"{point.name}: no order was lost, and it decided otherwise than undisturbed")
    return point.name, lost


def _lost_orders(run: Path) -> str:
    with RunFolder.open(run) as folder:
        bad = [one for one in folder.read_log() if isinstance(one, OrderAnswered) and one.status != "done"]
    return f"{len(bad)} orders ({', '.join(sorted({str(one.status) for one in bad}))})" if bad else ""


def _decided(run: Path) -> list[str]:
    kinds = EdgeAggregated, CloudAggregated, OutcomeDecided, ModelsScored, StepClosed
    with RunFolder.open(run) as folder:
        found = [
            replace(record, wall_s=0.0) if isinstance(record, StepClosed) else record
            for record in folder.read_log()
            if isinstance(record, kinds)
        ]
        return [repr(record).replace(folder.info.run_id, "run") for record in found]


def _of_log(rows: Sequence[CampaignRow], soak: CampaignSoak) -> list[str]:
    """The log against what was done, not against itself."""
    if not rows:
        return ["there is no campaign.jsonl"]
    problems = []
    sessions = [row for row in rows if row.event in (CampaignEvent.BEGAN, CampaignEvent.RESUMED)]
    # A command that was killed before it could write has none.
    if not 1 <= len(sessions) <= soak.commands or rows[0].event is not CampaignEvent.BEGAN:
        problems.append(f"the log tells {len(sessions)} sessions of {soak.commands} commands")
    if rows[-1].event is not CampaignEvent.ENDED or rows[-1].end is not End.FINISHED:
        problems.append(f"the log ends with {rows[-1].event} {rows[-1].end}: {rows[-1].reason}")
    bad = [row for row in rows if row.end in (End.FAILED, End.UNFIT)]
    problems += [f"{row.point}: {row.end} for no reason" for row in bad if not row.reason]
    if [row.at for row in rows] != sorted(row.at for row in rows):
        problems.append("the log's times go back")
    last: dict[str, CampaignRow] = {row.point: row for row in rows if row.end is not None and row.point}
    problems += [
        f"{name}: ended {row.end} for good" for name, row in last.items() if row.end is not End.FINISHED
    ]
    for name in soak.dead:
        treated = [
            row for row in rows if row.board == name and row.event is CampaignEvent.REPLACED and row.done
        ]
        if not treated or treated[0].spare != SPARE:
            problems.append(f"{name} died, and the log tells of no spare for it")
    return problems


def _consequences(soak: CampaignSoak, rows: Sequence[CampaignRow], lost: dict[str, str]) -> Table:
    table = Table("min", "fault", "s", "in the run", "what followed")
    for one in soak.struck:
        lasted_s = (one.ended - one.began).total_seconds()
        at_min = (one.began - rows[0].at).total_seconds() / 60.0 if rows else 0.0
        what = f"{one.fault.kind.name} {one.device}".strip()
        run, followed = _followed(one, rows, lost)
        table.add_row(f"{at_min:.1f}", what, f"{lasted_s:.0f}", run, one.problem or followed)
    return table


def _followed(one: Struck, rows: Sequence[CampaignRow], lost: dict[str, str]) -> tuple[str, str]:
    """The attempt that the fault met, how it ended, and what was done about a board until the next began."""
    began = [row for row in rows if row.event is CampaignEvent.POINT_BEGAN and row.at <= one.began]
    if not began:
        return "before the first", "–"
    met = began[-1]
    after = [row for row in rows if row.at >= met.at]
    end = next(
        (row for row in after if row.event is CampaignEvent.POINT_ENDED and row.point == met.point), None
    )
    words = []
    if end is None or end.at < one.began:
        words.append("between two runs")
    else:
        lost_here = f", lost {lost[met.point]}" if met.point in lost and end.end is End.FINISHED else ""
        words.append(f"{end.end}{lost_here}" + (f": {end.reason[:80]}" if end.reason else ""))
    until = end.at if end is not None else one.ended
    later = [row for row in after if one.began <= row.at and row.event in _TREATED]
    nxt = next((row.at for row in after if row.event is CampaignEvent.POINT_BEGAN and row.at > until), None)
    for row in later:
        if nxt is None or row.at <= nxt:
            spare = f" by {row.spare}" if row.spare else ""
            words.append(f"{row.board} {row.event.value}{spare}{'' if row.done else ' in vain'}".strip())
    again = f" (try {met.attempt})" if met.attempt > 1 else ""
    return f"{met.label or met.point}{again}", "; ".join(words)


def _tables_differ(soak: CampaignSoak, lost: dict[str, str]) -> list[str]:
    """A row of the grid none of whose runs lost an order is the undisturbed one's, number by number; any has
    all its runs."""
    disturbed = {_row_of(soak.out / "points" / name) for name in lost}
    problems, tables = list[str](), list[dict[tuple[str, str], dict[str, str]]]()
    for name in ("night", "whole"):
        path = soak.folder / name / "table.csv"
        if not path.exists():
            return [f"{path}: no table"]
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        tables.append({(row["system"], row["rounds.cloud_every_steps"]): row for row in rows})
    mine, whole = tables
    if mine.keys() != whole.keys():
        return [f"rows of the table are {sorted(mine)}, undisturbed {sorted(whole)}"]
    for key, row in mine.items():
        if row["runs"] != row["finished"] or int(row["runs"]) != soak.seeds:
            problems.append(f"{key}: {row['finished']} of {row['runs']} runs, {soak.seeds} wanted")
        if key not in disturbed and row != whole[key]:
            problems.append(f"{key}: no order was lost, and the table says {row}, undisturbed {whole[key]}")
    return problems


def _row_of(point: Path) -> tuple[str, str]:
    config = json.loads((point / "point.json").read_text())["config"]
    return config["systems"][0], str(config["rounds"]["cloud_every_steps"])


def give_spare(bench: Path) -> None:
    """The bench's description says that the last host waits."""
    text = bench.read_text()
    if "spare" not in text:
        bench.write_text(text.replace(f'name = "{SPARE}"\n', f'name = "{SPARE}"\ntags = ["spare"]\n'))


@contextmanager
def hosts_with_a_spare() -> Iterator[SoakedHosts]:
    """Fresh hosts with their agents, or those of the set $ROAMBENCH_HOSTS_SET; afterwards each is itself."""
    if number := os.environ.get("ROAMBENCH_HOSTS_SET"):
        yield from _ready(running_sets()[int(number)])
        return
    with running_hosts(HOSTS) as hosts:
        yield from _ready(hosts)


def _ready(hosts: BenchHosts) -> Iterator[SoakedHosts]:
    give_spare(hosts.bench)
    soaked = SoakedHosts(hosts)
    _themselves(soaked)
    said = roambench("fleet", "provision", hosts.bench, timeout_s=1500)
    if said.code:
        raise RuntimeError(said.out + said.err)
    try:
        yield soaked
    finally:
        _themselves(soaked)


def _themselves(soaked: SoakedHosts) -> None:
    """Whatever a campaign did to them: each is reached, and plays itself."""
    for name in soaked.hosts.names:
        soaked.revive(name)
    for name in BOARDS:
        roambench("fleet", "replace", soaked.hosts.bench, name, "--undo")
