"""The fuzzer in short, and what it rests on; `make fuzz` is the long run."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sized
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from symd.config import MIB, Limits
from symd.debuginfo import folded_sequences
from symd.debuginfo.folded_sequences import NOTHING_FOLDED
from symd.errors import StoreUnavailable, SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers.file_part import FilePart
from symd.formats.containers.format import Element
from symd.formats.containers.images_in_data import FoundModules, modules_in
from symd.formats.spirv import split
from symd.index.lookup import search_index_file
from symd.model.addresses import ByAddress, SectionOffset
from symd.model.answers import Answer
from tests.builders.elf import Section, build_elf, compress
from tests.fuzz import answers, bundle, child, counts, distillation, nested, spirv_words, vulkan, watchdog
from tests.fuzz.__main__ import named
from tests.fuzz.elf_sections import section_of
from tests.fuzz.folded import objects as folded
from tests.fuzz.kinds import kind
from tests.fuzz.mutations import SAMPLES
from tests.fuzz.target import Target, fitting
from tests.fuzz.targets import TARGETS, target_of
from tests.fuzz.trial import State, StateFile, Trial, keep
from tests.fuzz.wire import WireFuzzer
from tests.hostile.wrappers import WRAPPERS
from tests.soak.daemon import serving

SEED = 20
"""A short run is the same everywhere: a commit that fails it brought the defect."""
INPUTS = 60
SECONDS = 0.5
"""Processor time after which a target has had enough, whatever it was given."""


def trial(run, folder: Path) -> Trial:
    return Trial(Target(run, lambda: [b"seed"]), StateFile(folder / "state"), folder / "finds")


def raises(error: Exception) -> None:
    raise error


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_of_a_seed_are_answered_or_refused(name: str, tmp_path: Path) -> None:
    target, state, end = TARGETS[name], StateFile(tmp_path / "state"), time.process_time() + SECONDS
    target.seeds()
    one = Trial(target, state, tmp_path / "finds")
    for number in range(INPUTS):
        one(target.mutated(random.Random(f"{SEED}/{name}/{number}")))
        if time.process_time() > end:
            break
    assert not [path.read_text() for path in tmp_path.glob("finds/*.txt")]
    assert state.read().tried


@pytest.mark.parametrize("name", TARGETS)
def test_a_target_answers_a_seed(name: str, tmp_path: Path) -> None:
    """A target that refuses all that is right tests nothing."""
    target, state = TARGETS[name], StateFile(tmp_path / "state")
    one = Trial(target, state, tmp_path / "finds")
    for data in target.seeds()[:8]:
        one(data)
    assert state.read().answered or name in ("containers.patch_tokens", "profiles.rocprofv3_csv", "profiles.rocpd")
    assert not state.read().found


def test_an_input_is_made_again_from_seed_and_number() -> None:
    target = TARGETS["questions"]
    inputs = [target.mutated(random.Random(f"1/{number}")) for number in range(60)]
    assert inputs[:9] == [target.mutated(random.Random(f"1/{number}")) for number in range(9)]
    assert len(set(inputs)) > 55
    assert not set(inputs) <= set(target.seeds())


def test_what_guided_runs_kept_is_changed_as_often_as_the_seeds(tmp_path: Path) -> None:
    target = Target(len, lambda: [b"seed"], lambda _dice, data, _change: data, largest=5)
    for number, kept in enumerate([b"kept1", b"kept2", b"too large"]):
        (tmp_path / str(number)).write_bytes(kept)
    made = Counter(child.with_corpus(target, tmp_path).mutated(random.Random(number)) for number in range(2000))
    assert made.keys() == {b"seed", b"kept1", b"kept2"}
    assert 900 < made[b"seed"] < 1100
    alone = child.with_corpus(target, tmp_path / "none")
    assert {alone.mutated(random.Random(number)) for number in range(9)} == {b"seed"}


def test_seeds_that_reach_nothing_new_are_left_out_and_the_dear_ones_are_rarer() -> None:
    small, alike = (build_elf(machine=224, sections=[Section(".text", data=bytes(size))], bits=64) for size in (9, 90))
    many = build_elf(machine=224, sections=[Section(f".text.{at}", data=b"\x90") for at in range(90)], bits=64)
    noted = build_elf(machine=224, sections=[Section(".note", type=7, data=bytes(12))] * 40, bits=64)
    target = replace(TARGETS["elf"], seeds=lambda: [many, alike, small, noted, small, b"none"])
    seeds, shares = distillation.chosen(target)
    assert seeds == [b"none", small, noted]
    assert shares[:2] == [1.0, 1.0]
    assert 0 < shares[2] < 0.5
    made = Counter(
        replace(child.distilled(target), mutate=lambda _dice, data, _change: data).mutated(random.Random(number))
        for number in range(2000)
    )
    assert made[b"none"] > 2 * made[noted] > 0
    assert made.keys() == set(seeds)


def test_plain_reading_of_an_index_that_answers_otherwise_is_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    target, told = TARGETS["index.plain"], list[Answer]()

    def answered_otherwise(file: memoryview, digest: str, query: ByAddress) -> Answer | None:
        found = search_index_file(file, digest, query)
        told.extend([found] if found is not None else [])
        return found and found._replace(section_offset=SectionOffset(3))

    for data in target.seeds():
        target.run(data)
    monkeypatch.setattr("tests.fuzz.answers.search_index_file", answered_otherwise)
    found = 0
    for data in target.seeds():
        try:
            target.run(data)
        except answers.Disagreement:
            found += 1
    assert len(told) >= found > len(target.seeds()) / 3


def test_an_unexpected_error_and_an_unfit_refusal_are_finds(tmp_path: Path) -> None:
    def refuse(_: bytes) -> None:
        with fitting():
            raise StoreUnavailable("not the input's fault")

    for error in (KeyError("x"), MemoryError(), RecursionError()):
        trial(lambda _, error=error: raises(error), tmp_path)(b"an input")
    trial(refuse, tmp_path)(b"an input")
    assert StateFile(tmp_path / "state").read().found == 4
    found = sorted(path.read_text().strip().splitlines()[-1].split(":")[0] for path in tmp_path.glob("finds/*.txt"))
    assert found == ["KeyError", "MemoryError", "RecursionError", "tests.fuzz.target.BadRefusal"]


def test_an_input_that_takes_long_is_a_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.fuzz.trial.SECONDS", -1.0)
    trial(len, tmp_path)(b"an input")
    [path] = tmp_path.glob("finds/*.txt")
    assert "of processor time" in path.read_text()


def test_an_input_that_hangs_is_killed_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With no patience at all every input hangs."""
    monkeypatch.setattr(watchdog, "SECONDS_EACH", 0.0)
    report = watchdog.run(["written"], SEED, 8, tmp_path, how="")
    assert report.states["written"].found
    assert "no answer within" in report.defects[0].what
    assert report.defects[0].path.read_bytes()


