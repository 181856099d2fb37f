"""The kinds of event that agents and controllers store and send: their text is spelled here alone."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NewType

from roambench.contract.printable import printable

_LOG_ONLY: Final = True


class EventKind(StrEnum):
    """A kind of event; its value is the text that is stored, sent and shown.

    A member marked `_LOG_ONLY` is stored and shown as it is: no code decides anything by it. All others are
    both produced and consumed by name, which `tests/unit/contract/test_events.py` checks in the source.
    """

    log_only: bool

    def __new__(cls, text: str, log_only: bool = False) -> EventKind:
        """A kind of this text; `log_only` where no code decides anything by it."""
        member = str.__new__(cls, text)
        member._value_ = text
        member.log_only = log_only
        return member

    # The life of an agent. Detail: text for people unless it is said otherwise.
    AGENT_STARTED = "agent started"
    AGENT_STOPPING = "agent stopping", _LOG_ONLY
    AGENT_STATE_DAMAGED = "agent state damaged"
    AGENT_LACKS = "agent lacks"  # detail: what it was about to do, and what it lacks for it
    BOARD_TAKEN = "board taken"  # detail: the bench that took it, and whose that is
    CERTIFICATE_RENEWED = "certificate renewed", _LOG_ONLY
    DUTY_BEGAN = "duty began"  # detail: the level, `contract.duty.DUTY_OVER` after the last one
    DUTY_REFUSED = "duty refused", _LOG_ONLY

    # Its records and where they go.
    RECORD_CONTEXT_BEGINS = "record context begins"  # detail: spool.record_context.RecordContext as JSON
    SPOOL_DAMAGED = "spool damaged"
    SPOOL_STATE = "spool state"  # detail: per store what waits, was dropped, is dead, as JSON
    STORE_REFUSES = "store refuses"
    STORE_SLOW = "store slow"
    STORE_RECOVERED = "store recovered", _LOG_ONLY

    # Its power meter. Detail of the states: why, or the port.
    METER_DESCRIBED = "meter described"  # detail: meters.traits.MeterDescription as JSON
    METER_OK = "meter ok"
    METER_STALE = "meter stale"
    METER_OFF = "meter off"
    METER_LOST = "meter lost"
    METER_UNAVAILABLE = "meter unavailable"
    METER_RESTARTED = "meter restarted"
    METER_ALARM = "meter alarm"
    METER_LINE_COUNTS = "meter line counts", _LOG_ONLY

    # Its orders. Detail: the order's id.
    DOWNLOAD_STARTED = "download started"
    TRAIN_STARTED = "train started"
    TRAIN_FINISHED = "train finished"
    EVALUATE_STARTED = "evaluate started"
    EVALUATE_FINISHED = "evaluate finished"
    UPLOAD_STARTED = "upload started"
    EXCHANGE_STARTED = "exchange started"
    EXCHANGE_FINISHED = "exchange finished"
    NOT_QUIET = "not quiet"  # detail: what carries other traffic
    TRANSFER_BROKE_OFF = "transfer broke off", _LOG_ONLY  # detail: the order's id and why

    # Its readiness for a run.
    FETCHING_DATA = "fetching data"
    TRAINER_READY = "trainer ready"
    TRAINER_NOT_READY = "trainer not ready"
    CANNOT_RESUME = "cannot resume the run"  # it holds nothing of a run whose first controller is gone
    PEER_PORT_OPEN = "peer port open"  # detail: host:port
    NO_PEER_PORT = "no peer port", _LOG_ONLY
    PEER_REFUSED = "peer refused", _LOG_ONLY

    # What the controller sees of sessions.
    SESSION_OPENED = "session opened"
    SESSION_CLOSED = "session closed"  # by the agent, in words
    LEFT_IN_SPOOL = "left in the spool"  # as it was closed; detail: stores and how many records each
    SESSION_LOST = "session lost"
    SESSION_REFUSED = "session refused"
    SESSION_CUT_OFF = "session cut off"
    FRAMES_SLOWED = "frames slowed"
    FRAME_IGNORED = "frame ignored", _LOG_ONLY
    ANSWER_IGNORED = "answer ignored"
    CLOCK_OFFSET = "clock offset"
    CLOCK_NOT_PROBED = "clock not probed", _LOG_ONLY

    # What fails in a call, and what it refuses.
    CALL_FAILED = "call failed"
    CALL_REFUSED = "call refused"
    CONNECTION_REFUSED = "connection refused"
    DOWNLOAD_REFUSED = "download refused"
    DRAIN_REFUSED = "drain refused"
    IDENTITY_REFUSED = "identity refused"
    PORT_REPLACED = "port replaced"
    UPLOAD_BROKE_OFF = "upload broke off", _LOG_ONLY
    UPLOAD_REFUSED = "upload refused"


#: The text of a kind that this version does not know: a board of another version stored or sent it. It is
#: stored and shown like any other.
UnknownKind = NewType("UnknownKind", str)
AnyEventKind = EventKind | UnknownKind

_BY_TEXT: Final = {kind.value: kind for kind in EventKind}


def event_kind(text: str) -> AnyEventKind:
    """The kind of that text, which may come from an untrusted machine."""
    return _BY_TEXT.get(text) or UnknownKind(printable(text))
