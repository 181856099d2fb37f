"""Simulated movement: The ONE, BonnMotion, ns-2 and SUMO."""

from __future__ import annotations

import gzip
import io

import pytest

from roambench.contract.errors import ConfigError, TraceError
from roambench.extras.traces.ns2 import read as read_ns2
from roambench.extras.traces.one_movement import read as read_movement
from roambench.extras.traces.sumo_fcd import read as read_fcd
from roambench.mobility.readers import READERS
from roambench.mobility.readers.detecting import detect
from roambench.mobility.readers.documents import Document
from roambench.mobility.readers.fixes import ReaderOptions
from roambench.mobility.readers.opening import read_files


def document(lines):
    return Document("f", "f", lambda: io.BytesIO("".join(lines).encode()))


def positions(rows):
    """{(device, second): (x, y)} to a millimetre."""
    return {(device, t_s): (round(x, 3), round(y, 3)) for device, t_s, y, x, _ in rows}


def test_one_movement_subtracts_its_minima_and_reads_decimal_commas(read, rows, account):
    fixes = read("one-movement", "one_movement.txt", step_s=10)
    assert positions(rows(fixes)) == {
        ("n0", 0): (0.5, 0.0),
        ("n1", 0): (50.0, 500.0),
        ("n0", 10): (10.5, 10.0),
        ("n0", 20): (20.5, 20.0),
        ("n1", 20): (70.0, 520.0),  # away at 10: the gap is longer than the interval of 10 s
    }
    assert account(fixes) == (6, 5, 1, 0, 0)
    assert "one_movement.txt:8: x 'here' is not a number" in str(fixes.malformed_rows[0])


def test_one_movement_is_interpolated_where_samples_are_rarer_than_steps(read, rows, account):
    fixes = read("one-movement", "one_movement.txt", step_s=4)
    assert positions(rows(fixes)) == {
        ("n0", 0): (0.5, 0.0),
        ("n0", 4): (4.5, 4.0),
        ("n0", 8): (8.5, 8.0),
        ("n0", 12): (12.5, 12.0),
        ("n0", 16): (16.5, 16.0),
        ("n0", 20): (20.5, 20.0),
        ("n1", 0): (50.0, 500.0),
        ("n1", 20): (70.0, 520.0),
    }
    assert account(fixes) == (6, 5, 1, 0, 0)


def test_one_movement_needs_its_header():
    with pytest.raises(TraceError, match=r"f:1: expected the header minTime .* got '0.0 n0 1.0 2.0'"):
        read_movement(["0.0 n0 1.0 2.0\n"], ReaderOptions("f"))


def test_a_header_of_one_paths_with_an_endless_number_is_told_with_its_line(tmp_path):
    (tmp_path / "paths.txt").write_text("1 0 100 0 500 1e3000 500\n0 0,0,0 40,80,0\n")
    with pytest.raises(TraceError, match=r"paths\.txt:1: header '1e3000' is not a finite number"):
        read_files(READERS.load("one-path"), [tmp_path / "paths.txt"])


def test_one_paths_are_followed_and_waited_between(read, rows, account):
    fixes = read("one-path", "one_path/paths.txt", step_s=25)
    assert positions(rows(fixes)) == {
        ("0", 0): (0.0, 0.0),
        ("0", 25): (50.0, 0.0),
        ("0", 60): (80.0, 60.0),  # its second line begins within the step from 50
        ("0", 75): (80.0, 75.0),
        ("1", 0): (10.0, 10.0),
        ("1", 25): (10.0, 35.0),
        ("1", 50): (10.0, 60.0),
        ("1", 75): (10.0, 85.0),
    }
    assert account(fixes) == (4, 3, 1, 0, 0)


def test_one_activity_decides_who_is_present(read, rows, account):
    fixes = read("one-path", "one_path", step_s=25)
    assert positions(rows(fixes)) == {
        ("0", 0): (0.0, 0.0),
        ("0", 25): (50.0, 0.0),
        ("0", 50): (80.0, 0.0),  # waits where its first line ended
        ("0", 75): (80.0, 75.0),
        ("1", 30): (10.0, 40.0),  # active from 30 to 50
    }
    assert account(fixes) == (7, 5, 2, 0, 0)


