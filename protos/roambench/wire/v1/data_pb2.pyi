from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class DownloadRequest(_message.Message):
    __slots__ = ("device", "order_id", "ap", "digest", "shard")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    AP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    device: str
    order_id: str
    ap: int
    digest: bytes
    shard: bool
    def __init__(self, device: _Optional[str] = ..., order_id: _Optional[str] = ..., ap: _Optional[int] = ..., digest: _Optional[bytes] = ..., shard: bool = ...) -> None: ...

class DownloadHeader(_message.Message):
    __slots__ = ("total_bytes", "digest")
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    total_bytes: int
    digest: bytes
    def __init__(self, total_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class UploadHeader(_message.Message):
    __slots__ = ("device", "order_id", "train_order_id", "ap", "total_bytes", "digest")
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    TRAIN_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    AP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    device: str
    order_id: str
    train_order_id: str
    ap: int
    total_bytes: int
    digest: bytes
    def __init__(self, device: _Optional[str] = ..., order_id: _Optional[str] = ..., train_order_id: _Optional[str] = ..., ap: _Optional[int] = ..., total_bytes: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class UploadReceipt(_message.Message):
    __slots__ = ("accepted", "reason")
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    accepted: bool
    reason: str
    def __init__(self, accepted: bool = ..., reason: _Optional[str] = ...) -> None: ...
