--
-- Aggregates: every built-in one that can be maintained, and users' own, in
-- several batches with flushes between them, against the query itself.
--
CREATE SCHEMA aggregates_test;
SET search_path = aggregates_test;
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
CREATE TABLE event (k int, i int, at timestamptz);
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '1 day');

-- a value of each type that depends on i, now and then NULL
CREATE TABLE sample (type regtype, expression text);
INSERT INTO sample VALUES
	('"any"', 'nullif(i % 5, 3)'),
	('smallint', '(nullif(i % 6, 4) * 7 - 10)::smallint'),
	('int', 'nullif(i % 101, 50) * 1001 - 7000'),
	('bigint', 'nullif(i % 101, 50) * 1000000000001 - 70000000'),
	('numeric', 'nullif(i % 101, 50) / 8.0 - 3.125'),
	('real', '(nullif(i % 101, 50) / 8.0 - 3.125)::real'),
	('double precision', '(nullif(i % 103, 50) / 8.0 - 3.125)::double precision'),
	('money', '(nullif(i % 101, 50) / 4.0)::numeric::money'),
	('interval', 'make_interval(months => i % 3, days => nullif(i % 7, 5), secs => i)'),
	('oid', 'nullif(i % 101, 50)::oid'),
	('date', 'date ''2024-01-01'' + nullif(i % 101, 50)'),
	('time', 'time ''00:00'' + make_interval(mins => nullif(i % 101, 50) * 13)'),
	('timetz', 'timetz ''00:00+03'' + make_interval(mins => nullif(i % 101, 50) * 13)'),
	('timestamp', 'timestamp ''2024-01-01'' + make_interval(mins => nullif(i % 101, 50) * 13)'),
	('timestamptz', 'at'),
	('text', 'CASE WHEN i % 9 > 0 THEN repeat(chr(97 + i * 7 % 26), 1 + i % 5) END'),
	('bpchar', 'CASE WHEN i % 9 > 0 THEN repeat(chr(97 + i * 7 % 26), 1 + i % 5) END::char(6)'),
	('bytea', 'decode(lpad(to_hex(nullif(i % 101, 50)), 4, ''0''), ''hex'')'),
	('anyarray', 'ARRAY[i % 7, nullif(i % 11, 3)]'),
	('anyenum', '(enum_range(NULL::mood))[i % 4]'),
	('anyelement', 'nullif(i % 101, 50) * 3'),
	('anynonarray', 'nullif(i % 101, 50) * 3'),
	('record', 'ROW(i % 7, nullif(i % 101, 50))::pair'),
	('anyrange', 'int4range(i % 3, 100 - i % 7)'),
	('anymultirange', 'int4multirange(int4range(i % 3, 40 - i % 7), int4range(50, 100 - i % 9))'),
	('inet', 'inet ''10.0.0.0'' + nullif(i % 101, 50)'),
	('tid', 'format(''(%s,%s)'', i % 13, 1 + i % 3)::tid'),
	('pg_lsn', '''0/0''::pg_lsn + (i % 101)::numeric'),
	('xid8', '(i % 101)::text::xid8'),
	('boolean', 'nullif(i % 3, 2) > 0'),
	('bit', '(i % 64)::bit(6)');

-- calls of all aggregates with a combine function
CREATE TABLE call AS
SELECT row_number() OVER (ORDER BY fn::text) AS number, fn, is_float,
	format('%I(%s)', proname, arguments) AS text
FROM (
	SELECT aggfnoid::regprocedure AS fn, proname,
		proargtypes::oid[] && '{real,double precision}'::regtype[]::oid[] AND proname NOT IN ('min', 'max') AS is_float,
		CASE WHEN pronargs = 0 THEN '*' ELSE
			(SELECT string_agg(coalesce(expression, '?'), ', ' ORDER BY ord)
			 FROM unnest(proargtypes::regtype[]) WITH ORDINALITY a (type, ord) LEFT JOIN sample USING (type)) END AS arguments
	FROM pg_aggregate a JOIN pg_proc p ON p.oid = aggfnoid
	WHERE aggcombinefn <> 0 AND aggkind = 'n' AND pronamespace = 'pg_catalog'::regnamespace
		-- no column can have what min and max give for a record
		AND prorettype <> 'record'::regtype) s;
-- those this test knows no arguments for
SELECT fn FROM call WHERE text LIKE '%?%' ORDER BY number;
DELETE FROM call WHERE text LIKE '%?%';
SELECT count(*) >= 119 AS many FROM call;
SELECT DISTINCT proname FROM call JOIN pg_proc p ON p.oid = fn
WHERE proname NOT IN ('string_agg', 'array_agg', 'any_value') ORDER BY 1;

-- all of them in one query, those of floats rounded, since their sums depend
-- on the order; one with FILTER of each
CREATE FUNCTION everything(filter text) RETURNS text LANGUAGE sql AS $$
	SELECT format('SELECT k, %s FROM event GROUP BY k',
		string_agg(format(CASE WHEN is_float THEN 'round((%s %s)::numeric, 6) AS c%s' ELSE '%s %s AS c%s' END,
						  text, filter, number), ', ' ORDER BY number)) FROM call
$$;
SELECT tidemark.create_continuous_view('all_aggregates', everything(''), trigger => 'manual');
SELECT tidemark.create_continuous_view('all_filtered', everything('FILTER (WHERE i % 5 < 3)'), trigger => 'manual');
-- the same states over and over: values only, states only
SELECT tidemark.create_continuous_view('all_windows',
	replace(replace(everything(''), 'SELECT k,', 'SELECT window_start, k,'),
			'event GROUP BY k', 'event, tidemark.tumble(at, ''1 hour'') GROUP BY window_start, k'), trigger => 'manual');
CREATE PROCEDURE catch_up_all() LANGUAGE plpgsql AS $$
DECLARE
	v regclass;
BEGIN
	FOR v IN SELECT view FROM tidemark.continuous_views WHERE stream = 'event'::regclass ORDER BY view LOOP
		CALL tidemark.catch_up(v);
	END LOOP;
END $$;
-- groups of one row, of NULLs only, and large ones; old and new in each batch
CREATE PROCEDURE fill(first int, last int, groups int) LANGUAGE sql AS $$
	INSERT INTO event SELECT i % groups, i, timestamptz '2024-05-01' + i * interval '10 s'
	FROM generate_series(first, last) i
$$;
CALL fill(1, 200, 7);
CALL catch_up_all();
CALL fill(201, 450, 13);
CALL catch_up_all();
SET tidemark.batch_memory = '64kB';
CALL fill(451, 1500, 29);
INSERT INTO event VALUES (50, 50, '2024-05-01'), (51, NULL, '2024-05-01'), (NULL, NULL, '2024-05-01');
CALL catch_up_all();
SELECT view, last_flushes > 1 AS flushed, batch_id FROM tidemark.progress WHERE view::text LIKE 'all%' ORDER BY 1;
RESET tidemark.batch_memory;
INSERT INTO event VALUES (50, 101 * 50, '2024-05-01'), (51, 51, '2024-05-01'), (NULL, NULL, '2024-05-01');
CALL fill(1501, 1600, 3);
CALL catch_up_all();
-- a sort would change the order of the rows in each group
SET enable_sort = off;
DO $$
DECLARE
	v text;
BEGIN
	FOREACH v IN ARRAY '{all_aggregates,all_filtered,all_windows}'::text[] LOOP
		EXECUTE format('CREATE TABLE %s_oracle AS %s', v,
			(SELECT query FROM tidemark.continuous_views WHERE view = v::regclass));
	END LOOP;
END $$;
RESET enable_sort;
TRUNCATE event;
SELECT v.*, (compare(v.v::regclass, (v.v || '_oracle')::regclass)).*
FROM unnest('{all_aggregates,all_filtered,all_windows}'::text[]) v (v);
-- which, if any
CREATE FUNCTION differing(a regclass, b regclass) RETURNS SETOF regprocedure LANGUAGE plpgsql AS $$
DECLARE
	c call;
	n int;
BEGIN
	FOR c IN SELECT * FROM call ORDER BY number LOOP
		EXECUTE format('SELECT count(*) FROM (SELECT k, c%1$s::text FROM %2$s EXCEPT ALL SELECT k, c%1$s::text FROM %3$s) d',
			c.number, a, b) INTO n;
		IF n > 0 THEN
			RETURN NEXT c.fn;
		END IF;
	END LOOP;
END $$;
SELECT differing('all_aggregates', 'all_aggregates_oracle');
SELECT differing('all_filtered', 'all_filtered_oracle');
SELECT differing('all_windows', 'all_windows_oracle');
-- each had something to do
DO $$
DECLARE
	c call;
	n int;
BEGIN
	FOR c IN TABLE call LOOP
		EXECUTE format('SELECT count(c%s) FROM all_windows_oracle', c.number) INTO n;
		IF n < 20 THEN
			RAISE WARNING '% is always null', c.text;
		END IF;
	END LOOP;
END $$;

--
-- Users' own
--
-- strict, no initial value: begins with the first value
CREATE FUNCTION larger(int, int) RETURNS int LANGUAGE sql IMMUTABLE STRICT AS 'SELECT greatest($1, $2)';
CREATE AGGREGATE my_max(int) (SFUNC = larger, STYPE = int, COMBINEFUNC = larger);
-- not strict: counts NULLs, begins with NULL; the state is not the value
CREATE FUNCTION count_nulls(state int, value int) RETURNS int
LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN coalesce(state, 0) + (value IS NULL)::int; END';
CREATE FUNCTION add(a int, b int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN a IS NULL THEN b WHEN b IS NULL THEN a ELSE a + b END';
CREATE FUNCTION in_words(int) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT coalesce($1 || ' nulls', 'nothing') $$;
CREATE AGGREGATE nulls(int) (SFUNC = count_nulls, STYPE = int, COMBINEFUNC = add, FINALFUNC = in_words);
-- an initial value, which must not be counted twice when states are combined
CREATE AGGREGATE product(numeric) (SFUNC = numeric_mul, STYPE = numeric, INITCOND = '1', COMBINEFUNC = numeric_mul);
-- arrays, that are expanded in memory; ingest order
CREATE FUNCTION collect(state int[], value int) RETURNS int[] LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	state[cardinality(state) + 1] := value;
	RETURN state;
END $$;
CREATE FUNCTION append(a int[], b int[]) RETURNS int[] LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN a || b; END';
CREATE AGGREGATE collected(int) (SFUNC = collect, STYPE = int[], INITCOND = '{}', COMBINEFUNC = append);
CREATE AGGREGATE collected_length(int) (SFUNC = collect, STYPE = int[], INITCOND = '{}', COMBINEFUNC = append,
	FINALFUNC = cardinality);
-- polymorphic, begins with NULL
CREATE AGGREGATE poly(anycompatible) (SFUNC = array_append, STYPE = anycompatiblearray, COMBINEFUNC = array_cat);
-- internal states, with and without arguments to the final function
CREATE AGGREGATE my_avg(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_avg,
	COMBINEFUNC = numeric_avg_combine, SERIALFUNC = numeric_avg_serialize, DESERIALFUNC = numeric_avg_deserialize);
CREATE AGGREGATE my_sum(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_sum,
	COMBINEFUNC = numeric_avg_combine, SERIALFUNC = numeric_avg_serialize, DESERIALFUNC = numeric_avg_deserialize);
-- composite and jsonb states (batches run with a search_path of their own), NULL as a state, several arguments, large values
CREATE FUNCTION widen(state pair, a int, b text) RETURNS pair LANGUAGE sql IMMUTABLE
	AS $$ SELECT ROW(coalesce(state.a, 0) + coalesce(a, 0), greatest(state.b, b))::aggregates_test.pair $$;
CREATE FUNCTION merge(x pair, y pair) RETURNS pair LANGUAGE sql IMMUTABLE
	AS $$ SELECT ROW(coalesce(x.a, 0) + coalesce(y.a, 0), greatest(x.b, y.b))::aggregates_test.pair $$;
CREATE AGGREGATE widened(int, text) (SFUNC = widen, STYPE = pair, COMBINEFUNC = merge);
CREATE FUNCTION note(state jsonb, key text, value int) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT state || jsonb_build_object(key, coalesce((state ->> key)::int, 0) + value) $$;
CREATE FUNCTION unite(a jsonb, b jsonb) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
	SELECT coalesce(jsonb_object_agg(k, coalesce((a ->> k)::int, 0) + coalesce((b ->> k)::int, 0)), '{}')
	FROM (SELECT jsonb_object_keys(a) UNION SELECT jsonb_object_keys(b)) s (k) $$;
CREATE AGGREGATE histogram(text, int) (SFUNC = note, STYPE = jsonb, INITCOND = '{}', COMBINEFUNC = unite);
CREATE FUNCTION odd_or_null(state int, value int) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN nullif((coalesce(state, 0) + coalesce(value, 0)) % 2, 0); END';
CREATE AGGREGATE parity(int) (SFUNC = odd_or_null, STYPE = int, COMBINEFUNC = odd_or_null);
CREATE FUNCTION join_texts(a text, b text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT concat(a, b) $$;
CREATE FUNCTION digest_of(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT md5($1) || ' ' || length($1) $$;
CREATE AGGREGATE digest(text) (SFUNC = join_texts, STYPE = text, COMBINEFUNC = join_texts, FINALFUNC = digest_of);
CREATE AGGREGATE long_text(text) (SFUNC = join_texts, STYPE = text, INITCOND = '', COMBINEFUNC = join_texts);
-- any number of arguments
CREATE FUNCTION add_all(state bigint, VARIADIC int[]) RETURNS bigint LANGUAGE sql IMMUTABLE
	AS 'SELECT state + coalesce((SELECT sum(v) FROM unnest($2) v), 0)';
CREATE AGGREGATE sum_all(VARIADIC int[]) (SFUNC = add_all, STYPE = bigint, INITCOND = '0', COMBINEFUNC = int8pl);
-- the final function sees the types of the arguments
CREATE FUNCTION final_extra(state bigint, value anyelement) RETURNS text LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN state || pg_typeof(value)::text; END';
CREATE FUNCTION count_step(state bigint, value anyelement) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT state + 1';
CREATE AGGREGATE typed_count(anyelement) (SFUNC = count_step, STYPE = bigint, INITCOND = '0', COMBINEFUNC = int8pl,
	FINALFUNC = final_extra, FINALFUNC_EXTRA);

CREATE TABLE own (text text);
INSERT INTO own VALUES ($$
	SELECT k, my_max(i) AS my_max, my_max(NULL::int) AS no_max, nulls(i) AS nulls, nulls(i) FILTER (WHERE i < 0) AS no_nulls,
		product((i % 3 + 1)::numeric) AS product, collected(i) AS collected, collected_length(i) AS length,
		poly(i) AS poly, poly(i::text) AS poly_text, my_avg(i) AS my_avg, my_sum(i) AS my_sum, my_sum(i) FILTER (WHERE i > 1000) AS late_sum,
		widened(i, i::text) AS widened, histogram(coalesce((i % 3)::text, '-'), coalesce(i, 1)) AS histogram, parity(i) AS parity, parity(1) AS parity_1,
		digest(repeat(i::text, 50)) AS digest, long_text(repeat(i::text, 50)) AS long_text, sum_all(i, i % 7, 1) AS sum_all,
		typed_count(i) AS typed_int, typed_count(i::text) AS typed_text, count(*) AS n
	FROM event GROUP BY k $$);
SELECT tidemark.create_continuous_view('own_aggregates', text, trigger => 'manual') FROM own;
SELECT tidemark.create_continuous_view('own_total', regexp_replace(text, 'GROUP BY k|k,', '', 'g'), trigger => 'manual') FROM own;
CREATE PROCEDURE catch_up_own() LANGUAGE plpgsql AS $$
BEGIN
	CALL tidemark.catch_up('own_aggregates');
	CALL tidemark.catch_up('own_total');
END $$;
SELECT no_max, nulls, product, collected, length, poly, my_avg, my_sum, parity, digest, typed_int, n FROM own_total;
CALL fill(1, 100, 7);
CALL catch_up_own();
CALL fill(101, 300, 11);
INSERT INTO event VALUES (0, NULL, '2024-05-01'), (0, NULL, '2024-05-01'), (20, NULL, '2024-05-01');
CALL catch_up_own();
SET tidemark.batch_memory = '64kB';
CALL fill(301, 900, 15);
CALL catch_up_own();
SELECT view, last_flushes > 1 AS flushed, batch_id FROM tidemark.progress WHERE view::text LIKE 'own%' ORDER BY 1;
RESET tidemark.batch_memory;
INSERT INTO event VALUES (0, 1, '2024-05-01'), (20, 7, '2024-05-01'), (21, NULL, '2024-05-01');
CALL catch_up_own();
DO $$ BEGIN EXECUTE 'CREATE TABLE own_oracle AS ' || text FROM own; END $$;
DO $$ BEGIN EXECUTE 'CREATE TABLE own_total_oracle AS ' || regexp_replace(text, 'GROUP BY k|k,', '', 'g') FROM own; END $$;
TRUNCATE event;
SELECT * FROM compare('own_aggregates', 'own_oracle');
SELECT * FROM compare('own_total', 'own_total_oracle');
SELECT my_max, no_max, nulls, no_nulls, length(product::text), cardinality(collected), length, cardinality(poly), my_avg, my_sum,
	late_sum, widened, histogram, parity, parity_1, digest, length(long_text), sum_all, typed_int, typed_text, n FROM own_total;
SELECT k, my_max, nulls, no_nulls, product, collected, poly, poly_text, my_avg, widened, parity, typed_int FROM own_aggregates WHERE k >= 20 ORDER BY k;

-- an internal state that cannot be stored
CREATE AGGREGATE homeless(numeric) (SFUNC = numeric_avg_accum, STYPE = internal, FINALFUNC = numeric_avg,
	COMBINEFUNC = numeric_avg_combine);
SELECT tidemark.create_continuous_view('refused', 'SELECT homeless(i) AS h FROM event', trigger => 'manual');
-- an aggregate that is used cannot go
\set VERBOSITY terse
DROP AGGREGATE my_max(int);
DROP FUNCTION larger;

-- no row for an aggregate in a group, batch after batch: there is no state
SELECT tidemark.create_continuous_view('nothing', $$
	SELECT k % 2 AS k, count(*) > 0 AS any, sum(i::numeric) FILTER (WHERE i < 0) AS s,
		avg(i::bigint) FILTER (WHERE i < 0) AS a, stddev(i) FILTER (WHERE i < 0) AS d,
		sum(i::bigint) FILTER (WHERE i < 0) AS b
	FROM event WHERE k < 50 GROUP BY 1
$$, trigger => 'manual');
CALL tidemark.catch_up('nothing');
CALL fill(1, 10, 3);
CALL tidemark.catch_up('nothing');
CALL fill(1, 10, 3);
CALL tidemark.catch_up('nothing');
SELECT * FROM nothing ORDER BY k;

DROP SCHEMA aggregates_test CASCADE;
