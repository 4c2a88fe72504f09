"""Modules as messages."""

from __future__ import annotations

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.rpc.wire.modules import from_module, to_module

DIGEST = Digest("ab" * 32)


def test_a_module_that_the_catalogue_has_not_admitted_yet_has_the_format_that_was_found():
    """Two clients send the same module, and one is answered between the other's index and its entry."""
    message = to_module(ModuleRecord(DIGEST, 100, "", "", 1.0), ModuleSummary(DIGEST, 100, "zebin"))
    assert message.format == "zebin"
    assert from_module(message, (), (), ()).format == "zebin"
    assert to_module(ModuleRecord(DIGEST, 100, "zebin", "", 1.0)).format == "zebin"
