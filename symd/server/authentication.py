"""Who makes a call, whether they may, and the audit log. An RPC without a right in the table here is not served.

The caller is established once for each call, before its message is read. At the daemon's own Unix socket the kernel has
kept other users out, so the caller is the daemon's user and may do everything. Over TCP, and over the socket of a
group, a client shows a token or a certificate; without either it may do what ``ListenConfig.anonymous`` says: nothing,
unless the operator decided otherwise.

The log ``symd.audit`` has one line for each call that may change something, refused ones too: who, from where, what,
which module, and the outcome (docs/operations.md describes each field). Text of clients is quoted, so that a line stays
one line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from grpc_health.v1.health import SERVICE_NAME as HEALTH

from symd.errors import FailedPrecondition, PermissionDenied, Unauthenticated
from symd.server.access_file import Access, read_access
from symd.server.call import Call
from symd.server.certificates import Certificates, certified_name
from symd.server.config import ALL_RIGHTS, ListenConfig, Right, Rights, rights_text
from symd.server.logs import quoted
from symd.server.standard_services import REFLECTION
from symd.server.watched_files import WatchedFiles
from symd.store import Eviction

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
    "symd.v1.BreakpointService": {Right.READ: ("ResolveBreakpoint", "Watch")},
    "symd.v1.ContextService": {
        Right.READ: ("GetContext", "ListContexts", "ListLoads"),
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


audit_log = logging.getLogger("symd.audit")

STORE: Final = "store"
"""The client that audit lines name when the store evicts a module: no client asked for that."""

OK: Final = "OK"
CANCELLED: Final = "CANCELLED"
"""The client went away before it had its answer; what it asked for may have been done."""
_LONGEST: Final = 200
_AUDITED: Final = frozenset(method for method, right in RIGHTS.items() if right is not Right.READ)


def audit(call: Call, outcome: str) -> None:
    """Write the line of a call that has ended, unless it only asked. ``outcome`` is ``OK``, ``CANCELLED`` or the reason
    of an error."""
    if call.method in _AUDITED:
        audit_change(call, outcome)


def audit_change(call: Call, outcome: str) -> None:
    """Write the line of a call that is known to change something. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of
    an error."""
    _write(
        {
            "who": call.caller[:_LONGEST],
            "from": call.peer[:_LONGEST],
            "what": call.method.rpartition(".")[2],
            "which": call.subject[:_LONGEST],
            "outcome": outcome,
            "seconds": round(time.monotonic() - call.begun, 3),
            "id": call.number,
        }
    )


def audit_eviction(eviction: Eviction) -> None:
    """Write the line of a module that the store removed by itself, to make room."""
    which = f"modules/{eviction.digest}"
    _write({"who": STORE, "from": STORE, "what": "Evict", "which": which, "outcome": OK, "bytes": eviction.size})


def _write(facts: Mapping[str, Any]) -> None:
    audit_log.info("%s", " ".join(f"{name}={quoted(value)}" for name, value in facts.items()), extra={"facts": facts})


log = logging.getLogger("symd.server")

_UNIX: Final = "unix"
_SCHEME: Final = "bearer"


class Principal(NamedTuple):
    """Whoever makes a call, under the name that logs know them by."""

    name: str
    rights: Rights


class ShownCredentials(NamedTuple):
    """What a call shows of who makes it: where it comes from, its token, the name in its certificate."""

    peer: str
    token: bytes | None
    certificate: str | None


ANONYMOUS: Final = "anonymous"
OWNER: Final = Principal("owner", ALL_RIGHTS)


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Says who makes a call and what they may do. ``access`` is the access file and ``certificates`` what TLS is
    done with, where there are such."""

    listen: ListenConfig
    access: WatchedFiles[Access] | None
    certificates: Certificates | None

    def admit(self, call: Call, context: Any) -> None:
        """Note who makes the call, by what gRPC's ``context`` knows of it.

        Raises Unauthenticated for who does not show what is asked for, PermissionDenied for who may not do that.
        """
        if call.peer.startswith(_UNIX) and self.listen.socket_group is None:
            call.caller, call.is_owner = OWNER.name, True
            return
        if self.listen.open_health and call.method in HEALTH_METHODS:
            return
        shown = self._shown(call.peer, context)
        self._let_in(shown, call)
        if self.access is not None:
            call.recheck_access = partial(self._let_in, shown)

    def _let_in(self, shown: ShownCredentials, call: Call) -> None:
        """Raises as ``admit``."""
        peer = shown.peer
        principal = self.principal(shown)
        call.caller = principal.name
        if principal.name != ANONYMOUS:
            call.client = principal.name
        right = RIGHTS[call.method]
        if right not in principal.rights:
            log.warning("refused a call: %s at %s has no right to %s", principal.name, peer, right.value)
            raise PermissionDenied(
                f"{principal.name} may not do that: it needs the right {right.value!r}",
                hint=f"{principal.name} has {_having(principal.rights)}; the operator of the daemon gives rights",
                metadata={"right": right.value, "client": principal.name, "method": call.method},
            )

    def read_again(self) -> None:
        """Read the operator's files, changed or not."""
        if self.access is not None:
            self.access.read_again()
        if self.certificates is not None:
            self.certificates.files.read_again()

    def _shown(self, peer: str, context: Any) -> ShownCredentials:
        token = _token(context.invocation_metadata() or ()) if self.access is not None else None
        return ShownCredentials(peer, token, _certified(context.auth_context()) if token is None else None)

    def principal(self, shown: ShownCredentials) -> Principal:
        """Whoever shows that; a refusal is logged. Raises Unauthenticated."""
        try:
            return self._client(shown)
        except Unauthenticated as error:
            log.warning("refused a call: %s: %s", shown.peer, error.message)
            raise

    def _client(self, shown: ShownCredentials) -> Principal:
        if shown.token is not None and self.access is not None:
            found = self.access.value().of_token(shown.token)
            if found is None:
                raise Unauthenticated(
                    "this token is wrong, revoked or another daemon's", hint="ask the operator for another"
                )
            return Principal(*found)
        if shown.certificate is not None:
            return Principal(shown.certificate, self._certified_rights(shown.certificate))
        if not self.listen.anonymous_rights:
            ways = [
                way
                for way, there in (("a bearer token", self.access), ("a certificate", self.listen.tls_client_ca))
                if there
            ]
            raise Unauthenticated(
                "this daemon asks who you are",
                hint=f"show {' or '.join(ways) or 'a token'}, which the daemon's operator makes; a token goes into the header authorization, "
                "after Bearer, and symd's own clients take it from $SYMD_TOKEN or the file $SYMD_TOKEN_FILE",
            )
        return Principal(ANONYMOUS, self.listen.anonymous_rights)

    def _certified_rights(self, name: str) -> Rights:
        if self.access is None:
            return self.listen.certificate_rights
        return self.access.value().of_certificate(name)


