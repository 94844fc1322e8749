-- tumble, tumble_start, tumble_end against plain arithmetic.
\set VERBOSITY default
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
SET intervalstyle = 'postgres';

-- the window by arithmetic on numeric microseconds; NULL: not a timestamp
CREATE FUNCTION micros(t timestamp) RETURNS numeric
LANGUAGE sql IMMUTABLE AS $$
	SELECT (t::date - date '2000-01-01')::numeric * 86400000000
		+ extract(epoch FROM t::time) * 1000000
$$;
CREATE FUNCTION window_micros(t timestamp, size interval, origin timestamp,
	OUT first numeric, OUT next numeric)
LANGUAGE sql IMMUTABLE AS $$
	SELECT CASE WHEN fits THEN f END, CASE WHEN fits THEN f + s END
	FROM (SELECT extract(epoch FROM size) * 1000000 AS s) x,
		LATERAL (SELECT micros(t)
			- mod(mod(micros(t) - micros(origin), s) + s, s) AS f) y,
		LATERAL (SELECT f >= micros('4714-11-24 BC')
			AND f + s < micros('294276-12-31') + 86400000000 AS fits) z
$$;

--
-- One call
--
SELECT * FROM tidemark.tumble(timestamptz '2026-03-01 10:07:31.5+00', '5 minutes');
SELECT * FROM tidemark.tumble(timestamp '2026-03-01 10:07:31.5', '5 minutes');
-- the default origin is a Monday
SELECT * FROM tidemark.tumble(timestamptz '2026-03-01 10:07+00', '7 days');
SELECT * FROM tidemark.tumble(ts => timestamptz '2026-03-01 10:07+00', size => '1 day',
	origin => '2026-01-01 06:00+00');
-- a boundary belongs to the window that it starts
SELECT tidemark.tumble_start(t, '1 hour'), tidemark.tumble_end(t, '1 hour')
FROM (VALUES (timestamptz '2026-03-01 09:59:59.999999+00'), ('2026-03-01 10:00+00'),
	('2026-03-01 10:00:00.000001+00')) v(t);
-- before the origin, windows go on without a double one around it
SELECT t, tidemark.tumble_start(t, '10 minutes', origin => '2026-03-01 10:00')
FROM (VALUES (timestamp '2026-03-01 09:49:59.999999'), ('2026-03-01 09:50'),
	('2026-03-01 09:59:59.999999'), ('2026-03-01 10:00')) v(t);
-- 1 day is 24 hours, in every zone
SET timezone = 'Europe/Berlin';
SELECT * FROM tidemark.tumble('2026-03-29 12:00'::timestamptz, '1 day');
SET timezone = 'UTC';

--
-- No row where there is no window
--
SELECT count(*) FROM (VALUES (NULL::timestamptz), ('infinity'), ('-infinity'),
	('294276-12-31 23:59:30+00'), ('4714-11-24 00:00+00 BC')) v(t),
	tidemark.tumble(t, '1 minute', origin => '2000-01-01 00:00:30+00');
SELECT count(*) FROM (VALUES (NULL::timestamp), ('infinity'), ('-infinity')) v(t),
	tidemark.tumble(t, '1 minute');
SELECT count(*) FROM tidemark.tumble(now(), NULL);
SELECT tidemark.tumble_start(NULL::timestamptz, '1 minute'),
	tidemark.tumble_end('infinity'::timestamp, '1 minute'),
	tidemark.tumble_start('294276-12-31 23:59:59'::timestamp, '1 minute');
-- the first and the last that there are
SELECT * FROM tidemark.tumble('4714-11-24 00:00:30 BC'::timestamp, '1 minute');
SELECT * FROM tidemark.tumble('294276-12-31 23:58:30'::timestamp, '1 minute');

--
-- Errors
--
SELECT * FROM tidemark.tumble(now(), '0');
SELECT * FROM tidemark.tumble(now(), '-1 hour');
SELECT * FROM tidemark.tumble(now(), '1 month');
SELECT * FROM tidemark.tumble(now(), '2147483647 days');
SELECT * FROM tidemark.tumble(now(), '1 hour', origin => 'infinity');
SELECT tidemark.tumble_start(localtimestamp, '1 year');
SELECT tidemark.tumble_end(now(), '1 day -24:00:00');

