-- name: views
SELECT c.relname AS view, coalesce(obj_description(c.oid), '') AS comment
FROM pg_class AS c
WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'v'
ORDER BY c.relname

-- name: columns
SELECT c.relname AS view, a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type,
       coalesce(col_description(c.oid, a.attnum), '') AS comment
FROM pg_attribute AS a
JOIN pg_class AS c ON c.oid = a.attrelid
WHERE c.relnamespace = to_regnamespace(%(schema)s) AND c.relkind = 'v' AND a.attnum > 0
ORDER BY c.relname, a.attnum
