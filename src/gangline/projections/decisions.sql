-- name: append
COPY decision (cell, applied_offset, item, at_ms, kind, job, node, team, detail) FROM STDIN
