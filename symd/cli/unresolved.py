"""What is said of the addresses of a profile that have no line: which names no module has and what they may mean, which
addresses lie outside the code, which code has no debug data, and which module of a daemon has a kernel."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from shlex import quote
from typing import Final

import click

from symd import profiles
from symd.cli.call_files import call_text, call_with, typed_words
from symd.cli.extract import FileNames
from symd.errors import SymdError
from symd.formats.debug_ids import build_id_of
from symd.model.answers import Reason
from symd.model.compile_advice import compile_advice
from symd.profiles.hot import HotProfile
from symd.profiles.placed import AddressPlaces, InstructionPlace
from symd.profiles.resolver import LookupTarget, NamedModule, Resolver, machine_objects, module_file_name
from symd.profiles.samples import SampledAddress, SampledProfile, Value, counted_from
from symd.query.disasm.nvidia import instruction_bytes
from symd.system.messages import complain

_SEARCHED = 100
"""The most modules of a daemon that are searched for a kernel."""
_NAMED = 3
"""The most addresses outside the code, and kernels of a daemon's module, that are named."""
_OBJECTS = "objects"
"""The folder that code objects are extracted to."""
_UNKNOWN = (Reason.UNKNOWN_KERNEL, Reason.UNKNOWN_MODULE)
_UNREAD: Final = (Reason.NO_DEBUG_INFO, Reason.DEBUG_DATA_ELSEWHERE)


def profile_notes(data: bytes, resolver: Resolver, options: profiles.Options, name: str | None) -> tuple[str, ...]:
    """The notes that symd profile prints of a profile; none where its format cannot be rewritten."""
    with suppress(SymdError):
        return profiles.symbolize(data, resolver, options, name).report.notes
    return ()


def unresolved_notes(
    profile: SampledProfile, places: AddressPlaces, resolver: Resolver, found: HotProfile
) -> Iterator[str]:
    """A sentence for each of the first addresses outside the code of their module, and one for the samples in code
    whose debug data is missing."""
    outside = [profile.addresses[number] for number, place in places.places.items() if place is Reason.OUTSIDE_TEXT]
    yield from (_outside_note(each, resolver) for each in outside[:_NAMED])
    if len(outside) > _NAMED:
        yield f"{len(outside) - _NAMED} more addresses lie outside the code"
    if odd := _odd_note(places, resolver):
        yield odd
    weights: dict[Reason, Value] = dict.fromkeys(_UNREAD, 0)
    first: dict[Reason, InstructionPlace] = {}
    for sample in profile.samples:
        number = sample.stack[0] if sample.stack else -1
        reason, place = places.reason(number), places.places.get(number)
        if reason in _UNREAD and isinstance(place, InstructionPlace) and not profile.addresses[number].frames:
            first.setdefault(reason, place)
            weights[reason] += found.columns.sample_weight(found.columns.of(sample, profile))
    for reason, place in first.items():
        advice = "; ".join(compile_advice(resolver.summary(place.digest).objects, place.path))
        yield (
            f"{weights[reason]:,} of {found.total:,} {found.columns.unit} lie in code whose debug data is not here"
            f" ({reason.name}): {advice}"
        )


def _odd_note(places: AddressPlaces, resolver: Resolver) -> str:
    """A sentence where addresses begin no instruction of their device, as those of another build do; "" where all
    do."""
    odd, total, first = 0, 0, ""
    targets: dict[tuple[str, str], str] = {}
    for place in places.places.values():
        if not isinstance(place, InstructionPlace):
            continue
        key = place.digest, place.path
        if key not in targets:
            objects = resolver.summary(place.digest).objects
            targets[key] = next((each.target or "" for each in objects if each.path == place.path), "")
        total += 1
        if place.offset % _alignment(targets[key]):
            odd, first = odd + 1, first or targets[key]
    if not odd:
        return ""
    return (
        f"{odd:,} of {total:,} addresses are not at an instruction boundary of {first or 'the device'}: the module may be another"
        " build, or another file with a kernel of the same name, than the one that ran"
    )


def _alignment(target: str) -> int:
    """What offsets of instructions are multiples of: AMD's are words, and Intel's are 8 or 16 bytes long."""
    if target.startswith("sm_"):
        return instruction_bytes(int("".join(filter(str.isdigit, target)) or 0))
    return 4 if target.startswith("gfx") else 8 if target else 1


