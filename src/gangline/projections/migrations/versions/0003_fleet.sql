-- The fleet: teams, where its time went, who got what, nodes and what was wrong with them.

-- ------------------------------------------------------------------ teams

CREATE TABLE team (
    cell            text   NOT NULL,
    team            text   NOT NULL,
    parent          text   NOT NULL,
    guaranteed      bigint NOT NULL,
    borrow_limit    bigint NOT NULL,
    lend_limit      bigint NOT NULL,
    weight          bigint NOT NULL,
    used            bigint NOT NULL,
    guaranteed_used bigint NOT NULL,
    borrowed        bigint NOT NULL,
    lent            bigint NOT NULL,
    queued          bigint NOT NULL,
    running         bigint NOT NULL,
    PRIMARY KEY (cell, team)
);

CREATE VIEW teams AS
SELECT cell, team, nullif(parent, '') AS parent, guaranteed, used, guaranteed_used, borrowed, lent,
       queued, running, nullif(borrow_limit, -1) AS borrow_limit,
       nullif(lend_limit, -1) AS lend_limit, weight
FROM team;
COMMENT ON VIEW teams IS 'One row a team, with what it uses now; use counts in every team above';
COMMENT ON COLUMN teams.guaranteed IS 'GPUs';
COMMENT ON COLUMN teams.used IS 'GPUs that gangs of it and of the teams below hold';
COMMENT ON COLUMN teams.guaranteed_used IS 'GPUs of it inside the guarantee';
COMMENT ON COLUMN teams.borrowed IS 'GPUs of it beyond the guarantee';
COMMENT ON COLUMN teams.lent IS 'idle guaranteed GPUs that teams under the same parent use';
COMMENT ON COLUMN teams.queued IS 'jobs of the team itself that wait';
COMMENT ON COLUMN teams.running IS 'jobs of the team itself that hold GPUs';
COMMENT ON COLUMN teams.borrow_limit IS 'GPUs; null for unlimited';
COMMENT ON COLUMN teams.lend_limit IS 'GPUs; null for unlimited';

-- ------------------------------------------------------------------ ledger, utilization, fairness

CREATE TABLE ledger_entry (
    cell         text   NOT NULL,
    from_ms      bigint NOT NULL,
    to_ms        bigint NOT NULL,
    team         text   NOT NULL,
    account      text   NOT NULL,
    counterparty text   NOT NULL,
    gpu_ms       bigint NOT NULL,
    entered_ms   bigint NOT NULL,
    CHECK (to_ms > from_ms)
);
CREATE INDEX ledger_by_time ON ledger_entry (cell, to_ms, from_ms);
CREATE INDEX ledger_by_team ON ledger_entry (cell, team, to_ms);
COMMENT ON TABLE ledger_entry IS 'Ended intervals and transfers of the ledger; append-only';
COMMENT ON COLUMN ledger_entry.entered_ms IS 'the time of the decision that entered it';

CREATE TABLE ledger_open (
    cell         text   NOT NULL,
    team         text   NOT NULL,
    account      text   NOT NULL,
    counterparty text   NOT NULL,
    gpus         bigint NOT NULL,
    since_ms     bigint NOT NULL,
    PRIMARY KEY (cell, team, account, counterparty)
);
COMMENT ON TABLE ledger_open IS 'Intervals that go on: so many GPUs since then';

CREATE VIEW quota_ledger AS
SELECT cell, at(from_ms) AS from_at, at(to_ms) AS to_at, team, account, counterparty, gpu_ms,
       from_ms, to_ms
FROM ledger_entry
UNION ALL
SELECT o.cell, at(o.since_ms), at(p.as_of_ms), o.team, o.account, o.counterparty,
       o.gpus * (p.as_of_ms - o.since_ms), o.since_ms, p.as_of_ms
FROM ledger_open AS o
JOIN view_position AS p ON p.cell = o.cell AND p.view = 'quota_ledger'
WHERE p.as_of_ms > o.since_ms;
COMMENT ON VIEW quota_ledger IS
    'Where every GPU-millisecond went. All rows add up to capacity x time, always';
COMMENT ON COLUMN quota_ledger.team IS
    'whose account: a team, or empty for the fleet (what nobody is guaranteed, and what is out '
    'of service)';
COMMENT ON COLUMN quota_ledger.account IS
    'productive, unsaved, lost, checkpointing, stalled, starting, stopping, idle_lendable, '
    'stranded, reserved, drained, unhealthy, lingering; lent and borrowed are the two sides of '
    'a loan';
