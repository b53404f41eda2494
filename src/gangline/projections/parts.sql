-- name: make_parts
SELECT make_parts(%(parent)s::text, %(size)s::bigint, %(numbers)s::bigint[])
