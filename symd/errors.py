"""The one error tree of symd. Each class names the gRPC status it travels as, so that one place maps all of them.

SymdError                   INTERNAL             a defect of symd itself
+-- InvalidInput            INVALID_ARGUMENT     the bytes or the call are wrong
|   +-- NoSuchFile                               there is no such file; it is a FileNotFoundError too
|   +-- UnknownFormat                            no reader claims the bytes
|   +-- Malformed                                a reader claimed them and they contradict their format
|   +-- HashMismatch                             uploaded bytes are not the ones that were announced
|   +-- BadQuery                                 an address or a name that does not parse
|   +-- BuildFailed                              the driver's compiler refused the module; carries the build log
|   +-- DriverNotConfigured                      no driver of that name; says which the operator configured
+-- LimitExceeded           RESOURCE_EXHAUSTED   a configured budget (size, depth, expansion, count) would be passed
|   +-- Busy                                     too many long calls are running; try again later
+-- Unsupported             UNIMPLEMENTED        understood, and not something symd reads
+-- NotFound                NOT_FOUND
|   +-- ModuleNotFound
|   +-- ObjectNotFound
|   +-- KernelNotFound
|   +-- ContextNotFound
|   +-- AliasNotFound
+-- FailedPrecondition      FAILED_PRECONDITION  do not retry before something was mended
|   +-- DriverMissing                            a library or device is not installed; says what to install
|   +-- ToolMissing                              a disassembler or demangler is missing or too old; says what to install
|   +-- NoDebugData                              the driver has no debug data for this module; says why
|   +-- DriverFailed                             a driver call returned an error code
|   |   +-- DriverCrashed                        a driver died of a signal or an abort
|   +-- ToolFailed                               a program or library ran and refused; its exit code, its last words
|       +-- ToolCrashed                          it died of a signal
+-- Unauthenticated         UNAUTHENTICATED      the daemon does not know who asks; says what to show
+-- PermissionDenied        PERMISSION_DENIED    it knows, and they may not; says which right that takes
+-- DeadlineExceeded        DEADLINE_EXCEEDED
|   +-- DriverTimeout                            the driver did not come back and was ended
+-- Unavailable             UNAVAILABLE          an outside part failed; trying again may help
|   +-- ServerUnavailable                        no daemon answers at that address
|   +-- CallRefused                              one does, and has too many calls open on this connection
|   +-- StoreUnavailable                         the disk refused
|   +-- WorkerDied                               the process that read the module died; says of which signal
+-- DataLoss                DATA_LOSS            stored bytes are not what they were
+-- PositionLost            OUT_OF_RANGE         what came after that resume token is no longer known: begin anew
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from typing import Any


class SymdError(Exception):
    """What went wrong, where, and what to do about it.

    ``message`` is one sentence; ``where`` names the input (a file, a section, an offset); ``hint`` says what to do;
    ``metadata`` holds the same facts by key for programs (it becomes ``ErrorInfo.metadata``). ``retry_seconds`` is
    after how many seconds the same call may do; None: not before something changed.
    """

    status = "INTERNAL"
    reason = "INTERNAL"
    exit_code = 3
    retry_seconds: float | None = None

    def __init__(
        self, message: str, *, where: str = "", hint: str = "", metadata: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.hint = hint
        self.metadata: dict[str, str] = dict(metadata or {})

    def __str__(self) -> str:
        text = f"{self.where}: {self.message}" if self.where else self.message
        return f"{text} ({self.hint})" if self.hint else text

    def prefix_where(self, where: str) -> SymdError:
        """Put ``where``, if anything, before the place that the error names already; returns the error itself."""
        self.where = f"{where}: {self.where}" if where and self.where else where or self.where
        return self


class InvalidInput(SymdError):
    status = "INVALID_ARGUMENT"
    reason = "INVALID_INPUT"
    exit_code = 2


class NoSuchFile(InvalidInput, FileNotFoundError):
    """No file has that name. It is a FileNotFoundError too, and travels as ``InvalidInput``."""


class UnknownFormat(InvalidInput):
    reason = "UNKNOWN_FORMAT"


class Malformed(InvalidInput):
    reason = "MALFORMED"


class HashMismatch(InvalidInput):
    reason = "HASH_MISMATCH"


class BadQuery(InvalidInput):
    reason = "BAD_QUERY"


class BuildFailed(InvalidInput):
    """A compiler did not build what it was given; ``build_log`` is its own text, whole."""

    reason = "BUILD_FAILED"

    def __init__(
        self,
        message: str,
        *,
        build_log: str = "",
        where: str = "",
        hint: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, where=where, hint=hint, metadata=metadata)
        self.build_log = build_log


class DriverNotConfigured(InvalidInput):
    reason = "DRIVER_NOT_CONFIGURED"


class LimitExceeded(SymdError):
    status = "RESOURCE_EXHAUSTED"
    reason = "LIMIT_EXCEEDED"
    exit_code = 2


class Busy(LimitExceeded):
    reason = "BUSY"
    retry_seconds = 1.0


class Unsupported(SymdError):
    status = "UNIMPLEMENTED"
    reason = "UNSUPPORTED"
    exit_code = 2


class NotFound(SymdError):
    status = "NOT_FOUND"
    reason = "NOT_FOUND"
    exit_code = 1


class ModuleNotFound(NotFound):
    reason = "UNKNOWN_MODULE"


_SHOWN_PATHS = 4
"""Paths of code objects that an error names."""


class ObjectNotFound(NotFound):
    reason = "UNKNOWN_OBJECT"

    @classmethod
    def at(cls, path: str, there: Iterable[str] = (), where: str = "") -> ObjectNotFound:
        """The error for a path at which the module has no code object; ``there`` are the paths at which it has some,
        where they are known."""
        # whoever names an architecture means one of those that have it in their path, or the one that ends with it
        paths = sorted(dict.fromkeys(there), key=lambda each: path not in each)
        ending = [each for each in paths if path and each.endswith(path)]
        hint = ""
        if paths == [""]:
            hint = "the file is itself the code object: leave the path out"
        elif len(ending) == 1:
            hint = f"did you mean {ending[0][:200]!r}?"
        elif paths:
            more = f" and {len(paths) - _SHOWN_PATHS} more" if len(paths) > _SHOWN_PATHS else ""
            hint = f"there are {', '.join(repr(each[:200]) for each in paths[:_SHOWN_PATHS])}{more}"
        return cls(
            f"there is no code object {path[:200]!r}", where=where, hint=hint, metadata={"code_object": path[:200]}
        )


class KernelNotFound(NotFound):
    reason = "UNKNOWN_KERNEL"


class ContextNotFound(NotFound):
    reason = "UNKNOWN_CONTEXT"


class AliasNotFound(NotFound):
    reason = "UNKNOWN_ALIAS"


class FailedPrecondition(SymdError):
    status = "FAILED_PRECONDITION"
    reason = "FAILED_PRECONDITION"


class DriverMissing(FailedPrecondition):
    reason = "DRIVER_MISSING"


class ToolMissing(FailedPrecondition):
    reason = "TOOL_MISSING"


class NoDebugData(FailedPrecondition):
    reason = "NO_DEBUG_DATA"
    exit_code = 1


class DriverFailed(FailedPrecondition):
    reason = "DRIVER_FAILED"


class DriverCrashed(DriverFailed):
    reason = "DRIVER_CRASHED"


class ToolFailed(FailedPrecondition):
    """A tool outside of symd failed. ``metadata`` has ``tool``, its name, and ``exit_status`` where it ended by
    itself; ``module`` where it was asked about one of a store."""

    reason = "TOOL_FAILED"


class ToolCrashed(ToolFailed):
    """A tool outside of symd was ended by a signal. ``metadata`` has ``tool``, its name, and ``signal``, the
    signal's."""

    reason = "TOOL_CRASHED"


