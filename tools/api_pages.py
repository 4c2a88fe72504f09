"""Writes docs/api from the comments of protos/symd/v1: a page for each file; what all have in common is protos/style.md, whose
copy is a page too. docs/api/parity.md is written by hand and stays. `make docs` runs it.

With a folder as argument the pages are written there instead, so that a test can compare.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    MethodDescriptorProto,
)
from google.rpc import status_pb2
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
PROTOS = ROOT / "protos"
PAGES = ROOT / "docs" / "api"
STYLE: Final = "style.md"
PARITY: Final = "parity.md"
"""The one page that is written by hand."""
PACKAGE: Final = ".symd.v1."
_MESSAGE, _ENUM, _SERVICE = 4, 5, 6
"""Field numbers of FileDescriptorProto, of which paths of comments are made (descriptor.proto, SourceCodeInfo)."""
_FIELD, _NESTED, _NESTED_ENUM, _METHOD, _VALUE = 2, 3, 4, 2, 2

Place = tuple[int, ...]
"""Where something stands in a file, as the locations of comments say it."""


def main(arguments: list[str]) -> int:
    into = Path(arguments[0]) if arguments else PAGES
    into.mkdir(parents=True, exist_ok=True)
    for page_file in into.glob("*.md"):
        if page_file.name != PARITY:
            page_file.unlink()
    files = described()
    homes = {name: Path(file.name).stem for file in files for name in _types(file)}
    for file in files:
        page = Page(file, homes)
        (into / f"{Path(file.name).stem}.md").write_text(page.text())
    shutil.copy(PROTOS / STYLE, into)
    (into / "index.md").write_text(_index(files))
    return 0


def described() -> list[FileDescriptorProto]:
    """What protoc makes of the files, with comments; services first, by name."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "protos"
        known = resources.files("grpc_tools") / "_proto"
        google_rpc = Path(status_pb2.__file__).parents[2]
        sources = sorted(str(path.relative_to(PROTOS)) for path in PROTOS.glob("symd/v1/*.proto"))
        code = protoc.main(
            [
                "",
                f"-I{PROTOS}",
                f"-I{known}",
                f"-I{google_rpc}",
                "--include_source_info",
                f"--descriptor_set_out={made}",
                *sources,
            ]
        )
        if code:
            raise SystemExit(code)
        files = list(FileDescriptorSet.FromString(made.read_bytes()).file)
    return sorted(files, key=lambda file: (not file.service, file.name))


def _types(file: FileDescriptorProto) -> Iterator[str]:
    def below(message: DescriptorProto, prefix: str) -> Iterator[str]:
        name = f"{prefix}{message.name}"
        yield name
        yield from (f"{name}.{each.name}" for each in message.enum_type)
        for each in message.nested_type:
            yield from below(each, f"{name}.")

    for message in file.message_type:
        yield from below(message, "")
    yield from (each.name for each in file.enum_type)


class Page:
    """One file's services, messages and enumerations."""

    def __init__(self, file: FileDescriptorProto, homes: Mapping[str, str]) -> None:
        self._file = file
        self._homes = homes
        self._home = Path(file.name).stem
        self._comments = {tuple(each.path): each for each in file.source_code_info.location}

    def text(self) -> str:
        parts = [f"# {_title(self._file)}", f"Package `symd.v1`, file `protos/{self._file.name}`."]
        for number, service in enumerate(self._file.service):
            parts += ["" if number == 0 else f"## {service.name}", self._said((_SERVICE, number))]
            for index, method in enumerate(service.method):
                parts += self._method(method, (_SERVICE, number, _METHOD, index))
        for number, message in enumerate(self._file.message_type):
            parts += self._message(message, "", (_MESSAGE, number))
        for number, enum in enumerate(self._file.enum_type):
            parts += self._enum(enum, "", (_ENUM, number))
        return "\n\n".join(part for part in parts if part) + "\n"

    def _method(self, method: MethodDescriptorProto, path: Place) -> list[str]:
        asked = f"{'stream of ' if method.client_streaming else ''}{self._link(method.input_type)}"
        answered = f"{'stream of ' if method.server_streaming else ''}{self._link(method.output_type)}"
        return [f"### {method.name}", f"{asked} → {answered}", self._said(path)]

    def _message(self, message: DescriptorProto, prefix: str, path: Place) -> list[str]:
        name = f"{prefix}{message.name}"
        parts = [f"## {name}", self._said(path)]
        rows = [self._field(message, field, (*path, _FIELD, index)) for index, field in enumerate(message.field)]
        if rows:
            parts.append("\n".join(["| field | number | type | |", "|---|---|---|---|", *rows]))
        for index, each in enumerate(message.nested_type):
            if not each.options.map_entry:
                parts += self._message(each, f"{name}.", (*path, _NESTED, index))
        for index, nested in enumerate(message.enum_type):
            parts += self._enum(nested, f"{name}.", (*path, _NESTED_ENUM, index))
        return parts

    def _field(self, message: DescriptorProto, field: FieldDescriptorProto, path: Place) -> str:
        kind = self._type(message, field)
        one_of = field.HasField("oneof_index") and not field.proto3_optional
        words = [
            f"One of `{message.oneof_decl[field.oneof_index].name}`." if one_of else "",
            self._said(path, cell=True),
        ]
        return f"| `{field.name}` | {field.number} | {kind} | {' '.join(word for word in words if word)} |"

    def _type(self, message: DescriptorProto, field: FieldDescriptorProto) -> str:
        for nested in message.nested_type:
            if nested.options.map_entry and field.type_name.endswith(f".{nested.name}"):
                key, value = nested.field
                return f"map of {self._type(nested, key)} to {self._type(nested, value)}"
        plain = FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        kind = self._link(field.type_name) if field.type_name else plain
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return f"repeated {kind}"
        return f"optional {kind}" if field.proto3_optional else kind

    def _enum(self, enum: EnumDescriptorProto, prefix: str, path: Place) -> list[str]:
        rows = [
            f"| `{value.name}` | {value.number} | {self._said((*path, _VALUE, index), cell=True)} |"
            for index, value in enumerate(enum.value)
        ]
        table = "\n".join(["| value | number | |", "|---|---|---|", *rows])
        return [f"## {prefix}{enum.name}", self._said(path), table]

    def _link(self, type_name: str) -> str:
        name = type_name.removeprefix(PACKAGE)
        home = self._homes.get(name)
        if home is None:
            return f"`{type_name.removeprefix('.')}`"
        return f"[{name}]({'' if home == self._home else f'{home}.md'}#{name.lower().replace('.', '')})"

    def _said(self, path: Place, *, cell: bool = False) -> str:
        """The comment there as Markdown; in a cell of a table on one line."""
        if path not in self._comments:
            return ""
        lines = [line.removeprefix(" ") for line in self._comments[path].leading_comments.splitlines()]
        if not cell:
            return "\n".join(_with_lists(lines)).strip()
        return " ".join(_escaped(line).strip() for line in lines).strip().replace("|", "\\|")


