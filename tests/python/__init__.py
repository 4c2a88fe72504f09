"""symd as Python programs have it: ``symd.open``, its values as tables and pickled, and its types."""
