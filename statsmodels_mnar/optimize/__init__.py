"""Sums over rows and the optimisers that climb them, each of which says how it ended."""
