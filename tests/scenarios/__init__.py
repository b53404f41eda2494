"""Scenarios: stories in plain text, played on the real core."""
