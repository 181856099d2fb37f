"""The parts of the soak: its plan is its seed's, and its tools do to a connection what they are called."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from roambench.emulation.truth import PrintedLine, PrintLog, read_print_log
from soaking.faults import KINDS
from soaking.plan import Fault, planned_run
from soaking.readings_verdict import _excused
from soaking.sockets import both_ends, half_close, held, lose, lose_nothing, reset, tcp_sockets
from soaking.underway import Struck
from soaking.worlds import WORLDS

Pair = tuple[socket.socket, socket.socket]


def test_a_run_is_what_its_seed_and_number_say():
    runs = [planned_run(3, number) for number in range(300)]
    assert runs == [planned_run(3, number) for number in range(300)]
    assert runs[:9] != [planned_run(4, number) for number in range(9)]
    assert {fault.kind for run in runs for fault in run.faults} == set(KINDS)
    assert {run.world for run in runs} == set(WORLDS)


def test_half_of_the_runs_may_lose_no_training():
    runs = [run for run in (planned_run(3, number) for number in range(300)) if "virtual" not in run.world]
    harmless = [not any(KINDS[fault.kind].costs_training for fault in run.faults) for run in runs]
    assert 0.4 < sum(harmless) / len(runs) < 0.8


def test_a_full_disk_may_have_ended_a_run_before_the_signal_after_which_it_goes_on():
    kinds = (("controller's disk full", 100, 110), ("controller stopped and resumed", 200, 300))
    hits = [Struck(Fault(kind, 0.0, "pi-01", 0.0, 0), "", int(a * 1e9), int(b * 1e9)) for kind, a, b in kinds]
    assert _excused(hits, int(150e9))
    assert not _excused(hits, int(50e9))
    assert not _excused(hits[1:], int(150e9))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        here = socket.create_connection(server.getsockname())
        there, _ = server.accept()
    with here, there:
        there.settimeout(5.0)
        here.settimeout(5.0)
        yield here, there


def ends_of(one: socket.socket):
    (found,) = [end for end in tcp_sockets(os.getpid()) if end.fd == one.fileno()]
    return found


def test_the_other_end_of_a_connection_is_found(pair: Pair):
    here, there = pair
    assert both_ends([ends_of(here)], tcp_sockets(os.getpid())) == [ends_of(here), ends_of(there)]


def test_a_reset_connection_is_broken_for_both(pair: Pair):
    here, there = pair
    with held([ends_of(here)]) as (end,):
        reset(end)
    with pytest.raises(ConnectionResetError):
        there.recv(1)
    with pytest.raises(OSError):
        here.send(b"x")


def test_a_half_closed_connection_goes_on_in_one_direction(pair: Pair):
    here, there = pair
    with held([ends_of(here)]) as (end,):
        half_close(end)
    assert there.recv(1) == b""
    there.sendall(b"still")
    assert here.recv(5) == b"still"


def test_what_is_lost_on_a_link_arrives_when_the_link_is_back(pair: Pair):
    here, there = pair
    with held([ends_of(there)]) as (end,):
        lose(end, 1.0)
        here.sendall(b"late")
        there.settimeout(0.5)
        with pytest.raises(TimeoutError):
            there.recv(4)
        lose_nothing(end)
    there.settimeout(20.0)
    assert there.recv(4) == b"late"


def test_over_a_link_that_loses_a_third_everything_comes_in_the_end(pair: Pair):
    here, there = pair
    data = bytes(range(256)) * 20
    there.settimeout(280.0)  # a segment that is lost nine times is sent again after a minute and a half
    with held([ends_of(there)]) as (end,):
        lose(end, 0.33)
        for at in range(0, len(data), 256):
            here.sendall(data[at : at + 256])
        received = b""
        while len(received) < len(data):
            received += there.recv(65536)
    assert received == data


def test_a_socket_that_is_another_one_by_now_is_left_alone(pair: Pair):
    here, _ = pair
    found = ends_of(here)
    here.close()
    with socket.create_server(("127.0.0.1", 0)), held([found]) as ends:
        assert ends == []


def test_what_a_meter_said_can_be_read_again_but_for_half_a_line(tmp_path):
    path = tmp_path / "pi-01.printed"
    notes = PrintLog(path)
    notes.add(5, 2, b"ok")
    notes.add(7, 0, b"\xff\r\n")
    notes.close()
    with path.open("a") as file:
        file.write("9,3,61")
    assert read_print_log(path) == [PrintedLine(5, 2, b"ok"), PrintedLine(7, 0, b"\xff\r\n")]
