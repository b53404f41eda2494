"""Tidy: what a reviewer would otherwise have to look for."""
