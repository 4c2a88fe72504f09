"""Debug data apart from its code object: taken off (slim) and put back (join)."""
