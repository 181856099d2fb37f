"""The agent's certificate on disk, which provisioning may replace while the agent runs."""

from __future__ import annotations

from pathlib import Path

from roambench.agent.reporter import Notebook
from roambench.contract.errors import IdentityError
from roambench.identity.authority import Credential, check, name_of

_FILES = ("cert.pem", "key.pem", "ca.pem")


class IdentityFiles:
    """Raises IdentityError at once when there is no certificate of `device` to begin with.

    Later a folder that is no good (half replaced, another board's) is logged once and what was loaded stays.
    """

    def __init__(self, folder: Path, device: str, notebook: Notebook) -> None:
        self._folder, self._device, self._notebook = folder, device, notebook
        self._logged = ""
        self._seen = self._status()
        self.current = self._load()

    def credential(self) -> Credential:
        """The credential to dial with now; IdentityError says why there is nothing to dial with, and what to
        do."""
        self.refresh()
        try:
            check(self.current.certificate_pem, self.current.authority_pem)
        except IdentityError as error:
            raise IdentityError(f"{error}; on the controller: roambench fleet certs rotate") from None
        return self.current

    def refresh(self) -> None:
        """Load the files again if they have changed; `current` is then another object."""
        status = self._status()
        if status == self._seen:
            return
        try:
            fresh = self._load()
        except IdentityError as error:
            if str(error) != self._logged:
                self._logged = str(error)
                self._notebook.log(f"new certificate not used: {error}")
            return
        self._seen, self._logged, self.current = status, "", fresh

    def _load(self) -> Credential:
        credential = Credential.load(self._folder)
        named = name_of(credential.certificate_pem)
        if named != self._device:
            raise IdentityError(
                f"{self._folder}: the certificate is {named!r}'s, this agent is {self._device!r}"
            )
        return credential

    def _status(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_stamp(self._folder / name) for name in _FILES)


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino
