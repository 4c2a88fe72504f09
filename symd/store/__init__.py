"""Digest and format version -> module bytes and index, or the remembered failure; a catalogue of what is there.

Files hold the bytes, SQLite the facts about them. A file is always written before its row, so a kill at any moment
leaves at worst a file without a row, which the next start adopts."""

from symd.store.catalogued import ModuleStore, Upload
from symd.store.rows import Eviction
from symd.store.store import Store

__all__ = ("Eviction", "ModuleStore", "Store", "Upload")
