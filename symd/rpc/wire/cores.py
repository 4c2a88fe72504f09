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
from symd.rpc.wire.fields import bad_field, checked_module_name, from_reason, module_digest, module_name, utf8, utf8s
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
            devices=[pb.CoreDevice(number=n, display_name=utf8(name), target=utf8(t)) for n, name, t in dump.devices],
            images=map(_to_image, dump.images),
            notes=utf8s(dump.notes),
        )
    )
    for stack in dump.stacks:
        yield pb.ReadCoreResponse(stack=_to_stack(stack))


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
        tuple(CoreDevice(each.number, each.display_name, _present(each, "target")) for each in head.devices),
        tuple(map(_from_image, head.images)),
        tuple(_from_stack(each.stack) for each in stream),
        tuple(head.notes),
    )


def _present(message: pb.CoreDevice | pb.CoreImage, name: str) -> str | None:
    return str(getattr(message, name)) if message.HasField(name) else None


def _to_image(image: CoreImage) -> pb.CoreImage:
    return pb.CoreImage(
        label=utf8(image.name),
        target=utf8(image.target),
        text=[pb.CoreRange(start=start, end=end) for start, end in image.text],
        code_object=utf8(image.path),
        answered_by=module_name(image.answered_by) if image.answered_by else image.answered_by,
        answered_code_object=utf8(image.answered_path),
        notes=utf8s(image.notes),
        bias=image.bias,
    )


def _from_image(message: pb.CoreImage) -> CoreImage:
    by = _present(message, "answered_by")
    return CoreImage(
        message.label,
        _present(message, "target"),
        tuple((each.start, each.end) for each in message.text),
        _present(message, "code_object"),
        module_digest(by) if by else by,
        message.answered_code_object,
        tuple(message.notes),
        message.bias if message.HasField("bias") else None,
    )


def _to_stack(stack: CoreStack) -> pb.CoreStack:
    return pb.CoreStack(
        device=stack.device,
        grid=stack.grid,
        kernel=utf8(stack.kernel),
        fault=None if stack.fault is None else _to_fault(stack.fault),
        active=stack.active,
        pc=stack.pc,
        error_pc=stack.error_pc,
        calls=map(_to_call, stack.frames),
        waves=map(_to_wave, stack.waves),
        variables=map(_to_value, stack.values),
        notes=utf8s(stack.notes),
    )


def _from_stack(message: pb.CoreStack) -> CoreStack:
    fault = message.fault
    return CoreStack(
        message.device,
        message.grid if message.HasField("grid") else None,
        message.kernel if message.HasField("kernel") else None,
        CoreFault(fault.number, fault.label, fault.meaning) if message.HasField("fault") else None,
        message.active,
        message.pc,
        message.error_pc if message.HasField("error_pc") else None,
        tuple(map(_from_call, message.calls)),
        tuple(map(_from_wave, message.waves)),
        tuple(map(_from_value, message.variables)),
        tuple(message.notes),
    )


def _to_fault(fault: CoreFault) -> pb.CoreFault:
    return pb.CoreFault(number=fault.number, label=utf8(fault.name), meaning=utf8(fault.meaning))


def _to_call(frame: CoreFrame) -> pb.CoreCall:
    place = None
    if frame.place is not None:
        place = pb.CorePlace(**frame.place._replace(function=utf8(frame.place.function))._asdict())
    return pb.CoreCall(
        kind=_KINDS[frame.kind],
        address=frame.address,
        place=place,
        reason=int(frame.reason),  # type: ignore[arg-type] # the enum's numbers are Reason's own
        frames=map(_to_frame, frame.frames),
    )


def _to_frame(frame: Frame) -> location_pb2.Frame:
    texts = {name: utf8(getattr(frame, name)) for name in ("function", "linkage_name", "file")}
    return location_pb2.Frame(
        **texts, line=frame.line, column=frame.column, inlined=frame.inlined, start_line=frame.start_line
    )


def _from_call(message: pb.CoreCall) -> CoreFrame:
    at = message.place
    place = CorePlace(at.image, at.section_index, at.section_offset, at.function, at.function_offset)
    return CoreFrame(
        _KIND_WORDS.get(message.kind, "pc"),
        message.address,
        place if message.HasField("place") else None,
        from_reason(message.reason),
        tuple(map(from_frame, message.frames)),
    )


def _to_wave(wave: CoreWave) -> pb.CoreWave:
    return pb.CoreWave(
        unit=wave.unit, wave=wave.wave, block=_to_index(wave.block), lanes=wave.lanes, thread=_to_index(wave.thread)
    )


def _from_wave(message: pb.CoreWave) -> CoreWave:
    block = _from_index(message.block) if message.HasField("block") else None
    thread = _from_index(message.thread) if message.HasField("thread") else None
    return CoreWave(message.unit, message.wave, block, message.lanes, thread)


def _to_index(index: tuple[int, int, int] | None) -> pb.CoreIndex | None:
    return None if index is None else pb.CoreIndex(x=index[0], y=index[1], z=index[2])


def _from_index(message: pb.CoreIndex) -> tuple[int, int, int]:
    return message.x, message.y, message.z


def _to_value(value: CoreValue) -> pb.CoreVariable:
    return pb.CoreVariable(
        name=utf8(value.name),
        type=utf8(value.type),
        function=utf8(value.function),
        inlined=value.inlined,
        location=utf8(value.location),
        lanes=value.lanes,
        values=utf8s(value.values),
    )


def _from_value(message: pb.CoreVariable) -> CoreValue:
    return CoreValue(
        message.name,
        message.type,
        message.function if message.HasField("function") else None,
        message.inlined,
        message.location,
        tuple(message.lanes),
        tuple(message.values),
    )
