"""Parameters of which `make test` takes a sample, and `make test-all` every one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def sampled(sample: Iterable[Any], whole: Iterable[Any]) -> list[Any]:
    """Return all of `whole`, in its order; what is not in the `sample` is slow.

    A member of the sample that is not in the whole, such as a smaller number, comes first.
    """
    kept, members = list(sample), list(whole)
    first = [member for member in kept if member not in members]
    return [*first, *(one if one in kept else _slow(one) for one in members)]


def slow_is_asked_for(request: pytest.FixtureRequest) -> bool:
    """Return true if this session runs a slow test of the file that asks: then its fixtures make all."""
    here = [item for item in request.session.items if item.path == request.path]
    return any(item.get_closest_marker("slow") for item in here)


def _slow(member: Any) -> Any:
    values = member if isinstance(member, tuple) else (member,)
    return pytest.param(*values, marks=pytest.mark.slow)
