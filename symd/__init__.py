"""symd answers which source line a GPU instruction is.

``symd.open(FILE)`` reads a module in this process, ``symd.Client`` and ``symd.AsyncClient`` ask a daemon. Importing
symd imports nothing else; each name is imported when it is first used."""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import


def found(package: str, homes: dict[str, str], name: str) -> object:
    """What ``name`` stands for in ``package``, which has it from then on; for the package's ``__getattr__`` (PEP 562),
    where its names are slow to import or not installed everywhere. ``homes`` has the module of each name, or
    ``module:NAME`` where it has another one there. Raises AttributeError for what is not among them."""
    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    home, _, there = homes[name].partition(":")
    __import__(home)
    value: object = getattr(sys.modules[home], there or name)
    setattr(sys.modules[package], name, value)
    return value


if TYPE_CHECKING:
    from symd.async_client import AsyncClient as AsyncClient
    from symd.batch import BatchSymbolizer as BatchSymbolizer
    from symd.client import Client as Client
    from symd.config import Limits as Limits
    from symd.errors import SymdError as SymdError
    from symd.model.addresses import ByAddress as ByAddress
    from symd.model.addresses import ByKernel as ByKernel
    from symd.model.addresses import BySection as BySection
    from symd.model.addresses import KernelOffset as KernelOffset
    from symd.model.addresses import ObjectAddress as ObjectAddress
    from symd.model.addresses import SectionOffset as SectionOffset
    from symd.model.addresses import parse_query as parse_query
    from symd.model.answers import Answer as Answer
    from symd.model.answers import Answers as Answers
    from symd.model.answers import Frame as Frame
    from symd.model.answers import Reason as Reason
    from symd.model.breakpoints import SourceLine as SourceLine
    from symd.model.line_tables import LineTable as LineTable
    from symd.model.line_tables import Listing as Listing
    from symd.model.names import NameQuery as NameQuery
    from symd.model.summaries import ModuleSummary as ModuleSummary
    from symd.module import Module as Module
    from symd.module import open_module

    open = open_module  # noqa: A001 - as symd.open
else:
    _HOMES = {
        "Answer": "symd.model.answers",
        "Answers": "symd.model.answers",
        "AsyncClient": "symd.async_client",
        "BatchSymbolizer": "symd.batch",
        "ByAddress": "symd.model.addresses",
        "ByKernel": "symd.model.addresses",
        "BySection": "symd.model.addresses",
        "Client": "symd.client",
        "Frame": "symd.model.answers",
        "KernelOffset": "symd.model.addresses",
        "Limits": "symd.config",
        "LineTable": "symd.model.line_tables",
        "Listing": "symd.model.line_tables",
        "Module": "symd.module",
        "ModuleSummary": "symd.model.summaries",
        "NameQuery": "symd.model.names",
        "ObjectAddress": "symd.model.addresses",
        "Reason": "symd.model.answers",
        "SectionOffset": "symd.model.addresses",
        "SourceLine": "symd.model.breakpoints",
        "SymdError": "symd.errors",
        "open": "symd.module:open_module",
        "parse_query": "symd.model.addresses",
    }
    __all__ = ("__version__", *_HOMES)  # noqa: PLE0604 - texts all the same

    def __getattr__(name: str) -> object:
        return found(__name__, _HOMES, name)

    def __dir__() -> list[str]:
        return sorted({*globals(), *_HOMES})


__version__ = "0.1.0"
