-- name: job
INSERT INTO job
SELECT %(cell)s, 'job-' || i, i, 'team-' || i %% 20, i %% 4, 1 + i %% 64,
       (ARRAY['succeeded', 'succeeded', 'succeeded', 'failed', 'cancelled'])[1 + i %% 5],
       1800000000000 + i::bigint * 45000, 1800000000000 + i::bigint * 45000 + i %% 1000 * 1000,
       1800000000000 + i::bigint * 45000 + 7200000, 1, 1, 0, 0, 0, 7200000, 0, false, '', '',
       0, '', 'user:u',
       'jobs-0-' || i, '', '', 'block', '["n0"]', '{"gpus": 8}'
FROM generate_series(1, %(rows)s) AS i

-- name: job_live
UPDATE job SET state = (ARRAY['queued', 'starting', 'running'])[1 + number %% 3], ended_ms = NULL
WHERE cell = %(cell)s AND number > %(rows)s - 1000

-- name: attempt
INSERT INTO attempt
SELECT %(cell)s, 'job-' || i, 1, 'ended', 8, 0, '[]', 'block', 1, 1800000000000 + i::bigint * 45000,
       1800000000000 + i::bigint * 45000, NULL, 1800000000000 + i::bigint * 45000 + 7200000,
       'finished', '', '', 0, 0,
       '', 0, 0, 7200000, 0, 2, NULL, NULL, '', '{}'
FROM generate_series(1, %(rows)s / 4) AS i

-- name: attempt_live
-- What runs now stands on nodes.
INSERT INTO attempt
SELECT %(cell)s, job, 1, 'running', 8, 0,
       jsonb_build_array(jsonb_build_object('node', 'node-' || number %% 1000, 'gpus', '[0]'::jsonb,
                                            'first_rank', 0)),
       'block', 1, submitted_ms, submitted_ms, NULL, NULL, '', '', '', 0, 0, '', 0, 0, 0, 0, 0,
       NULL, NULL, '', '{}'
FROM job WHERE cell = %(cell)s AND number > %(rows)s - 1000 AND state IN ('starting', 'running')
ON CONFLICT DO NOTHING

-- name: node
INSERT INTO node
SELECT %(cell)s, 'node-' || i, jsonb_build_array('s' || i / 256, 'b' || i / 32),
       '["spine", "block"]', 8, 'well', '[]', 'open', 1, 7, 0, 'r.......', '{}', '[]', '{}',
       1800000000000, '', 0, 1800000000000, '', '', 0, '{}', 0, '{}', '', '', '', false
FROM generate_series(0, 999) AS i

-- name: waiting
INSERT INTO waiting
SELECT %(cell)s, 'job-' || i, i, 'team-' || i %% 20, i %% 4, 1 + i %% 64, i %% 3 = 0,
       1800000000000 + i::bigint * 45000, 'capacity', '', false, '', NULL, NULL, NULL, NULL, 0
FROM generate_series(%(rows)s - 1000, %(rows)s) AS i

-- name: wait
INSERT INTO wait
SELECT %(cell)s, 'job-' || i, 1800000000000 + i::bigint * 45000,
       CASE WHEN i <= %(rows)s / 4 - 1000 THEN 1800000000000 + i::bigint * 45000 + 60000 END,
       'capacity', 'team-' || i %% 20, 8, true
FROM generate_series(1, %(rows)s / 4) AS i

-- name: decision_parts
SELECT make_parts('decision', 1000000, ARRAY[0]::bigint[])

-- name: decision
INSERT INTO decision
SELECT %(cell)s, i, 0, 1800000000000 + i::bigint * 45000,
       CASE WHEN i %% 500 = 0 THEN 'NodeHealthChanged'
            ELSE (ARRAY['JobQueued', 'GangPlaced', 'GangStarted', 'JobFinished'])[1 + i %% 4] END,
       'job-' || i / 2, 'node-' || i %% 1000, 'team-' || i %% 20, '{"a": 1}'
FROM generate_series(1, %(rows)s / 4) AS i

-- name: ledger_parts
SELECT make_parts('ledger_entry', 2592000000, array_agg(number))
FROM generate_series(1800000000000 / 2592000000,
                     (1800000000000 + %(rows)s / 4 * 45000::bigint + 45000) / 2592000000) AS number

-- name: ledger
INSERT INTO ledger_entry
SELECT %(cell)s, 1800000000000 + i::bigint * 45000, 1800000000000 + i::bigint * 45000 + 45000,
       'team-' || i %% 20,
       'unsaved', '', 1000, 0
FROM generate_series(1, %(rows)s / 4) AS i

-- name: fault
INSERT INTO fault
SELECT %(cell)s, 'node-' || i %% 1000, i %% 8, 1800000000000 + i::bigint * 45000,
       1800000000000 + i::bigint * 45000 + 1, 'xid',
       '', false
FROM generate_series(1, %(rows)s / 10) AS i

-- name: usage_bucket
INSERT INTO usage_bucket
SELECT %(cell)s, 1800000000000 + i::bigint * 300000, account, 1000
FROM generate_series(1, %(rows)s / 10) AS i, unnest(ARRAY['productive', 'unsaved',
       'lost']) AS account

-- name: share_bucket
INSERT INTO share_bucket
SELECT %(cell)s, 1800000000000 + i::bigint * 300000, 'team-' || t, 1, 1, 1, 1
FROM generate_series(1, %(rows)s / 20) AS i, generate_series(1, 4) AS t

-- name: view_position
INSERT INTO view_position (cell, view, next_offset, applied_offset, as_of_ms)
SELECT %(cell)s, view, %(rows)s + 1, %(rows)s, 1800000000000 + %(rows)s * 45000::bigint
FROM unnest(ARRAY['jobs', 'queue', 'waits', 'decisions', 'quota_ledger', 'fairness']) AS view

-- name: analyze
ANALYZE
