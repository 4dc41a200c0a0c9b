"""Data in partitions: where they live, who evaluates them, and how a fit goes on after a stop."""
