"""The kernels that a name means: the name of its symbol, or as it was written, as ``symbolize`` takes both."""

from __future__ import annotations

from symd.api import Symbolizer
from symd.errors import KernelNotFound
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answer, Reason


def kernel_names(symbolizer: Symbolizer, digest: str, name: str, path: str | None = None) -> frozenset[str]:
    """The names of the kernels' symbols; several where several code objects have kernels of that name. Raises KernelNotFound, which
    names kernels that are called like it."""
    answer = symbolizer.symbolize_one(digest, ByKernel(name, KernelOffset(0)), path)
    if answer.reason is Reason.UNKNOWN_KERNEL:
        in_spirv = symbolizer.module(digest).spirv_hint(name) if path is None else ""
        hint = in_spirv or did_you_mean(answer) or "symd names FILE --kind kernel '*' lists them"
        raise KernelNotFound(f"there is no kernel {name!r}", hint=hint)
    return frozenset(filter(None, (answer.kernel, *(each.kernel for each in answer.candidates))))


def did_you_mean(answer: Answer) -> str:
    """What could be meant by the name of an answer with the reason UNKNOWN_KERNEL; "" where nothing is called like it."""
    like = " or ".join(each.function for each in answer.candidates if each.function)
    return f"did you mean {like}?" if like else ""
