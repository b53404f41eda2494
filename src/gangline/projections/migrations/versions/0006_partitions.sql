-- The histories that grow for ever are kept in partitions: `ledger_entry` of 30 days each,
-- `decision` of a million records each (offsets grow with time, and the feed is read in their
-- order). Old parts can be moved, packed or dropped by themselves, and what is asked of a day
-- touches one of them.
-- What stood there before stays where it is, as the part before the first.

ALTER TABLE decision RENAME TO decision_before;
ALTER TABLE ledger_entry RENAME TO ledger_entry_before;

CREATE TABLE decision (LIKE decision_before INCLUDING DEFAULTS INCLUDING COMMENTS)
PARTITION BY RANGE (applied_offset);
ALTER TABLE decision ADD PRIMARY KEY (cell, applied_offset, item);
CREATE INDEX ON decision (cell, job, applied_offset, item) WHERE job IS NOT NULL;
CREATE INDEX ON decision (cell, node, applied_offset, item) WHERE node IS NOT NULL;
CREATE INDEX ON decision (cell, kind, applied_offset, item);
COMMENT ON TABLE decision IS 'Every decision in order; in parts of a million records';

CREATE TABLE ledger_entry (LIKE ledger_entry_before INCLUDING DEFAULTS INCLUDING COMMENTS
                           INCLUDING CONSTRAINTS)
PARTITION BY RANGE (to_ms);
CREATE INDEX ON ledger_entry (cell, to_ms, from_ms);
CREATE INDEX ON ledger_entry (cell, team, to_ms);
COMMENT ON TABLE ledger_entry IS
    'Ended intervals and transfers of the ledger, in parts of 30 days; append-only';

CREATE OR REPLACE VIEW decisions AS
SELECT cell, 'decisions-0-' || applied_offset AS position, at(at_ms) AS at, kind, job, node, detail,
       item, team, applied_offset, at_ms
FROM decision;

CREATE OR REPLACE VIEW quota_ledger AS
SELECT cell, at(from_ms) AS from_at, at(to_ms) AS to_at, team, account, counterparty, gpu_ms,
       from_ms, to_ms
FROM ledger_entry
UNION ALL
SELECT o.cell, at(o.since_ms), at(p.as_of_ms), o.team, o.account, o.counterparty,
       o.gpus * (p.as_of_ms - o.since_ms), o.since_ms, p.as_of_ms
FROM ledger_open AS o
JOIN view_position AS p ON p.cell = o.cell AND p.view = 'quota_ledger'
WHERE p.as_of_ms > o.since_ms;

-- Parts are numbered by what they begin with, divided by their size.
CREATE FUNCTION make_parts(parent text, size bigint, numbers bigint[]) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    target regclass := parent::regclass;
    number bigint;
    part text;
BEGIN
    -- The tables that a rebuild fills beside these are plain ones.
    IF (SELECT relkind FROM pg_class WHERE oid = target) <> 'p' THEN
        RETURN;
    END IF;
    FOREACH number IN ARRAY numbers LOOP
        part := parent || '_' || number;
        CONTINUE WHEN to_regclass('gangline.' || quote_ident(part)) IS NOT NULL;
        -- One at a time, and readers go on: a new table is attached, not made as a part.
        PERFORM pg_advisory_xact_lock(hashtext('gangline_parts'));
        CONTINUE WHEN to_regclass('gangline.' || quote_ident(part)) IS NOT NULL;
        BEGIN
            EXECUTE format('CREATE TABLE gangline.%I (LIKE gangline.%I INCLUDING ALL)',
                           part, parent);
            EXECUTE format('ALTER TABLE gangline.%I ATTACH PARTITION gangline.%I '
                           'FOR VALUES FROM (%s) TO (%s)',
                           parent, part, number * size, (number + 1) * size);
        EXCEPTION
            -- What stood there before there were parts covers it.
            WHEN invalid_object_definition THEN NULL;
        END;
    END LOOP;
END $$;

DO $$
DECLARE
    highest bigint;
BEGIN
    SELECT max(applied_offset) INTO highest FROM decision_before;
    IF highest IS NULL THEN
        DROP TABLE decision_before;
    ELSE
        EXECUTE format('ALTER TABLE decision ATTACH PARTITION decision_before '
                       'FOR VALUES FROM (MINVALUE) TO (%s)', (highest / 1000000 + 1) * 1000000);
    END IF;
    SELECT max(to_ms) INTO highest FROM ledger_entry_before;
    IF highest IS NULL THEN
        DROP TABLE ledger_entry_before;
    ELSE
        EXECUTE format('ALTER TABLE ledger_entry ATTACH PARTITION ledger_entry_before '
                       'FOR VALUES FROM (MINVALUE) TO (%s)',
                       (highest / 2592000000 + 1) * 2592000000);
    END IF;
END $$;
