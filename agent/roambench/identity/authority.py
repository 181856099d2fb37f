"""A bench's own certificate authority: the certificate's name is the device's identity.

Trusted is a PEM of one authority, or of two while a bench changes from one to the next.

Keys are ECDSA P-256 (a Pi signs in milliseconds). Private keys are written 0600 and never leave the machine
they are made for, except when the controller makes the key of an agent it provisions.
"""

from __future__ import annotations

import datetime as dt
import ipaddress
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from roambench.contract.errors import IdentityError
from roambench.contract.whole_file import write_whole
from roambench.identity.controller_name import CONTROLLER_NAME as CONTROLLER_NAME

_AUTHORITY_LIFETIME = dt.timedelta(days=3650)
#: Boards without a battery-backed clock lag behind, and a clock may be set back while its host is in a run.
_BACKDATE = dt.timedelta(days=7)

#: A certificate says the same for ever; a controller is shown each one with every call.
_remembered = lru_cache(maxsize=4096)


@dataclass(frozen=True, slots=True)
class Credential:
    """A certificate and its private key, PEM, with the authority that signed it."""

    certificate_pem: bytes
    key_pem: bytes
    authority_pem: bytes  # whom its owner trusts: one authority or more

    def save(self, folder: Path) -> None:
        """Write `cert.pem`, `key.pem` (0600) and `ca.pem` into `folder`.

        Each file is replaced whole. Who loads between two of them gets an IdentityError, never a mixture.
        """
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(folder / "key.pem", self.key_pem, mode=0o600)
        write_whole(folder / "ca.pem", self.authority_pem, mode=0o644)
        write_whole(folder / "cert.pem", self.certificate_pem, mode=0o644)

    @classmethod
    def load(cls, folder: Path) -> Credential:
        """Inverse of `save`; IdentityError names the file that is missing or the reason it is refused."""
        try:
            credential = cls(
                (folder / "cert.pem").read_bytes(),
                (folder / "key.pem").read_bytes(),
                (folder / "ca.pem").read_bytes(),
            )
        except OSError as error:
            raise IdentityError(f"{error.filename}: certificate cannot be read ({error.strerror})") from None
        check(credential.certificate_pem, credential.authority_pem)
        check_key(credential)
        return credential


@dataclass(frozen=True, slots=True)
class Authority:
    """The bench's root: issues certificates, is not itself an identity."""

    certificate_pem: bytes
    key_pem: bytes

    @classmethod
    def create(cls, name: str = "roambench bench authority") -> Authority:
        """Make a new authority with a new key (P-256)."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        # Of two authorities with one name TLS tries the first alone, and finds a false signature.
        subject = _subject(f"{name[:47]} {secrets.token_hex(8)}")
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(now + _AUTHORITY_LIFETIME)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(sign_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key))

    def issue(self, name: str, *, lifetime: dt.timedelta = dt.timedelta(days=30)) -> Credential:
        """A certificate for `name` (a device, or CONTROLLER_NAME), usable as client and as server."""
        authority = x509.load_pem_x509_certificate(self.certificate_pem)
        signer = serialization.load_pem_private_key(self.key_pem, password=None)
        if not isinstance(signer, ec.EllipticCurvePrivateKey):
            raise IdentityError("the authority's key is not an elliptic-curve key")
        key = ec.generate_private_key(ec.SECP256R1())
        now = dt.datetime.now(dt.UTC)
        names: list[x509.GeneralName] = [x509.DNSName(name)]
        if name == CONTROLLER_NAME:
            names += [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(_subject(name))
            .issuer_name(authority.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _BACKDATE)
            .not_valid_after(now + lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(_usage(sign_certificates=False), critical=True)
            .add_extension(
                x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH]),
                critical=False,
            )
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
            )
            .sign(signer, hashes.SHA256())
        )
        return Credential(
            certificate.public_bytes(serialization.Encoding.PEM), _key_pem(key), self.certificate_pem
        )


def serial_of(certificate_pem: bytes) -> int:
    """The serial number, as a revocation list names it."""
    return _certificate(certificate_pem).serial_number


def expiry_of(certificate_pem: bytes) -> dt.datetime:
    """Return when the certificate ends, UTC."""
    return _certificate(certificate_pem).not_valid_after_utc


@_remembered
def name_of(certificate_pem: bytes) -> str:
    """The common name: the identity."""
    attributes = _certificate(certificate_pem).subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if len(attributes) != 1:
        raise IdentityError("the certificate does not carry exactly one name")
    value = attributes[0].value
    return value if isinstance(value, str) else value.decode()


def check(certificate_pem: bytes, authority_pem: bytes, *, now: dt.datetime | None = None) -> None:
    """Raise IdentityError unless one of the authorities signed the certificate and it is valid `now`."""
    certificate = _certificate(certificate_pem)
    name = name_of(certificate_pem)
    if not any(_issued(certificate, authority) for authority in _certificates(authority_pem)):
        raise IdentityError(f"the certificate of {name!r} was not issued by this bench's authority")
    now = now or dt.datetime.now(dt.UTC)
    if now < certificate.not_valid_before_utc:
        raise IdentityError(
            f"the certificate of {name!r} is valid only from {certificate.not_valid_before_utc:%F %T} UTC: "
            "is this machine's clock right?"
        )
    if now > certificate.not_valid_after_utc:
        expired = f"{certificate.not_valid_after_utc:%F %T} UTC"
        raise IdentityError(f"the certificate of {name!r} expired {expired}")


def check_key(credential: Credential) -> None:
    """Raise IdentityError unless the private key belongs to the certificate."""
    certificate = _certificate(credential.certificate_pem)
    try:
        key = serialization.load_pem_private_key(credential.key_pem, password=None)
    except (ValueError, TypeError) as error:
        raise IdentityError(f"not a private key: {error}") from None
    if key.public_key() != certificate.public_key():
        name = name_of(credential.certificate_pem)
        raise IdentityError(f"the private key does not belong to the certificate of {name!r}")


@_remembered
def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


@_remembered
def _certificates(pem: bytes) -> Sequence[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise IdentityError(f"not a certificate: {error}") from None


@_remembered
def _certificate(pem: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise IdentityError(f"not a certificate: {error}") from None


def _subject(name: str) -> x509.Name:
    if not 1 <= len(name) <= 64:
        raise IdentityError(f"a certificate's name has 1 to 64 characters, got {len(name)}")
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _usage(*, sign_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=sign_certificates,
        crl_sign=sign_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
