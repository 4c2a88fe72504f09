"""Where the command begins."""
