--
-- What a continuous view may not be defined by: every construct with its own
-- text and SQLSTATE, next to the nearest one that is accepted.
--
CREATE SCHEMA refusals;
SET search_path = refusals;
SET timezone = 'UTC';

CREATE TABLE sale (
	id int,
	store text,
	amount numeric,
	created_at timestamptz,
	sold_at timestamptz NOT NULL
);
CREATE TABLE click (id int, at timestamp NOT NULL);
CREATE TABLE store (store text PRIMARY KEY, region text, factor numeric);
CREATE TABLE reading (id int, at timestamptz NOT NULL) PARTITION BY RANGE (at);
CREATE TABLE reading_all PARTITION OF reading DEFAULT;
CREATE VIEW region AS SELECT store, region FROM store;

SET client_min_messages = warning;
SELECT tidemark.create_stream('sale', event_time => 'sold_at');
SELECT tidemark.create_stream('click', event_time => 'at');
SELECT tidemark.create_stream('reading', event_time => 'at');
SELECT tidemark.create_continuous_view('sales_per_store', $$
	SELECT store, count(*) AS n FROM sale GROUP BY store $$);

CREATE VIEW big_sale AS SELECT * FROM sale WHERE amount > 100;
CREATE VIEW bigger_sale AS SELECT * FROM big_sale WHERE amount > 1000;
CREATE VIEW busy_store AS SELECT store FROM sales_per_store WHERE n > 10;
CREATE VIEW lottery AS SELECT store, random() AS number FROM store;
CREATE FUNCTION noisy(a int, noise float8 DEFAULT random()) RETURNS int
LANGUAGE sql STABLE AS 'SELECT a';
CREATE FUNCTION touch(a int) RETURNS int
LANGUAGE sql VOLATILE AS 'SELECT a';
CREATE FUNCTION label(a text) RETURNS text
LANGUAGE sql STABLE AS 'SELECT region FROM refusals.store WHERE store = a';

-- The error that creating a view ends in.
CREATE FUNCTION refused(query text) RETURNS TABLE (refusal text)
LANGUAGE plpgsql AS $$
DECLARE
	detail text;
	hint text;
BEGIN
	PERFORM tidemark.create_continuous_view('refused', query);
	RETURN QUERY VALUES ('NOT REFUSED');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL,
		hint = PG_EXCEPTION_HINT;
	RETURN QUERY VALUES (SQLSTATE || ': ' || SQLERRM), ('DETAIL: ' || detail),
		('HINT: ' || hint);
END;
$$;

