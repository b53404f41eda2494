-- The queue in the scheduler's own order. What teams used before this step is not known to the
-- views that were there: past use counts from now on, until `gangline views rebuild --view teams`.

-- It may be null: a projector of the version before may still write.
ALTER TABLE team ADD COLUMN standing text COLLATE "C";

CREATE OR REPLACE VIEW queue AS
SELECT w.cell, w.job, w.team, class_word(w.class_rank) AS class, w.gpus,
       row_number() OVER (PARTITION BY w.cell
                          ORDER BY w.class_rank DESC, (w.reservation = 'firm') DESC, t.standing,
                                   w.submitted_ms, w.number) AS position,
       at(w.submitted_ms) AS submitted_at, w.reason, w.reason_text,
       CASE WHEN w.start_ms IS NOT NULL
            THEN at(greatest(w.start_ms + coalesce(e.p50_ms, 0), p.as_of_ms))
       END AS estimated_start_p50,
       CASE WHEN w.start_ms IS NOT NULL
            THEN at(greatest(w.start_ms + coalesce(e.p90_ms, 0), p.as_of_ms))
       END AS estimated_start_p90,
       nullif(w.reservation, '') AS reservation, w.number, w.held,
       at(nullif(w.not_before_ms, 0)) AS not_before,
       (p.as_of_ms - w.submitted_ms) / 1000.0::double precision AS waited_s
FROM waiting AS w
LEFT JOIN team AS t ON t.cell = w.cell AND t.team = w.team
LEFT JOIN start_error AS e ON e.cell = w.cell
LEFT JOIN view_position AS p ON p.cell = w.cell AND p.view = 'queue'
WHERE w.queued;
COMMENT ON COLUMN queue.position IS
    'place in line from 1: class, then a firm reservation (large gangs past their bound), then '
    'teams that use less than their guarantee, then teams below their share, then age, then order '
    'of acceptance';
