"""OTLP profiles as JSON, as OTLP over HTTP and the Collector's file exporter write them: one object, or one a line.

Source: the OTLP specification, "JSON Protobuf Encoding", and the JSON mapping of protocol buffers: names in
lowerCamelCase (those of the proto are read too), 64-bit numbers as decimal strings. The messages are those of
``symd.profiles.otlp``: the document is put into their binary form, symbolized there, and what that added is put into
the text, of which nothing else changes."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from symd.errors import Malformed
from symd.model.answers import Reason
from symd.profiles import json_text, otlp
from symd.profiles.json_text import Edit, JsonCursor, Span
from symd.profiles.profile_format import Options, ProfileBudget, Report, Symbolized
from symd.profiles.protobuf_wire import LENGTH, VARINT, fields, length_field, number_field
from symd.profiles.resolver import Resolver
from symd.profiles.schemas import Otlp

NAME = "otlp-json"
WIDE = ("line", "column", "startLine")
"""Members that are written and have 64 bits."""
TEXT, NUMBER, FIXED = "text", "number", "fixed"
Shape = dict[str, tuple[int, str]]
SHAPES: dict[str, Shape] = {
    "ProfilesData": {"resourceProfiles": (1, "ResourceProfiles"), "dictionary": (2, "ProfilesDictionary")},
    "ResourceProfiles": {"resource": (1, "Resource"), "scopeProfiles": (2, "ScopeProfiles")},
    "Resource": {"attributes": (1, "KeyValue")},
    "KeyValue": {"key": (1, TEXT), "value": (2, "AnyValue")},
    "AnyValue": {"stringValue": (1, TEXT), "intValue": (3, NUMBER), "stringValueStrindex": (8, NUMBER)},
    "ScopeProfiles": {"profiles": (2, "Profile")},
    "Profile": {"sampleType": (1, "ValueType"), "samples": (2, "Sample"), "timeUnixNano": (3, FIXED)},
    "ValueType": {"typeStrindex": (1, NUMBER), "unitStrindex": (2, NUMBER)},
    "Sample": {"stackIndex": (1, NUMBER), "attributeIndices": (2, NUMBER), "values": (4, NUMBER)}
    | {"timestampsUnixNano": (5, FIXED)},
    "ProfilesDictionary": {"mappingTable": (1, "Mapping"), "locationTable": (2, "Location")}
    | {"functionTable": (3, "Function"), "stringTable": (5, TEXT), "attributeTable": (6, "KeyValueAndUnit")}
    | {"stackTable": (7, "Stack")},
    "Mapping": {"memoryStart": (1, NUMBER), "memoryLimit": (2, NUMBER), "fileOffset": (3, NUMBER)}
    | {"filenameStrindex": (4, NUMBER), "attributeIndices": (5, NUMBER)},
    "Location": {"mappingIndex": (1, NUMBER), "address": (2, NUMBER), "lines": (3, "Line")}
    | {"attributeIndices": (4, NUMBER)},
    "Line": {"functionIndex": (1, NUMBER), "line": (2, NUMBER), "column": (3, NUMBER)},
    "Function": {"nameStrindex": (1, NUMBER), "systemNameStrindex": (2, NUMBER), "filenameStrindex": (3, NUMBER)}
    | {"startLine": (4, NUMBER)},
    "KeyValueAndUnit": {"keyStrindex": (1, NUMBER), "value": (2, "AnyValue")},
    "Stack": {"locationIndices": (1, NUMBER)},
}
"""What is read of each message of OTLP: the JSON name of a field to its number, and its kind or message."""
_HEAD = re.compile(rb'\s*\{\s*"(?:resourceProfiles|resource_profiles|dictionary)"\s*:')


def claims(data: bytes) -> bool:
    """The first member is one of the two that the message has."""
    return bool(_HEAD.match(data[:4096]))


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the locations that have none, in every document of the text."""
    text = json_text.decode(data)
    spending = ProfileBudget(options, len(data))
    edits: list[Edit] = []
    reports = []
    for document in _documents(text, spending):
        binary = message("ProfilesData", document.value)
        done = otlp.symbolize(binary, resolver, options)
        reports.append(done.report)
        if done.data is not binary:
            added = _Added(text, document, binary, done.data).edits()
            spending.written(sum(len(new) for _, new in added))
            edits += added
    changed = json_text.encode(json_text.with_edits(text, edits)) if edits else data
    return Symbolized(changed, _joined(reports))


