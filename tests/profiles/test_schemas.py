"""Field numbers are those that the projects publish, under the same names; and readers and writers use them by name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FileDescriptor
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.profiles.v1development import profiles_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from symd.profiles.schemas import Otlp, Perfetto, Pprof
from tests.profiles.messages import SHAPE

PROFILES = Path(__file__).parents[2] / "symd" / "profiles"
OTLP = (profiles_pb2.DESCRIPTOR, common_pb2.DESCRIPTOR, resource_pb2.DESCRIPTOR)
NO_MESSAGES = {"SequenceFlags"}
BARE = re.compile(
    r"""\b(?:length|number|int64|text|packed)_field\(\d"""
    r"""|\bnumber (?:==|!=) \d"""
    r"""|\bvalues?\.get\(\d|\bnumbers\.get\(\d"""
    r"""|\bnumber in \(\d"""
)
"""A field by its number in the text of a reader or a writer."""


def named(inside: type) -> Iterator[type]:
    return (each for each in vars(inside).values() if isinstance(each, type) and each.__name__ not in NO_MESSAGES)


def check(described: type, message: Descriptor) -> int:
    """The fields of a class, and of those in it, which all are the message's."""
    numbers = {name: number for name, number in vars(described).items() if isinstance(number, int)}
    published = {each.name: each.number for each in message.fields}
    assert numbers == {name: published.get(name) for name in numbers}, message.full_name
    return len(numbers) + sum(check(each, message.nested_types_by_name[each.__name__]) for each in named(described))


@pytest.mark.parametrize(
    ("schema", "files"), [(Otlp, OTLP), (Perfetto, (perfetto_trace_pb2.DESCRIPTOR,))], ids=["otlp", "perfetto"]
)
def test_numbers_are_those_of_the_published_packages(schema: type, files: tuple[FileDescriptor, ...]) -> None:
    known = {name: message for file in files for name, message in file.message_types_by_name.items()}
    assert sum(check(each, known[each.__name__]) for each in named(schema)) > 40


def test_flags_of_perfetto_are_those_of_the_published_package() -> None:
    published = perfetto_trace_pb2.TracePacket.SequenceFlags
    assert Perfetto.SequenceFlags.incremental_state_cleared == published.Value("SEQ_INCREMENTAL_STATE_CLEARED")
    assert Perfetto.SequenceFlags.needs_incremental_state == published.Value("SEQ_NEEDS_INCREMENTAL_STATE")


def test_pprofs_numbers_are_those_that_the_tests_write_with() -> None:
    for name, fields in SHAPE.items():
        numbers = vars(getattr(Pprof, name))
        assert {field: numbers[field] for _, field, *_ in fields} == {field: number for number, field, *_ in fields}


@pytest.mark.parametrize("path", sorted(PROFILES.rglob("*.py")), ids=lambda path: path.stem)
def test_no_reader_or_writer_has_a_bare_field_number(path: Path) -> None:
    assert BARE.findall(path.read_text()) == []
