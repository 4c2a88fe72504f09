"""symd as Python programs have it: ``symd.open``, its values as tables, in HTML and pickled, and its types."""
