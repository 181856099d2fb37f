"""What CI does not run it does not pass."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_TESTS = "import pytest\ndef test_runs(): pass\ndef test_lacks_something(): pytest.skip('no meter here')\n"


@pytest.mark.parametrize(("ci", "status"), [("true", 1), ("", 0)])
def test_a_skipped_test_fails_the_session_in_ci_only(ci: str, status: int, tmp_path: Path):
    (tmp_path / "test_it.py").write_text(_TESTS)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no_skips", "-p", "no:cacheprovider", "test_it.py"],
        cwd=tmp_path,
        env={**os.environ, "CI": ci, "PYTHONPATH": str(Path(__file__).resolve().parents[1] / "support")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == status, ended.stdout
    assert "1 passed, 1 skipped" in ended.stdout
