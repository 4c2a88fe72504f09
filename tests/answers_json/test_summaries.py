"""The JSON of a module described."""

import pytest

from symd.answers_json import to_json
from symd.answers_json.summaries import module_json, module_pieces
from symd.model.identities import Digest, ObjectPath
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


def test_no_piece_holds_more_than_a_kernel() -> None:
    assert max(map(len, module_pieces("file", module(1000)))) == max(map(len, module_pieces("file", module(1))))
