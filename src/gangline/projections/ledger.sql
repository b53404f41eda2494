-- name: append
COPY ledger_entry (cell, from_ms, to_ms, team, account, counterparty, gpu_ms, entered_ms) FROM STDIN

-- name: load_open
SELECT team, account, counterparty, gpus, since_ms FROM ledger_open WHERE cell = %(cell)s

-- name: clear_open
DELETE FROM ledger_open
WHERE cell = %(cell)s AND (team, account, counterparty) IN
    (SELECT team, account, counterparty FROM jsonb_populate_recordset(null::ledger_open, %(rows)s))

-- name: write_open
INSERT INTO ledger_open
SELECT * FROM jsonb_populate_recordset(null::ledger_open, %(rows)s)
ON CONFLICT (cell, team, account, counterparty) DO UPDATE SET
    gpus = excluded.gpus, since_ms = excluded.since_ms

-- name: add_usage
INSERT INTO usage_bucket
SELECT * FROM jsonb_populate_recordset(null::usage_bucket, %(rows)s)
ON CONFLICT (cell, bucket_ms, account) DO UPDATE SET
    gpu_ms = usage_bucket.gpu_ms + excluded.gpu_ms
