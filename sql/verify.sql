--
-- Comparing a continuous view with its query
--
CREATE SCHEMA verify_test;
SET search_path = verify_test;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE TABLE sale (store text, amount numeric, x float8, sold_at timestamptz);
SELECT tidemark.create_stream('sale', event_time => 'sold_at', watermark_delay => '10 minutes');
SELECT tidemark.create_continuous_view('sales', $$
	SELECT window_start, store, count(*) AS n, sum(amount) AS revenue, avg(amount) AS mean,
		stddev(x) AS spread, max(amount) AS most
	FROM sale, tidemark.tumble(sold_at, '1 hour')
	WHERE amount <> 13
	GROUP BY window_start, store HAVING count(*) > 0
$$, trigger => 'manual');
SELECT storage AS sales FROM tidemark.continuous_views WHERE view = 'sales'::regclass \gset

-- nothing was read yet: rows that are not consumed are not missed
INSERT INTO sale
SELECT CASE i % 4 WHEN 3 THEN NULL ELSE 'store ' || i % 4 END, i, i / 7.0,
	timestamptz '2024-05-01 12:00' + i * interval '1 minute'
FROM generate_series(0, 299) i;
SELECT * FROM tidemark.verify('sales');
CALL tidemark.catch_up('sales');
SELECT * FROM tidemark.verify('sales');
-- rows that cannot be placed, rows not read yet
INSERT INTO sale VALUES ('store 0', 1, 1, NULL), ('store 0', 1, 1, 'infinity'), ('store 0', 1, 1, '-infinity'),
	('store 1', 5, 1.5, '2024-05-01 17:05'), ('store 1', 13, 1.5, '2024-05-01 17:05');
SELECT * FROM tidemark.verify('sales');
CALL tidemark.catch_up('sales');
INSERT INTO sale VALUES ('store 2', 5, 1.5, '2024-05-01 17:05');
SELECT * FROM tidemark.verify('sales');
-- in the transaction that has rows of its own
BEGIN;
INSERT INTO sale VALUES ('store 2', 6, 2.5, '2024-05-01 17:06');
CALL tidemark.catch_up('sales');
SELECT * FROM tidemark.verify('sales');
COMMIT;
CALL tidemark.catch_up('sales');
-- in any isolation level
BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY;
SELECT * FROM tidemark.verify('sales');
COMMIT;

--
-- One thing is changed, one group is reported
--
BEGIN;
UPDATE :sales SET v1 = v1 + 1 WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT * FROM tidemark.verify('sales');
ROLLBACK;
-- a value that has a state besides
BEGIN;
UPDATE :sales SET v3 = v3 + 1 WHERE window_start = '2024-05-01 14:00' AND k1 IS NULL;
SELECT * FROM tidemark.verify('sales');
ROLLBACK;
-- a float that differs as it may by the order of rows, and one that does more
BEGIN;
UPDATE :sales SET v4 = v4 * (1 + 1e-11) WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT * FROM tidemark.verify('sales');
UPDATE :sales SET v4 = v4 * (1 + 1e-7) WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT verdict, window_start, keys, expected = found AS same FROM tidemark.verify('sales');
ROLLBACK;
-- a byte of each state; the column's name is that of its number
SELECT attname AS state FROM pg_attribute
WHERE attrelid = :'sales'::regclass AND atttypid = 'tidemark.state'::regtype ORDER BY attnum LIMIT 1 \gset
CREATE FUNCTION change_byte(state tidemark.state, place int) RETURNS tidemark.state
LANGUAGE sql AS $$
	SELECT set_byte(b, place, (get_byte(b, place) + 1) % 256)::text::tidemark.state
	FROM CAST(state::text AS bytea) b
$$;
BEGIN;
UPDATE :sales SET :state = change_byte(:state, octet_length(:state::text::bytea) - 1)
WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT verdict, window_start, keys, expected, found ? 'state of mean' AS state
FROM tidemark.verify('sales');
ROLLBACK;
-- one that makes its function fail
BEGIN;
UPDATE :sales SET :state = change_byte(:state, 0)
WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT * FROM tidemark.verify('sales');
ROLLBACK;
-- any byte
CREATE TABLE byte_result (place int, rows bigint, groups bigint);
DO $$
DECLARE
	storage regclass;
	state text;
	n int;
