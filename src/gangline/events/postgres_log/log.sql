-- The log on Postgres. Every append takes its offsets from the counter in its partition's row,
-- and that row stays locked until the commit: so offsets become visible in their order. (A
-- serial does not do that: a later number may be committed first, and a reader that saw it
-- skips the earlier for ever. Neither do transaction ids: readers would wait for any long
-- transaction, and id order is not commit order.)

-- name: lock_schema
SELECT pg_advisory_xact_lock(hashtext('gangline_log'));

-- name: create_schema
CREATE SCHEMA IF NOT EXISTS gangline_log;

-- name: create_partitions
CREATE TABLE IF NOT EXISTS gangline_log.partitions (
    partition_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    cell         text    NOT NULL,
    topic        text    NOT NULL,
    partition    integer NOT NULL,
    start_offset bigint  NOT NULL DEFAULT 0,
    next_offset  bigint  NOT NULL DEFAULT 0,
    UNIQUE (cell, topic, partition)
) WITH (fillfactor = 50);

-- name: create_records
CREATE TABLE IF NOT EXISTS gangline_log.records (
    partition_id  integer NOT NULL REFERENCES gangline_log.partitions,
    "offset"      bigint  NOT NULL,
    appended_ms   bigint  NOT NULL,
    key           bytea   NOT NULL,
    value         bytea   NOT NULL,
    header_names  text[]  NOT NULL,
    header_values bytea[] NOT NULL,
    PRIMARY KEY (partition_id, "offset")
);

-- name: create_writers
CREATE TABLE IF NOT EXISTS gangline_log.writers (
    cell text   NOT NULL,
    role text   NOT NULL,
    term bigint NOT NULL,
    PRIMARY KEY (cell, role)
);

-- name: create_partition
INSERT INTO gangline_log.partitions (cell, topic, partition)
VALUES (%(cell)s, %(topic)s, %(partition)s)
ON CONFLICT DO NOTHING;

-- name: select_partitions
SELECT partition_id, topic, partition, start_offset, next_offset
FROM gangline_log.partitions
WHERE cell = %(cell)s
ORDER BY topic, partition;

-- name: reserve
UPDATE gangline_log.partitions
SET next_offset = next_offset + %(count)s
WHERE partition_id = %(partition_id)s
RETURNING
    next_offset - %(count)s AS first_offset,
    floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS appended_ms,
    pg_current_xact_id()::text AS transaction_id;

-- name: insert
-- The rows are put behind it.
INSERT INTO gangline_log.records
    (partition_id, "offset", appended_ms, key, value, header_names, header_values)
VALUES

-- name: transaction_status
SELECT pg_xact_status(%(transaction_id)s::xid8);

-- name: open_writer
INSERT INTO gangline_log.writers AS writer (cell, role, term)
VALUES (%(cell)s, %(role)s, 1)
ON CONFLICT (cell, role) DO UPDATE SET term = writer.term + 1
RETURNING term;

-- name: lock_writer
SELECT term
FROM gangline_log.writers
WHERE cell = %(cell)s AND role = %(role)s
FOR UPDATE;

-- One statement is one snapshot: the counters and the records belong together, and every record
-- below a counter that is seen is seen too. A long fetch is cut by bytes, but never to nothing.

-- name: fetch
SELECT
    partition.topic,
    partition.partition,
    partition.start_offset,
    partition.next_offset,
    record."offset",
    record.appended_ms,
    record.key,
    record.value,
    record.header_names,
    record.header_values
FROM unnest(%(partition_ids)s::integer[], %(offsets)s::bigint[]) AS wanted (partition_id, "offset")
JOIN gangline_log.partitions AS partition USING (partition_id)
LEFT JOIN LATERAL (
    SELECT *
    FROM (
        SELECT
            *,
            sum(octet_length(value)) OVER (ORDER BY "offset" ROWS UNBOUNDED PRECEDING)
                - octet_length(value) AS bytes_before
        FROM gangline_log.records
        WHERE partition_id = wanted.partition_id AND "offset" >= wanted."offset"
        ORDER BY "offset"
        LIMIT %(limit)s
    ) AS sized
    WHERE sized.bytes_before < %(max_bytes)s
) AS record ON TRUE
ORDER BY partition.topic, partition.partition, record."offset";

-- name: compact
DELETE FROM gangline_log.records AS record
USING (
    SELECT partition_id, key, max("offset") AS newest
    FROM gangline_log.records
    WHERE partition_id = ANY (%(partition_ids)s)
    GROUP BY partition_id, key
) AS kept
WHERE record.partition_id = kept.partition_id
    AND record.key = kept.key
    AND record."offset" < kept.newest;

-- name: lock_partition
SELECT next_offset
FROM gangline_log.partitions
WHERE partition_id = %(partition_id)s
FOR UPDATE;

-- Only after lock_partition, in a statement of its own: an append that was waited for must be seen.

-- name: expire
WITH kept AS (
    SELECT "offset"
    FROM gangline_log.records
    WHERE partition_id = %(partition_id)s
        AND appended_ms >= floor(extract(epoch FROM clock_timestamp()) * 1000) - %(retention_ms)s
    ORDER BY "offset"
    LIMIT 1
),
moved AS (
    UPDATE gangline_log.partitions
    SET start_offset = greatest(start_offset, coalesce((SELECT "offset" FROM kept), next_offset))
    WHERE partition_id = %(partition_id)s
    RETURNING start_offset
)
DELETE FROM gangline_log.records
WHERE partition_id = %(partition_id)s AND "offset" < (SELECT start_offset FROM moved);
