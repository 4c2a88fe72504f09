"""Device addresses as of a time: contexts, what was loaded in them when, and the questions about that."""