BEGIN
	SELECT v.storage INTO storage FROM tidemark.continuous_views v WHERE view = 'sales'::regclass;
	SELECT attname INTO state FROM pg_attribute
	WHERE attrelid = storage AND atttypid = 'tidemark.state'::regtype ORDER BY attnum LIMIT 1;
	EXECUTE format('SELECT octet_length(%I::text::bytea) FROM %s WHERE window_start = ''2024-05-01 14:00''
		AND k1 = ''store 1''', state, storage) INTO n;
	FOR i IN 0 .. n - 1 LOOP
		DECLARE
			r record;
		BEGIN
			EXECUTE format('UPDATE %s SET %I = change_byte(%I, %s) WHERE window_start = ''2024-05-01 14:00''
				AND k1 = ''store 1''', storage, state, state, i);
			SELECT count(*) AS rows, count(*) FILTER (WHERE verdict = 'wrong'
				AND window_start = '2024-05-01 14:00' AND keys->>'store' = 'store 1') AS groups
			INTO r FROM tidemark.verify('sales');
			RAISE EXCEPTION USING errcode = 'P0099', message = i || ' ' || r.rows || ' ' || r.groups;
		EXCEPTION WHEN SQLSTATE 'P0099' THEN
			INSERT INTO byte_result SELECT a[1], a[2], a[3]
			FROM (SELECT string_to_array(SQLERRM, ' ')::int[]) AS t(a);
		END;
	END LOOP;
END $$;
SELECT max(rows) <= 1 AS at_most_one, min(rows - groups) = 0 AS the_right_one,
	count(*) FILTER (WHERE rows = 1) > count(*) / 2 AS most_found
FROM byte_result;
-- a row less, a row more, a row twice
BEGIN;
DELETE FROM :sales WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT verdict, window_start, keys, expected - 'spread' AS expected, found FROM tidemark.verify('sales');
ROLLBACK;
BEGIN;
INSERT INTO :sales SELECT * FROM :sales WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT * FROM tidemark.verify('sales');
ROLLBACK;
BEGIN;
UPDATE :sales SET k1 = 'store 9' WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT verdict, window_start, keys, expected->>'n' AS expected, found->>'n' AS found, found ? '_key_hash' AS hash
FROM tidemark.verify('sales') ORDER BY keys;
ROLLBACK;
BEGIN;
UPDATE :sales SET window_end = window_end + interval '1 second' WHERE window_start = '2024-05-01 14:00' AND k1 = 'store 1';
SELECT * FROM tidemark.verify('sales');
ROLLBACK;
-- a counter
CREATE TABLE counter_result (n int, verdict text, expected jsonb, found jsonb);
DO $$
DECLARE
	i int;
	r record;
BEGIN
	FOREACH i IN ARRAY '{1, 2, 4, 5, 8, 15, 19}'::int[] LOOP
		BEGIN
			UPDATE tidemark.checkpoint SET totals[i] = totals[i] + 1 WHERE view = 'sales'::regclass;
			FOR r IN SELECT * FROM tidemark.verify('sales') LOOP
				INSERT INTO counter_result VALUES (i, r.verdict, r.expected, r.found);
			END LOOP;
			UPDATE tidemark.checkpoint SET totals[i] = totals[i] - 1 WHERE view = 'sales'::regclass;
		END;
	END LOOP;
END $$;
SELECT * FROM counter_result ORDER BY n, found;
SELECT * FROM tidemark.verify('sales');

--
-- Late rows
--
INSERT INTO sale VALUES ('store 1', 100, 1, '2024-05-01 13:59'), ('new', 1, 1, '2024-05-01 12:00'),
	('store 1', 13, 1, '2024-05-01 13:59'), ('store 1', 7, 7, '2024-05-01 17:10');
CALL tidemark.catch_up('sales');
SELECT window_start, rows FROM tidemark.late_window WHERE view = 'sales'::regclass ORDER BY 1;
SELECT verdict, window_start, keys, expected->>'n' AS expected, found->>'n' AS found FROM tidemark.verify('sales');
-- the tally is part of the batch
BEGIN;
INSERT INTO sale VALUES ('store 1', 100, 1, '2024-05-01 13:59');
COMMIT;
BEGIN;
CALL tidemark.catch_up('sales');
SELECT window_start, rows FROM tidemark.late_window WHERE view = 'sales'::regclass ORDER BY 1;
ROLLBACK;
SELECT window_start, rows FROM tidemark.late_window WHERE view = 'sales'::regclass ORDER BY 1;
CALL tidemark.catch_up('sales');
SELECT window_start, rows FROM tidemark.late_window WHERE view = 'sales'::regclass ORDER BY 1;
-- what is wrong besides is wrong all the same
BEGIN;
UPDATE :sales SET v3 = v3 + 1 WHERE window_start = '2024-05-01 13:00' AND k1 = 'store 1';
SELECT verdict, window_start, keys FROM tidemark.verify('sales');
ROLLBACK;

