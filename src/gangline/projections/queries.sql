-- What the API reads. Filters that are null do not filter; connections plan each statement for its
-- parameters (force_custom_plan), so that such a filter costs nothing and an index is used.

-- name: job
SELECT * FROM gangline.jobs WHERE cell = %(cell)s AND job = %(job)s

-- name: jobs
SELECT *, submitted_ms || ':' || job AS key
FROM gangline.jobs
WHERE cell = %(cell)s
  AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(state)s::text IS NULL OR state = %(state)s)
  AND (%(class)s::text IS NULL OR class = %(class)s)
  AND (%(array_of)s::text IS NULL OR array_of = %(array_of)s)
  AND (%(after_ms)s::bigint IS NULL OR (submitted_ms <= %(after_ms)s
       AND (submitted_ms < %(after_ms)s OR job > %(after_name)s)))
ORDER BY submitted_ms DESC, job
LIMIT %(limit)s

-- name: attempts
SELECT *, attempt::text AS key
FROM gangline.attempts
WHERE cell = %(cell)s
  AND job = %(job)s
  AND (%(after_number)s::bigint IS NULL OR attempt > %(after_number)s)
ORDER BY attempt
LIMIT %(limit)s

-- name: queue
-- The place in line is counted over all that wait, before the filters.
SELECT *, position::text AS key
FROM (SELECT * FROM gangline.queue WHERE cell = %(cell)s) AS line
WHERE (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(class)s::text IS NULL OR class = %(class)s)
  AND (%(reason)s::text IS NULL OR reason = %(reason)s)
  AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(after_number)s::bigint IS NULL OR position > %(after_number)s)
ORDER BY position
LIMIT %(limit)s

-- name: teams
SELECT *, team AS key
FROM gangline.teams
WHERE cell = %(cell)s
  AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(parent)s::text IS NULL OR parent = %(parent)s)
  AND (%(after_name)s::text IS NULL OR team > %(after_name)s)
ORDER BY team
LIMIT %(limit)s

-- name: nodes
SELECT *, node AS key
FROM gangline.nodes
WHERE cell = %(cell)s
  AND (%(node)s::text IS NULL OR node = %(node)s)
  AND (%(health)s::text IS NULL OR health = %(health)s)
  AND (%(service)s::text IS NULL OR service = %(service)s)
  AND (%(after_name)s::text IS NULL OR node > %(after_name)s)
ORDER BY node
LIMIT %(limit)s

-- name: faults
SELECT *, from_ms || ':' || node || ':' || coalesce(gpu, -1) AS key
FROM gangline.faults
WHERE cell = %(cell)s
  AND (%(node)s::text IS NULL OR node = %(node)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (%(after_ms)s::bigint IS NULL OR (from_ms <= %(after_ms)s
       AND (from_ms < %(after_ms)s
            OR node || ':' || coalesce(gpu, -1) > %(after_name)s)))
ORDER BY from_ms DESC, node || ':' || coalesce(gpu, -1)
LIMIT %(limit)s

-- name: waits
SELECT *, day || ':' || band || ':' || cause AS key
FROM gangline.waits
WHERE cell = %(cell)s
  AND (%(band)s::text IS NULL OR band = %(band)s)
  AND (%(cause)s::text IS NULL OR cause = %(cause)s)
  AND (%(after_name)s::text IS NULL OR day || ':' || band || ':' || cause < %(after_name)s)
ORDER BY day || ':' || band || ':' || cause DESC
LIMIT %(limit)s

-- name: wait_bands
-- How long jobs that first started since a moment had waited, by band.
SELECT band, count(*) AS started,
       avg(wait_ms)::double precision / 1000.0 AS mean_s,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY wait_ms) / 1000.0::double precision AS p50_s,
       percentile_disc(0.9) WITHIN GROUP (ORDER BY wait_ms) / 1000.0::double precision AS p90_s,
       percentile_disc(0.99) WITHIN GROUP (ORDER BY wait_ms) / 1000.0::double precision AS p99_s,
       max(wait_ms) / 1000.0::double precision AS max_s
FROM (SELECT gangline.band(gpus) AS band, started_ms - submitted_ms AS wait_ms
      FROM gangline.job WHERE cell = %(cell)s AND started_ms >= %(since_ms)s) AS starts
GROUP BY band
ORDER BY array_position(ARRAY['1-7', '8-127', '128+'], band)

-- name: fairness
SELECT *, window_s || ':' || team AS key
FROM gangline.fairness
WHERE cell = %(cell)s
  AND (%(team)s::text IS NULL OR team = %(team)s)
  AND (%(window_s)s::bigint IS NULL OR window_s = %(window_s)s)
  AND (%(after_number)s::bigint IS NULL
       OR (window_s, team) > (%(after_number)s, %(after_name)s::text))
ORDER BY window_s, team
LIMIT %(limit)s

-- name: ledger
-- Intervals that reach over an edge of the window count by the part that lies in it. The two sides
-- of a transfer are cut alike (division of integers goes toward zero), so the sum stays exact.
SELECT team, account, counterparty, sum(
           div(gpu_ms::numeric * (least(to_ms, %(to_ms)s) - greatest(from_ms, %(from_ms)s)),
               to_ms - from_ms)
       )::bigint AS gpu_ms
