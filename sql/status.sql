--
-- The status of a view in a word: each of them, one after the other
--
CREATE SCHEMA status_test;
SET search_path = status_test;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE TABLE event (id int, at timestamptz);
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '1 minute');
-- each row takes a while
CREATE FUNCTION slowly(i int) RETURNS int LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
	n int := 0;
BEGIN
	FOR j IN 1 .. 3000 LOOP
		n := n + j % 2;
	END LOOP;
	RETURN i;
END $$;
SELECT tidemark.create_continuous_view('hours', $$
	SELECT window_start, count(slowly(id)) AS n
	FROM event, tidemark.tumble(at, '1 hour') WHERE id > 0 GROUP BY window_start
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('final', $$
	SELECT window_start, count(*) AS n
	FROM event, tidemark.tumble(at, '1 hour') GROUP BY window_start
$$, trigger => 'manual', emit => 'final');
SELECT tidemark.create_continuous_view('total', 'SELECT count(*) AS n FROM event', trigger => 'manual');
CREATE VIEW status AS
	SELECT view::text, status, round(history_share::numeric, 2) AS share, open_windows AS open
	FROM tidemark.progress ORDER BY 1;

-- nothing to read
SELECT * FROM status;
-- history
INSERT INTO event SELECT 0, timestamptz '2024-05-01' + i * interval '1 minute' FROM generate_series(1, 1800) i;
SELECT pg_relation_size('event') / 8192 AS blocks;
SELECT * FROM status;
SET tidemark.piece_blocks = 5;
BEGIN;
CALL tidemark.catch_up('final');
CALL tidemark.catch_up('hours');
CALL tidemark.catch_up('total');
SELECT * FROM status;
COMMIT;
CALL tidemark.catch_up('final');
CALL tidemark.catch_up('hours');
CALL tidemark.catch_up('total');
SELECT * FROM status;
SELECT view, state_bytes = pg_total_relation_size(storage) AS size
FROM tidemark.progress JOIN tidemark.continuous_views USING (view) ORDER BY view::text;

-- a backlog, of a view that runs by hand and is not called
INSERT INTO event SELECT 0, timestamptz '2024-05-02 06:01' + i * interval '1 s' FROM generate_series(1, 1000) i;
INSERT INTO event SELECT 0, timestamptz '2024-05-02 06:01' + i * interval '1 s' FROM generate_series(1, 1000) i;
SELECT * FROM status;
-- one that is begun
BEGIN;
CALL tidemark.catch_up('total');
SELECT * FROM status WHERE view = 'total';
COMMIT;
RESET tidemark.piece_blocks;
CALL tidemark.catch_up('final');
CALL tidemark.catch_up('hours');
CALL tidemark.catch_up('total');
SELECT * FROM status;

-- a batch takes longer than its rows took to come
INSERT INTO event VALUES (0, '2024-05-02 06:40');
CALL tidemark.catch_up('hours');
INSERT INTO event SELECT i, '2024-05-02 06:40' FROM generate_series(1, 5000) i;
CALL tidemark.catch_up('hours');
SELECT * FROM status WHERE view = 'hours';
-- and then there is more to read than it had
INSERT INTO event SELECT 0, '2024-05-02 06:40' FROM generate_series(1, 20000) i;
SELECT * FROM status WHERE view = 'hours';
CALL tidemark.catch_up('hours');
SELECT * FROM status WHERE view = 'hours';

-- failed, and paused, which a failed one may be, too
INSERT INTO tidemark.failure
VALUES ('total'::regclass, 1, now(), now(), now(), '22012', 'division by zero');
SELECT * FROM status WHERE view = 'total';
SELECT tidemark.pause('total');
SELECT * FROM status WHERE view = 'total';
SELECT tidemark.resume('total');
SELECT * FROM status WHERE view = 'total';

-- windows of a view whose index is gone cannot be counted
SELECT storage AS final FROM tidemark.continuous_views WHERE view = 'final'::regclass \gset
BEGIN;
CALL tidemark.catch_up('final');
SELECT indexrelid::regclass AS index FROM pg_index WHERE indrelid = :'final'::regclass \gset
DROP INDEX :index;
SELECT * FROM status WHERE view = 'final';
ROLLBACK;

DROP SCHEMA status_test CASCADE;
