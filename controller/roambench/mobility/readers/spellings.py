"""Hardware addresses in one spelling, whichever program wrote them."""

from __future__ import annotations

import re
from typing import Final

import pyarrow as pa

from roambench.mobility.readers.rows import Texts

_PAIR: Final = "[0-9A-Fa-f]{2}"
_FOUR: Final = "[0-9A-Fa-f]{4}"
#: Six pairs, or three groups of four; as RADIUS has it, the network's name may follow. Twelve digits are an
#: address where a letter is among them: a phone's number has none.
_ADDRESS: Final = re.compile(
    rf"({_PAIR}(?P<mark>[-:]){_PAIR}(?:(?P=mark){_PAIR}){{4}}|{_FOUR}\.{_FOUR}\.{_FOUR})(?:[:/ ].*)?"
    r"|((?=.*[A-Fa-f])[0-9A-Fa-f]{12})(?:[:/ ].*)?",
    re.DOTALL,
)


def one_spelling(texts: Texts) -> Texts:
    """The texts; those that are hardware addresses as `aa:bb:cc:dd:ee:ff`."""
    coded = texts.dictionary_encode()
    names = coded.dictionary.to_pylist()
    written = [_written(name) for name in names]
    return texts if written == names else pa.array(written, pa.string()).take(coded.indices)


def _written(name: str) -> str:
    found = _ADDRESS.fullmatch(name)
    if found is None:
        return name
    digits = re.sub("[-:.]", "", found[1] or found[3]).lower()
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2))
