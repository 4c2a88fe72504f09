"""Descriptions of modules, containers, code objects and kernels, to messages and back; their facts as Fact messages or
JSON text; their names, as they are looked for and found; and what uploads them.

Facts keep their order and their integers; one that does not fit into 64 bits becomes text. The packed form has a whole
description in one message, as its index has it (docs/index-format.md): it takes a fifth of the time of lists and a
hundredth of their bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

import msgpack
import zstandard

from symd.config import MIB
from symd.errors import Malformed, SymdError
from symd.model.code import CodeKind, DebugScheme
from symd.model.identities import Digest, ObjectPath
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.model.summaries import (
    UNPACKING,
    ContainerSummary,
    KernelSummary,
    ModuleRecord,
    ModuleSummary,
    ObjectSummary,
)
from symd.rpc.wire.failures import reason_status, status_reason, to_status
from symd.rpc.wire.fields import (
    Conversion,
    bad_field,
    chunks_of,
    digest_and_path,
    from_time,
    module_digest,
    module_name,
    record,
    to_timestamp,
    utf8,
    utf8s,
    wrong_field,
)
from symd.v1 import fact_pb2, module_pb2, name_service_pb2
from symd.v1.module_pb2 import PackedDescription
from symd.v1.module_service_pb2 import UpdateModuleRequest, UploadHeader, UploadModuleRequest

SIGNED_END = 1 << 63
UNSIGNED_END = 1 << 64


def to_facts(facts: Mapping[str, Any]) -> list[fact_pb2.Fact]:
    return [fact_pb2.Fact(name=utf8(name), value=to_value(value)) for name, value in facts.items()]


def from_facts(facts: Iterable[fact_pb2.Fact]) -> dict[str, Any]:
    return {fact.name: from_value(fact.value) for fact in facts}


def facts_text(facts: Mapping[str, Any]) -> str:
    """The facts as a JSON object; "" where there are none, and where JSON cannot write them."""
    plain = _plain(facts)
    try:
        text = json.dumps(plain, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
        text.encode()
    except (ValueError, RecursionError):  # not a number, or half a surrogate pair
        return ""
    return text if plain else ""


def _plain(facts: Mapping[str, Any]) -> dict[str, Any]:
    return dict(facts.items())  # read once: facts may be unpacked whenever somebody looks


def from_facts_text(text: str) -> dict[str, Any]:
    """Raises ``Malformed``."""
    try:
        facts = json.loads(text)
    except (ValueError, RecursionError):
        facts = None
    if not isinstance(facts, dict):
        raise Malformed(
            "the daemon's facts of a kernel are not a JSON object", hint="use versions that belong together"
        )
    return facts


def to_value(value: Any) -> fact_pb2.FactValue:  # noqa: PLR0911 - one line a kind of value
    """One value; raises ``TypeError`` for what JSON does not have, which is a defect of the reader that made it."""
    match value:
        case None:
            return fact_pb2.FactValue()
        case bool():
            return fact_pb2.FactValue(boolean=value)
        case int() if -SIGNED_END <= value < SIGNED_END:
            return fact_pb2.FactValue(integer=value)
        case int() if SIGNED_END <= value < UNSIGNED_END:
            return fact_pb2.FactValue(large=value)
        case int():
            return fact_pb2.FactValue(text=str(value))
        case float():
            return fact_pb2.FactValue(number=value)
        case str():
            return fact_pb2.FactValue(text=utf8(value))
        case Mapping():
            return fact_pb2.FactValue(map=fact_pb2.FactMap(facts=to_facts(value)))
        case list() | tuple():
            return fact_pb2.FactValue(list=fact_pb2.FactList(values=map(to_value, value)))
    raise TypeError(f"a fact cannot be a {type(value).__name__}")


def from_value(message: fact_pb2.FactValue) -> Any:
    """The value; lists come back as lists, also where they were tuples."""
    match message.WhichOneof("kind"):
        case None:
            return None
        case "list":
            return [from_value(value) for value in message.list.values]
        case "map":
            return from_facts(message.map.facts)
        case kind:
            return getattr(message, kind)


VERSION: Final = 1
"""The version of the packed description of a module, which changes with ``symd.index.summary``."""
MOST_PACKED: Final = 1 << 20
"""Bytes of one that is sent."""
MOST_UNPACKED: Final = 64 << 20
"""Bytes of one that is read, unpacked."""
_DAMAGED: Final = (ValueError, TypeError, RecursionError, msgpack.UnpackException)


def to_packed(summary: bytes | None) -> PackedDescription | None:
    """``summary`` is a summary as an index file has it, or None; None too for one that is too large for a message."""
    if summary is None or len(summary) > MOST_PACKED or not _has_believable_size(summary):
        return None
    return PackedDescription(version=VERSION, data=summary)


def from_packed(message: PackedDescription) -> ModuleSummary | None:
    """The description in its packed form; None where the version is unknown. Raises ``Malformed``."""
    if message.version != VERSION:
        return None

    try:
        if not _has_believable_size(message.data):
            raise ValueError("no believable size")
        data = zstandard.ZstdDecompressor().decompress(message.data, max_output_size=MOST_UNPACKED)
        return _module(msgpack.unpackb(data, **UNPACKING))
    except (zstandard.ZstdError, MemoryError, *_DAMAGED) as error:
        raise Malformed(
            f"the daemon's description of a module does not read: {error}", hint="use versions that belong together"
        ) from error


def _has_believable_size(packed: bytes) -> bool:
    try:
        return 0 <= zstandard.frame_content_size(packed) <= MOST_UNPACKED
    except zstandard.ZstdError:
        return False


def _module(fields: list[Any]) -> ModuleSummary:
    digest, size, form, objects, notes, containers = _typed(fields, str, int, str, list, list, list)
    opened = tuple(map(_container, containers))
    return ModuleSummary(Digest(digest), size, form, tuple(map(_object, objects)), _texts(notes), opened)


def _object(fields: list[Any]) -> ObjectSummary:
    types = str, str, str | None, int, str, str, list, dict, list
    path, form, target, size, digest, debug, kernels, facts, notes = _typed(fields, *types)
    described = tuple(map(_kernel, kernels))
    return ObjectSummary(ObjectPath(path), form, target, size, Digest(digest), debug, described, facts, _texts(notes))


def _kernel(fields: list[Any]) -> KernelSummary:
    if tuple(map(type, fields)) not in _KERNEL:
        raise ValueError("a kernel has other fields")
    return KernelSummary(*fields)


def _container(fields: list[Any]) -> ContainerSummary:
    return ContainerSummary(*_typed(fields, str, str, int, dict))


def _texts(values: list[Any]) -> tuple[str, ...]:
    return tuple(_typed(values, *[str] * len(values)))


def _typed(fields: list[Any], *types: Any) -> list[Any]:
    """The fields, where they have these types. Raises ValueError."""
    if not all(isinstance(field, kind) for field, kind in zip(fields, types, strict=True)):
        raise ValueError("a record has other fields")
    return fields


_KERNEL: Final = frozenset((str, section, int, int, int, dict) for section in (str, type(None)))
"""The types of a kernel's fields."""


