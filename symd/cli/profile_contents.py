"""``symd info PROFILE``: what is in a profile, and the call that finds the lines that it has none of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from symd.cli.call_files import NAMED_IN_A_CALL, call_text, load_profiles, naming_profile
from symd.cli.output import Branch, value_text, write_json, write_tree
from symd.config import Limits
from symd.engine.files.input import read_input
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.profiles.hot import NamedPart, PartSamples, ProfileContents
    from symd.profiles.samples import SampledProfile


def show_profile(file: str, kind: str, limits: Limits, *, as_json: bool) -> None:
    """Print what is in the profile ``file`` of the format ``kind``. Raises what reading it raises."""
    profiles = load_profiles()
    data = read_input(file, limits, expand=False)
    with naming_profile(file):
        profile = profiles.samples(data, profiles.Options(limits), kind)
    found = profiles.contents(profile)
    if as_json:
        write_json(_json(file, kind, profile, found))
    else:
        write_tree(_tree(file, kind, profile, found))


def _next_call(file: str, found: ProfileContents) -> str:
    """The call that shows the profile's hottest lines; FILE stands for each module that it needs."""
    wanted = list(dict.fromkeys(found.wanted()))
    named = ["FOLDER"] if len(wanted) > NAMED_IN_A_CALL else [f"{each}=FILE" for each in wanted]
    if found.is_kernel_wanted():
        named.append("FILE")
    return call_text(["hot", *(part for each in named for part in ("-m", each)), file])


def _json(file: str, kind: str, profile: SampledProfile, found: ProfileContents) -> dict[str, Any]:
    return {
        "file": file,
        "format": kind,
        "samples": len(profile.samples),
        "unit": found.columns.unit,
        "total": found.total,
        "value_types": [
            {"name": each.name, "unit": each.unit, "total": total}
            for each, total in zip(profile.value_types, profile.totals(), strict=True)
        ],
        "modules": [
            {
                "module": part.name or part.identity or None,
                "build_id": part.build_id or None,
                "value": each.value,
                "without_line": each.without_line,
            }
            for part, each in found.modules.items()
        ],
        "kernels": [
            {"kernel": part.name or None, "value": each.value, "without_line": each.without_line}
            for part, each in found.kernels.items()
        ],
        "notes": profile.notes,
        "next": _next_call(file, found),
    }


def _tree(file: str, kind: str, profile: SampledProfile, found: ProfileContents) -> Branch:
    return Branch(
        ((file, "bold"), f"{kind} profile, {counted(len(profile.samples), 'sample')}"), _below(file, profile, found)
    )


def _below(file: str, profile: SampledProfile, found: ProfileContents) -> Iterator[Branch]:
    for each, total in zip(profile.value_types, profile.totals(), strict=True):
        yield Branch(("value", (each.name, "cyan"), f"{value_text(total)} {each.unit}".rstrip()))
    yield from _parts("module", found.modules, found.columns.unit)
    yield from _parts("kernel", found.kernels, found.columns.unit)
    yield from (Branch((("note", "yellow"), note)) for note in profile.notes)
    yield Branch(("next", _next_call(file, found)))


def _parts(noun: str, parts: Mapping[NamedPart, PartSamples], unit: str) -> Iterator[Branch]:
    for part, each in parts.items():
        build_id = f"build ID {part.build_id}" if part.build_id else ""
        name = part.name or part.identity or ("(unnamed)" if part.build_id else "(no module)")
        left = f", {value_text(each.without_line)} without a line" if each.without_line else ""
        yield Branch((noun, (name, "green"), *filter(None, [build_id]), f"{value_text(each.value)} {unit}{left}"))
