"""Modules, code objects and kernels described, and the catalogue's lines."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from google.protobuf.timestamp_pb2 import Timestamp

from symd.model.summaries import ContainerSummary, KernelSummary, ModuleRecord, ModuleSummary, ObjectSummary
from symd.v1 import module_pb2
from symd.wire.facts import from_facts, to_facts
from symd.wire.names import module_name
from symd.wire.text import utf8, utf8s

NANO = 1_000_000_000


def to_module(module: ModuleSummary) -> module_pb2.Module:
    return module_pb2.Module(
        name=module_name(module.sha256),
        sha256=module.sha256,
        size=module.size,
        format=module.format,
        object_count=len(module.objects),
        kernel_count=sum(len(code_object.kernels) for code_object in module.objects),
        notes=utf8s(module.notes),
        container_count=len(module.containers),
    )


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
    return ModuleSummary(module.sha256, module.size, module.format, parts, tuple(module.notes), around)


def to_container(container: ContainerSummary) -> module_pb2.Container:
    return module_pb2.Container(
        container=utf8(container.path),
        format=container.format,
        size=container.size,
        facts=to_facts(container.facts),
    )


def from_container(message: module_pb2.Container) -> ContainerSummary:
    return ContainerSummary(message.container, message.format, message.size, from_facts(message.facts))


def to_code_object(code_object: ObjectSummary) -> module_pb2.CodeObject:
    return module_pb2.CodeObject(
        object=utf8(code_object.path),
        format=code_object.format,
        target=utf8(code_object.target),
        size=code_object.size,
        sha256=code_object.sha256,
        debug=code_object.debug,
        kernel_count=len(code_object.kernels),
        facts=to_facts(code_object.facts),
        notes=utf8s(code_object.notes),
    )


def from_code_object(message: module_pb2.CodeObject, kernels: Iterator[module_pb2.Kernel]) -> ObjectSummary:
    """A code object, which takes its kernels from ``kernels``."""
    return ObjectSummary(
        message.object,
        message.format,
        message.target if message.HasField("target") else None,
        message.size,
        message.sha256,
        message.debug,
        tuple(from_kernel(kernel) for kernel in islice(kernels, message.kernel_count)),
        from_facts(message.facts),
        tuple(message.notes),
    )


def to_kernel(kernel: KernelSummary, path: str) -> module_pb2.Kernel:
    return module_pb2.Kernel(
        kernel=utf8(kernel.name),
        object=utf8(path),
        section=utf8(kernel.section),
        section_index=kernel.section_index,
        offset=kernel.offset,
        size=kernel.size,
        facts=to_facts(kernel.facts),
    )


def from_kernel(message: module_pb2.Kernel) -> KernelSummary:
    section = message.section if message.HasField("section") else None
    return KernelSummary(
        message.kernel, section, message.section_index, message.offset, message.size, from_facts(message.facts)
    )


def to_record(record: ModuleRecord) -> module_pb2.ModuleRecord:
    whole = int(record.added)
    carried, nanos = divmod(round((record.added - whole) * NANO), NANO)
    return module_pb2.ModuleRecord(
        name=module_name(record.sha256),
        sha256=record.sha256,
        size=record.size,
        format=record.format,
        label=utf8(record.label),
        add_time=Timestamp(seconds=whole + carried, nanos=nanos),
        failure=utf8(record.failure),
    )


def from_record(message: module_pb2.ModuleRecord) -> ModuleRecord:
    added = message.add_time.seconds + message.add_time.nanos / NANO
    return ModuleRecord(message.sha256, message.size, message.format, message.label, added, message.failure)
