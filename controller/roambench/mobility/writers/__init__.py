"""Formats that traces are written in, besides our own Parquet (`mobility.files`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from roambench.mobility.writers.bonnmotion import BONNMOTION
from roambench.mobility.writers.one_movement import ONE
from roambench.mobility.writers.table import TABLE
from roambench.mobility.writers.writer import Writer

WRITERS: Final[Mapping[str, Writer]] = {writer.name: writer for writer in (ONE, BONNMOTION, TABLE)}
