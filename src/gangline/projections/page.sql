-- What the page alone reads. `at_ms` is the moment that it shows, null for now: then nothing that
-- came later is seen.

-- name: page_span
SELECT (SELECT at_ms FROM gangline.decisions WHERE cell = %(cell)s
        ORDER BY applied_offset, item LIMIT 1) AS from_ms,
       (SELECT at_ms FROM gangline.decisions WHERE cell = %(cell)s
        ORDER BY applied_offset DESC, item DESC LIMIT 1) AS to_ms

-- name: page_activity
-- What people want to find again on the time line, in so many steps.
SELECT width_bucket(at_ms, %(from_ms)s, %(to_ms)s, %(steps)s) - 1 AS step,
       count(*) FILTER (WHERE kind = 'GangStarted') AS starts,
       count(*) FILTER (WHERE kind = 'GangPreempted') AS evictions,
       count(*) FILTER (WHERE kind = 'GpuWithdrawn'
           OR (kind = 'NodeHealthChanged' AND detail ->> 'health' = 'lost')) AS faults
FROM gangline.decisions
WHERE cell = %(cell)s AND at_ms >= %(from_ms)s AND at_ms < %(to_ms)s
  AND kind IN ('GangStarted', 'GangPreempted', 'GpuWithdrawn', 'NodeHealthChanged')
GROUP BY 1 ORDER BY 1

-- name: page_after
-- The scheduler's time never goes back, so the order of times is the order of decisions.
SELECT at_ms FROM gangline.decisions
WHERE cell = %(cell)s AND at_ms > %(at_ms)s
ORDER BY at_ms LIMIT 1

-- name: page_before
SELECT at_ms FROM gangline.decisions
WHERE cell = %(cell)s AND at_ms < %(at_ms)s
ORDER BY at_ms DESC LIMIT 1

-- name: page_gangs
-- Which GPUs each gang holds now.
SELECT a.job, a.attempt, a.state, j.team, a.seats
FROM gangline.jobs AS j
JOIN gangline.attempts AS a ON a.cell = j.cell AND a.job = j.job
WHERE j.cell = %(cell)s AND j.state IN ('starting', 'running', 'preempting')
  AND a.ended_at IS NULL
ORDER BY a.placed_ms, a.job

-- name: page_feed
-- Decisions, newest first, up to a moment; null filters do not filter.
SELECT position, at, kind, job, node, team, detail, item, position || '.' || item AS key
FROM gangline.decisions
WHERE cell = %(cell)s
  AND (%(kinds)s::text[] IS NULL OR kind = ANY (%(kinds)s))
  AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(node)s::text IS NULL OR node = %(node)s)
  AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(at_ms)s::bigint IS NULL OR applied_offset <= (
       SELECT max(applied_offset) FROM gangline.decisions
       WHERE cell = %(cell)s AND at_ms = (SELECT max(at_ms) FROM gangline.decisions
                                          WHERE cell = %(cell)s AND at_ms <= %(at_ms)s)))
  AND (applied_offset, item) < (%(before_offset)s::bigint, %(before_item)s::integer)
ORDER BY applied_offset DESC, item DESC
LIMIT %(limit)s

-- name: page_jobs
-- Jobs as the list shows them, newest first; `state` running means whatever holds GPUs.
SELECT job, team, class, gpus, state, submitted_at, started_at, ended_at, attempts, preemptions,
       wait_s, lost_gpu_s, reason, reason_text, level, jsonb_array_length(nodes) AS node_count,
       submitted_ms || ':' || job AS key
FROM gangline.jobs
WHERE cell = %(cell)s
  AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s))
  AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(names)s::text[] IS NULL OR job = ANY (%(names)s))
  AND (%(after_ms)s::bigint IS NULL
       OR (submitted_ms, job) < (%(after_ms)s, %(after_job)s::text))
ORDER BY submitted_ms DESC, job DESC
LIMIT %(limit)s

-- name: page_names_near
-- Names that contain a text, among the newest jobs: what most people look for is there.
SELECT job
FROM (SELECT job, submitted_ms FROM gangline.job
      WHERE cell = %(cell)s
        AND (%(states)s::text[] IS NULL OR state = ANY (%(states)s))
        AND (%(team)s::text IS NULL OR team = %(team)s)
        AND (%(after_ms)s::bigint IS NULL
             OR (submitted_ms, job) < (%(after_ms)s, %(after_job)s::text))
      ORDER BY submitted_ms DESC, job DESC
      LIMIT %(near)s) AS newest
WHERE lower(job) LIKE ANY (ARRAY[lower(%(like_0)s::text), lower(%(like_1)s::text),
                                 lower(%(like_2)s::text), lower(%(like_3)s::text)])
ORDER BY submitted_ms DESC, job DESC
LIMIT %(limit)s

