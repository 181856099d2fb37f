"""The truth on disk: exact where it is known, refused where it is not."""

import pytest

from roambench.contract.errors import MeterError
from roambench.emulation.truth import TruthLog, energy_j, read_truth

SECOND = 1_000_000_000


def test_the_energy_of_a_closed_file_is_the_hand_computed_one(tmp_path):
    log = TruthLog(tmp_path / "pi.csv")
    log.power(10 * SECOND, 2.7)
    log.power(0, 1.9)
    log.alive(12 * SECOND)
    log.power(11 * SECOND, 3.1)  # told late, after the heartbeat
    log.close(20 * SECOND)
    # 10 s of 1.9 W, 1 s of 2.7 W, 9 s of 3.1 W
    assert energy_j(tmp_path / "pi.csv", 0, 20 * SECOND) == pytest.approx(19.0 + 2.7 + 27.9, abs=1e-12)
    with pytest.raises(MeterError, match="not known throughout"):
        energy_j(tmp_path / "pi.csv", 0, 20 * SECOND + 1)


def test_after_a_killed_emulator_the_truth_is_known_up_to_its_last_heartbeat(tmp_path):
    path = tmp_path / "pi.csv"
    path.write_text(
        "ns,watts,idle_watts\n0,1.9\n5000000000,\n6000000000,2."
    )  # the last line was cut by the kill
    assert energy_j(path, 0, 5 * SECOND) == pytest.approx(9.5)
    with pytest.raises(MeterError, match="not known throughout"):
        energy_j(path, 0, 6 * SECOND)
    path.write_text("ns,watts,idle_watts\n0,1.9\n5000000000,\n")
    log = TruthLog(path)  # the emulator is started again
    log.power(8 * SECOND, 2.0)
    log.close(10 * SECOND)
    assert energy_j(path, 8 * SECOND, 10 * SECOND) == pytest.approx(4.0)
    with pytest.raises(MeterError):
        energy_j(path, 4 * SECOND, 9 * SECOND)
    assert read_truth(path).watts_at(3 * SECOND) == 1.9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected 'ns,watts,idle_watts'"),
        ("ns,watts,idle_watts\n", "holds no power"),
        ("ns,watts,idle_watts\n0,1.9\nx,2\n", ":3: expected a stamp"),
        ("ns,watts,idle_watts\n0,much\n", ":2: expected a stamp"),
    ],
)
def test_a_file_that_is_no_truth_is_named_with_its_line(tmp_path, text, message):
    path = tmp_path / "pi.csv"
    path.write_text(text)
    with pytest.raises(MeterError, match=message):
        energy_j(path, 0, 1)


def test_a_file_cut_at_any_byte_is_continued_without_a_made_up_watt(tmp_path):
    """A full disk cuts between any two bytes, and 1.925 W becomes 1.9, or 192 s become 19."""
    path = tmp_path / "pi.csv"
    content = f"ns,watts,idle_watts\n0,1.25\n{5 * SECOND},\n{6 * SECOND},2.75\n"
    for cut in range(len(content) + 1):
        path.write_text(content[:cut])
        log = TruthLog(path)
        log.power(8 * SECOND, 2.0)
        log.close(10 * SECOND)
        assert energy_j(path, 8 * SECOND, 10 * SECOND) == pytest.approx(4.0)
        logged = content[:cut].rpartition("\n")[0]
        if f"{6 * SECOND}," in logged:
            assert energy_j(path, 0, 6 * SECOND) == pytest.approx(7.5)
        elif f"{5 * SECOND}," in logged:
            assert energy_j(path, 0, 5 * SECOND) == pytest.approx(6.25)
        with pytest.raises(MeterError, match="not known"):
            energy_j(path, 6 * SECOND, 8 * SECOND)