FROM gangline.quota_ledger
WHERE cell = %(cell)s AND to_ms > %(from_ms)s AND from_ms < %(to_ms)s
  AND (%(team)s::text IS NULL OR team = %(team)s)
GROUP BY team, account, counterparty
HAVING sum(gpu_ms) <> 0
ORDER BY team, account, counterparty

-- name: utilization
SELECT gangline.at(min(bucket_ms)) AS from_at, account, sum(gpu_ms)::bigint AS gpu_ms
FROM gangline.utilization
WHERE cell = %(cell)s AND bucket_ms >= %(from_ms)s AND bucket_ms < %(to_ms)s
GROUP BY bucket_ms / %(step_ms)s, account
HAVING sum(gpu_ms) <> 0
ORDER BY bucket_ms / %(step_ms)s, account

-- name: decisions
SELECT position, at, kind, job, node, team, detail, item,
       position || '.' || item AS key
FROM gangline.decisions
WHERE cell = %(cell)s
  AND (%(job)s::text IS NULL OR job = %(job)s)
  AND (%(node)s::text IS NULL OR node = %(node)s)
  AND (%(kind)s::text IS NULL OR kind = %(kind)s)
  AND (applied_offset, item) > (%(after_offset)s, %(after_item)s)
ORDER BY applied_offset, item
LIMIT %(limit)s

-- name: refusal
-- Why a fact of late changed nothing. Refusals of one kind are told together: of those that do not
-- fill their range, only the ends are sure.
SELECT detail ->> 'reason' AS reason, detail ->> 'detail' AS detail
FROM (SELECT detail FROM gangline.decisions
      WHERE cell = %(cell)s AND kind = 'InputRejected'
      ORDER BY applied_offset DESC, item DESC LIMIT 1000) AS newest
CROSS JOIN LATERAL (
    SELECT (detail ->> 'first')::bigint AS first, (detail ->> 'last')::bigint AS last,
           (detail ->> 'count')::bigint AS count
) AS range
WHERE detail ->> 'topic' = %(topic)s AND (detail ->> 'partition')::integer = %(partition)s
  AND %(offset)s::bigint BETWEEN range.first AND range.last
  AND (%(offset)s::bigint IN (range.first, range.last)
       OR range.count = range.last - range.first + 1)
LIMIT 1

-- name: last_decision
SELECT coalesce(max(applied_offset), -1) AS applied_offset
FROM gangline.view_position WHERE cell = %(cell)s AND view = 'decisions'

-- name: job_events
-- One job's life: its decisions, and behind those of a moment the new reason why it waits.
SELECT at, kind, position, detail, at_ms || ':' || place || ':' || item AS key
FROM (
    SELECT at_ms, at, kind, position, detail, applied_offset AS place, item
    FROM gangline.decisions
    WHERE cell = %(cell)s AND job = %(job)s
    UNION ALL
    SELECT from_ms, gangline.at(from_ms), 'Waits', NULL,
           jsonb_build_object('cause', cause, 'until_ms', to_ms), 100000000000000000, 0
    FROM gangline.wait
    WHERE cell = %(cell)s AND job = %(job)s
) AS life
WHERE (at_ms, place, item)
    > (%(after_ms)s::bigint, %(after_offset)s::bigint, %(after_item)s::bigint)
ORDER BY at_ms, place, item
LIMIT %(limit)s

-- name: projection
SELECT * FROM gangline.projection WHERE cell = %(cell)s ORDER BY view

-- name: contained
-- Whether every view (or one) that is not stuck contains a decision, or what followed from a fact.
SELECT coalesce(bool_and(
    CASE WHEN %(topic)s::text = 'decisions' THEN applied_offset >= %(offset)s::bigint
         ELSE coalesce((inputs ->> %(partition)s::text)::bigint, -1) >= %(offset)s::bigint END
), false) AS contained
FROM gangline.view_position
WHERE cell = %(cell)s AND problem = '' AND (%(view)s::text IS NULL OR view = %(view)s)

-- name: fleet
-- The whole fleet in columns: one letter a GPU.
SELECT array_agg(node ORDER BY node) AS nodes,
       array_agg(path ORDER BY node) AS paths,
       array_agg(health ORDER BY node) AS health,
       array_agg(service ORDER BY node) AS service,
       array_agg(gpu_states ORDER BY node) AS gpu_states,
       array_agg(jobs ORDER BY node) AS jobs
FROM gangline.nodes WHERE cell = %(cell)s

-- name: fleet_numbers
SELECT coalesce(sum(gpus), 0)::bigint AS total, coalesce(sum(held), 0)::bigint AS held,
       coalesce(sum(free), 0)::bigint AS free, count(*) AS nodes,
       coalesce(sum(CASE WHEN service <> 'open' THEN 0 WHEN health <> 'well' THEN gpus
                         ELSE bad END), 0)::bigint AS unhealthy
FROM gangline.nodes WHERE cell = %(cell)s

-- name: queue_numbers
SELECT reason, count(*) AS jobs, sum(gpus)::bigint AS gpus
FROM gangline.waiting WHERE cell = %(cell)s AND queued GROUP BY reason ORDER BY reason

-- name: job_numbers
SELECT state, count(*) AS jobs
FROM gangline.job
WHERE cell = %(cell)s AND state IN ('queued', 'starting', 'running', 'preempting')
GROUP BY state ORDER BY state
