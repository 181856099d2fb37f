"""The live page of a command that runs something, served meanwhile by its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def live_page(runs_dir: Path) -> Iterator[None]:
    """Serve the runs in `runs_dir` while the body runs; the page's address is printed once it can be opened.
    It ends with this process, however that ends."""
    runs_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "roambench.cli.main", "watch", str(runs_dir)]
    # In its own session: Ctrl-C is for the run, whose end the page still shows.
    serving = subprocess.Popen(
        [*command, "--parent", str(os.getpid())], stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        yield
    finally:
        serving.terminate()
        serving.wait()