def test_one_snapshots_keep_the_hosts_prefixes(read, rows, account):
    fixes = read("one-snapshot", "one_snapshot.txt")
    assert positions(rows(fixes)) == {
        ("p0", 0): (1174.251, 1653.033),
        ("c1", 0): (1451.42, 915.288),
        ("p0", 60): (1180.0, 1650.0),
        ("p0", 120): (1190.0, 1640.0),
    }
    assert account(fixes) == (10, 4, 3, 0, 3)
    assert [row.line for row in fixes.malformed_rows] == [6, 7, 10]


def test_contacts_give_the_access_point_of_the_longest_stay(read, rows, account):
    fixes = read("one-contacts", "one_contacts.txt", step_s=60, ap_hosts=("0", "1"))
    # step 0: host 12 is 20 s at 0 and 30 s at 1; step 1: 35 s at 1. Host 13 only meets 1, to the log's end.
    assert [(device, t_s, place) for device, t_s, _, _, place in rows(fixes)] == [
        ("12", 0, "1"),
        ("12", 60, "1"),
        ("13", 60, "1"),
    ]
    assert account(fixes) == (12, 5, 2, 1, 4)
    assert (fixes.synthetic, fixes.stations.ids) == (True, ("0", "1"))
    assert "13 and 0 part, but never met" in str(fixes.malformed_rows[0])


def test_contacts_need_to_know_who_is_an_access_point(read):
    with pytest.raises(ConfigError, match="--ap-hosts: needed"):
        read("one-contacts", "one_contacts.txt")


def test_the_ones_setdest_is_escaped_and_starts_before_zero(read, rows, account):
    fixes = read("ns2", "one_ns2.txt", step_s=10)
    assert positions(rows(fixes)) == {
        ("0", -10): (857.0, 2174.0),
        ("0", 0): (867.0, 2174.0),
        ("0", 10): (867.0, 2174.0),
        ("0", 20): (867.0, 2174.0),
        ("0", 30): (867.0, 2194.0),
        ("0", 40): (867.0, 2214.0),
        ("0", 50): (867.0, 2234.0),
        ("0", 60): (867.0, 2254.0),
        **{("1", t_s): (0.0, 0.0) for t_s in range(-10, 70, 10)},
    }
    assert account(fixes) == (8, 7, 1, 0, 0)
    assert "one_ns2.txt:8: node 7 has no starting X_ and Y_" in str(fixes.malformed_rows[0])


def test_setdest_turns_where_the_node_is_and_speed_zero_stops_it(read, rows, account):
    fixes = read("ns2", "setdest.ns_movements", step_s=5)
    # 0-30 s: 2 m/s east to (70, 10). 30-35 s: 4 m/s north, 20 m. Stopped until 60. Then 1 m/s back, 20 s.
    expected = {
        0: (10, 10),
        15: (40, 10),
        30: (70, 10),
        35: (70, 30),
        55: (70, 30),
        60: (70, 30),
        75: (70, 15),
    }
    found = positions(rows(fixes))
    assert {t_s: found["0", t_s] for t_s in expected} == expected
    assert max(t_s for _, t_s in found) == 75  # arrives at 80: the end
    assert account(fixes) == (7, 6, 1, 0, 0)


def test_orders_of_one_second_follow_their_lines():
    lines = [
        "$node_(0) set X_ 0\n",
        "$node_(0) set Y_ 0\n",
        '$ns_ at 0.0 "$node_(0) setdest 100 0 1"\n',
        '$ns_ at 0.0 "$node_(0) setdest 0 100 1"\n',
    ]
    fixes = read_ns2([document(lines)], ReaderOptions("f", step_s=50))
    assert fixes.latitude.tolist() == [0.0, 50.0]
    assert fixes.longitude.tolist() == [0.0, 0.0]


def test_bonnmotion_names_nodes_by_their_line_and_holds_the_last_waypoint(read, rows, account):
    fixes = read("bonnmotion", "rwp.movements.gz", step_s=30)
    assert positions(rows(fixes)) == {
        ("0", 0): (0.0, 0.0),
        ("0", 30): (60.0, 0.0),
        ("0", 60): (100.0, 0.0),
        ("0", 90): (100.0, 10.0),
        **{("1", t_s): (5.0, 5.0) for t_s in (0, 30, 60, 90)},
        ("3", 0): (0.0, 0.0),  # t x y z: from (0, 0, 0, 7) to (120, 60, 0, 7)
        ("3", 30): (15.0, 0.0),
        ("3", 60): (30.0, 0.0),
        ("3", 90): (45.0, 0.0),
    }
    assert account(fixes) == (4, 3, 1, 0, 0)


