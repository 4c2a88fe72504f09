"""`python -m tests.fuzz.child TARGET SEED STATE OUT [guided|grown CORPUS]`: try inputs of TARGET until killed. "guided": libFuzzer chooses
them by what they reach (atheris), and keeps in the folder CORPUS what reaches more; "grown": they are made of what such a run kept;
else they follow from the seed alone."""

from __future__ import annotations

import os
import random
import sys
from dataclasses import replace
from itertools import accumulate, count
from pathlib import Path

from tests.fuzz import distillation
from tests.fuzz.mutations import changed
from tests.fuzz.target import Target
from tests.fuzz.trial import GROWN, StateFile, Trial, address_space, bound_memory

_LOOKS = 100
"""Inputs from one look at the memory to the next."""


def seeded(name: str, seed: str, state: StateFile, out: Path, corpus: Path | None = None) -> None:
    """Inputs that seed and number make again, with what else is in ``corpus``."""
    from tests.fuzz import targets  # noqa: PLC0415 - after the instrumentation, where there is one

    target = with_corpus(distilled(targets.target_of(name)), corpus)
    bound_memory(target.memory)
    trial = Trial(target, state, out)
    for number in count():
        trial(target.mutated(random.Random(f"{seed}/{name}/{number}")))


def distilled(target: Target) -> Target:
    """The target with those of its seeds that reach what cheaper ones do not (`tests.fuzz.distillation`)."""
    if not target.distilled:
        return target
    seeds, shares = distillation.chosen(target)
    return replace(target, seeds=lambda: seeds, shares=list(accumulate(shares)))


def with_corpus(target: Target, corpus: Path | None) -> Target:
    """The target with what guided runs kept as further seeds, as often as its own: they reach what seeds that are right do not."""
    seeds = list(target.seeds())
    kept = [path.read_bytes() for path in sorted(corpus.iterdir())] if corpus and corpus.is_dir() else []
    kept = [data for data in kept if len(data) <= target.largest]
    own = target.shares or range(1, len(seeds) + 1)
    shares = [*own, *(own[-1] * (1 + number / len(kept)) for number in range(1, len(kept) + 1))]
    return replace(target, seeds=lambda: seeds + kept, shares=shares)


def guided(name: str, seed: str, state: StateFile, out: Path, corpus: Path) -> None:
    """Inputs that reach what others did not are kept in ``corpus`` and changed further."""
    import atheris  # noqa: PLC0415 - only here

    with atheris.instrument_imports(include=["symd"]):
        from tests.fuzz import targets  # noqa: PLC0415
    target = targets.target_of(name)
    corpus.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(target.seeds()):
        (corpus / f"seed-{number}").write_bytes(data)
    bound_memory(target.memory)
    trial = Trial(target, state, out)

    def mutate(data: bytes, most: int, number: int) -> bytes:
        dice = random.Random(number)
        if dice.random() < 1 / 2:
            return target.mutate(dice, data, lambda content: atheris.Mutate(content, most))[:most]
        return target.mutate(dice, data, lambda content: changed(dice, content))[:most]

    grown = address_space() + target.memory // 2

    def tried(data: bytes) -> None:
        trial(data)
        if trial.tried % _LOOKS == 0 and address_space() > grown:
            os._exit(GROWN)

    options = ["-rss_limit_mb=0", "-timeout=1000", f"-max_len={target.largest}", "-verbosity=0", "-print_final_stats=0"]
    number = random.Random(f"{seed}/{name}").randrange(1, 1 << 31)
    atheris.Setup([sys.argv[0], *options, f"-seed={number}", str(corpus)], tried, custom_mutator=mutate)
    atheris.Fuzz()


def main(name: str, seed: str, state: str, out: str, how: str = "", corpus: str = "") -> None:
    file = StateFile(Path(state))
    if how == "guided":
        guided(name, seed, file, Path(out), Path(corpus))
    else:
        seeded(name, seed, file, Path(out), Path(corpus) if how else None)


if __name__ == "__main__":
    main(*sys.argv[1:])
