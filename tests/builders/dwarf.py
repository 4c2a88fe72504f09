"""DWARF 2 to 5 stated as trees of DIEs (DWARF 5, chapter 7): .debug_info and every section that its forms refer to.

    root = Die("compile_unit", [At("name", "string", "k.cl"), At("low_pc", "addr", 0)], [Die("subprogram", ...)])
    build_dwarf([Unit(root, version=4)]).sections[".debug_info"]

Names are DWARF's without their prefix; a number stands for itself. A reference is ``Ref(label)`` to a DIE's ``label``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .dwarf_forms import (
    Base,
    Format,
    Locations,
    Pools,
    Ranges,
    Ref,
    attribute_number,
    encode_form,
    encode_list,
    form_number,
    tag_number,
)
from .leb128 import sleb, uleb
from .line_header import StringPool

__all__ = ("At", "Base", "Die", "Dwarf", "Locations", "Ranges", "Ref", "Unit", "build_dwarf")

UNIT_TYPES = {"compile": 1, "type": 2, "partial": 3, "skeleton": 4, "split_compile": 5, "split_type": 6}


class At(NamedTuple):
    """One attribute. What ``value`` is depends on the form: a number, text, bytes, ``Ref``, ``Ranges``, ``Locations``,
    ``Base``, or (form, value) for "indirect". For "implicit_const" it goes into the abbreviation."""

    name: str | int
    form: str
    value: Any = None


class Die(NamedTuple):
    tag: str | int
    attributes: Sequence[At] = ()
    children: Sequence[Die] = ()
    label: str = ""


class Unit(NamedTuple):
    """One unit. ``type`` matters from DWARF 5 on and for "type", which goes to .debug_types in DWARF 4; ``signature`` is
    its 8-byte id, and ``type_label`` names the DIE of the type."""

    root: Die
    version: int = 4
    dwarf64: bool = False
    address_size: int = 8
    type: str = "compile"
    signature: int = 0
    type_label: str = ""

    @property
    def section(self) -> str:
        return ".debug_types" if self.type == "type" and self.version < 5 else ".debug_info"


class Dwarf(NamedTuple):
    """``sections`` by name, the empty ones left out; ``offsets`` of labelled DIEs and ``units`` in their sections."""

    sections: dict[str, bytes]
    offsets: dict[str, int]
    units: tuple[int, ...]


class _Abbreviations:
    """The abbreviation table, shared by all units."""

    def __init__(self) -> None:
        self.codes: dict[bytes, int] = {}

    def code(self, die: Die) -> int:
        out = uleb(tag_number(die.tag)) + bytes([bool(die.children)])
        for at in die.attributes:
            out += uleb(attribute_number(at.name)) + uleb(form_number(at.form))
            out += sleb(at.value) if at.form == "implicit_const" else b""
        return self.codes.setdefault(out + b"\0\0", len(self.codes) + 1)

    def encode(self) -> bytes:
        return b"".join(uleb(code) + body for body, code in self.codes.items()) + b"\0"


class _UnitEncoder:
    """Encodes one unit at a known place of its section; run twice, since forward references need offsets."""

    def __init__(self, unit: Unit, start: int, pools: Pools, abbreviations: _Abbreviations) -> None:
        self.unit = unit
        self.start = start
        self.pools = pools
        self.abbreviations = abbreviations
        self.labels: dict[str, int] = {}

    def encode(self, labels: dict[str, int]) -> bytes:
        """The unit's bytes. ``labels`` are section offsets of DIEs, as far as they are known."""
        format_ = self.pools.format
        prefix = 12 if format_.dwarf64 else 4
        size = prefix + len(self._header(labels))
        body = self._die(self.unit.root, self.start + size, labels)
        return format_.with_length(self._header(labels) + body)

    def _header(self, labels: dict[str, int]) -> bytes:
        unit, format_ = self.unit, self.pools.format
        out = format_.number(unit.version, 2)
        if unit.version >= 5:
            out += bytes([UNIT_TYPES[unit.type], unit.address_size]) + format_.offset(0)
        else:
            out += format_.offset(0) + bytes([unit.address_size])
        if unit.type in ("skeleton", "split_compile", "type", "split_type"):
            out += format_.number(unit.signature, 8)
        if unit.type in ("type", "split_type"):
            out += format_.offset(max(0, labels.get(unit.type_label, self.start) - self.start))
        return out

    def _die(self, die: Die, at: int, labels: dict[str, int]) -> bytes:
        if die.label:
            self.labels[die.label] = at

        def resolve(label: str, form: str) -> int:
            return labels.get(label, self.start) - (0 if form == "ref_addr" else self.start)

        out = uleb(self.abbreviations.code(die))
        for attribute in die.attributes:
            out += encode_form(attribute.form, attribute.value, self.pools, resolve)
        for child in die.children:
            out += self._die(child, at + len(out), labels)
        return out + (b"\0" if die.children else b"")


