"""Gangline: an event-sourced scheduler for GPU training jobs."""
