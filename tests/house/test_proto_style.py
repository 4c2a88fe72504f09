"""The protos keep to protos/style.md, as far as a program can tell, and it says of every error what the code says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from symd.errors import CallRefused, ServerUnavailable, SymdError

PROTOS = Path(__file__).parents[2] / "protos"
SYMD = PROTOS.parent / "symd"
FILES = sorted((PROTOS / "symd/v1").glob("*.proto"))
STYLE = (PROTOS / "style.md").read_text()
OF_CLIENTS = {ServerUnavailable.reason, CallRefused.reason}
"""Reasons that no daemon sends."""
WHOLE = {"UpdateModuleRequest.module", "CreateContextRequest.context"}
"""Requests that bring a resource, and do not name one."""
COMMENT = re.compile(r"^ *// ?(.*)$")
ODD = re.compile(
    r"\b(so many|what stands|is called so|of which|who asks|nobody|somebody|of no account|likewise)\b", re.IGNORECASE
)
"""Words that are grammatical, and that no English comment of an API has."""


def messages() -> Iterator[Descriptor]:
    for file in FILES:
        yield from import_module(f"symd.v1.{file.stem}_pb2").DESCRIPTOR.message_types_by_name.values()


FIELDS = {f"{message.name}.{field.name}": field for message in messages() for field in message.fields}
REQUESTS = {name: field for name, field in FIELDS.items() if name.partition(".")[0].endswith("Request")}


def named(*names: str) -> set[str]:
    return {name for name, field in FIELDS.items() if field.name in names}


def test_names_have_one_meaning() -> None:
    assert named("path") == {"CodeObject.path", "Container.path"}
    assert named("parent") == {"LocationTable.parent"}
    assert not named("position", "time", "batch", "known_tables")
    assert not {name for name, field in REQUESTS.items() if field.name in ("name", "names")}
    for name in named("code_object"):
        assert FIELDS[name].type == FieldDescriptor.TYPE_STRING, name
    for name in named("column"):
        assert f"{name.partition('.')[0]}.line" in FIELDS, name


def test_requests_name_modules_and_contexts() -> None:
    for name, field in REQUESTS.items():
        if field.name in ("module", "context") and name not in WHOLE:
            assert field.type == FieldDescriptor.TYPE_STRING, name


def test_names_have_their_units() -> None:
    for name, field in FIELDS.items():
        kind = field.message_type.full_name if field.message_type else ""
        assert field.name.endswith("_time") == (kind == "google.protobuf.Timestamp"), name
        if "time" in field.name and not kind:
            assert re.search(r"times?_ns$", field.name), name
        if "size" in field.name.split("_"):
            assert field.name in ("size_bytes", "page_size", "max_page_size", "bit_size"), name


def test_lists_come_in_pages() -> None:
    for name in named("page_size", "page_token"):
        answer = name.partition("Request.")[0]
        assert {
            f"{answer}Request.page_size",
            f"{answer}Request.page_token",
            f"{answer}Response.next_page_token",
        } <= FIELDS.keys()


def paragraphs(file: Path) -> Iterator[str]:
    """The comments of a file, each paragraph as one line, without examples."""
    lines: list[str] = []
    for line in [*file.read_text().splitlines(), ""]:
        found = COMMENT.match(line)
        said = found[1] if found else ""
        if said and not said.startswith("    "):
            lines.append(said.strip())
        elif lines:
            yield " ".join(lines)
            lines = []


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_comments_are_sentences(file: Path) -> None:
    for said in paragraphs(file):
        assert said.removesuffix(")")[-1] in ".:", said
        assert said[0] in '"*`' or not said[0].islower() or said.split()[0] in ("const.", "restrict.", "volatile."), (
            said
        )
        assert not ODD.search(said), said
    assert max(map(len, file.read_text().splitlines())) <= 120


def reasons(of: type[SymdError] = SymdError) -> Iterator[type[SymdError]]:
    yield of
    for each in of.__subclasses__():
        yield from reasons(each)


def test_every_error_is_in_the_table_with_its_code() -> None:
    table = dict(re.findall(r"^\| `([A-Z_]+)` \| ([A-Z_]+) \|", STYLE, re.MULTILINE))
    assert table == {each.reason: each.status for each in reasons() if each.reason not in OF_CLIENTS}


def test_metadata_of_the_table_is_sent() -> None:
    rows = re.findall(r"^\| `[A-Z_]+` \|.*\| (.*) \|$", STYLE, re.MULTILINE)
    keys = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    code = "".join(file.read_text() for file in SYMD.rglob("*.py") if "v1" not in file.parts)
    assert len(keys) > 10
    assert not {key for key in keys if f'"{key}"' not in code and f"{key}=" not in code}


def test_reasons_that_comments_name_exist() -> None:
    known = {each.reason for each in reasons()}
    for file in FILES:
        for said in re.findall(r"with reason ([A-Z_]+)", file.read_text()):
            assert said in known, (file.name, said)
