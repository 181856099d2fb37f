"""Archives as data sets are published in them, packed by GNU tar, zip, gzip and xz; and hostile ones."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from roambench.contract.errors import TraceError
from roambench.mobility.readers import READERS, archives
from roambench.mobility.readers.detecting import detect
from roambench.mobility.readers.fixes import Fixes
from roambench.mobility.readers.opening import read_files

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures"


def run(*command: str | Path, cwd: Path) -> None:
    """A program of the system, not ours."""
    if shutil.which(str(command[0])) is None:
        pytest.skip(f"no {command[0]} on this machine")
    subprocess.run([str(part) for part in command], cwd=cwd, check=True, capture_output=True)


def fixes_of(reader: str, path: Path) -> Fixes:
    return read_files(READERS.load(reader), [path])[0]


def seen(fixes: Fixes) -> set[tuple[str, int, float]]:
    names = [fixes.device_ids[code] for code in fixes.device.tolist()]
    return set(zip(names, fixes.t_utc_s.tolist(), fixes.latitude.tolist(), strict=True))


@pytest.fixture
def cabs(tmp_path: Path) -> Path:
    """cabspottingdata/, as CRAWDAD lays it out: newest fixes first, a list of the cabs and a README."""
    folder = tmp_path / "cabspottingdata"
    folder.mkdir()
    for cab in range(40):
        rows = [f"37.75{at:03d} -122.39447 {at % 2} {1_211_033_630 - 60 * at}\n" for at in range(50)]
        (folder / f"new_cab{cab:02d}.txt").write_text("".join(rows))
    (folder / "_cabs.txt").write_text('<cab id="cab00" updates="50"/>\n')
    (folder / "README").write_text("The format of each mobility trace file is latitude, longitude, ...\n")
    return folder


@pytest.mark.parametrize("layout", ["gnu", "pax", "ustar", "v7"])
@pytest.mark.parametrize(
    ("suffix", "pack"),
    [("tar", "--no-auto-compress"), ("tar.gz", "-z"), ("tgz", "-z"), ("tar.xz", "-J"), ("tar.bz2", "-j")],
)
def test_a_tar_is_read_like_the_folder_in_it(cabs: Path, layout: str, suffix: str, pack: str) -> None:
    archive = f"cabspottingdata.{suffix}"
    run("tar", f"--format={layout}", pack, "-cf", archive, cabs.name, cwd=cabs.parent)
    fixes, (source,) = read_files(READERS.load("cabspotting"), [cabs.parent / archive])
    assert (len(fixes.device_ids), fixes.rows, fixes.malformed) == (40, 2000, 0)
    assert seen(fixes) == seen(fixes_of("cabspotting", cabs))
    assert (source.name, source.passed_over, source.such_as) == (archive, 2, "cabspottingdata/README")
    assert detect([cabs.parent / archive])[0].reader == "cabspotting"


def test_members_with_dots_long_names_and_apples_shadows_are_what_they_are(cabs: Path) -> None:
    long = "new_" + "x" * 150
    (cabs / f"{long}.txt").write_text("37.75 -122.39 1 1211033630\n")
    (cabs / "._new_cab00.txt").write_bytes(b"\0\5\26\7\0\2\0\0Mac OS X        ")
    (cabs / "new_link.txt").symlink_to("new_cab00.txt")
    (cabs / "new_zero.txt").symlink_to("/dev/zero")
    os.mkfifo(cabs / "new_fifo.txt")
    for layout in ("gnu", "pax"):
        archive = cabs.parent / f"{layout}.tgz"
        run("tar", f"--format={layout}", "-C", cabs, "-czf", archive, ".", cwd=cabs)
        devices = {name for name, _, _ in seen(fixes_of("cabspotting", archive))}
        assert devices == {*(f"cab{cab:02d}" for cab in range(40)), long.removeprefix("new_")}


def test_of_a_member_added_again_the_last_counts_as_when_it_is_extracted(cabs: Path) -> None:
    run("tar", "-cf", "c.tar", cabs.name, cwd=cabs.parent)
    (cabs / "new_cab00.txt").write_text("37.75 -122.39 1 1211033630\n")
    run("tar", "-rf", "c.tar", f"{cabs.name}/new_cab00.txt", cwd=cabs.parent)
    assert seen(fixes_of("cabspotting", cabs.parent / "c.tar")) == seen(fixes_of("cabspotting", cabs))


def test_tars_in_a_folder_and_packed_files_in_a_tar_are_read_too(cabs: Path) -> None:
    for cab in range(20):
        run("gzip", cabs / f"new_cab{cab:02d}.txt", cwd=cabs)
    folder = cabs.parent / "parts"
    folder.mkdir()
    names = sorted(file.name for file in cabs.glob("new_*"))
    run("tar", "-C", cabs, "-cJf", folder / "a.tar.xz", *names[:25], cwd=cabs)
    run("zip", "-q", folder / "b.zip", *names[25:], cwd=cabs)
    assert seen(fixes_of("cabspotting", folder)) == seen(fixes_of("cabspotting", cabs))


def test_geolifes_zip_with_its_guide_and_labels(tmp_path: Path) -> None:
    data = tmp_path / "Geolife Trajectories 1.3"
    shutil.copytree(FIXTURES / "geolife", data)
    (data / "User Guide-1.3.pdf").write_bytes(b"%PDF-1.5\n%\xb5\xb5\xb5\xb5\n")
    run("zip", "-qr", "g.zip", data.name, cwd=tmp_path)
    run("tar", "-cJf", "g.tar.xz", data.name, cwd=tmp_path)
    for archive in ("g.zip", "g.tar.xz"):
        fixes, (source,) = read_files(READERS.load("geolife"), [tmp_path / archive])
        assert (fixes.device_ids, fixes.rows) == (("007", "008"), 4)
        assert source.passed_over == 2
        assert detect([tmp_path / archive])[0].reader == "geolife"


@pytest.mark.parametrize("reader", ["tsmc2014", "checkins", "csv"])
def test_a_readme_beside_the_check_ins_is_passed_over(tmp_path: Path, reader: str) -> None:
    folder = tmp_path / "dataset_tsmc2014"
    folder.mkdir()
    shutil.copy(FIXTURES / "tsmc2014.txt", folder / "dataset_TSMC2014_NYC.txt")
    (folder / "dataset_TSMC2014_readme.txt").write_text(
        "This dataset contains check-ins in NYC and Tokyo.\n1. User ID (anonymized)\n2. Venue ID\n"
    )
    run("zip", "-qr", "dataset_tsmc2014.zip", folder.name, cwd=tmp_path)
    run("tar", "-czf", "dataset_tsmc2014.tar.gz", folder.name, cwd=tmp_path)
    alone = seen(fixes_of(reader, FIXTURES / "tsmc2014.txt"))
    for name in ("dataset_tsmc2014", "dataset_tsmc2014.zip", "dataset_tsmc2014.tar.gz"):
        fixes, (source,) = read_files(READERS.load(reader), [tmp_path / name])
        assert seen(fixes) == alone
        assert (source.passed_over, source.such_as.rpartition("/")[2]) == (1, "dataset_TSMC2014_readme.txt")


def test_an_archive_of_many_members_is_opened_once(cabs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("zip", "-qr", "c.zip", cabs.name, cwd=cabs.parent)
    opened = []

    class Counted(zipfile.ZipFile):
        def __init__(self, *arguments: object, **options: object) -> None:
            opened.append(arguments)
            super().__init__(*arguments, **options)  # type: ignore[arg-type, misc]

    monkeypatch.setattr(zipfile, "ZipFile", Counted)
    assert fixes_of("cabspotting", cabs.parent / "c.zip").rows == 2000
    assert len(opened) == 1


def test_a_packed_tar_is_unpacked_twice_whatever_it_holds(
    cabs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("tar", "-czf", "c.tgz", cabs.name, cwd=cabs.parent)
    read = [0]

    class Counted(io.FileIO):
        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            read[0] += (length := super().readinto(buffer))
            return length

    with io.BufferedReader(Counted(cabs.parent / "c.tgz")) as file:
        monkeypatch.setitem(archives.PACKINGS, ".gz", lambda _, mode: gzip.GzipFile(fileobj=file))  # type: ignore[arg-type, misc]
        assert fixes_of("cabspotting", cabs.parent / "c.tgz").rows == 2000
    assert read[0] <= 2 * (cabs.parent / "c.tgz").stat().st_size


def hostile_pax() -> bytes:
    """A header that announces 4 GB of names."""
    row = tarfile.TarInfo("names")
    row.type, row.size = tarfile.XHDTYPE, 4 << 30
    return row.tobuf(tarfile.USTAR_FORMAT) + bytes(1 << 20)


def hostile_size() -> bytes:
    """A member of -512 bytes, at which a list would turn round for ever."""
    row = tarfile.TarInfo("new_a.txt")
    row.size = -1024
    return row.tobuf(tarfile.GNU_FORMAT) + bytes(4096)


def damaged_middle() -> bytes:
    """Two members; the header of the second is rubbish, which `tarfile` alone takes for the end."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name in ("new_a.txt", "new_b.txt"):
            row = tarfile.TarInfo(name)
            row.size = 27
            archive.addfile(row, io.BytesIO(b"37.75 -122.39 1 1211033630\n"))
    data = bytearray(file.getvalue())
    data[1024 + 100 : 1024 + 160] = b"#" * 60
    return bytes(data)