def build_dwarf(units: Sequence[Unit], *, order: str = "little") -> Dwarf:
    """The debug sections of ``units``, in the order given. ``stmt_list`` and ``sec_offset`` values that are numbers are
    written as they stand, so a line program comes from ``line_program`` and is added beside these sections."""
    texts, line_texts, abbreviations = StringPool(), StringPool(), _Abbreviations()
    encoders: list[_UnitEncoder] = []
    labels: dict[str, int] = {}
    sections: dict[str, bytes] = {}
    for unit in units:
        pools = Pools(Format(unit.version, unit.dwarf64, unit.address_size, order), texts, line_texts)
        encoder = _UnitEncoder(unit, len(sections.get(unit.section, b"")), pools, abbreviations)
        sections[unit.section] = sections.get(unit.section, b"") + encoder.encode({})
        labels |= encoder.labels
        encoders.append(encoder)
    pooled = _pool_sections([encoder.pools for encoder in encoders], texts, line_texts)
    final = dict.fromkeys(sections, b"")
    for encoder in encoders:
        final[encoder.unit.section] += encoder.encode(labels)
    assert {name: len(data) for name, data in final.items()} == {name: len(data) for name, data in sections.items()}
    final |= {".debug_abbrev": abbreviations.encode(), **pooled}
    starts = tuple(encoder.start for encoder in encoders)
    return Dwarf({name: data for name, data in final.items() if data}, labels, starts)


def _pool_sections(every: Sequence[Pools], texts: StringPool, line_texts: StringPool) -> dict[str, bytes]:
    """The sections that units refer into, laid out; each unit's ``Pools`` learns where its own parts are."""
    out: dict[str, bytes] = {}
    for pools in every:
        _add_table(out, "addr", pools, [pools.format.address(address) for address in pools.addresses])
        _add_table(out, "str_offsets", pools, [pools.format.offset(texts.place(text)) for text in pools.strings])
        _add_lists(out, "ranges", ".debug_rnglists", ".debug_ranges", pools)
        _add_lists(out, "locations", ".debug_loclists", ".debug_loc", pools)
    return out | {".debug_str": bytes(texts.data), ".debug_line_str": bytes(line_texts.data)}


def _add_table(out: dict[str, bytes], name: str, pools: Pools, entries: list[bytes]) -> None:
    """This unit's part of .debug_addr or .debug_str_offsets; its base is behind the header."""
    if not entries:
        return
    sizes = bytes([pools.format.address_size, 0]) if name == "addr" else bytes(2)
    part = pools.format.with_length(pools.format.number(5, 2) + sizes + b"".join(entries))
    section = f".debug_{name}"
    before = out.get(section, b"")
    pools.places[name] = len(before) + len(part) - len(b"".join(entries))
    out[section] = before + part


def _add_lists(out: dict[str, bytes], kind: str, new: str, old: str, pools: Pools) -> None:
    """This unit's lists: those with numbers first, behind a table of offsets, then those that are referred to directly."""
    format_ = pools.format
    numbered, plain = ([encode_list(value, format_) for value in of[kind]] for of in (pools.lists, pools.plain))
    if not numbered and not plain:
        return
    section = new if format_.version >= 5 else old
    before = out.get(section, b"")
    table, at = b"", format_.offset_size * len(numbered)
    for encoded in numbered:
        table += format_.offset(at)
        at += len(encoded)
    part = table + b"".join([*numbered, *plain])
    base = len(before)
    if format_.version >= 5:
        part = format_.with_length(
            format_.number(5, 2) + bytes([format_.address_size, 0]) + format_.number(len(numbered), 4) + part
        )
        base += 20 if format_.dwarf64 else 12
    pools.places[new.removeprefix(".debug_")] = base
    at += base
    pools.list_offsets[kind] = []
    for encoded in plain:
        pools.list_offsets[kind].append(at)
        at += len(encoded)
    out[section] = before + part
