"""The kinds of address, each a type of its own and never one ``int``, the queries by each, and the latest time of a
device address. Queries as people write them: ADDRESS, FUNCTION, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET;
decimal or 0x hexadecimal.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NewType

from symd.errors import BadQuery
from symd.model.texts import kind_of

ObjectAddress = NewType("ObjectAddress", int)
"""An address inside one code object, as its ELF says it (sh_addr + offset)."""


KernelOffset = NewType("KernelOffset", int)
"""Bytes from the first byte of a kernel's own text."""


SectionOffset = NewType("SectionOffset", int)
"""Bytes from the start of a section."""


DeviceAddress = NewType("DeviceAddress", int)
"""Where the device fetched the instruction: load base + object address."""


@dataclass(frozen=True, slots=True)
class ByAddress:
    """Ask by object address."""

    address: ObjectAddress

    def __str__(self) -> str:
        return f"{self.address:#x}"


@dataclass(frozen=True, slots=True)
class ByKernel:
    """Ask by the name of a kernel, or of another function with code of its own, and an offset from its first byte."""

    kernel: str
    offset: KernelOffset

    def __str__(self) -> str:
        return f"{self.kernel}+{self.offset:#x}"


@dataclass(frozen=True, slots=True)
class BySection:
    """Ask by section (its name, or its number in the section table) and section offset."""

    section: str | int
    offset: SectionOffset

    def __str__(self) -> str:
        return f"({self.section if isinstance(self.section, str) else f'#{self.section}'})+{self.offset:#x}"


@dataclass(frozen=True, slots=True)
class SectionRange:
    """The bytes from ``start`` up to, but not with, ``end`` of the section that has this name, or this number in the
    section table."""

    section: str | int
    start: SectionOffset
    end: SectionOffset


Query = ByAddress | ByKernel | BySection
"""What asks for a place in a module that is named beside it."""


@dataclass(frozen=True, slots=True)
class ByDevice:
    """Ask by device address in the context with the id ``context``, whose record can stand there, as of ``time`` in
    nanoseconds of its clock. None, and ``LATEST_TIME``: as of now, and where nothing of the context is loaded any more,
    as of the nanosecond before the last of it went."""

    context: str
    address: DeviceAddress
    time: int | None = None


_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+", re.ASCII)
_BARE = r"(?=.*[0-9])[0-9a-fA-F]{1,16}"
"""What addr2line would take for a number, and symd does not."""
_NAME = re.compile(r"[^\W\d][\w$]*")
_OPERATOR = re.compile(r"\boperator\+?$")
"""What is in front of the last plus of ``operator+``, ``operator++`` and ``operator+=``."""
_LONGEST_SHOWN = 40
_DESCRIPTOR = ".kd"
"""What the symbols of AMD's kernel descriptors end with, which rocprof shows for kernels."""
_SOURCE_LINE = re.compile(r"[^:]*\.\w+:[0-9]+(:[0-9]+)?", re.ASCII)
_SPACED_PLUS = re.compile(r"\s*\+\s*(?=[^+]*$)")
_INDEX = r"#([0-9]{1,10})"
_HINT = "write ADDRESS, FUNCTION, FUNCTION+OFFSET, (SECTION)+OFFSET or (#INDEX)+OFFSET with decimal or 0x numbers"


def parse_query(text: str) -> Query:
    """One query. A function's name may contain "+": the last one counts. A name alone is where it begins. Raises
    ``BadQuery``."""
    target, plus, number = text.strip().rpartition("+")
    if not plus and _NAME.fullmatch(number) and not re.fullmatch(_BARE, number):
        return ByKernel(number, KernelOffset(0))
    if not _NUMBER.fullmatch(number):
        if plus and not is_place(text):
            return ByKernel(text.strip(), KernelOffset(0))
        hint = _otherwise_written(text.strip()) or _meant(target, plus, number)
        raise BadQuery(f"cannot parse {_shown(text)!r} as an address", hint=hint, metadata={"query": _shown(text)})
    value = number_of(number)
    if value >= 1 << 64:
        raise _bad(text, "a number of more than 64 bits")
    if not plus:
        return ByAddress(ObjectAddress(value))
    if not target:
        raise _bad(text, "no function or section before the '+'")
    section = _section(target)
    if section is None:
        return ByKernel(target, KernelOffset(value))
    return BySection(section, SectionOffset(value))


def _otherwise_written(text: str) -> str:
    """What to write instead of places as other tools write them; "" where this is not known."""
    if len(text) > _LONGEST_SHOWN:
        return ""
    if text.endswith(_DESCRIPTOR) and _NAME.fullmatch(name := text.removesuffix(_DESCRIPTOR)):
        return f"{text} is the descriptor of a kernel, without code: drop {_DESCRIPTOR} and write {name}"
    if _SOURCE_LINE.fullmatch(text):
        return f"to look up a source line, use: symd locate FILE {text}"
    listed = [each for each in map(str.strip, text.split(",")) if each]
    if listed and "," in text and all(_NUMBER.fullmatch(each.rpartition("+")[2]) for each in listed):
        return f"queries are separated by spaces or lines, not by commas: {' '.join(listed)}"
    closer = _SPACED_PLUS.sub("+", text)
    if closer != text and _NUMBER.fullmatch(closer.rpartition("+")[2]):
        return f"{_HINT}; without spaces: {closer}"
    return _as_debuggers_write(text)


