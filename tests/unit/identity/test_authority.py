import datetime as dt
import stat
from pathlib import Path

import pytest

from roambench.contract.errors import IdentityError
from roambench.identity.authority import Authority, Credential, check, name_of, serial_of


def test_an_issued_certificate_carries_the_devices_name_and_passes_the_check() -> None:
    authority = Authority.create()
    credential = authority.issue("pi-07")
    check(credential.certificate_pem, authority.certificate_pem)
    assert name_of(credential.certificate_pem) == "pi-07"
    assert serial_of(credential.certificate_pem) != serial_of(authority.issue("pi-07").certificate_pem)


def test_a_certificate_of_another_authority_is_refused_by_name() -> None:
    stranger = Authority.create().issue("pi-07")
    with pytest.raises(IdentityError, match=r"'pi-07' was not issued by this bench"):
        check(stranger.certificate_pem, Authority.create().certificate_pem)


def test_an_expired_certificate_is_refused_with_its_date() -> None:
    authority = Authority.create()
    old = authority.issue("pi-07", lifetime=dt.timedelta(seconds=-60))
    with pytest.raises(IdentityError, match=r"'pi-07' expired 20\d\d-"):
        check(old.certificate_pem, authority.certificate_pem)


def test_a_clock_that_is_set_back_by_days_refuses_nobody() -> None:
    """Certificates of a local fleet are minutes old. Issued while the controller's clock was two days ahead,
    they were valid for none of its agents, and the resumed run failed."""
    authority = Authority.create()
    issued, now = authority.issue("pi-01"), dt.datetime.now(dt.UTC)
    check(issued.certificate_pem, authority.certificate_pem, now=now - dt.timedelta(days=6))
    with pytest.raises(IdentityError, match="is valid only from"):
        check(issued.certificate_pem, authority.certificate_pem, now=now - dt.timedelta(days=8))


def test_a_saved_key_is_private_and_loads_again(tmp_path: Path) -> None:
    credential = Authority.create().issue("pi-07")
    credential.save(tmp_path / "pi-07")
    mode = stat.S_IMODE((tmp_path / "pi-07" / "key.pem").stat().st_mode)
    assert mode == 0o600
    assert Credential.load(tmp_path / "pi-07") == credential


def test_a_missing_or_garbled_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(IdentityError, match=r"cert\.pem: certificate cannot be read"):
        Credential.load(tmp_path)
    credential = Authority.create().issue("pi-07")
    credential.save(tmp_path)
    (tmp_path / "cert.pem").write_text("nonsense")
    with pytest.raises(IdentityError, match="not a certificate"):
        Credential.load(tmp_path)
