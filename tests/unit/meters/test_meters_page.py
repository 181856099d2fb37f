"""docs/meters.md is right: its example runs as it stands, its tables name what there is."""

import re
import subprocess
import sys
from pathlib import Path

from roambench.meters.catalogue import METERS, driver_row, wired_names
from roambench.meters.ports import COMMON_OPTIONS
from roambench.plan.which_meter import table

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "meters.md").read_text("utf-8")


def test_the_page_names_every_driver_and_every_option():
    assert {row for row in METERS.own if f"| `{row}` |" not in PAGE} == set()
    options = {option for name in wired_names() for option in driver_row(name).options} | set(COMMON_OPTIONS)
    assert {option for option in options if f"| `{option}` |" not in PAGE} == set()


def test_the_widths_of_the_page_on_meters_to_choose_from_are_those_of_the_plan():
    assert table() in (ROOT / "docs" / "which-meter.md").read_text("utf-8")


def test_the_pages_of_the_notes_name_every_driver_and_every_transcript():
    notes = "".join(page.read_text("utf-8") for page in (ROOT / "firmware_notes").glob("*.md"))
    assert {name for name in wired_names() if f"`{name}`" not in notes} == set()
    transcripts = [path.name for path in (ROOT / "firmware_notes" / "transcripts").glob("smartpower2*")]
    assert {name for name in transcripts if f"`{name}`" not in notes} == set()


def test_the_meter_that_the_page_adds_reads_is_described_and_is_found_by_its_name(tmp_path):
    code = re.search(r'```python title="wattbox.py"\n(.*?)```', PAGE, re.DOTALL)
    points = re.search(r"```toml\n(\[project\.entry-points.*?)```", PAGE, re.DOTALL)
    assert code is not None
    assert points is not None
    assert len(code[1].splitlines()) <= 60
    (tmp_path / "wattbox.py").write_text(code[1])
    recorded = tmp_path / "wattbox-1.dist-info"
    recorded.mkdir()
    (recorded / "METADATA").write_text("Metadata-Version: 2.1\nName: wattbox\nVersion: 1\n")
    lines = points[1].replace("project.entry-points.", "").replace('"', "")
    (recorded / "entry_points.txt").write_text(lines)
    (tmp_path / "mine.txt").write_text("# meter: wattbox\n0.1\tU 5.161 P 3.416\\n\n0.6\tU 5.1\\nboot\\n\n")
    (tmp_path / "try.py").write_text(
        "import asyncio\n"
        "from roambench.contract.device_time import DeviceClock\n"
        "from roambench.meters.catalogue import open_meter\n"
        "from roambench.meters.traits import TRAITS, MeterDescription\n"
        "async def look():\n"
        "    meter = open_meter('replay', 'mine.txt', DeviceClock())\n"
        "    described = MeterDescription.from_event(await anext(meter))\n"
        "    print(described.driver, TRAITS.load(described.traits).window_s)\n"
        "    found = [await anext(meter) for _ in range(3)]\n"
        "    print(found[1].watts, found[2].kind, meter.counts.text())\n"
        "    await meter.aclose()\n"
        "asyncio.run(look())\n"
    )
    result = subprocess.run([sys.executable, "try.py"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout == "replay:wattbox 0.5\n3.416 meter stale accepted 1, partial 1, noise 1\n"
