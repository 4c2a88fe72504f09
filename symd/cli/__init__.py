"""The command ``symd``, a module for each verb or for a few that belong together; ``command_line`` has the table of
them. Importing the package imports none of it: questions that ``start`` answers do without click, whose import is
slow."""