def _with_lists(lines: Sequence[str]) -> Iterator[str]:
    """The lines of prose, with the empty line that Markdown wants before a list."""
    listing = False
    for line in lines:
        item = re.match(r" {0,3}[*-] ", line)
        if item and not listing:
            yield ""
        listing = bool(item) or (listing and line.startswith("  "))
        yield f"* {_escaped(line[item.end() :])}" if item else _escaped(line.strip()) if listing else _escaped(line)


def _escaped(line: str) -> str:
    """A line of prose without what Markdown would take for a tag or a link; examples, which are indented, stay."""
    if line.startswith("    "):
        return line
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(part if part.startswith("`") else re.sub(r"([<\[*])", r"\\\1", part) for part in parts)


def _title(file: FileDescriptorProto) -> str:
    if file.service:
        return file.service[0].name
    return Path(file.name).stem.replace("_", " ").capitalize()


def _index(files: Sequence[FileDescriptorProto]) -> str:
    services = [file for file in files if file.service]
    shared = [file for file in files if not file.service]
    lines = [
        "# gRPC API",
        "",
        "Generated from the comments in `protos/symd/v1` by `tools/api_pages.py`; change them there.",
        "The daemon also serves reflection and the standard health service.",
        "",
        "To generate code for another language, `protoc` needs `google/rpc/status.proto`, which neither `protoc` nor Debian",
        "has: it is in [googleapis](https://github.com/googleapis/googleapis), and in the Python package",
        "`googleapis-common-protos`, which symd depends on: GOOGLEAPIS is its `site-packages`. In Go:",
        "",
        "```sh",
        "protoc -I protos -I GOOGLEAPIS --go_out=OUT --go-grpc_out=OUT protos/symd/v1/*.proto",
        "```",
        "",
        "The Go package of the result is `github.com/symd/symd/gen/go/symd/v1`. `samples/clients/go/build` does this with",
        "Debian's packages; `build` in `samples/clients/cpp` and `samples/clients/typescript` are those of C++ and TypeScript.",
        "",
        "| all services | |",
        "|---|---|",
        f"| [Style]({STYLE}) | names, units, absent fields, packed arrays, pages, and every error with what to do |",
        f"| [The same tasks in other APIs]({PARITY}) | LLDB, DAP, Symbolicator, symbolz, and where symd is worse |",
        "",
        "| service | methods |",
        "|---|---|",
    ]
    for file in services:
        page = f"{Path(file.name).stem}.md"
        for service in file.service:
            methods = ", ".join(f"[{each.name}]({page}#{each.name.lower()})" for each in service.method)
            lines.append(f"| [{service.name}]({page}) | {methods} |")
    lines += ["", "| messages that several services share | |", "|---|---|"]
    for file in shared:
        messages, enums = [each.name for each in file.message_type], [each.name for each in file.enum_type]
        names = ", ".join(f"`{name}`" for name in messages + enums)
        lines.append(f"| [{_title(file)}]({Path(file.name).stem}.md) | {names} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