def test_what_a_process_did_is_told_with_its_slowest_input(tmp_path: Path) -> None:
    state = watchdog.run(["written"], SEED, 2, tmp_path, how="").states["written"]
    assert state.tried
    assert 0 < state.slowest < watchdog.SECONDS_EACH


def test_time_in_which_the_watchdog_did_not_run_is_not_the_inputs() -> None:
    patience = watchdog.RetryPolicy(100.0)
    looks = [(100.1, 100.2), (100.1, 101.2), (100.1, 5000.2), (100.1, 5001.2), (0.0, 5002.2), (5003.0, 5003.2)]
    waited = [patience.waited(since, now) for since, now in looks]
    assert waited == pytest.approx([0.1, 1.1, 4.1, 5.1, 0.0, 0.2])
    hanging = watchdog.RetryPolicy(0.0)
    assert [hanging.waited(0.1, look / 5) for look in range(1, 400)][-1] > watchdog.SECONDS_EACH


def test_few_inputs_of_one_place_are_kept(tmp_path: Path) -> None:
    one = trial(lambda _: raises(KeyError("x")), tmp_path)
    for number in range(20):
        one(bytes([number]))
    assert len(list(tmp_path.glob("finds/*.txt"))) == 3
    assert keep(tmp_path / "finds", b"other", "Traceback\nValueError: y")


def test_counts_are_added_up(tmp_path: Path) -> None:
    for _ in range(2):
        table = counts.added(tmp_path / "counts.json", {"elf": State(3, 2, 1, slowest=0.5)})
    assert table["elf"] == {"answered": 6, "refused": 4, "found": 2, "slowest": 0.5}
    assert "| elf | 12 | 6 | 4 | 2 | 0.50 |" in counts.printed(table)


def test_a_target_is_chosen_by_its_name_and_several_by_how_they_begin() -> None:
    assert named(["spirv"]) == ["spirv"]
    assert {"dwarf.lines", "dwarf.units", "wire"} <= set(named(["dwarf.", "wire"]))
    assert set(named([""])) > set(TARGETS)


def test_of_a_target_that_counts_by_kind_one_kind_is_chosen_by_its_name() -> None:
    assert named(["everything.zebin", "elf"]) == ["elf", "everything.zebin"]
    assert {kind(data) for data in target_of("everything.zebin").seeds()} == {"zebin"}
    assert not any("." in name for name, each in TARGETS.items() if each.kind)
    with pytest.raises(KeyError):
        named(["everything.no-such-kind"])


def test_a_bundle_is_taken_apart_again() -> None:
    parts = [b"one", b"", b"three"]
    assert bundle.unpack(bundle.pack(parts), 3) == parts
    assert len(bundle.unpack(b"\xff" * 20, 4)) == 4


