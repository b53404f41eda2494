-- name: lock
SELECT pg_try_advisory_lock(hashtext('gangline_rebuild'))

-- name: drop_beside
DROP SCHEMA IF EXISTS gangline_rebuild CASCADE

-- name: make_beside
CREATE SCHEMA gangline_rebuild

-- name: make_table
CREATE TABLE gangline_rebuild.{table} (LIKE gangline.{table} INCLUDING ALL)

-- name: measure
-- Count and an order-free hash of a cell's rows.
SELECT count(*), coalesce(sum(hashtextextended(t::text, 0)::numeric), 0)
FROM {schema}.{table} AS t WHERE cell = %(cell)s

-- name: make_parts
-- So that there is room for the rows that come.
SELECT gangline.make_parts(
    %(parent)s::text, %(size)s::bigint,
    (SELECT coalesce(array_agg(DISTINCT {column} / %(size)s::bigint), '{{}}')
     FROM gangline_rebuild.{table})
)

-- name: clear
DELETE FROM gangline.{table} WHERE cell = %(cell)s

-- name: fill
INSERT INTO gangline.{table} SELECT * FROM gangline_rebuild.{table} WHERE cell = %(cell)s

-- name: clear_memory
DELETE FROM gangline.view_memory WHERE cell = %(cell)s AND view = ANY(%(views)s)

-- name: fill_memory
INSERT INTO gangline.view_memory
SELECT * FROM gangline_rebuild.view_memory WHERE cell = %(cell)s AND view = ANY(%(views)s)

-- name: move
-- The views stand where they were built to; projectors that remember another build start afresh.
UPDATE gangline.view_position AS live SET
    next_offset = built.next_offset, applied_offset = built.applied_offset, seq = built.seq,
    term = built.term, genesis = built.genesis, digest = built.digest, as_of_ms = built.as_of_ms,
    appended_ms = built.appended_ms, inputs = built.inputs, head_offset = built.head_offset,
    checked_ms = built.checked_ms, skipped = built.skipped,
    skipped_position = built.skipped_position, problem = '', problem_position = '',
    problem_ms = NULL, generation = live.generation + 1
FROM gangline_rebuild.view_position AS built
WHERE live.cell = %(cell)s AND built.cell = live.cell AND built.view = live.view
