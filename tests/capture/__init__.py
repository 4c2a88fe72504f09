"""Modules of running programs: every way in, tried on real processes and folders."""
