-- Records with offsets of their own; see loading.py.

-- name: partitions
SELECT partition_id, topic, partition
FROM gangline_log.partitions
WHERE cell = %(cell)s
ORDER BY topic, partition;

-- name: copy
COPY gangline_log.records
    (partition_id, "offset", appended_ms, key, value, header_names, header_values)
FROM STDIN;

-- name: move
UPDATE gangline_log.partitions
SET next_offset = greatest(next_offset, %(last)s + 1)
WHERE partition_id = %(partition_id)s;