class Unauthenticated(SymdError):
    status = "UNAUTHENTICATED"
    reason = "UNAUTHENTICATED"


class PermissionDenied(SymdError):
    """Whoever asks may not do that. ``metadata`` has ``right``, the one that is missing, ``client``, who asked, and
    ``method``, for what."""

    status = "PERMISSION_DENIED"
    reason = "PERMISSION_DENIED"


class DeadlineExceeded(SymdError):
    status = "DEADLINE_EXCEEDED"
    reason = "DEADLINE_EXCEEDED"


class DriverTimeout(DeadlineExceeded):
    reason = "DRIVER_TIMEOUT"


class Unavailable(SymdError):
    status = "UNAVAILABLE"
    reason = "UNAVAILABLE"
    retry_seconds = 1.0


class ServerUnavailable(Unavailable):
    reason = "SERVER_UNAVAILABLE"


class CallRefused(Unavailable):
    """The daemon has done nothing of the call (REFUSED_STREAM: RFC 9113, 8.7): it may be made again, whatever it
    does."""

    reason = "CALL_REFUSED"


class StoreUnavailable(Unavailable):
    reason = "STORE_UNAVAILABLE"


class WorkerDied(Unavailable):
    """A process that read a module died. ``metadata`` has ``signal``, the signal's name, where it died of one."""

    reason = "WORKER_DIED"


class DataLoss(SymdError):
    status = "DATA_LOSS"
    reason = "DATA_LOSS"


class PositionLost(SymdError):
    """A watch cannot go on after a resume token. ``metadata`` has ``resume_token``, and ``limit`` where too much
    happened since."""

    status = "OUT_OF_RANGE"
    reason = "RESUME_TOKEN_LOST"
    exit_code = 1


MODULE_ERRORS = (InvalidInput, LimitExceeded, Unsupported, DataLoss, WorkerDied, DeadlineExceeded)
"""What may be wrong with one module, whose reading may have died or taken too long: questions about others are
answered."""


def extra_hint(extra: str) -> str:
    """What to install where an extra is missing. The distribution is symd-gpu: PyPI's project symd is another one."""
    return f"pip install '.[{extra}]' in a clone of symd, or with the name of a wheel instead of the dot"


def by_reason(reason: str) -> type[SymdError] | None:
    """The class whose ``reason`` this is; the way back from a wire or a stored failure. None when nobody has it."""

    def search(cls: type[SymdError]) -> type[SymdError] | None:
        if cls.reason == reason:
            return cls
        found = (search(child) for child in cls.__subclasses__())
        return next((hit for hit in found if hit), None)

    return search(SymdError)


def error_to_dict(error: SymdError) -> dict[str, Any]:
    """An error as what JSON can write; ``error_from_dict`` makes an equal one of it, in another process or later."""
    fields: dict[str, Any] = {
        "reason": error.reason,
        "message": error.message,
        "where": error.where,
        "hint": error.hint,
        "metadata": error.metadata,
    }
    if isinstance(error, BuildFailed):
        fields["build_log"] = error.build_log
    return fields


def error_from_dict(fields: Mapping[str, Any]) -> SymdError | None:
    """The error that ``error_to_dict`` wrote; None for a reason that this version does not know.

    Raises KeyError or TypeError for a mapping that no error was made into.
    """
    cls = by_reason(fields["reason"])
    rest = {name: value for name, value in fields.items() if name not in ("reason", "message")}
    return cls(fields["message"], **rest) if cls else None
