--
-- Keys of every kind: groups compare as GROUP BY compares, over several
-- batches, and whatever is flushed between.
--
CREATE SCHEMA keys_test;
SET search_path = keys_test, public;
SET timezone = 'UTC';
SET client_min_messages = warning;
SET tidemark.allow_unconsumed_drop = on;

CREATE FUNCTION compare(a regclass, b regclass,
	OUT only_a bigint, OUT only_b bigint, OUT rows bigint)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT (SELECT count(*) FROM (TABLE %1$s EXCEPT ALL TABLE %2$s) d),
		(SELECT count(*) FROM (TABLE %2$s EXCEPT ALL TABLE %1$s) d),
		(SELECT count(*) FROM %1$s)', a, b) INTO only_a, only_b, rows;
END $$;

CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE DOMAIN small AS int CHECK (VALUE < 1000);
CREATE DOMAIN word AS text NOT NULL DEFAULT 'x';
CREATE TYPE span AS RANGE (subtype = float8);
CREATE COLLATION plain FROM "C";
-- a stand-in where the server has no ICU
DO $$ BEGIN
	CREATE COLLATION ignoring_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
EXCEPTION WHEN OTHERS THEN
	CREATE COLLATION ignoring_case FROM "C";
END $$;

CREATE TABLE event (i int, at timestamptz);
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '1 day');

