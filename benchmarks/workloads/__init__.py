"""Files to measure with, generated on this machine."""
