"""New certificates onto hosts, while their agents run: they load them again by themselves."""

from __future__ import annotations

import datetime as dt
import hashlib
from dataclasses import dataclass

from roambench.identity.authority import Credential, serial_of
from roambench.provision import layout
from roambench.provision.certificates import BenchAuthority, issue_for
from roambench.provision.claims import claim_by, keep_off
from roambench.provision.ssh.host_error import HostError
from roambench.provision.ssh.hosts import HostLink
from roambench.provision.ssh.script import Script
from roambench.provision.subjects.identity import identity_files


@dataclass(frozen=True, slots=True)
class Rotated:
    """The certificates that one host got. Serials in hexadecimal."""

    serial: str
    expires: dt.datetime
    revoked: tuple[str, ...] = ()


def _replace_identity(link: HostLink, credential: Credential) -> None:
    """Replace the identity of a provisioned host; HostError if it has none or did not take it."""
    if link.run(Script(f"test -d {layout.IDENTITY}"), root=True).exit_code != 0:
        raise HostError(link.host.name, f"no {layout.IDENTITY}", "roambench fleet provision")
    for file in identity_files(credential):
        link.put(file.content, file.path, mode=file.mode, owner=file.owner)
    digest = hashlib.sha256(credential.certificate_pem).hexdigest()
    if digest.encode() not in link.must(Script(f"sha256sum {layout.IDENTITY}/cert.pem"), root=True):
        raise HostError(link.host.name, "the certificate on it is not the one it was sent", "try again")


def rotate_host(link: HostLink, lifetime: dt.timedelta, *, revoke_old: bool) -> Rotated:
    """A new certificate for this host; with `revoke_old` those it had before are refused from then on."""
    keep_off(link, claim_by(link.bench))
    authority = BenchAuthority(link.bench.state_dir)
    credential = issue_for(link.bench, link.host, lifetime=lifetime)
    with authority.sending(credential):
        _replace_identity(link, credential)
    serial = f"{serial_of(credential.certificate_pem):x}"
    revoked = authority.revoke_name(link.host.name, "rotated", keep=serial) if revoke_old else []
    entry = authority.newest(link.host.name)
    assert entry is not None
    return Rotated(serial, entry.ends, tuple(revoked))