@pytest.mark.parametrize("how", ["zlib", "zstd", "gnu"])
@pytest.mark.parametrize("bits", [64, 32])
def test_a_compressed_section_is_changed_inside(how: str, bits: int) -> None:
    section = compress(Section(".debug_str", data=b"before" * 40), how, bits=bits)
    image = build_elf(machine=224, sections=[section, Section(".text", data=b"\x90" * 9)], bits=bits)
    mutate, seen = section_of(".debug_", ".zdebug_"), set()
    for number in range(40):
        changed = mutate(random.Random(number), image, lambda content: content.replace(b"before", b"and after"))
        try:
            found = elf.parse(changed, Budget(Limits(expansion=MIB)))
        except SymdError:
            continue
        seen |= {section.data for section in found.sections}
    assert b"and after" * 40 in seen
    assert b"\x90" * 9 in seen


def test_a_daemon_answers_every_request_with_a_status_of_the_contract(tmp_path: Path) -> None:
    with serving(tmp_path) as daemon:
        fuzzer = WireFuzzer(daemon, SEED, tmp_path / "found")
        fuzzer.run(2)
        report = fuzzer.end()
    assert report.defects == []
    assert report.statuses["OK"]
    assert report.statuses["INVALID_ARGUMENT"]


def test_instructions_of_a_changed_module_begin_where_they_are_looked_for() -> None:
    data = (SAMPLES / "spirv/bin/waves.g.spv").read_bytes()
    changed = [spirv_words.mutate(random.Random(number), data, lambda content: content[:9]) for number in range(200)]
    by_instructions = [each for each in changed if len(each) > 9]
    assert 120 < len(by_instructions) < 180
    assert len(set(by_instructions)) > 100
    assert not [each for each in by_instructions if split(each).problem]
    assert spirv_words.mutate(random.Random(1), b"no SPIR-V", lambda content: content[:2]) == b"no"


def test_of_modules_among_data_one_is_changed_and_the_others_are_found() -> None:
    program = vulkan.program([bytes(3), *vulkan.modules()[:3]], [vulkan.modules()[3]])
    assert {kind(data) for data in (program, *vulkan.programs())} == {"vulkan"}
    assert kind(WRAPPERS["host-elf"](vulkan.modules()[0])) == "host-elf"
    changed = [vulkan.mutate(random.Random(number), program, lambda content: content[:-1]) for number in range(200)]
    assert Counter(map(kind, changed))["vulkan"] > 190
    kept = Counter(len(set(vulkan.modules()[:4]) & set(_unpacked(data))) for data in changed)
    assert kept[3] > 100
    assert len(set(changed)) > 100


def test_modules_that_are_not_what_they_are_alone_are_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    target = TARGETS["modules_in_data"]

    def too_long(data: FilePart, name: str, budget: Budget) -> FoundModules:
        found = modules_in(data, name, budget)
        return found._replace(extents=tuple(slice(each.start, each.stop + 4) for each in found.extents))

    monkeypatch.setattr("tests.fuzz.formats.modules_in", too_long)
    for data in target.seeds():
        with pytest.raises(AssertionError):
            target.run(data)


def test_folded_code_stays_folded_where_it_is_changed() -> None:
    assert {kind(data) for data in folded.objects()} == {"folded"}
    data = folded.objects()[0]
    changed = [folded.mutate(random.Random(number), data, lambda content: content[:-1]) for number in range(40)]
    assert Counter(map(kind, changed))["folded"] > 35


def test_sequences_that_are_judged_otherwise_one_by_one_are_a_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """All seeds but one have sequences at one place that differ: instances of a template do not."""
    target = TARGETS["dwarf.folded"]
    monkeypatch.setattr("tests.fuzz.debug_data.find_folded", lambda *_: NOTHING_FOLDED)
    assert len(list(finds(target, target.seeds()))) == len(target.seeds()) - 1


def finds(target: Target, inputs: Iterable[bytes]) -> Iterator[bytes]:
    """Those of which two ways to an answer differ."""
    for data in inputs:
        try:
            target.run(data)
        except AssertionError:
            yield data


@pytest.mark.parametrize("without", ["_in_units_code", "_is_inlined"])
def test_made_sequences_tell_one_way_to_judge_them_from_another(without: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What tells whose a sequence is matters for some of them."""
    target = TARGETS["folded_sequences"]

    def nothing(*given: Sized) -> NDArray[np.bool_]:
        return np.zeros(len(given[-1] if without == "_is_inlined" else given[0]), np.bool_)

    monkeypatch.setattr(folded_sequences, without, nothing)
    assert any(finds(target, (target.mutated(random.Random(number)) for number in range(4000))))


@pytest.mark.parametrize("form", ["gzip", "ccob", "archive", "cuda-fatbin", "igc-debug"])
def test_what_is_inside_a_container_is_changed(form: str) -> None:
    data = [data for data in nested.files() if kind(data) == form][-1]
    changed = [
        nested.mutate(random.Random(number), data, lambda content: content[:-3] + b"end") for number in range(40)
    ]
    taken = [each for each in changed if kind(each) == form and _unpacked(each)]
    assert len(taken) > 15
    assert any(b"end" in inside for each in taken for inside in _unpacked(each))


def _unpacked(data: bytes) -> list[bytes]:
    form = containers.identify(data)
    assert form
    try:
        return [bytes(each.data) for each in form.read(Element("", data), Budget(Limits())).elements]
    except SymdError:
        return []
