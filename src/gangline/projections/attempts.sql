-- name: load
-- Without the place and what decided it, which never change.
SELECT cell, job, attempt, state, gpus, borrowed, level, crossed, placed_ms, started_ms,
       stopping_ms, ended_ms, cause, cause_text, claimant, exit_code, exit_signal, exit_node,
       resumed_ms, resume_step, productive_ms, lost_gpu_ms, checkpoints, checkpoint_ms,
       checkpoint_step, checkpoint_path
FROM attempt
WHERE cell = %(cell)s AND job = ANY(%(jobs)s) AND ended_ms IS NULL

-- name: remove
-- A job whose id comes back after years counts its attempts anew.
DELETE FROM attempt AS a
USING jsonb_populate_recordset(null::attempt, %(rows)s) AS new
WHERE a.cell = new.cell AND a.job = new.job AND a.attempt = new.attempt

-- name: write
INSERT INTO attempt
SELECT * FROM jsonb_populate_recordset(null::attempt, %(rows)s)
ON CONFLICT (cell, job, attempt) DO UPDATE SET
    state = excluded.state, started_ms = excluded.started_ms,
    stopping_ms = excluded.stopping_ms, ended_ms = excluded.ended_ms,
    cause = excluded.cause, cause_text = excluded.cause_text, claimant = excluded.claimant,
    exit_code = excluded.exit_code, exit_signal = excluded.exit_signal,
    exit_node = excluded.exit_node, resumed_ms = excluded.resumed_ms,
    resume_step = excluded.resume_step, productive_ms = excluded.productive_ms,
    lost_gpu_ms = excluded.lost_gpu_ms, checkpoints = excluded.checkpoints,
    checkpoint_ms = excluded.checkpoint_ms, checkpoint_step = excluded.checkpoint_step,
    checkpoint_path = excluded.checkpoint_path
