"""What boards install is what the lock says, file by file: pip fetches it from a folder of wheels here."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError, FleetError
from roambench.provision.platforms import PYTHONS, Platform
from roambench.provision.wheels import wheelhouse
from roambench.provision.wheels.program_kit import BoardKit, KitSpec, ProgramKit
from roambench.provision.wheels.wheelhouse import LOCK, build_beside, build_wheelhouse, read_lock

ROOT = Path(__file__).resolve().parents[3]
PI = Platform("aarch64", "3.11")


def make_wheel(folder: Path, name: str, needs: str = "", content: str = "", version: str = "1.0") -> str:
    """Returns the line that a lock has for it."""
    path = folder / f"{name}-{version}-py3-none-any.whl"
    about = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}.py", content)
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        requires = f"Requires-Dist: {needs}\n" if needs else ""
        archive.writestr(
            f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{requires}"
        )
        archive.writestr(f"{about}/RECORD", "")
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
    house = build_wheelhouse(tmp_path / "state", tmp_path, PI)
    assert [wheel.name for wheel in house.wheels] == ["lower", "pip", "upper"]


def test_a_changed_wheel_is_refused_by_name(tmp_path: Path, index: Path) -> None:
    lock = make_wheel(index, "upper", needs="lower") + make_wheel(index, "lower") + make_wheel(index, "pip")
    lock_of(tmp_path).write_text(lock)
    make_wheel(index, "lower", content="import os")
    with pytest.raises(FleetError, match=rf"lower==1.0 .*is none of the files that {LOCK} names"):
        build_wheelhouse(tmp_path / "state", tmp_path, PI)


def test_packages_that_do_not_fit_together_are_named(tmp_path: Path, index: Path) -> None:
    """pip's last word then is the address of a page."""
    make_wheel(index, "lower")
    make_wheel(index, "lower", version="2.0")
    with pytest.raises(FleetError, match=r"Cannot install lower==1\.0 and lower==2\.0 because"):
        wheelhouse._pip_download(["lower==1.0", "lower==2.0"], PI, tmp_path)


def test_what_is_needed_and_not_locked_is_not_fetched(tmp_path: Path, index: Path) -> None:
    make_wheel(index, "lower")
    lock_of(tmp_path).write_text(make_wheel(index, "upper", needs="lower") + make_wheel(index, "pip"))
    with pytest.raises(ConfigError, match=rf"{LOCK}: lower is not in it, and is needed"):
        build_wheelhouse(tmp_path / "state", tmp_path, PI)


def test_a_host_gets_the_lock_s_lines_for_its_python_and_machine(tmp_path: Path, index: Path) -> None:
    upper, lower, pip = (
        make_wheel(index, "upper", needs="lower"),
        make_wheel(index, "lower"),
        make_wheel(index, "pip"),
    )
    older = lower.replace("==1.0", "==0.9 ; python_full_version < '3.13'")
    lock_of(tmp_path).write_text(
        upper + pip + older + lower.replace("==1.0", "==1.0 ; python_full_version >= '3.13'")
    )
    house = build_wheelhouse(tmp_path / "state", tmp_path, Platform("aarch64", "3.13"))
    assert (house.python, [wheel.version for wheel in house.wheels]) == ("3.13", ["1.0"] * 3)
    with pytest.raises(FleetError, match=r"aarch64 with Python 3\.12: .*lower==0\.9"):
        build_wheelhouse(tmp_path / "state", tmp_path, Platform("aarch64", "3.12"))


def test_torch_with_cuda_is_not_loaded_for_a_host(tmp_path: Path, index: Path) -> None:
    """It has the version and the digest of the lock; the one without CUDA has neither."""
    lock = make_wheel(index, "upper", needs="torch") + make_wheel(index, "torch") + make_wheel(index, "pip")
    lock_of(tmp_path).write_text(lock)
    with pytest.raises(
        FleetError, match=r"torch==1\.0\+cpu: .*PIP_EXTRA_INDEX_URL=https://download\.pytorch"
    ):
        build_wheelhouse(tmp_path / "state", tmp_path, Platform("x86_64", "3.11"))
    make_wheel(index, "torch", version="1.0+cpu")
    house = build_wheelhouse(tmp_path / "state", tmp_path, Platform("x86_64", "3.11"))
    assert {wheel.name: wheel.version for wheel in house.wheels} == {
        "pip": "1.0",
        "torch": "1.0+cpu",
        "upper": "1.0",
    }