-- a key of each type, of the number i; each has NULLs
CREATE TABLE kind (name text, key text);
INSERT INTO kind VALUES
	('boolean', 'nullif(i % 3, 2) > 0'),
	('smallint', 'nullif(i % 5, 4)::smallint'),
	('bigint', 'nullif(i % 5, 4) * 10000000000'),
	('numeric_scale', 'CASE i % 4 WHEN 0 THEN 1.0 WHEN 1 THEN 1.00 WHEN 2 THEN 1 END'),
	('numeric_nan', 'CASE i % 5 WHEN 0 THEN ''NaN'' WHEN 1 THEN ''Infinity'' WHEN 2 THEN 0.0 WHEN 3 THEN -0.00 END::numeric'),
	('float_zero', 'CASE i % 5 WHEN 0 THEN ''-0'' WHEN 1 THEN ''0'' WHEN 2 THEN ''NaN'' WHEN 3 THEN ''-NaN'' END::float8'),
	('real', '(nullif(i % 5, 4) / 7.0)::real'),
	('text', 'CASE WHEN i % 5 > 0 THEN repeat(''é'', i % 5) END'),
	('text_empty', 'CASE i % 3 WHEN 0 THEN '''' WHEN 1 THEN '' '' END'),
	('bpchar', 'CASE i % 4 WHEN 0 THEN ''a'' WHEN 1 THEN ''a  '' WHEN 2 THEN ''b'' END::char(5)'),
	('varchar', 'CASE i % 4 WHEN 0 THEN ''a'' WHEN 1 THEN ''a  '' WHEN 2 THEN ''b'' END::varchar(5)'),
	('name', 'CASE WHEN i % 4 > 0 THEN ''n'' || i % 4 END::name'),
	('"char"', 'CASE WHEN i % 4 > 0 THEN chr(96 + i % 4) END::"char"'),
	('long_text', 'CASE WHEN i % 4 > 0 THEN repeat(md5((i % 4)::text), 3200) END'),
	('long_plain', 'CASE WHEN i % 4 > 0 THEN (SELECT string_agg(md5((i % 4 + n)::text), '''') FROM generate_series(1, 400) n) END'),
	('bytea', 'CASE WHEN i % 4 > 0 THEN decode(''00ff0'' || i % 4, ''hex'') END'),
	('uuid', 'CASE WHEN i % 4 > 0 THEN md5((i % 4)::text)::uuid END'),
	('date', 'CASE WHEN i % 4 > 0 THEN date ''2024-01-01'' + i % 4 END'),
	('infinity', 'CASE i % 4 WHEN 0 THEN ''infinity'' WHEN 1 THEN ''-infinity'' WHEN 2 THEN ''2024-01-01'' END::timestamptz'),
	('interval', 'CASE i % 5 WHEN 0 THEN ''1 day'' WHEN 1 THEN ''24 hours'' WHEN 2 THEN ''1 month'' WHEN 3 THEN ''30 days'' END::interval'),
	('time', 'time ''00:00'' + make_interval(mins => nullif(i % 4, 3))'),
	('timetz', 'CASE i % 3 WHEN 0 THEN ''12:00+02'' WHEN 1 THEN ''13:00+03'' END::timetz'),
	('money', 'nullif(i % 4, 3)::money'),
	('bit', 'nullif(i % 4, 3)::bit(5)'),
	('varbit', 'CASE i % 4 WHEN 0 THEN B''0'' WHEN 1 THEN B''00'' WHEN 2 THEN B''1'' END::varbit'),
	('inet', 'CASE i % 4 WHEN 0 THEN ''10.0.0.1/8'' WHEN 1 THEN ''10.0.0.1'' WHEN 2 THEN ''::1'' END::inet'),
	('macaddr', 'CASE WHEN i % 4 > 0 THEN format(''08:00:2b:01:02:0%s'', i % 4) END::macaddr'),
	('array', 'CASE WHEN i % 5 > 0 THEN ARRAY[i % 5, NULL] END'),
	('array_2', 'CASE i % 4 WHEN 0 THEN ''{}'' WHEN 1 THEN ''{{1,2},{3,4}}'' WHEN 2 THEN ''[0:1]={1,2}'' END::int[]'),
	('array_numeric', 'CASE i % 3 WHEN 0 THEN ''{1.0}'' WHEN 1 THEN ''{1.00}'' END::numeric[]'),
	('composite', 'CASE WHEN i % 5 > 0 THEN ROW(nullif(i % 5, 2), ''t'')::pair END'),
	('enum', '(enum_range(NULL::mood))[i % 4]'),
	('domain', 'nullif(i % 4, 3)::small'),
	('domain_text', '(''w'' || i % 4)::word'),
	('range', 'CASE i % 4 WHEN 0 THEN ''[1,4)'' WHEN 1 THEN ''[1,3]'' WHEN 2 THEN ''empty'' END::int4range'),
	('own_range', 'CASE i % 4 WHEN 0 THEN ''[1,4)'' WHEN 1 THEN ''[1,4]'' WHEN 2 THEN ''empty'' END::span'),
	('multirange', 'CASE i % 4 WHEN 0 THEN ''{[1,4)}'' WHEN 1 THEN ''{[1,2),[2,4)}'' WHEN 2 THEN ''{}'' END::int4multirange'),
	('jsonb', 'CASE i % 4 WHEN 0 THEN ''{"a": 1.0, "b": 2}'' WHEN 1 THEN ''{"b": 2, "a": 1}'' WHEN 2 THEN ''null'' END::jsonb'),
	('tsvector', 'CASE WHEN i % 4 > 0 THEN array_to_tsvector(ARRAY[''w'' || i % 4]) END'),
	('tid', 'CASE WHEN i % 4 > 0 THEN format(''(%s,1)'', i % 4) END::tid'),
	('lsn', 'CASE WHEN i % 4 > 0 THEN ''0/0''::pg_lsn + i % 4 END'),
	('xid8', 'CASE WHEN i % 4 > 0 THEN (i % 4)::text END::xid8'),
	('oid', 'nullif(i % 4, 3)::oid'),
	('ignoring_case', 'CASE i % 4 WHEN 0 THEN ''a'' WHEN 1 THEN ''A'' WHEN 2 THEN ''b'' END COLLATE ignoring_case'),
	('collated', 'CASE i % 4 WHEN 0 THEN ''a'' WHEN 1 THEN ''A'' WHEN 2 THEN ''b'' END COLLATE plain'),
	('constant', 'NULL::text');

CREATE PROCEDURE each_kind(template text) LANGUAGE plpgsql AS $$
DECLARE
	k kind;
BEGIN
	FOR k IN TABLE kind LOOP
		BEGIN
			EXECUTE replace(replace(template, '@key', k.key), '@name', k.name);
		EXCEPTION WHEN OTHERS THEN
			RAISE WARNING '%: % (%)', k.name, SQLERRM, SQLSTATE;
		END;
	END LOOP;
