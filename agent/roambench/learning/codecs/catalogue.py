"""The table of codecs, and how an experiment spells one: `topk:0.01+deflate`."""

from __future__ import annotations

from typing import Final

from roambench.contract.errors import ConfigError
from roambench.contract.table import Table
from roambench.learning.codecs.codec import Codec, CodecRow
from roambench.learning.codecs.numbers import Uncoded

_NUMBERS: Final = "roambench.learning.codecs.numbers"

CODECS: Final[Table[CodecRow]] = Table(
    what="codec",
    group="roambench.codecs",
    kind=CodecRow,
    own={
        "identity": f"{_NUMBERS}:IDENTITY",
        "fp16": f"{_NUMBERS}:FP16",
        "bf16": f"{_NUMBERS}:BF16",
        "int8": f"{_NUMBERS}:INT8",
        "int4": f"{_NUMBERS}:INT4",
        "topk": "roambench.learning.codecs.sparse:TOP_K",
        "lowrank": "roambench.learning.codecs.low_rank:LOW_RANK",
        "deflate": "roambench.learning.codecs.packed:DEFLATE",
        "zstd": "roambench.learning.codecs.packed:ZSTD",
    },
)


def codec_of(text: str) -> Codec:
    """The codec that `text` spells: names with a plus between them, a number behind a colon where one takes
    it. ConfigError says what is wrong."""
    codec: Codec | None = None
    for part in text.split("+"):
        name, colon, number = part.partition(":")
        row = CODECS.load(name)
        if colon and row.parameter is None:
            raise ConfigError([f"{text!r}: {name} takes no number"])
        try:
            given = () if row.parameter is None else (float(number) if colon else row.parameter,)
        except ValueError:
            raise ConfigError([f"{text!r}: expected a number behind {name}:, got {number!r}"]) from None
        if row.packs:
            codec = row.make(Uncoded() if codec is None else codec, *given)
        elif codec is None:
            codec = row.make(*given)
        else:
            raise ConfigError([f"{text!r}: expected a codec that packs bytes behind the plus, got {name}"])
    assert codec is not None
    return codec
