"""Profiles in the formats of other tools' viewers. Adding one is one new module and one line in EXPORTS."""

from __future__ import annotations

from symd.errors import BadQuery
from symd.profiles.exports import firefox, folded, perfetto, pprof, speedscope
from symd.profiles.profile_format import Export, Exported, ProfileBudget
from symd.profiles.samples import SampledProfile

__all__ = ("EXPORTS", "Export", "Exported", "check", "export")

EXPORTS: dict[str, Export] = {module.NAME: module for module in (firefox, folded, perfetto, pprof, speedscope)}


def export(profile: SampledProfile, name: str, spending: ProfileBudget, value: str | None = None) -> Exported:
    """The profile in the format of that name. ``value`` names the one value type to write; without it every one is, or
    where the format has room for one their sum or the first. Raises BadQuery for a name that there is not, and
    LimitExceeded."""
    check(name)
    chosen = profile if value is None else _only(profile, value)
    return EXPORTS[name].export(chosen, spending)


def check(name: str) -> None:
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
    return SampledProfile(
        (profile.value_types[at],),
        profile.addresses,
        profile.modules,
        profile.tasks,
        [sample._replace(values=(sample.values[at],)) for sample in profile.samples],
        profile.start,
        profile.notes,
    )
