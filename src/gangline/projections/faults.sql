-- name: load
SELECT * FROM fault WHERE cell = %(cell)s AND node = ANY(%(nodes)s) AND to_ms IS NULL

-- name: write
INSERT INTO fault
SELECT * FROM jsonb_populate_recordset(null::fault, %(rows)s)
ON CONFLICT (cell, node, gpu, from_ms, kind) DO UPDATE SET to_ms = excluded.to_ms
