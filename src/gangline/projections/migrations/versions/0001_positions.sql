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
COMMENT ON TABLE view_position IS
    'How far each view has come; moves in one transaction with the rows';
COMMENT ON COLUMN view_position.next_offset IS 'offset of decisions-0 to read next';
COMMENT ON COLUMN view_position.applied_offset IS
    'offset of the last record that the view contains, -1 for none';
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
