-- What analysts build on: stable views in a schema of their own. Columns are added, never
-- renamed or
-- removed. Every row says as of when it is (`as_of`, the scheduler's time) and up to which position
-- of the log (`as_of_position`).

CREATE SCHEMA IF NOT EXISTS report;
COMMENT ON SCHEMA report IS 'Stable views for analysts; read them as role gangline_report';

CREATE VIEW report.freshness AS
SELECT p.cell, p.view, p.as_of, p.position AS as_of_position, p.lag_events, p.lag_s, p.checked_at,
       p.problem
FROM projection AS p;
COMMENT ON VIEW report.freshness IS 'How fresh each view is; look here first';

CREATE VIEW report.job AS
SELECT j.cell, j.job, j.number, j.team, j.class, j.gpus, band(j.gpus) AS band, j.state,
       j.submitted_at, j.started_at, j.ended_at, j.wait_s,
       extract(epoch FROM j.ended_at - j.started_at)::double precision AS elapsed_s,
       j.productive_s * j.gpus / 3600 AS productive_gpu_hours,
       j.lost_gpu_s / 3600 AS lost_gpu_hours,
       j.attempts, j.preemptions, j.aborted_starts, j.reason, j.exit_code,
       j.spec -> 'labels' AS labels, f.as_of, f.as_of_position
FROM jobs AS j
JOIN report.freshness AS f ON f.cell = j.cell AND f.view = 'jobs';
COMMENT ON VIEW report.job IS 'One row a job';

CREATE VIEW report.attempt AS
SELECT a.cell, a.job, j.team, a.attempt, a.gpus, a.borrowed, a.level, a.crossed, a.state, a.cause,
       a.placed_at, a.started_at, a.ended_at,
       extract(epoch FROM a.started_at - a.placed_at)::double precision AS starting_s,
       extract(epoch FROM a.ended_at - a.started_at)::double precision AS running_s,
       a.lost_gpu_s / 3600 AS lost_gpu_hours, a.checkpoints, a.exit_code,
       f.as_of, f.as_of_position
FROM attempts AS a
JOIN job AS j ON j.cell = a.cell AND j.job = a.job
JOIN report.freshness AS f ON f.cell = a.cell AND f.view = 'attempts';
COMMENT ON VIEW report.attempt IS 'One row an attempt: a gang from its placement until it is out';

CREATE VIEW report.gpu_hours AS
SELECT l.cell, (l.to_at - interval '1 millisecond') AT TIME ZONE 'UTC' AS at,
       ((l.to_at - interval '1 millisecond') AT TIME ZONE 'UTC')::date AS day,
       l.team, l.account, l.counterparty, l.gpu_ms / 3600000.0::double precision AS gpu_hours,
       f.as_of, f.as_of_position
FROM quota_ledger AS l
JOIN report.freshness AS f ON f.cell = l.cell AND f.view = 'quota_ledger';
COMMENT ON VIEW report.gpu_hours IS
    'Where GPU-hours went: entries of the ledger, to be summed; all accounts of a day add up to '
    'capacity x time';

CREATE VIEW report.wait AS
SELECT w.cell, w.job, w.team, w.gpus, band(w.gpus) AS band, w.cause, at(w.from_ms) AS from_at,
       at(w.to_ms) AS to_at, (coalesce(w.to_ms, p.as_of_ms) - w.from_ms) / 1000.0::double precision
           AS wait_s, w.first_start, f.as_of, f.as_of_position
FROM wait AS w
JOIN view_position AS p ON p.cell = w.cell AND p.view = 'waits'
JOIN report.freshness AS f ON f.cell = w.cell AND f.view = 'waits';
COMMENT ON VIEW report.wait IS
    'Intervals of waiting, each with one cause; a job''s add up to its pending time';

CREATE VIEW report.share AS
SELECT b.cell, at(b.bucket_ms) AS from_at, b.team,
       b.delivered_gpu_ms / 3600000.0::double precision AS delivered_gpu_hours,
       b.entitled_gpu_ms / 3600000.0::double precision AS entitled_gpu_hours,
       b.demand_gpu_ms / 3600000.0::double precision AS demand_gpu_hours,
       b.capacity_gpu_ms / 3600000.0::double precision AS capacity_gpu_hours,
       f.as_of, f.as_of_position
FROM share_bucket AS b
JOIN report.freshness AS f ON f.cell = b.cell AND f.view = 'fairness';
COMMENT ON VIEW report.share IS 'What each team got and had a right to, in steps of five minutes';

CREATE VIEW report.fault AS
SELECT x.cell, x.node, x.gpu, x.kind, x.from_at, x.to_at,
       extract(epoch FROM coalesce(x.to_at, f.as_of) - x.from_at)::double precision AS lasted_s,
       x.job, x.strike, f.as_of, f.as_of_position
FROM faults AS x
JOIN report.freshness AS f ON f.cell = x.cell AND f.view = 'faults';
COMMENT ON VIEW report.fault IS 'What was wrong with nodes and GPUs, and for how long';

DO $$
DECLARE
    word record;
    place record;
BEGIN
    FOR word IN SELECT * FROM (VALUES
        ('cell', 'the scheduling domain'),
        ('as_of', 'the scheduler''s time up to which the rows go'),
        ('as_of_position', 'topic-partition-offset of the last decisions in the rows'),
        ('view', 'name of the view in schema gangline'),
        ('lag_events', 'records of decisions not yet read'),
        ('lag_s', 'seconds behind the log, 0 when all is read'),
        ('checked_at', 'when a projector last looked; stands still while none runs'),
        ('problem', 'why the view stands still; null when it does not'),
        ('job', 'the submitter''s id of the job'),
        ('number', 'small integer in order of acceptance, 0 for a rejected job'),
        ('team', 'name of the team; empty for the fleet'),
        ('class', 'low, normal, high or urgent'),
        ('gpus', 'GPUs of the whole gang'),
        ('band', 'GPUs of the gang: 1-7, 8-127 or 128+'),
        ('state', 'what it is now, or how it ended'),
        ('submitted_at', 'when the submission was appended to the log'),
        ('started_at', 'when it (first) started; null before'),
        ('ended_at', 'when it ended; null before'),
        ('wait_s', 'seconds; of a job: from submission to its first start'),
        ('elapsed_s', 'seconds from the first start to the end, waits between included'),
        ('productive_gpu_hours', 'GPU-hours of work that is kept'),
        ('lost_gpu_hours', 'GPU-hours of work that had to be done again'),
        ('attempts', 'gangs that started'),
        ('preemptions', 'times it was told to stop for another gang'),
        ('aborted_starts', 'placements of which not all members were ready in time'),
        ('reason', 'why it waits, or why it ended'),
        ('exit_code', 'first exit code that was not 0, else 0'),
        ('labels', 'the user''s own words, for filters'),
        ('attempt', 'number of the attempt, from 1'),
        ('borrowed', 'GPUs beyond the team''s guarantee when it was placed'),
        ('level', 'lowest level of the tree that holds the gang whole'),
        ('crossed', 'domains of the level just below that it uses'),
        ('cause', 'why it ended, or why it waits'),
        ('placed_at', 'when it was given its GPUs'),
        ('starting_s', 'seconds from the placement to the start'),
        ('running_s', 'seconds from the start until it was out'),
        ('checkpoints', 'checkpoints that were recorded'),
        ('at', 'end of the entry, UTC'),
        ('day', 'UTC day of the entry''s end'),
        ('account',
         'productive, unsaved, lost, checkpointing, stalled, starting, stopping, idle_lendable, '
         'stranded, reserved, drained, unhealthy, lingering; lent and borrowed are the two '
         'sides of a loan'),
        ('counterparty', 'of lent: the borrower; of borrowed: the lender'),
        ('gpu_hours', 'GPU-hours, to be summed; negative for borrowed and for transfers out'),
        ('from_at', 'beginning'),
        ('to_at', 'end; null while it lasts'),
        ('first_start', 'whether the job had never started before'),
        ('delivered_gpu_hours', 'GPU-hours that its gangs held'),
        ('entitled_gpu_hours',
         'GPU-hours: the lesser of demand, and guarantee with a weighted share of the rest'),
        ('demand_gpu_hours', 'GPU-hours that it held or could have held'),
        ('capacity_gpu_hours', 'GPU-hours in service'),
        ('node', 'name of the node'),
        ('gpu', 'index on the node; null for the whole node'),
        ('kind', 'of a GPU: xid, ecc, nvlink …; of a node: silent, lost, unready or quarantine'),
        ('lasted_s', 'seconds; up to as_of while it lasts'),
        ('strike', 'whether it counts towards quarantine')
    ) AS words (name, meaning)
    LOOP
        FOR place IN
            SELECT c.relname FROM pg_attribute AS a
            JOIN pg_class AS c ON c.oid = a.attrelid
            WHERE c.relnamespace = 'report'::regnamespace AND c.relkind = 'v'
              AND a.attname = word.name
        LOOP
            EXECUTE format('COMMENT ON COLUMN report.%I.%I IS %L',
                           place.relname, word.name, word.meaning);
        END LOOP;
    END LOOP;
END $$;

-- The role is the server's, not the database's: another database may have made it, or be making it
-- now. Where we may not make roles, an administrator does.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'gangline_report') THEN
        CREATE ROLE gangline_report NOLOGIN;
    END IF;
EXCEPTION
    WHEN duplicate_object OR unique_violation THEN NULL;
    WHEN insufficient_privilege THEN
        RAISE NOTICE 'may not create role gangline_report; see docs/analysts.md';
END $$;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'gangline_report') THEN
        GRANT USAGE ON SCHEMA report TO gangline_report;
        GRANT SELECT ON ALL TABLES IN SCHEMA report TO gangline_report;
    END IF;
END $$;
