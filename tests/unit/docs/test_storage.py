"""docs/storage.md says what the code does: schema, defaults, options, files."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app
from roambench.contract.records import Reading, RecordKind
from roambench.experiment.sections import InfluxdbSection
from roambench.runner.readings_source import TOKEN_VARIABLES
from roambench.runs.influx.records import WINDOW_NS
from roambench.spool.drain import BACKOFF_FIRST_S, BACKOFF_MOST_S
from roambench.spool.influx_schema import FIELDS, TAGS
from roambench.spool.line_protocol import BOOT_TAG_CHARACTERS
from roambench.spool.spool import DEFAULT_CAP_BYTES, ROW_OVERHEAD_BYTES, Spool

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "storage.md").read_text(encoding="utf-8")
#: Line breaks of the prose are no part of it.
PROSE = " ".join(PAGE.split())
TYPES = {"float": float, "integer": int, "string": str}


def sections() -> dict[str, dict[str, type]]:
    """Measurement -> field -> type, as the page has them."""
    found = {}
    for heading, body in re.findall(r"^### `(\w+)`:.*?$(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL):
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", body, re.MULTILINE)
        found[heading] = {name: TYPES[kind] for name, kind in rows}
    return found


def test_the_schema_on_the_page_is_the_schema_of_the_code():
    assert sections() == FIELDS


def test_the_tags_on_the_page_are_those_of_the_code():
    sentence = re.search(r"Every point has the tags that are known of (.*?)\. They", PROSE)
    assert sentence is not None
    assert tuple(re.findall(r"`(\w+)`", sentence[1])) == TAGS
    assert f"the first {BOOT_TAG_CHARACTERS} characters" in sentence[1]


def test_the_section_on_the_page_is_one_that_an_experiment_may_have():
    (block,) = re.findall(r"```toml\n\[influxdb\]\n(.*?)```", PAGE, re.DOTALL)
    values = dict(re.findall(r'^(\w+) = "(.*)"$', block, re.MULTILINE))
    section = InfluxdbSection.model_validate(values)
    assert section.bucket == InfluxdbSection.model_validate({}).bucket


@pytest.mark.parametrize("command", ["report", "compare"])
def test_the_options_on_the_page_are_those_of_the_commands(command):
    asked = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    for option in set(re.findall(r"--(?:influx|readings)[a-z-]*", PAGE)):
        assert option in asked
    for variable in TOKEN_VARIABLES:
        assert f"`{variable}`" in PAGE


def test_the_sizes_on_the_page_follow_from_the_code(tmp_path):
    """84 bytes by the account; 256 MiB of them are 37 days at one a second."""
    payload = Reading(1, 5.0, 0.4, 2.0).to_bytes()
    per_reading = len(payload) + ROW_OVERHEAD_BYTES
    assert f"{per_reading} by the account" in PAGE
    days = DEFAULT_CAP_BYTES / per_reading / 86_400
    assert f"{days:.0f} days at 1 Hz, {days / 10:.1f} days at 10 Hz" in PAGE
    assert f"{DEFAULT_CAP_BYTES // per_reading / 1e6:.1f} million readings" in PAGE
    spool = Spool(tmp_path / "spool.sqlite")
    for index in range(2000):
        values = struct.pack("<q", 10**12 + index * 10**9) + payload[8:]
        spool.append(RecordKind.READING, values)
    spool.close()
    on_disk = (tmp_path / "spool.sqlite").stat().st_size / 2000
    written = re.search(r"\| spool on the board \| (\d+) on disk", PAGE)
    assert written is not None
    assert on_disk == pytest.approx(int(written[1]), rel=0.15)


def test_the_pauses_and_windows_on_the_page_are_those_of_the_code():
    assert f"after {BACKOFF_FIRST_S:.0f} to {BACKOFF_MOST_S:.0f} s, doubling" in PAGE
    assert f"windows of {WINDOW_NS // 3_600_000_000_000} hours" in PROSE


def test_files_and_links_of_the_page_are_there():
    for name in re.findall(r"`((?:docs|tests|experiments)/[\w./-]+)`", PAGE):
        assert (ROOT / name).exists(), name
    for link in re.findall(r"\]\(([\w./-]+)\)", PAGE):
        assert (ROOT / "docs" / link).exists(), link