-- name: page_names
-- The same among all jobs, those that have ended from their index. All that fit are found by their
-- letters before any is sorted out: who went from the newest on would read a long history for a
-- name of long ago.
SELECT job
FROM (SELECT job, submitted_ms, state, team FROM gangline.job
      WHERE cell = %(cell)s AND ended_ms IS NOT NULL
        AND lower(job) LIKE ANY (ARRAY[lower(%(like_0)s::text), lower(%(like_1)s::text),
                                       lower(%(like_2)s::text), lower(%(like_3)s::text)])
      UNION ALL
      SELECT job, submitted_ms, state, team FROM gangline.job
      WHERE cell = %(cell)s AND ended_ms IS NULL
        AND state IN ('queued', 'starting', 'running', 'preempting')
        AND lower(job) LIKE ANY (ARRAY[lower(%(like_0)s::text), lower(%(like_1)s::text),
                                       lower(%(like_2)s::text), lower(%(like_3)s::text)])
      OFFSET 0) AS named
WHERE (%(states)s::text[] IS NULL OR state = ANY (%(states)s))
  AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(after_ms)s::bigint IS NULL
       OR (submitted_ms, job) < (%(after_ms)s, %(after_job)s::text))
ORDER BY submitted_ms DESC, job DESC
LIMIT %(limit)s

-- name: page_waits_of
SELECT from_ms, to_ms, cause FROM gangline.wait
WHERE cell = %(cell)s AND job = %(job)s
ORDER BY from_ms

-- name: page_faults_near
-- Faults on a job's nodes while it was there.
SELECT f.node, f.gpu, f.kind, f.from_ms, (extract(epoch FROM f.to_at) * 1000)::bigint AS to_ms
FROM gangline.faults AS f
WHERE f.cell = %(cell)s AND f.node = ANY (%(nodes)s) AND f.from_ms >= %(from_ms)s
ORDER BY f.from_ms
LIMIT 500

-- name: page_shares
-- What teams got and had a right to, in GPUs on average over each step.
SELECT team, (bucket_ms / %(step_ms)s::bigint) * %(step_ms)s::bigint AS from_ms,
       sum(delivered_gpu_ms)::double precision / count(*) / 300000 AS delivered,
       sum(entitled_gpu_ms)::double precision / count(*) / 300000 AS entitled
FROM gangline.share_bucket
WHERE cell = %(cell)s AND bucket_ms >= %(from_ms)s AND bucket_ms < %(to_ms)s
GROUP BY team, bucket_ms / %(step_ms)s::bigint
ORDER BY team, from_ms

-- name: page_loans
-- Who lent how much to whom, in GPU-milliseconds.
SELECT team AS lender, counterparty AS borrower, sum(
           div(gpu_ms::numeric * (least(to_ms, %(to_ms)s) - greatest(from_ms, %(from_ms)s)),
               to_ms - from_ms))::bigint AS gpu_ms
FROM gangline.quota_ledger
WHERE cell = %(cell)s AND account = 'lent' AND to_ms > %(from_ms)s AND from_ms < %(to_ms)s
GROUP BY team, counterparty
HAVING sum(gpu_ms) <> 0
ORDER BY 3 DESC
LIMIT 200

-- name: page_bands
-- How long jobs that first started in a window had waited, by team and band.
SELECT team, gangline.band(gpus) AS band, count(*) AS started,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY started_ms - submitted_ms) / 1000.0 AS p50_s,
       percentile_disc(0.9) WITHIN GROUP (ORDER BY started_ms - submitted_ms) / 1000.0 AS p90_s
FROM gangline.job
WHERE cell = %(cell)s AND started_ms >= %(from_ms)s AND started_ms <= %(to_ms)s
GROUP BY GROUPING SETS ((team, gangline.band(gpus)), (gangline.band(gpus)))
ORDER BY team NULLS FIRST, array_position(ARRAY['1-7', '8-127', '128+'], gangline.band(gpus))

-- name: page_alarms
-- What is wrong with nodes now.
SELECT node, health, service, bad, health_since, health_cause, service_since, service_cause,
       service_by, path
FROM gangline.nodes
WHERE cell = %(cell)s AND (health <> 'well' OR service <> 'open' OR bad > 0)
ORDER BY greatest(health_since, service_since) DESC NULLS LAST, node
LIMIT 500

-- name: page_conditions
-- What was decided about the health and service of nodes up to a moment, in order.
SELECT node, kind, at_ms, detail FROM gangline.decisions
WHERE cell = %(cell)s AND node = ANY (%(nodes)s) AND at_ms <= %(at_ms)s
  AND kind IN ('NodeHealthChanged', 'NodeServiceChanged')
ORDER BY applied_offset, item

-- name: page_out
-- Nodes with GPUs that are out at a moment: because of what, and since when.
SELECT node, string_agg(DISTINCT kind, ', ' ORDER BY kind) AS kinds, min(from_ms) AS from_ms
FROM gangline.fault
WHERE cell = %(cell)s AND gpu >= 0 AND from_ms <= %(at_ms)s
  AND (to_ms IS NULL OR to_ms > %(at_ms)s)
GROUP BY node
