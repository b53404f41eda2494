-- name: load
-- What goes on of these jobs.
SELECT * FROM wait WHERE cell = %(cell)s AND job = ANY(%(jobs)s) AND to_ms IS NULL

-- name: load_jobs
SELECT * FROM wait_job WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: drop_open
-- What went on is written again, ended or not, unless it turned out to have had no length.
DELETE FROM wait WHERE cell = %(cell)s AND job = ANY(%(jobs)s) AND to_ms IS NULL

-- name: write
INSERT INTO wait
SELECT * FROM jsonb_populate_recordset(null::wait, %(rows)s)

-- name: write_jobs
INSERT INTO wait_job
SELECT * FROM jsonb_populate_recordset(null::wait_job, %(rows)s)
ON CONFLICT (cell, job) DO UPDATE SET started = excluded.started

-- name: remove_jobs
DELETE FROM wait_job WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: add_totals
INSERT INTO wait_total
SELECT cell, (at(to_ms) AT TIME ZONE 'UTC')::date, band(gpus), cause, count(*),
       sum(to_ms - from_ms)
FROM jsonb_populate_recordset(null::wait, %(rows)s)
WHERE to_ms IS NOT NULL
GROUP BY 1, 2, 3, 4
ON CONFLICT (cell, day, band, cause) DO UPDATE SET
    waits = wait_total.waits + excluded.waits, wait_ms = wait_total.wait_ms + excluded.wait_ms
