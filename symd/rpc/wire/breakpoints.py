"""Places for breakpoints, the locations and refusals that answer them, and the events of watches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getsizeof

from symd.errors import LimitExceeded, Malformed
from symd.model.addresses import ByDevice
from symd.model.breakpoints import (
    Breakpoint,
    BreakpointLocation,
    FunctionName,
    KernelName,
    Located,
    LocationSpec,
    Refusal,
    SourceLine,
)
from symd.model.sources import PathRule
from symd.rpc.wire.fields import (
    bad_field,
    context_id,
    context_name,
    module_digest,
    module_name,
    optional_digest,
    optional_path,
    record,
    utf8,
    utf8s,
)
from symd.rpc.wire.queries import from_any_query, to_any_query
from symd.v1 import breakpoint_service_pb2 as pb

MAX_PATH_RULES = 100
"""Path rules of one breakpoint: every file of a module is held against each."""

MAX_TARGETS = 100
"""Targets of one breakpoint."""

MAX_TEXT = 4096
"""Characters of a breakpoint's id, place, code object and targets, and of a rule's folders: the longest path that Linux
takes (PATH_MAX)."""

BREAKPOINT_BYTES, RULE_BYTES = 256, 64
"""About what a breakpoint and a rule take beside their texts."""


def to_resolve_request(digest: str, breakpoint_: Breakpoint, context: str) -> pb.ResolveBreakpointRequest:
    """The request for a breakpoint's places. Raises ``BadQuery``."""
    return pb.ResolveBreakpointRequest(
        module=module_name(digest) if digest else "",
        breakpoint=to_breakpoint(breakpoint_),
        context=context_name(context) if context else "",
    )


def to_breakpoint(breakpoint_: Breakpoint) -> pb.Breakpoint:
    """A breakpoint as a message, without its id and its contexts. Raises ``BadQuery`` for an invalid line."""
    message = pb.Breakpoint(
        code_object=utf8(breakpoint_.path),
        targets=utf8s(breakpoint_.targets),
        every_address=breakpoint_.every_address,
        path_rules=map(_to_rule, breakpoint_.rules),
    )
    match breakpoint_.where:
        case SourceLine(file, line, column):
            where = pb.SourceLine(file=utf8(file), line=_line(line), column=_column(column))
            message.line.CopyFrom(where)
        case FunctionName(name):
            message.function = utf8(name)
        case KernelName(name):
            message.kernel = utf8(name)
        case query:
            message.address.CopyFrom(to_any_query(query))
    return message


def from_breakpoint(message: pb.Breakpoint, name: str = "", contexts: Iterable[str] = ()) -> Breakpoint:
    """Raises ``BadQuery`` when the place is missing, ``LimitExceeded`` for too many rules, targets or contexts, or too
    long a text."""
    _check_count(
        "path_rules", message.path_rules, MAX_PATH_RULES, "one rule is enough for each folder that lies elsewhere"
    )
    _check_count("targets", message.targets, MAX_TARGETS, "leave them out to mean all")
    _check_length("id", name)
    _check_length("code_object", message.code_object)
    for target in message.targets:
        _check_length("targets", target)
    for rule in message.path_rules:
        _check_length("path_rules.prefix", rule.prefix)
        _check_length("path_rules.replacement", rule.replacement)
    return Breakpoint(
        name,
        _place(message),
        message.every_address,
        optional_path(message),
        tuple(map(_from_rule, message.path_rules)),
        tuple(message.targets),
        tuple(contexts),
    )


def _place(message: pb.Breakpoint) -> LocationSpec:
    which = message.WhichOneof("where")
    if which == "address":
        return from_any_query(message.address, "breakpoint.address")
    text = message.line.file if which == "line" else getattr(message, which or "function")
    if not text:
        field = "breakpoint.line.file" if which == "line" else f"breakpoint.{which or 'where'}"
        raise bad_field(
            field, "a breakpoint names no place", "set line.file and line.line, function, kernel or address"
        )
    _check_length(f"{which}", text)
    if which == "line":
        return SourceLine(text, _line(message.line.line), message.line.column)
    return FunctionName(text) if which == "function" else KernelName(text)


def _check_count(field: str, values: Sequence[object], most: int, hint: str) -> None:
    if len(values) > most:
        raise LimitExceeded(
            f"a breakpoint has {len(values)} {field.replace('_', ' ')}, at most {most} are taken",
            hint=hint,
            metadata={"limit": field, "value": str(most)},
        )


def _check_length(field: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        raise LimitExceeded(
            f"{field} of a breakpoint has {len(text)} characters, at most {MAX_TEXT} are taken",
            hint="give a path that a system could open, or a name that a compiler writes",
            metadata={"limit": "breakpoint_text", "value": str(MAX_TEXT)},
        )


def size_of(breakpoint_: Breakpoint) -> int:
    """About the bytes of memory that a breakpoint takes."""
    texts = [
        breakpoint_.id,
        str(breakpoint_.where),
        breakpoint_.path or "",
        *breakpoint_.targets,
        *breakpoint_.contexts,
    ]
    texts += [text for rule in breakpoint_.rules for text in (rule.prefix, rule.replacement)]
    return sum(map(getsizeof, texts)) + BREAKPOINT_BYTES + RULE_BYTES * len(breakpoint_.rules)


def from_resolve_request(request: pb.ResolveBreakpointRequest) -> tuple[str, Breakpoint, str]:
    """(the module's digest or "", what to look for, the context's id or ""). Raises ``BadQuery``."""
    asked = from_breakpoint(request.breakpoint)
    in_memory = isinstance(asked.where, ByDevice)
    digest = optional_digest(request.module) if in_memory else module_digest(request.module)
    return digest, asked, context_id(request.context, "context") if request.context else ""


def _line(number: int) -> int:
    if not 0 < number < 1 << 32:
        raise bad_field("breakpoint.line.line", f"{number} is not a line", "lines count from 1")
    return number


def _column(number: int) -> int:
    if not 0 <= number < 1 << 32:
        raise bad_field(
            "breakpoint.line.column", f"{number} is not a column", "columns count from 1; 0 is the whole line"
        )
    return number


to_location, from_location = record(BreakpointLocation, pb.BreakpointLocation)
_to_rule, _from_rule = record(PathRule, pb.PathRule)


def to_refusal(answer: Located) -> pb.BreakpointRefusal | None:
    if answer.refusal is None:
        return None
    return pb.BreakpointRefusal(
        refusal=int(answer.refusal),  # type: ignore[arg-type] # the enum's numbers are Refusal's own
        candidates=utf8s(answer.candidates),
        last_line=answer.last_line or 0,
    )


def from_answer(
    requested: LocationSpec,
    locations: Iterable[pb.BreakpointLocation],
    refusal: pb.BreakpointRefusal | None,
    module: str = "",
) -> Located:
    """An answer; ``refusal`` None, or one that says nothing, stands for locations. Raises ``Malformed``."""
    found, holder = tuple(map(from_location, locations)), module_digest(module) if module else None
    if refusal is None or not refusal.refusal:
        return Located(requested, found, module=holder)
    try:
        reason = Refusal(refusal.refusal)
    except ValueError:
        raise Malformed(f"the daemon refuses with {refusal.refusal}, which is unknown here") from None
    return Located(requested, found, reason, tuple(refusal.candidates), refusal.last_line or None, holder)
