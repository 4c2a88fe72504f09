"""What an index file holds: every column under its whole name, once. ``builder`` writes columns of these names,
readers ask ``Columns`` for them, an opened file is checked against them, and docs/index-format.md has a line for each.

To change a column, change it here, where it is written, where it is read and in docs/index-format.md, and raise
``symd.index.VERSION``, whose reason that page gives, too ("An index column" in CONTRIBUTING.md says where)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, NamedTuple, overload

import numpy as np

from symd.errors import DataLoss
from symd.index.format import Column, Stored
from symd.model.reasons import KNOWN

Width = Literal["narrowest", "u8", "u16", "u64"]
"""How wide an entry of a column is: unsigned, of the bits that the name says, or of the fewest of 8, 16, 32, 64 that
hold every value."""
_ITEMSIZE: Mapping[Width, int] = {"u8": 1, "u16": 2, "u64": 8}
_FIXED_COUNTS: Mapping[str, int] = {"index": 1, "kind of number in a page": 3}
"""How many entries columns have of which there are equally many in every index."""
_REASONS = np.array(KNOWN, np.uint8)
_UNCOUNTED = ("byte", "start, where sorted")
"""Columns of these have each their own number of entries."""


class Spec:
    """One column: what has an entry in it, how wide an entry is, what it says, and whose number it is ("" where it is
    nobody's). As an attribute of ``Columns`` it is the column itself, made when it is first asked for."""

    def __init__(self, entries: str, width: Width, meaning: str, *, number_of: str = "") -> None:
        self.entries, self.width, self.meaning, self.number_of = entries, width, meaning, number_of
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, columns: None, owner: type) -> Spec: ...
    @overload
    def __get__(self, columns: Columns, owner: type) -> Column: ...
    def __get__(self, columns: Columns | None, owner: type) -> Spec | Column:
        if columns is None:
            return self
        made = columns.stored[self.name]
        columns.__dict__[self.name] = made
        return made