def test_every_line_that_pins_nothing_is_named(tmp_path: Path) -> None:
    path = lock_of(tmp_path)
    good = "numpy==2.4.6 \\\n    --hash=sha256:" + "0" * 64
    path.write_text(f"{good}\nnumpy>=2\n\n{good}\nother==1 --hash=md5:1\n-r more.txt\ntorch==2.9.1\n")
    with pytest.raises(ConfigError) as caught:
        read_lock(path, PI.markers)
    assert [problem.partition(": ")[0][len(str(path)) :] for problem in caught.value.problems] == [
        ":3",
        ":7",
        ":8",
        ":9",
    ]
    path.write_text(good)
    assert read_lock(path, PI.markers) == {"numpy": "numpy==2.4.6 --hash=sha256:" + "0" * 64}
    path.write_text(good.replace("numpy", "coverage[toml]"))
    assert read_lock(path, PI.markers) == {"coverage": "coverage[toml]==2.4.6 --hash=sha256:" + "0" * 64}


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lock_that_ships_has_all_that_an_agent_needs(python: str) -> None:
    lock = read_lock(ROOT / LOCK, Platform("aarch64", python).markers)
    assert {"pip", "torch", "numpy", "grpcio"} < lock.keys()
    assert lock["torch"].startswith("torch==2.9.1 ")
    assert read_lock(ROOT / LOCK, Platform("x86_64", python).markers)["torch"].startswith("torch==2.13.0 ")


def test_an_environment_beside_the_agents_gets_only_what_that_lacks(tmp_path: Path, index: Path) -> None:
    """`own` goes before the lock and comes without what it needs; `loose` is in no lock."""
    lock = make_wheel(index, "upper") + make_wheel(index, "pip") + make_wheel(index, "middle")
    lock_of(tmp_path).write_text(lock)
    (tmp_path / "own.txt").write_text(make_wheel(index, "own", needs="no-such-thing"))
    make_wheel(index, "loose", needs="middle")
    house = build_wheelhouse(tmp_path / "state", tmp_path, PI)

    def beside(*roots: str) -> list[str]:
        found = build_beside(
            tmp_path / "state", tmp_path, PI, house, roots, who="mine", lock="own.txt", alone=("own",)
        )
        return [wheel.name for wheel in found.wheels]

    assert beside("own", "upper>=1", "loose") == ["loose", "middle", "own"]
    with pytest.raises(FleetError, match="upper>=2"):
        beside("own", "upper>=2")


def test_a_pin_of_another_torch_gives_way_to_what_fits_the_boards(tmp_path: Path, index: Path) -> None:
    """As Flower's quickstart for PyTorch pins torch and torchvision, and its data set's library an older
    fsspec than torch is locked with."""
    lock = make_wheel(index, "upper", needs="torch") + make_wheel(index, "pip")
    lock += make_wheel(index, "torch", needs="fsspec") + make_wheel(index, "fsspec")
    lock_of(tmp_path).write_text(lock)
    (tmp_path / "own.txt").write_text("")
    house = build_wheelhouse(tmp_path / "state", tmp_path, PI)
    make_wheel(index, "fsspec", version="0.8")
    make_wheel(index, "datasets", needs="fsspec<=0.9")
    for version, torch in (("7", "0.9"), ("8", "1.0"), ("9", "1.1")):
        make_wheel(index, "torchvision", needs=f"torch=={torch}", version=version)

    def beside(*roots: str) -> BoardKit:
        wheels = build_beside(
            tmp_path / "state", tmp_path, PI, house, roots, who="mine", lock="own.txt", alone=()
        )
        spec = KitSpec("flower", "mine", "1", roots, (), "own.txt", "")
        return BoardKit(ProgramKit(spec, b""), wheels)

    kit = beside("torch==0.9", "torchvision==7", "datasets")
    assert [(wheel.name, wheel.version) for wheel in kit.wheels.wheels] == [
        ("datasets", "1.0"),
        ("fsspec", "0.8"),
        ("torchvision", "8"),
    ]
    assert kit.other_versions(house) == ["torch 1.0, not torch==0.9", "torchvision 8, not torchvision==7"]
    assert beside("torchvision").other_versions(house) == []
    with pytest.raises(ConfigError, match=r"mine needs torch<1, got 1\.0"):
        beside("torch<1")
    with pytest.raises(FleetError, match="torchvision"):
        beside("torchvision>=9")