def sparse_terabyte() -> bytes:
    row = tarfile.TarInfo("new_a.txt")
    row.type = tarfile.GNUTYPE_SPARSE
    data = bytearray(row.tobuf(tarfile.GNU_FORMAT))
    data[483:495] = b"%011o\0" % (7 << 30)
    data[148:156] = b"%06o\0 " % (sum(data[:148]) + 8 * 32 + sum(data[156:512]))
    return bytes(data) + bytes(1024)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (hostile_pax, r"a header of 4,294,967,296 bytes"),
        (hostile_size, r"a size below 0|invalid offset"),  # by us, and by newer Pythons themselves
        (damaged_middle, r"no header at byte 1,024, where one is expected"),
        (sparse_terabyte, r"is a sparse file"),
        (lambda: damaged_middle()[:700], r"no header|unexpected end|too early"),
        (lambda: b"", r"empty"),
        (lambda: b"no tar at all" * 100, r"bad checksum|invalid"),
    ],
)
@pytest.mark.parametrize("suffix", ["tar", "tar.gz"])
def test_a_hostile_or_damaged_tar_is_refused_by_name(
    tmp_path: Path, content: Callable[[], bytes], reason: str, suffix: str
) -> None:
    path = tmp_path / f"c.{suffix}"
    path.write_bytes(gzip.compress(content()) if suffix == "tar.gz" else content())
    with pytest.raises(TraceError, match=rf"c\.{suffix}.*: cannot be read: .*({reason})"):
        fixes_of("cabspotting", path)


