"""New certificates onto hosts, while their agents run: they load them again by themselves."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass
from typing import Final

from roambench.identity.authority import Credential, serial_of
from roambench.provision import layout
from roambench.provision.certificates import BenchAuthority, issue_for
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink

_OWNER: Final = f"{layout.USER}:{layout.USER}"


@dataclass(frozen=True, slots=True)
class Rotated:
    """The certificates that one host got. Serials in hexadecimal."""

    serial: str
    expires: dt.datetime
    revoked: tuple[str, ...] = ()


def ship(link: HostLink, credential: Credential) -> None:
    """Replace the identity of a provisioned host; HostError if it has none or did not take it.

    The certificate comes last: an agent that looks in between finds a key that does not fit, keeps what it
    has, and looks again.
    """
    if link.run(f"test -d {layout.IDENTITY}", root=True).exit_code != 0:
        raise HostError(link.host.name, f"no {layout.IDENTITY}", "roambench fleet provision")
    for name, content, mode in (
        ("key.pem", credential.key_pem, 0o600),
        ("ca.pem", credential.authority_pem, 0o644),
        ("cert.pem", credential.certificate_pem, 0o644),
    ):
        link.put(content, f"{layout.IDENTITY}/{name}", mode=mode, owner=_OWNER)
    digest = hashlib.sha256(credential.certificate_pem).hexdigest()
    if digest.encode() not in link.must(f"sha256sum {layout.IDENTITY}/cert.pem", root=True):
        raise HostError(link.host.name, "the certificate on it is not the one it was sent", "try again")


def rotate_host(link: HostLink, lifetime: dt.timedelta, *, revoke_old: bool) -> Rotated:
    """A new certificate for this host; with `revoke_old` those it had before are refused from then on."""
    authority = BenchAuthority(link.bench.state_dir)
    credential = issue_for(link.bench, link.host, lifetime=lifetime)
    with authority.sending(credential):
        ship(link, credential)
    serial = f"{serial_of(credential.certificate_pem):x}"
    revoked = authority.revoke_name(link.host.name, "rotated", keep=serial) if revoke_old else []
    entry = authority.newest(link.host.name)
    assert entry is not None
    return Rotated(serial, entry.ends, tuple(revoked))
