"""What the operating system is asked for: child processes and their confinement, files that only their owner reads,
locks, and texts of errors."""
