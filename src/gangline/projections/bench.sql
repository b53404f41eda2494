-- name: rows
SELECT * FROM gangline.{table} WHERE cell = %(cell)s

-- name: make_copy
-- An ordinary table, as those of the views are: what it takes goes through the server's log, too.
CREATE TABLE gangline.bare_copy (LIKE gangline.{table} INCLUDING ALL)

-- name: copy
COPY gangline.bare_copy FROM STDIN

-- name: size
SELECT pg_total_relation_size('gangline.bare_copy')

-- name: drop_copy
DROP TABLE gangline.bare_copy

-- name: clear
DELETE FROM gangline.{table} WHERE cell = %(cell)s
