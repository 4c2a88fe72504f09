"""Contexts: device addresses at a point in time, and watches. Here is which module's code is at a device address, and
at which ones a context has the places of a module; ``verbs`` has the rest."""

from __future__ import annotations

from collections.abc import Callable

from symd.api import ServedContextVerbs
from symd.engine.contexts.verbs import StoredContexts
from symd.engine.contexts.watches import DevicePlaces, with_device_addresses
from symd.errors import BadQuery, NotFound
from symd.index import Index
from symd.model.addresses import ByDevice
from symd.model.answers import Reason
from symd.model.breakpoints import Located
from symd.model.contexts import DevicePlace
from symd.model.identities import Digest
from symd.store.context_log import ContextLog


def code_at(contexts: ServedContextVerbs, query: ByDevice) -> DevicePlace:
    """The place in a module that a device address means, with its module and its query. Raises NotFound where no load
    holds it, BadQuery where several could be meant, and ContextNotFound."""
    found = contexts.place(query)
    if found.query is not None and found.module is not None:
        return found
    shown = f"{found.address:#x} in contexts/{query.context}"
    if found.reason is Reason.AMBIGUOUS:
        raise BadQuery(
            f"several loads could be meant by {shown}",
            hint="the answer to this address has them as candidates: ask one module",
        )
    if found.reason is Reason.UNLOADED:
        raise NotFound(f"nothing is loaded at {shown}", hint="something was, at another time: name that")
    raise NotFound(f"nothing was ever loaded at {shown}", hint="record the load, or ask by the module's own addresses")


class LoadedPlaces:
    """Finds the device addresses of places of a module in a context: those of its loads that have not ended."""

    def __init__(self, contexts: StoredContexts, context_log: ContextLog, opener: Callable[[str], Index]) -> None:
        self._contexts, self._context_log, self._opener = contexts, context_log, opener

    def addressed(self, located: Located, digest: str, context: str) -> Located:
        """Places of the module ``digest`` with their device addresses in the context. Raises ContextNotFound."""
        self._context_log.check_known([context])
        index = self._opener(digest)
        for number in self._context_log.loads_held(Digest(digest), context):
            loaded = self._context_log.load(number)
            if loaded is not None and loaded.load.segments:
                cover = self._contexts.cover(context, number)
                located = with_device_addresses(located, DevicePlaces(index, loaded, cover))
        return located
