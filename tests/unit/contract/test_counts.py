"""Numbers of things, in the grammar of one and of several."""

from __future__ import annotations

import pytest

from roambench.contract.counts import count


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 hosts"), (1, "1 host"), (2, "2 hosts"), (1234, "1,234 hosts")]
)
def test_one_is_no_several(value: int, text: str) -> None:
    assert count(value, "host") == text
