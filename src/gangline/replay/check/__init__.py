"""Checking a history from its decisions alone, without the core (`gangline replay check`)."""
