"""Debug data apart from its code object: taking it out (slim) and putting it back (join)."""
