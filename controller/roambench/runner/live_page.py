"""The live page of a command that runs something, served meanwhile by its own process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

#: The address, and how it is reached from elsewhere; none of a page that cannot be served, which says why.
_LINES: Final = 2


@contextmanager
def live_page(runs_dir: Path) -> Iterator[None]:
    """Serve the runs in `runs_dir` while the body runs, which begins when the page can be opened and its
    address is printed. It ends with this process, however that ends."""
    runs_dir.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "roambench.cli.main", "watch", str(runs_dir)]
    # In its own session: Ctrl-C is for the run, whose end the page still shows.
    serving = subprocess.Popen(
        [*command, "--parent", str(os.getpid())],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert serving.stdout is not None
    try:
        for _ in range(_LINES):
            print(serving.stdout.readline(), end="", flush=True)
        yield
    finally:
        serving.terminate()
        serving.wait()
        serving.stdout.close()
