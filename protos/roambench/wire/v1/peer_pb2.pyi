from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class PullRequest(_message.Message):
    __slots__ = ("run_id", "step")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    step: int
    def __init__(self, run_id: _Optional[str] = ..., step: _Optional[int] = ...) -> None: ...

class PullHeader(_message.Message):
    __slots__ = ("total_bytes", "digest", "mbit_s")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    MBIT_S_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    digest: bytes
    mbit_s: float
    def __init__(self, total_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ..., mbit_s: _Optional[float] = ...) -> None: ...