def binary_documents(data: bytes, spending: ProfileBudget) -> Iterator[bytes]:
    """The documents of the text in binary form."""
    for document in _documents(json_text.decode(data), spending):
        yield message("ProfilesData", document.value)


@dataclass(slots=True)
class OtlpTable:
    """An array of the dictionary: where it stands, and its elements."""

    span: Span
    elements: list[Span]


@dataclass(slots=True)
class OtlpDocument:
    """One document: its value, where the dictionary and its tables stand, and whether it has the proto's own names."""

    value: Any
    dictionary: Span | None = None
    empty: bool = True
    tables: dict[str, OtlpTable] = field(default_factory=dict)
    snake: bool = False


def _documents(text: str, spending: ProfileBudget) -> Iterator[OtlpDocument]:
    """The whole text where it is one value, else the value of each line."""
    spending.read_json(text, 0, len(text))
    cursor = JsonCursor(text)
    while cursor.space() < len(text):
        place = JsonCursor(text, cursor.at)
        document = OtlpDocument(cursor.value())
        _place(place, document)
        yield document


def _place(cursor: JsonCursor, document: OtlpDocument) -> None:
    if cursor.peek() != "{":
        raise Malformed("a document is not an object", where=json_text.WHERE)
    for key in cursor.members():
        if key != "dictionary" or cursor.peek() != "{":
            continue
        begin = cursor.at
        for name in cursor.members():
            document.empty = False
            document.snake |= "_" in name
            if cursor.peek() == "[":
                start, elements = cursor.at, []
                for at in cursor.elements():
                    cursor.value()
                    elements.append(Span(at, cursor.at))
                document.tables[camel(name)] = OtlpTable(Span(start, cursor.at), elements)
        document.dictionary = Span(begin, cursor.at)


def camel(name: str) -> str:
    """The JSON name of a field of the proto."""
    first, *others = name.split("_")
    return first + "".join(part.capitalize() for part in others)


def snake(name: str) -> str:
    """The proto's name of a JSON name."""
    return re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)


def message(kind: str, value: Any) -> bytes:
    """The binary form of a JSON value that is a message of this kind; what is not read is left out. Raises
    Malformed."""
    if not isinstance(value, dict):
        raise Malformed(f"a {kind} is not an object", where=json_text.WHERE)
    shape = SHAPES[kind]
    pieces = []
    for name, item in value.items():
        number, what = shape.get(camel(name), (0, ""))
        if number and item is not None:
            items = item if isinstance(item, list) else [item]
            pieces += [_field(number, what, one, name) for one in items]
    return b"".join(pieces)


def _field(number: int, what: str, value: Any, name: str) -> bytes:
    if what == TEXT:
        if not isinstance(value, str):
            raise Malformed(f"{name} is not text", where=json_text.WHERE)
        return length_field(number, value.encode("utf-8", "surrogateescape"))
    if what in (NUMBER, FIXED):
        integer = _integer(value, name) & 0xFFFFFFFFFFFFFFFF
        if what == FIXED:
            return bytes([number << 3 | 1]) + integer.to_bytes(8, "little")
        return number_field(number, integer) or bytes([number << 3, 0])
    return length_field(number, message(what, value))