_KINDS = {CodeKind.MACHINE: module_pb2.CODE_KIND_MACHINE, CodeKind.SPIRV: module_pb2.CODE_KIND_SPIRV}
_DEBUG_SCHEMES = {str(each): getattr(module_pb2, f"DEBUG_SCHEME_{each.name}") for each in DebugScheme}
_DEBUG_WORDS = {number: word for word, number in _DEBUG_SCHEMES.items()}


def to_module(
    record: ModuleRecord, summary: ModuleSummary | None = None, packed: bytes | None = None
) -> module_pb2.Module:
    """The module as the catalogue has it, and where ``summary`` says what is inside, with its contents. The catalogue
    learns the format a moment after the module: who asks in between has it from the summary. ``packed`` is the same
    summary as its index has it, for who wants all of it in one."""
    return module_pb2.Module(
        name=module_name(record.sha256),
        sha256=record.sha256,
        size_bytes=record.size,
        format=summary.format if summary else record.format,
        label=utf8(record.label),
        create_time=to_timestamp(record.create_time),
        contents=_contents(summary) if summary else None,
        failure=reason_status(record.failure) if record.failure else None,
        description=to_packed(packed),
    )


def _contents(summary: ModuleSummary) -> module_pb2.ModuleContents:
    return module_pb2.ModuleContents(
        code_object_count=len(summary.objects),
        kernel_count=sum(len(code_object.kernels) for code_object in summary.objects),
        container_count=len(summary.containers),
        notes=utf8s(summary.notes),
    )


def to_unreadable_module(record: ModuleRecord, error: SymdError) -> module_pb2.Module:
    """The message of a module of the catalogue, where looking inside it failed with ``error``."""
    module = to_module(record)
    module.failure.CopyFrom(to_status(error))
    return module


def from_record(module: module_pb2.Module) -> ModuleRecord:
    """What the catalogue says of the module."""
    create_time = from_time(module.create_time)
    failure = status_reason(module.failure) if module.HasField("failure") else ""
    return ModuleRecord(Digest(module.sha256), module.size_bytes, module.format, module.label, create_time, failure)


def from_update_request(request: UpdateModuleRequest) -> tuple[str, str]:
    """(the module's digest, its new label). Raises ``InvalidInput`` when the mask names anything but the label."""
    foreign = [path for path in request.update_mask.paths if path != "label"]
    if foreign:
        raise wrong_field("update_mask", f"{foreign[0][:100]!r} of a module cannot be changed", "label can")
    return module_digest(request.module.name, "module.name"), request.module.label


