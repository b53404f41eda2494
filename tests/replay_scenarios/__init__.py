"""The scenario runner and what it stands on: grammar, world, agents, rules."""
