"""Problems of a file without the lines of its keys, which tests/unit/written/test_lines.py has."""

from __future__ import annotations

import re
from collections.abc import Iterable


def without_lines(problems: Iterable[str]) -> tuple[str, ...]:
    """`a.toml: fleet.agents: ...` for `a.toml:3: fleet.agents: ...`."""
    return tuple(re.sub(r"(\.toml):\d+: ", r"\1: ", problem) for problem in problems)