def test_a_list_of_more_members_than_can_be_meant_is_refused() -> None:
    row = tarfile.TarInfo("folder")
    row.type = tarfile.DIRTYPE
    tar = row.tobuf(tarfile.USTAR_FORMAT) * 1001
    with pytest.raises(tarfile.ReadError, match="more than 1,000 members"):
        archives._parts_of(io.BytesIO(tar), most=1000)
    assert archives._parts_of(io.BytesIO(tar), most=1001) == {}


def test_a_list_of_members_with_names_longer_than_can_be_meant_is_refused(tmp_path: Path) -> None:
    row = tarfile.TarInfo("a" * ((1 << 20) - 1000))
    with gzip.open(tmp_path / "c.tgz", "wb", compresslevel=1) as file:
        for _ in range(129):
            file.write(row.tobuf(tarfile.GNU_FORMAT))
    with pytest.raises(TraceError, match="or very long names"):
        fixes_of("cabspotting", tmp_path / "c.tgz")


@pytest.mark.lengthy
@pytest.mark.parametrize("name", ["a.csv.gz", "a.zip", "a.tar.gz"])
def test_what_unpacks_to_far_more_than_lies_on_the_disk_ends_in_an_error(tmp_path: Path, name: str) -> None:
    """One line without an end: 270 MB in a thousandth."""
    path, plain = tmp_path / name, tmp_path / "b.csv"
    with plain.open("wb") as file:
        file.write(b"device,time,lat,lon\n")
        file.writelines(b"x" * 1_000_000 for _ in range(270))
    if name == "a.zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.write(plain, "b.csv")
    elif name == "a.tar.gz":
        with tarfile.open(path, "w:gz") as tar:
            tar.add(plain, "b.csv")
    else:
        with plain.open("rb") as file, gzip.open(path, "wb") as packed:
            shutil.copyfileobj(file, packed, 1 << 20)
    assert path.stat().st_size < 1_500_000
    with pytest.raises(
        TraceError, match=rf"{name}.*: cannot be read: it unpacks to more than 268,435,456 bytes"
    ):
        read_files(READERS.load("csv"), [path])


