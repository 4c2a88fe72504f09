"""Which right each RPC takes. An RPC that does not stand here is not served."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from grpc_health.v1.health import SERVICE_NAME as HEALTH

from symd.model.rights import Right
from symd.server.reflection import REFLECTION

_BY_SERVICE: Final[Mapping[str, Mapping[Right, tuple[str, ...]]]] = {
    "debuginfo.v1alpha1.DebuginfoService": {Right.WRITE: ("Upload",)},
    "parca.debuginfo.v1alpha1.DebuginfoService": {
        Right.READ: ("ShouldInitiateUpload",),
        Right.WRITE: ("InitiateUpload", "MarkUploadFinished", "Upload"),
    },
    "symd.v1.AliasService": {
        Right.READ: ("GetAlias", "ListAliases"),
        Right.WRITE: ("CreateAliases", "DeleteAlias"),
    },
    "symd.v1.BreakpointService": {Right.READ: ("ResolveBreakpoint", "WatchBreakpoints")},
    "symd.v1.ContextService": {
        Right.READ: ("GetContext", "ListContexts", "ListLoads", "SymbolizeAddresses"),
        Right.WRITE: ("CreateContext", "DeleteContext", "RecordEvents"),
    },
    "symd.v1.CoreService": {Right.READ: ("ReadCore",)},
    "symd.v1.ListingService": {Right.READ: ("GetListing", "ReadSources")},
    "symd.v1.ModuleService": {
        Right.READ: (
            "FindMissingModules",
            "GetModule",
            "ListCodeObjects",
            "ListContainers",
            "ListKernels",
            "ListModules",
            "ReadCodeObject",
            "WatchModules",
        ),
        Right.WRITE: ("UpdateModule", "UploadModule"),
        Right.GRAB: ("GrabModule",),
        Right.ADMIN: ("DeleteModule",),
    },
    "symd.v1.NameService": {Right.READ: ("FindNames",)},
    "symd.v1.ServerService": {Right.READ: ("GetServerInfo",)},
    "symd.v1.SymbolService": {Right.READ: ("GetLineTable", "Symbolize", "SymbolizeStream")},
    "symd.v1.VariableService": {Right.READ: ("GetVariables",)},
    HEALTH: {Right.READ: ("Check", "Watch")},
    **{name: {Right.READ: ("ServerReflectionInfo",)} for name in REFLECTION},
}

RIGHTS: Final[Mapping[str, Right]] = MappingProxyType(
    {
        f"{service}.{method}": right
        for service, methods in _BY_SERVICE.items()
        for right, names in methods.items()
        for method in names
    }
)
"""The right that each method takes, by the method's full name ("symd.v1.SymbolService.Symbolize")."""

HEALTH_METHODS: Final = frozenset(name for name in RIGHTS if name.startswith(f"{HEALTH}."))
