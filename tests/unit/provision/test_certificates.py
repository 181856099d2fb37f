"""The bench's authority: made once, private, on record for what it issued; one can follow another."""

import datetime as dt
import json
import socket
import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from roambench.cli.main import app
from roambench.contract.errors import ConfigError, IdentityError
from roambench.identity.authority import CONTROLLER_NAME, Authority, check, expiry_of, name_of, serial_of
from roambench.identity.revocation import RevocationList
from roambench.provision.bench import Bench
from roambench.provision.certificates import BenchAuthority, issue_for
from roambench.provision.inventory.load import load_bench
from roambench.provision.issued import Issued, enter
from roambench.provision.provisioning import _perform_all
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import open_link
from roambench.provision.step import HostPlan, HostStep
from roambench.provision.subjects.identity import IDENTITY_SUBJECT
from roambench.provision.wanted import Identity
from roambench.provision.wheels.shipping import Sent
from roambench.provision.wheels.turns import Turns
from ssh_server import ssh_server


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "small.toml").write_text(
        'name = "small"\n[defaults.meter]\ndriver = "none"\n[controller]\naddress = "10.0.0.1"\n'
        '[[hosts]]\nname = "pi-[01:03]"\naddress = "10.0.0.[11:13]"\n'
    )
    return load_bench(tmp_path / "small.toml")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_authority_is_made_once_and_nobody_else_may_read_it(bench: Bench) -> None:
    first = BenchAuthority(bench.state_dir)
    second = BenchAuthority(bench.state_dir)
    assert first.trusted_pem == second.trusted_pem
    first.controller_credential()
    assert mode(first.folder) == 0o700
    assert mode(first.folder / "signer.pem") == 0o600
    assert mode(first.folder / "controller" / "key.pem") == 0o600
    (first.folder / "signer.pem").chmod(0o644)
    with pytest.raises(IdentityError, match="others may read the bench's private key; chmod 600"):
        first.issue("pi-01")


