"""Whole runs with real processes: a run is a process that is watched from outside, as a user would.

What happens inside is read from its run folder; its agents are found in /proc by the files they hold.
"""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import psutil
import pytest

from forked_commands import Command
from roambench.contract.errors import RunError
from roambench.rounds.records import FleetEvent, RoundRecord
from roambench.runs.folder import RunFolder
from roambench.runs.measured.accounts import RunEnergy, account_run
from soaking.processes import AgentProcesses, agent_processes, processes_of

Found = TypeVar("Found")

#: Everybody is always there, nothing is big: what a test needs longer or slower it overrides.
SMALL = """
name = "small"
seed = 11
systems = ["mohawk"]
trace.generator = "city"
trace.window = "first"
trace.steps = 6
trace.parameters = { presence = "always", devices = 4, steps = 8, places = 200, aps = 20 }
fleet = { agents = 4, aps = 5 }
learning = { dataset = "digits", model = "mlp", images_per_device = 40, test_images = 200 }
rounds = { cloud_every_steps = 3, rest_s = 0.0 }
local = { time_scale = 4.0 }
energy = { idle_baseline_s = 2.0 }
"""


#: The command as users have it.
ROAMBENCH = str(Path(sys.executable).with_name("roambench"))
DRIVE = Path(__file__).with_name("drive.py")
QUIET_DRIVE = DRIVE.with_name("quiet_drive.py")
_COUNT = """
SELECT count(*) FROM event
WHERE kind = 'FleetEvent' AND body ->> 'kind' = ? AND body ->> 'name' = ? AND body ->> 'detail' LIKE ?
"""


def until(ask: Callable[[], Found | None], patience_s: float, what: str) -> Found:
    """The first answer of `ask` that is true; fails with `what` when there is none in time."""
    deadline_s = time.monotonic() + patience_s
    while time.monotonic() < deadline_s:
        if answer := ask():
            return answer
        time.sleep(0.02)
    raise AssertionError(f"{patience_s:.0f} s passed without {what}")


def command_lines(processes: Sequence[psutil.Process]) -> list[str]:
    """Return those of the processes that are still there."""
    named = []
    for process in processes:
        with suppress(psutil.Error):
            named.append(" ".join(process.cmdline()))
    return named


@dataclass
class Driven:
    """A run in progress or done. `folder` is the run folder of the experiment's only (or named) system."""

    process: subprocess.Popen[bytes] | Command
    runs_dir: Path
    log: Path
    name: str

    def folder(self, system: str = "mohawk") -> Path:
        return (self.runs_dir / self.name / "latest").resolve() / system

    def processes(self) -> list[psutil.Process]:
        """Every living process of the run; the driving one too."""
        return processes_of(self.runs_dir)

    def text(self) -> str:
        return self.log.read_text()

    def finish(self, patience_s: float = 400.0) -> Driven:
        """Wait for the end; the run must have succeeded."""
        status = self.process.wait(patience_s)
        assert status == 0, self.text()
        return self

    def records(self, system: str = "mohawk") -> list[RoundRecord]:
        """The journal so far; empty before it exists."""
        try:
            return list(RunFolder.open(self.folder(system)).read_log())
        except RunError:
            return []

    def of(self, kind: type[Found], system: str = "mohawk") -> list[Found]:
        return [record for record in self.records(system) if isinstance(record, kind)]

    def events(self, kind: str, name: str, system: str = "mohawk") -> list[FleetEvent]:
        """Return the events of that kind that the fleet saw of the device."""
        return [e for e in self.of(FleetEvent, system) if e.kind == kind and e.name == name]

    def count(self, kind: str, name: str, detail: str = "%") -> int:
        """Return the number of such events that the fleet saw; `detail` as in LIKE.

        SQLite counts them in a millisecond: reading the whole journal would take the agents' CPU.
        """
        path = self.folder() / "events.sqlite"
        if not path.is_file():
            return 0
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as journal:
            try:
                (count,) = journal.execute(_COUNT, (kind, name, detail)).fetchone()
            except sqlite3.OperationalError:  # not a table yet
                return 0
        return int(count)

    def wait_for_event(self, kind: str, name: str, detail: str, patience_s: float = 180.0) -> None:
        def look() -> bool:
            assert self.process.poll() is None, f"the run ended before {kind}:\n{self.text()}"
            return self.count(kind, name, detail) > 0

        until(look, patience_s, f"{kind} of {name} ({detail})")

    def agent(self, name: str, system: str = "mohawk") -> AgentProcesses:
        return agent_processes(self.folder(system), name)

    def energy(self, system: str = "mohawk") -> RunEnergy:
        """The account of the finished run, from its raw readings and phases."""
        folder = RunFolder.open(self.folder(system))
        energy = account_run(folder, list(folder.read_log()))
        folder.close()
        assert energy is not None
        return energy


