"""Questions about a module's bytes, and the form in which they travel."""
