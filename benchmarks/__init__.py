"""symd beside its peers: every figure is a ratio of medians within one run."""
