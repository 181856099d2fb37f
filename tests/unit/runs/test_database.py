"""Errors of files and folders, as they are told."""

from pathlib import Path

import pytest

from roambench.contract.errors import RunError
from roambench.runs.database import naming


@pytest.mark.parametrize("below", ["", "points"])
def test_a_file_or_a_link_that_leads_nowhere_in_a_folders_place_is_told_as_one(
    tmp_path: Path, below: str
) -> None:
    (tmp_path / "notes").write_text("mine")
    (tmp_path / "away").symlink_to(tmp_path / "unplugged")

    def told(name: str) -> str:
        path = tmp_path / name / below
        with pytest.raises(RunError) as refused, naming(path):
            path.mkdir(parents=True, exist_ok=True)
        return str(refused.value)

    link = "expected a folder, a link that leads nowhere is there; name another"
    assert told("away") == f"{tmp_path / 'away'}: {link}"
    file = "Not a directory" if below else "expected a folder, a file is there; name another"
    assert told("notes") == f"{tmp_path / 'notes' / below}: {file}"
