"""SPIR-V as a format."""
