"""Parameters of which `make test` takes a sample, and `make test-all` every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(sample: Iterable[Any], whole: Iterable[Any]) -> list[Any]:
    """All of `whole`, in its order; what is not in the `sample` is slow.

    A member of the sample that is not in the whole, such as a smaller number, comes first.
    """
    kept, members = list(sample), list(whole)
    first = [member for member in kept if member not in members]
    return [*first, *(one if one in kept else _slow(one) for one in members)]


def _slow(member: Any) -> Any:
    values = member if isinstance(member, tuple) else (member,)
    return pytest.param(*values, marks=pytest.mark.slow)
