-- Windows of the calendar: what batches make of date_trunc, date_bin and AT TIME
-- ZONE, and when such windows are final, around the hours that a clock shows
-- twice or never.  All oracles are plain SQL.
\set VERBOSITY default
SET client_min_messages = warning;
SET timezone = 'UTC';
SET datestyle = 'ISO, YMD';
CREATE SCHEMA calendar_test;
SET search_path = calendar_test;

--
-- Assignment: as SQL has it, from the first time there is to the last
--
CREATE TABLE moment (at timestamptz, local timestamp);
INSERT INTO moment SELECT t AT TIME ZONE 'UTC', t FROM (
	SELECT timestamp '1650-01-01' + i * interval '97 days 11:13:17.123457' FROM generate_series(0, 1500) i
	UNION ALL SELECT timestamp '4713-02-01 BC' + i * interval '11537 days 01:13:17.123457' FROM generate_series(0, 250) i
	UNION ALL SELECT timestamp '290000-01-01' - i * interval '210000 days 00:00:00.000001' FROM generate_series(0, 200) i
	UNION ALL SELECT '4714-11-24 BC' UNION ALL SELECT '4714-11-24 18:00 BC'
	UNION ALL SELECT '294276-12-31 23:59:59.999999' UNION ALL SELECT '294276-12-28 12:00'
	UNION ALL SELECT 'infinity' UNION ALL SELECT '-infinity' UNION ALL SELECT NULL) v(t);
-- all half hours around jumps of the clock
INSERT INTO moment SELECT t AT TIME ZONE 'UTC', t FROM unnest(ARRAY[
	'2024-03-31 01:00', '2024-10-27 01:00', '2007-03-11 03:31', '2007-11-04 02:31',
	'2024-03-10 05:00', '2024-11-03 05:00', '2024-04-06 15:00', '2024-10-05 15:30',
	'2011-12-30 10:00', '1867-10-18 23:58:53', '2018-05-04 15:00', '1972-01-07 00:44:30',
	'2500-10-31 01:00']::timestamp[]) jump,
	generate_series(jump - interval '30 hours', jump + interval '30 hours', '30 minutes') t;

CREATE TABLE kind (name text PRIMARY KEY, expr text, next text);
-- next: what a window is followed by, NULL when that cannot be represented
INSERT INTO kind
SELECT format('%s_%s', unit, row_number() OVER (PARTITION BY unit ORDER BY zone)),
	format('date_trunc(%L, at, %L)', unit, zone),
	CASE WHEN unit IN ('hour', 'minute', 'milliseconds', 'microseconds')
		THEN format('w + interval ''1 %s''', unit)
		ELSE format('(date_trunc(%L, w AT TIME ZONE %L) + interval %L) AT TIME ZONE %2$L', unit, zone,
			CASE unit WHEN 'quarter' THEN '3 months' WHEN 'decade' THEN '10 years'
				WHEN 'century' THEN '100 years' WHEN 'millennium' THEN '1000 years' ELSE '1 ' || unit END) END
FROM unnest(ARRAY['microseconds', 'milliseconds', 'minute', 'hour', 'day', 'week', 'month', 'quarter', 'year',
		'decade', 'century', 'millennium']) unit,
	unnest(ARRAY['Europe/Berlin', 'America/St_Johns', 'America/Havana', 'Australia/Lord_Howe', 'Pacific/Apia', 'America/Sitka']) zone
WHERE unit IN ('hour', 'day') OR zone = 'America/St_Johns';
INSERT INTO kind VALUES
	('plain_hour', 'date_trunc(''HOURS'', local)', 'w + interval ''1 hour'''),
	('plain_week', 'date_trunc(''week'', local)', 'w + interval ''7 days'''),
	('plain_decade', 'date_trunc(''decade'', local)', 'w + interval ''10 years'''),
	('plain_century', 'date_trunc(''century'', local)', 'w + interval ''100 years'''),
	('wall_hour', 'date_trunc(''hour'', at AT TIME ZONE ''America/St_Johns'')', 'w + interval ''1 hour'''),
	('wall_day', 'date_trunc(''day'', at AT TIME ZONE ''Pacific/Apia'')', 'w + interval ''1 day'''),
	('wall_bin', 'date_bin(''90 minutes'', at AT TIME ZONE ''Europe/Berlin'', ''2001-02-03 00:10'')',
		'w + interval ''90 minutes'''),
	('wall_fixed', 'date_trunc(''hour'', at AT TIME ZONE interval ''05:45'')', 'w + interval ''1 hour'''),
	('utc_hour', 'date_trunc(''hour'', local AT TIME ZONE ''Australia/Lord_Howe'', ''UTC'')', 'w + interval ''1 hour'''),
	('utc_bin', 'date_bin(''1 day'', local AT TIME ZONE ''America/St_Johns'', ''2001-02-03'')', 'w + interval ''1 day'''),
	('bin', 'date_bin(''17 minutes'', at, ''2000-01-01 00:05+00'')', 'w + interval ''17 minutes''');

