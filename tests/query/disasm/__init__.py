"""Disassemblers: compared with their own command lines, and with whatever hostile bytes make of them."""
