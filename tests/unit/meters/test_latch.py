"""The latch that keeps a board from resetting its meter for ever."""

import pytest

from roambench.contract.errors import MeterError
from roambench.meters.latch import PortLatch


def test_a_port_is_opened_again_in_a_boot_that_lives_and_in_the_next(tmp_path):
    path = tmp_path / "state" / "latch.json"
    first = PortLatch(path, "/dev/ttyUSB0", "boot-1")
    first.take()
    PortLatch(path, "/dev/ttyUSB0", "boot-1").take()  # killed at once: the board lives, so it reset nothing
    PortLatch(path, "/dev/ttyUSB0", "boot-1").survived()
    PortLatch(path, "/dev/ttyUSB0", "boot-2").take()


def test_a_meter_that_boots_when_its_port_is_opened_stays_closed_although_its_reader_lives(tmp_path):
    path = tmp_path / "latch.json"
    latch = PortLatch(path, "/dev/ttyUSB0", "boot-1")
    latch.take()
    latch.restarted()
    for boot in ("boot-1", "boot-2"):
        with pytest.raises(
            MeterError, match=r"the meter restarted.*remove .*latch\.json, or set .*reopen_all"
        ):
            PortLatch(path, "/dev/ttyUSB0", boot).take()


def test_a_latch_of_before_is_understood(tmp_path):
    path = tmp_path / "latch.json"
    path.write_text('{"boot_id": "boot-1", "survived": true}')
    PortLatch(path, "/dev/ttyUSB0", "boot-1").take()
    path.write_text('{"boot_id": "boot-1", "survived": false}')
    with pytest.raises(MeterError, match="lost power within 10 s"):
        PortLatch(path, "/dev/ttyUSB0", "boot-2").take()


def test_a_boot_that_died_of_opening_the_port_is_not_repeated(tmp_path):
    path = tmp_path / "latch.json"
    PortLatch(path, "/dev/ttyUSB0", "boot-1").take()  # and the board loses its power
    for boot in ("boot-2", "boot-3"):
        with pytest.raises(MeterError, match="lost power within 10 s"):
            PortLatch(path, "/dev/ttyUSB0", boot).take()
    path.unlink()  # a person has set autorun
    PortLatch(path, "/dev/ttyUSB0", "boot-4").take()


def test_half_a_latch_keeps_the_port_closed(tmp_path):
    path = tmp_path / "latch.json"
    path.write_text('{"boot_id": "boo')
    with pytest.raises(MeterError, match="cannot be read"):
        PortLatch(path, "/dev/ttyUSB0", "boot-2").take()


def test_a_latch_that_cannot_be_written_keeps_the_port_closed(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(MeterError, match="cannot be"):
        PortLatch(tmp_path / "file" / "latch.json", "/dev/ttyUSB0", "boot-1").take()


def test_the_default_latch_lies_in_the_services_state_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path))
    PortLatch.default("/dev/ttyUSB0").take()
    assert [path.name for path in tmp_path.iterdir()] == ["meter-opened-dev-ttyUSB0.json"]
