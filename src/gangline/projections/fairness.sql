-- name: add
INSERT INTO share_bucket
SELECT * FROM jsonb_populate_recordset(null::share_bucket, %(rows)s)
ON CONFLICT (cell, bucket_ms, team) DO UPDATE SET
    delivered_gpu_ms = share_bucket.delivered_gpu_ms + excluded.delivered_gpu_ms,
    entitled_gpu_ms = share_bucket.entitled_gpu_ms + excluded.entitled_gpu_ms,
    demand_gpu_ms = share_bucket.demand_gpu_ms + excluded.demand_gpu_ms,
    capacity_gpu_ms = share_bucket.capacity_gpu_ms + excluded.capacity_gpu_ms
