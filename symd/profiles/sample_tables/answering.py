"""The location of each row of a table of samples: rows of one module, or of one context, are one question; and the
module that each name in a table stands for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from symd.api import Symbolizer
from symd.errors import (
    MODULE_ERRORS,
    BadQuery,
    Busy,
    ContextNotFound,
    DeadlineExceeded,
    LimitExceeded,
    ModuleNotFound,
    ObjectNotFound,
    SymdError,
)
from symd.model.answers import Reason
from symd.model.columns import I64, U32, U64
from symd.model.contexts import Times
from symd.model.identities import is_digest, named_digest
from symd.profiles.resolver import IdentifiedModule, LookupTarget, NamedModule, Resolver
from symd.profiles.sample_tables import NumberColumn, Places, Rows, TargetTexts
from symd.profiles.sample_tables.location_registry import LocationRegistry


class SampleModuleNames:
    """Names of the modules that a user gave, and of all that the symbolizer has: SHA-256 (also of a code object inside
    a module that was given; also as ``modules/SHA256``), the identity or the file's name of one that was given, the
    label of one that the symbolizer has."""

    def __init__(self, symbolizer: Symbolizer, modules: Sequence[NamedModule]) -> None:
        self._symbolizer = symbolizer
        self._resolver = Resolver(symbolizer, modules)
        self._digests = tuple({module.digest for module in modules})
        self._identified: dict[str, IdentifiedModule | Reason] = {}
        self._labelled: dict[str, IdentifiedModule | Reason] | None = None

    def target(self, texts: TargetTexts) -> LookupTarget | Reason:
        """What numbers count from that are beside these texts. Without a module: from the kernel of that name in
        those that were given; or in the only one."""
        if texts.module is not None:
            return self._in(self._named(texts.module), texts)
        if len(self._digests) == 1:
            return self._in(IdentifiedModule(self._digests[0]), texts)
        if texts.kernel is not None:
            return self._resolver.kernel(texts.kernel)
        return Reason.AMBIGUOUS if self._digests else Reason.UNKNOWN_MODULE

    def forget_unknown(self) -> None:
        """Look for modules again that nobody had: they may have come since."""
        self._identified = {name: found for name, found in self._identified.items() if not isinstance(found, Reason)}
        self._labelled = None

    def _in(self, found: IdentifiedModule | Reason, texts: TargetTexts) -> LookupTarget | Reason:
        if isinstance(found, Reason):
            return found
        return LookupTarget(found.digest, kernel=texts.kernel, path=texts.path if found.path is None else found.path)

    def _named(self, name: str) -> IdentifiedModule | Reason:
        if name not in self._identified:
            found = self._resolver.identified(named_digest(name) or name)
            if found is Reason.UNKNOWN_MODULE and not is_digest(name.lower()):
                found = self._labels().get(name, found)
            self._identified[name] = found
        return self._identified[name]

    def _labels(self) -> dict[str, IdentifiedModule | Reason]:
        if self._labelled is None:
            self._labelled = {}
            for record in self._symbolizer.modules():
                again = record.label in self._labelled
                self._labelled[record.label] = Reason.AMBIGUOUS if again else IdentifiedModule(record.sha256)
        return self._labelled


MAX_NOTES = 1000
NO_MODULE = "no module was given"
"""The note where samples do not say which module they are of, and none was given."""
_NOTE_CHARACTERS = 300
_SECONDS_OF_A_MODULE = ("build_seconds", "question_seconds")
"""The limits of the time that reading one module takes."""


class SampleAnswering:
    """Asks the symbolizer, and puts the locations of its answers into ``registry``. ``notes`` say, once each, why
    modules and contexts could not be asked. Not safe to use from several threads at once."""

    def __init__(self, symbolizer: Symbolizer, names: SampleModuleNames, registry: LocationRegistry) -> None:
        self._symbolizer = symbolizer
        self._names = names
        self.registry = registry
        self.notes: dict[str, None] = {}

    def entries(self, places: Places) -> U32:
        """For each row its entry of the registry. A row that names no place has entry 0. Raises what a symbolizer
        raises that cannot answer at all: one that is out of reach, busy, or too slow to take the question."""
        self._names.forget_unknown()
        found = np.zeros(places.count, np.uint32)
        device, in_kernel, at_address = places.kinds()
        if places.device_address is not None:
            for context, rows in places.by_context(device):
                times = None if places.times is None else places.times[rows]
                found[rows] = self._as_of(context, places.device_address.values[rows], times)
        for column, kind in ((places.offset, in_kernel), (places.address, at_address)):
            if column is None:
                continue
            for texts, rows in places.by_target(kind, in_kernel=column is places.offset):
                target = self._names.target(texts)
                if isinstance(target, Reason):
                    self._note_unnamed(target, texts)
                    found[rows] = self.registry.of_reason(target)
                else:
                    found[rows] = self._in_module(target, column, rows)
        return found

    def _note_unnamed(self, reason: Reason, texts: TargetTexts) -> None:
        """Why no module, or no single one, is meant."""
        if reason is Reason.UNKNOWN_MODULE:
            part = " (a SHA-256 is written with all of its 64 digits)" if _is_part(texts.module or "") else ""
            self.note(f"no module is called {texts.module}{part}" if texts.module else NO_MODULE)
        elif reason is Reason.AMBIGUOUS and texts.module:
            self.note(f"several modules are called {texts.module}")
        elif reason is Reason.AMBIGUOUS and texts.kernel:
            self.note(f"several modules have a kernel {texts.kernel}, and the samples do not say which is meant")
        elif reason is Reason.AMBIGUOUS:
            self.note("several modules were given, and the samples do not say which is meant")

    def _in_module(self, target: LookupTarget, column: NumberColumn, rows: Rows) -> U32 | int:
        def ask() -> U32:
            answers = self._symbolizer.symbolize_column(
                target.digest, column.values[rows], kernel=target.kernel, path=target.path
            )
            return self.registry.of_answers(target.digest, answers)

        return self._answered(f"modules/{target.digest}", ask)

    def _as_of(self, context: str, addresses: U64, times: I64 | None) -> U32 | int:
        """``_in_context``, where times may be below 0: nothing was loaded then."""
        if times is None or not (times < 0).any():
            return self._in_context(context, addresses, times)
        told = times >= 0
        self.note(f"contexts/{context.removeprefix('contexts/')}: there are times below 0")
        found = np.full(len(addresses), self.registry.of_reason(Reason.UNKNOWN_MODULE), np.uint32)
        found[told] = self._in_context(context, addresses[told], times[told])
        return found

    def _in_context(self, context: str, addresses: U64, times: Times) -> U32 | int:
        name = context.removeprefix("contexts/")

        def ask() -> U32:
            try:
                found = self._symbolizer.contexts.symbolize(name, addresses, times)
            except BadQuery as error:  # no context is called so
                raise ContextNotFound("a context's id is 32 hexadecimal digits, as `symd contexts` lists it") from error
            return self.registry.of_device_answers(found)

        return self._answered(f"contexts/{name}", ask)

    def _answered(self, where: str, ask: Callable[[], U32]) -> U32 | int:
        """The entries, or the entry of the reason why what is at ``where`` cannot be asked."""
        try:
            return ask()
        except ObjectNotFound:
            return self.registry.of_reason(Reason.UNKNOWN_KERNEL)
        except (ModuleNotFound, ContextNotFound) as error:
            return self._refused(where, error, Reason.UNKNOWN_MODULE)
        except MODULE_ERRORS as error:
            if _is_of_the_call(error):
                raise
            return self._refused(where, error, Reason.MALFORMED)

    def _refused(self, where: str, error: SymdError, reason: Reason) -> int:
        self.note(f"{where}: {error.message}")
        return self.registry.of_reason(reason)

    def note(self, text: str) -> None:
        """Add a note, once; of very many the first are kept."""
        if len(self.notes) < MAX_NOTES:
            self.notes[text if len(text) <= _NOTE_CHARACTERS else f"{text[:_NOTE_CHARACTERS]}..."] = None


def _is_part(name: str) -> bool:
    """Whether this is the beginning of a SHA-256, with which other verbs name a module."""
    return re.fullmatch(r"(modules/)?[0-9a-fA-F]{6,63}", name) is not None


def _is_of_the_call(error: SymdError) -> bool:
    """Whether a daemon that has too much to do did not come to the question, so that nothing is known of what was asked
    about."""
    limit = error.metadata.get("limit")
    if isinstance(error, DeadlineExceeded):
        return limit not in _SECONDS_OF_A_MODULE
    return isinstance(error, Busy) or (isinstance(error, LimitExceeded) and limit == "question_seconds")
