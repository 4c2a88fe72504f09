"""Why a daemon does not serve, in words: its health is a status for each service, and what follows from several of them together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from symd.errors import SymdError

if TYPE_CHECKING:
    from symd.client import Client

WRITING: Final = "symd.v1.ModuleService"
"""One of the services that write; they do not serve while the store takes nothing."""
NOT_SERVING: Final = "NOT_SERVING"


def why_not(client: Client, service: str) -> str:
    """Why ``service``, of which the daemon said NOT_SERVING, does not serve, and what to do. Raises SymdError."""
    if not service or client.health() == NOT_SERVING:
        return f"the daemon at {client.address} is ending: it takes no further calls; start it again (symd serve) if nobody else does"
    name = service.rpartition(".")[2]
    return f"{name} does not serve: {cannot_write(_store(client), client.address)}"


def cannot_write(store: str, address: str) -> str:
    """What the daemon at ``address`` means that serves, but not its services that write; ``store`` is "" where it is not told."""
    place = f"the store {store} of the daemon at {address}" if store else f"the store of the daemon at {address}"
    look = (
        f": look at its log, df {store} and symd store check" if store else "; whoever runs it finds which in its log"
    )
    return (
        f"{place} cannot be written (its disk is full, read-only or failing, a quota is used up, or its folder was moved away{look}); "
        "questions are answered all the same"
    )


def _store(client: Client) -> str:
    try:
        return client.server_info().store
    except SymdError:  # health may be open to who may ask nothing else
        return ""
