"""Tests of the `gangline` command."""