--
-- Everything against arithmetic
--
CREATE TABLE window_case AS
	SELECT t, s AS size, o AS origin
	FROM (SELECT '-infinity'::timestamp AS t UNION ALL SELECT 'infinity'
		UNION ALL SELECT timestamp '4714-11-24 BC' + i * interval '1 microsecond'
		FROM generate_series(0, 2) i
		UNION ALL SELECT timestamp '294276-12-31 23:59:59.999999' - i * interval '1 microsecond'
		FROM generate_series(0, 2) i
		UNION ALL SELECT timestamp '4714-11-24 BC' + i * interval '1 day' * 2717 + i * interval '11:13:17.123457'
		FROM generate_series(0, 200) i
		UNION ALL SELECT timestamp '1999-12-20' + i * interval '04:59:59.999999' FROM generate_series(0, 200) i
		UNION ALL SELECT timestamp '2000-01-03' + i * interval '1 microsecond' FROM generate_series(-2, 2) i
		UNION ALL SELECT timestamp '294276-12-31' - i * interval '104000 days 10:59:59.5' FROM generate_series(0, 200) i
		) a,
		(VALUES (interval '1 microsecond'), ('7 microseconds'), ('1 second'), ('61 seconds'),
			('1 minute'), ('7 minutes 13.000001 seconds'), ('1 hour'), ('1 day'), ('1 day 01:00'),
			('7 days'), ('100000 days'), ('106000000 days')) b(s),
		(VALUES (timestamp '2000-01-03'), ('4714-11-24 BC'), ('294276-12-31 23:59:59.999999'),
			('1970-01-01 00:00:00.3'), ('2026-02-03 04:05:06')) c(o);
SELECT count(*) FROM window_case;
SELECT count(*) AS wrong, min(t) FROM (
	SELECT t FROM window_case,
		LATERAL window_micros(CASE WHEN isfinite(t) THEN t END, size, origin) w
	WHERE micros(tidemark.tumble_start(t, size, origin)) IS DISTINCT FROM w.first
		OR micros(tidemark.tumble_end(t, size, origin)) IS DISTINCT FROM w.next
	) x;
-- with and without zone alike, rows and columns alike
SELECT count(*) AS wrong FROM (
	(SELECT t, size, origin, tidemark.tumble_start(t, size, origin),
		tidemark.tumble_end(t, size, origin) FROM window_case
	 WHERE tidemark.tumble_start(t, size, origin) IS NOT NULL
	 EXCEPT ALL
	 SELECT t, size, origin, w.window_start AT TIME ZONE 'UTC', w.window_end AT TIME ZONE 'UTC'
	 FROM window_case, tidemark.tumble(t AT TIME ZONE 'UTC', size, origin AT TIME ZONE 'UTC') w)
	UNION ALL
	(SELECT t, size, origin, w.window_start, w.window_end
	 FROM window_case, tidemark.tumble(t, size, origin) w
	 EXCEPT ALL
	 SELECT t, size, origin, tidemark.tumble_start(t, size, origin),
		tidemark.tumble_end(t, size, origin) FROM window_case)
	) x;
-- date_bin means the same windows
SELECT count(*) AS wrong FROM window_case
WHERE t BETWEEN '1000-01-01' AND '3000-01-01' AND size < '106000 days' AND origin BETWEEN '1000-01-01' AND '3000-01-01'
	AND date_bin(size, t, origin) IS DISTINCT FROM tidemark.tumble_start(t, size, origin);

--
-- Inlined: the plan calls no set-returning function
--
CREATE TABLE window_event (at timestamptz, local timestamp);
CREATE FUNCTION calls_tumble(query text) RETURNS bool
LANGUAGE plpgsql AS $$
DECLARE
	line text;
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (VERBOSE, COSTS OFF) ' || query
	LOOP
		IF line LIKE '%Function Scan%' THEN
			RETURN true;
		END IF;
	END LOOP;
	RETURN false;
