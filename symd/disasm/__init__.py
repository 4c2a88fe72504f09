"""Disassemblers that may be installed: each is optional at run time."""
