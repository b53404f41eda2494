-- Decisions as they come, how far each view is, and comments that many columns share.

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
COMMENT ON COLUMN projection.lag_events IS
    'records of decisions that it has not read (an upper bound on Kafka, whose offsets have '
    'holes)';
COMMENT ON COLUMN projection.lag_s IS
    'seconds between its last record and the projector''s last look at the log, 0 when it has '
    'read all';
COMMENT ON COLUMN projection.checked_at IS
    'when a projector last looked: it stands still while none runs';
COMMENT ON COLUMN projection.inputs IS 'highest fact that it contains, by topic-partition';
COMMENT ON COLUMN projection.skipped IS
    'decisions of unknown kinds that it left out, by its declared rule';
COMMENT ON COLUMN projection.problem IS 'why it stands still; null when it does not';

-- ------------------------------------------------------------------ words that mean the same
-- everywhere

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