END $$;
UPDATE kind SET name = 'key_' || translate(name, '"', '');
CALL each_kind($$ SELECT tidemark.create_continuous_view('@name', $q$
	SELECT @key AS k, count(*) AS n, sum(i) AS total, window_start
	FROM event, tidemark.tumble(at, '1 hour') GROUP BY 1, window_start $q$, trigger => 'manual') $$);
INSERT INTO event SELECT i, timestamptz '2024-05-01' + i * interval '10 minutes' FROM generate_series(1, 40) i;
CALL each_kind('CALL tidemark.catch_up(''@name'')');
INSERT INTO event SELECT i, timestamptz '2024-05-01' + i * interval '7 minutes' FROM generate_series(21, 80) i;
SET tidemark.batch_memory = '64kB';
CALL each_kind('CALL tidemark.catch_up(''@name'')');
RESET tidemark.batch_memory;
INSERT INTO event SELECT i, timestamptz '2024-05-01' + i * interval '1 minute' FROM generate_series(1, 9) i;
CALL each_kind('CALL tidemark.catch_up(''@name'')');
CALL each_kind($$ CREATE TABLE "@name_oracle" AS
	SELECT @key AS k, count(*) AS n, sum(i) AS total, to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600) AS window_start
	FROM event GROUP BY 1, 4 $$);
SELECT count(*) FROM event;
TRUNCATE event;
CREATE TABLE result (name text, only_view bigint, only_oracle bigint, rows bigint, types_differ bool);
CALL each_kind($$ INSERT INTO result SELECT '@name', c.*,
	(SELECT format_type(atttypid, atttypmod) || attcollation FROM pg_attribute WHERE attrelid = '@name'::regclass AND attname = 'k')
	<> (SELECT format_type(atttypid, atttypmod) || attcollation FROM pg_attribute WHERE attrelid = '@name_oracle'::regclass AND attname = 'k')
	FROM compare('@name', '@name_oracle') c $$);
SELECT * FROM result WHERE name <> 'key_ignoring_case' ORDER BY name COLLATE "C";
SELECT only_view, only_oracle, rows > 0 AS rows FROM result WHERE name = 'key_ignoring_case';
-- one of the values that are equal is shown; the first
SELECT DISTINCT k FROM key_numeric_scale ORDER BY k;

-- all keys at once, no window
CREATE TABLE wide (i int, at timestamptz);
SELECT tidemark.create_stream('wide', event_time => 'at');
CREATE FUNCTION wide_query() RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT %s, count(*) AS n FROM wide GROUP BY %s',
		string_agg(key || ' AS "' || name || '"', ', ' ORDER BY name), string_agg('"' || name || '"', ', ' ORDER BY name))
	FROM kind WHERE name NOT LIKE '%long%' AND name <> 'key_domain_text'
$$;
SELECT tidemark.create_continuous_view('wide_view', wide_query(), trigger => 'manual');
INSERT INTO wide SELECT i, timestamptz '2024-05-01' FROM generate_series(1, 400) i;
CALL tidemark.catch_up('wide_view');
INSERT INTO wide SELECT i, timestamptz '2024-05-01' FROM generate_series(300, 700) i;
INSERT INTO wide VALUES (NULL, '2024-05-01');
CALL tidemark.catch_up('wide_view');
INSERT INTO wide VALUES (NULL, '2024-05-01');
CALL tidemark.catch_up('wide_view');
DO $$ BEGIN EXECUTE 'CREATE TABLE wide_oracle AS ' || wide_query(); END $$;
TRUNCATE wide;
SELECT * FROM compare('wide_view', 'wide_oracle');
SELECT sum(n), max(n) FROM wide_view;

-- columns, not expressions, and values larger than a page
CREATE TABLE large (id int, key text, plain text, value text, at timestamptz);
ALTER TABLE large ALTER plain SET STORAGE EXTERNAL;
SELECT tidemark.create_stream('large', event_time => 'at');
SELECT tidemark.create_continuous_view('large_view', $$
	SELECT key, plain, count(*) AS n, max(value) AS value FROM large GROUP BY key, plain $$, trigger => 'manual');