def test_a_lost_authority_is_not_made_anew_in_silence(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    authority.issue("pi-01")
    (authority.folder / "signer.pem").unlink()
    with pytest.raises(IdentityError, match="authority is gone, its record of certificates is not"):
        BenchAuthority(bench.state_dir)


def test_a_hosts_certificate_lasts_a_week_and_stands_in_the_record(bench: Bench) -> None:
    credential = issue_for(bench, bench.hosts[1])
    assert name_of(credential.certificate_pem) == "pi-02"
    left = expiry_of(credential.certificate_pem) - dt.datetime.now(dt.UTC)
    assert dt.timedelta(days=6.99) < left <= dt.timedelta(days=7)
    authority = BenchAuthority(bench.state_dir)
    check(credential.certificate_pem, authority.trusted_pem)
    (entry,) = authority.issued()
    assert entry.name == "pi-02"
    assert int(entry.serial, 16) == serial_of(credential.certificate_pem)
    assert entry.ends == expiry_of(credential.certificate_pem)
    assert entry.authority == authority.serial
    assert not any(
        path.name == "key.pem" for path in bench.state_dir.rglob("*")
    )  # a board's key stays its own


def test_only_hosts_of_the_bench_get_one_and_never_the_controllers_name(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text(
        'name = "other"\n[defaults.meter]\ndriver = "none"\n[controller]\naddress = "10.0.0.1"\n'
        '[[hosts]]\nname = "pi-99"\naddress = "10.0.0.99"\n'
    )
    stranger = load_bench(tmp_path / "other.toml").hosts[0]
    with pytest.raises(IdentityError, match="'pi-99' is no host of bench 'small'"):
        issue_for(bench, stranger)
    with pytest.raises(IdentityError, match="that is the controller's name"):
        BenchAuthority(bench.state_dir).issue(CONTROLLER_NAME)


def test_the_controllers_certificate_is_kept_and_renewed_in_the_last_third_of_its_life(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    first = authority.controller_credential()
    assert authority.controller_credential() is first
    assert BenchAuthority(bench.state_dir).controller_credential() == first
    signed = bench.state_dir / "authority" / "signer.pem"
    pem, mark, key = signed.read_bytes().partition(b"-----BEGIN PRIVATE KEY-----")
    # Certificates are dated back by a day: of a day and two minutes of life two minutes are left.
    short = Authority(pem, mark + key).issue(CONTROLLER_NAME, lifetime=dt.timedelta(minutes=2))
    short.save(authority.folder / "controller")
    renewed = authority.controller_credential()
    assert renewed.certificate_pem not in (first.certificate_pem, short.certificate_pem)
    assert authority.controller_credential() is renewed


def test_a_revocation_is_read_again_without_being_asked_to(bench: Bench) -> None:
    running = BenchAuthority(bench.state_dir).fleet_identity()
    credential = issue_for(bench, bench.hosts[0])
    assert list(running.revoked()) == []
    revoked = BenchAuthority(bench.state_dir).revoke_name("pi-01", "board lost")
    assert [int(serial, 16) for serial in revoked] == [serial_of(credential.certificate_pem)]
    assert set(running.revoked()) == {serial_of(credential.certificate_pem)}
    assert "pi-01" in (bench.state_dir / "revoked.txt").read_text()
    assert BenchAuthority(bench.state_dir).revoke_name("pi-01", "again") == []


def test_a_revocation_list_that_cannot_be_read_is_no_empty_one(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    path = bench.state_dir / "revoked.txt"
    path.write_text("00ab\n12:34  # colons are fine\nnot a serial\n")
    with pytest.raises(IdentityError, match=r"revoked\.txt:3: expected a hexadecimal serial, got 'not a"):
        authority.revocations.serials()
    path.write_text("00ab\n12:34  # colons are fine\n")
    assert authority.revocations.serials() == {0xAB, 0x1234}
    path.unlink()
    with pytest.raises(IdentityError, match="the revocation list cannot be read"):
        RevocationList(path).serials()


def test_a_holder_is_told_why_it_needs_a_new_certificate(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    good = issue_for(bench, bench.hosts[0]).certificate_pem
    short = issue_for(bench, bench.hosts[0], lifetime=dt.timedelta(minutes=1)).certificate_pem
    assert authority.doubt("pi-01", good) == ""
    assert authority.doubt("pi-01", None) == "no certificate"
    assert authority.doubt("pi-02", good) == "the certificate is 'pi-01''s"
    assert authority.doubt("pi-01", short) == "its certificate ends soon"
    assert "not issued by this bench" in authority.doubt(
        "pi-01", Authority.create().issue("pi-01").certificate_pem
    )
    authority.revoke(serial_of(good), "test")
    assert authority.doubt("pi-01", good) == "its certificate is revoked"


def test_one_authority_follows_another_and_both_are_trusted_in_between(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    names = [host.name for host in bench.hosts]
    old = {name: authority.issue(name) for name in names}
    controller_before = authority.controller_credential()
    authority.begin_next()
    with pytest.raises(IdentityError, match="finish that first"):
        authority.begin_next()
    new = authority.issue("pi-01")
    controller = authority.controller_credential()
    for theirs in (old["pi-01"], old["pi-02"], new):  # whom a controller believes in between
        check(theirs.certificate_pem, controller.authority_pem)
    for ours in (old["pi-02"].authority_pem, new.authority_pem):  # and who believes the controller
        check(controller.certificate_pem, ours)
    assert controller.certificate_pem != controller_before.certificate_pem
    assert "not issued by" in authority.doubt("pi-01", old["pi-01"].certificate_pem)
    with pytest.raises(IdentityError, match=r"certificates of the old authority: pi-02, pi-03"):
        authority.finish_next(names)
    for name in ("pi-02", "pi-03"):
        authority.issue(name)
    authority.finish_next(names)
    after = authority.controller_credential()
    check(after.certificate_pem, new.authority_pem)
    check(new.certificate_pem, after.authority_pem)
    with pytest.raises(IdentityError, match="not issued by"):
        check(old["pi-02"].certificate_pem, after.authority_pem)
    with pytest.raises(IdentityError, match="nothing to finish"):
        authority.finish_next(names)


def test_a_board_that_a_new_certificate_did_not_reach_is_not_shut_out_in_silence(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    authority.issue("pi-01")
    authority.begin_next()
    lost = authority.issue("pi-01")
    with pytest.raises(OSError, match="no route"), authority.sending(lost):
        raise OSError("no route")
    entry = authority.newest("pi-01")
    assert entry is not None
    assert (entry.serial, entry.arrived) == (f"{serial_of(lost.certificate_pem):x}", False)
    assert len(authority.issued()) == 3  # one of them the controller's
    shown = CliRunner().invoke(app, ["fleet", "certs", "show", str(bench.file)], env={"COLUMNS": "200"})
    assert "valid for 7.0 days, may not have arrived" in shown.output
    with pytest.raises(IdentityError, match=r"certificates of the old authority: pi-01"):
        authority.finish_next(["pi-01"])
    with authority.sending(authority.issue("pi-01")):
        pass
    authority.finish_next(["pi-01"])


@pytest.mark.parametrize(("fails", "arrived"), [("service", True), ("meter's name", False)])
def test_provisioning_tells_whether_the_certificate_arrived(
    tmp_path: Path, fails: str, arrived: bool
) -> None:
    with ssh_server(tmp_path) as server:
        bench = server.bench(tmp_path)
        identity = Identity("no certificate", issue_for(bench, bench.hosts[0]))
        steps = [
            HostStep(name, "", "false" if name == fails else "true")
            for name in ("meter's name", IDENTITY_SUBJECT, "service")
        ]
        with (
            open_link(bench, bench.hosts[0]) as link,
            pytest.raises(HostError, match=f"{fails}: exit code 1"),
        ):
            _perform_all(
                link, HostPlan(tuple(steps), ()), identity, Sent(print), Turns(), lambda host, text: None
            )
    (entry,) = BenchAuthority(bench.state_dir).issued()
    assert entry.arrived is arrived


def test_the_commands_show_and_revoke(bench: Bench) -> None:
    issue_for(bench, bench.hosts[0])
    shown = CliRunner().invoke(app, ["fleet", "certs", "show", str(bench.file), "--json"])
    assert shown.exit_code == 0, shown.output
    states = {row["name"]: row["state"] for row in json.loads(shown.stdout)}
    assert states["pi-01"] == "valid for 7.0 days"
    assert states["pi-02"] == "none"
    assert states[CONTROLLER_NAME].startswith("valid for 28.0")
    done = CliRunner().invoke(app, ["fleet", "certs", "revoke", str(bench.file), "pi-01", "--reason", "lost"])
    assert done.exit_code == 0, done.output
    shown = CliRunner().invoke(app, ["fleet", "certs", "show", str(bench.file), "--json"])
    assert {row["name"]: row["state"] for row in json.loads(shown.stdout)}["pi-01"] == "revoked"
    stranger = CliRunner().invoke(app, ["fleet", "certs", "revoke", str(bench.file), "pi-77"])
    assert isinstance(stranger.exception, ConfigError)
    assert "never issued it a certificate" in str(stranger.exception)


def test_a_serial_that_the_record_does_not_have_is_revoked_with_a_doubt(bench: Bench) -> None:
    """The record may have been lost; a mistyped digit leaves a stolen board's certificate valid."""
    issue_for(bench, bench.hosts[0])
    authority = BenchAuthority(bench.state_dir)
    (entry,) = authority.issued()
    words = ["fleet", "certs", "revoke", str(bench.file), "--serial"]
    for serial in (f"-{entry.serial}", "0", "00", "12 34", "f" * 41):
        done = CliRunner().invoke(app, [*words, serial])
        assert isinstance(done.exception, ConfigError)
        assert "--serial: expected 1 to 40 hexadecimal digits, not all 0" in str(done.exception)
    assert authority.revocations.serials() == set()
    done = CliRunner().invoke(app, [*words, entry.serial])
    assert (done.stdout, done.stderr) == (f"revoked {entry.serial}\n", "")
    other = f"{int(entry.serial, 16) ^ 1:x}"
    done = CliRunner().invoke(app, [*words, other])
    assert done.stdout == f"revoked {other}\n"
    assert "the record of certificates does not have it" in done.stderr
    assert authority.revocations.serials() == {int(entry.serial, 16), int(other, 16)}


def test_a_host_that_cannot_be_reached_gets_no_certificate_and_is_a_row(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, and nobody listens
        (tmp_path / "small.toml").write_text(
            'name = "small"\n[defaults]\nmeter = {driver = "none"}\n'
            f"ssh_port = {closed.getsockname()[1]}\n"
            '[controller]\naddress = "10.0.0.1"\n[[hosts]]\nname = "pi-01"\naddress = "127.0.0.1"\n'
        )
        bench = load_bench(tmp_path / "small.toml")
        done = CliRunner().invoke(app, ["fleet", "certs", "rotate", str(bench.file)], env={"COLUMNS": "200"})
    assert done.exit_code == 1, done.output
    assert "pi-01" in done.output
    assert "refuses" in done.output
    assert "is its SSH server enabled and on this port?" in done.output
    assert BenchAuthority(bench.state_dir).issued() == []


def test_a_record_cut_at_any_byte_goes_on_and_everybody_in_it_can_be_revoked(bench: Bench) -> None:
    authority = BenchAuthority(bench.state_dir)
    first, second = (authority.issue(name) for name in ("pi-01", "pi-02"))
    path = authority.folder / "issued.jsonl"
    content = path.read_bytes()
    until_first = content.index(b"\n")
    for cut in range(len(content) + 1):
        path.write_bytes(content[:cut])
        entered = ["pi-01"] * (cut >= until_first) + ["pi-02"] * (cut >= len(content) - 1)
        assert [entry.name for entry in authority.issued()] == entered
        enter(path, Issued("pi-03", "ab", "2026-01-01T00:00:00+00:00", "2027-01-01T00:00:00+00:00", "cd"))
        assert [entry.name for entry in authority.issued()] == [*entered, "pi-03"]
    path.write_bytes(content[:-20])
    third = authority.issue("pi-03")
    assert authority.revoke_name("pi-03", "lost") == [f"{serial_of(third.certificate_pem):x}"]
    assert authority.revoke_name("pi-01", "lost") == [f"{serial_of(first.certificate_pem):x}"]
    assert authority.revocations.serials().isdisjoint({serial_of(second.certificate_pem)})


def test_a_damaged_line_in_the_midst_of_the_record_is_named(bench: Bench) -> None:
    """It may be of a certificate that somebody has."""
    authority = BenchAuthority(bench.state_dir)
    for name in ("pi-01", "pi-02"):
        authority.issue(name)
    path = authority.folder / "issued.jsonl"
    path.write_text(path.read_text()[10:])
    with pytest.raises(IdentityError, match=r"issued\.jsonl:1: not JSON .*; mend it by hand"):
        authority.issued()
