"""The HTTP side: the page and what it asks."""
