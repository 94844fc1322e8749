--
-- Continuous views: what they hold after several batches, against the same
-- query written with plain arithmetic.
--
CREATE SCHEMA view_test;
SET search_path = view_test;
SET timezone = 'UTC';
SET client_min_messages = warning;

-- rows that only one of the two has, and how many there are
CREATE FUNCTION compare(a regclass, b regclass,
	OUT only_a bigint, OUT only_b bigint, OUT rows bigint)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT (SELECT count(*) FROM (TABLE %1$s EXCEPT ALL TABLE %2$s) d),
		(SELECT count(*) FROM (TABLE %2$s EXCEPT ALL TABLE %1$s) d),
		(SELECT count(*) FROM %1$s)', a, b) INTO only_a, only_b, rows;
END $$;

-- what became of the rows of the source; they have one fate each
CREATE FUNCTION fates(v regclass, OUT batch bigint, OUT rows_in bigint, OUT null_time bigint,
	OUT filtered bigint, OUT late bigint, OUT used bigint, OUT future bigint, OUT sums_up bool)
LANGUAGE sql AS $$
	SELECT batch_id, rows_in, rows_null_time, rows_filtered, rows_late, rows_used, rows_future,
		rows_in = rows_null_time + rows_rejected + rows_filtered + rows_late + rows_duplicate
			+ rows_failed + rows_used
	FROM tidemark.progress WHERE view = v
$$;

--
-- The quick start
--
CREATE TABLE sale (store text, amount numeric, sold_at timestamptz NOT NULL);
SELECT tidemark.create_stream('sale', event_time => 'sold_at', watermark_delay => '10 minutes');
SELECT tidemark.create_continuous_view('sales_per_minute', $$
	SELECT window_start, store, count(*) AS sales, sum(amount) AS revenue, avg(amount) AS mean
	FROM sale, tidemark.tumble(sold_at, '1 minute')
	GROUP BY window_start, store
$$);
INSERT INTO sale SELECT 'store ' || i % 3, i, timestamptz '2024-05-01 12:00' + i * interval '7 s'
FROM generate_series(0, 99) i;
SELECT tidemark.wait_for('sales_per_minute');
-- without background workers
SELECT tidemark.create_continuous_view('sales_by_hand', $$
	SELECT window_start, store, count(*) AS sales, sum(amount) AS revenue, avg(amount) AS mean
	FROM sale, tidemark.tumble(sold_at, '1 minute')
	GROUP BY window_start, store
$$, trigger => 'manual');
CALL tidemark.catch_up('sales_by_hand');
INSERT INTO sale SELECT 'store ' || i % 4, i / 10.0, timestamptz '2024-05-01 12:05' + i * interval '3 s'
FROM generate_series(0, 199) i;
CALL tidemark.catch_up('sales_by_hand');
INSERT INTO sale VALUES (NULL, 1, '2024-05-01 12:05:59.999999'), (NULL, 2, '2024-05-01 12:06'),
	(NULL, NULL, '2024-05-01 12:06:00.000001');
SELECT tidemark.wait_for('sales_per_minute');
CALL tidemark.catch_up('sales_by_hand');
CREATE TABLE sale_oracle AS
	SELECT to_timestamp(floor(extract(epoch FROM sold_at) / 60) * 60) AS window_start, store,
		count(*) AS sales, sum(amount) AS revenue, avg(amount) AS mean
	FROM sale GROUP BY 1, 2;
TRUNCATE sale;
SELECT * FROM compare('sales_per_minute', 'sale_oracle');
SELECT * FROM compare('sales_by_hand', 'sale_oracle');
SELECT * FROM sales_by_hand WHERE window_start = '2024-05-01 12:06' ORDER BY store;
-- the column's types are those of the query
\d sales_by_hand
-- TRUNCATE changes no result, and what comes after it is counted once
CALL tidemark.catch_up('sales_by_hand');
INSERT INTO sale VALUES ('after', 5, '2024-05-01 12:30');
CALL tidemark.catch_up('sales_by_hand');
CALL tidemark.catch_up('sales_by_hand');
SELECT * FROM sales_by_hand WHERE store = 'after';
SELECT * FROM fates('sales_by_hand');
-- nothing to do: no batch and no transaction id
BEGIN;
CALL tidemark.catch_up('sales_by_hand');
SELECT pg_current_xact_id_if_assigned();
COMMIT;
SELECT (fates('sales_by_hand')).batch;
-- DELETE is retention, it changes no result
DELETE FROM sale;
CALL tidemark.catch_up('sales_by_hand');
SELECT * FROM sales_by_hand WHERE store = 'after';

