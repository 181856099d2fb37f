"""The host's certificate. Agents look at these files by themselves; they need no restart."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from roambench.provision import layout
from roambench.provision.facts import Facts
from roambench.provision.step import RemoteFile, Skip, Step
from roambench.provision.wanted import Wanted

IDENTITY_SUBJECT: Final = "certificate"


def identity_reason(facts: Facts, doubt: str, trusted_pem: bytes) -> str:
    """Why the host needs a new certificate, "" if it does not. `doubt` is about the one it has."""
    if doubt:
        return doubt
    if facts.files.get(f"{layout.IDENTITY}/key.pem") is None:
        return "no private key"
    if facts.authority_pem.split() != trusted_pem.decode().split():
        return "it trusts another authority"
    return ""


def identity(facts: Facts, wanted: Wanted) -> Iterator[Step | Skip]:
    """The certificate comes last: whoever looks in between finds a key that does not fit, and looks again."""
    if not wanted.identity.reason:
        return
    credential = wanted.identity.credential
    owner = f"{layout.USER}:{layout.USER}"
    contents = (
        ("key.pem", credential.key_pem if credential else b"", 0o600),
        ("ca.pem", credential.authority_pem if credential else b"", 0o644),
        ("cert.pem", credential.certificate_pem if credential else b"", 0o644),
    )
    files = tuple(
        RemoteFile(f"{layout.IDENTITY}/{name}", content, mode, owner, secret=mode == 0o600)
        for name, content, mode in contents
    )
    yield Step(IDENTITY_SUBJECT, wanted.identity.reason, files=files)