-- two streams of the same rows: one with a zone in its event time, one without
CREATE TABLE moment_local AS TABLE moment;
SELECT tidemark.create_stream('moment', 'at', max_future => 'infinity');
SELECT tidemark.create_stream('moment_local', 'local', max_future => 'infinity', timezone => 'UTC');
CREATE FUNCTION table_of(expr text) RETURNS text LANGUAGE sql AS
$$ SELECT CASE WHEN expr LIKE '%local%' THEN 'moment_local' ELSE 'moment' END $$;
SELECT count(tidemark.create_continuous_view(name,
	format('SELECT %s AS w, count(*) AS n, min(at) AS low FROM %s GROUP BY 1', expr, table_of(expr)),
	trigger => 'manual')) FROM kind;
-- a definition without zone means the creator's zone, whoever runs a batch
SET timezone = 'America/Havana';
INSERT INTO kind VALUES ('session_day', 'date_trunc(''day'', at)',
	'(date_trunc(''day'', w AT TIME ZONE ''America/Havana'') + interval ''1 day'') AT TIME ZONE ''America/Havana''');
SELECT tidemark.create_continuous_view(name,
	format('SELECT %s AS w, count(*) AS n, min(at) AS low FROM moment GROUP BY 1', expr),
	trigger => 'manual') FROM kind WHERE name = 'session_day';
SET timezone = 'UTC';
UPDATE kind SET expr = 'date_trunc(''day'', at, ''America/Havana'')' WHERE name = 'session_day';

CREATE FUNCTION oracle_row(query text, at timestamptz, local timestamp, OUT w text, OUT has_window bool)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE query INTO w, has_window USING at, local;
EXCEPTION WHEN datetime_field_overflow THEN
	has_window := false;
