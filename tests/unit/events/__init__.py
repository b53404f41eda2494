"""Rows on the log's pure parts."""
