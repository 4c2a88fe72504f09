"""symd answers which source line a GPU instruction is: `symd.Client` asks a daemon, `symd.engine` works in-process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symd.client import Client

__all__ = ("Client", "__version__")

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import gRPC only when somebody wants the client."""
    if name != "Client":
        raise AttributeError(f"module 'symd' has no attribute {name!r}")
    from symd.client import Client  # noqa: PLC0415 - see the docstring

    return Client
