"""SUMO's floating car data (FCD XML): the devices of every timestep; vehicles appear and vanish.

The file is parsed as it streams by, in a memory that does not grow with it. Vehicles, persons and containers
are devices, each kind with its own ids: where a vehicle is called 0, too, person 0 is `person:0`. One
without x and y in a timestep is left out of it. With `--fcd-output.geo` positions are
degrees: the configuration that SUMO writes into its file tells, or the option `globe`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import IO, Final
from xml.parsers import expat

from roambench.mobility.readers.account import check_id, number, seconds
from roambench.mobility.readers.collecting import FixCollector, Pile
from roambench.mobility.readers.documents import Document, Head
from roambench.mobility.readers.fixes import Fixes, Reader, ReaderOptions

_CHUNK: Final = 1 << 20
_DEVICES: Final = ("vehicle", "person", "container")
_GEO: Final = re.compile(r"<fcd-output\.geo\s+value=\"(?:true|1|yes|on|x|t)\"", re.IGNORECASE)


def read_all(documents: Sequence[Document], options: ReaderOptions) -> Fixes:
    """Do as `read` with several files: an id means the same in all of them."""
    pile, ids = Pile(options.condense), _no_ids()
    for document in documents:
        with document.opened() as file:
            pile.add(_fixes(file, replace(options, file=document.path), ids))
    return _named(pile.fixes(), ids)


def read(file: IO[bytes], options: ReaderOptions) -> Fixes:
    """One fix per device and timestep. Broken XML is one malformed row; what stood before it counts."""
    ids = _no_ids()
    return _named(_fixes(file, options, ids), ids)


def _no_ids() -> dict[str, set[str]]:
    return {kind: set() for kind in _DEVICES}


def _named(fixes: Fixes, ids: Mapping[str, set[str]]) -> Fixes:
    return replace(fixes, device_ids=tuple(_name(device, ids) for device in fixes.device_ids))


def _name(device: str, ids: Mapping[str, set[str]]) -> str:
    """Name a device of such a kind and id; a vehicle's name is its id."""
    kind, _, name = device.partition(":")
    if name.partition(":")[0] in _DEVICES:  # a vehicle that is called person:0
        return device
    before = _DEVICES[: _DEVICES.index(kind)]
    return device if any(name in ids[other] for other in before) else name


def _fixes(file: IO[bytes], options: ReaderOptions, ids: Mapping[str, set[str]]) -> Fixes:
    """Fixes of one file; its devices are called `kind:id`, and `ids` gets their ids."""
    parser = expat.ParserCreate()
    timesteps = _Timesteps(parser, options, ids)
    parser.StartElementHandler = timesteps.start
    parser.CommentHandler = timesteps.comment
    parser.EntityDeclHandler = timesteps.entity
    parser.buffer_text = True
    fed = 0
    try:
        while chunk := file.read(_CHUNK):
            parser.Parse(chunk, False)
            fed += len(chunk)
            if fed - parser.CurrentByteIndex > 4 * _CHUNK:
                raise ValueError("a tag is longer than 4 MB")
        parser.Parse(b"", True)
    except (expat.ExpatError, ValueError, LookupError) as error:  # LookupError: an unknown encoding
        timesteps.collector.reject(max(1, parser.CurrentLineNumber), f"not XML any more: {error}")
    return timesteps.collector.fixes()


class _Timesteps:
    """Handler that the XML parser calls: keeps the time of the timestep it is in."""

    def __init__(
        self, parser: expat.XMLParserType, options: ReaderOptions, ids: Mapping[str, set[str]]
    ) -> None:
        self._parser = parser
        self._ids = ids
        self._options = options
        self._t_s: int | None = None
        self._geo = bool(options.globe)
        self._collector: FixCollector | None = None

    @property
    def collector(self) -> FixCollector:
        if self._collector is None:
            self._collector = FixCollector(
                self._options.file,
                plane=not self._geo,
                simulated=True,
                condense=self._options.condense,
            )
        return self._collector

    def start(self, name: str, attributes: dict[str, str]) -> None:
        try:
            if name == "timestep":
                self._t_s = None
                self._t_s = math.floor(seconds(attributes.get("time", "")))
            elif name in _DEVICES:
                self._device(name, attributes)
        except ValueError as error:
            self.collector.reject(self._parser.CurrentLineNumber, str(error))

    def _device(self, kind: str, attributes: dict[str, str]) -> None:
        if self._t_s is None:
            raise ValueError("it stands in no timestep with a time")
        if "x" not in attributes or "y" not in attributes:
            self.collector.leave_out("devices without a position")
            return
        x, y = number(attributes["x"], "x"), number(attributes["y"], "y")
        name = check_id(attributes.get("id", ""), "device")
        self.collector.add(f"{kind}:{name}", self._t_s, y, x, "")
        self._ids[kind].add(name)

    def comment(self, text: str) -> None:
        if self._collector is None and self._options.globe is None and _GEO.search(text):
            self._geo = True

    def entity(self, *_: object) -> None:
        raise ValueError("it declares entities, which no FCD file does")


def recognises(head: Head) -> str | None:
    """Say what makes a file look like this format, by its head; None if nothing does."""
    text = "\n".join(head.lines)
    if "<fcd-export" in text or ("<?xml" in text and "fcd-output" in text):
        return "XML with an fcd-export element"
    return None


SUMO_FCD: Final = Reader(
    "sumo-fcd", "SUMO's floating car data (XML)", read_together=read_all, recognises=recognises
)
