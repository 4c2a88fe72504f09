"""Readers of whole profiles: samples, stacks, values and times of a profile that is symbolized already, one module a format."""

from __future__ import annotations

from collections.abc import Callable

from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.sampled import att, cupti, folded, otlp, perfetto, pprof, proton, rocprofv3, unitrace
from symd.profiles.samples import SampledProfile

ReadSamples = Callable[[bytes, ProfileBudget], SampledProfile]
READERS: dict[str, ReadSamples] = {
    "att": att.read,
    "cupti": cupti.read,
    "folded": folded.read,
    "otlp": otlp.read,
    "otlp-json": otlp.read_json,
    "perfetto": perfetto.read,
    "pprof": pprof.read,
    "proton": proton.read,
    "rocprofv3-json": rocprofv3.read,
    "unitrace": unitrace.read,
}
"""Readers by the name of the format; formats that are missing have no samples that could be read."""