class Columns:
    """The columns of an index file. Raises DataLoss for one that is not in the file or cannot be read."""

    string_ends = Spec("string", "narrowest", "string n is `string_data[string_ends[n-1] : string_ends[n]]`")
    string_data = Spec("byte", "u8", "UTF-8")

    object_path = Spec("code object", "narrowest", "string: nesting path inside the module", number_of="string")
    object_target = Spec("code object", "narrowest", "string: target", number_of="string")
    object_compiler_input = Spec(
        "code object", "narrowest", "1 when an offset in it is meant only by path (SPIR-V in a container)"
    )
    object_rows = Spec("code object", "narrowest", "how many line rows it has")

    section_object = Spec("text section", "narrowest", "its code object", number_of="code object")
    section_name = Spec("text section", "narrowest", "string: its name", number_of="string")
    section_number = Spec(
        "text section", "narrowest", "its number in the section table of its code object (the ELF section index)"
    )
    section_address = Spec(
        "text section", "narrowest", "its address in the code object; in AMD's core dumps the device address"
    )
    section_size = Spec("text section", "narrowest", "its bytes")
    section_base = Spec("text section", "narrowest", "its first text position: the sum of the sizes before it")

    kernel_object = Spec("kernel", "narrowest", "its code object", number_of="code object")
    kernel_name = Spec("kernel", "narrowest", "string: its name", number_of="string")
    kernel_section = Spec("kernel", "narrowest", "the text section that it lies in", number_of="text section")
    kernel_offset = Spec("kernel", "narrowest", "bytes from that section's start")
    kernel_size = Spec("kernel", "narrowest", "its bytes")
    kernel_by_name = Spec("kernel", "narrowest", "kernel numbers in the order of their names", number_of="kernel")

    function_count = Spec("index", "narrowest", "how many functions there are")
    function_data = Spec("byte", "u8", "a packed table: `FunctionTable`")

    file_object = Spec(
        "file of a code object",
        "narrowest",
        "the code object whose debug data names it, with code or not",
        number_of="code object",
    )
    file_name = Spec("file of a code object", "narrowest", "string: its path", number_of="string")

    start_shift = Spec("index", "u8", "ranges start at multiples of 1 << shift")
    start_bits = Spec(
        "64 slots", "u64", "a bit for each slot of 1 << shift bytes in which a range starts, lowest first"
    )
    start_rank = Spec("64 slots", "u16", "the bits set in the words before it of its 64 words")
    start_base = Spec("64 words of bits", "narrowest", "the bits set in all words before them")
    start_sorted = Spec(
        "start, where sorted", "narrowest", "the starts themselves, where that is smaller (then there are no bits)"
    )

    range_count = Spec("index", "narrowest", "how many ranges there are")
    page_frame = Spec("page", "narrowest", "the frame of its first range", number_of="frame")
    page_end = Spec("page", "narrowest", "where in `page_data` it ends")
    page_data = Spec("byte", "u8", "4096 ranges are one page (below)")
    page_width = Spec(
        "kind of number in a page", "u8", "the bytes that a difference of frames, a line and a column take"
    )

    written_range = Spec(
        "range read otherwise", "narrowest", "the range, in order: what is written of it is not what is answered"
    )
    written_frame = Spec("range read otherwise", "narrowest", "its frame as written", number_of="frame")
    written_line = Spec("range read otherwise", "narrowest", "its line as written")
    written_column = Spec("range read otherwise", "narrowest", "its column as written")
    written_reason = Spec("range read otherwise", "u8", "its `Reason` as written")

    frame_owner = Spec("frame", "narrowest", "its owner", number_of="owner")
    frame_kernel = Spec("frame", "narrowest", "string: the kernel's name", number_of="string")
    frame_file = Spec("frame", "narrowest", "string: the file's path", number_of="string")
    frame_line = Spec("frame", "narrowest", "one less than its lowest line")

    owner_name = Spec("owner", "narrowest", "string: the function's name", number_of="string")
    owner_linkage_name = Spec("owner", "narrowest", "string: its linkage name, where that differs", number_of="string")
    owner_inlined = Spec("owner", "narrowest", "1 for an inlined call, 2 for one of the kernel's own body")
    owner_parent = Spec("owner", "narrowest", "the owner around it", number_of="owner")
    owner_file = Spec("owner", "narrowest", "string: the file of the call", number_of="string")
    owner_line = Spec("owner", "narrowest", "the line of the call")
    owner_column = Spec("owner", "narrowest", "the column of the call")
    owner_start_file = Spec(
        "owner", "narrowest", "string: the file in which the function is declared", number_of="string"
    )
    owner_start_line = Spec("owner", "narrowest", "the line there; 0 where it is not known")

    row_data = Spec("byte", "u8", "a packed table: `RowTable`")

    module_sha256 = Spec(
        "byte", "u8", "the SHA-256 of the module's bytes; nothing where one file is asked without a store"
    )

    summary = Spec("byte", "u8", "the module's description: msgpack in a Zstandard frame (below)")

    def __init__(self, stored: Stored) -> None:
        self.stored = stored

    def numbers(self, column: Spec) -> memoryview[int]:
        """A column for who asks for one number at a time: ``numbers(Columns.frame_owner)``."""
        return self.stored.numbers(column.name)

    def check(self) -> None:
        """Raises DataLoss where the file has other columns than these, one of a width or a number of entries that it
        cannot have, or numbers of things that it does not have."""
        described = self.stored.described()
        check_names(described)
        counts = dict(_FIXED_COUNTS)
        for name, (itemsize, count) in described.items():
            spec = SCHEMA[name]
            if itemsize != _ITEMSIZE.get(spec.width, itemsize):
                raise DataLoss(f"has a column {name!r} of {itemsize} bytes an entry", where="index file")
            if spec.entries not in _UNCOUNTED and counts.setdefault(spec.entries, count) != count:
                raise DataLoss(f"has {count} entries in column {name!r}, which contradicts others", where="index file")
        self._check_numbers(counts)
        _check_ends("string", self.string_ends, self.string_data)
        if self.string_ends[:1].any():
            raise DataLoss("has a string 0 that is not empty", where="index file")
        self._check_bases()
        _check_ends("page", self.page_end, self.page_data)
        if counts[Columns.written_range.entries]:
            self._check_written()
        if _reaches_itself(self.owner_parent):
            raise DataLoss("has an owner around itself", where="index file")

    def _check_bases(self) -> None:
        base, size = self.section_base.astype(np.uint64), self.section_size.astype(np.uint64)
        end = base + size
        if base[:1].any() or np.any(end < base) or np.any(base[1:] != end[:-1]):
            raise DataLoss("has a text section that does not begin where the one before it ends", where="index file")

    def _check_written(self) -> None:
        ranges = self.written_range
        if np.any(ranges[1:] <= ranges[:-1]) or not np.isin(self.written_reason, _REASONS).all():
            raise DataLoss("has ranges read otherwise in no order, or for no reason", where="index file")
        if int(ranges[-1]) >= int(self.range_count.item(0)):
            raise DataLoss("has more ranges read otherwise than ranges", where="index file")

    def _check_numbers(self, counts: Mapping[str, int]) -> None:
        """Whether there is a thing for every number of one; ``counts`` says how many there are."""
        for spec in _NUMBERS:
            if counts[spec.entries] and self.stored.largest(spec.name) >= counts[spec.number_of]:
                raise DataLoss(
                    f"has a number in column {spec.name!r} for which there is no {spec.number_of}", where="index file"
                )


