"""A run on a bench that goes on while something is done to its hosts."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
import uuid
from contextlib import closing
from pathlib import Path

from roambench.runs.folder import RunFolder

_ROAMBENCH = Path(sys.executable).with_name("roambench")
_ROOT = Path(__file__).resolve().parents[3]
#: Everybody is there all the time, and trains long enough to be met at it.
ALWAYS_THERE = (
    "energy.idle_baseline_s=3.0",
    "learning.local_epochs=12",
    'trace.window="first"',
    'trace.parameters={presence="always", devices=3, places=200, aps=20, steps=8}',
)
#: Two SGD steps per training; the device is always there, so each model is uploaded at the step after.
ONE_BOARD = (
    'systems=["mohawk"]',
    "fleet.agents=1",
    "fleet.aps=4",
    "fleet.deadline_s=900",
    "energy.idle_baseline_s=3.0",
    "learning.images_per_device=16",
    "learning.local_epochs=1",
    "learning.test_images=50",
    "rounds.cloud_every_steps=2",
    'trace.window="first"',
    'trace.parameters={presence="always", devices=1, places=50, aps=4, steps=8}',
    "trace.steps=4",
)
_COUNT = """
SELECT count(*) FROM event
WHERE kind = 'FleetEvent' AND body ->> 'kind' = ? AND body ->> 'name' = ? AND body ->> 'detail' LIKE ?
"""


class BenchRun:
    """`roambench run experiments/demo_full.toml` with `settings` on the hosts of `bench`, started at once."""

    def __init__(self, bench: Path, folder: Path, *settings: str) -> None:
        folder.mkdir(exist_ok=True)
        self._runs, self._log = folder / "runs", folder / "run.log"
        self._words = [
            str(_ROAMBENCH),
            "run",
            "experiments/demo_full.toml",
            "--fleet",
            f"bench:{bench}",
            "--no-preflight",
            "--unproven",
            *("--set", "rounds.rest_s=0"),  # boards that rest take minutes
        ]
        self._words += ["--runs-dir", str(self._runs), "-o", str(folder / "report.html")]
        self._words += [word for setting in settings for word in ("--set", setting)]
        self._process = self._begun(self._words)

    def begin_again(self, command: str = "run", *, booted: bool = False) -> None:
        """Its controller is gone: "run" is the command that began it, "resume" names its folder. `booted`: as
        on this machine after a boot, with another boot id and clocks (but the wall's) that began anew."""
        words = [str(_ROAMBENCH), "resume", str(self.folder)] if command == "resume" else self._words
        if booted:
            boot, up_s = self._log.with_name(f"boot-{uuid.uuid4()}"), int(time.monotonic()) - 1
            boot.write_text(f"{uuid.uuid4()}\n")
            namespaces = ("unshare", "--mount", "--time", f"--monotonic=-{up_s}", f"--boottime=-{up_s}")
            bind = 'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"'
            words = [*namespaces, "/bin/sh", "-c", bind, str(boot), *words]
        self._process = self._begun(words)

    def runs_for(self, seconds: float) -> bool:
        """Whether it has not ended after so long, and could be gone on with then; waits until it could."""
        deadline_s = time.monotonic() + seconds
        while self._process.poll() is None:
            if time.monotonic() > deadline_s and any(self._runs.glob("*/latest/*/checkpoint.json")):
                return True
            time.sleep(0.01)
        return False

    def _begun(self, words: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1"},
                cwd=_ROOT,
            )

    def wait_for(self, kind: str, name: str, detail: str, patience_s: float = 200.0) -> None:
        """Until the run has been told of such an event of the host; `detail` as in LIKE."""
        deadline_s = time.monotonic() + patience_s
        while self._count(kind, name, detail) == 0:
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline_s, f"no {kind} of {name}:\n{self._log.read_text()}"
            time.sleep(0.1)

    def wait_for_line(self, words: str, patience_s: float = 180.0) -> None:
        """Until the run has printed such words."""
        deadline_s = time.monotonic() + patience_s
        while words not in self.printed():
            assert self._process.poll() is None, self.printed()
            assert time.monotonic() < deadline_s, f"no {words!r}:\n{self.printed()}"
            time.sleep(0.1)

    def printed(self) -> str:
        """All that it has said so far, on one line."""
        return " ".join(self._log.read_text(errors="replace").split())

    def finished(self, patience_s: float = 400.0) -> RunFolder:
        """The run's folder, once it has ended well."""
        try:
            code = self._process.wait(patience_s)
        finally:
            self.stop()
        assert code == 0, self._log.read_text()
        return RunFolder.open(self.folder)

    def stopped(self) -> int:
        """SIGTERM; its exit status, when it has ended in good order."""
        self._process.terminate()
        return self._process.wait(200)

    def stop(self) -> None:
        """kill -9, if it is still running."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def folder(self) -> Path:
        """Of its one run."""
        (folder,) = self._runs.glob("*/latest/*/")
        return folder

    def _count(self, kind: str, name: str, detail: str) -> int:
        if not self._runs.is_dir() or not any(self._runs.glob("*/latest/*/events.sqlite")):
            return 0
        path = self.folder / "events.sqlite"
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10)) as journal:
            try:
                (count,) = journal.execute(_COUNT, (kind, name, detail)).fetchone()
            except sqlite3.OperationalError:  # not a table yet
                return 0
        return int(count)
