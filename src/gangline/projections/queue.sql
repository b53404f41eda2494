-- name: load
SELECT * FROM waiting WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: write
INSERT INTO waiting
SELECT * FROM jsonb_populate_recordset(null::waiting, %(rows)s)
ON CONFLICT (cell, job) DO UPDATE SET
    class_rank = excluded.class_rank, queued = excluded.queued,
    reason = excluded.reason, reason_text = excluded.reason_text, held = excluded.held,
    reservation = excluded.reservation, planned_ms = excluded.planned_ms,
    start_ms = excluded.start_ms, first_planned_ms = excluded.first_planned_ms,
    first_start_ms = excluded.first_start_ms, not_before_ms = excluded.not_before_ms

-- name: remove
DELETE FROM waiting WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: keep_estimates
INSERT INTO start_estimate
SELECT * FROM jsonb_populate_recordset(null::start_estimate, %(rows)s)
ON CONFLICT DO NOTHING
