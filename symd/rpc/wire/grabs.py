"""What to build with which driver, and what the driver gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.duration_pb2 import Duration

from symd.errors import InvalidInput
from symd.model.grabs import GRAB_HINT, Grabbed, GrabRequest
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import checked_label, of_kind
from symd.rpc.wire.fields import from_time, to_duration, utf8, utf8s, wrong_field
from symd.rpc.wire.modules import to_module
from symd.v1 import module_service_pb2 as pb

APIS = {"level-zero": pb.DRIVER_API_LEVEL_ZERO, "opencl": pb.DRIVER_API_OPENCL}
KINDS = {
    "source": pb.INPUT_KIND_SOURCE,
    "spirv": pb.INPUT_KIND_SPIRV,
    "native": pb.INPUT_KIND_NATIVE,
}
USUAL_SECONDS = 60.0
"""What a driver gets when nobody says how long."""
LONGEST = 315_576_000_000
"""Seconds that a Duration holds at most."""
LOG = 1 << 18
"""Characters of build log in a message: at most 1 MiB of UTF-8."""


def to_grab_request(request: GrabRequest) -> pb.GrabModuleRequest:
    """What a daemon is asked, which compiles in another folder. Raises ``InvalidInput`` for an invalid API, kind or
    device."""
    of_kind(request, GrabRequest, GRAB_HINT)
    if request.api not in APIS or request.kind not in KINDS or request.device < 0:
        raise InvalidInput(
            f"cannot grab {request.kind} with {request.api}, device {request.device}",
            hint=f"APIs are {', '.join(APIS)}; kinds are {', '.join(KINDS)}; devices count from 0",
        )
    request = request.with_absolute_names()
    return pb.GrabModuleRequest(
        api=APIS[request.api],
        kind=KINDS[request.kind],
        data=request.data,
        build_flags=request.build_flags,
        device=request.device,
        simulate=request.simulate,
        driver=request.driver,
        timeout=_duration(request.timeout),
        label=checked_label(request.label),
        include_bytes=True,
        source_name=utf8(request.source_name),
    )


def from_grab_request(message: pb.GrabModuleRequest, remaining: float | None) -> GrabRequest:
    """What to grab. ``remaining`` is how many seconds the call itself has left, None: as many as it takes. Raises
    ``InvalidInput`` when API or kind are not set, or the timeout is below 0."""
    api, kind = _word(APIS, message.api), _word(KINDS, message.kind)
    if api is None or kind is None:
        raise wrong_field(
            "kind" if api else "api", "api and kind must be set", "say which driver, and what the data is"
        )
    return GrabRequest(
        api,
        kind,
        message.data,
        message.build_flags,
        message.device,
        message.simulate or None,
        message.driver,
        _seconds(message, remaining),
        message.label,
        message.source_name,
    )


def _seconds(message: pb.GrabModuleRequest, remaining: float | None) -> float:
    """What the driver gets: what was asked, but not beyond the call's own deadline."""
    asked = from_time(message.timeout) or USUAL_SECONDS
    if asked < 0:
        raise wrong_field("timeout", f"the timeout is {asked:g} s", "give 0 or more")
    return asked if remaining is None else min(asked, remaining)


def _duration(seconds: float) -> Duration:
    """Raises ``InvalidInput`` for what is no time."""
    if not 0 <= seconds <= LONGEST:
        raise wrong_field("timeout", f"the timeout is {seconds:g} s", "give seconds")
    return to_duration(seconds)


def to_result(record: ModuleRecord, module: ModuleSummary, grabbed: Grabbed) -> pb.GrabResult:
    return pb.GrabResult(
        module=to_module(record, module),
        kernels=utf8s(grabbed.kernels),
        driver=utf8(grabbed.driver),
        device=utf8(grabbed.device),
    )


def log_chunks(log: str) -> Iterator[pb.GrabModuleResponse]:
    """A build log in chunks that fit a message."""
    text = utf8(log)
    for start in range(0, len(text), LOG):
        yield pb.GrabModuleResponse(build_log=text[start : start + LOG])


class GrabParts:
    """Gathers what a driver gave from the messages of a stream; the log is there also when the stream fails."""

    def __init__(self) -> None:
        self.result = pb.GrabResult()
        self.build_log = ""
        self._debug_data = bytearray()
        self._native = bytearray()

    def take(self, messages: Iterable[pb.GrabModuleResponse]) -> None:
        for message in messages:
            match message.WhichOneof("part"):
                case "build_log":
                    self.build_log += message.build_log
                case "result":
                    self.result = message.result
                case "debug_data":
                    self._debug_data += message.debug_data
                case "native":
                    self._native += message.native

    def grabbed(self) -> Grabbed:
        kernels, driver, device = tuple(self.result.kernels), self.result.driver, self.result.device
        return Grabbed(bytes(self._debug_data), bytes(self._native), kernels, self.build_log, driver, device)


def _word(words: Mapping[str, int], number: int) -> str | None:
    return next((word for word, known in words.items() if known == number), None)
