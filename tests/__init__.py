"""Gangline's tests, in tiers; CONTRIBUTING.md tells them apart."""
