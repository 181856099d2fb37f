"""Fixtures that a reader is run on, and its fixes as rows that a test can spell out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from roambench.mobility.readers import READERS
from roambench.mobility.readers.fixes import Fixes
from roambench.mobility.readers.opening import SourceOptions, read_files

FIXTURES = Path(__file__).resolve().parents[1] / "unit" / "mobility" / "fixtures"

ReadFixture = Callable[..., Fixes]


@pytest.fixture
def read() -> ReadFixture:
    """read(format, *fixture names, step_s=..., options of the source)."""

    def read_fixture(reader: str, *names: str, step_s: int = 3600, **options: object) -> Fixes:
        paths = [FIXTURES / name for name in names]
        fixes, _ = read_files(READERS.load(reader), paths, SourceOptions(**options), step_s=step_s)
        return fixes

    return read_fixture


@pytest.fixture
def rows() -> Callable[[Fixes], list[tuple[str, int, float, float, str]]]:
    """(device, second, latitude or y, longitude or x, place) in the order read."""

    def rows_of(fixes: Fixes) -> list[tuple[str, int, float, float, str]]:
        places = ("", *fixes.place_ids)
        columns = (fixes.device, fixes.t_utc_s, fixes.latitude, fixes.longitude, fixes.place)
        return [
            (fixes.device_ids[device], t_s, latitude, longitude, places[place + 1])
            for device, t_s, latitude, longitude, place in zip(
                *(column.tolist() for column in columns), strict=True
            )
        ]

    return rows_of


@pytest.fixture
def account() -> Callable[[Fixes], tuple[int, int, int, int, int]]:
    """(rows, used, malformed, duplicates, left out), which must add up."""

    def account_of(fixes: Fixes) -> tuple[int, int, int, int, int]:
        left_out = sum(fixes.left_out.values())
        assert fixes.rows == fixes.used + fixes.malformed + fixes.duplicates + left_out
        return fixes.rows, fixes.used, fixes.malformed, fixes.duplicates, left_out

    return account_of
