"""Whether the daemon sends spans to a collector. OpenTelemetry is an extra (``symd-gpu[otel]``) and is imported only
where somebody asks for spans."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from symd.errors import FailedPrecondition, InvalidInput, extra_hint

if TYPE_CHECKING:
    from symd.server.spans import Spans

log = logging.getLogger("symd.server")

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
"""The variables that name a collector (opentelemetry.io/docs/specs/otel/protocol/exporter)."""
_NEEDED: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.grpc")


@contextmanager
def tracing(endpoint: str) -> Iterator[Spans | None]:
    """What makes spans and sends them to ``endpoint``, or to where the environment says; None where nobody asked for
    them.

    Raises InvalidInput for an ``endpoint`` that is no URL, FailedPrecondition where ``endpoint`` is given and
    OpenTelemetry is not installed; a mere variable, which may be meant for others, is then passed over with a
    warning."""
    if not (endpoint or _asked_by_the_environment()):
        yield None
        return
    if endpoint:
        _check_url(endpoint)
    if not all(map(_installed, _NEEDED)):
        hint = extra_hint("otel")
        if endpoint:
            raise FailedPrecondition("spans take OpenTelemetry, which is not installed", where="--otlp", hint=hint)
        log.warning("no spans are sent: OpenTelemetry is not installed (%s)", hint)
        yield None
        return
    from symd.server.spans import sending  # noqa: PLC0415 - 237 ms: an extra

    with sending(endpoint) as spans:
        yield spans


def _check_url(endpoint: str) -> None:
    try:
        url = urlsplit(endpoint)
        good = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        good = False
    if not good:
        raise InvalidInput(
            "not the URL of a collector", where=f"--otlp {endpoint}", hint="give http://HOST:PORT or https://HOST:PORT"
        )


def _asked_by_the_environment() -> bool:
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return False
    return any(os.environ.get(name) for name in ENDPOINTS)


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # a package above it
        return False
