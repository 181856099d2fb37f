"""Logs of access points and of motes, as campuses publish them."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from roambench.contract.errors import ConfigError
from roambench.mobility.files import write_trace
from roambench.mobility.importing import import_trace
from roambench.mobility.readers import READERS
from roambench.mobility.readers.detecting import detect
from roambench.mobility.readers.opening import SourceOptions, read_files
from roambench.mobility.recipe import Recipe

T0 = 1_003_867_200  # 2001-10-23T20:00Z, a whole hour


def stays(fixes):
    return sorted(
        (fixes.device_ids[device], (t_s - T0) // 3600, fixes.place_ids[place])
        for device, t_s, place in zip(
            fixes.device.tolist(), fixes.t_utc_s.tolist(), fixes.place.tolist(), strict=True
        )
    )


def read(reader, *paths, **options):
    return read_files(READERS.load(reader), list(paths), SourceOptions(**options))[0]


@pytest.fixture
def movement(tmp_path):
    """Two cards; the second is still on when its file ends, and the first is the last to be heard of."""
    folder = tmp_path / "movement" / "2001-2003"
    folder.mkdir(parents=True)
    (folder / "00022d0a1b2c.mv").write_text(
        f"{T0 + 60}\tAcadBldg10AP3\n{T0 + 1800}\tResBldg1AP1\n{T0 + 5400}\tOFF\n{T0 + 9000}\tResBldg1AP1\n"
        f"{T0 + 10_800}\tOFF\n"
    )
    (folder / "0040965cc5ce").write_text(f"{T0 + 3600}\tLibBldg1AP3\n")
    return tmp_path / "movement"


def test_a_file_per_card_names_the_card_and_a_stay_lasts_to_the_next_line(movement, account):
    fixes = read("dartmouth-movement", movement)
    assert stays(fixes) == [
        ("00022d0a1b2c", 0, "ResBldg1AP1"),  # 1,800 s, after 1,740 s at the other
        ("00022d0a1b2c", 1, "ResBldg1AP1"),
        ("00022d0a1b2c", 2, "ResBldg1AP1"),
        # Nothing ends it: it lasts to the last line of all files.
        ("0040965cc5ce", 1, "LibBldg1AP3"),
        ("0040965cc5ce", 2, "LibBldg1AP3"),
    ]
    assert account(fixes) == (6, 4, 0, 0, 2)
    assert fixes.synthetic
    assert detect([movement])[0].reader == "dartmouth-movement"


def test_cards_in_a_packed_archive_are_read_alike(movement, tmp_path):
    with tarfile.open(tmp_path / "movement.tgz", "w:gz") as archive:
        archive.add(movement, "movement")
    assert stays(read("dartmouth-movement", tmp_path / "movement.tgz")) == stays(
        read("dartmouth-movement", movement)
    )


def test_any_stays_may_be_of_the_device_that_their_file_names(tmp_path):
    (tmp_path / "anna.csv").write_text(f"from,to,where\n{T0},{T0 + 3600},hall\n")
    (tmp_path / "ben.csv").write_text(f"from,to,where\n{T0},{T0 + 3600},lab\n")
    columns = {"device": "@file", "start": "from", "end": "to", "ap": "where"}
    fixes = read("intervals", tmp_path, columns=columns)
    assert stays(fixes) == [("anna", 0, "hall"), ("ben", 0, "lab")]
    assert "device (the file's name)" in detect([tmp_path], columns)[0].reason


def test_each_access_point_may_have_a_log_of_its_own(tmp_path):
    (tmp_path / "hall.log").write_text(f"anna {T0} {T0 + 1800}\nben {T0} {T0 + 60}\n")
    (tmp_path / "lab.log").write_text(f"anna {T0 + 1800} {T0 + 3600}\nben {T0 + 60} {T0 + 3600}\n")
    columns = {"device": "0", "start": "1", "end": "2", "ap": "@file"}
    assert stays(read("intervals", tmp_path, columns=columns)) == [("anna", 0, "hall"), ("ben", 0, "lab")]
    (tmp_path / "lab.log").write_text(f"anna,{T0 + 1800},{T0 + 3600}\n")
    (tmp_path / "hall.log").write_text(f"anna,{T0},{T0 + 60}\n")
    assert stays(read("intervals", tmp_path, columns=columns)) == [("anna", 0, "lab")]


def test_positions_may_be_of_the_device_that_their_file_names(tmp_path, rows):
    clean = "".join(f"2020-05-01 0{hour}:00:00,40.7,-74.0\n" for hour in range(3))
    (tmp_path / "anna.csv").write_text("time,lat,lon\n" + clean)
    (tmp_path / "ben.csv").write_text("time,lat,lon\n2020-05-01 00:00:00,40.8,-74.1\nodd\n")
    columns = {"device": "@file"}
    fixes = read("csv", tmp_path, columns=columns)
    assert [who for who, *_ in rows(fixes)] == ["anna", "anna", "anna", "ben"]
    assert (fixes.rows, fixes.malformed) == (5, 1)
    assert detect([tmp_path], columns)[0].reader == "csv"
    (tmp_path / "carl.csv").write_text("1588291200,40.8,-74.1\n")
    columns = {"device": "@file", "time": "0", "lat": "1", "lon": "2"}
    fixes = read("csv", tmp_path / "carl.csv", columns=columns)
    assert rows(fixes) == [("carl", 1_588_291_200, 40.8, -74.1, "")]
    assert "device (the file's name)" in detect([tmp_path / "carl.csv"], columns)[0].reason


def test_a_simulators_whole_numbers_are_no_contacts(tmp_path):
    (tmp_path / "m.txt").write_text(
        "0 10 0 100 0 100\n"
        + "".join(f"{at} {who} {90 - at} {at}\n" for at in range(0, 11, 5) for who in (0, 1))
    )
    assert detect([tmp_path / "m.txt"])[0].reader == "one-movement"


def test_columns_of_the_cards_are_not_asked_for(movement):
    with pytest.raises(ConfigError, match="the columns of dartmouth-movement are known"):
        read("dartmouth-movement", movement, columns={"time": "0"})


#: Messages as Cisco's two firmwares and hostapd write them (published manuals), behind time and name.
SYSLOG = f"""\
{T0 + 10} AcadBldg10AP3 (Info): Station [x]0040965cc5ce Authenticated
{T0 + 11} AcadBldg10AP3 (Info): Station [x]0040965cc5ce Associated
{T0 + 3600} ResBldg1AP1 %DOT11-6-ASSOC: Interface Dot11Radio0, Station n 0040.965c.c5ce Reassociated KEY_MGMT
{T0 + 3602} AcadBldg10AP3 (Info): Station 00:40:96:5C:C5:CE Disassociated
{T0 + 3603} AcadBldg10AP3 (Info): Station 0040965cc5ce Roamed
{T0 + 9000} ResBldg1AP1 %DOT11-6-DISASSOC: Interface Dot11Radio0, Deauthenticating Station 0040.965c.c5ce
{T0 + 9500} ResBldg1AP1 hostapd: wlan0: AP-STA-CONNECTED 00:02:2d:0a:1b:2c
{T0 + 9600} ResBldg1AP1 %LINK-3-UPDOWN: Interface Dot11Radio0, changed state to up
{T0 + 10_700} ResBldg1AP1 hostapd: wlan0: AP-STA-DISCONNECTED 00:02:2d:0a:1b:2c
{T0 + 10_800} ResBldg1AP1 (Info): Station Associated
"""


def test_syslog_tells_who_is_where_and_only_that_access_point_ends_it(tmp_path, account):
    (tmp_path / "ap.log").write_text(SYSLOG)
    fixes = read("dartmouth-syslog", tmp_path / "ap.log")
    assert stays(fixes) == [
        ("00022d0a1b2c", 2, "ResBldg1AP1"),
        ("0040965cc5ce", 0, "AcadBldg10AP3"),
        ("0040965cc5ce", 1, "ResBldg1AP1"),  # the old access point's late word ended nothing
        ("0040965cc5ce", 2, "ResBldg1AP1"),
    ]
    assert account(fixes) == (10, 3, 1, 0, 6)
    assert fixes.left_out == {
        "messages that neither begin nor end an association": 3,
        "ends of associations": 2,
        "ends of associations that were over": 1,
    }
    assert "ap.log:10: no MAC address of a card" in str(fixes.malformed_rows[0])
    assert detect([tmp_path / "ap.log"])[0].reader == "dartmouth-syslog"


def test_a_log_in_parts_is_one_log(tmp_path):
    rows = SYSLOG.splitlines(keepends=True)
    (tmp_path / "whole.log").write_text(SYSLOG)
    for number, part in enumerate((rows[4:], rows[:4])):
        (tmp_path / f"{number}.log").write_text("".join(part))
    whole = read("dartmouth-syslog", tmp_path / "whole.log")
    assert stays(read("dartmouth-syslog", tmp_path / "0.log", tmp_path / "1.log")) == stays(whole)


#: FreeRADIUS' table radacct, and the attributes' own names.
@pytest.mark.parametrize(
    "header",
    [
        "callingstationid,calledstationid,acctstarttime,acctstoptime",
        "Calling-Station-Id,Called-Station-Id,Acct-Start-Time,Acct-Stop-Time",
    ],
)
@pytest.mark.parametrize("no_end", ["", "NULL", r"\N"])
def test_accounting_of_radius_is_read_and_sessions_without_an_end_are_left_out(
    tmp_path, account, header, no_end
):
    (tmp_path / "r.csv").write_text(
        f"{header}\nAA-BB,ap1:eduroam,2001-10-23 20:00:00,2001-10-23 21:30:00\n"
        f"CC-DD,ap2:eduroam,2001-10-23 20:00:00,{no_end}\n"
    )
    assert detect([tmp_path / "r.csv"])[0].reader == "intervals"
    fixes = read("intervals", tmp_path / "r.csv")
    assert stays(fixes) == [("AA-BB", 0, "ap1:eduroam"), ("AA-BB", 1, "ap1:eduroam")]
    assert account(fixes) == (2, 1, 0, 0, 1)
    assert fixes.left_out == {"stays without an end: nothing says how long they lasted": 1}


def test_motes_meet_access_points_from_when_to_when(tmp_path, account):
    (tmp_path / "contacts.dat").write_text(
        f"1\t21\t{T0}\t{T0 + 600}\t1\t0\n21 1 {T0 + 3600} {T0 + 3700} 2 3000\n22 21 {T0} {T0 + 9} 1 0\n"
        f"1\t21\t{T0}\t{T0 + 600}\t1\t0\n1 21 5\n2 22 {T0} {T0}\n"
    )
    assert detect([tmp_path / "contacts.dat"])[0].reader == "haggle"
    fixes = read("haggle", tmp_path / "contacts.dat", ap_hosts=("1", "2"))
    assert stays(fixes) == [("21", 0, "1"), ("21", 1, "1"), ("22", 0, "2")]
    assert account(fixes) == (6, 3, 1, 1, 1)
    assert not fixes.simulated
    with pytest.raises(ConfigError, match="--ap-hosts: needed"):
        read("haggle", tmp_path / "contacts.dat")


def test_brightkites_check_ins_without_a_position_are_told_apart_from_damage(tmp_path, account):
    rows = [
        "0\t2010-10-17T01:48:53Z\t39.747652\t-104.99251\t88c46bf20db295831bd2d1718ad7e6f5",
        "0\t2010-10-16T06:02:04Z\t39.891383\t-105.070814\t",  # a position, but no place
        "1\t2010-03-01T20:02:55Z\t0.0\t0.0\t00000000000000000000000000000000",
        "2\t\t\t\t",
        "3\t2008-12-03T21:09:14Z\tnorth\t-105.317215\tee8b88dea22411",
    ]
    (tmp_path / "b.txt").write_text("\n".join(rows) + "\n")
    fixes = read("snap", tmp_path / "b.txt")
    assert account(fixes) == (5, 2, 1, 0, 2)
    assert fixes.left_out == {"check-ins without a position": 2}
    assert fixes.place.tolist() == [0, -1]


def test_tables_of_blanks_are_tables(tmp_path, rows):
    (tmp_path / "t.txt").write_text("time   node  x y\n0 a  10 20\n0   b 1 2\n\n3600 a 11   21\n")
    fixes = read("csv", tmp_path / "t.txt")
    assert rows(fixes) == [("a", 0, 20.0, 10.0, ""), ("b", 0, 2.0, 1.0, ""), ("a", 3600, 21.0, 11.0, "")]


def test_a_contact_of_which_both_hosts_told_ends_once(tmp_path, account):
    (tmp_path / "c.txt").write_text(
        "0 CONN 1 8 up\n10 CONN 8 1 up\n600 CONN 1 8 down\n610 CONN 8 1 down\n700 CONN 9 1 down\n"
    )
    fixes = read("one-contacts", tmp_path / "c.txt", ap_hosts=("1",))
    assert account(fixes) == (5, 2, 1, 1, 1)
    assert fixes.left_out == {"ends of contacts that were over": 1}
    assert "9 and 1 part, but never met" in str(fixes.malformed_rows[0])


CHECK = Path(__file__).parents[4] / "benchmarks" / "traces" / "check.py"


def test_other_code_reads_the_same_of_a_source_and_sees_a_difference(tmp_path):
    rows = [f"{T0 + 500 * at} {T0 + 500 * at + 900} ap{at % 3}" for at in range(30)]
    for name in ("anna", "ben"):
        (tmp_path / f"{name}.dat").write_text("\n".join(rows[:: 1 + (name == "ben")]) + "\n")
    columns = {"device": "@file", "start": "0", "end": "1", "ap": "2"}
    trace = tmp_path / "t.parquet"
    sources = [tmp_path / "anna.dat", tmp_path / "ben.dat"]
    options = SourceOptions(columns=columns)
    write_trace(import_trace("intervals", sources, Recipe(devices=None), options).trace, trace)
    mapping = ",".join(f"{field}={name}" for field, name in columns.items())
    command = [sys.executable, str(CHECK), str(trace), "intervals", "--columns", mapping]
    same = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
    assert (same.returncode, same.stderr) == (0, "")
    assert "differing: 0; at another access point: 0" in same.stdout
    sources[1].write_text("".join(f"{T0} {T0 + 60} ap9\n"))
    other = subprocess.run([*command, *map(str, sources)], capture_output=True, text=True, check=False)
    assert other.returncode == 1
