"""The JSON of a module described."""

from types import MappingProxyType

import pytest

from symd.model.identities import Digest, ObjectPath
from symd.model.json import to_json
from symd.model.json.modules import module_json, module_pieces
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleSummary, ObjectSummary


def module(*kernels: int) -> ModuleSummary:
    """With a code object for each number of kernels."""
    objects = tuple(
        ObjectSummary(
            ObjectPath(f'größe "{number}"'), "zebin", None, 640, Digest("1" * 64), "none",
            tuple(KernelSummary(f"k{at}\n", None, 1, at, 8, {"arguments": [{"size": 8}], "name": "hidden"}) for at in range(count)),
            {"kernels": [1]}, ("a note",),
        )
        for number, count in enumerate(kernels)
    )  # fmt: skip
    container = ContainerSummary(ObjectPath(""), "archive", 4096, {"objects": []})
    return ModuleSummary(Digest("2" * 64), 4096, "archive", objects, ("half a note",), (container,))


@pytest.mark.parametrize("kernels", [(), (0,), (1,), (2, 0, 3), (0, 0)])
def test_pieces_are_the_text_of_the_whole(kernels: tuple[int, ...]) -> None:
    described = module(*kernels)
    assert "".join(module_pieces('a "file"', described)) == to_json(module_json('a "file"', described))


def sharing(count: int) -> ModuleSummary:
    """Kernels with facts, and lists of arguments in facts of their own, that others have too; and some with none of these."""
    arguments = [[{"type": f"größe{number}*", "size": 8}] for number in range(3)]
    same = [{"vgprs": number, "arguments": arguments[number]} for number in range(3)]
    facts = [
        *({"sgprs": number, "arguments": arguments[number % 3]} for number in range(count)),
        *(same[number % 3] for number in range(count)),
        *({"arguments": [number], "x": 0.5, "y": None, "z": True} for number in range(count)),
        {},
        {"arguments": []},
        {"arguments": arguments[0]},
        {"offset": 3, "arguments": arguments[0]},
        MappingProxyType({"vgprs": 1, "arguments": arguments[0]}),
        {"größe": 1 << 70, "list": arguments},
    ]
    kernels = tuple(KernelSummary(f'k"{at}', ".text", 1, at, 8, each) for at, each in enumerate(facts))
    item = ObjectSummary(ObjectPath(""), "amdgpu", "gfx900", 640, Digest("1" * 64), "none", kernels)
    return ModuleSummary(Digest("2" * 64), 4096, "amdgpu", (item, item))


@pytest.mark.parametrize("kept", [1, 2, 3, 1024])
def test_what_kernels_have_in_common_is_written_at_each(monkeypatch: pytest.MonkeyPatch, kept: int) -> None:
    monkeypatch.setattr("symd.model.json.modules._KEPT_TEXTS", kept)
    described = sharing(20)
    assert "".join(module_pieces("file", described)) == to_json(module_json("file", described))


def test_what_kernels_have_in_common_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a library of several hundred thousand of a few kinds takes seconds."""
    written: list[object] = []

    def noted(value: object) -> str:
        written.append(value)
        return to_json(value)

    monkeypatch.setattr("symd.model.json.modules.to_json", noted)
    arguments = [{"size": number} for number in range(40)]
    kinds = [{"vgprs": number, "arguments": arguments} for number in range(8)]
    kernels = tuple(KernelSummary(f"k{at}", ".text", 1, at, 8, kinds[at % 8]) for at in range(1000))
    described = module(0)
    (item,) = described.objects
    list(module_pieces("file", described._replace(objects=(item._replace(kernels=kernels),))))
    assert sum(value is arguments or (isinstance(value, dict) and "arguments" in value) for value in written) == 2


def test_no_piece_holds_more_than_a_kernel() -> None:
    assert max(map(len, module_pieces("file", module(1000)))) == max(map(len, module_pieces("file", module(1))))
