"""Binaries stated in a few lines, well-formed and broken: ELF, DWARF, line programs and GPU containers as bytes.

Nothing here uses symd; what the builders write is checked against independent readers by the tests beside them.
"""
