"""What samples call their modules, and which module that is."""

from __future__ import annotations

from collections.abc import Sequence

from symd.api import Symbolizer
from symd.model.answers import Reason
from symd.model.identities import is_digest, named_digest
from symd.profiles.resolver import IdentifiedModule, LookupTarget, NamedModule, Resolver
from symd.profiles.sample_tables.places import TargetTexts


class SampleModuleNames:
    """Names of the modules that a user gave, and of all that the symbolizer has: SHA-256 (also of a code object inside a module that was
    given; also as ``modules/SHA256``), the identity or the file's name of one that was given, the label of one that the symbolizer
    has."""

    def __init__(self, symbolizer: Symbolizer, modules: Sequence[NamedModule]) -> None:
        self._symbolizer = symbolizer
        self._resolver = Resolver(symbolizer, modules)
        self._digests = tuple({module.digest for module in modules})
        self._identified: dict[str, IdentifiedModule | Reason] = {}
        self._labelled: dict[str, IdentifiedModule | Reason] | None = None

    def target(self, texts: TargetTexts) -> LookupTarget | Reason:
        """What numbers count from that stand beside these texts. Without a module: from the kernel of that name in those that were
        given; or in the only one."""
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
