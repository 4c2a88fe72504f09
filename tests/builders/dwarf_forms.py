"""How each DW_FORM writes its value (DWARF 5, 7.5.6), and the pools that indirect forms refer to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from elftools.dwarf.enums import ENUM_DW_AT, ENUM_DW_FORM, ENUM_DW_TAG

from .leb128 import sleb, uleb
from .line_header import StringPool


class Format(NamedTuple):
    """What a unit's encoding depends on besides its content."""

    version: int = 4
    dwarf64: bool = False
    address_size: int = 8
    order: str = "little"

    @property
    def prefix(self) -> str:
        return "<" if self.order == "little" else ">"

    @property
    def offset_size(self) -> int:
        return 8 if self.dwarf64 else 4

    def offset(self, value: int) -> bytes:
        return self.number(value, self.offset_size)

    def address(self, value: int) -> bytes:
        return self.number(value, self.address_size)

    def number(self, value: int, size: int) -> bytes:
        """``value`` in ``size`` bytes; negative ones in two's complement."""
        return (value % (1 << 8 * size)).to_bytes(size, "little" if self.order == "little" else "big")

    def with_length(self, body: bytes) -> bytes:
        """The body of a contribution behind its initial length."""
        return (b"\xff\xff\xff\xff" if self.dwarf64 else b"") + self.offset(len(body)) + body


class Ranges(NamedTuple):
    """A range list: (kind, operands...) entries, DWARF 5's DW_RLE names; before it ``("start_end", low, high)`` with low
    and high relative to the unit's base, and ``("base_address", address)``."""

    entries: tuple[tuple[Any, ...], ...]


class Locations(NamedTuple):
    """A location list: (kind, operands..., expression) entries with DWARF 5's DW_LLE names, as in ``Ranges``."""

    entries: tuple[tuple[Any, ...], ...]


class Ref(NamedTuple):
    """A reference to the DIE that carries ``label``."""

    label: str


class Base(NamedTuple):
    """The place of this unit's own part of ``.debug_<pool>``: "addr", "str_offsets", "rnglists" or "loclists"."""

    pool: str


LIST_KINDS = {
    "base_addressx": 1, "startx_endx": 2, "startx_length": 3, "offset_pair": 4,
    "base_address": 5, "start_end": 6, "start_length": 7,
}  # fmt: skip
LOCATION_KINDS = LIST_KINDS | {"default_location": 5, "base_address": 6, "start_end": 7, "start_length": 8}
ADDRESSES = {"base_address", "start_end"}


class Pools:
    """What one unit adds to the sections that its forms refer to. ``places`` are where its parts begin, once known."""

    def __init__(self, format_: Format, texts: StringPool, line_texts: StringPool) -> None:
        self.format = format_
        self.texts = texts
        self.line_texts = line_texts
        self.addresses: list[int] = []
        self.strings: list[str] = []
        self.lists: dict[str, list[Ranges | Locations]] = {"ranges": [], "locations": []}
        self.plain: dict[str, list[Ranges | Locations]] = {"ranges": [], "locations": []}
        self.places: dict[str, int] = {}
        self.list_offsets: dict[str, list[int]] = {}

    def address_index(self, address: int) -> int:
        if address not in self.addresses:
            self.addresses.append(address)
        return self.addresses.index(address)

    def string_index(self, text: str) -> int:
        if text not in self.strings:
            self.strings.append(text)
        return self.strings.index(text)

    def list_index(self, value: Ranges | Locations) -> int:
        """The number of a list that a header's offset table names (DW_FORM_rnglistx, loclistx)."""
        return _position(self.lists[_kind(value)], value)

    def list_offset(self, value: Ranges | Locations) -> int:
        """The place of a list in its section (DW_FORM_sec_offset); 0 until the lists are laid out."""
        number = _position(self.plain[_kind(value)], value)
        known = self.list_offsets.get(_kind(value), [])
        return known[number] if number < len(known) else 0


def _kind(value: Ranges | Locations) -> str:
    return "ranges" if isinstance(value, Ranges) else "locations"


def _position(known: list[Any], value: Any) -> int:
    if value not in known:
        known.append(value)
    return known.index(value)


def encode_list(value: Ranges | Locations, format_: Format) -> bytes:
    """One list with its terminator: .debug_rnglists and .debug_loclists from DWARF 5 on, before it .debug_ranges and
    .debug_loc."""
    encode = _new_entry if format_.version >= 5 else _old_entry
    end = b"\0" if format_.version >= 5 else bytes(2 * format_.address_size)
    return b"".join(encode(entry, isinstance(value, Locations), format_) for entry in value.entries) + end


