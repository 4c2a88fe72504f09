"""AMD code objects."""
