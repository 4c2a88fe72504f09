"""OTLP profiles as JSON, as OTLP over HTTP and the Collector's file exporter write them: one object, or one a line.

Source: the OTLP specification, "JSON Protobuf Encoding", and the JSON mapping of protocol buffers: names in
lowerCamelCase (those of the proto are read too), 64-bit numbers as decimal strings. What ``symd.profiles.otlp`` adds to
the message is put into the document, in which everything else stays."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from google.protobuf import json_format

from symd.errors import Malformed
from symd.profiles import json_text, otlp
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.resolver import Resolver
from symd.profiles.samples import SampledProfile, joined
from symd.v1 import otlp_pb2

NAME = "otlp-json"
_HEAD = re.compile(rb'\s*\{\s*"(?:resourceProfiles|resource_profiles|dictionary)"\s*:')


def claims(data: bytes) -> bool:
    """The first member is one of the two that the message has."""
    return bool(_HEAD.match(data[:4096]))


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the locations that have none, in every document of the text, each of which is a line then."""
    spending = ProfileBudget(options, len(data))
    documents = list(_documents(data, spending))
    tally = Tally()
    notes: dict[str, None] = {}
    for document in documents:
        message = _message(document)
        before = otlp_pb2.ProfilesDictionary()
        before.CopyFrom(message.dictionary)
        resolved = tally.resolved
        notes |= otlp.add_lines(message, resolver, options, spending, tally)
        if tally.resolved > resolved:
            _add(document["dictionary"], before, message.dictionary)
    report = tally.report(NAME, "locations", tuple(notes))
    if not report.resolved:
        return Symbolized(data, report)
    return Symbolized(b"".join(map(json_text.written, documents)), report)


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every document. Raises Malformed and LimitExceeded."""
    documents = [otlp.samples_of(_message(one), spending) for one in _documents(data, spending)]
    types = {kind for one in documents for kind in one.value_types}
    spending.read_table(sum(len(one.samples) for one in documents), len(types))
    return joined(documents)


def _documents(data: bytes, spending: ProfileBudget) -> Iterator[dict[str, Any]]:
    """The whole text where it is one value, else the value of each line."""
    text = json_text.decode(data)
    spending.read_json(text, 0, len(text))
    for document in json_text.each_value(text):
        if not isinstance(document, dict):
            raise Malformed("a document is not an object", where=json_text.WHERE)
        yield document


def _message(document: dict[str, Any]) -> otlp_pb2.ProfilesData:
    try:
        return json_format.ParseDict(document, otlp_pb2.ProfilesData(), ignore_unknown_fields=True)
    except (json_format.ParseError, SystemError) as error:  # the latter for names with lone surrogates
        raise Malformed(f"a document is no profile: {error}", where=json_text.WHERE) from error


def _add(dictionary: dict[str, Any], before: otlp_pb2.ProfilesDictionary, after: otlp_pb2.ProfilesDictionary) -> None:
    """Put into the dictionary of a document what a message of it has more than ``before``."""
    is_snake = any("_" in name for name in dictionary)
    names = ("locationTable", "functionTable", "stringTable")
    location_table, function_table, string_table = (_table(dictionary, name, is_snake=is_snake) for name in names)
    for written, old, new in zip(location_table, before.location_table, after.location_table, strict=True):
        if new != old:
            written["lines"] = [_written(line, is_snake=is_snake) for line in new.lines]
    added = after.function_table[len(before.function_table) :]
    function_table += [_written(function, is_snake=is_snake) for function in added]
    string_table += after.string_table[len(before.string_table) :]


def _table(dictionary: dict[str, Any], name: str, *, is_snake: bool) -> list[Any]:
    """A table of the dictionary, by its name in JSON; it is added where there is none."""
    snake = re.sub(r"[A-Z]", lambda found: f"_{found[0].lower()}", name)
    present = next((each for each in (name, snake) if dictionary.get(each)), snake if is_snake else name)
    table = dictionary[present] = dictionary.get(present) or []
    return table


def _written(message: otlp_pb2.Line | otlp_pb2.Function, *, is_snake: bool) -> dict[str, Any]:
    return json_format.MessageToDict(message, preserving_proto_field_name=is_snake)