def _old_entry(entry: tuple[Any, ...], located: bool, format_: Format) -> bytes:
    kind, *operands = entry
    if kind == "base_address":
        return format_.address(-1) + format_.address(operands[0])
    packed = format_.address(operands[0]) + format_.address(operands[1])
    return packed + (format_.number(len(operands[2]), 2) + operands[2] if located else b"")


def _new_entry(entry: tuple[Any, ...], located: bool, format_: Format) -> bytes:
    kind, *operands = entry
    out = bytes([(LOCATION_KINDS if located else LIST_KINDS)[kind]])
    expression = operands.pop() if located and not kind.startswith("base") else None
    for number, operand in enumerate(operands):
        direct = kind in ADDRESSES or (kind == "start_length" and number == 0)
        out += format_.address(operand) if direct else uleb(operand)
    return out + (b"" if expression is None else uleb(len(expression)) + expression)


FIXED = {
    "data1": 1, "data2": 2, "data4": 4, "data8": 8, "data16": 16, "flag": 1, "ref_sig8": 8, "ref_sup4": 4,
    "ref_sup8": 8,
}  # fmt: skip
REFERENCES = {"ref1": 1, "ref2": 2, "ref4": 4, "ref8": 8}
BLOCKS = {"block1": 1, "block2": 2, "block4": 4}


def form_number(name: str | int) -> int:
    return name if isinstance(name, int) else int(ENUM_DW_FORM[f"DW_FORM_{name}"])


def attribute_number(name: str | int) -> int:
    return name if isinstance(name, int) else int(ENUM_DW_AT[f"DW_AT_{name}"])


def tag_number(name: str | int) -> int:
    return name if isinstance(name, int) else int(ENUM_DW_TAG[f"DW_TAG_{name}"])


def encode_form(form: str, value: Any, pools: Pools, resolve: Callable[[str, str], int]) -> bytes:
    """The bytes of one attribute value. ``resolve(label, form)`` gives the number that a reference form writes."""
    format_ = pools.format
    if form in ("flag_present", "implicit_const"):
        return b""
    if form == "addr":
        return format_.address(value)
    if isinstance(value, (Base, Ranges, Locations)) and form in ("sec_offset", "data4", "data8"):
        place = pools.places.get(value.pool, 0) if isinstance(value, Base) else pools.list_offset(value)
        return format_.number(place, FIXED.get(form, format_.offset_size))
    if form in FIXED:
        return bytes(value) if isinstance(value, bytes) else format_.number(value, FIXED[form])
    if form in ("udata", "sdata"):
        return uleb(value) if form == "udata" else sleb(value)
    if form == "indirect":
        return uleb(form_number(value[0])) + encode_form(value[0], value[1], pools, resolve)
    if form.startswith("ref"):
        return _reference(form, value, format_, resolve)
    if form in BLOCKS:
        return format_.number(len(value), BLOCKS[form]) + bytes(value)
    if form in ("block", "exprloc"):
        return uleb(len(value)) + bytes(value)
    return _pooled(form, value, pools)


def _reference(form: str, value: Ref | int, format_: Format, resolve: Callable[[str, str], int]) -> bytes:
    number = resolve(value.label, form) if isinstance(value, Ref) else value
    if form == "ref_udata":
        return uleb(number, 4 - len(uleb(number)) if isinstance(value, Ref) else 0)
    if form == "ref_addr":
        return format_.number(number, format_.address_size if format_.version == 2 else format_.offset_size)
    return format_.number(number, REFERENCES[form])


def _pooled(form: str, value: Any, pools: Pools) -> bytes:
    """Forms whose value lies in another section."""
    format_ = pools.format
    if form == "string":
        return str(value).encode() + b"\0"
    if form in ("strp", "line_strp"):
        place = value if isinstance(value, int) else (pools.texts if form == "strp" else pools.line_texts).place(value)
        return format_.offset(place)
    if form in ("strp_sup", "sec_offset"):
        return format_.offset(value)
    if form in ("rnglistx", "loclistx"):
        return uleb(value if isinstance(value, int) else pools.list_index(value))
    pool, x, size = form.partition("x")
    if not x or pool not in ("addr", "str"):
        raise ValueError(f"no way to write DW_FORM_{form}")
    index = pools.address_index(value) if pool == "addr" else pools.string_index(value)
    return format_.number(index, int(size)) if size else uleb(index)
