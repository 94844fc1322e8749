--
-- emit => 'final': windows are shown when no batch can change them any more,
-- and a notification says so.
--
CREATE SCHEMA emit_test;
SET search_path = emit_test;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE TABLE event (id int, kind text, at timestamptz);
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '10 minutes');
SELECT tidemark.create_continuous_view('live', $$
	SELECT window_start, window_end, kind, count(*) AS n
	FROM event, tidemark.tumble(at, '10 minutes') GROUP BY window_start, window_end, kind
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('final', $$
	SELECT window_start, window_end, kind, count(*) AS n
	FROM event, tidemark.tumble(at, '10 minutes') GROUP BY window_start, window_end, kind
$$, trigger => 'manual', emit => 'final');
SELECT tidemark.create_continuous_view('"Final, Large"', $$
	SELECT kind, count(*) AS n FROM event, tidemark.tumble(at, '10 minutes')
	GROUP BY window_start, kind HAVING count(*) > 1
$$, trigger => 'manual', emit => 'FINAL');
SELECT tidemark.create_continuous_view('final_bin', $$
	SELECT date_bin('10 minutes', at, '2024-01-01') AS bin, count(*) AS n FROM event GROUP BY 1
$$, trigger => 'manual', emit => 'final', watermark_delay => '0');
SELECT tidemark.create_continuous_view('final_day', $$
	SELECT date_trunc('day', at, 'America/New_York') AS day, count(*) AS n FROM event GROUP BY 1
$$, trigger => 'manual', emit => 'final', watermark_delay => '0');
CREATE PROCEDURE catch_up() LANGUAGE plpgsql AS $$
DECLARE
	v regclass;
BEGIN
	FOR v IN SELECT view FROM tidemark.continuous_views WHERE stream = 'event'::regclass ORDER BY view LOOP
		CALL tidemark.catch_up(v);
	END LOOP;
END $$;
-- what both show is the same in rows that are final by the watermark
CREATE VIEW difference AS
	(SELECT * FROM live WHERE window_end <= tidemark.watermark('live') EXCEPT ALL TABLE final)
	UNION ALL (TABLE final EXCEPT ALL SELECT * FROM live WHERE window_end <= tidemark.watermark('live'));

INSERT INTO event VALUES (1, 'a', '2024-05-01 12:00'), (2, 'a', '2024-05-01 12:05'), (3, 'b', '2024-05-01 12:09:59');
CALL catch_up();
TABLE final;
TABLE final_bin;
SELECT count(*) FROM live;
-- not yet
INSERT INTO event VALUES (4, 'b', '2024-05-01 12:19:59.999999');
CALL catch_up();
TABLE final;
TABLE final_bin;
-- the watermark reaches the end of the window
INSERT INTO event VALUES (5, 'b', '2024-05-01 12:20');
CALL catch_up();
SELECT tidemark.watermark('final');
SELECT * FROM final ORDER BY window_start, kind;
SELECT * FROM "Final, Large";
SELECT * FROM final_bin ORDER BY 1;
TABLE difference;
-- late rows never change it
INSERT INTO event VALUES (6, 'a', '2024-05-01 12:09:59'), (7, 'c', '2024-05-01 12:00'), (8, 'c', '2024-05-01 12:10');
CALL catch_up();
SELECT * FROM final ORDER BY window_start, kind;
SELECT rows_late FROM tidemark.progress WHERE view = 'final'::regclass;
-- a jump closes many windows, in one batch, with rows of the same batch in them
INSERT INTO event VALUES (9, 'd', '2024-05-01 12:30'), (10, 'd', '2024-05-01 12:40'), (11, 'd', '2024-05-01 12:40'),
	(12, 'd', '2024-05-01 13:40');
CALL catch_up();
SELECT * FROM final ORDER BY window_start, kind;
SELECT * FROM "Final, Large" ORDER BY kind;
TABLE difference;
-- a day of New York ends at 04:00
INSERT INTO event VALUES (13, 'e', '2024-05-02 03:59:59');
CALL catch_up();
TABLE final_day;
INSERT INTO event VALUES (14, 'e', '2024-05-02 04:00');
CALL catch_up();
TABLE final_day;
TABLE difference;
SELECT count(*) FROM final;

-- reader and batch: the statement's snapshot decides, as for the rows
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT count(*) FROM final;
SAVEPOINT s;
CALL tidemark.catch_up('final');
ROLLBACK;
BEGIN;
INSERT INTO event VALUES (15, 'f', '2024-05-03');
COMMIT;
BEGIN;
SELECT tidemark.watermark('final');
CALL tidemark.catch_up('final');
SELECT tidemark.watermark('final');
SELECT count(*) FROM final;
ROLLBACK;
SELECT tidemark.watermark('final');
SELECT count(*) FROM final;

-- a timestamp without zone
CREATE TABLE local_event (id int, at timestamp);
SELECT tidemark.create_stream('local_event', event_time => 'at', timezone => 'Asia/Kathmandu');
SELECT tidemark.create_continuous_view('local_final', $$
	SELECT window_start, count(*) AS n FROM local_event, tidemark.tumble(at, '1 hour') GROUP BY window_start
$$, trigger => 'manual', emit => 'final');
INSERT INTO local_event VALUES (1, '2024-05-01 12:00'), (2, '2024-05-01 12:59');
CALL tidemark.catch_up('local_final');
TABLE local_final;
INSERT INTO local_event VALUES (3, '2024-05-01 13:00');
CALL tidemark.catch_up('local_final');
TABLE local_final;
SELECT tidemark.watermark('local_final');

-- the condition is evaluated once and can use the index
CREATE FUNCTION plan_has(query text, pattern text) RETURNS bool LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		IF line ~ pattern THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
SET enable_seqscan = off;
SELECT plan_has('SELECT n FROM local_final', 'Index Cond: .*window_start <'),
	plan_has('SELECT n FROM local_final', 'InitPlan');
RESET enable_seqscan;
-- the batches that closed windows said so (test/isolation/specs/notify.spec)
SELECT view, batch_id, notifications FROM tidemark.progress WHERE view IN
	('live'::regclass, 'final'::regclass, 'local_final'::regclass) ORDER BY view::text COLLATE "C";

DROP SCHEMA emit_test CASCADE;
