"""Identity of a caller: the name in the peer's certificate, trusted for as long as the bench trusts it."""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from roambench.contract.errors import IdentityError, RoambenchError
from roambench.contract.events import EventKind
from roambench.fleet.limits import AgentLimits
from roambench.fleet.traced_grpc import grpc
from roambench.identity.authority import Credential, check, expiry_of, name_of, serial_of

Context = grpc.aio.ServicerContext[Any, Any]
#: (name, kind, reason): what was refused, for the journal.
OnReport = Callable[[str, EventKind, str], None]

_LOG: Final = logging.getLogger(__name__)
_LOOK_S: Final = 1.0  # how long a revoked certificate is trusted after the list has changed
_SILENCE_S: Final = 60.0  # a refused agent redials for ever; the same line is reported this seldom


@dataclass(frozen=True, slots=True)
class FleetIdentity:
    """The controller's own certificate, whom it trusts, and whom no more: asked whenever it matters.

    Both may change in mid-run. Either raises IdentityError when it cannot be read.
    """

    credential: Callable[[], Credential]
    revoked: Callable[[], Collection[int]]

    @classmethod
    def fixed(cls, credential: Credential, revoked_serials: Collection[int] = ()) -> FleetIdentity:
        """For a run whose certificates are made for it and end with it."""
        serials = frozenset(revoked_serials)
        return cls(lambda: credential, lambda: serials)


@dataclass(slots=True, eq=False)
class _Call:
    certificate_pem: bytes
    serial: int
    expires: dt.datetime
    task: asyncio.Task[Any]
    refusal: str = ""


class Guard:
    """Reads identities from TLS; fails closed. `authenticated` gets every peer that passed."""

    def __init__(
        self,
        identity: FleetIdentity,
        on_report: OnReport,
        authenticated: Callable[[str], None],
        limits: AgentLimits | None = None,
    ) -> None:
        self._identity = identity
        self._on_report = on_report
        self._authenticated = authenticated
        self._calls_at_once = (limits or AgentLimits()).calls_at_once
        self._open: Counter[tuple[str, str]] = Counter()
        self._calls: set[_Call] = set()
        self._trusted = b""
        self._last_reported: dict[tuple[str, str, str], float] = {}

    def name_in(self, certificate_pem: bytes) -> str:
        """Return whose certificate this is; IdentityError unless it is the bench's, valid now and not
        revoked.

        TLS has checked authority and dates once, when the connection began; here it is checked for now.
        """
        name, serial = name_of(certificate_pem), serial_of(certificate_pem)
        if serial in self._identity.revoked():
            raise IdentityError(f"the certificate of {name!r} is revoked (serial {serial:x})")
        check(certificate_pem, self._identity.credential().authority_pem)
        return name

    async def identify(self, context: Context) -> tuple[str, bytes]:
        """Return the caller's name and certificate; abort the call with UNAUTHENTICATED without one to
        trust."""
        certificate_pem = _certificate(context)
        name = "a caller"
        try:
            if certificate_pem is None:
                raise IdentityError("no client certificate")
            self._authenticated(context.peer())
            name = name_of(certificate_pem)
            return self.name_in(certificate_pem), certificate_pem
        except IdentityError as error:
            self.report(name, EventKind.IDENTITY_REFUSED, str(error))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, str(error))
            raise AssertionError("abort raises") from None

    @asynccontextmanager
    async def admitted(self, context: Context, method: str) -> AsyncIterator[str]:
        """The caller's name, for the length of a call.

        A call is ended with UNAUTHENTICATED as soon as its certificate is revoked, expires or its authority
        is trusted no more; too many calls of one method by one device end with UNAVAILABLE. What fails here
        is reported, and ends the call as UNKNOWN: gRPC would print a traceback where the caller is gone, too.
        """
        name, certificate_pem = await self.identify(context)
        if self._open[name, method] >= self._calls_at_once:
            reason = f"{name!r} has {self._calls_at_once} calls of {method} open already"
            self.report(name, EventKind.CALL_REFUSED, reason)
            await context.abort(grpc.StatusCode.UNAVAILABLE, reason)
        task = asyncio.current_task()
        assert task is not None
        call = _Call(certificate_pem, serial_of(certificate_pem), expiry_of(certificate_pem), task)
        self._open[name, method] += 1
        self._calls.add(call)
        try:
            yield name
        except asyncio.CancelledError:
            if not call.refusal:
                raise
            task.uncancel()
            self.report(name, EventKind.IDENTITY_REFUSED, call.refusal)
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, call.refusal)
        except grpc.aio.BaseError:  # the call is over
            raise
        except Exception as error:
            what = str(error)
            if not isinstance(error, RoambenchError):
                what = f"{type(error).__name__}: {error}"
                _LOG.error("%s of %s failed", method, name, exc_info=error)
            self.report(name, EventKind.CALL_FAILED, f"{method}: {what}")
            await context.abort(grpc.StatusCode.UNKNOWN, what)
        finally:
            self._calls.discard(call)
            self._open[name, method] -= 1
            if not self._open[name, method]:
                del self._open[name, method]

    async def watch(self) -> None:
        """End calls whose certificate is revoked; cancel to stop.

        While the revocation list cannot be read no new call is admitted; those that are open stay.
        """
        while True:
            await asyncio.sleep(_LOOK_S)
            try:
                revoked, trusted = self._identity.revoked(), self._identity.credential().authority_pem
            except IdentityError as error:
                self.report("controller", EventKind.IDENTITY_REFUSED, str(error))
                continue
            trust_changed, self._trusted = trusted != self._trusted, trusted
            now = dt.datetime.now(dt.UTC)
            for call in list(self._calls):
                if call.serial in revoked or call.expires < now or trust_changed:
                    self._end_unless_believed(call)

    def _end_unless_believed(self, call: _Call) -> None:
        try:
            self.name_in(call.certificate_pem)
        except IdentityError as error:
            if not call.refusal:
                call.refusal = str(error)
                call.task.cancel()

    def report(self, name: str, kind: EventKind, reason: str) -> None:
        """Pass on a refusal; the same one only once a minute, however often it is tried."""
        now_s = time.monotonic()
        key = (name, kind, reason)
        if now_s - self._last_reported.get(key, -_SILENCE_S) < _SILENCE_S:
            return
        if len(self._last_reported) > 1000:
            self._last_reported.clear()
        self._last_reported[key] = now_s
        self._on_report(name, kind, reason)


def _certificate(context: Context) -> bytes | None:
    certificates: Sequence[bytes] = list(context.auth_context().get("x509_pem_cert", ()))
    return certificates[0] if len(certificates) == 1 else None