COMMENT ON COLUMN quota_ledger.counterparty IS
    'of lent: the borrower; of borrowed: the lender (empty: what nobody is guaranteed)';
COMMENT ON COLUMN quota_ledger.gpu_ms IS
    'GPU-milliseconds; negative for borrowed, and where a transfer takes from (unsaved work '
    'that was saved or lost)';

CREATE TABLE usage_bucket (
    cell      text   NOT NULL,
    bucket_ms bigint NOT NULL,
    account   text   NOT NULL,
    gpu_ms    bigint NOT NULL,
    PRIMARY KEY (cell, bucket_ms, account)
);
CREATE VIEW utilization AS
SELECT cell, at(bucket_ms) AS from_at, at(bucket_ms + 300000) AS to_at, account, gpu_ms, bucket_ms
FROM usage_bucket;
COMMENT ON VIEW utilization IS
    'GPU-time by cause in steps of five minutes; the running step so far';
COMMENT ON COLUMN utilization.account IS 'as in quota_ledger, without lent and borrowed';
COMMENT ON COLUMN utilization.gpu_ms IS
    'GPU-milliseconds; work counts where it was done, also when it was saved later';

CREATE TABLE share_bucket (
    cell             text   NOT NULL,
    bucket_ms        bigint NOT NULL,
    team             text   NOT NULL,
    delivered_gpu_ms bigint NOT NULL,
    entitled_gpu_ms  bigint NOT NULL,
    demand_gpu_ms    bigint NOT NULL,
    capacity_gpu_ms  bigint NOT NULL,
    PRIMARY KEY (cell, bucket_ms, team)
);
COMMENT ON TABLE share_bucket IS 'What each team got and had a right to, in steps of five minutes';

CREATE VIEW fairness AS
SELECT p.cell, s.team, w.window_s,
       s.delivered / 3600000.0::double precision AS delivered_gpu_hours,
       s.entitled / 3600000.0::double precision AS entitled_gpu_hours,
       coalesce((s.delivered - s.entitled)::double precision / nullif(s.capacity, 0), 0) AS error,
       s.demand / 3600000.0::double precision AS demand_gpu_hours,
       at(p.as_of_ms) AS as_of
FROM view_position AS p
CROSS JOIN (VALUES (3600), (86400), (604800)) AS w (window_s)
-- With both ends of the window in one place the planner sees how few rows it has.
CROSS JOIN LATERAL (
    SELECT b.team, sum(b.delivered_gpu_ms) AS delivered, sum(b.entitled_gpu_ms) AS entitled,
           sum(b.demand_gpu_ms) AS demand, sum(b.capacity_gpu_ms) AS capacity
    FROM share_bucket AS b
    WHERE b.cell = p.cell AND b.bucket_ms <= p.as_of_ms
      AND b.bucket_ms > (p.as_of_ms - 1) / 300000 * 300000 - w.window_s * 1000::bigint
    GROUP BY b.team
) AS s
WHERE p.view = 'fairness';
COMMENT ON VIEW fairness IS
    'What each team got against what it had a right to, over the last hour, day and week';
COMMENT ON COLUMN fairness.window_s IS
    'seconds: 3600, 86400 or 604800, in whole steps of five minutes';
COMMENT ON COLUMN fairness.delivered_gpu_hours IS 'GPU-hours that its gangs held';
COMMENT ON COLUMN fairness.entitled_gpu_hours IS
    'GPU-hours: the lesser of demand, and guarantee with a weighted share of the rest';
COMMENT ON COLUMN fairness.error IS
    'delivered less entitled, as a part of the capacity in the window';
COMMENT ON COLUMN fairness.demand_gpu_hours IS
    'GPU-hours that its gangs held or its waiting jobs could have held';

-- ------------------------------------------------------------------ nodes and faults

