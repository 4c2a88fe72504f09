"""``symd symbolize --context CONTEXT``: device addresses to frames, each as of a time."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import click
import numpy as np

from symd.api import ContextVerbs
from symd.cli.answer_lines import answer_text, names_nothing
from symd.cli.context_text import life_of
from symd.cli.output import MISUSED, NO, printable, write_json
from symd.errors import BadQuery
from symd.model.answers import Answer, Reason
from symd.model.contexts import ContextRecord
from symd.model.device import DeviceAnswer
from symd.model.json.answers import answer_json, unreadable_query_json
from symd.model.times import LATEST_TIME
from symd.query.demangler import Demangler

_QUERY = re.compile(r"(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20})(?:@([0-9]{1,19}))?", re.ASCII)


class DeviceQuery(NamedTuple):
    """A device address as of a time, nanoseconds of the context's clock; None: the latest that has something there."""

    address: int
    time: int | None


class DeviceSession:
    """Answers batches of device addresses in one context, and counts what went wrong. ``time`` is that of addresses without one;
    None: after everything that was told, or of what is unloaded by then, where nothing is loaded any more, just before the last
    module went."""

    def __init__(
        self,
        verbs: ContextVerbs,
        record: ContextRecord,
        time: int | None,
        demangler: Demangler | None,
        *,
        as_json: bool,
    ) -> None:
        self._verbs = verbs
        self._record = record
        self._time = time
        self._demangler = demangler
        self._as_json = as_json
        self._unanswered = self._unreadable = 0

    def answer(self, texts: Sequence[str]) -> None:
        """Raises ``BadQuery`` for a text that is no address."""
        self._write(texts, [_parsed(text, self._time) for text in texts])

    def follow(self, batches: Iterator[Sequence[str]]) -> None:
        """Answer line by line; what cannot be read is answered by an error in its place."""
        for texts in batches:
            for text in texts:
                try:
                    self._write([text], [_parsed(text, self._time)])
                except BadQuery as error:
                    self._refuse(text, error)
            sys.stdout.flush()

    def finish(self) -> int:
        """The exit code: 2 when an address could not be read, 1 when one names what does not exist."""
        if self._unreadable:
            click.echo(f"symd: {self._unreadable} of the addresses could not be read", err=True)
            return MISUSED
        return NO if self._unanswered else 0

    def _ask(self, queries: Sequence[DeviceQuery]) -> tuple[list[DeviceAnswer], list[int]]:
        """The answers, and as of when each is."""
        addresses = np.array([query.address for query in queries], np.uint64)
        times = [LATEST_TIME if query.time is None else query.time for query in queries]
        found = list(self._verbs.symbolize(self._record.id, addresses, np.array(times, np.int64)))
        gone = [
            number
            for number, (query, each) in enumerate(zip(queries, found, strict=True))
            if query.time is None and each.answer.reason is Reason.UNLOADED
        ]
        ended = life_of(self._verbs, self._record.id).ended if gone else None
        if ended is not None:
            for number, each in zip(
                gone, self._verbs.symbolize(self._record.id, addresses[gone], ended - 1), strict=True
            ):
                found[number], times[number] = each, ended - 1
        return found, times

    def _write(self, texts: Sequence[str], queries: Sequence[DeviceQuery]) -> None:
        found, times = self._ask(queries)
        answers = [each.answer for each in found]
        if self._demangler is not None:
            answers = self._demangler.answers(answers)
        for text, time, each, answer in zip(texts, times, found, answers, strict=True):
            self._unanswered += names_nothing(answer)
            if self._as_json:
                write_json(device_answer_json(text, time, each, answer))
            else:
                sys.stdout.write(device_answer_text(text, each, answer))

    def _refuse(self, text: str, error: BadQuery) -> None:
        self._unreadable += bool(text)
        said = str(error) if text else "an empty line"
        if self._as_json:
            write_json(unreadable_query_json(text, said))
        else:
            sys.stdout.write(f"{printable(text)}: error: {printable(said)}\n")


def device_answer_json(text: str, time: int, found: DeviceAnswer, answer: Answer) -> dict[str, object]:
    """One answer. ``time`` is null where it is after everything that was told."""
    fields = answer_json(text, answer)
    fields |= {
        "device_address": found.address,
        "time": None if time == LATEST_TIME else time,
        "module": None if found.module is None else f"modules/{found.module}",
    }
    if found.candidates:
        fields["loads"] = [
            {"module": f"modules/{each.module}", "object": each.path, "device_address": each.address}
            for each in found.candidates
        ]
    return fields


def device_answer_text(text: str, found: DeviceAnswer, answer: Answer) -> str:
    """The answer as for other addresses, and the module it is from."""
    module = f"  in modules/{found.module}\n" if found.module is not None else ""
    could = "".join(f"  could be in modules/{each.module}\n" for each in found.candidates)
    return answer_text(text, answer) + module + could


def _parsed(text: str, default: int | None) -> DeviceQuery:
    found = _QUERY.fullmatch(text.strip())
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    hint = "write ADDRESS or ADDRESS@TIME, with decimal or 0x numbers, the time in nanoseconds"
    if not found:
        raise BadQuery(f"{shown!r} is no device address", hint=hint)
    address = int(found[1], 16 if found[1][:2] in ("0x", "0X") else 10)
    query = DeviceQuery(address, int(found[2]) if found[2] else default)
    if address >= 1 << 64 or (query.time or 0) > LATEST_TIME:
        raise BadQuery(f"{shown!r} has a number that does not fit", hint=hint)
    return query
