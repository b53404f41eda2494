"""Integration: our code against real servers and real processes."""
