"""Experiment files that come with the package; `demo.toml` is that of the folder `experiments`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: MOHAWK against HierFAVG on eight emulated boards, in a minute and a half.
DEMO: Final = Path(__file__).with_name("demo.toml")
#: What `roambench init` writes: every table with a comment.
EXPERIMENT: Final = Path(__file__).with_name("experiment.toml")