END $$;
CREATE TABLE oracle AS
	SELECT name, r.w, count(*) AS n, min(at) AS low
	FROM kind, moment,
		LATERAL oracle_row(format('SELECT w, isfinite(w) AND (%s) IS NOT NULL
			FROM (SELECT %s AS w FROM (SELECT $1 AS at, $2 AS local) m) x', next, expr), at, local) r
	WHERE r.has_window GROUP BY 1, 2;

SELECT format('CALL tidemark.catch_up(%L)', name) FROM kind ORDER BY name \gexec
CREATE TABLE held (name text, w text, n int8, low timestamptz);
SELECT format('INSERT INTO held SELECT %L, w, n, low FROM %I', name, name) FROM kind ORDER BY name \gexec
-- (figures that depend on the server's time zone data are not shown)
SELECT count(*) > 50000 AS enough, count(DISTINCT name) FROM held;
(TABLE oracle EXCEPT ALL TABLE held) UNION ALL (TABLE held EXCEPT ALL TABLE oracle)
ORDER BY 1, 2 LIMIT 20;
-- rows without a window have their own counter
SELECT name FROM kind, tidemark.progress p
WHERE p.view = name::regclass
	AND (rows_in <> (SELECT count(*) FROM moment) OR rows_late > 0
		OR rows_null_time <> (SELECT count(*) FROM moment) - (SELECT sum(n) FROM oracle o WHERE o.name = kind.name)
		OR rows_used + rows_null_time <> rows_in);
DROP TABLE moment, moment_local CASCADE;

--
-- Finality: a clock walks over the jumps, a batch a step.  With every row comes
-- a second one that is 90 minutes older, and a third that is 26 hours older.
--
CREATE TABLE step (no int PRIMARY KEY, w timestamptz, before timestamptz);
INSERT INTO step
SELECT row_number() OVER (ORDER BY t), t, lag(t, 1, '-infinity') OVER (ORDER BY t) FROM (
	SELECT DISTINCT jump + o FROM unnest(ARRAY[
		'2007-03-11 03:31+00', '2007-11-04 02:31+00',	-- St_Johns
		'2011-12-30 10:00+00',	-- Apia leaves out a day
		'2024-03-10 05:00+00', '2024-03-31 01:00+00',	-- Havana, Berlin
		'2024-04-06 15:00+00', '2024-10-05 15:30+00',	-- Lord_Howe, half an hour
		'2024-10-27 01:00+00', '2024-11-03 05:00+00']::timestamptz[]) jump,
		unnest(ARRAY['-25 hours', '-90 minutes', '-1 hour', '-31 minutes', '-30 minutes', '-1 minute', '0',
			'1 minute', '30 minutes', '59 minutes', '1 hour', '90 minutes', '2 hours',
			'13:29', '24 hours', '26 hours']::interval[]) o) v(t);
CREATE TABLE reading (at timestamptz, before timestamptz);
SELECT tidemark.create_stream('reading', 'at', max_future => 'infinity');

-- rule: whether a window is final at a watermark: it ends at or before, or no
-- later instant falls into it
CREATE TABLE clock (name text PRIMARY KEY, expr text, ends text);
INSERT INTO clock
SELECT 'day_' || n, format('date_trunc(''day'', at, %L)', zone),
	format('(date_trunc(''day'', w AT TIME ZONE %L) + interval ''1 day'') AT TIME ZONE %1$L', zone)
FROM unnest(ARRAY['Europe/Berlin', 'America/St_Johns', 'America/Havana', 'Pacific/Apia'])
	WITH ORDINALITY v(zone, n)
UNION ALL SELECT 'hour_' || n, format('date_trunc(''hour'', at, %L)', zone), 'w + interval ''1 hour'''
FROM unnest(ARRAY['Australia/Lord_Howe', 'America/St_Johns']) WITH ORDINALITY v(zone, n)
UNION ALL SELECT 'wall_' || n, format('date_trunc(''hour'', at AT TIME ZONE %L)', zone), NULL
FROM unnest(ARRAY['Europe/Berlin', 'America/St_Johns', 'Pacific/Apia']) WITH ORDINALITY v(zone, n)
UNION ALL SELECT 'wall_day', 'date_trunc(''day'', at AT TIME ZONE ''America/St_Johns'')', NULL
UNION ALL SELECT 'wall_bin', 'date_bin(''20 minutes'', at AT TIME ZONE ''Australia/Lord_Howe'', ''2000-01-01'')', NULL;
SELECT count(tidemark.create_continuous_view(name,
	format('SELECT %s AS w, count(*) AS n FROM reading GROUP BY 1', expr),
	trigger => 'manual', emit => 'final')) FROM clock;

CREATE TABLE seen (name text, no int, w text, n int8);
CREATE PROCEDURE play() LANGUAGE plpgsql AS $$
DECLARE
	s step;
	c clock;
BEGIN
	FOR s IN SELECT * FROM step ORDER BY no
	LOOP
		INSERT INTO reading VALUES (s.w, s.before), (s.w - interval '90 minutes', s.before),
			(s.w - interval '26 hours', s.before);
		COMMIT;
		FOR c IN SELECT * FROM clock
		LOOP
			CALL tidemark.catch_up(c.name::regclass);
			EXECUTE format('INSERT INTO seen SELECT %L, %s, w, n FROM %I', c.name, s.no, c.name);
		END LOOP;
	END LOOP;
END $$;
CALL play();

-- the oracle: which windows are final after each step, and what they hold
CREATE FUNCTION walk(clock) RETURNS TABLE (no int, w text, n int8)
LANGUAGE plpgsql AS $$
BEGIN
	-- assigned rows
	EXECUTE format('CREATE TEMP TABLE assigned AS SELECT at, before, %s AS w FROM reading', $1.expr);
	IF $1.ends IS NOT NULL THEN
		EXECUTE format('CREATE TEMP TABLE ended AS SELECT w, %s AS final_at
			FROM (SELECT DISTINCT w FROM assigned) x', $1.ends);
	ELSE
		-- the instant after the last one, minute by minute, in the window or an earlier one
		EXECUTE format('CREATE TEMP TABLE minute AS SELECT at + interval ''1 minute'' AS after, %s AS w
			FROM (SELECT DISTINCT m AS at FROM step s,
				generate_series(date_trunc(''minute'', s.w) - interval ''28 hours'', s.w + interval ''28 hours'', ''1 minute'') m) x',
			$1.expr);
		CREATE TEMP TABLE ended AS
			SELECT a.w, max(m.after) AS final_at FROM (SELECT DISTINCT a.w FROM assigned a) a
				JOIN minute m ON m.w = a.w GROUP BY 1;
		DROP TABLE minute;
	END IF;
	RETURN QUERY
		SELECT s.no, a.w::text, count(*)
		FROM step s JOIN assigned a ON a.before < s.w
			JOIN ended e ON e.w = a.w
		WHERE e.final_at <= s.w AND NOT e.final_at <= a.before GROUP BY 1, 2;
	DROP TABLE assigned, ended;
END $$;
CREATE TABLE walked AS SELECT name, o.* FROM clock c, walk(c) o;
SELECT count(*) > 20000 AS enough, count(DISTINCT name) FROM seen;
SELECT * FROM (
	SELECT 'missing', * FROM (TABLE walked EXCEPT ALL TABLE seen) m
	UNION ALL SELECT 'wrong', * FROM (TABLE seen EXCEPT ALL TABLE walked) w) d
ORDER BY 2, 3, 4 LIMIT 20;
-- final windows never change, and never go
SELECT count(*) AS changed FROM seen a JOIN seen b
	ON b.name = a.name AND b.w = a.w AND b.no > a.no AND b.n <> a.n;
SELECT count(*) AS gone FROM seen a
WHERE a.no < (SELECT max(no) FROM step) AND NOT EXISTS (
	SELECT FROM seen b WHERE b.name = a.name AND b.w = a.w AND b.no = a.no + 1);
SELECT name FROM clock, tidemark.progress p
WHERE p.view = name::regclass AND rows_used + rows_late <> (SELECT count(*) FROM reading);

DROP SCHEMA calendar_test CASCADE;