def _reaches_itself(parent: Column) -> bool:
    """Whether an owner has a parent that does not come before it; owner 0 alone may be its own, and owner 1's is that
    one. Numbers of this width are too small for it from some owner on."""
    some = parent[: np.iinfo(parent.dtype).max + 2]
    return bool(np.any(some[:1])) or bool(np.any(some[1:] > np.arange(max(len(some) - 1, 0), dtype=parent.dtype)))


def _check_ends(what: str, ends: Column, data: Column) -> None:
    """Raises DataLoss unless ``ends`` grow and stay in ``data``."""
    if len(ends) and (int(ends[-1]) > len(data) or np.any(ends[1:] < ends[:-1])):
        raise DataLoss(f"has a {what} that ends before it begins, or outside", where="index file")


SCHEMA: Mapping[str, Spec] = {name: spec for name, spec in vars(Columns).items() if isinstance(spec, Spec)}
"""The columns of an index file by name, in the order of the file."""
_NUMBERS = tuple(spec for spec in SCHEMA.values() if spec.number_of)
"""The columns of numbers of things."""


def check_names(names: Collection[str]) -> None:
    """Raises DataLoss unless these are the names of all columns."""
    if SCHEMA.keys() != set(names):
        wrong = ", ".join(sorted(SCHEMA.keys() ^ set(names)))
        raise DataLoss(f"lacks columns, or has unknown ones: {wrong}", where="index file")


class RowTable(NamedTuple):
    """Line rows, object by object in their own order. ``object`` is not in the packed table: ``object_rows`` says it.
    ``section`` is a text section, ``file`` a string, ``flags`` are ``RowFlag`` bits."""

    section: Column
    offset: Column
    file: Column
    line: Column
    column: Column
    flags: Column


class FunctionTable(NamedTuple):
    """Functions, object by object: those of the debug data, then symbols that begin elsewhere, then what only stands
    inlined. ``owner`` is the function's, growing within an object, 0 when it only stands inlined; ``symbol`` the owner
    that the symbol of a function of the debug data is, where no scope reaches (0: none). ``section`` is a text section
    plus one (0: no code of its own), ``offset`` and ``size`` its lowest byte and its extent there, ``copies`` how many
    inlined copies of that name the code object has."""

    object: Column
    name: Column
    linkage_name: Column
    owner: Column
    symbol: Column
    section: Column
    offset: Column
    size: Column
    copies: Column


class LocationTable(NamedTuple):
    """The columns of ``model.answers.Locations`` and the owner of each location."""

    reason: Column
    kernel: Column
    function: Column
    linkage_name: Column
    file: Column
    line: Column
    column: Column
    inlined: Column
    parent: Column
    start_line: Column
    owner: Column
