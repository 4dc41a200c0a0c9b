"""How long tests wait for other processes."""

# Seconds. A process that imports torch starts in three seconds on an idle machine, and in minutes
# on one with ten busy processes for each core. The limit ends a process that hangs; no test passes
# or fails by how fast it is.
PATIENCE = 600.0
