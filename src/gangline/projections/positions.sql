-- name: ensure
INSERT INTO view_position (cell, view) SELECT %(cell)s, unnest(%(views)s::text[])
ON CONFLICT DO NOTHING

-- name: read
SELECT view, next_offset, applied_offset, seq, term, genesis, digest, as_of_ms, problem,
       generation
FROM view_position WHERE cell = %(cell)s AND view = ANY(%(views)s) ORDER BY view

-- name: lock
-- Whoever else projects the same views waits here, and then finds them further on.
SELECT view, next_offset, applied_offset, seq, term, genesis, digest, as_of_ms, problem,
       generation
FROM view_position WHERE cell = %(cell)s AND view = ANY(%(views)s) ORDER BY view
FOR UPDATE

-- name: move
-- A view that moves has no problem any more.
UPDATE view_position SET
    next_offset = %(next_offset)s, applied_offset = %(applied_offset)s, seq = %(seq)s,
    term = %(term)s, genesis = %(genesis)s, digest = %(digest)s, as_of_ms = %(as_of_ms)s,
    appended_ms = %(appended_ms)s, inputs = inputs || %(inputs)s::jsonb,
    skipped = skipped + %(skipped)s,
    skipped_position = coalesce(%(skipped_position)s::text, skipped_position),
    problem = '', problem_position = '', problem_ms = NULL
WHERE cell = %(cell)s AND view = ANY(%(views)s)

-- name: note_problem
UPDATE view_position SET
    problem = %(problem)s, problem_position = %(position)s,
    problem_ms = coalesce(problem_ms, %(now_ms)s)
WHERE cell = %(cell)s AND view = ANY(%(views)s)

-- name: look
-- How far the log goes. Where a view has read all, its own place is the end: offsets have holes.
-- Rows that somebody moves right now are left alone: the next look comes soon.
UPDATE view_position AS p SET
    head_offset = CASE WHEN p.next_offset >= %(read_to)s THEN p.next_offset ELSE %(head)s END,
    checked_ms = %(now_ms)s
FROM (SELECT cell, view FROM view_position
      WHERE cell = %(cell)s AND view = ANY(%(views)s)
      ORDER BY view FOR UPDATE SKIP LOCKED) AS at_rest
WHERE p.cell = at_rest.cell AND p.view = at_rest.view

-- name: load_memory
SELECT key, value FROM view_memory WHERE cell = %(cell)s AND view = %(view)s ORDER BY key

-- name: write_memory
INSERT INTO view_memory (cell, view, key, value)
SELECT %(cell)s, %(view)s, key, value FROM jsonb_each(%(values)s::jsonb)
ON CONFLICT (cell, view, key) DO UPDATE SET value = excluded.value

-- name: forget
DELETE FROM view_memory WHERE cell = %(cell)s AND view = %(view)s AND key = ANY(%(keys)s)
