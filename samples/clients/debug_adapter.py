"""The part of a debug adapter that symd answers: a GPU kernel that stopped somewhere, in the Debug Adapter Protocol on standard input and output.

A real adapter gets the stop and the values of registers from its debugger's backend; here the stop is an argument of ``attach``, and a variable's value is
where it lives. Everything else an editor shows is symd's: frames through inlined calls, lines that can have breakpoints, breakpoints' addresses,
source text, instructions, variables in scope with their types, and where a step ends: answers say how far their row and their functions reach.
Without a device nobody knows which branches are taken, so that steps go on in the order of the code.

A stop takes three messages to a daemon: one for the stack with all variables, one for the instructions, one for the sources.

    {"type": "symd", "request": "attach", "module": "kernel.dbg", "place": "vadd+0x1b0", "server": null, "pathRules": {"/build/src": "/home/me/src"}}

Messages: https://microsoft.github.io/debug-adapter-protocol/specification
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from stepping import Stepping, code_of, holding, place_of

from symd import Client
from symd.api import Symbolizer
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import InvalidInput, NotFound, SymdError
from symd.model.addresses import ByAddress, BySection, ObjectAddress, Query, parse_query
from symd.model.answers import Answer, Frame
from symd.model.breakpoints import BreakpointLocation, FunctionName, Refusal, SourceLine
from symd.model.line_tables import MOST_AROUND, Around, Listing, ListingPart
from symd.model.sources import PathRule, SourceText
from symd.model.variables import InScope, Variable
from symd.query.disasm import disassemble
from symd.query.source_files import remapped
from symd.store import Store

LARGEST_MESSAGE = 16 << 20
LARGEST_HEADER = 4096
MOST_LINES = 500
"""Lines that one breakpointLocations request is about."""
MOST_INSTRUCTIONS = 10_000
INVALID = {"address": "0x0", "instruction": "", "presentationHint": "invalid"}
THREAD = 1
BEFORE_A_STOP = ("initialize", "attach", "configurationDone", "disconnect")
"""Requests that need no module."""
WHY = {
    Refusal.NO_SUCH_FILE: "the module has no source file of this path (pathRules name where it was compiled)",
    Refusal.AMBIGUOUS_FILE: "several source files of the module have this path",
    Refusal.NO_CODE_AT_LINE: "no code at this line",
    Refusal.PAST_END: "no code at this line, nor behind it in the file",
    Refusal.CONTRADICTORY: "the debug data contradicts itself at this line",
    Refusal.NO_SUCH_FUNCTION: "no function of this name has code",
}
"""What an editor shows of a breakpoint that has no place."""


class Ended(Exception):
    """The editor has gone, or said so."""


class Wire:
    """Messages with their lengths in front."""

    def __init__(self, reading: BinaryIO, writing: BinaryIO) -> None:
        self._reading, self._writing = reading, writing
        self._number = 0

    def receive(self) -> dict[str, Any]:
        """Raises Ended, also for what is no message: nobody knows where the next begins."""
        size = None
        while header := self._reading.readline(LARGEST_HEADER).strip():
            name, _, value = header.partition(b":")
            if name.lower() == b"content-length" and value.strip().isdigit():
                size = int(value)
        if size is None or size > LARGEST_MESSAGE:
            raise Ended
        data = self._reading.read(size)
        try:
            message = json.loads(data) if len(data) == size else None
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise Ended
        return message

    def send(self, kind: str, **members: Any) -> None:
        self._number += 1
        data = json.dumps({"seq": self._number, "type": kind, **members}).encode()
        self._writing.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self._writing.flush()


class Adapter:
    """One session. Each request is answered by the method of its name."""

    def __init__(self, wire: Wire, resources: ExitStack) -> None:
        self._wire, self._resources = wire, resources
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._sources: list[str] = []
        self._texts: dict[str, SourceText] = {}
        self._breakpoints: dict[str, list[BreakpointLocation]] = {}

    def serve(self) -> None:
        while True:
            message = self._wire.receive()
            command = message.get("command", "")
            answer = {"request_seq": message.get("seq", 0), "command": command}
            handler = getattr(self, f"on_{command}", _unknown)
            if command not in BEFORE_A_STOP and not hasattr(self, "stop"):
                handler = _not_attached
            try:
                body = handler(message.get("arguments") or {})
                self._wire.send("response", **answer, success=True, body=body or {})
            except (SymdError, KeyError, AttributeError, TypeError, ValueError) as error:
                said = str(error) if isinstance(error, SymdError) else f"a request that cannot be understood: {error}"
                self._wire.send("response", **answer, success=False, message=said)
                continue
            for event, told in self._events:
                self._wire.send("event", event=event, body=told)
            self._events.clear()
            if command == "disconnect":
                raise Ended

    def on_initialize(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        self._events.append(("initialized", {}))
        return {
            "supportsConfigurationDoneRequest": True,
            "supportsBreakpointLocationsRequest": True,
            "supportsFunctionBreakpoints": True,
            "supportsDisassembleRequest": True,
            "supportsSteppingGranularity": True,
        }

    def on_configurationDone(self, _arguments: dict[str, Any]) -> None:
        """Nothing waits for it."""

    def on_disconnect(self, _arguments: dict[str, Any]) -> None:
        """``serve`` ends after it."""

    def on_attach(self, arguments: dict[str, Any]) -> None:
        missing = [name for name in ("module", "place") if not arguments.get(name)]
        if missing:
            raise InvalidInput(
                f"attach needs {' and '.join(missing)}", hint='such as "module": "k.co", "place": "vadd+8"'
            )
        file = Path(arguments["module"])
        server = arguments.get("server")
        self.rules = [PathRule(*each) for each in (arguments.get("pathRules") or {}).items()]
        limits = Limits()
        opened = Client(server) if server else Engine(Store.temporary(limits), limits, disassemble=disassemble)
        self.symd: Symbolizer = self._resources.enter_context(opened)
        try:
            data = file.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot read the module: {error.strerror}", where=str(file)) from error
        self.digest = self.symd.add(data, file.name).sha256
        self._stop_at(parse_query(arguments["place"]), arguments.get("object"), "pause")

    def _stop_at(self, place: Query, path: str | None, reason: str) -> None:
        """The stack with its variables, of all frames at once, and how far its row and its functions reach."""
        scope = self.symd.variables(self.digest, place, path, with_ranges=True)
        if scope.at.address is None:
            raise ValueError(f"there is no code: {scope.at.reason.name}")
        self.scope: InScope = scope
        self.stop: Answer = scope.at
        self._events.append(("stopped", {"reason": reason, "threadId": THREAD, "allThreadsStopped": True}))

    def on_next(self, arguments: dict[str, Any]) -> None:
        self._step(arguments, Stepping(self.symd, self.digest, self.stop).over)

    def on_stepIn(self, arguments: dict[str, Any]) -> None:
        self._step(arguments, Stepping(self.symd, self.digest, self.stop).into)

    def on_stepOut(self, _arguments: dict[str, Any]) -> None:
        self._go_to(Stepping(self.symd, self.digest, self.stop).out(), "step")

    def _step(self, arguments: dict[str, Any], step: Callable[[str], Answer | None]) -> None:
        self._go_to(step(arguments.get("granularity") or "statement"), "step")

    def on_continue(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        """To the next breakpoint of the function in the order of the code."""
        section, here, own = self.stop.section_index or 0, self.stop.section_offset or 0, code_of(self.stop, 0)
        behind = [
            each.section_offset
            for found in self._breakpoints.values()
            for each in found
            if (each.path, each.section_index) == (self.stop.path, section)
            and each.section_offset > here
            and holding(own, each.section_offset)
        ]
        place = BySection(section, min(behind)) if behind else None
        self._go_to(place and self.symd.symbolize_one(self.digest, place, self.stop.path), "breakpoint")
        return {"allThreadsContinued": True}

    def _go_to(self, place: Answer | None, reason: str) -> None:
        """None: the kernel has ended."""
        if place is None:
            self._events.append(("terminated", {}))
        else:
            self._stop_at(place_of(place), place.path, reason)

    def on_threads(self, _arguments: dict[str, Any]) -> dict[str, Any]:
        return {"threads": [{"id": THREAD, "name": self.stop.kernel or "GPU"}]}

    def on_stackTrace(self, arguments: dict[str, Any]) -> dict[str, Any]:
        first, most = arguments.get("startFrame") or 0, arguments.get("levels") or len(self.stop.frames)
        shown = list(enumerate(self.stop.frames))[first : first + most]
        return {"stackFrames": [self._stack_frame(*each) for each in shown], "totalFrames": len(self.stop.frames)}

    def _stack_frame(self, number: int, frame: Frame) -> dict[str, Any]:
        shown = {
            "id": number + 1,
            "name": (frame.function or frame.linkage_name or "(unnamed)") + (" (inlined)" if frame.inlined else ""),
            "line": frame.line,
            "column": frame.column,
            "instructionPointerReference": reference(self.stop),
        }
        return {**shown, "source": self._source(frame.file)} if frame.file else shown

    def _source(self, file: str) -> dict[str, Any]:
        """With a reference where the text comes from symd; else, and where a rule says where the file is, the editor reads the path itself."""
        local = remapped(file, self.rules)
        source = {"name": file.rpartition("/")[2], "path": local}
        if local != file or self._text(file).text is None:
            return source
        if file not in self._sources:
            self._sources.append(file)
        return {**source, "sourceReference": self._sources.index(file) + 1}

    def _text(self, file: str) -> SourceText:
        """A source, asked for with those of all frames of the stop, and then kept."""
        if file not in self._texts:
            files = list(dict.fromkeys([file, *(frame.file for frame in self.stop.frames if frame.file)]))
            self._texts.update(zip(files, self.symd.sources(self.digest, files), strict=True))
        return self._texts[file]

    def on_source(self, arguments: dict[str, Any]) -> dict[str, Any]:
        number = (arguments.get("source") or {}).get("sourceReference") or arguments["sourceReference"]
        if not 0 < number <= len(self._sources):
            raise ValueError(f"there is no source {number}")
        found = self._text(self._sources[number - 1])
        if found.text is None:
            raise ValueError(found.problem)
        return {"content": found.text}

    def on_breakpointLocations(self, arguments: dict[str, Any]) -> dict[str, Any]:
        file, first = arguments["source"]["path"], arguments["line"]
        last = min(arguments.get("endLine") or first, first + MOST_LINES)
        found = {
            (place.line, place.column)
            for line in range(first, last + 1)
            for place in self.symd.locate(
                self.digest, SourceLine(file, line), every_address=True, rules=self.rules
            ).locations
        }
        return {
            "breakpoints": [{"line": line, **({"column": column} if column else {})} for line, column in sorted(found)]
        }

    def on_setBreakpoints(self, arguments: dict[str, Any]) -> dict[str, Any]:
        source = arguments["source"]
        wanted = arguments.get("breakpoints") or ()
        lines = [SourceLine(source["path"], each["line"], each.get("column") or 0) for each in wanted]
        self._breakpoints[source["path"]] = []
        return {
            "breakpoints": [
                self._breakpoint(source["path"], each, {"line": each.line, "source": source}) for each in lines
            ]
        }

    def on_setFunctionBreakpoints(self, arguments: dict[str, Any]) -> dict[str, Any]:
        names = [FunctionName(each["name"]) for each in arguments.get("breakpoints") or ()]
        self._breakpoints[""] = []
        return {"breakpoints": [self._breakpoint("", each, {}) for each in names]}

    def _breakpoint(self, of: str, where: SourceLine | FunctionName, asked: dict[str, Any]) -> dict[str, Any]:
        """A breakpoint beside those of a file, or ("") of functions, which an editor sets all at once."""
        located = self.symd.locate(self.digest, where, rules=self.rules)
        self._breakpoints[of] += located.locations
        if not located.locations:
            return {"verified": False, **asked, "message": WHY.get(located.refusal, "there is no code")}
        first = located.locations[0]
        more = len(located.locations) - 1
        return {
            "verified": True,
            **asked,
            **({"line": first.line} if first.line else {}),
            **({"column": first.column} if first.column else {}),
            "instructionReference": hex(first.address),
            **({"message": f"and {more} more places"} if more else {}),
        }

    def on_scopes(self, arguments: dict[str, Any]) -> dict[str, Any]:
        frame = arguments["frameId"]
        if not 0 < frame <= len(self.stop.frames):
            raise ValueError(f"there is no frame {frame}")
        return {
            "scopes": [
                {"name": name, "variablesReference": frame * 3 + number, "expensive": False, "presentationHint": hint}
                for number, (name, hint) in enumerate(
                    (("Arguments", "arguments"), ("Locals", "locals"), ("Globals", "globals"))
                )
            ]
        }

    def on_variables(self, arguments: dict[str, Any]) -> dict[str, Any]:
        frame, kind = divmod(arguments["variablesReference"], 3)
        if not 0 < frame <= len(self.stop.frames):
            raise ValueError("there are no such variables")
        wanted = ("parameter", "local", "global")[kind]
        visible = self.scope.visible.variables
        shown = [each for each in visible if each.kind == wanted and (kind == 2 or each.frame == frame - 1)]
        return {"variables": [self._variable(each, shown) for each in shown]}

    def _variable(self, variable: Variable, shown: Sequence[Variable]) -> dict[str, Any]:
        """An editor shows a list of names: which of two is meant is told by the line of the declaration."""
        name = variable.name or "(unnamed)"
        if variable.declared_line and sum(each.name == variable.name for each in shown) > 1:
            name += f" (line {variable.declared_line})"
        value = variable.location or ("<not here>" if variable.live else "<optimized out>")
        if any(each.doubt for each in variable.locations):
            value += " (doubtful)"
        return {"name": name, "type": variable.type, "value": value, "variablesReference": 0}

    def on_disassemble(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Exactly as many instructions as are wanted: what lies outside of the code is said to be invalid."""
        count = arguments["instructionCount"]
        if not 0 <= count <= MOST_INSTRUCTIONS:
            raise ValueError(f"at most {MOST_INSTRUCTIONS} instructions")
        address = int(arguments["memoryReference"], 0) + (arguments.get("offset") or 0)
        first = arguments.get("instructionOffset") or 0
        before, after = (min(max(number, 0), MOST_AROUND) for number in (-first, first + count - 1))
        part = ListingPart(self.stop.path, Around(ByAddress(ObjectAddress(address)), before, after))
        try:
            (listing,) = self.symd.listing(self.digest, part)
        except NotFound:
            return {"instructions": [INVALID] * count}
        starts = [answer.address or 0 for answer in listing.answers]
        at = sum(start <= address for start in starts) - 1
        numbers = range(at + first, at + first + count)
        return {"instructions": [self._instruction(listing, number) for number in numbers]}

    def _instruction(self, listing: Listing, number: int) -> dict[str, Any]:
        if not 0 <= number < len(listing):
            return INVALID
        answer, text = listing.answers[number], listing.text[number]
        shown: dict[str, Any] = {
            "address": reference(answer),
            "instructionBytes": listing.code[number].hex(" "),
            "instruction": text,
            "symbol": answer.kernel or "",
        }
        if answer.frames and answer.frames[0].file:
            shown |= {"line": answer.frames[0].line, "location": {"path": remapped(answer.frames[0].file, self.rules)}}
        return shown


def _unknown(_arguments: dict[str, Any]) -> None:
    raise ValueError("this request is not answered here")


def _not_attached(_arguments: dict[str, Any]) -> None:
    raise InvalidInput("no module is open: attach comes first, and failed or did not come")


def reference(answer: Answer) -> str:
    """An address as the protocol has it."""
    return hex(answer.address or 0)


def main() -> None:
    with ExitStack() as resources:
        try:
            Adapter(Wire(sys.stdin.buffer, sys.stdout.buffer), resources).serve()
        except Ended:
            return


if __name__ == "__main__":
    main()