-- 'yes' when a view can be created.
CREATE FUNCTION accepted(query text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM tidemark.create_continuous_view('accepted', query);
	DROP VIEW accepted;
	RETURN 'yes';
END;
$$;

\pset tuples_only on
\pset format unaligned

--
-- the statement
--
SELECT refused($$ INSERT INTO store VALUES ('x') $$);
SELECT refused($$ DELETE FROM sale $$);
SELECT refused($$ VALUES (1) $$);
SELECT refused($$ CREATE TABLE x () $$);
SELECT refused($$ SELECT count(*) AS n INTO x FROM sale $$);
SELECT refused($$ SELECT count(*) AS n FROM sale; SELECT 1 $$);
SELECT refused($$ $$);
SELECT refused($$ SELECT FROM FROM $$);

--
-- the stream
--
SELECT refused($$ SELECT count(*) AS n FROM store $$);
SELECT refused($$ SELECT count(*) AS n FROM reading_all $$);
SELECT accepted($$ SELECT count(*) AS n FROM reading $$);
SELECT refused($$ SELECT count(*) AS n FROM sale, sale AS other $$);
SELECT refused($$ SELECT count(*) AS n FROM sale, click $$);
SELECT refused($$ SELECT count(*) AS n FROM (SELECT * FROM sale) s $$);
SELECT refused($$ SELECT count(*) AS n FROM sale
	WHERE store IN (SELECT store FROM sale) $$);
SELECT accepted($$ SELECT count(*) AS n FROM sale
	WHERE store IN (SELECT store FROM store) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale
	JOIN LATERAL (SELECT count(*) FROM click WHERE click.id = sale.id) c ON true $$);
SELECT refused($$ SELECT count(*) AS n FROM bigger_sale $$);
SELECT refused($$ SELECT count(*) AS n FROM sale JOIN big_sale USING (id) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale JOIN sales_per_store USING (store) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale JOIN busy_store USING (store) $$);
SELECT refused($$ SELECT count(*) AS n FROM busy_store $$);
SELECT accepted($$ SELECT region, count(*) AS n FROM sale JOIN region USING (store)
	GROUP BY region $$);
SELECT refused($$ SELECT count(*) AS n FROM ONLY sale $$);
SELECT refused($$ SELECT count(*) AS n FROM sale TABLESAMPLE system (10) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale, store TABLESAMPLE system (10) $$);
SELECT refused($$ SELECT count(DISTINCT ctid) AS n FROM sale $$);
SELECT refused($$ SELECT count(*) AS n FROM sale
	WHERE EXISTS (SELECT FROM store WHERE sale.tableoid = 1) $$);

--
-- joins
--
SELECT refused($$ SELECT count(*) AS n FROM store LEFT JOIN sale USING (store) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale RIGHT JOIN store USING (store) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale FULL JOIN store USING (store) $$);
SELECT accepted($$ SELECT region, count(*) AS n FROM sale
	LEFT JOIN store USING (store) GROUP BY region $$);
SELECT accepted($$ SELECT region, count(*) AS n FROM store
	RIGHT JOIN sale USING (store) GROUP BY region $$);
SELECT accepted($$ SELECT s.store, x, g, l.factor, count(*) AS n
	FROM sale s CROSS JOIN (VALUES (1), (2)) v (x), generate_series(1, x) g,
		LATERAL (SELECT factor FROM store WHERE store.store = s.store
				 ORDER BY factor LIMIT 1) l
	GROUP BY s.store, x, g, l.factor $$);
CREATE TEMP TABLE scratch (store text);
SELECT refused($$ SELECT count(*) AS n FROM sale JOIN scratch USING (store) $$);
DROP TABLE scratch;

--
-- windows
--
SELECT refused($$ SELECT store, count(*) AS n
	FROM sale, tidemark.tumble(sold_at, '1 minute') GROUP BY store $$);
SELECT accepted($$ SELECT window_end, count(*) AS n
	FROM sale, tidemark.tumble(sold_at, '1 minute') GROUP BY window_end $$);
SELECT accepted($$ SELECT w.window_start, w.window_end, extract(hour FROM w.window_start) AS h,
		count(*) FILTER (WHERE sold_at > w.window_start) AS n
	FROM sale CROSS JOIN tidemark.tumble(sold_at, size => '1 hour') w
	GROUP BY w.window_start, w.window_end, h $$);
SELECT refused($$ SELECT window_start, count(*) AS n
	FROM sale, tidemark.tumble(created_at, '1 minute') GROUP BY window_start $$);
SELECT accepted($$ SELECT date_trunc('minute', created_at) AS created, count(*) AS n
	FROM sale GROUP BY created $$);
SELECT refused($$ SELECT window_start, date_trunc('day', sold_at) AS day, count(*) AS n
	FROM sale, tidemark.tumble(sold_at, '1 minute') GROUP BY window_start, day $$);
SELECT refused($$ SELECT a.window_start, b.window_start AS other, count(*) AS n
	FROM sale, tidemark.tumble(sold_at, '1 minute') a, tidemark.tumble(sold_at, '1 hour') b
	GROUP BY a.window_start, b.window_start $$);
SELECT refused($$ SELECT window_start, count(*) AS n
	FROM sale LEFT JOIN tidemark.tumble(sold_at, '1 minute') ON true
	GROUP BY window_start $$);
SELECT refused($$ SELECT window_start, count(*) AS n
	FROM sale, LATERAL (SELECT * FROM tidemark.tumble(sold_at, '1 minute')) t
	GROUP BY window_start $$);
SELECT refused($$ SELECT window_start, count(*) AS n
	FROM sale, tidemark.tumble(sold_at, '1 minute') WITH ORDINALITY
	GROUP BY window_start $$);

--
-- clauses
--
SELECT refused($$ WITH s AS (SELECT * FROM store)
	SELECT count(*) AS n FROM sale JOIN s USING (store) $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY store
	UNION ALL SELECT 'other', 0 $$);
SELECT refused($$ SELECT store FROM sale $$);
SELECT accepted($$ SELECT store FROM sale GROUP BY store $$);
SELECT refused($$ SELECT DISTINCT store, count(*) AS n FROM sale GROUP BY store $$);
SELECT refused($$ SELECT DISTINCT ON (store) store, count(*) AS n FROM sale
	GROUP BY store $$);
SELECT refused($$ SELECT store, count(*) AS n, rank() OVER (ORDER BY count(*)) AS r
	FROM sale GROUP BY store $$);
SELECT refused($$ SELECT store, id, count(*) AS n FROM sale
	GROUP BY GROUPING SETS (store, id) $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY CUBE (store) $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY ROLLUP (store) $$);
SELECT refused($$ SELECT store, GROUPING(store) AS g, count(*) AS n FROM sale
	GROUP BY store $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY store
	ORDER BY store $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY store LIMIT 1 $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY store OFFSET 1 $$);
SELECT refused($$ SELECT store FROM sale FOR UPDATE $$);
SELECT refused($$ SELECT count(*) AS n
	FROM sale JOIN (SELECT * FROM store FOR SHARE) s USING (store) $$);

--
-- keys and columns
--
SELECT refused($$ SELECT s.store, region, count(*) AS n
	FROM sale JOIN store s ON sale.store = s.store GROUP BY s.store $$);
SELECT refused($$ SELECT generate_series(1, 2) AS g, count(*) AS n FROM sale
	GROUP BY g $$);
SELECT refused($$ SELECT count(*) AS n FROM sale GROUP BY row(store, id) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale s GROUP BY s $$);
SELECT accepted($$ SELECT count(s) AS n FROM sale s GROUP BY amount::money,
	id::bit(3), point(id, id)::text, ARRAY[store] $$);
SELECT refused($$ SELECT store, count(*) + 1 FROM sale GROUP BY store $$);
SELECT refused($$ SELECT store, count(*) AS store FROM sale GROUP BY store $$);
SELECT refused($$ SELECT row(store, 1) AS r, count(*) AS n FROM sale GROUP BY store $$);
SELECT refused($$ SELECT count(*) AS n FROM sale WHERE id = $1 $$);

--
-- aggregates
--
SELECT refused($$ SELECT count(DISTINCT store) AS n FROM sale $$);
SELECT refused($$ SELECT string_agg(store, ',' ORDER BY id) AS s FROM sale $$);
SELECT refused($$ SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY id) AS p FROM sale $$);
SELECT refused($$ SELECT rank(1) WITHIN GROUP (ORDER BY id) AS r FROM sale $$);
SELECT refused($$ SELECT json_agg(store) AS j FROM sale $$);
SELECT accepted($$ SELECT count(*) AS n, sum(amount), avg(amount), min(store),
	regr_slope(id, id), bool_or(id > 1) FILTER (WHERE id < 3) AS any,
	max(amount) - min(amount) AS spread, stddev(id + 1) FROM sale
	HAVING count(*) > 1 $$);