#: Seconds at which each vehicle of a simulation of 0 to 120 s in steps of 10 s is on the road.
TRAFFIC = {
    "route0.0": range(0, 50, 10),
    "route0.1": range(30, 121, 10),
    "late": range(120, 121),
    "once": range(60, 61),
}


def fcd() -> str:
    """What SUMO writes of it."""
    steps = []
    for t_s in range(0, 121, 10):
        here = [
            f'<vehicle id="{name}" x="{t_s - seconds[0]}.5" y="7" speed="1"/>'
            for name, seconds in TRAFFIC.items()
            if t_s in seconds
        ]
        steps.append(f'<timestep time="{t_s}.00">{"".join(here)}</timestep>')
    return f"<fcd-export>{''.join(steps)}</fcd-export>"


def exported() -> tuple[str, str]:
    """The movement and the activity that SUMO's traceExporter makes of that, as its documentation has it.

    Nodes are numbered as they come; who is gone in a time step stops in it; who is still there at the end
    stops at 0.
    """
    names: dict[str, int] = {}
    movement, activity = [], []
    for t_s in range(0, 121, 10):
        for name, seconds in TRAFFIC.items():
            if t_s not in seconds:
                continue
            node = names.setdefault(name, len(names))
            x = f"{t_s - seconds[0]}.5"
            if t_s == seconds[0]:
                movement += [f"$node_({node}) set {axis}" for axis in (f"X_ {x}", "Y_ 7.0", "Z_ 0")]
            movement.append(f'$ns_ at {t_s}.0 "$node_({node}) setdest {x} 7.0 1.0"')
    for name in sorted(names):
        seconds = TRAFFIC[name]
        gone = 0 if seconds[-1] == 120 else seconds[-1] + 10
        for t_s, what in ((seconds[0], "start"), (gone, "stop")):
            activity.append(f'$ns_ at {t_s}.0 "$g({names[name]}) {what}"; # SUMO-ID: {name}')
    return "\n".join(movement) + "\n", "\n".join(activity) + "\n"


