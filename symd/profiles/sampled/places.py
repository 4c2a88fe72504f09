"""What is shown of an address that has no frames, and frames that a profile holds as text or as JSON.

Messages whose strings stand in a table and are named by their number there, as pprof's and OTLP's profiles are.
"""

from __future__ import annotations

import re
from typing import Any

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.folded import FILE_OFFSET, INLINED
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.protobuf_wire import VARINT, Field, fields
from symd.profiles.samples import TIMES, SampledModule, within

UNNAMED = "[unnamed]"
"""A mapping that has neither a name nor a build ID."""
_POSITION = re.compile(r"(.*) \((?:no line|(.*?):([0-9]{1,18})(?::([0-9]{1,18}))?)\)", re.DOTALL)


def place_in_file(file: str, address: int) -> str:
    """``file+0xaddress``, by the last part of the file's path; the address alone where no file is known."""
    name = file.rpartition("/")[2]
    return f"{name}+{address:#x}" if name else f"{address:#x}"


def place_in_module(module: SampledModule | None, address: int) -> str:
    """What an address of a process is called in the module that is mapped there: where its file begins with the mapping an object address, else a place in
    the file, because only the file says which object address that is. The address alone where nothing is mapped."""
    if module is None or not (module.start or module.limit):
        return place_in_file("" if module is None else module.name, address)
    if address < module.start or (module.limit and address >= module.limit):
        return f"{address:#x}"
    name = module.name.rpartition("/")[2] or module.build_id or UNNAMED
    place = address - module.start + module.offset
    return f"{name}{FILE_OFFSET}{place:#x})" if module.offset else f"{name}+{place:#x}"


def frame_of_text(text: str) -> Frame | None:
    """The frame that ``function (file:line)`` or ``function (file:line:column)`` says, with ``_[i]`` where it was inlined;
    None where the text says no such thing. A file's name may hold colons and brackets: the last numbers count."""
    bare = text.removesuffix(INLINED)
    found = _POSITION.fullmatch(bare)
    if not found:
        return None
    name, file, line, column = found.groups()
    return Frame(name or None, None, file, int(line or 0), int(column or 0), inlined=bare != text)


def frame_of_json(item: Any, *, inlined: bool) -> Frame | None:
    """The frame of symd's published JSON; None where it is none."""
    if not isinstance(item, dict):
        return None
    texts = [item.get(key) for key in ("function", "linkage_name", "file")]
    line, column = item.get("line"), item.get("column")
    if any(text is not None and not isinstance(text, str) for text in texts):
        return None
    if within(line, TIMES) is None or within(column, TIMES) is None:
        return None
    function, linkage, file = texts
    return Frame(function, linkage, file, int(line or 0), int(column or 0), inlined=bool(item.get("inlined", inlined)))


def frames_of_json(items: Any) -> tuple[Frame, ...]:
    """Frames of a list, innermost first; () where the list is none or holds something else."""
    if not isinstance(items, list):
        return ()
    frames = [frame_of_json(item, inlined=at < len(items) - 1) for at, item in enumerate(items)]
    known = tuple(frame for frame in frames if frame is not None)
    return known if len(known) == len(frames) else ()


class StringTableReader:
    """A base for readers of messages whose strings stand in a table and are named by their number there; the reader
    fills ``_strings``."""

    def __init__(self, data: bytes, where: str, spending: ProfileBudget) -> None:
        self._data, self._where, self._spending = data, where, spending
        self._strings: list[str] = []

    def _inside(self, item: Field) -> list[Field]:
        return fields(self._data, item.value, item.end, self._where, self._spending)

    def _numbers(self, item: Field) -> dict[int, int]:
        return {one.number: one.value for one in self._inside(item) if one.wire == VARINT}

    def _string(self, number: int) -> str:
        """Raises Malformed for a number that the table does not have."""
        if number >= len(self._strings):
            raise Malformed(f"string {number} is named, and there are {len(self._strings)}", where=self._where)
        return self._strings[number]