--
-- The same query run by hand is the oracle of its view, whatever the shape.
-- Five batches; some rows are filtered, some keys are NULL.
--
CREATE TABLE event (id int, kind text, value numeric, x float8, flag bool, at timestamptz);
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '1 day');
CREATE TABLE shape (name text, query text, oracle text);
INSERT INTO shape VALUES
('no_keys',
 'SELECT count(*) AS n, sum(value) AS total, max(kind) AS last FROM event',
 'SELECT count(*), sum(value), max(kind) FROM event'),
('no_keys_having',
 'SELECT count(*) AS n FROM event HAVING sum(value) > 100',
 'SELECT count(*) FROM event HAVING sum(value) > 100'),
('no_window',
 'SELECT kind, count(*) AS n, min(at) AS first, max(at) AS last FROM event GROUP BY kind',
 'SELECT kind, count(*), min(at), max(at) FROM event GROUP BY 1'),
('window_only',
 'SELECT window_start, window_end, count(value) AS n FROM event, tidemark.tumble(at, ''15 minutes'')
  GROUP BY window_start, window_end',
 'SELECT to_timestamp(floor(extract(epoch FROM at) / 900) * 900),
	to_timestamp(floor(extract(epoch FROM at) / 900) * 900 + 900), count(value)
  FROM event GROUP BY 1, 2'),
('end_only',
 'SELECT window_end, count(*) AS n FROM event, tidemark.tumble(at, ''15 minutes'') GROUP BY window_end',
 'SELECT to_timestamp(floor(extract(epoch FROM at) / 900) * 900 + 900), count(*) FROM event GROUP BY 1'),
('origin',
 'SELECT window_start, count(*) AS n FROM event,
	tidemark.tumble(at, ''15 minutes'', ''2024-01-01 00:01:00+00'') GROUP BY window_start',
 'SELECT to_timestamp(floor((extract(epoch FROM at) - 60) / 900) * 900 + 60), count(*) FROM event GROUP BY 1'),
('no_aggregates',
 'SELECT window_start, kind, flag FROM event, tidemark.tumble(at, ''1 hour'')
  GROUP BY window_start, kind, flag',
 'SELECT DISTINCT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600), kind, flag FROM event'),
('no_aggregates_window',
 'SELECT kind, flag FROM event GROUP BY kind, flag',
 'SELECT DISTINCT kind, flag FROM event'),
('bin',
 'SELECT date_bin(''20 minutes'', at, ''2024-01-01'') AS bin, kind, sum(value) AS total FROM event GROUP BY bin, kind',
 'SELECT to_timestamp(floor(extract(epoch FROM at) / 1200) * 1200), kind, sum(value) FROM event GROUP BY 1, 2'),
('trunc',
 'SELECT date_trunc(''hour'', at) AS hour, sum(value) AS total FROM event GROUP BY 1',
 'SELECT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600), sum(value) FROM event GROUP BY 1'),
('trunc_zone',
 'SELECT date_trunc(''day'', at, ''Asia/Kathmandu'') AS day, count(*) AS n FROM event GROUP BY 1',
 'SELECT to_timestamp(floor((extract(epoch FROM at) + 20700) / 86400) * 86400 - 20700), count(*) FROM event GROUP BY 1'),
('key_expressions',
 'SELECT window_start, coalesce(upper(kind), ''?'') AS kind, id % 7 AS rest, count(*) AS n, sum(value) AS total
  FROM event, tidemark.tumble(at, ''1 hour'') GROUP BY window_start, coalesce(upper(kind), ''?''), id % 7',
 'SELECT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600), coalesce(upper(kind), ''?''), id % 7,
	count(*), sum(value) FROM event GROUP BY 1, 2, 3'),
('above',
 'SELECT kind || ''!'' AS loud, window_end - window_start AS size,
	sum(value) / count(*) AS mean, round(stddev(value), 3) AS spread,
	CASE WHEN count(*) > 20 THEN ''many'' ELSE ''few'' END AS much
  FROM event, tidemark.tumble(at, ''1 hour'') GROUP BY window_start, window_end, kind',
 'SELECT kind || ''!'', interval ''1 hour'',
	sum(value) / count(*), round(stddev(value), 3), CASE WHEN count(*) > 20 THEN ''many'' ELSE ''few'' END
  FROM event GROUP BY kind, floor(extract(epoch FROM at) / 3600)'),
('having',
 'SELECT kind, window_start, sum(value) AS total FROM event, tidemark.tumble(at, ''1 hour'')
  GROUP BY kind, window_start HAVING count(*) FILTER (WHERE flag) > 10 AND kind <> ''c''',
 'SELECT kind, to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600) AS w, sum(value) FROM event
  GROUP BY 1, 2 HAVING count(*) FILTER (WHERE flag) > 10 AND kind <> ''c'''),
('filters',
 'SELECT kind, count(*) FILTER (WHERE flag) AS f, count(*) FILTER (WHERE NOT flag) AS nf,
	count(*) FILTER (WHERE flag IS NULL) AS uf, sum(value) FILTER (WHERE id % 2 = 0) AS even,
	sum(value) FILTER (WHERE id < 0) AS never
  FROM event GROUP BY kind',
 'SELECT kind, count(*) FILTER (WHERE flag), count(*) FILTER (WHERE NOT flag),
	count(*) FILTER (WHERE flag IS NULL), sum(CASE WHEN id % 2 = 0 THEN value END), NULL::numeric
  FROM event GROUP BY kind'),
('filtered',
 'SELECT window_start, kind, sum(value) AS total FROM event, tidemark.tumble(at, ''1 hour'')
  WHERE flag AND value > 10 AND kind IN (''a'', ''b'') GROUP BY window_start, kind',
 'SELECT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600), kind, sum(value) FROM event
  WHERE flag AND value > 10 AND kind IN (''a'', ''b'') GROUP BY 1, 2'),
('several_arguments',
 'SELECT kind, regr_count(x, id) AS n, round(regr_sxx(id, id)::numeric, 2) AS sxx, round(corr(x, id)::numeric, 9) AS corr,
	round(regr_slope(x, id)::numeric, 9) AS slope, round(covar_pop(x, id)::numeric, 3) AS covar
  FROM event GROUP BY kind',
 'SELECT kind, count(x), round(regr_sxx(id, id)::numeric, 2), round(corr(x, id)::numeric, 9), round(regr_slope(x, id)::numeric, 9),
	round(covar_pop(x, id)::numeric, 3) FROM event GROUP BY kind'),
('twice',
 'SELECT sum(value) AS a, sum(value) AS b, sum(value) + 1 AS c, kind AS k1, kind AS k2 FROM event GROUP BY kind',
 'SELECT sum(value), sum(value), sum(value) + 1, kind, kind FROM event GROUP BY kind'),
('constant_key',
 'SELECT 1 AS one, count(*) AS n FROM event GROUP BY 1',
 'SELECT 1, count(*) FROM event GROUP BY 1'),
('nothing',
 'SELECT kind, count(*) AS n FROM event WHERE false GROUP BY kind',
 'SELECT kind, count(*) FROM event WHERE false GROUP BY kind'),
('nothing_no_keys',
 'SELECT count(*) AS n, sum(value) AS total FROM event WHERE false',
 'SELECT count(*), sum(value) FROM event WHERE false');

SELECT tidemark.create_continuous_view('shape_' || name, query, trigger => 'manual') FROM shape;
-- a view without keys has its row from the start
SELECT * FROM shape_no_keys;
SELECT * FROM shape_no_keys_having;
SELECT * FROM shape_nothing_no_keys;
SELECT * FROM shape_no_window;

CREATE PROCEDURE catch_up_all() LANGUAGE plpgsql AS $$
DECLARE
	v regclass;
BEGIN
	FOR v IN SELECT view FROM tidemark.continuous_views WHERE stream = 'event'::regclass LOOP
		CALL tidemark.catch_up(v);
	END LOOP;
END $$;

-- one batch of rows: a hundred and a few
CREATE PROCEDURE fill(batch int) LANGUAGE sql AS $$
	INSERT INTO event
	SELECT i + batch * 100, (ARRAY['a', 'b', 'c', 'd', NULL])[i % 5 + 1],
		CASE WHEN i % 11 > 0 THEN i / 4.0 END, sqrt(i), CASE WHEN i % 3 > 0 THEN i % 3 = 1 END,
		timestamptz '2024-05-01 09:50' + (i * 13 % 100 + batch * 30) * interval '1 minute'
	FROM generate_series(1, 110 + batch) i
$$;
CALL fill(0);
CALL catch_up_all();
CALL fill(1);
CALL catch_up_all();
CALL fill(2);
CALL fill(3);
CALL catch_up_all();
BEGIN;
SAVEPOINT s;
CALL fill(4);
ROLLBACK TO s;
SAVEPOINT s;
CALL fill(5);
RELEASE s;
CALL fill(6);
COMMIT;
CALL catch_up_all();
INSERT INTO event (at) VALUES ('2024-05-01 10:00');
CALL catch_up_all();

DO $$
DECLARE
	s shape;
BEGIN
	FOR s IN TABLE shape LOOP
		EXECUTE format('CREATE TABLE %I (LIKE %I)', 'oracle_' || s.name, 'shape_' || s.name);
		EXECUTE format('INSERT INTO %I %s', 'oracle_' || s.name, s.oracle);
		EXECUTE format('CREATE TABLE %I AS %s', 'by_hand_' || s.name, s.query);
	END LOOP;
END $$;
SELECT count(*) FROM event;
TRUNCATE event;
SELECT name, o.*, h.only_a AS only_view, h.only_b AS only_by_hand
FROM shape, compare(('shape_' || name)::regclass, ('oracle_' || name)::regclass) o,
	compare(('shape_' || name)::regclass, ('by_hand_' || name)::regclass) h
ORDER BY name COLLATE "C";
-- every row has one fate
SELECT name, f.* FROM shape, fates(('shape_' || name)::regclass) f ORDER BY name COLLATE "C";
SELECT * FROM shape_no_keys;
SELECT * FROM shape_filters ORDER BY kind;

--
-- Late rows, rows without time, rows of the future
--
CREATE TABLE reading (id int, at timestamptz);
SELECT tidemark.create_stream('reading', event_time => 'at', watermark_delay => '10 minutes');
SELECT tidemark.create_continuous_view('per_minute', $$
	SELECT window_start, count(*) AS n, sum(id) AS ids
	FROM reading, tidemark.tumble(at, '1 minute') WHERE id < 1000 GROUP BY window_start
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('per_minute_patient', $$
	SELECT window_start, count(*) AS n, sum(id) AS ids
	FROM reading, tidemark.tumble(at, '1 minute') WHERE id < 1000 GROUP BY window_start
$$, trigger => 'manual', watermark_delay => '1 hour');
SELECT tidemark.create_continuous_view('in_all', $$
	SELECT count(*) AS n, sum(id) AS ids FROM reading WHERE id < 1000
$$, trigger => 'manual');
CREATE PROCEDURE catch_up_readings() LANGUAGE plpgsql AS $$
BEGIN
	CALL tidemark.catch_up('per_minute');
	CALL tidemark.catch_up('per_minute_patient');
	CALL tidemark.catch_up('in_all');
END $$;
CREATE VIEW watermarks AS
	SELECT tidemark.watermark('per_minute'), tidemark.watermark('per_minute_patient') AS patient,
		tidemark.watermark('in_all') AS in_all;
TABLE watermarks;
-- in one batch order does not matter, and nothing is late in the first
INSERT INTO reading VALUES (1, '2024-05-01 12:00'), (2, '2024-05-01 11:00'), (4, '2024-05-01 10:00');
CALL catch_up_readings();
TABLE watermarks;
-- the window that ends at the watermark is closed, the one that holds it is not
INSERT INTO reading VALUES (8, '2024-05-01 11:49:59.999999'), (16, '2024-05-01 11:50'),
	(32, '2024-05-01 11:50:01'), (64, '2024-05-01 10:59:59'), (128, '2024-05-01 11:00');
CALL catch_up_readings();
TABLE watermarks;
-- a row that is filtered, and one that comes to nothing, advance it all the same
INSERT INTO reading VALUES (1000, '2024-05-01 13:00:30');
CALL catch_up_readings();
TABLE watermarks;
-- it holds 12:50:30: its window is open
INSERT INTO reading VALUES (256, '2024-05-01 12:50'), (512, '2024-05-01 12:49:59');
CALL catch_up_readings();
TABLE watermarks;
-- it never goes back
INSERT INTO reading VALUES (3, '2024-05-01 12:55');
CALL catch_up_readings();
TABLE watermarks;
-- filtered comes before late
INSERT INTO reading VALUES (2000, '2024-05-01 09:00');
CALL catch_up_readings();
-- no time, no time at all, and time without a window
INSERT INTO reading VALUES (5, NULL), (6, 'infinity'), (7, '-infinity'), (9, '4714-11-24 BC'),
	(10, '294276-12-31 23:59:59'), (NULL, NULL);
CALL catch_up_readings();
SELECT * FROM per_minute ORDER BY 1;
SELECT * FROM per_minute_patient ORDER BY 1;
SELECT * FROM in_all;
SELECT v, fates.* FROM unnest('{per_minute,per_minute_patient,in_all}'::regclass[]) v, fates(v);

-- a row of the future counts in its window, and moves the watermark up to the
-- clock only
SELECT now()::date + 2 AS future \gset
CREATE TABLE planned (id int, at timestamptz);
SELECT tidemark.create_stream('planned', event_time => 'at', watermark_delay => '1 hour');
SELECT tidemark.create_continuous_view('planned_per_hour', $$
	SELECT window_start, count(*) AS n FROM planned, tidemark.tumble(at, '1 hour') GROUP BY window_start
$$, trigger => 'manual');
INSERT INTO planned VALUES (1, :'future'), (2, now() + interval '2 minutes');
CALL tidemark.catch_up('planned_per_hour');
INSERT INTO planned VALUES (3, :'future'), (4, now() - interval '2 hours'), (5, now());
CALL tidemark.catch_up('planned_per_hour');
SELECT n FROM planned_per_hour WHERE window_start = :'future';
SELECT tidemark.watermark('planned_per_hour') BETWEEN now() - interval '1 hour 10 minutes'
	AND now() - interval '1 hour' AS on_the_clock;
SELECT * FROM fates('planned_per_hour');
SELECT max_event_time = :'future' AS seen FROM tidemark.progress WHERE view = 'planned_per_hour'::regclass;

-- unless time is simulated or planned
CREATE TABLE simulated (id int, at timestamptz);
SELECT tidemark.create_stream('simulated', event_time => 'at', watermark_delay => '1 hour', max_future => 'infinity');
SELECT tidemark.create_continuous_view('simulated_per_hour', $$
	SELECT window_start, count(*) AS n FROM simulated, tidemark.tumble(at, '1 hour') GROUP BY window_start
$$, trigger => 'manual');
INSERT INTO simulated VALUES (1, '2200-01-01 12:30');
CALL tidemark.catch_up('simulated_per_hour');
SELECT tidemark.watermark('simulated_per_hour');
INSERT INTO simulated VALUES (2, '2200-01-01 10:59'), (3, '2200-01-01 11:00');
CALL tidemark.catch_up('simulated_per_hour');
SELECT * FROM simulated_per_hour ORDER BY 1;
SELECT * FROM fates('simulated_per_hour');

--
-- What event time can be
--
-- a timestamp: the stream's zone relates it to the clock, windows are on its axis
CREATE TABLE local_event (id int, at timestamp);
SELECT tidemark.create_stream('local_event', event_time => 'at', watermark_delay => '5 minutes',
	timezone => 'America/New_York');
SELECT tidemark.create_continuous_view('local_per_hour', $$
	SELECT window_start, window_end, count(*) AS n, sum(id) AS ids
	FROM local_event, tidemark.tumble(at, '1 hour') GROUP BY window_start, window_end
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('local_per_day', $$
	SELECT date_trunc('day', at AT TIME ZONE 'America/New_York', 'UTC') AS day, count(*) AS n
	FROM local_event GROUP BY 1
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('local_trunc', $$
	SELECT date_trunc('month', at) AS month, count(*) AS n FROM local_event GROUP BY 1
$$, trigger => 'manual');
-- the hour that does not exist in New York, and the one that is there twice
INSERT INTO local_event VALUES (1, '2024-03-10 02:30'), (2, '2024-03-10 01:59:59'), (4, '2024-03-10 03:00');
CALL tidemark.catch_up('local_per_hour');
CALL tidemark.catch_up('local_per_day');
CALL tidemark.catch_up('local_trunc');
INSERT INTO local_event VALUES (8, '2024-11-03 01:30'), (16, '2024-11-03 01:30'), (32, '2024-11-03 02:00');
CALL tidemark.catch_up('local_per_hour');
CALL tidemark.catch_up('local_per_day');
CALL tidemark.catch_up('local_trunc');
SELECT * FROM local_per_hour ORDER BY 1;
SELECT * FROM local_per_day ORDER BY 1;
SELECT * FROM local_trunc ORDER BY 1;
SELECT tidemark.watermark('local_per_hour');
-- late on its own axis
INSERT INTO local_event VALUES (64, '2024-11-03 00:59:59'), (128, '2024-11-03 01:00');
CALL tidemark.catch_up('local_per_hour');
SELECT * FROM local_per_hour WHERE window_start >= '2024-11-03' ORDER BY 1;
SELECT * FROM fates('local_per_hour');
-- another zone in the session of the batch and of the reader changes nothing
SET timezone = 'Asia/Kathmandu';
INSERT INTO local_event VALUES (256, '2024-11-03 02:00');
CALL tidemark.catch_up('local_per_day');
SELECT * FROM local_per_day ORDER BY 1;
SET timezone = 'UTC';

-- an expression
CREATE TABLE milli (ms bigint, value int);
SELECT tidemark.create_stream('milli', event_time => 'to_timestamp(ms / 1000.0)', watermark_delay => '1 minute');
SELECT tidemark.create_continuous_view('milli_per_minute', $$
	SELECT window_start, sum(value) AS total, count(*) AS n
	FROM milli, tidemark.tumble(to_timestamp(ms / 1000.0), '1 minute') GROUP BY window_start
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('milli_per_second', $$
	SELECT date_bin('1 second', to_timestamp(ms / 1000.0), '2024-01-01') AS second, sum(value) AS total
	FROM milli GROUP BY 1
$$, trigger => 'manual');
INSERT INTO milli SELECT 1714560000000 + i * 777, i FROM generate_series(0, 499) i;
CALL tidemark.catch_up('milli_per_minute');
CALL tidemark.catch_up('milli_per_second');
INSERT INTO milli SELECT 1714560000000 + i * 777 + 350000, i FROM generate_series(0, 499) i;
INSERT INTO milli VALUES (NULL, 1);
CALL tidemark.catch_up('milli_per_minute');
CALL tidemark.catch_up('milli_per_second');
CREATE TABLE milli_minute_oracle AS
	SELECT to_timestamp(ms / 60000 * 60), sum(value), count(*) FROM milli WHERE ms IS NOT NULL GROUP BY 1;
CREATE TABLE milli_second_oracle AS
	SELECT to_timestamp(ms / 1000), sum(value) FROM milli WHERE ms IS NOT NULL GROUP BY 1;
TRUNCATE milli;
SELECT * FROM compare('milli_per_minute', 'milli_minute_oracle');
SELECT * FROM compare('milli_per_second', 'milli_second_oracle');
SELECT v, fates.* FROM unnest('{milli_per_minute,milli_per_second}'::regclass[]) v, fates(v);

-- rows that were there before the table was a stream, and before the view
CREATE TABLE old (id int, at timestamptz);
INSERT INTO old SELECT i, timestamptz '2024-05-01' + i * interval '1 minute' FROM generate_series(1, 1000) i;
DELETE FROM old WHERE id % 10 = 0;
SELECT tidemark.create_stream('old', event_time => 'at');
INSERT INTO old SELECT i, timestamptz '2024-05-01' + i * interval '1 minute' FROM generate_series(1001, 2000) i;
SELECT tidemark.create_continuous_view('old_per_hour', $$
	SELECT window_start, count(*) AS n, sum(id) AS ids FROM old, tidemark.tumble(at, '1 hour') GROUP BY window_start
$$, trigger => 'manual');
INSERT INTO old SELECT i, timestamptz '2024-05-01' + i * interval '1 minute' FROM generate_series(2001, 3000) i;
CALL tidemark.catch_up('old_per_hour');
INSERT INTO old SELECT i, timestamptz '2024-05-01' + i * interval '1 minute' FROM generate_series(3001, 4000) i;
CALL tidemark.catch_up('old_per_hour');
CREATE TABLE old_oracle AS
	SELECT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600), count(*), sum(id) FROM old GROUP BY 1;
TRUNCATE old;
SELECT * FROM compare('old_per_hour', 'old_oracle');
SELECT * FROM fates('old_per_hour');

-- rows that an aborted or a rolled back transaction left are none
BEGIN;
INSERT INTO old VALUES (1, '2024-06-01');
ROLLBACK;
CALL tidemark.catch_up('old_per_hour');
SELECT * FROM old_per_hour WHERE window_start >= '2024-06-01';
-- a row that is gone before it was read never was
INSERT INTO old VALUES (1, '2024-06-01');
DELETE FROM old;
CALL tidemark.catch_up('old_per_hour');
SELECT * FROM old_per_hour WHERE window_start >= '2024-06-01';
-- an inserted row of its own transaction
BEGIN;
INSERT INTO old VALUES (1, '2024-06-01');
CALL tidemark.catch_up('old_per_hour');
INSERT INTO old VALUES (2, '2024-06-01');
CALL tidemark.catch_up('old_per_hour');
SELECT n, ids FROM old_per_hour WHERE window_start >= '2024-06-01';
COMMIT;
CALL tidemark.catch_up('old_per_hour');
CALL tidemark.catch_up('old_per_hour');
SELECT n, ids FROM old_per_hour WHERE window_start >= '2024-06-01';

--
-- A rollback leaves everything as it was
--
CREATE TABLE position_before AS
	SELECT batch_id, watermark, pos_xmax, pos_in_progress, totals FROM tidemark.checkpoint
	WHERE view = 'old_per_hour'::regclass;
CREATE TABLE rows_before AS TABLE old_per_hour;
INSERT INTO old SELECT i, timestamptz '2024-06-02' + i * interval '1 minute' FROM generate_series(1, 100) i;
BEGIN;
SELECT tidemark.watermark('old_per_hour');
CALL tidemark.catch_up('old_per_hour');
SELECT tidemark.watermark('old_per_hour');
SELECT count(*), sum(n) FROM old_per_hour WHERE window_start >= '2024-06-02';
ROLLBACK;
SELECT count(*), sum(n) FROM old_per_hour WHERE window_start >= '2024-06-02';
SELECT batch_id, watermark, pos_xmax, pos_in_progress, totals FROM tidemark.checkpoint
	WHERE view = 'old_per_hour'::regclass
EXCEPT ALL TABLE position_before;
SELECT * FROM compare('old_per_hour', 'rows_before');
BEGIN;
SAVEPOINT s;
CALL tidemark.catch_up('old_per_hour');
ROLLBACK TO s;
CALL tidemark.catch_up('old_per_hour');
COMMIT;
SELECT count(*), sum(n) FROM old_per_hour WHERE window_start >= '2024-06-02';
CALL tidemark.catch_up('old_per_hour');
SELECT count(*), sum(n) FROM old_per_hour WHERE window_start >= '2024-06-02';
-- an error in the query leaves it, too, and the next batch has the row that is mended
SELECT tidemark.create_continuous_view('inverse', $$
	SELECT sum(1.0 / id)::int AS total, count(*) AS n FROM old
$$, trigger => 'manual');
CALL tidemark.catch_up('inverse');
INSERT INTO old VALUES (0, '2024-06-03');
\set VERBOSITY terse
CALL tidemark.catch_up('inverse');
SELECT n FROM inverse;
INSERT INTO old VALUES (1, '2024-06-03');
CALL tidemark.catch_up('inverse');
SELECT n FROM inverse;
DELETE FROM old WHERE id = 0;
CALL tidemark.catch_up('inverse');
SELECT n FROM inverse;

SELECT count(*) FROM tidemark.failures;
DROP SCHEMA view_test CASCADE;
SELECT count(*) FROM tidemark.continuous_views;
SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace;
