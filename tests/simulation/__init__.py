"""Simulation: seeded runs of a whole fleet, every invariant checked after every event."""
