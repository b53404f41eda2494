"""Unit: one row, one rule."""
