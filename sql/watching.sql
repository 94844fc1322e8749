--
-- What the monitoring views show, and to whom.
--
CREATE SCHEMA watching;
SET search_path = watching;
SET timezone = 'UTC';
SET client_min_messages = warning;
CREATE ROLE regress_watch_owner;
CREATE ROLE regress_watch_monitor IN ROLE pg_monitor;
CREATE ROLE regress_watch_other;
GRANT USAGE, CREATE ON SCHEMA watching TO regress_watch_owner;
GRANT USAGE ON SCHEMA watching TO regress_watch_monitor, regress_watch_other;

SET ROLE regress_watch_owner;
CREATE TABLE event (k int, v int, at timestamptz);
SELECT tidemark.create_stream('event', event_time => 'at',
	watermark_delay => '90 minutes');
SELECT tidemark.create_continuous_view('per_hour', $$
	SELECT window_start, k, count(*) AS n, sum(10 / v) AS s
	FROM event, tidemark.tumble(at, '1 hour')
	WHERE k > 0 GROUP BY window_start, k $$, trigger => 'manual');
SELECT tidemark.create_continuous_view('hours', $$
	SELECT date_trunc('hour', at) AS hour, count(*) AS n
	FROM event GROUP BY hour $$,
	trigger => 'manual', emit => 'final', watermark_delay => '1 second');

-- before the first batch
SELECT view, batch_id, watermark, max_event_time, event_time_lag,
	reading_history, backlog_bytes, rows_in, batches, input_rate
FROM tidemark.progress ORDER BY view::text;
SELECT count(*) FROM tidemark.batches;

-- each fate
INSERT INTO event VALUES
	(1, 1, '2026-01-01 10:00'), (1, 2, '2026-01-01 11:59'),
	(2, 5, '2026-01-01 12:00'),
	(0, 1, '2026-01-01 12:30'),	-- filtered in one of them
	(1, 1, NULL), (1, 1, 'infinity');
SELECT view, backlog_bytes > 0 AS has_backlog FROM tidemark.progress
ORDER BY view::text;
CALL tidemark.catch_up('per_hour');
CALL tidemark.catch_up('hours');
INSERT INTO event VALUES
	(1, 1, '2026-01-01 09:59'),	-- late for both
	(1, 1, '2026-01-01 11:30');	-- late for one
CALL tidemark.catch_up('per_hour');
CALL tidemark.catch_up('hours');
SELECT view, batch_id, watermark, max_event_time, backlog_bytes,
	rows_in, rows_null_time, rows_filtered, rows_late, rows_used, rows_future,
	state_rows, batches, last_rows_in, last_groups_updated, last_groups_new,
	last_flushes, last_blocks_read
FROM tidemark.progress ORDER BY view::text;
SELECT event_time_lag > '1 hour' AS lag, last_batch_age < '1 hour' AS age,
	peak_memory_bytes > 0 AS memory, last_plan_ms > 0 AS plan,
	last_read_ms > 0 AS read, last_merge_ms > 0 AS merge,
	processing_rate > 0 AS rate
FROM tidemark.progress ORDER BY view::text;

-- the first batch is in the history, the second came within a second
SELECT view, batch_id, watermark, rows_in, rows_null_time, rows_filtered,
	rows_late, rows_used, groups_updated, groups_new, flushes, blocks_read,
	plan_ms > 0 AS plan, read_ms > 0 AS read, merge_ms > 0 AS merge,
	peak_memory_bytes > 0 AS memory
FROM tidemark.batches WHERE batch_id = 1 ORDER BY view::text;

-- settings
-- newer servers qualify only where they must
SELECT relation, trim(regexp_replace(replace(definition, 'event.', ''), '\s+', ' ', 'g')) AS definition,
	watermark_delay, max_future, timezone, allow_update, rows_restamped, views
FROM tidemark.streams;
SELECT view, stream, trigger, emit, watermark_delay, paused,
	storage::text LIKE 'tidemark_data.view_%' AS storage, settings
FROM tidemark.continuous_views ORDER BY view::text;

-- a batch that fails by hand is no failure of the view
INSERT INTO event VALUES (1, 0, '2026-01-01 12:00');
CALL tidemark.catch_up('per_hour');
SELECT count(*) FROM tidemark.failures;
SELECT batch_id, rows_in FROM tidemark.progress
WHERE view = 'per_hour'::regclass;

-- the owner and pg_monitor see them, others do not
SET ROLE regress_watch_monitor;
SELECT count(*) FROM tidemark.progress WHERE view::text LIKE '%hour%';
SELECT relation, views FROM tidemark.streams WHERE relation = 'event'::regclass;
SELECT count(*) > 0 FROM tidemark.batches;
SET ROLE regress_watch_other;
SELECT count(*) FROM tidemark.progress;
SELECT count(*) FROM tidemark.streams;
SELECT count(*) FROM tidemark.continuous_views;
SELECT count(*) FROM tidemark.batches;
SELECT count(*) FROM tidemark.failures;
SELECT count(*) >= 0 FROM tidemark.workers;
SELECT tidemark.backlog_bytes('per_hour');
SELECT * FROM tidemark.checkpoint;
RESET ROLE;

DROP SCHEMA watching CASCADE;
DROP ROLE regress_watch_owner, regress_watch_monitor, regress_watch_other;