END $$;
SELECT calls_tumble(q), q FROM (VALUES
	('SELECT window_start, count(*) FROM window_event, tidemark.tumble(at, ''1 minute'') GROUP BY 1'),
	('SELECT window_end, count(*) FROM window_event, tidemark.tumble(local, size => ''1 minute'') GROUP BY 1'),
	('SELECT w.*, count(*) FROM window_event, tidemark.tumble(at AT TIME ZONE ''Europe/Berlin'', ''1 hour'', ''2020-01-01'') w GROUP BY 1, 2')
	) v(q);
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
INSERT INTO window_event SELECT t, t FROM generate_series(timestamp '2026-01-01', '2026-01-02', '17 seconds') t;
SELECT window_start, count(*) FROM window_event, tidemark.tumble(at, '6 hours') GROUP BY 1 ORDER BY 1;

--
-- What can be the window of a continuous view, and what cannot
--
RESET parallel_setup_cost;
RESET parallel_tuple_cost;
RESET min_parallel_table_scan_size;
SET client_min_messages = warning;
SELECT tidemark.create_stream('window_event', 'at');
CREATE FUNCTION try_window(expr text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
	is_call bool := expr LIKE 'tidemark.tumble(%';
BEGIN
	PERFORM tidemark.create_continuous_view('window_try',
		format('SELECT %s, count(*) FROM window_event%s GROUP BY 1',
			CASE WHEN is_call THEN 'window_start' ELSE expr END,
			CASE WHEN is_call THEN ', ' || expr ELSE '' END),
		trigger => 'manual');
	SELECT line INTO message FROM tidemark.explain('window_try') line
	WHERE line ~* '^window';
	DROP VIEW window_try;
	RETURN message;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n  ', SQLSTATE || ': ' || message,
					 nullif(detail, ''), nullif(hint, ''));
END $$;
\pset format unaligned
\pset tuples_only on
SELECT format(E'%s\n  %s', expr, try_window(expr)) FROM unnest(ARRAY[
	$$tidemark.tumble(at, '5 minutes')$$,
	$$tidemark.tumble(size => '1 day', ts => at)$$,
	$$tidemark.tumble(at, make_interval(secs => 1.5), '2020-01-01 00:00:00.25+00')$$,
	$$tidemark.tumble(at AT TIME ZONE 'Europe/Berlin', '90 minutes')$$,
	$$tidemark.tumble_start(at, '7 days')$$,
	$$date_bin('17 minutes', at, '2000-01-01 00:00+00')$$,
	$$date_trunc('QTR', at, 'EST')$$,
	$$date_trunc('hours', at)$$,
	$$date_trunc('week', at AT TIME ZONE interval '-03:30')$$,
	$$date_trunc('day', at, 'MSK')$$,
	$$at$$,
	$$at AT TIME ZONE 'Asia/Tokyo'$$]) expr;
SELECT format(E'%s\n  %s', expr, try_window(expr)) FROM unnest(ARRAY[
	-- size
	$$tidemark.tumble(at, '0')$$,
	$$tidemark.tumble(at, '-1 minute')$$,
	$$tidemark.tumble(at, '1 month')$$,
	$$tidemark.tumble(at, NULL)$$,
	$$tidemark.tumble(at, local - at AT TIME ZONE 'UTC')$$,
	$$date_bin('1 year', at, '2000-01-01 00:00+00')$$,
	$$date_bin('0', at, '2000-01-01 00:00+00')$$,
	-- origin
	$$tidemark.tumble(at, '1 minute', 'infinity')$$,
	$$tidemark.tumble(at, '1 minute', now())$$,
	$$date_bin('1 hour', at, NULL)$$,
	-- unit and zone
	$$date_trunc('fortnight', at)$$,
	$$date_trunc('dow', at)$$,
	$$date_trunc('day', at, 'Mars/Olympus')$$,
	$$date_trunc('day', at, to_char(local, 'TZ'))$$,
	$$date_trunc('hour', at AT TIME ZONE 'MSK')$$,
	$$date_trunc('hour', at AT TIME ZONE interval '30 hours')$$,
	$$date_trunc('hour', at AT TIME ZONE to_char(local, 'TZ'))$$,
	-- not the event time
	$$tidemark.tumble(local, '1 minute')$$,
	$$tidemark.tumble(at + interval '1 hour', '1 minute')$$]) expr;

DROP FUNCTION try_window;
DROP TABLE window_case, window_event;
DROP FUNCTION calls_tumble, window_micros, micros;