@dataclass
class Launcher:
    """Starts runs below `base`; ends what is left of them."""

    base: Path
    started: list[Driven] = field(default_factory=list)

    def __call__(
        self,
        *overrides: str,
        file: Path | None = None,
        name: str = "small",
        one_core: bool = False,
        late: tuple[float, float] | None = None,
        words: Sequence[str] | None = None,
        forked: bool | None = None,
    ) -> Driven:
        """Start SMALL (or `file`) with `overrides`: by drive.py in a forked process, or with these `words` by
        `roambench run` in an executed one; `forked` says otherwise.

        `one_core`: in an executed one, too; what forks the processes of a forked one has all cores.
        `late`: drive.py delays the answers of local agents, `late_agents(*late)`.
        """
        if forked is None:
            forked = words is None and not one_core
        runs_dir = self.base / f"runs-{len(self.started)}"
        runs_dir.mkdir()
        if file is None:
            file = runs_dir / "small.toml"
            file.write_text(SMALL)
        if words is None:
            arguments = [*["--one-core"] * one_core, *([f"--late={late[0]},{late[1]}"] if late else [])]
            arguments += [str(file), str(runs_dir), *overrides]
        else:
            arguments = ["run", str(file), "--runs-dir", str(runs_dir), *words]
            arguments += [word for override in overrides for word in ("--set", override)]
        script = DRIVE if words is None else None
        log = runs_dir / "run.log"
        process: subprocess.Popen[bytes] | Command
        with log.open("ab") as output:  # whose other name is for its errors
            if forked:
                process = Command(arguments, Path(), output.fileno(), log, script=script)
            else:
                program = [sys.executable, str(script)] if script else [ROAMBENCH]
                process = subprocess.Popen(
                    [*program, *arguments], stdin=subprocess.DEVNULL, stdout=output, stderr=output
                )
        driven = Driven(process, runs_dir, log, name)
        self.started.append(driven)
        return driven

    until = staticmethod(until)
    roambench = ROAMBENCH

    def end(self) -> list[str]:
        """Kill what is still there; returns the command lines of processes whose run had ended before."""
        for driven in self.started:
            if driven.process.poll() is None:  # a test failed in the middle
                driven.process.send_signal(signal.SIGINT)
        for driven in self.started:
            try:
                driven.process.wait(30)
            except subprocess.TimeoutExpired:
                driven.process.kill()
                driven.process.wait()
        deadline_s = time.monotonic() + 60  # a trainer ends by itself, a moment after its agent
        while (left := processes_of(self.base)) and time.monotonic() < deadline_s:
            time.sleep(0.1)
        named = command_lines(left)
        for process in left:
            with suppress(psutil.Error):
                process.kill()
        return named


@pytest.fixture(scope="module")
def launch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launcher]:
    """Starts runs; when the module is done, none of their processes may be left."""
    launcher = Launcher(tmp_path_factory.mktemp("local").resolve())
    yield launcher
    left = launcher.end()
    assert not left, f"processes outlive their run: {left}"