def _outside_note(address: SampledAddress, resolver: Resolver) -> str:
    label, name = address.label, counted_from(address)
    target = resolver.kernel_with_width(name) if name else Reason.UNKNOWN_KERNEL
    if isinstance(target, LookupTarget):
        objects = machine_objects(resolver.summary(target.digest))
        sizes = {kernel.size for each in objects for kernel in each.kernels if kernel.name == target.kernel}
        if len(sizes) == 1 and (size := sizes.pop()):
            return f"{label} is past the end of {name}, which is {size} bytes ({size:#x}) long"
    return f"{label or f'{address.address or 0:#x}'} lies outside the code of {name or 'its module'}"


def several_objects_notes(resolver: Resolver, digests: Collection[str]) -> Iterator[str]:
    """A sentence for each of some modules of which several code objects, such as those of several architectures, could
    be meant, with the call that names one of them."""
    context = click.get_current_context(silent=True)
    words = (typed_words(context) if context is not None else ()) or ("",)
    for digest in resolver.several:
        if digest not in digests:
            continue
        file, paths = resolver.given_name(digest), resolver.several[digest]
        name_of = FileNames(module_file_name(file))
        names: dict[str, str] = {each.path: name_of(each) for each in resolver.summary(digest).objects}
        shown = [path if words[0] == "listing" else names[path] for path in paths[:_NAMED]]
        more = f" and {len(paths) - len(shown)} more" if len(paths) > len(shown) else ""
        said = f"the profile does not say which of {len(paths)} code objects in {file} ran"
        others = f" (or {', '.join(map(quote, shown[1:]))}{more})"
        if words[0] == "listing":
            yield f"{said}; write the one that ran: {call_with(['--object', shown[0]])}{others}"
            continue
        extract = call_text(["extract", file, _OBJECTS])
        option = re.compile(rf"(|[^/]*=|-m){re.escape(file)}", re.DOTALL)
        found = [option.fullmatch(word) for word in words]
        if not file or not any(found):
            yield f"{said} ({', '.join(shown)}{more}); symd extract writes each to a file"
            continue
        one = [f"{each[1]}{_OBJECTS}/{shown[0]}" if each else word for word, each in zip(words, found, strict=True)]
        yield f"{said}; write {extract} and then the one that ran: {call_text(one)}{others}"


def unknown_names(profile: SampledProfile, places: AddressPlaces) -> list[str]:
    """What the profile calls the kernels and modules that no given module has, each once."""
    unknown = (profile.addresses[number] for number, place in places.places.items() if place in _UNKNOWN)
    return [name for name in dict.fromkeys(map(counted_from, unknown)) if name]


def resolver_meant(resolver: Resolver, option: str = "-m") -> Resolver | None:
    """The resolver in which the one file that matched nothing stands for the profile's one module without a file, which
    is said on standard error. None in all other cases; where the file could be one of several modules, standard error
    says how ``option`` names each."""
    found = resolver.unmatched()
    if found is None:
        return None
    file = found.module.name
    calls = [f"{option} {quote(name if option == '--id' else f'{name}={file}')}" for name in found.names]
    if len(calls) > 1:
        more = f" (and {len(calls) - _NAMED} more)" if len(calls) > _NAMED else ""
        complain(
            f"no module in the profile is called {file}; if it is one of these, write {' or '.join(calls[:_NAMED])}{more}"
        )
        return None
    name = found.names[0]
    why = "no other file fits" if found.is_of_several else "that is the only module in the profile without a file"
    complain(f"{file} is assumed to be {name}, because {why} ({calls[0]} confirms it)")
    return resolver.with_module(NamedModule(found.module.digest, file, name))


def daemon_hints(resolver: Resolver, names: Iterable[str]) -> Iterator[str]:
    """Which modules of a daemon have kernels of these names, or one of them as their label, as they are given with
    -m: a sentence for each module."""
    wanted = set(names)
    with suppress(SymdError):  # who may not list modules is told nothing of them
        for record in islice(resolver.symbolizer.modules(), _SEARCHED if wanted else 0):
            summary = None
            with suppress(SymdError):
                summary = resolver.summary(record.sha256)
            if summary is None:
                continue
            label = record.label.rpartition("/")[2]
            if label in wanted:
                build_id = next((f" (build ID {name})" for each in summary.objects if (name := build_id_of(each))), "")
                yield f"the daemon has a module called {label}{build_id}: add -m {quote(label)}=modules/{record.sha256}"
            kernels = sorted(wanted & {each.name for item in summary.objects for each in item.kernels})
            wanted.difference_update(kernels)
            if kernels:
                more = f" and {len(kernels) - _NAMED} more" if len(kernels) > _NAMED else ""
                shown = f"{', '.join(kernels[:_NAMED])}{more}"
                yield f"the daemon has a module with {shown}: add -m modules/{record.sha256}"
            if not wanted:
                return
