"""Profiles in, the same profiles out with their addresses named. Adding a format is one new module and one line in FORMATS."""

from __future__ import annotations

from symd.errors import UnknownFormat
from symd.profiles import cupti, folded, gzipped, otlp, pprof, rocprofv3, rocprofv3_csv, unitrace
from symd.profiles.format import Options, ProfileFormat, Progress, Report, Symbolized
from symd.profiles.resolver import NamedModule, Resolver

__all__ = (
    "FORMATS",
    "NamedModule",
    "Options",
    "ProfileFormat",
    "Progress",
    "Report",
    "Resolver",
    "Symbolized",
    "identify",
    "symbolize",
)

FORMATS: tuple[ProfileFormat, ...] = (rocprofv3, cupti, rocprofv3_csv, unitrace, otlp, pprof, folded)
"""Asked in this order; the first that claims the bytes reads them. The format that claims the most is the last."""


def identify(data: bytes) -> ProfileFormat | None:
    """The format that claims the (expanded) bytes."""
    return next((module for module in FORMATS if module.claims(data)), None)


def symbolize(data: bytes, resolver: Resolver, options: Options | None = None, name: str | None = None) -> Symbolized:
    """Symbolize a profile in place; ``name`` says its format when it is not to be told from the bytes.

    A gzipped profile stays one. What has symbols already, what is not understood and what cannot be resolved stays as
    it is, so doing it twice changes nothing, and where nothing is added the very input is returned. Raises
    UnknownFormat, Malformed, Unsupported, LimitExceeded, and what the symbolizer raises.
    """
    options = options or Options()
    zipped = gzipped.compressed(data)
    plain = gzipped.expand(data, options.limits) if zipped else data
    module = _chosen(plain, name)
    done = module.symbolize(plain, resolver, options)
    if done.data is plain:
        return Symbolized(data, done.report)
    return Symbolized(gzipped.compress(done.data), done.report) if zipped else done


def _chosen(data: bytes, name: str | None) -> ProfileFormat:
    named = [module for module in FORMATS if name == module.NAME]
    module = identify(data) if name is None else next(iter(named), None)
    if module is None:
        known = ", ".join(
            module.NAME for module in FORMATS if module is not rocprofv3_csv
        )  # which explains why it is not read
        wrong = "no reader knows this profile format" if name is None else f"{name!r} is no profile format"
        raise UnknownFormat(wrong, where="the profile", hint=f"there are {known}")
    return module