def _integer(value: Any, name: str) -> int:
    """A JSON number or a decimal string, within 64 bits."""
    text = str(value) if type(value) is int else value
    if not isinstance(text, str) or not re.fullmatch(r"-?[0-9]{1,20}", text) or not -(1 << 63) <= int(text) < 1 << 64:
        raise Malformed(f"{name} is not a 64-bit number", where=json_text.WHERE)
    return int(text)


class _Added:
    """What the symbolized dictionary has and the old one has not, as edits of the text."""

    def __init__(self, text: str, document: OtlpDocument, before: bytes, after: bytes) -> None:
        self._text = text
        self._document = document
        self._before = _tables(before)
        self._after = _tables(after)

    def edits(self) -> list[Edit]:
        tables, located = self._document.tables, Otlp.ProfilesDictionary.location_table
        found = [
            self._lines(tables["locationTable"].elements[at], new)
            for at, (old, new) in enumerate(
                zip(self._before.get(located, ()), self._after.get(located, ()), strict=True)
            )
            if old != new
        ]
        functions = [self._object("Function", _numbers(one)) for one in self._new(3)]
        strings = [json.dumps(one.decode("utf-8", "replace")) for one in self._new(5)]
        missing = []
        for name, texts in (("functionTable", functions), ("stringTable", strings)):
            if texts and name in tables:
                at = tables[name].span.end - 1
                found.append((Span(at, at), f"{', ' if tables[name].elements else ''}{', '.join(texts)}"))
            elif texts:
                missing.append(f"{json.dumps(self._name(name))}: [{', '.join(texts)}]")
        if missing and self._document.dictionary:
            at = self._document.dictionary.end - 1
            found.append((Span(at, at), f"{'' if self._document.empty else ', '}{', '.join(missing)}"))
        return found

    def _new(self, table: int) -> list[bytes]:
        return self._after.get(table, [])[len(self._before.get(table, [])) :]

    def _name(self, name: str) -> str:
        return snake(name) if self._document.snake else name

    def _object(self, kind: str, numbers: dict[int, int]) -> str:
        """The members that are not 0; 64-bit numbers are text."""
        members = [
            f"{json.dumps(self._name(name))}: {json.dumps(str(numbers[number]) if name in WIDE else numbers[number])}"
            for name, (number, _) in SHAPES[kind].items()
            if numbers.get(number)
        ]
        return f"{{{', '.join(members)}}}"

    def _lines(self, span: Span, location: bytes) -> Edit:
        """The lines of a location: a member of its own, or in the place of the old one."""
        lines = [
            location[one.value : one.end]
            for one in fields(location)
            if one.number == Otlp.Location.lines and one.wire == LENGTH
        ]
        text = f"[{', '.join(self._object('Line', _numbers(one)) for one in lines)}]"
        cursor = JsonCursor(self._text, span.begin)
        empty = True
        for name in cursor.members():
            empty = False
            if name == "lines":
                begin = cursor.at
                cursor.value()
                return Span(begin, cursor.at), text
        return json_text.appended(span, "lines", text, empty=empty)


def _tables(data: bytes) -> dict[int, list[bytes]]:
    """The entries of the dictionary's tables, by the number of the table."""
    found: dict[int, list[bytes]] = {}
    for whole in fields(data):
        if whole.number == Otlp.ProfilesData.dictionary:
            for item in fields(data, whole.value, whole.end):
                found.setdefault(item.number, []).append(data[item.value : item.end])
    return found


def _numbers(content: bytes) -> dict[int, int]:
    return {one.number: one.value for one in fields(content) if one.wire == VARINT}


def _joined(reports: list[Report]) -> Report:
    """One report of all documents."""
    unresolved: Counter[Reason] = Counter()
    for one in reports:
        unresolved.update(one.unresolved)
    total, already, resolved, approximate = (
        sum(getattr(one, name) for one in reports) for name in ("total", "already", "resolved", "approximate")
    )
    notes = tuple(dict.fromkeys(note for one in reports for note in one.notes))
    return Report(NAME, "locations", total, already, resolved, approximate, dict(sorted(unresolved.items())), notes)
