"""Modules, their containers, code objects and kernels described."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from symd.errors import Malformed, SymdError
from symd.model.code import CodeKind, DebugScheme
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleRecord, ModuleSummary, ObjectSummary
from symd.rpc.wire.facts import facts_text, from_facts, from_facts_text, to_facts
from symd.rpc.wire.failures import reason_status, status_reason, to_status
from symd.rpc.wire.fields import wrong_field
from symd.rpc.wire.packed_descriptions import to_packed
from symd.rpc.wire.resource_names import module_digest, module_name
from symd.rpc.wire.text import utf8, utf8s
from symd.rpc.wire.times import from_time, to_timestamp
from symd.v1 import module_pb2
from symd.v1.module_service_pb2 import UpdateModuleRequest

_KINDS = {CodeKind.MACHINE: module_pb2.CODE_KIND_MACHINE, CodeKind.SPIRV: module_pb2.CODE_KIND_SPIRV}
_DEBUG_SCHEMES = {str(each): getattr(module_pb2, f"DEBUG_SCHEME_{each.name}") for each in DebugScheme}
_DEBUG_WORDS = {number: word for word, number in _DEBUG_SCHEMES.items()}


def to_module(
    record: ModuleRecord, summary: ModuleSummary | None = None, packed: bytes | None = None
) -> module_pb2.Module:
    """The module as the catalogue has it, and where ``summary`` says what is inside, with its contents. The catalogue learns
    the format a moment after the module: who asks in between has it from the summary. ``packed`` is the same summary as its index has
    it, for who wants all of it in one."""
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
    """The same module when looking inside failed with ``error``."""
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


def to_container(container: ContainerSummary) -> module_pb2.Container:
    return module_pb2.Container(
        path=utf8(container.path),
        format=container.format,
        size_bytes=container.size,
        facts=to_facts(container.facts),
    )


def from_container(message: module_pb2.Container) -> ContainerSummary:
    return ContainerSummary(ObjectPath(message.path), message.format, message.size_bytes, from_facts(message.facts))


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
        path=utf8(path),
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
