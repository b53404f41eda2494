-- name: load
-- Without the spec, which never changes.
SELECT cell, job, number, team, class_rank, gpus, state, submitted_ms, started_ms, ended_ms,
       attempt, attempts, aborted_starts, preemptions, lost_gpu_ms, productive_ms, retries_used,
       held, reason, reason_text, exit_code, nearest, actor, submission, array_of, stop_cause,
       level, nodes
FROM job WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: remove
-- An id that comes back after the time in which submissions are told apart is another job.
DELETE FROM job WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: write
INSERT INTO job
SELECT * FROM jsonb_populate_recordset(null::job, %(rows)s)
ON CONFLICT (cell, job) DO UPDATE SET
    class_rank = excluded.class_rank, state = excluded.state,
    started_ms = excluded.started_ms, ended_ms = excluded.ended_ms,
    attempt = excluded.attempt, attempts = excluded.attempts,
    aborted_starts = excluded.aborted_starts, preemptions = excluded.preemptions,
    lost_gpu_ms = excluded.lost_gpu_ms, productive_ms = excluded.productive_ms,
    retries_used = excluded.retries_used, held = excluded.held,
    reason = excluded.reason, reason_text = excluded.reason_text,
    exit_code = excluded.exit_code, nearest = excluded.nearest,
    stop_cause = excluded.stop_cause, level = excluded.level, nodes = excluded.nodes
