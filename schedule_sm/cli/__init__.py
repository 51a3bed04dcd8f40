"""The command line: ``schedule-sm``."""
