"""The tests of symd, room for room; ``builders`` makes binaries that no compiler writes."""