def test_a_packed_tar_that_is_cut_off_is_refused(cabs: Path) -> None:
    run("tar", "-czf", "c.tgz", cabs.name, cwd=cabs.parent)
    whole = (cabs.parent / "c.tgz").read_bytes()
    (cabs.parent / "c.tgz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(TraceError, match=r"c\.tgz: cannot be read: "):
        fixes_of("cabspotting", cabs.parent / "c.tgz")


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_names_that_climb_out_are_only_names(tmp_path: Path, kind: str) -> None:
    (tmp_path / "inner").mkdir()
    line = b"37.75 -122.39 1 1211033630\n"
    path = tmp_path / "inner" / f"evil.{kind}"
    if kind == "tar":
        with tarfile.open(path, "w") as tar:
            row = tarfile.TarInfo("../../new_evil.txt")
            row.size = len(line)
            tar.addfile(row, io.BytesIO(line))
    else:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("../../new_evil.txt", line)
    assert seen(fixes_of("cabspotting", path)) == {("evil", 1_211_033_630, 37.75)}
    assert sorted(file.name for file in tmp_path.rglob("*")) == [path.name, "inner"]


TABLE = "device,time,lat,lon\nd,2012-04-17T00:10:00Z,40.7,-74\ne,2012-04-17T00:10:00Z,40.7,-74\n"
POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32\n"


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("a.csv", TABLE.encode("utf-16"), "UTF-16, no text that is read: convert it"),
        ("a.csv", TABLE.encode("utf-16-le"), "looks like UTF-16"),
        ("a.csv", TABLE.replace("\n", "\r").encode(), "lines end in CR alone"),
        ("a.csv", POINTER.encode(), "Git LFS pointer, not the data"),
        ("a.csv", gzip.compress(TABLE.encode()), "its name must end in .gz"),
        ("a.csv.gz", gzip.compress(gzip.compress(TABLE.encode())), "packed with gzip"),
        ("a.csv", damaged_middle(), "it is a tar archive"),
        ("a.gz", gzip.compress(damaged_middle()), "it is a tar archive: its name must end in .tar, .tar.gz"),
    ],
)
def test_what_is_no_text_is_named_and_not_counted_as_rows(
    tmp_path: Path, name: str, content: bytes, reason: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(TraceError, match=rf"{name}: .*{reason}"):
        fixes_of("csv", tmp_path / name)


def test_an_old_tar_without_a_magic_word_is_told_from_text(cabs: Path) -> None:
    run("tar", "--format=v7", "-cf", "cabs.txt", cabs.name, cwd=cabs.parent)
    with pytest.raises(TraceError, match="it is a tar archive"):
        fixes_of("cabspotting", cabs.parent / "cabs.txt")
