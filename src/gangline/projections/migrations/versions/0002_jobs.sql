-- Jobs: as they are, their attempts, the queue, and what they waited for.

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
COMMENT ON COLUMN attempts.seats IS
    'node, indices of GPUs and first rank of each member, in rank order';
COMMENT ON COLUMN attempts.crossed IS 'domains of the level just below that it uses';
COMMENT ON COLUMN attempts.cause IS
    'why it let its GPUs go: preempted, cancelled, limit, drained, maintenance, infrastructure, '
    'user, start_aborted or finished';
COMMENT ON COLUMN attempts.resumed_s IS 'seconds of productive time restored from the checkpoint';
COMMENT ON COLUMN attempts.productive_s IS
    'seconds of productive time kept at its end, over all attempts of the job';
COMMENT ON COLUMN attempts.lost_gpu_s IS
    'GPU-seconds since its last checkpoint that must be done again';
COMMENT ON COLUMN attempts.certificate IS
    'what decided its place: binding, tie, alternative, policy_version';

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
       coalesce(w.reason, j.reason) AS reason,
       coalesce(w.reason_text, j.reason_text) AS reason_text,
       j.exit_code, j.nearest, j.actor, j.submission, nullif(j.array_of, '') AS array_of,
       j.level, j.nodes, j.spec, j.attempt, j.submitted_ms, j.class_rank
FROM job AS j
LEFT JOIN waiting AS w ON w.cell = j.cell AND w.job = j.job AND w.queued;
COMMENT ON VIEW jobs IS 'One row a job, with its state now';
COMMENT ON COLUMN jobs.number IS 'small integer in order of acceptance, 0 for a rejected job';
COMMENT ON COLUMN jobs.class IS 'low, normal, high or urgent';
COMMENT ON COLUMN jobs.gpus IS 'GPUs of the whole gang';
COMMENT ON COLUMN jobs.state IS
    'queued, starting, running, preempting, succeeded, failed, cancelled or rejected';
COMMENT ON COLUMN jobs.submitted_at IS 'when the submission was appended to the log';
COMMENT ON COLUMN jobs.started_at IS 'when its gang first started';
COMMENT ON COLUMN jobs.attempts IS 'gangs that started; an aborted start is none';
COMMENT ON COLUMN jobs.wait_s IS 'seconds from submission to the first start; null before it';
COMMENT ON COLUMN jobs.lost_gpu_s IS 'GPU-seconds of work that had to be done again';
COMMENT ON COLUMN jobs.productive_s IS
    'seconds of productive running time that are kept, over all attempts';
COMMENT ON COLUMN jobs.reason IS 'why it waits, or why it ended';
COMMENT ON COLUMN jobs.submission IS
    'position of the submission in the log, topic-partition-offset';
COMMENT ON COLUMN jobs.level IS
    'lowest level of the tree that holds its gang whole, of the last placement';
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
COMMENT ON COLUMN start_error.p90_ms IS
    'milliseconds: nine of ten started at most so much after the planned start';

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
COMMENT ON COLUMN queue.position IS
    'place in line from 1: class, then age, then order of acceptance (the scheduler also weighs '
    'shares)';
COMMENT ON COLUMN queue.reason IS
    'dependency, hold, borrow_limit, starting, fair_share, reservation, nodes_unhealthy, '
    'topology or capacity';
COMMENT ON COLUMN queue.reason_text IS 'the reason with its numbers, and what would start it';
COMMENT ON COLUMN queue.estimated_start_p50 IS
    'planned start, moved by the median error of the last 500 plans; null without a plan';
COMMENT ON COLUMN queue.estimated_start_p90 IS
    'the same with the error that nine of ten plans did not exceed';
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
COMMENT ON TABLE wait IS
    'Every pending millisecond of a job has one cause: intervals, the open one without an end';
COMMENT ON COLUMN wait.cause IS
    'a reason of the queue, or deciding until the scheduler first gave one';
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
COMMENT ON COLUMN waits.day IS
    'UTC day on which the wait ended; of a wait that goes on, the view''s own day';
COMMENT ON COLUMN waits.band IS 'GPUs of the gang: 1-7, 8-127 or 128+';
COMMENT ON COLUMN waits.waits IS 'ended intervals of this cause';
COMMENT ON COLUMN waits.waiting_now IS 'jobs that wait for this cause now';
COMMENT ON COLUMN waits.wait_s IS 'job-seconds';
