"""Child processes: what becomes of them is told truly, and nothing of them is left."""
