"""Contracts: one suite for every driver of a protocol."""
