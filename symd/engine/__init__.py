"""The verbs of symd over a store of modules, and what opens the files that a user names."""