def _as_debuggers_write(text: str) -> str:
    """What to write instead of a range, a place in brackets, and an offset or a number that is written otherwise."""
    number = f"(?:{_NUMBER.pattern})"
    if found := re.fullmatch(rf"(.*?{number})(?:-|\.\.\.?){number}", text, re.ASCII):
        return f"a query is one place, not a range: symd listing FILE --around {found[1]} shows the code around it"
    inside = re.sub(r"^([0-9a-fA-F]+)[hH]$", r"0x\1", text.strip("<>*@[]:;,\"'"))
    if inside != text and (_NUMBER.fullmatch(inside) or re.fullmatch(rf".+\+{number}", inside, re.ASCII)):
        return f"write {inside}"
    if found := re.fullmatch(rf"({_NAME.pattern}):({number})", text, re.ASCII):
        line = f"; a source line: symd locate FILE SOURCE:{found[2]}" if found[2].isdecimal() else ""
        return f"an offset follows a plus sign: {found[1]}+{found[2]}{line}"
    if re.fullmatch(rf"{_NAME.pattern}-{number}", text, re.ASCII):
        return "offsets count up from where a function begins, and are not negative"
    if re.fullmatch(r"(?:.*\+)?0[xX]\w*", text, re.ASCII):
        return "only hexadecimal digits, 0 to 9 and a to f, can follow 0x"
    return ""


def _meant(target: str, plus: str, number: str) -> str:
    """What to write instead of a text that ends in no number."""
    if target == "" and re.fullmatch(f"-(?:{_NUMBER.pattern})", number, re.ASCII):
        return f"addresses are not negative; {_HINT}"
    if re.fullmatch(_BARE, number):
        named = f"; {number}+0 is where {number} begins" if not plus and _NAME.fullmatch(number) else ""
        return f"hexadecimal numbers begin with 0x: {target}{plus}0x{number}{named}"
    return _HINT


def is_place(text: str) -> bool:
    """Whether a text means a place in the code by a number, well written or not, and not a function by its name alone:
    the plus of ``operator+`` is the name's."""
    text = text.strip()
    if text[:1].isdecimal() or _section(text) is not None:
        return True
    target, plus, number = text.rpartition("+")
    return bool(plus) and (not _OPERATOR.search(target) or number[:1].isdecimal())


def is_number(text: str) -> bool:
    """Whether this is a number and nothing else."""
    return _NUMBER.fullmatch(text) is not None


def number_of(text: str) -> int:
    """The value of what ``is_number``; 2^64 or more of whatever is too large for an address."""
    return int(text, 16) if text[:2] in ("0x", "0X") else _decimal(text)


def has_decimal(text: str) -> bool:
    """Whether the number of a query is decimal, and would be another one in hexadecimal."""
    number = text.strip().rpartition("+")[2]
    return len(number) > 1 and re.fullmatch(_BARE, number) is not None


def as_hexadecimal(text: str) -> str:
    """A query whose number is decimal, with the same digits as a hexadecimal one."""
    target, plus, number = text.strip().rpartition("+")
    return f"{target}{plus}0x{number}"


def _decimal(digits: str) -> int:
    """Python refuses to read thousands of digits; so many are too large anyway."""
    return int(digits[-4000:]) if not digits[:-4000].strip("0") else 1 << 64


def _section(target: str) -> str | int | None:
    """What is in parentheses when they enclose all of ``target``, a number when it is one; else None, as for the
    kernel ``(anonymous namespace)::sum(int)``."""
    if not target.startswith("(") or _closing(target) != len(target) - 1:
        return None
    inside = target[1:-1]
    index = re.fullmatch(_INDEX, inside)
    return int(index[1]) if index else inside


def _closing(text: str) -> int:
    """Position of the parenthesis that closes the first one, -1 when there is none."""
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if not depth:
            return position
    return -1


_QUERY_HINT = (
    'write "kernel+0x10", an address, ByKernel(name, offset), ByAddress(address) or BySection(section, offset)'
)


def wrong_query(query: object) -> BadQuery:
    """The error for what is no query."""
    if isinstance(query, ByDevice):
        hint = "device addresses are asked of a daemon: client.contexts.symbolize(context, addresses)"
        return BadQuery("a ByDevice is not a query about one module", hint=hint)
    return BadQuery(f"{kind_of(query)} is not a query", hint=_QUERY_HINT)


def _bad(text: str, what: str) -> BadQuery:
    return BadQuery(f"{_shown(text)!r}: {what}", hint=_HINT, metadata={"query": _shown(text)})


def _shown(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


LATEST_TIME = (1 << 63) - 2
"""The last time there is, in nanoseconds of any clock. In a column it stands for no time, which means what ``ByDevice``
says."""
