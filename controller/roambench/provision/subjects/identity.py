"""The host's certificate. Agents look at these files by themselves; they need no restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roambench.identity.authority import Credential
from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.step import HostStep, RemoteFile, Skip
from roambench.provision.wanted import Wanted

IDENTITY_SUBJECT: Final = "certificate"


def identity_reason(facts: Facts, doubt: str, trusted_pem: bytes) -> str:
    """Return why the host needs a new certificate, "" if it does not. `doubt` is about the one it has."""
    if doubt:
        return doubt
    if facts.files.get(f"{layout.IDENTITY}/key.pem") is None:
        return "no private key"
    if facts.authority_pem.split() != trusted_pem.decode().split():
        return "it trusts another authority"
    return ""


def identity(facts: Facts, wanted: Wanted) -> Iterator[HostStep | Skip]:
    """The step that gives the host a new certificate; of a dry run its files are empty."""
    if wanted.identity.reason:
        credential = wanted.identity.credential or Credential(b"", b"", b"")
        yield HostStep(IDENTITY_SUBJECT, wanted.identity.reason, files=identity_files(credential))


def identity_files(credential: Credential) -> tuple[RemoteFile, ...]:
    """The certificate comes last: an agent that looks in between finds a key that does not fit, keeps what it
    has, and looks again."""
    owner = f"{layout.USER}:{layout.USER}"
    return (
        RemoteFile(f"{layout.IDENTITY}/key.pem", credential.key_pem, 0o600, owner, secret=True),
        RemoteFile(f"{layout.IDENTITY}/ca.pem", credential.authority_pem, 0o644, owner),
        RemoteFile(f"{layout.IDENTITY}/cert.pem", credential.certificate_pem, 0o644, owner),
    )
