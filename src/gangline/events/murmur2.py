"""Kafka's hash of keys, so that every driver puts a key into the same partition.

Java clients choose the partition of a key by murmur2; librdkafka does so by CRC32 unless told
otherwise, and would then put the same job elsewhere. Here it is a pure function that all drivers
share.
"""

from __future__ import annotations

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_SHIFT = 24
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """The hash as an unsigned 32-bit number, bit for bit what Kafka's Java client computes."""
    whole = len(data) - len(data) % 4
    value = _SEED ^ len(data)
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> _SHIFT) * _MULTIPLIER & _MASK
        value = (value * _MULTIPLIER & _MASK) ^ word
    if whole < len(data):
        value = (value ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    return value ^ value >> 15


def partition_of_key(key: bytes, partitions: int) -> int:
    """Which of so many partitions a key belongs to, as Kafka's default partitioner has it."""
    return (murmur2(key) & _POSITIVE) % partitions
