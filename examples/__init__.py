"""Scripts that show the package at work, and an application of it: ``replication``."""