--
-- Rows that are gone
--
DELETE FROM sale WHERE sold_at < '2024-05-01 14:30';
SELECT verdict, window_start, count(*) FROM tidemark.verify('sales') GROUP BY 1, 2 ORDER BY 2, 1;
SELECT verdict, window_start, count(*) FROM tidemark.verify('sales', since => '2024-05-01 14:00') GROUP BY 1, 2 ORDER BY 2, 1;
BEGIN;
UPDATE :sales SET v1 = v1 + 1 WHERE window_start = '2024-05-01 15:00' AND k1 = 'store 1';
SELECT * FROM tidemark.verify('sales') WHERE verdict = 'wrong';
ROLLBACK;
TRUNCATE sale;
SELECT verdict, count(*) FROM tidemark.verify('sales') GROUP BY 1;
DROP VIEW sales;
SELECT count(*) FROM tidemark.late_window;

--
-- Shapes
--
CREATE TABLE event (id int, kind text, value numeric, at timestamptz, at_local timestamp) PARTITION BY LIST (kind);
CREATE TABLE event_a PARTITION OF event FOR VALUES IN ('a');
CREATE TABLE event_b (at_local timestamp, at timestamptz, dropped int, value numeric, kind text, id int);
ALTER TABLE event_b DROP COLUMN dropped;
ALTER TABLE event ATTACH PARTITION event_b FOR VALUES IN ('b');
CREATE TABLE kind (kind text, name text);
INSERT INTO kind VALUES ('a', 'eh'), ('b', 'bee');
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '1 day');
INSERT INTO event
SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i % 10, timestamptz '2024-05-01' + i * interval '17 minutes', NULL
FROM generate_series(1, 100) i;
SELECT count(*) FROM unnest(ARRAY[
	$$SELECT count(*) AS n, sum(value) AS total FROM event$$,
	$$SELECT kind, min(at) AS first FROM event GROUP BY kind$$,
	$$SELECT window_end, count(*) AS n FROM event, tidemark.tumble(at, '1 hour') GROUP BY window_end$$,
	$$SELECT kind, window_end, window_start FROM event, tidemark.tumble(at, '1 hour') GROUP BY window_end, window_start, kind$$,
	$$SELECT date_bin('20 minutes', at, '2024-01-01') AS bin, kind, sum(value) AS total FROM event GROUP BY bin, kind$$,
	$$SELECT date_trunc('day', at AT TIME ZONE 'Asia/Kathmandu') AS day, count(*) AS n FROM event GROUP BY 1$$,
	$$SELECT at, count(*) AS n FROM event GROUP BY at$$,
	$$SELECT value::float4 AS value, avg(id::float4) AS mean, max(kind) FILTER (WHERE id > 50) AS last FROM event GROUP BY 1$$,
	$$SELECT e.kind, k.name, count(*) AS n FROM event e JOIN kind k USING (kind) GROUP BY 1, 2$$,
	$$SELECT count(*) AS n FROM event WHERE false$$,
	$$SELECT kind FROM event GROUP BY kind HAVING count(*) > 1000$$
]) WITH ORDINALITY AS q(query, i), tidemark.create_continuous_view('shape_' || i, query, trigger => 'manual');
CREATE PROCEDURE catch_up_all() LANGUAGE plpgsql AS $$
DECLARE
	v regclass;
BEGIN
	FOR v IN SELECT view FROM tidemark.continuous_views WHERE stream = 'event'::regclass LOOP
		CALL tidemark.catch_up(v);
	END LOOP;
END $$;
CALL catch_up_all();
INSERT INTO event
SELECT i, CASE i % 2 WHEN 0 THEN 'a' ELSE 'b' END, i % 10, timestamptz '2024-05-01' + i * interval '17 minutes', NULL
FROM generate_series(90, 200) i;
CALL catch_up_all();
SELECT v.view, r.* FROM tidemark.continuous_views v, tidemark.verify(v.view) r WHERE v.stream = 'event'::regclass;
-- a change of one value in each
DO $$
DECLARE
	v record;