def from_module(
    module: module_pb2.Module,
    objects: Iterable[module_pb2.CodeObject],
    kernels: Iterable[module_pb2.Kernel],
    containers: Iterable[module_pb2.Container] = (),
) -> ModuleSummary:
    """The module with its code objects and kernels, which come in the order of the file, and its containers."""
    remaining = iter(kernels)
    parts = tuple(from_code_object(code_object, remaining) for code_object in objects)
    around = tuple(map(from_container, containers))
    notes = tuple(module.contents.notes)
    return ModuleSummary(Digest(module.sha256), module.size_bytes, module.format, parts, notes, around)


FACTS = Conversion(to_facts, from_facts, whole=True)
to_container, from_container = record(ContainerSummary, module_pb2.Container, facts=FACTS)


def to_code_object(code_object: ObjectSummary) -> module_pb2.CodeObject:
    return module_pb2.CodeObject(
        path=utf8(code_object.path),
        format=code_object.format,
        kind=_KINDS[code_object.kind],
        target=utf8(code_object.target),
        size_bytes=code_object.size,
        sha256=code_object.sha256,
        debug=_DEBUG_SCHEMES[code_object.debug],
        kernel_count=len(code_object.kernels),
        facts=to_facts(code_object.facts),
        notes=utf8s(code_object.notes),
    )


def from_code_object(message: module_pb2.CodeObject, kernels: Iterator[module_pb2.Kernel]) -> ObjectSummary:
    """A code object, which takes its kernels from ``kernels``."""
    return ObjectSummary(
        ObjectPath(message.path),
        message.format,
        message.target if message.HasField("target") else None,
        message.size_bytes,
        Digest(message.sha256),
        _from_debug(message),
        tuple(from_kernel(kernel) for kernel in islice(kernels, message.kernel_count)),
        from_facts(message.facts),
        tuple(message.notes),
    )


def to_kernel(kernel: KernelSummary, path: str, *, as_json: bool = False) -> module_pb2.Kernel:
    """``as_json``: its facts as JSON text, where that can be."""
    text = facts_text(kernel.facts) if as_json else ""
    return module_pb2.Kernel(
        name=utf8(kernel.name),
        code_object=utf8(path),
        section=utf8(kernel.section),
        section_index=kernel.section_index,
        section_offset=kernel.offset,
        size_bytes=kernel.size,
        facts=() if text else to_facts(kernel.facts),
        facts_json=text,
    )


def from_kernel(message: module_pb2.Kernel) -> KernelSummary:
    section = message.section if message.HasField("section") else None
    return KernelSummary(
        message.name,
        section,
        message.section_index,
        message.section_offset,
        message.size_bytes,
        from_facts_text(message.facts_json) if message.facts_json else from_facts(message.facts),
    )


def _from_debug(message: module_pb2.CodeObject) -> str:
    """Raises ``Malformed``."""
    scheme = _DEBUG_WORDS.get(message.debug)
    if scheme is None:
        raise Malformed(f"the daemon's debug scheme {message.debug} is unknown here", hint="use a newer symd")
    return scheme


def to_names_request(digest: str, wanted: NameQuery, path: str | None) -> name_service_pb2.FindNamesRequest:
    return name_service_pb2.FindNamesRequest(
        module=module_name(digest),
        pattern=utf8(wanted.pattern),
        match=int(wanted.match),  # type: ignore[arg-type] # the enum's numbers are Match's own
        kinds=sorted(map(int, wanted.kinds)),  # type: ignore[arg-type] # and these are NameKind's
        code_object=utf8(path),
    )


def from_names_request(request: name_service_pb2.FindNamesRequest) -> tuple[str, NameQuery, str | None]:
    """(the module's digest, what to look for, the code object's path or None). Raises ``BadQuery``."""
    try:
        match = Match(request.match or Match.EXACT)
    except ValueError as error:
        raise bad_field("match", str(error), "see NameMatch") from None
    try:
        kinds = frozenset(map(NameKind, request.kinds))
    except ValueError as error:
        raise bad_field("kinds", str(error), "see NameKind") from None
    digest, path = digest_and_path(request)
    return digest, NameQuery(request.pattern, match, kinds), path


to_named_item, from_named_item = record(
    NamedItem, name_service_pb2.NamedItem, kind=Conversion(int, NameKind), facts=FACTS
)
MAX_NAMES_PER_CALL: Final = 10_000
"""The most modules asked for in one FindMissingModules."""


def upload_requests(header: UploadHeader, data: bytes) -> Iterator[UploadModuleRequest]:
    yield UploadModuleRequest(header=header)
    for chunk in chunks_of(data, MIB):
        yield UploadModuleRequest(chunk=chunk)
