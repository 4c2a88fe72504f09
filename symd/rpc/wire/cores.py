"""GPU core dumps, there and back: the dump in one message, each stack in one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.model.cores import (
    CoreDevice,
    CoreDump,
    CoreFault,
    CoreFrame,
    CoreImage,
    CorePlace,
    CoreStack,
    CoreValue,
    CoreWave,
)
from symd.rpc.wire.answers import from_frame
from symd.rpc.wire.fields import (
    Conversion,
    bad_field,
    checked_module_name,
    from_reason,
    module_digest,
    module_name,
    record,
    utf8,
    utf8s,
)
from symd.rpc.wire.modules import from_facts, to_facts
from symd.v1 import core_service_pb2 as pb
from symd.v1 import location_pb2

MOST_MODULES = 100
STACK_BYTES, FRAME_BYTES, WAVE_BYTES = 512, 512, 256
"""About what a stack takes beside its parts, a frame that several stacks may share, and a wave."""
REFERENCE_BYTES = 8
_KINDS: dict[Literal["pc", "error_pc", "return"], pb.CoreCallKind] = {
    "pc": pb.CORE_CALL_KIND_PC,
    "error_pc": pb.CORE_CALL_KIND_ERROR_PC,
    "return": pb.CORE_CALL_KIND_RETURN,
}
_KIND_WORDS = {number: kind for kind, number in _KINDS.items()}


def _to_frame(frame: Frame) -> location_pb2.Frame:
    texts = {name: utf8(getattr(frame, name)) for name in ("function", "linkage_name", "file")}
    return location_pb2.Frame(
        **texts, line=frame.line, column=frame.column, inlined=frame.inlined, start_line=frame.start_line
    )


_DEVICE = record(CoreDevice, pb.CoreDevice, {"name": "display_name"})
_IMAGE = record(
    CoreImage,
    pb.CoreImage,
    {"name": "label", "answered_path": "answered_code_object"},
    text=Conversion(lambda ends: pb.CoreRange(start=ends[0], end=ends[1]), lambda found: (found.start, found.end)),
    answered_by=Conversion(lambda by: by and module_name(by), lambda name: name and module_digest(name)),
)
_FRAME = record(
    CoreFrame,
    pb.CoreCall,
    kind=Conversion(_KINDS.__getitem__, lambda number: _KIND_WORDS.get(number, "pc")),
    place=record(CorePlace, pb.CorePlace),
    reason=Conversion(int, from_reason),
    frames=Conversion(_to_frame, from_frame),
)
_INDEX = Conversion(
    lambda index: pb.CoreIndex(x=index[0], y=index[1], z=index[2]), lambda found: (found.x, found.y, found.z)
)
_STACK = record(
    CoreStack,
    pb.CoreStack,
    {"frames": "calls", "values": "variables"},
    fault=record(CoreFault, pb.CoreFault, {"name": "label"}),
    frames=_FRAME,
    waves=record(CoreWave, pb.CoreWave, block=_INDEX, thread=_INDEX),
    values=record(CoreValue, pb.CoreVariable),
)


def to_request(digest: str, modules: Sequence[str]) -> pb.ReadCoreRequest:
    return pb.ReadCoreRequest(module=checked_module_name(digest), debug_modules=map(checked_module_name, modules))


def from_request(request: pb.ReadCoreRequest) -> tuple[str, list[str]]:
    """(the dump's digest, those of further modules). Raises ``BadQuery``."""
    if len(request.debug_modules) > MOST_MODULES:
        raise bad_field("debug_modules", f"more than {MOST_MODULES} modules")
    return module_digest(request.module), [module_digest(name, "debug_modules") for name in request.debug_modules]


def to_parts(dump: CoreDump) -> Iterator[pb.ReadCoreResponse]:
    """The messages of a stream."""
    yield pb.ReadCoreResponse(
        dump=pb.CoreDump(
            format=dump.format,
            facts=to_facts(dump.facts),
            devices=map(_DEVICE.to_message, dump.devices),
            images=map(_IMAGE.to_message, dump.images),
            notes=utf8s(dump.notes),
        )
    )
    for stack in dump.stacks:
        yield pb.ReadCoreResponse(stack=_STACK.to_message(stack))


def size_of(dump: CoreDump) -> int:
    """About the bytes of memory that the stacks of a dump take."""
    frames = len({id(frame) for stack in dump.stacks for frame in stack.frames})
    return frames * FRAME_BYTES + sum(
        STACK_BYTES
        + len(stack.frames) * REFERENCE_BYTES
        + len(stack.waves) * WAVE_BYTES
        + sum(len(text) + FRAME_BYTES for value in stack.values for text in value.values)
        for stack in dump.stacks
    )


def from_parts(parts: Iterable[pb.ReadCoreResponse]) -> CoreDump:
    """The dump of a stream. Raises ``Malformed`` where the stream does not begin with it."""
    stream = iter(parts)
    first = next(stream, pb.ReadCoreResponse())
    if not first.HasField("dump"):
        raise Malformed("a core dump's stream does not begin with the dump")
    head = first.dump
    return CoreDump(
        head.format,
        from_facts(head.facts),
        tuple(map(_DEVICE.from_message, head.devices)),
        tuple(map(_IMAGE.from_message, head.images)),
        tuple(_STACK.from_message(each.stack) for each in stream),
        tuple(head.notes),
    )
