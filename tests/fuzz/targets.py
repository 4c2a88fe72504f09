"""Every target by name: one a reader, one for requests, one for all questions. A new reader is one line in the module of its
room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.fuzz import answers, cores, debug_data, everything, formats, requests
from tests.fuzz.target import Target

TARGETS: Mapping[str, Target] = {
    **formats.TARGETS,
    **debug_data.TARGETS,
    **cores.TARGETS,
    **requests.TARGETS,
    **answers.TARGETS,
    **everything.TARGETS,
}


def target_of(name: str) -> Target:
    """The target of that name; NAME.KIND is one whose inputs are counted by kind, with its seeds of that kind alone. Raises KeyError."""
    if name in TARGETS:
        return TARGETS[name]
    every, _, kind = name.partition(".")
    counting = TARGETS[every]
    seeds = [data for data in counting.seeds() if counting.kind and counting.kind(data) == kind]
    if not seeds:
        raise KeyError(name)
    return replace(counting, seeds=lambda: seeds)


def is_of_kind(name: str) -> bool:
    """Whether the name is NAME.KIND of a target that counts by kind, whether or not it has such seeds."""
    every, dot, _ = name.partition(".")
    return name not in TARGETS and bool(dot) and every in TARGETS and TARGETS[every].kind is not None
