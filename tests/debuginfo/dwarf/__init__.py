"""Tests of the DWARF decoder."""
