-- The tables of the views (singular) and the views that people and programs read (plural).
-- Times in tables are milliseconds since the epoch; views show them as timestamps.
-- Every row carries its cell. Rows are written by the projector only, a whole step at a time.

CREATE FUNCTION at(ms bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN timestamptz '1970-01-01 00:00:00+00' + ms * interval '1 millisecond';

CREATE FUNCTION class_word(class_rank integer) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (ARRAY['low', 'normal', 'high', 'urgent'])[class_rank + 1];

CREATE FUNCTION band(gpus bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN gpus < 8 THEN '1-7' WHEN gpus < 128 THEN '8-127' ELSE '128+' END;

-- ------------------------------------------------------------------ how far each view has come

CREATE TABLE view_position (
    cell             text   NOT NULL,
    view             text   NOT NULL,
    next_offset      bigint NOT NULL DEFAULT 0,
    applied_offset   bigint NOT NULL DEFAULT -1,
    seq              bigint NOT NULL DEFAULT 0,
    term             bigint NOT NULL DEFAULT 0,
    genesis          text   NOT NULL DEFAULT '',
    digest           bytea  NOT NULL DEFAULT '',
    as_of_ms         bigint NOT NULL DEFAULT 0,
    appended_ms      bigint NOT NULL DEFAULT 0,
    inputs           jsonb  NOT NULL DEFAULT '{}',
    head_offset      bigint NOT NULL DEFAULT 0,
    checked_ms       bigint NOT NULL DEFAULT 0,
    skipped          bigint NOT NULL DEFAULT 0,
    skipped_position text   NOT NULL DEFAULT '',
    problem          text   NOT NULL DEFAULT '',
    problem_position text   NOT NULL DEFAULT '',
    problem_ms       bigint,
    generation       bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (cell, view)
);
COMMENT ON TABLE view_position IS 'How far each view has come; moves in one transaction with the rows';
COMMENT ON COLUMN view_position.next_offset IS 'offset of decisions-0 to read next';
COMMENT ON COLUMN view_position.applied_offset IS 'offset of the last record that the view contains, -1 for none';
COMMENT ON COLUMN view_position.generation IS 'how often the view was rebuilt';
COMMENT ON COLUMN view_position.digest IS 'BLAKE2b-256 of the last record that the view contains';
COMMENT ON COLUMN view_position.inputs IS 'highest fact that the view contains, by topic-partition';
COMMENT ON COLUMN view_position.head_offset IS 'end of decisions-0 when the projector last looked';

CREATE TABLE view_memory (
    cell  text  NOT NULL,
    view  text  NOT NULL,
    key   text  NOT NULL,
    value jsonb NOT NULL,
    PRIMARY KEY (cell, view, key)
);
COMMENT ON TABLE view_memory IS 'What a view must remember between two records beside its rows';

-- ------------------------------------------------------------------ jobs

CREATE TABLE job (
    cell           text     NOT NULL,
    job            text     NOT NULL,
    number         bigint   NOT NULL,
    team           text     NOT NULL,
    class_rank     smallint NOT NULL,
    gpus           bigint   NOT NULL,
    state          text     NOT NULL,
    submitted_ms   bigint   NOT NULL,
    started_ms     bigint,
    ended_ms       bigint,
    attempt        integer  NOT NULL,
    attempts       integer  NOT NULL,
    aborted_starts integer  NOT NULL,
    preemptions    integer  NOT NULL,
    lost_gpu_ms    bigint   NOT NULL,
    productive_ms  bigint   NOT NULL,
    retries_used   integer  NOT NULL,
    held           boolean  NOT NULL,
    reason         text     NOT NULL,
    reason_text    text     NOT NULL,
    exit_code      integer,
    nearest        text     NOT NULL,
    actor          text     NOT NULL,
    submission     text     NOT NULL,
    array_of       text     NOT NULL,
    stop_cause     text     NOT NULL,
    level          text     NOT NULL,
    nodes          jsonb    NOT NULL,
    spec           jsonb    NOT NULL,
    PRIMARY KEY (cell, job)
);
CREATE INDEX job_newest ON job (cell, submitted_ms DESC, job);
CREATE INDEX job_by_team ON job (cell, team, submitted_ms DESC, job);
CREATE INDEX job_by_state ON job (cell, state, submitted_ms DESC, job);
CREATE INDEX job_by_team_state ON job (cell, team, state, submitted_ms DESC, job);
CREATE INDEX job_by_number ON job (cell, number);
CREATE INDEX job_by_array ON job (cell, array_of) WHERE array_of <> '';
CREATE INDEX job_started ON job (cell, started_ms);

-- ------------------------------------------------------------------ attempts

CREATE TABLE attempt (
    cell            text    NOT NULL,
    job             text    NOT NULL,
    attempt         integer NOT NULL,
    state           text    NOT NULL,
    gpus            bigint  NOT NULL,
    borrowed        bigint  NOT NULL,
    seats           jsonb   NOT NULL,
    level           text    NOT NULL,
    crossed         integer NOT NULL,
    placed_ms       bigint  NOT NULL,
    started_ms      bigint,
    stopping_ms     bigint,
    ended_ms        bigint,
    cause           text    NOT NULL,
    cause_text      text    NOT NULL,
    claimant        text    NOT NULL,
    exit_code       integer,
    exit_signal     integer,
    exit_node       text    NOT NULL,
    resumed_ms      bigint  NOT NULL,
    resume_step     bigint  NOT NULL,
    productive_ms   bigint  NOT NULL,
    lost_gpu_ms     bigint  NOT NULL,
    checkpoints     integer NOT NULL,
    checkpoint_ms   bigint,
    checkpoint_step bigint,
    checkpoint_path text    NOT NULL,
    certificate     jsonb   NOT NULL,
    PRIMARY KEY (cell, job, attempt)
);
CREATE INDEX attempt_by_time ON attempt (cell, placed_ms);

CREATE VIEW attempts AS
SELECT cell, job, attempt, state, gpus, borrowed, seats, level, crossed,
       at(placed_ms) AS placed_at, at(started_ms) AS started_at,
       at(stopping_ms) AS stopping_at, at(ended_ms) AS ended_at,
       cause, cause_text, nullif(claimant, '') AS claimant,
       exit_code, exit_signal, exit_node,
       resumed_ms / 1000.0::double precision AS resumed_s, resume_step,
       productive_ms / 1000.0::double precision AS productive_s,
       lost_gpu_ms / 1000.0::double precision AS lost_gpu_s,
       checkpoints, at(checkpoint_ms) AS checkpoint_at, checkpoint_step, checkpoint_path,
       certificate, placed_ms
FROM attempt;
COMMENT ON VIEW attempts IS 'One row an attempt: a gang from its placement until it is out';
COMMENT ON COLUMN attempts.state IS 'starting, running, stopping, aborted or ended';
COMMENT ON COLUMN attempts.gpus IS 'GPUs that it held';
COMMENT ON COLUMN attempts.borrowed IS 'GPUs beyond its team''s guarantee when it was placed';
COMMENT ON COLUMN attempts.seats IS 'node, indices of GPUs and first rank of each member, in rank order';
COMMENT ON COLUMN attempts.crossed IS 'domains of the level just below that it uses';
COMMENT ON COLUMN attempts.cause IS 'why it let its GPUs go: preempted, cancelled, limit, drained, maintenance, infrastructure, user, start_aborted or finished';
COMMENT ON COLUMN attempts.resumed_s IS 'seconds of productive time restored from the checkpoint';
COMMENT ON COLUMN attempts.productive_s IS 'seconds of productive time kept at its end, over all attempts of the job';
COMMENT ON COLUMN attempts.lost_gpu_s IS 'GPU-seconds since its last checkpoint that must be done again';
COMMENT ON COLUMN attempts.certificate IS 'what decided its place: binding, tie, alternative, policy_version';

-- ------------------------------------------------------------------ the queue

CREATE TABLE waiting (
    cell            text     NOT NULL,
    job             text     NOT NULL,
    number          bigint   NOT NULL,
    team            text     NOT NULL,
    class_rank      smallint NOT NULL,
    gpus            bigint   NOT NULL,
    queued          boolean  NOT NULL,
    submitted_ms    bigint   NOT NULL,
    reason          text     NOT NULL,
    reason_text     text     NOT NULL,
    held            boolean  NOT NULL,
    reservation     text     NOT NULL,
    planned_ms      bigint,
    start_ms        bigint,
    first_planned_ms bigint,
    first_start_ms  bigint,
    not_before_ms   bigint   NOT NULL,
    PRIMARY KEY (cell, job)
);
CREATE INDEX waiting_in_order ON waiting (cell, class_rank DESC, submitted_ms, number) WHERE queued;
COMMENT ON TABLE waiting IS 'Jobs that have not ended; those with `queued` wait for a place';

CREATE VIEW jobs AS
SELECT j.cell, j.job, j.number, j.team, class_word(j.class_rank) AS class, j.gpus, j.state,
       at(j.submitted_ms) AS submitted_at, at(j.started_ms) AS started_at,
       at(j.ended_ms) AS ended_at, j.attempts, j.preemptions,
       (j.started_ms - j.submitted_ms) / 1000.0::double precision AS wait_s,
       j.lost_gpu_ms / 1000.0::double precision AS lost_gpu_s,
       j.productive_ms / 1000.0::double precision AS productive_s,
       j.aborted_starts, j.retries_used, j.held,
       coalesce(w.reason, j.reason) AS reason, coalesce(w.reason_text, j.reason_text) AS reason_text,
       j.exit_code, j.nearest, j.actor, j.submission, nullif(j.array_of, '') AS array_of,
       j.level, j.nodes, j.spec, j.attempt, j.submitted_ms, j.class_rank
FROM job AS j
LEFT JOIN waiting AS w ON w.cell = j.cell AND w.job = j.job AND w.queued;
COMMENT ON VIEW jobs IS 'One row a job, with its state now';
COMMENT ON COLUMN jobs.number IS 'small integer in order of acceptance, 0 for a rejected job';
COMMENT ON COLUMN jobs.class IS 'low, normal, high or urgent';
COMMENT ON COLUMN jobs.gpus IS 'GPUs of the whole gang';
COMMENT ON COLUMN jobs.state IS 'queued, starting, running, preempting, succeeded, failed, cancelled or rejected';
COMMENT ON COLUMN jobs.submitted_at IS 'when the submission was appended to the log';
COMMENT ON COLUMN jobs.started_at IS 'when its gang first started';
COMMENT ON COLUMN jobs.attempts IS 'gangs that started; an aborted start is none';
COMMENT ON COLUMN jobs.wait_s IS 'seconds from submission to the first start; null before it';
COMMENT ON COLUMN jobs.lost_gpu_s IS 'GPU-seconds of work that had to be done again';
COMMENT ON COLUMN jobs.productive_s IS 'seconds of productive running time that are kept, over all attempts';
COMMENT ON COLUMN jobs.reason IS 'why it waits, or why it ended';
COMMENT ON COLUMN jobs.submission IS 'position of the submission in the log, topic-partition-offset';
COMMENT ON COLUMN jobs.level IS 'lowest level of the tree that holds its gang whole, of the last placement';
COMMENT ON COLUMN jobs.nodes IS 'nodes of the last placement, in rank order';
COMMENT ON COLUMN jobs.spec IS 'the public part of its spec';

CREATE TABLE start_estimate (
    cell       text   NOT NULL,
    job        text   NOT NULL,
    started_ms bigint NOT NULL,
    planned_ms bigint NOT NULL,
    start_ms   bigint NOT NULL,
    PRIMARY KEY (cell, job, started_ms)
);
CREATE INDEX start_estimate_newest ON start_estimate (cell, started_ms DESC);
COMMENT ON TABLE start_estimate IS 'What was first planned for a wait, and when it really ended';

CREATE VIEW start_error AS
SELECT recent.cell, count(*) AS estimates,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY recent.error_ms) AS p50_ms,
       percentile_disc(0.9) WITHIN GROUP (ORDER BY recent.error_ms) AS p90_ms
FROM (SELECT DISTINCT cell FROM view_position) AS cells
CROSS JOIN LATERAL (
    SELECT cell, started_ms - start_ms AS error_ms
    FROM start_estimate WHERE start_estimate.cell = cells.cell
    ORDER BY started_ms DESC LIMIT 500
) AS recent
GROUP BY recent.cell;
COMMENT ON VIEW start_error IS 'How far the last 500 starts were from what was first planned';
COMMENT ON COLUMN start_error.p50_ms IS 'milliseconds: actual start less planned start, the median';
COMMENT ON COLUMN start_error.p90_ms IS 'milliseconds: nine of ten started at most so much after the planned start';

CREATE VIEW queue AS
SELECT w.cell, w.job, w.team, class_word(w.class_rank) AS class, w.gpus,
       row_number() OVER (PARTITION BY w.cell
                          ORDER BY w.class_rank DESC, w.submitted_ms, w.number) AS position,
       at(w.submitted_ms) AS submitted_at, w.reason, w.reason_text,
       CASE WHEN w.start_ms IS NOT NULL
            THEN at(greatest(w.start_ms + coalesce(e.p50_ms, 0), p.as_of_ms))
       END AS estimated_start_p50,
       CASE WHEN w.start_ms IS NOT NULL
            THEN at(greatest(w.start_ms + coalesce(e.p90_ms, 0), p.as_of_ms))
       END AS estimated_start_p90,
       nullif(w.reservation, '') AS reservation, w.number, w.held,
       at(nullif(w.not_before_ms, 0)) AS not_before,
       (p.as_of_ms - w.submitted_ms) / 1000.0::double precision AS waited_s
FROM waiting AS w
LEFT JOIN start_error AS e ON e.cell = w.cell
LEFT JOIN view_position AS p ON p.cell = w.cell AND p.view = 'queue'
WHERE w.queued;
COMMENT ON VIEW queue IS 'Jobs that wait for a place, with the reason';
COMMENT ON COLUMN queue.position IS 'place in line from 1: class, then age, then order of acceptance (the scheduler also weighs shares)';
COMMENT ON COLUMN queue.reason IS 'dependency, hold, borrow_limit, starting, fair_share, reservation, nodes_unhealthy, topology or capacity';
COMMENT ON COLUMN queue.reason_text IS 'the reason with its numbers, and what would start it';
COMMENT ON COLUMN queue.estimated_start_p50 IS 'planned start, moved by the median error of the last 500 plans; null without a plan';
COMMENT ON COLUMN queue.estimated_start_p90 IS 'the same with the error that nine of ten plans did not exceed';
COMMENT ON COLUMN queue.reservation IS 'plan, firm or claim: room that is kept for it';
COMMENT ON COLUMN queue.waited_s IS 'seconds since submission, at the view''s own time';

-- ------------------------------------------------------------------ waits

CREATE TABLE wait (
    cell        text    NOT NULL,
    job         text    NOT NULL,
    from_ms     bigint  NOT NULL,
    to_ms       bigint,
    cause       text    NOT NULL,
    team        text    NOT NULL,
    gpus        bigint  NOT NULL,
    first_start boolean NOT NULL,
    PRIMARY KEY (cell, job, from_ms)
);
CREATE INDEX wait_open ON wait (cell) WHERE to_ms IS NULL;
CREATE INDEX wait_by_end ON wait (cell, to_ms);
COMMENT ON TABLE wait IS 'Every pending millisecond of a job has one cause: intervals, the open one without an end';
COMMENT ON COLUMN wait.cause IS 'a reason of the queue, or deciding until the scheduler first gave one';
COMMENT ON COLUMN wait.first_start IS 'whether the job had never started before it';

CREATE TABLE wait_job (
    cell    text    NOT NULL,
    job     text    NOT NULL,
    team    text    NOT NULL,
    gpus    bigint  NOT NULL,
    started boolean NOT NULL,
    PRIMARY KEY (cell, job)
);
COMMENT ON TABLE wait_job IS 'Jobs that have not ended, as the view of waits must know them';

CREATE TABLE wait_total (
    cell    text   NOT NULL,
    day     date   NOT NULL,
    band    text   NOT NULL,
    cause   text   NOT NULL,
    waits   bigint NOT NULL,
    wait_ms bigint NOT NULL,
    PRIMARY KEY (cell, day, band, cause)
);
COMMENT ON TABLE wait_total IS 'Ended waits, added up by the day on which they ended (UTC)';

CREATE VIEW waits AS
SELECT cell, day, band, cause, sum(waits)::bigint AS waits, sum(open)::bigint AS waiting_now,
       sum(wait_ms)::bigint / 1000.0::double precision AS wait_s
FROM (
    SELECT cell, day, band, cause, waits, 0 AS open, wait_ms FROM wait_total
    UNION ALL
    SELECT w.cell, (at(p.as_of_ms) AT TIME ZONE 'UTC')::date, band(w.gpus), w.cause, 0, 1,
           p.as_of_ms - w.from_ms
    FROM wait AS w
    JOIN view_position AS p ON p.cell = w.cell AND p.view = 'waits'
    WHERE w.to_ms IS NULL
) AS parts
GROUP BY cell, day, band, cause;
COMMENT ON VIEW waits IS 'Time that jobs waited, by day, band of size and cause';
COMMENT ON COLUMN waits.day IS 'UTC day on which the wait ended; of a wait that goes on, the view''s own day';
COMMENT ON COLUMN waits.band IS 'GPUs of the gang: 1-7, 8-127 or 128+';
COMMENT ON COLUMN waits.waits IS 'ended intervals of this cause';
COMMENT ON COLUMN waits.waiting_now IS 'jobs that wait for this cause now';
COMMENT ON COLUMN waits.wait_s IS 'job-seconds';

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
COMMENT ON VIEW quota_ledger IS 'Where every GPU-millisecond went. All rows add up to capacity x time, always';
COMMENT ON COLUMN quota_ledger.team IS 'whose account: a team, or empty for the fleet (what nobody is guaranteed, and what is out of service)';
COMMENT ON COLUMN quota_ledger.account IS 'productive, unsaved, lost, checkpointing, stalled, starting, stopping, idle_lendable, stranded, reserved, drained, unhealthy, lingering; lent and borrowed are the two sides of a loan';
COMMENT ON COLUMN quota_ledger.counterparty IS 'of lent: the borrower; of borrowed: the lender (empty: what nobody is guaranteed)';
COMMENT ON COLUMN quota_ledger.gpu_ms IS 'GPU-milliseconds; negative for borrowed, and where a transfer takes from (unsaved work that was saved or lost)';

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
COMMENT ON VIEW utilization IS 'GPU-time by cause in steps of five minutes; the running step so far';
COMMENT ON COLUMN utilization.account IS 'as in quota_ledger, without lent and borrowed';
COMMENT ON COLUMN utilization.gpu_ms IS 'GPU-milliseconds; work counts where it was done, also when it was saved later';

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
COMMENT ON VIEW fairness IS 'What each team got against what it had a right to, over the last hour, day and week';
COMMENT ON COLUMN fairness.window_s IS 'seconds: 3600, 86400 or 604800, in whole steps of five minutes';
COMMENT ON COLUMN fairness.delivered_gpu_hours IS 'GPU-hours that its gangs held';
COMMENT ON COLUMN fairness.entitled_gpu_hours IS 'GPU-hours: the lesser of demand, and guarantee with a weighted share of the rest';
COMMENT ON COLUMN fairness.error IS 'delivered less entitled, as a part of the capacity in the window';
COMMENT ON COLUMN fairness.demand_gpu_hours IS 'GPU-hours that its gangs held or its waiting jobs could have held';

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
COMMENT ON COLUMN node.occupants IS 'attempts on its GPUs: key job#attempt, value phase letter and indices';

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
COMMENT ON COLUMN nodes.conditions IS 'all that holds, of which health is the worst: lost, quarantine, silent, unready';
COMMENT ON COLUMN nodes.service IS 'open, cordoned, draining or maintenance';
COMMENT ON COLUMN nodes.held IS 'GPUs that gangs hold';
COMMENT ON COLUMN nodes.free IS 'GPUs in service and well that no gang holds and no claim keeps';
COMMENT ON COLUMN nodes.bad IS 'GPUs that are out';
COMMENT ON COLUMN nodes.gpu_states IS 'one letter a GPU: . free, s starting, r running, x stopping, b out, l not known to be empty';
COMMENT ON COLUMN nodes.jobs IS 'jobs whose gangs hold GPUs here';
COMMENT ON COLUMN nodes.strikes IS 'faults, losses and unready starts that may count towards quarantine, since the last one';

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
COMMENT ON COLUMN faults.kind IS 'of a GPU: xid, ecc, nvlink, nic, thermal …; of a node: silent, lost, unready or quarantine';
COMMENT ON COLUMN faults.to_at IS 'null while it lasts';
COMMENT ON COLUMN faults.job IS 'whose member was not ready';
COMMENT ON COLUMN faults.strike IS 'whether it counts towards quarantine';

-- ------------------------------------------------------------------ decisions

CREATE TABLE decision (
    cell           text    NOT NULL,
    applied_offset bigint  NOT NULL,
    item           integer NOT NULL,
    at_ms          bigint  NOT NULL,
    kind           text    NOT NULL,
    job            text,
    node           text,
    team           text,
    detail         jsonb   NOT NULL,
    PRIMARY KEY (cell, applied_offset, item)
);
CREATE INDEX decision_by_job ON decision (cell, job, applied_offset, item) WHERE job IS NOT NULL;
CREATE INDEX decision_by_node ON decision (cell, node, applied_offset, item) WHERE node IS NOT NULL;
CREATE INDEX decision_by_kind ON decision (cell, kind, applied_offset, item);

CREATE VIEW decisions AS
SELECT cell, 'decisions-0-' || applied_offset AS position, at(at_ms) AS at, kind, job, node, detail,
       item, team, applied_offset, at_ms
FROM decision;
COMMENT ON VIEW decisions IS 'Every decision of the scheduler, in order';
COMMENT ON COLUMN decisions.position IS 'topic-partition-offset of its batch';
COMMENT ON COLUMN decisions.at IS 'the time at which it was decided';
COMMENT ON COLUMN decisions.item IS 'its place in the batch, from 0';
COMMENT ON COLUMN decisions.detail IS 'what it says; commands and environments are left out';

-- ------------------------------------------------------------------ positions and lag

CREATE VIEW projection AS
SELECT cell, shown.name AS view,
       CASE WHEN applied_offset >= 0 THEN 'decisions-0-' || applied_offset ELSE '' END AS position,
       at(nullif(as_of_ms, 0)) AS as_of,
       greatest(head_offset - next_offset, 0) AS lag_events,
       CASE WHEN head_offset > next_offset
            THEN greatest(checked_ms - greatest(appended_ms, 0), 0) / 1000.0::double precision
            ELSE 0 END AS lag_s,
       at(nullif(checked_ms, 0)) AS checked_at,
       inputs, seq, term, genesis, encode(digest, 'hex') AS digest,
       skipped, nullif(skipped_position, '') AS skipped_position,
       nullif(problem, '') AS problem, nullif(problem_position, '') AS problem_position,
       at(problem_ms) AS problem_at
FROM view_position
CROSS JOIN LATERAL unnest(CASE view WHEN 'quota_ledger' THEN ARRAY[view, 'utilization']
                                    ELSE ARRAY[view] END) AS shown (name);
COMMENT ON VIEW projection IS 'How far each view has come, and what stops it';
COMMENT ON COLUMN projection.position IS 'topic-partition-offset of the last decisions it contains';
COMMENT ON COLUMN projection.as_of IS 'the scheduler''s time at that position';
COMMENT ON COLUMN projection.lag_events IS 'records of decisions that it has not read (an upper bound on Kafka, whose offsets have holes)';
COMMENT ON COLUMN projection.lag_s IS 'seconds between its last record and the projector''s last look at the log, 0 when it has read all';
COMMENT ON COLUMN projection.checked_at IS 'when a projector last looked: it stands still while none runs';
COMMENT ON COLUMN projection.inputs IS 'highest fact that it contains, by topic-partition';
COMMENT ON COLUMN projection.skipped IS 'decisions of unknown kinds that it left out, by its declared rule';
COMMENT ON COLUMN projection.problem IS 'why it stands still; null when it does not';

-- ------------------------------------------------------------------ words that mean the same everywhere

DO $$
DECLARE
    word record;
    place record;
BEGIN
    FOR word IN SELECT * FROM (VALUES
        ('cell', 'the scheduling domain'),
        ('job', 'the submitter''s id of the job'),
        ('team', 'name of the team'),
        ('node', 'name of the node'),
        ('number', 'small integer of the job, in order of acceptance'),
        ('class', 'low, normal, high or urgent'),
        ('gpus', 'number of GPUs'),
        ('cause', 'one word of a fixed list'),
        ('attempt', 'number of the attempt, from 1'),
        ('submitted_at', 'when the submission was appended to the log'),
        ('ended_at', 'when it ended; null before'),
        ('from_at', 'beginning'),
        ('to_at', 'end'),
        ('from_ms', 'beginning, milliseconds since the epoch'),
        ('to_ms', 'end, milliseconds since the epoch'),
        ('bucket_ms', 'beginning, milliseconds since the epoch'),
        ('at_ms', 'when, milliseconds since the epoch'),
        ('submitted_ms', 'submission, milliseconds since the epoch'),
        ('placed_ms', 'placement, milliseconds since the epoch'),
        ('class_rank', 'the class as a number: 0 low to 3 urgent'),
        ('applied_offset', 'offset of the batch in decisions-0'),
        ('as_of', 'the scheduler''s time up to which the view goes'),
        ('preemptions', 'times it was told to stop for another gang'),
        ('aborted_starts', 'placements of which not all members were ready in time'),
        ('retries_used', 'restarts after failures of its own'),
        ('held', 'whether it may not start until it is released'),
        ('reason_text', 'the reason with its numbers'),
        ('exit_code', 'first exit code that was not 0, else 0; null before the end'),
        ('exit_signal', 'signal that ended that member, 0 for none'),
        ('exit_node', 'node of that member'),
        ('nearest', 'of a rejected job: the nearest request that could start'),
        ('actor', 'who submitted it, as user:NAME'),
        ('array_of', 'the submission that it is a task of; null for a plain job'),
        ('placed_at', 'when it was given its GPUs'),
        ('started_at', 'when its processes started'),
        ('stopping_at', 'when it was told to stop'),
        ('level', 'lowest level of the tree that holds it whole'),
        ('cause_text', 'the cause in words'),
        ('claimant', 'the job for which it was preempted'),
        ('resume_step', 'the program''s step that it resumed from'),
        ('checkpoints', 'checkpoints that were recorded'),
        ('checkpoint_at', 'when the last one was recorded'),
        ('checkpoint_step', 'the program''s step of the last one'),
        ('checkpoint_path', 'where the last one is'),
        ('not_before', 'a crash loop is backed off until then'),
        ('parent', 'the team above it; null for none'),
        ('weight', 'of its share in what nobody is guaranteed'),
        ('health_since', 'since when it is so'),
        ('health_cause', 'what it was that changed the health'),
        ('health_until', 'when time alone may change it; null for unknown'),
        ('service_since', 'since when it is so'),
        ('service_cause', 'what the operator wrote'),
        ('service_by', 'who wanted it, as operator:NAME'),
        ('deadline', 'when what still runs is stopped, or maintenance ends'),
        ('maintenance', 'an announced window: from_ms, until_ms, why, by'),
        ('labels', 'model, pool and the like'),
        ('boot_id', 'of the machine''s last start'),
        ('address', 'where other nodes reach it'),
        ('agent_version', 'version of its agent'),
        ('detail', 'what was said about it'),
        ('kind', 'what it is, one word of a fixed list'),
        ('view', 'name of the view'),
        ('seq', 'number of the last batch it contains, from 1'),
        ('term', 'the leadership that decided that batch'),
        ('genesis', 'the birth id of the cell'),
        ('digest', 'BLAKE2b-256 of the last record it contains, the chain''s end'),
        ('skipped_position', 'where the last of them stands'),
        ('problem_position', 'the record that it cannot take'),
        ('problem_at', 'since when it stands still'),
        ('estimates', 'number of plans measured')
    ) AS words (name, meaning)
    LOOP
        FOR place IN
            SELECT c.relname FROM pg_attribute AS a
            JOIN pg_class AS c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'gangline'::regnamespace AND c.relkind = 'v'
              AND a.attname = word.name AND col_description(c.oid, a.attnum) IS NULL
        LOOP
            EXECUTE format('COMMENT ON COLUMN gangline.%I.%I IS %L',
                           place.relname, word.name, word.meaning);
        END LOOP;
    END LOOP;
END $$;