BEGIN
	FOR v IN SELECT storage FROM tidemark.continuous_views WHERE stream = 'event'::regclass LOOP
		EXECUTE format('UPDATE %s SET _key_hash = _key_hash + 1 WHERE ctid = (SELECT min(ctid) FROM %s)', v.storage, v.storage);
	END LOOP;
END $$;
SELECT v.view, count(*), min(r.verdict), bool_and(r.found ? '_key_hash') AS hash
FROM tidemark.continuous_views v, tidemark.verify(v.view) r WHERE v.stream = 'event'::regclass
GROUP BY v.view ORDER BY v.view::text;
-- an ordinary table moved on
UPDATE kind SET name = 'be' WHERE kind = 'b';
SELECT verdict, keys FROM tidemark.verify('shape_9') WHERE NOT coalesce(found ? '_key_hash', false) ORDER BY keys;
-- a view without windows whose rows are gone; a partition that is away
SELECT tidemark.create_continuous_view('kinds', 'SELECT kind, count(*) AS n FROM event GROUP BY kind', trigger => 'manual');
CALL tidemark.catch_up('kinds');
ALTER TABLE event DETACH PARTITION event_b;
SELECT * FROM tidemark.verify('kinds');
ALTER TABLE event ATTACH PARTITION event_b FOR VALUES IN ('b');
SELECT * FROM tidemark.verify('kinds');
-- windows of type timestamp; start
SELECT tidemark.create_continuous_view('started', $$
	SELECT date_trunc('day', at AT TIME ZONE 'Asia/Kathmandu') AS day, count(*) AS n FROM event GROUP BY 1
$$, trigger => 'manual', start => '2024-05-02 12:00');
CALL tidemark.catch_up('started');
SELECT * FROM tidemark.verify('started');
SELECT storage AS started FROM tidemark.continuous_views WHERE view = 'started'::regclass \gset
UPDATE :started SET v1 = 0 WHERE window_start = (SELECT min(window_start) FROM :started);
SELECT * FROM tidemark.verify('started');
SELECT verdict FROM tidemark.verify('started', since => '2024-05-03 00:00');
SELECT verdict FROM tidemark.verify('started', since => '2024-05-03 00:00:01');

--
-- What is refused
--
\set VERBOSITY terse
SELECT * FROM tidemark.verify(NULL);
SELECT * FROM tidemark.verify('event');
SELECT tidemark.verify_row('event'::regclass, _txid, at) FROM event;
CREATE ROLE regress_tidemark_verify;
GRANT USAGE ON SCHEMA verify_test TO regress_tidemark_verify;
SET ROLE regress_tidemark_verify;
SELECT * FROM tidemark.verify('started');
RESET ROLE;
-- a history that is being read stands at no position
CREATE TABLE past (at timestamptz);
INSERT INTO past SELECT timestamptz '2024-05-01' + i * interval '1 s' FROM generate_series(1, 1000) i;
SELECT tidemark.create_stream('past', event_time => 'at', watermark_delay => '1 day');
SELECT tidemark.create_continuous_view('past_count', 'SELECT count(*) AS n FROM past', trigger => 'manual');
SET tidemark.piece_blocks = 1;
BEGIN;
CALL tidemark.catch_up('past_count');
SELECT * FROM tidemark.verify('past_count');
ROLLBACK;
CALL tidemark.catch_up('past_count');
SELECT * FROM tidemark.verify('past_count');
INSERT INTO past SELECT timestamptz '2024-05-01' + i * interval '1 s' FROM generate_series(1, 1000) i;
INSERT INTO past SELECT timestamptz '2024-05-01' + i * interval '1 s' FROM generate_series(1, 1000) i;
-- in the middle of a backlog
BEGIN;
CALL tidemark.catch_up('past_count');
SELECT reading_history FROM tidemark.progress WHERE view = 'past_count'::regclass;
SELECT * FROM tidemark.verify('past_count');
COMMIT;
CALL tidemark.catch_up('past_count');
SELECT n FROM past_count;
SELECT * FROM tidemark.verify('past_count');

DROP SCHEMA verify_test CASCADE;
DROP ROLE regress_tidemark_verify;
