-- A part of a job's name may stand anywhere in it: an index of names by every three letters of
-- them. What it takes (pg_trgm) comes with Postgres, and whoever may create things in a database
-- may take it in. Where that cannot be, everything goes on without, and a search for an old job
-- reads all names; once an administrator has taken it in, `SELECT gangline.index_names()` makes the
-- index. It holds ended jobs, whose rows do not change any more: so a name goes into it once, and
-- those that go on are few.

CREATE FUNCTION index_names() RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    place text;
BEGIN
    CREATE EXTENSION IF NOT EXISTS pg_trgm WITH SCHEMA gangline;
    -- It may have been there before, in any schema.
    SELECT n.nspname INTO STRICT place
    FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace
    WHERE e.extname = 'pg_trgm';
    EXECUTE format('CREATE INDEX IF NOT EXISTS job_by_part_of_name ON gangline.job '
                   'USING gin (lower(job) %I.gin_trgm_ops) WHERE ended_ms IS NOT NULL', place);
    RETURN true;
EXCEPTION
    WHEN insufficient_privilege OR undefined_file OR feature_not_supported THEN
        RAISE NOTICE 'no index of parts of names: %; see docs/known-limits.md', SQLERRM;
        RETURN false;
END $$;
COMMENT ON FUNCTION index_names() IS
    'Makes the index of parts of names, if it may; whether there is one now';

SELECT index_names();

-- ------------------------------------------------------------------ teams, by model of GPU

-- It may be null: a projector of the version before may still write.
ALTER TABLE team ADD COLUMN by_model jsonb DEFAULT '{}';

CREATE OR REPLACE VIEW teams AS
SELECT cell, team, nullif(parent, '') AS parent, guaranteed, used, guaranteed_used, borrowed, lent,
       queued, running, nullif(borrow_limit, -1) AS borrow_limit,
       nullif(lend_limit, -1) AS lend_limit, weight,
       coalesce(by_model, '{}') AS by_model
FROM team;
COMMENT ON COLUMN teams.by_model IS
    'of each model of GPU that any team is guaranteed: `guaranteed` and `used` GPUs of this one; '
    'empty where none is';

-- What the views of teams remember of the fleet did not have them.
INSERT INTO view_memory
SELECT m.cell, m.view, 'model:' || n.node, jsonb_build_object('model', n.labels ->> 'model')
FROM view_memory AS m
JOIN node AS n ON n.cell = m.cell AND m.key = 'node:' || n.node
WHERE m.view = 'teams' AND n.labels ->> 'model' <> ''
ON CONFLICT DO NOTHING;

UPDATE view_memory AS m SET value = m.value || jsonb_build_object('by_model', t.by_model)
FROM (SELECT DISTINCT ON (cell, team) cell, team, detail -> 'by_model' AS by_model
      FROM decision WHERE kind = 'TeamChanged' AND detail ? 'by_model'
      ORDER BY cell, team, applied_offset DESC, item DESC) AS t
WHERE m.cell = t.cell AND m.view = 'teams' AND m.key = 'team:' || t.team;