--
-- above the aggregates
--
SELECT refused($$ SELECT count(*) * (SELECT max(factor) FROM store) AS n FROM sale $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY store
	HAVING count(*) > (SELECT count(*) FROM store) $$);
SELECT accepted($$ SELECT sum((SELECT factor FROM store WHERE store.store = sale.store)) AS f
	FROM sale $$);
SELECT accepted($$ SELECT (SELECT region FROM store WHERE store.store = sale.store) AS region,
	count(*) AS n FROM sale GROUP BY 1 $$);
SELECT refused($$ SELECT label(store) AS l, count(*) AS n FROM sale GROUP BY store $$);
SELECT accepted($$ SELECT upper(store) || count(*) AS l, count(*) AS n FROM sale
	GROUP BY store $$);
SELECT refused($$ SELECT store, max(sold_at)::date AS day FROM sale GROUP BY store $$);
SELECT refused($$ SELECT store, count(*) AS n FROM sale GROUP BY store
	HAVING max(sold_at) < now() $$);
SELECT refused($$ SELECT store, current_timestamp - max(sold_at) AS age FROM sale
	GROUP BY store $$);

--
-- functions
--
SELECT refused($$ SELECT touch(id) AS id, count(*) AS n FROM sale GROUP BY 1 $$);
SELECT refused($$ SELECT sum(touch(id)) AS n FROM sale $$);
SELECT refused($$ SELECT count(*) AS n FROM sale WHERE random() < 0.5 $$);
SELECT refused($$ SELECT count(*) AS n FROM sale WHERE created_at < clock_timestamp() $$);
SELECT refused($$ SELECT sum(noisy(id)) AS n FROM sale $$);
SELECT refused($$ SELECT sum(number) AS n FROM sale JOIN lottery USING (store) $$);
SELECT refused($$ SELECT count(*) AS n FROM sale, touch(1) $$);

-- the clock of the batch is accepted with a warning
\set SHOW_CONTEXT never
SELECT accepted($$ SELECT count(*) AS n FROM sale WHERE created_at < now() $$);
SELECT accepted($$ SELECT current_date - created_at::date AS age, count(*) AS n FROM sale
	GROUP BY 1 $$);
-- others that are stable do not depend on it
SELECT accepted($$ SELECT created_at::date AS day, to_char(created_at, 'HH24') AS hour,
	count(*) AS n FROM sale GROUP BY 1, 2 $$);

\pset tuples_only off
\pset format aligned
RESET search_path;
DROP SCHEMA refusals CASCADE;
