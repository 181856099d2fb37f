"""The bench's own authority: its certificates, how long they last, and which are revoked.

    state_dir/authority/signer.pem       certificate and key that sign (0600, folder 0700)
    state_dir/authority/before.pem       while one authority follows another: the old one, still trusted
    state_dir/authority/controller/      the controller's own certificate
    state_dir/authority/issued.jsonl     every certificate that was issued
    state_dir/revoked.txt                serials that are refused, read by running controllers, too

While two authorities overlap, agents get certificates of the new one and trust both; the controller trusts
both and keeps a certificate of the old one, because agents not reached yet know no other.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import shlex
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from roambench.contract.errors import IdentityError
from roambench.contract.whole_file import write_whole
from roambench.fleet.guard import FleetIdentity
from roambench.identity.authority import (
    CONTROLLER_NAME,
    Authority,
    Credential,
    check,
    expiry_of,
    name_of,
    serial_of,
)
from roambench.identity.revocation import RevocationList
from roambench.provision.bench import Bench, Host
from roambench.provision.issued import Issued, enter, read_issued

#: How long an agent's certificate lasts by default.
LIFETIME: Final = dt.timedelta(days=7)
#: A certificate is renewed when less than this share of its life is left.
RENEW_SHARE: Final = 1 / 3

_KEY_MARK: Final = b"-----BEGIN PRIVATE KEY-----"


class BenchAuthority:
    """The authority kept in one bench's `state_dir`; made the first time it is asked for.

    Several processes may use it at once; every method raises IdentityError for files that cannot be used.
    """

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "authority"
        self._thread = threading.Lock()
        self._own: tuple[tuple[int, int], Credential] | None = None
        with _naming(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.chmod(0o700)
            self.revocations = RevocationList.create(state_dir / "revoked.txt")
            with self._alone():
                if not self._signer.exists():
                    if self._issued.exists():
                        # Not replaced in silence: every certificate on every board would be worth nothing.
                        raise IdentityError(
                            f"{self._signer}: the authority is gone, its record of certificates is not: "
                            f"restore it from a backup, or remove {self.folder} and provision all hosts"
                        )
                    _save(Authority.create(), self._signer)

    # ---- trust -----------------------------------------------------------------------------

    @property
    def trusted_pem(self) -> bytes:
        """Certificates of the authority and, while they overlap, of the one before it."""
        before = self._before_authority()
        now = _load(self._signer).certificate_pem
        return now if before is None else now + before.certificate_pem

    @property
    def overlaps(self) -> bool:
        """True if the authority before is still accepted."""
        return self._before.exists()

    @property
    def serial(self) -> str:
        """The serial number of the authority that signs."""
        return f"{serial_of(_load(self._signer).certificate_pem):x}"

    def fleet_identity(self) -> FleetIdentity:
        """Identity of a running controller: its certificate, whom it trusts and who is revoked, as of now."""
        return FleetIdentity(self.controller_credential, self.revocations.serials)

    def controller_credential(self) -> Credential:
        """The controller's own, renewed in the last third of its life; cheap while nothing has changed."""
        folder = self.folder / "controller"
        with self._thread:
            try:
                status = (folder / "cert.pem").stat()
                seen = (status.st_mtime_ns, status.st_ino)
                if self._own is None or self._own[0] != seen:
                    self._own = (seen, Credential.load(folder))
                if not _is_old(self._own[1].certificate_pem):
                    return self._own[1]
            except (OSError, IdentityError):
                self._own = None
            with self._alone(), _naming(folder):
                credential = self._renew_controller()
            status = (folder / "cert.pem").stat()
            self._own = ((status.st_mtime_ns, status.st_ino), credential)
            return credential

    def doubt(self, name: str, certificate_pem: bytes | None) -> str:
        """Return why the holder of this certificate needs a new one; empty while it does not."""
        if not certificate_pem:
            return "no certificate"
        try:
            if name_of(certificate_pem) != name:
                return f"the certificate is {name_of(certificate_pem)!r}'s"
            check(certificate_pem, _load(self._signer).certificate_pem)
            if serial_of(certificate_pem) in self.revocations.serials():
                return "its certificate is revoked"
        except IdentityError as error:
            return str(error)
        return "its certificate ends soon" if _is_old(certificate_pem) else ""

    # ---- giving and taking -----------------------------------------------------------------

    def issue(self, name: str, *, lifetime: dt.timedelta = LIFETIME) -> Credential:
        """A new certificate for a device, entered in the record; its key is kept nowhere here."""
        if name == CONTROLLER_NAME:
            raise IdentityError(f"no device may be called {name!r}: that is the controller's name")
        with self._alone():
            issued = _load(self._signer).issue(name, lifetime=lifetime)
            self._enter(issued)
            return Credential(issued.certificate_pem, issued.key_pem, self.trusted_pem)

    def issued(self) -> list[Issued]:
        """Every certificate that was issued, oldest first."""
        return read_issued(self._issued)

    def newest(self, name: str) -> Issued | None:
        """The newest certificate of a name, if it has one."""
        return next((entry for entry in reversed(self.issued()) if entry.name == name), None)

    @contextmanager
    def sending(self, credential: Credential) -> Iterator[None]:
        """The body brings it to its device; where it fails, the record says that it may not have arrived."""
        try:
            yield
        except BaseException:
            with self._alone():
                self._enter(credential, arrived=False)
            raise

    def revoke(self, serial: int, note: str) -> bool:
        """Revoke this serial; running controllers follow in a second or two. Return False if it was revoked
        before."""
        with self._alone():
            return self.revocations.add(serial, note)

    def revoke_name(self, name: str, reason: str, *, keep: str = "") -> list[str]:
        """Revoke all certificates of `name` that have not expired, but for the serial `keep`."""
        now = dt.datetime.now(dt.UTC)
        serials = [
            entry.serial
            for entry in self.issued()
            if entry.name == name and entry.ends > now and entry.serial != keep
        ]
        note = f"{name} {now:%F}: {reason}"
        return [serial for serial in serials if self.revoke(int(serial, 16), note)]

    # ---- one authority after another -------------------------------------------------------

    def begin_next(self) -> None:
        """Make the next authority; from now on both are trusted."""
        with self._alone(), _naming(self.folder):
            if self._before.exists():
                raise IdentityError("one authority is following another already: finish that first")
            following = Authority.create()
            _save(_load(self._signer), self._before)
            _save(following, self._signer)
            self._renew_controller()

    def finish_next(self, names: list[str], *, force: bool = False) -> None:
        """Trust the old authority no more. IdentityError lists the devices that would be shut out."""
        with self._alone(), _naming(self.folder):
            if not self._before.exists():
                raise IdentityError("there is one authority only: nothing to finish")
            signer = self.serial
            newest = {entry.name: entry.authority for entry in self.issued() if entry.arrived}
            old = [name for name in names if newest.get(name, signer) != signer]
            if old and not force:
                raise IdentityError(f"these still have certificates of the old authority: {', '.join(old)}")
            self._before.unlink()
            self._renew_controller()

    # ---- files -----------------------------------------------------------------------------

    @property
    def _signer(self) -> Path:
        return self.folder / "signer.pem"

    @property
    def _before(self) -> Path:
        return self.folder / "before.pem"

    @property
    def _issued(self) -> Path:
        return self.folder / "issued.jsonl"

    def _before_authority(self) -> Authority | None:
        return _load(self._before) if self._before.exists() else None

    def _renew_controller(self) -> Credential:
        signer = self._before_authority() or _load(self._signer)
        issued = signer.issue(CONTROLLER_NAME, lifetime=4 * LIFETIME)
        credential = Credential(issued.certificate_pem, issued.key_pem, self.trusted_pem)
        self._enter(issued)
        credential.save(self.folder / "controller")
        return credential

    def _enter(self, credential: Credential, *, arrived: bool = True) -> None:
        entry = Issued(
            name=name_of(credential.certificate_pem),
            serial=f"{serial_of(credential.certificate_pem):x}",
            issued=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            expires=expiry_of(credential.certificate_pem).isoformat(timespec="seconds"),
            authority=f"{serial_of(credential.authority_pem):x}",
            arrived=arrived,
        )
        with _naming(self._issued):
            enter(self._issued, entry)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One process at a time changes the files."""
        with (self.folder / ".lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def issue_for(bench: Bench, host: Host, *, lifetime: dt.timedelta = LIFETIME) -> Credential:
    """A short-lived certificate for one of the bench's hosts, with the authorities it is to trust."""
    if host not in bench.hosts:
        raise IdentityError(f"{host.name!r} is no host of bench {bench.name!r}")
    return BenchAuthority(bench.state_dir).issue(host.name, lifetime=lifetime)


def _is_old(certificate_pem: bytes) -> bool:
    """Return whether less than a third of its life is left."""
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate(certificate_pem)
    life = certificate.not_valid_after_utc - certificate.not_valid_before_utc
    return certificate.not_valid_after_utc - dt.datetime.now(dt.UTC) < life * RENEW_SHARE


def _save(authority: Authority, path: Path) -> None:
    write_whole(path, authority.certificate_pem + authority.key_pem, mode=0o600)


def _load(path: Path) -> Authority:
    try:
        text = path.read_bytes()
    except OSError as error:
        raise IdentityError(f"{path}: the bench's authority cannot be read ({error.strerror})") from None
    if path.stat().st_mode & 0o077:
        raise IdentityError(
            f"{path}: others may read the bench's private key; chmod 600 {shlex.quote(str(path))}"
        )
    certificate, mark, key = text.partition(_KEY_MARK)
    if not mark:
        raise IdentityError(f"{path}: holds no private key")
    serial_of(certificate)
    return Authority(certificate, mark + key)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IdentityError(f"{error.filename or path}: {error.strerror}") from None
