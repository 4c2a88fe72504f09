"""What to build with which driver, and what the driver gave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from symd.errors import InvalidInput
from symd.model.grabs import Grabbed, GrabRequest
from symd.model.summaries import ModuleSummary
from symd.v1.module_service_pb2 import GrabModuleRequest, GrabModuleResponse, GrabResult
from symd.wire.modules import to_module
from symd.wire.text import utf8, utf8s

Api, Kind = GrabModuleRequest.Api, GrabModuleRequest.InputKind

APIS = {"level-zero": GrabModuleRequest.API_LEVEL_ZERO, "opencl": GrabModuleRequest.API_OPENCL}
KINDS = {
    "source": GrabModuleRequest.INPUT_KIND_SOURCE,
    "spirv": GrabModuleRequest.INPUT_KIND_SPIRV,
    "native": GrabModuleRequest.INPUT_KIND_NATIVE,
}
LOG = 1 << 18
"""Characters of build log in a message: at most 1 MiB of UTF-8."""


def to_grab_request(request: GrabRequest) -> GrabModuleRequest:
    """Raises ``InvalidInput`` for an API, a kind or a device that is none."""
    if request.api not in APIS or request.kind not in KINDS or request.device < 0:
        raise InvalidInput(
            f"cannot grab {request.kind} with {request.api}, device {request.device}",
            hint=f"APIs are {', '.join(APIS)}; kinds are {', '.join(KINDS)}; devices count from 0",
        )
    return GrabModuleRequest(
        api=APIS[request.api],
        kind=KINDS[request.kind],
        data=request.data,
        build_flags=request.build_flags,
        device=request.device,
        simulate=request.simulate,
        driver_root=request.driver or None,
        timeout_seconds=request.timeout,
        label=request.label,
        include_bytes=True,
    )


def from_grab_request(message: GrabModuleRequest, timeout: float) -> GrabRequest:
    """Raises ``InvalidInput`` when API or kind are not set."""
    api, kind = _word(APIS, message.api), _word(KINDS, message.kind)
    if api is None or kind is None:
        raise InvalidInput("api and kind must be set", hint="say which driver, and what the data is")
    return GrabRequest(
        api,
        kind,
        message.data,
        message.build_flags,
        message.device,
        message.simulate if message.HasField("simulate") else None,
        message.driver_root,
        timeout,
        message.label,
    )


def to_result(module: ModuleSummary, grabbed: Grabbed) -> GrabResult:
    return GrabResult(
        module=to_module(module),
        kernels=utf8s(grabbed.kernels),
        driver=utf8(grabbed.driver),
        device=utf8(grabbed.device),
    )


def log_pieces(log: str) -> Iterator[GrabModuleResponse]:
    """A build log in pieces that fit a message."""
    text = utf8(log)
    for start in range(0, len(text), LOG):
        yield GrabModuleResponse(build_log=text[start : start + LOG])


class GrabParts:
    """Gathers what a driver gave from the messages of a stream; the log is there also when the stream fails."""

    def __init__(self) -> None:
        self.result = GrabResult()
        self.build_log = ""
        self._debug_data = bytearray()
        self._native = bytearray()

    def take(self, messages: Iterable[GrabModuleResponse]) -> None:
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
