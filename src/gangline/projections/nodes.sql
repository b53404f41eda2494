-- name: load
SELECT * FROM node WHERE cell = %(cell)s AND node = ANY(%(nodes)s)

-- name: load_gangs
SELECT * FROM node_gang WHERE cell = %(cell)s AND job = ANY(%(jobs)s)

-- name: write
INSERT INTO node
SELECT * FROM jsonb_populate_recordset(null::node, %(rows)s)
ON CONFLICT (cell, node) DO UPDATE SET
    path = excluded.path, levels = excluded.levels, gpus = excluded.gpus,
    health = excluded.health, conditions = excluded.conditions, service = excluded.service,
    held = excluded.held,
    free = excluded.free, bad = excluded.bad, gpu_states = excluded.gpu_states,
    occupants = excluded.occupants,
    bad_gpus = excluded.bad_gpus, claims = excluded.claims, health_ms = excluded.health_ms,
    health_cause = excluded.health_cause, until_ms = excluded.until_ms,
    service_ms = excluded.service_ms, service_cause = excluded.service_cause,
    service_by = excluded.service_by, deadline_ms = excluded.deadline_ms,
    maintenance = excluded.maintenance, strikes = excluded.strikes, labels = excluded.labels,
    boot_id = excluded.boot_id, address = excluded.address,
    agent_version = excluded.agent_version, dropped = excluded.dropped

-- name: write_gangs
INSERT INTO node_gang
SELECT * FROM jsonb_populate_recordset(null::node_gang, %(rows)s)
ON CONFLICT (cell, job, attempt) DO UPDATE SET nodes = excluded.nodes

-- name: remove_gangs
DELETE FROM node_gang AS g
USING jsonb_populate_recordset(null::node_gang, %(rows)s) AS gone
WHERE g.cell = gone.cell AND g.job = gone.job AND g.attempt = gone.attempt
