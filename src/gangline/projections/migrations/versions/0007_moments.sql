-- Who looks at a past moment asks by time: the feed up to then, the decision before and after it,
-- the faults that lasted then. Without these, a long history is read from its newest end.

CREATE INDEX ON decision (cell, at_ms);
CREATE INDEX fault_by_end ON fault (cell, to_ms);

-- The tasks of an array, as the view `jobs` says it: the index on the bare column is never used.
DROP INDEX job_by_array;
CREATE INDEX job_by_array ON job (cell, nullif(array_of, ''), submitted_ms DESC, job)
WHERE nullif(array_of, '') IS NOT NULL;
