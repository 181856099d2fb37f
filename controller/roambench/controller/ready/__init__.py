"""Experiment files that come with the package: in a checkout links to those in `experiments`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: MOHAWK against HierFAVG on eight emulated boards, in a minute or two.
DEMO: Final = Path(__file__).with_name("demo.toml")
