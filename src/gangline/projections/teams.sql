-- name: write
INSERT INTO team
SELECT * FROM jsonb_populate_recordset(null::team, %(rows)s)
ON CONFLICT (cell, team) DO UPDATE SET
    parent = excluded.parent, guaranteed = excluded.guaranteed,
    borrow_limit = excluded.borrow_limit, lend_limit = excluded.lend_limit,
    weight = excluded.weight, used = excluded.used,
    guaranteed_used = excluded.guaranteed_used, borrowed = excluded.borrowed,
    lent = excluded.lent, queued = excluded.queued, running = excluded.running,
    by_model = excluded.by_model, standing = excluded.standing
