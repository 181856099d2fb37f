"""`roambench fleet exec` over a real sshd: nothing that a host says is lost, and nothing is made up."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benches import bench_of
from forked_commands import roambench
from roambench.provision.bench import Bench
from samples import sampled
from ssh_server import free_port, ssh_server

_HOST = """
[[hosts]]
name = "pi-{number}"
address = "127.0.0.{number}"
ssh_user = "root"
ssh_port = {port}
ssh_key = "{key}"
meter.driver = "none"
"""


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("sshd")
    with ssh_server(folder, address="0.0.0.0") as server:
        hosts = [_HOST.format(number=n, port=server.port, key=server.client_key) for n in (1, 2)]
        yield bench_of(folder, "".join(hosts))


def words(bench: Bench, line: str, *options: str) -> list[str]:
    return ["fleet", "exec", str(bench.file), *options, "--", line]


def command(bench: Bench, line: str, *options: str) -> list[str]:
    return [sys.executable, "-m", "roambench.cli.main", *words(bench, line, *options)]


def execute(bench: Bench, line: str, *options: str) -> tuple[int, list[str], list[str]]:
    ran = roambench(*words(bench, line, *options), cwd=bench.file.parent)
    return ran.returncode, ran.stdout.splitlines(), ran.stderr.splitlines()


def largest_bytes(bench: Bench, line: str, options: tuple[str, ...] = ()) -> tuple[int, int, str]:
    """Of memory that the command had, of its output, and the output's SHA-256."""
    with subprocess.Popen(command(bench, line, *options), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        size, digest = 0, hashlib.sha256()
        while piece := process.stdout.read1(2**20):
            size += len(piece)
            digest.update(piece)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss * 1024, size, digest.hexdigest()


#: Of 70 MB in long lines, and in many.
SEQUENCES = (("seq -f %0199.0f 350000", 72_100_000), ("seq 8600000", 119_288_896))


@pytest.mark.parametrize(("line", "size_bytes"), sampled(SEQUENCES[:1], SEQUENCES))
def test_more_than_any_memory_is_for_passes_line_by_line_and_none_is_lost(
    bench: Bench, line: str, size_bytes: int
) -> None:
    """More of `seq` than a link keeps of a command, compared with what seq itself prints."""
    little, _, _ = largest_bytes(bench, "true", ("--only", "pi-1", "--timeout", "100"))
    much, size, digest = largest_bytes(bench, line, ("--only", "pi-1", "--timeout", "100"))
    expected = hashlib.sha256()
    with subprocess.Popen(f"{line} | sed 's/^/pi-1: /'", shell=True, stdout=subprocess.PIPE) as seq:
        assert seq.stdout is not None
        while piece := seq.stdout.read1(2**20):
            expected.update(piece)
    assert (size, digest) == (size_bytes, expected.hexdigest())
    assert much - little < 40e6


def test_each_host_has_its_lines_whole_and_in_order(bench: Bench) -> None:
    code, out, err = execute(bench, "seq 20000; seq 20000 >&2")
    assert code == 0
    for host in ("pi-1", "pi-2"):
        for said in (out, err):
            assert [line for line in said if line.startswith(host)] == [
                f"{host}: {n}" for n in range(1, 20001)
            ]


def test_letters_that_come_in_pieces_and_lines_without_an_end_are_printed(bench: Bench) -> None:
    pieces = r"printf 'a\303'; sleep 0.2; printf '\244b\r'; sleep 0.2; printf '\nc\rd\n\ne\033[2J\tf'"
    assert execute(bench, pieces, "--only", "pi-1") == (
        0, ["pi-1: aäb", "pi-1: c", "pi-1: d", "pi-1: ", "pi-1: e?[2J f"], [],
    )  # fmt: skip


def test_a_line_longer_than_any_is_broken_and_kept(bench: Bench) -> None:
    code, out, _ = execute(bench, "head -c 3000000 /dev/zero | tr '\\0' x", "--only", "pi-1")
    assert code == 0
    assert len(out) > 1
    assert "".join(line.removeprefix("pi-1: ") for line in out) == "x" * 3_000_000


@pytest.mark.parametrize(
    ("line", "ending"),
    [
        ("echo begun; exit 3", "exit code 3"),
        ("echo begun; kill -9 $$", "killed by a signal (out of memory?)"),
        # Its connection's sshd is the parent of the login shell, which became this one.
        (
            "echo begun; sleep 2; kill -9 $PPID; sleep 20",
            "connection lost; look at its power and its network, then again",
        ),
    ],
)
def test_how_a_command_ended_is_said_and_what_it_printed_before_is_there(
    bench: Bench, line: str, ending: str
) -> None:
    assert execute(bench, line, "--only", "pi-1") == (1, ["pi-1: begun"], [f"pi-1: {ending}"])


def test_what_came_before_the_time_was_up_is_printed(bench: Bench) -> None:
    code, out, err = execute(bench, "echo begun; sleep 30", "--only", "pi-1", "--timeout", "4")
    assert (code, out) == (1, ["pi-1: begun"])
    assert err == ["pi-1: echo begun; sleep 30: no end within 4 s; look at its load, try again"]


def test_a_reader_who_has_enough_ends_it(bench: Bench) -> None:
    with subprocess.Popen(command(bench, "yes"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline().endswith(b": y\n")
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_an_output_that_cannot_be_written_is_said(bench: Bench) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(command(bench, "yes"), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (ran.returncode, ran.stderr) == (
        1, "roambench: the output cannot be written: No space left on device\n",
    )  # fmt: skip


def test_as_json_every_line_is_an_object_and_the_last_one_has_the_end(bench: Bench) -> None:
    line = "printf 'a\\033[2J\\n\\303\\244'; echo b >&2; exit 3"
    code, out, err = execute(bench, line, "--only", "pi-1", "--json")
    objects = sorted((json.loads(one) for one in out), key=lambda found: str(found.get("line", "")))
    assert (code, err) == (1, [])
    assert objects == [
        {"host": "pi-1", "exit_code": 3},
        {"host": "pi-1", "line": "a\x1b[2J", "stream": "out"},
        {"host": "pi-1", "line": "b", "stream": "err"},
        {"host": "pi-1", "line": "ä", "stream": "out"},
    ]
    assert json.loads(out[-1]) == {"host": "pi-1", "exit_code": 3}


def test_into_files_goes_what_each_host_said(bench: Bench, tmp_path: Path) -> None:
    folder = tmp_path / "new/said"
    assert execute(bench, "seq 3; echo bad >&2; exit 4", "-o", str(folder)) == (
        1, [], ["pi-1: exit code 4", "pi-2: exit code 4"],
    )  # fmt: skip
    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        **dict.fromkeys(("pi-1.out", "pi-2.out"), "1\n2\n3\n"),
        **dict.fromkeys(("pi-1.err", "pi-2.err"), "bad\n"),
    }
    (folder / "pi-1.log").write_text("of fleet logs\n")
    other = tmp_path / "unreachable.toml"
    other.write_text(re.sub("ssh_port = .*", f"ssh_port = {free_port()}", bench.file.read_text()))
    unreachable = replace(bench, file=other)
    assert execute(unreachable, "true", "-o", str(folder), "--only", "pi-1")[0] == 1
    assert {file.name for file in folder.iterdir()} == {"pi-1.log", "pi-2.out", "pi-2.err"}
    (folder / "pi-1.out").touch()
    code, out, err = execute(bench, "true", "-o", str(folder / "pi-1.out"))
    assert (code, out, err) == (1, [], [f"roambench: {folder}/pi-1.out: cannot be made: File exists"])
