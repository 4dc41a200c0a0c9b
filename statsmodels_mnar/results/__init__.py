"""Results classes, tables and plots."""