CREATE TABLE node (
    cell          text    NOT NULL,
    node          text    NOT NULL,
    path          jsonb   NOT NULL,
    levels        jsonb   NOT NULL,
    gpus          bigint  NOT NULL,
    health        text    NOT NULL,
    conditions    jsonb   NOT NULL,
    service       text    NOT NULL,
    held          bigint  NOT NULL,
    free          bigint  NOT NULL,
    bad           bigint  NOT NULL,
    gpu_states    text    NOT NULL,
    occupants     jsonb   NOT NULL,
    bad_gpus      jsonb   NOT NULL,
    claims        jsonb   NOT NULL,
    health_ms     bigint  NOT NULL,
    health_cause  text    NOT NULL,
    until_ms      bigint  NOT NULL,
    service_ms    bigint  NOT NULL,
    service_cause text    NOT NULL,
    service_by    text    NOT NULL,
    deadline_ms   bigint  NOT NULL,
    maintenance   jsonb   NOT NULL,
    strikes       integer NOT NULL,
    labels        jsonb   NOT NULL,
    boot_id       text    NOT NULL,
    address       text    NOT NULL,
    agent_version text    NOT NULL,
    dropped       boolean NOT NULL,
    PRIMARY KEY (cell, node)
);
COMMENT ON COLUMN node.occupants IS
    'attempts on its GPUs: key job#attempt, value phase letter and indices';

CREATE TABLE node_gang (
    cell    text    NOT NULL,
    job     text    NOT NULL,
    attempt integer NOT NULL,
    nodes   jsonb   NOT NULL,
    PRIMARY KEY (cell, job, attempt)
);
COMMENT ON TABLE node_gang IS 'Where attempts stand that hold GPUs, or may still do';

CREATE VIEW nodes AS
SELECT cell, node, path, levels, gpus, health, conditions, service, held,
       free, bad, gpu_states,
       coalesce((SELECT jsonb_agg(DISTINCT o.value ->> 'job')
                 FROM jsonb_each(occupants) AS o), '[]') AS jobs,
       at(health_ms) AS health_since, health_cause, at(nullif(until_ms, 0)) AS health_until,
       at(service_ms) AS service_since, service_cause, service_by,
       at(nullif(deadline_ms, 0)) AS deadline, maintenance, strikes, labels,
       boot_id, address, agent_version
FROM node WHERE NOT dropped;
COMMENT ON VIEW nodes IS 'One row a node of the fleet, as it is now';
COMMENT ON COLUMN nodes.levels IS 'names of the levels of its path';
COMMENT ON COLUMN nodes.path IS 'names of its domains, outermost level first';
COMMENT ON COLUMN nodes.health IS 'well, suspected, lost or quarantined';
COMMENT ON COLUMN nodes.conditions IS
    'all that holds, of which health is the worst: lost, quarantine, silent, unready';
COMMENT ON COLUMN nodes.service IS 'open, cordoned, draining or maintenance';
COMMENT ON COLUMN nodes.held IS 'GPUs that gangs hold';
COMMENT ON COLUMN nodes.free IS 'GPUs in service and well that no gang holds and no claim keeps';
COMMENT ON COLUMN nodes.bad IS 'GPUs that are out';
COMMENT ON COLUMN nodes.gpu_states IS
    'one letter a GPU: . free, s starting, r running, x stopping, b out, l not known to be '
    'empty';
COMMENT ON COLUMN nodes.jobs IS 'jobs whose gangs hold GPUs here';
COMMENT ON COLUMN nodes.strikes IS
    'faults, losses and unready starts that may count towards quarantine, since the last one';

CREATE TABLE fault (
    cell     text   NOT NULL,
    node     text   NOT NULL,
    gpu      bigint NOT NULL,
    from_ms  bigint NOT NULL,
    to_ms    bigint,
    kind     text   NOT NULL,
    job      text   NOT NULL,
    strike   boolean NOT NULL,
    PRIMARY KEY (cell, node, gpu, from_ms, kind)
);
CREATE INDEX fault_newest ON fault (cell, from_ms DESC, node, gpu);
CREATE INDEX fault_open ON fault (cell, node) WHERE to_ms IS NULL;

CREATE VIEW faults AS
SELECT cell, node, nullif(gpu, -1) AS gpu, kind, at(from_ms) AS from_at, at(to_ms) AS to_at,
       nullif(job, '') AS job, strike, from_ms
FROM fault;
COMMENT ON VIEW faults IS 'What was wrong with nodes and GPUs, and from when to when';
COMMENT ON COLUMN faults.gpu IS 'index on the node; null for the whole node';
COMMENT ON COLUMN faults.kind IS
    'of a GPU: xid, ecc, nvlink, nic, thermal …; of a node: silent, lost, unready or quarantine';
COMMENT ON COLUMN faults.to_at IS 'null while it lasts';
COMMENT ON COLUMN faults.job IS 'whose member was not ready';
COMMENT ON COLUMN faults.strike IS 'whether it counts towards quarantine';
