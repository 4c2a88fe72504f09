"""`python -m tests.fuzz.child TARGET SEED STATE OUT [CORPUS]`: try inputs of TARGET until killed. With CORPUS, a folder,
libFuzzer chooses them by what they reach (atheris); without, they follow from the seed."""

from __future__ import annotations

import random
import sys
from itertools import count
from pathlib import Path

from tests.fuzz.mutations import changed
from tests.fuzz.trial import StateFile, Trial, bound_memory


def seeded(name: str, seed: str, state: StateFile, out: Path) -> None:
    """Inputs that seed and number make again."""
    from tests.fuzz.targets import TARGETS  # noqa: PLC0415 - after the instrumentation, where there is one

    target = TARGETS[name]
    target.seeds()
    bound_memory(target.memory)
    trial = Trial(target, state, out)
    for number in count():
        trial(target.mutated(random.Random(f"{seed}/{name}/{number}")))


def guided(name: str, seed: str, state: StateFile, out: Path, corpus: Path) -> None:
    """Inputs that reach what others did not are kept in ``corpus`` and changed further."""
    import atheris  # noqa: PLC0415 - only here

    with atheris.instrument_imports(include=["symd"]):
        from tests.fuzz.targets import TARGETS  # noqa: PLC0415
    target = TARGETS[name]
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

    options = ["-rss_limit_mb=0", "-timeout=1000", f"-max_len={target.largest}", "-verbosity=0", "-print_final_stats=0"]
    number = random.Random(f"{seed}/{name}").randrange(1, 1 << 31)
    atheris.Setup([sys.argv[0], *options, f"-seed={number}", str(corpus)], trial, custom_mutator=mutate)
    atheris.Fuzz()


def main(name: str, seed: str, state: str, out: str, corpus: str = "") -> None:
    file = StateFile(Path(state))
    if corpus:
        guided(name, seed, file, Path(out), Path(corpus))
    else:
        seeded(name, seed, file, Path(out))


if __name__ == "__main__":
    main(*sys.argv[1:])
