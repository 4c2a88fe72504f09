"""The first answer from a stored index: one address is looked up in the file, and nothing is opened for it, which takes several times as
long."""

from __future__ import annotations

from symd.index.plain_index import whole_answer_at
from symd.model.addresses import ByAddress, SectionOffset
from symd.model.answers import Answer, Frame, Reason
from symd.model.identities import ObjectPath
from symd.model.plain_answers import NotPlain


def first_answer(file: memoryview, digest: str, query: ByAddress) -> Answer | None:
    """What the index answers that has these bytes; None where the answer is not plain, or they are no index of the module with the
    SHA-256 ``digest`` that is sound where the answer is read."""
    try:
        where, offset, kernel, reason, frames = whole_answer_at(file, bytes.fromhex(digest), query.address)
        path, section, number = where
        named = tuple([Frame(*frame) for frame in frames])
        return Answer(
            Reason(reason), ObjectPath(path), kernel, section, number, SectionOffset(offset), query.address, named
        )
    except NotPlain:
        return None
