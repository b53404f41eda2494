"""The `gangline` command: thin words over the other rooms, and the servers a laptop needs."""
