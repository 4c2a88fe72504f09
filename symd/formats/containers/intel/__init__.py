"""Formats of Intel's compilers and drivers."""
