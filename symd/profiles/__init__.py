"""Profiles in, the same profiles out with their addresses named, or others' formats out. Adding a format is one new
module, with a line in FORMATS and one in READERS, and for a format to write one in EXPORTS."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace

from symd.config import DEFAULT_LIMITS
from symd.errors import BadQuery, SymdError, UnknownFormat, Unsupported
from symd.formats import containers
from symd.profiles import (
    att,
    cupti,
    firefox,
    folded,
    foreign,
    otlp,
    otlp_json,
    perfetto,
    pprof,
    profile_format,
    proton,
    rocprofv3,
    speedscope,
    unitrace,
)
from symd.profiles.hot import contents
from symd.profiles.profile_format import (
    Export,
    Exported,
    Options,
    ProfileBudget,
    ProfileFormat,
    Progress,
    Report,
    Symbolized,
    weight_of,
)
from symd.profiles.resolver import NamedModule, Resolver
from symd.profiles.samples import SampledProfile

__all__ = (
    "EXPORTS",
    "FORMATS",
    "Converted",
    "NamedModule",
    "Options",
    "ProfileFormat",
    "Progress",
    "Report",
    "Resolver",
    "Symbolized",
    "contents",
    "convert",
    "export",
    "identify",
    "samples",
    "symbolize",
    "symbolized_samples",
)

FORMATS: tuple[ProfileFormat, ...] = (
    rocprofv3,
    otlp_json,
    att,
    proton,
    foreign.ROCPD,
    cupti,
    foreign.ROCPROFV3_CSV,
    unitrace,
    perfetto,
    otlp,
    pprof,
    folded,
)
"""Asked in this order; the first that claims the bytes reads them. The format that claims the most is the last."""


ReadSamples = Callable[[bytes, ProfileBudget], SampledProfile]
READERS: dict[str, ReadSamples] = {
    module.NAME: module.read_samples
    for module in (att, cupti, folded, otlp, otlp_json, perfetto, pprof, proton, rocprofv3, unitrace)
}
"""Readers of whole profiles by the name of the format; formats that are missing have no samples that could be read."""
EXPORTS: dict[str, Export] = {module.NAME: module for module in (firefox, folded, perfetto, pprof, speedscope)}
"""Formats that any profile can be written in, by their names."""


def identify(data: bytes) -> ProfileFormat | None:
    """The format that claims the (expanded) bytes."""
    return next((module for module in FORMATS if module.claims(data)), None)


def identify_file(data: bytes) -> ProfileFormat | None:
    """The format of a file, gzipped or not, of which a module may begin with the same bytes: that is no profile. Raises
    what expanding raises."""
    if profile_format.compressed(data):
        return identify(profile_format.expand(data, DEFAULT_LIMITS))
    return None if containers.identify(data) is not None else identify(data)


def symbolize(data: bytes, resolver: Resolver, options: Options | None = None, name: str | None = None) -> Symbolized:
    """Symbolize a profile in place; ``name`` says its format when it is not to be told from the bytes.

    A gzipped profile stays one. What has symbols already, what is not understood and what cannot be resolved stays as
    it is, so doing it twice changes nothing, and where nothing is added the very input is returned. Raises
    UnknownFormat, Malformed, Unsupported, LimitExceeded, and what the symbolizer raises.
    """
    zipped = profile_format.compressed(data)
    plain, options = _expanded(data, options)
    module = _chosen(plain, name)
    done = module.symbolize(plain, resolver, options)
    report = done.report
    if report.unresolved and module.NAME in READERS:
        with suppress(SymdError):  # what is rewritten need not be sound in what is not looked at
            report = _weighed(report, _samples(done.data, module, options))
    if done.data is plain:
        return Symbolized(data, report)
    return Symbolized(profile_format.compress(done.data) if zipped else done.data, report)


def _weighed(report: Report, profile: SampledProfile) -> Report:
    """The report with the weight of what is left as it was, where anything is."""
    return replace(report, weight=weight_of(profile)) if report.unresolved and profile.value_types else report


@dataclass(frozen=True, slots=True)
class Converted:
    """A profile in another format: its bytes, what became of its addresses, and what the other format could not
    take."""

    data: bytes = field(repr=False)
    report: Report
    notes: tuple[str, ...] = ()


def convert(
    data: bytes,
    resolver: Resolver,
    to: str,
    options: Options | None = None,
    name: str | None = None,
    value: str | None = None,
) -> Converted:
    """Symbolize a profile and write it as ``to``, one of ``EXPORTS``; ``value`` names the one type of values to write.

    Values, units, times and inlined frames are kept as far as the other format has a place for them; ``notes`` say what
    it has none for, and what the profile did not have. A profile that is in that format already is symbolized in place.
    The bytes are not gzipped. Raises what ``symbolize`` raises, BadQuery for another ``to`` or ``value``, and
    Unsupported where the format has no samples.
    """
    plain, options = _expanded(data, options)
    module = _chosen(plain, name)
    _check_export(to)
    done = module.symbolize(plain, resolver, options)
    if to == module.NAME and value is None:
        return Converted(done.data, done.report)
    profile = _samples(done.data, module, options)
    report = _weighed(done.report, profile)
    if to == firefox.NAME:  # its page asks symbol servers, for sources too
        profile = firefox.by_code_id(profile, resolver, options)
    if not profile.samples:
        profile.notes.append("there are no samples in it")
    written = export(profile, to, ProfileBudget(options, 0), value)
    return Converted(written.data, report, (*profile.notes, *written.notes))


def export(profile: SampledProfile, name: str, spending: ProfileBudget, value: str | None = None) -> Exported:
    """The profile in the format of that name. ``value`` names the one value type to write; without it every one is, or
    where the format has room for one their sum or the first. Raises BadQuery for a name that there is not, and
    LimitExceeded."""
    _check_export(name)
    chosen = profile if value is None else _only(profile, value)
    return EXPORTS[name].export(chosen, spending)


def _check_export(name: str) -> None:
    """Raises BadQuery where no format to write has this name."""
    if name not in EXPORTS:
        raise BadQuery(
            f"{name!r} is not a format that can be written", where="--to", hint=f"there are {', '.join(EXPORTS)}"
        )


def _only(profile: SampledProfile, value: str) -> SampledProfile:
    """The profile with the one value type of that name."""
    names = [one.name for one in profile.value_types]
    if value not in names:
        raise BadQuery(
            f"the profile has no values called {value!r}", where="--value", hint=f"it has {', '.join(names)}"
        )
    at = names.index(value)
    only = [sample._replace(values=(sample.values[at],)) for sample in profile.samples]
    return replace(profile, value_types=(profile.value_types[at],), samples=only, default=0)


def samples(data: bytes, options: Options | None = None, name: str | None = None) -> SampledProfile:
    """What a profile holds: its stacks with their values, as it is, without looking anything up."""
    plain, options = _expanded(data, options)
    return _samples(plain, _chosen(plain, name), options)


def symbolized_samples(
    data: bytes, resolver: Resolver, options: Options | None = None, name: str | None = None
) -> SampledProfile:
    """What a profile holds, symbolized. Raises what ``symbolize`` raises, and Unsupported where the format has no
    samples."""
    plain, options = _expanded(data, options)
    module = _chosen(plain, name)
    return _samples(module.symbolize(plain, resolver, options).data, module, options)


def _expanded(data: bytes, options: Options | None) -> tuple[bytes, Options]:
    """What is inside, and the options for it."""
    options = options or Options()
    if not profile_format.compressed(data):
        return data, options
    return profile_format.expand(data, options.limits), replace(options, stored=len(data))


def _samples(data: bytes, module: ProfileFormat, options: Options) -> SampledProfile:
    if isinstance(module, foreign.RefusedFormat):
        raise Unsupported(module.why, where="the profile", hint=module.hint)
    if module.NAME not in READERS:
        raise Unsupported(f"the samples of a {module.NAME} profile are not read", where="the profile")
    return READERS[module.NAME](data, ProfileBudget(options, len(data)))


_ANY_COUNTS = "any counts can be given as folded stacks, lines such as [KERNEL+0x40] 12"


def _chosen(data: bytes, name: str | None) -> ProfileFormat:
    named = [module for module in FORMATS if name == module.NAME]
    module = identify(data) if name is None else next(iter(named), None)
    if module is None:
        known = ", ".join(module.NAME for module in FORMATS if not isinstance(module, foreign.RefusedFormat))
        if name is None and (found := foreign.described(data)) is not None:
            what, hint = found
            raise UnknownFormat(f"no reader knows this profile format: it is {what}", where="the profile", hint=hint)
        unlike = "" if name is not None else folded.unlike(data)
        wrong = f"no reader knows this profile format{unlike}" if name is None else f"{name!r} is not a profile format"
        raise UnknownFormat(wrong, where="the profile", hint=f"known formats: {known}; {_ANY_COUNTS}")
    return module
