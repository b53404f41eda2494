"""What runs on the nodes: the pure agent core, the executor, the daemon, and simulated agents."""
