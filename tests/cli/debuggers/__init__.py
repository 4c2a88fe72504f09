"""symd's commands inside real debuggers."""