@pytest.mark.parametrize("step_s", [10, 30])
def test_sumos_pair_for_ns2_has_the_presence_of_the_simulation_itself(tmp_path, rows, account, step_s):
    movement, activity = exported()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "mobility.tcl").write_text(movement)
    (folder / "activity.tcl").write_text(activity)
    (folder / "config.tcl").write_text(
        "# set number of nodes\nset opt(nn) 4\n\nappend opt(af) /activity.tcl\n"
    )
    (tmp_path / "fcd.xml").write_text(fcd())
    fixes, _ = read_files(READERS.load("ns2"), [folder], step_s=step_s)
    simulated, _ = read_files(READERS.load("sumo-fcd"), [tmp_path / "fcd.xml"], step_s=step_s)
    order = {"route0.0": "0", "route0.1": "1", "once": "2", "late": "3"}
    assert {(device, t_s // step_s) for device, t_s, *_ in rows(fixes)} == {
        (order[device], t_s // step_s) for device, t_s, *_ in rows(simulated)
    }
    at = movement.count("\n") + activity.count("\n")
    assert account(fixes)[:5] == (at + 2, at, 0, 0, 2)
    assert detect([folder])[0].reader == "ns2"


def test_activity_of_a_node_that_never_moves_is_malformed_with_its_own_file(tmp_path):
    (tmp_path / "a.tcl").write_text('$ns_ at 0.0 "$g(7) start"\n$ns_ at noon "$g(7) stop"\n')
    (tmp_path / "m.tcl").write_text("$node_(0) set X_ 1\n$node_(0) set Y_ 1\n")
    fixes, _ = read_files(READERS.load("ns2"), [tmp_path], step_s=10)
    assert [str(row).rpartition("/")[2] for row in fixes.malformed_rows] == [
        "a.tcl:2: time 'noon' is not a number",
        "a.tcl:1: node 7 has no starting X_ and Y_",
    ]


def test_bonnmotions_ns2_is_its_own_format_shifted_by_ten_metres(read, rows):
    own = positions(rows(read("bonnmotion", "rwp.movements.gz", step_s=10)))
    shifted = positions(rows(read("ns2", "rwp_shifted.ns_movements", step_s=10)))
    assert len(shifted) == 12
    assert shifted == {key: (x + 10, y + 10) for key, (x, y) in own.items() if key[0] == "0"}


def test_sumos_vehicles_appear_and_vanish(read, rows, account):
    fixes = read("sumo-fcd", "fcd.xml")
    assert positions(rows(fixes)) == {
        ("v0", 0): (1.6, 2012.3),
        ("v0", 10): (1.6, 2170.46),
        ("v1", 10): (500.0, 0.0),
        ("p0", 10): (7.0, 8.0),
        ("v1", 20): (520.0, 0.0),
    }
    assert account(fixes) == (9, 5, 3, 0, 1)
    assert [row.line for row in fixes.malformed_rows] == [13, 16, 17]
    assert (fixes.plane, fixes.simulated) == (True, True)


def test_a_vehicle_and_a_person_of_the_same_id_are_two_devices_of_sumo(tmp_path):
    """Whichever file they stand in; an id that only one kind has is a name as it is."""
    row = '<{kind} id="{name}" x="{x}" y="0"/>'
    timestep = '<fcd-export><timestep time="{t}">{rows}</timestep></fcd-export>'
    both = row.format(kind="person", name="0", x=2000) + row.format(kind="vehicle", name="0", x=1)
    (tmp_path / "a.xml").write_text(timestep.format(t=0, rows=both))
    later = row.format(kind="container", name="0", x=7) + row.format(kind="person", name="p1", x=3)
    (tmp_path / "b.xml").write_text(timestep.format(t=5, rows=later))
    fixes, _ = read_files(READERS.load("sumo-fcd"), [tmp_path / "a.xml", tmp_path / "b.xml"])
    names = [fixes.device_ids[code] for code in fixes.device.tolist()]
    found = sorted(zip(names, fixes.t_utc_s.tolist(), fixes.longitude.tolist(), strict=True))
    assert found == [("0", 0, 1.0), ("container:0", 5, 7.0), ("p1", 5, 3.0), ("person:0", 0, 2000.0)]


def test_sumos_geographic_output_is_told_by_its_configuration_or_by_the_user(read, rows):
    fixes = read("sumo-fcd", "fcd_geo.xml")
    assert (fixes.plane, rows(fixes)) == (False, [("v0", 0, 52.52, 13.4, "")])
    assert read("sumo-fcd", "fcd_geo.xml", globe=False).plane
    assert not read("sumo-fcd", "fcd.xml", globe=True).plane


def test_broken_xml_costs_a_row_and_keeps_what_stood_before(rows):
    text = b'<fcd-export><timestep time="0">\n<vehicle id="a" x="1" y="2"/>\n<vehicle id="b" x='
    fixes = read_fcd(io.BytesIO(text), ReaderOptions("f"))
    assert positions(rows(fixes)) == {("a", 0): (1.0, 2.0)}
    assert (fixes.malformed, fixes.malformed_rows[0].line) == (1, 3)


def test_xml_that_declares_entities_is_refused():
    bomb = b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><fcd-export>&b;</fcd-export>'
    fixes = read_fcd(io.BytesIO(bomb), ReaderOptions("f"))
    assert "declares entities" in fixes.malformed_rows[0].reason


@pytest.mark.parametrize("encoding", ["UTF0x1F-8", "rot13", "utf-16", "idna", "cp1252"])
def test_xml_of_a_strange_encoding_costs_a_row_at_most(encoding):
    text = f'<?xml version="1.0" encoding="{encoding}"?><a><timestep time="0"/></a>'.encode()
    fixes = read_fcd(io.BytesIO(text), ReaderOptions("f"))
    assert fixes.rows == fixes.malformed == (0 if encoding == "cp1252" else 1)


def test_an_endless_tag_is_refused_before_it_fills_the_memory():
    endless = io.BytesIO(b"<fcd-export><vehicle id='" + b"a" * (12 << 20))
    fixes = read_fcd(endless, ReaderOptions("f"))
    assert "longer than 4 MB" in fixes.malformed_rows[0].reason
    assert endless.tell() < 8 << 20


def test_more_samples_than_can_be_meant_are_refused():
    lines = [
        "$node_(0) set X_ 0\n",
        "$node_(0) set Y_ 0\n",
        '$ns_ at 1000000000000.0 "$node_(0) setdest 1 1 1"\n',
    ]
    with pytest.raises(TraceError, match="more than 50,000,000 samples of 60 s"):
        read_ns2([document(lines)], ReaderOptions("f", step_s=60))


def test_gzip_in_a_zip_is_unpacked_twice(tmp_path, read, rows):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr(
            "run/fcd.xml.gz",
            gzip.compress(b'<a><timestep time="3"><vehicle id="q" x="1" y="2"/></timestep></a>'),
        )
    assert positions(rows(read("sumo-fcd", tmp_path / "a.zip"))) == {("q", 3): (1.0, 2.0)}
