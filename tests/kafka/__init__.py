"""Kafka: what only a real broker shows."""