INSERT INTO large SELECT i, repeat(i % 3 || 'x', 50000), repeat(i % 2 || 'y', 50000), repeat(chr(97 + i), 100000), '2024-05-01'
FROM generate_series(1, 12) i;
CALL tidemark.catch_up('large_view');
INSERT INTO large SELECT i, repeat(i % 3 || 'x', 50000), repeat(i % 2 || 'y', 50000), repeat(chr(97 + i), 100000), '2024-05-01'
FROM generate_series(13, 20) i;
SET tidemark.batch_memory = '64kB';
CALL tidemark.catch_up('large_view');
RESET tidemark.batch_memory;
CREATE TABLE large_oracle AS SELECT key, plain, count(*), max(value) FROM large GROUP BY key, plain;
TRUNCATE large;
SELECT * FROM compare('large_view', 'large_oracle');
SELECT left(key, 2), length(key), left(plain, 2), length(plain), n, left(value, 1), length(value) FROM large_view ORDER BY 1, 3;

--
-- Many groups: flushed in the middle of a batch, and coming back
--
CREATE TABLE many (i int, at timestamptz);
SELECT tidemark.create_stream('many', event_time => 'at', watermark_delay => '1 day');
SELECT tidemark.create_continuous_view('many_view', $$
	SELECT window_start, i % 3000 AS k, (i % 3000)::text AS t, count(*) AS n, sum(i) AS total, avg(i::numeric) AS mean,
		min(at) AS first
	FROM many, tidemark.tumble(at, '1 hour') GROUP BY window_start, i % 3000, (i % 3000)::text
$$, trigger => 'manual');
SET tidemark.batch_memory = '64kB';
INSERT INTO many SELECT i, timestamptz '2024-05-01' + i * interval '0.2 s' FROM generate_series(1, 10000) i;
CALL tidemark.catch_up('many_view');
SELECT last_flushes > 10 AS flushed, rows_used, state_rows FROM tidemark.progress WHERE view = 'many_view'::regclass;
INSERT INTO many SELECT i, timestamptz '2024-05-01' + i * interval '0.3 s' FROM generate_series(5000, 15000) i;
CALL tidemark.catch_up('many_view');
SELECT last_flushes > 10 AS flushed, rows_used, state_rows, last_groups_new > 1000 AND last_groups_updated > last_groups_new AS both
FROM tidemark.progress WHERE view = 'many_view'::regclass;
-- an error in the middle, after flushes
SELECT tidemark.create_continuous_view('many_fragile', $$
	SELECT i % 3000 AS k, sum(1000 / (i - 9000)) AS n FROM many GROUP BY 1 $$, trigger => 'manual');
\set VERBOSITY terse
CALL tidemark.catch_up('many_fragile');
SELECT count(*) FROM many_fragile;
RESET tidemark.batch_memory;
INSERT INTO many SELECT i, timestamptz '2024-05-01' + i * interval '0.1 s' FROM generate_series(1, 100) i;
CALL tidemark.catch_up('many_view');
CREATE TABLE many_oracle AS
	SELECT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600), i % 3000, (i % 3000)::text, count(*), sum(i),
		avg(i::numeric), min(at)
	FROM many GROUP BY 1, 2, 3;
TRUNCATE many;
SELECT * FROM compare('many_view', 'many_oracle');
SELECT state_rows = (SELECT count(*) FROM many_view) AS right FROM tidemark.progress WHERE view = 'many_view'::regclass;
-- groups whose hashes are equal: that of a bigint is its halves combined
CREATE TABLE colliding (k bigint, at timestamptz);
SELECT tidemark.create_stream('colliding', event_time => 'at');
SELECT tidemark.create_continuous_view('colliding_view', 'SELECT k, count(*) AS n FROM colliding GROUP BY k', trigger => 'manual');
INSERT INTO colliding SELECT i % 3 * 4294967297, '2024-05-01' FROM generate_series(1, 30) i;
CALL tidemark.catch_up('colliding_view');
INSERT INTO colliding SELECT i % 4 * 4294967297, '2024-05-01' FROM generate_series(1, 30) i;
CALL tidemark.catch_up('colliding_view');
SELECT k, hashint8(k) = hashint8(0) AS collides, n FROM colliding_view ORDER BY k;

DROP SCHEMA keys_test CASCADE;
