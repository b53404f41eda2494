-- name: rows
SELECT * FROM gangline.{table} WHERE cell = %(cell)s

-- name: make_copy
CREATE TEMP TABLE bare_copy (LIKE gangline.{table} INCLUDING ALL)

-- name: copy
COPY bare_copy FROM STDIN

-- name: drop_copy
DROP TABLE bare_copy

-- name: clear
DELETE FROM gangline.{table} WHERE cell = %(cell)s