def build_authenticator(listen: ListenConfig) -> Authenticator:
    """The authenticator that the operator's options ask for. Raises FailedPrecondition or InvalidInput for files that
    will not do."""
    access = None
    if (path := listen.access) is not None:
        access = WatchedFiles([path], lambda: _read_access(path))
    if listen.tls_certificate is None and listen.tls_key is None:
        if listen.tls_client_ca is not None:
            raise FailedPrecondition(
                "--tls-client-ca: clients show certificates over TLS only",
                hint="give the daemon's own certificate too: --tls-cert and --tls-key",
            )
        return Authenticator(listen, access, None)
    return Authenticator(listen, access, Certificates(listen))


def _read_access(path: Path) -> Access:
    """The access file; that nobody gets in by it is told, since its daemon starts all the same: it may be filled while
    that runs."""
    access = read_access(path)
    if all(line.has_expired for line in access.lines):
        why = "every line of it has expired" if access.lines else "it has no line"
        adds = f"symd token NAME --access {quote(str(path))} adds one"
        log.warning("by the access file %s no client gets in: %s; %s", path, why, adds)
    return access


def _having(rights: Rights) -> str:
    return f"the rights {rights_text(rights)}" if rights else "no right"


def _token(metadata: Iterable[tuple[str, str | bytes]]) -> bytes | None:
    """The bearer token of a call (RFC 6750)."""
    for key, value in metadata:
        if key == "authorization":
            text = value if isinstance(value, bytes) else value.encode()
            scheme, _, token = text.partition(b" ")
            if scheme.lower() == _SCHEME.encode():
                return token.strip()
    return None


def _certified(facts: Mapping[str, Iterable[bytes]]) -> str | None:
    names = (facts.get(key, ()) for key in ("x509_common_name", "x509_subject_alternative_name"))
    return certified_name(name.decode("utf-8", "replace") for name in chain.from_iterable(names))
