from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

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

class Standing(_message.Message):
    __slots__ = ("kind",)
    class Kind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        COMING: _ClassVar[Standing.Kind]
        HERE: _ClassVar[Standing.Kind]
        NEVER: _ClassVar[Standing.Kind]
    COMING: Standing.Kind
    HERE: Standing.Kind
    NEVER: Standing.Kind
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: Standing.Kind
    def __init__(self, kind: _Optional[_Union[Standing.Kind, str]] = ...) -> None: ...
