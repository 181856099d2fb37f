"""What boards install is what the lock says, file by file: pip fetches it from a folder of wheels here."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision.wheels import wheelhouse
from roambench.provision.wheels.platforms import PLATFORMS
from roambench.provision.wheels.wheelhouse import LOCK, build_wheelhouse, read_lock

ROOT = Path(__file__).resolve().parents[3]


def make_wheel(folder: Path, name: str, needs: str = "", content: str = "") -> str:
    """Returns the line that a lock has for it."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    told = f"{name}-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", content)
        archive.writestr(f"{told}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        requires = f"Requires-Dist: {needs}\n" if needs else ""
        archive.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{requires}")
        archive.writestr(f"{told}/RECORD", "")
    return f"{name}==1.0 \\\n    --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


def lock_of(root: Path) -> Path:
    """Where a source tree has its lock; its folder is made."""
    (root / LOCK).parent.mkdir(parents=True, exist_ok=True)
    return root / LOCK


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of wheels instead of an index, and a source tree that needs one of them."""
    found = tmp_path / "index"
    found.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(found))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setattr(wheelhouse, "base_requirements", lambda root: ["upper>=1"])
    return found


def test_wheels_are_those_of_the_lock(tmp_path: Path, index: Path) -> None:
    lock = make_wheel(index, "upper", needs="lower") + make_wheel(index, "lower") + make_wheel(index, "pip")
    lock_of(tmp_path).write_text("# a comment\n" + lock)
    house = build_wheelhouse(tmp_path / "state", tmp_path, PLATFORMS["aarch64"])
    assert [wheel.name for wheel in house.wheels] == ["lower", "pip", "upper"]


def test_a_wheel_that_somebody_changed_is_refused_by_name(tmp_path: Path, index: Path) -> None:
    lock = make_wheel(index, "upper", needs="lower") + make_wheel(index, "lower") + make_wheel(index, "pip")
    lock_of(tmp_path).write_text(lock)
    make_wheel(index, "lower", content="import os")
    with pytest.raises(FleetError, match=rf"lower==1.0 .*is none of the files that {LOCK} names"):
        build_wheelhouse(tmp_path / "state", tmp_path, PLATFORMS["aarch64"])


def test_what_is_needed_and_not_locked_is_not_fetched(tmp_path: Path, index: Path) -> None:
    make_wheel(index, "lower")
    lock_of(tmp_path).write_text(make_wheel(index, "upper", needs="lower") + make_wheel(index, "pip"))
    with pytest.raises(ConfigError, match=r"boards.txt: lower is not in it, and is needed"):
        build_wheelhouse(tmp_path / "state", tmp_path, PLATFORMS["aarch64"])


def test_only_what_the_platform_leaves_open_comes_without_a_digest(tmp_path: Path, index: Path) -> None:
    make_wheel(index, "lower")
    lock_of(tmp_path).write_text(make_wheel(index, "upper", needs="lower") + make_wheel(index, "pip"))
    platform = type(PLATFORMS["x86_64"])("x86_64", {"lower": "lower==1.0"})
    house = build_wheelhouse(tmp_path / "state", tmp_path, platform)
    assert [wheel.name for wheel in house.wheels] == ["lower", "pip", "upper"]


def test_every_line_that_pins_nothing_is_told(tmp_path: Path) -> None:
    path = lock_of(tmp_path)
    good = "numpy==2.4.6 \\\n    --hash=sha256:" + "0" * 64
    path.write_text(f"{good}\nnumpy>=2\n\n{good}\nother==1 --hash=md5:1\n-r more.txt\ntorch==2.9.1\n")
    with pytest.raises(ConfigError) as caught:
        read_lock(path)
    assert [problem.partition(": ")[0][len(str(path)) :] for problem in caught.value.problems] == [
        ":3",
        ":7",
        ":8",
        ":9",
    ]
    path.write_text(good)
    assert read_lock(path) == {"numpy": "numpy==2.4.6 --hash=sha256:" + "0" * 64}
    path.write_text(good.replace("numpy", "coverage[toml]"))
    assert read_lock(path) == {"coverage": "coverage[toml]==2.4.6 --hash=sha256:" + "0" * 64}


def test_the_lock_that_ships_has_all_that_an_agent_needs() -> None:
    lock = read_lock(ROOT / LOCK)
    assert {"pip", "torch", "numpy", "grpcio"} < lock.keys()
    assert lock["torch"].startswith("torch==2.9.1 ")
