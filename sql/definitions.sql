--
-- Defining queries of many shapes: what is taken apart and maintained must be
-- what the query itself gives, after existing rows and after new ones.
--
CREATE SCHEMA definitions;
SET search_path = definitions;
SET timezone = 'Europe/Berlin';
SET client_min_messages = warning;

CREATE TABLE sale (
	id int,
	store text,
	amount numeric,
	made_at timestamptz,
	sold_at timestamptz NOT NULL
);
CREATE TABLE click (id int, at timestamp NOT NULL);
CREATE TABLE sensed (id int, ms int8) PARTITION BY RANGE (id);
CREATE TABLE sensed_odd PARTITION OF sensed FOR VALUES FROM (0) TO (500);
CREATE TABLE sensed_all PARTITION OF sensed DEFAULT;
CREATE TABLE store (store text PRIMARY KEY, region text, factor numeric);
CREATE VIEW region AS SELECT store, region FROM store WHERE factor < 9;
INSERT INTO store SELECT 's' || i, 'r' || i % 3, i * 1.5
	FROM generate_series(1, 8) i;

SELECT tidemark.create_stream('sale', event_time => 'sold_at',
	watermark_delay => '1 hour');
SELECT tidemark.create_stream('click', event_time => 'at',
	watermark_delay => '1 hour');
SELECT tidemark.create_stream('sensed', watermark_delay => '1 hour',
	event_time => 'to_timestamp(ms / 1000.0)');

CREATE PROCEDURE add_events(first int, last int)
LANGUAGE sql AS $$
	INSERT INTO sale SELECT i, CASE WHEN i % 11 > 0 THEN 's' || i % 10 END,
		i * 1.25, timestamptz '2024-03-31 00:00+01' + i * interval '3 hours',
		timestamptz '2024-03-31 00:00+01' + i * interval '17.3 seconds'
		FROM generate_series(first, last) i;
	INSERT INTO click SELECT i, timestamp '2024-03-31' + i * interval '17.3 s'
		FROM generate_series(first, last) i;
	INSERT INTO sensed SELECT i, 1711839600000 + i * 17300
		FROM generate_series(first, last) i;
$$;

-- Rows of the view, and rows in which view and query differ, after the events
-- that are there when it is created and after more.
CREATE PROCEDURE compare(query text, INOUT rows int8[] = NULL,
	INOUT differing int8[] = NULL)
LANGUAGE plpgsql AS $$
DECLARE
	n int8;
	d int8;
BEGIN
	TRUNCATE sale, click, sensed;
	CALL add_events(1, 700);
	COMMIT;
	PERFORM tidemark.create_continuous_view('maintained', query,
		trigger => 'manual');
	COMMIT;
	FOR round IN 1 .. 2 LOOP
		CALL tidemark.catch_up('maintained');
		EXECUTE format('SELECT (SELECT count(*) FROM maintained),
			(SELECT count(*) FROM (
				(SELECT view_row::text FROM maintained view_row
				 EXCEPT ALL SELECT query_row::text FROM (%1$s) query_row)
				UNION ALL
				(SELECT query_row::text FROM (%1$s) query_row
				 EXCEPT ALL SELECT view_row::text FROM maintained view_row)) x)', query)
			INTO n, d;
		rows := rows || n;
		differing := differing || d;
		CALL add_events(701, 1400);
		COMMIT;
	END LOOP;
	DROP VIEW maintained;
	COMMIT;
END;
$$;

\pset tuples_only on
\pset format unaligned

-- windows
CALL compare($$ SELECT window_start, count(*), sum(amount), avg(amount), min(store)
	FROM sale, tidemark.tumble(sold_at, '5 minutes') GROUP BY 1 $$);
CALL compare($$ SELECT window_end, store, count(*) FILTER (WHERE id % 3 = 0)
	FROM sale CROSS JOIN tidemark.tumble(sold_at, size => '1 hour', origin => '2024-01-01 00:07Z')
	WHERE window_start > '2024-03-31' GROUP BY window_end, store $$);
CALL compare($$ SELECT w.window_start, w.window_end, extract(minute FROM w.window_start) AS m,
		count(w), bool_and(sold_at >= w.window_start), max(w.window_end - sold_at)
	FROM sale, tidemark.tumble(sold_at, '10 minutes') w
	GROUP BY w.window_start, w.window_end, m $$);
CALL compare($$ SELECT window_start, count(*)
	FROM sale, tidemark.tumble(sold_at AT TIME ZONE 'Asia/Kolkata', '7 minutes')
	GROUP BY 1 $$);
CALL compare($$ SELECT tidemark.tumble_start(sold_at, '1 minute') AS s,
		tidemark.tumble_end(sold_at, '1 minute') AS e, count(*)
	FROM sale GROUP BY 1, 2 $$);
CALL compare($$ SELECT date_bin('15 minutes', sold_at, '2000-01-01') AS w,
		date_trunc('day', made_at) AS made, count(*)
	FROM sale GROUP BY w, made $$);
CALL compare($$ SELECT date_trunc('hour', sold_at) AS w, count(*),
		round(corr(id, amount)::numeric, 6)
	FROM sale GROUP BY 1 $$);
CALL compare($$ SELECT date_trunc('day', sold_at, 'America/New_York') AS w, count(*)
	FROM sale GROUP BY 1 $$);
CALL compare($$ SELECT window_start, count(*), max(id)
	FROM click, tidemark.tumble(at, '3 minutes') GROUP BY 1 $$);
CALL compare($$ SELECT window_start, count(*), max(id)
	FROM sensed, tidemark.tumble(to_timestamp(ms / 1000.0), '3 minutes') GROUP BY 1 $$);
CALL compare($$ SELECT sold_at, count(*) FROM sale GROUP BY 1 $$);
CALL compare($$ SELECT window_start, sold_at, count(*)
	FROM sale, tidemark.tumble(sold_at, '1 minute') GROUP BY 1, 2 $$);

-- keys
CALL compare($$ SELECT count(*), sum(id) FROM sale $$);
CALL compare($$ SELECT store FROM sale GROUP BY store $$);
CALL compare($$ SELECT amount::money AS k, id::bit(3) AS b, ARRAY[store] AS a,
		row(store, id)::text AS r, id % 5 > 2 AS c, NULL::text AS n, count(s)
	FROM sale s GROUP BY 1, 2, 3, 4, 5, 6 $$);

-- joins
CALL compare($$ SELECT window_start, region, count(*), sum(amount * factor)
	FROM sale JOIN store USING (store), tidemark.tumble(sold_at, '1 hour')
	GROUP BY 1, 2 $$);
CALL compare($$ SELECT store, region || 'x' AS r, count(region), max(q.id)
	FROM region RIGHT JOIN (sale CROSS JOIN tidemark.tumble(sold_at, '1 hour') w) q
		USING (store)
	GROUP BY q.window_start, 1, 2 $$);
CALL compare($$ SELECT coalesce(region, '-') AS r, one, count(*)
	FROM sale LEFT JOIN (store FULL JOIN (SELECT store, 1 AS one FROM region) s
		USING (store)) USING (store)
	GROUP BY 1, 2 $$);
CALL compare($$ SELECT s.store, x, g, l.factor, count(*)
	FROM sale s CROSS JOIN (VALUES (1), (2)) v (x), generate_series(1, x) g,
		LATERAL (SELECT factor FROM store WHERE store.store = s.store
				 ORDER BY factor LIMIT 1) l
	GROUP BY s.store, x, g, l.factor $$);
CALL compare($$ SELECT window_start, l.minutes, sum(l.minutes)
	FROM sale s CROSS JOIN tidemark.tumble(sold_at, '1 hour') w
		LEFT JOIN LATERAL (SELECT extract(minute FROM w.window_end - s.sold_at) AS minutes
						   WHERE s.id % 2 = 0) l ON true
	GROUP BY 1, 2 $$);

-- subqueries
CALL compare($$ SELECT (SELECT region FROM store WHERE store.store = sale.store) AS r,
		sum((SELECT factor FROM store WHERE store.store = sale.store)), count(*)
	FROM sale WHERE store IN (SELECT store FROM region) GROUP BY 1 $$);

-- an argument is computed only where FILTER is true
CALL compare($$ SELECT store, sum(100 / (id % 10)) FILTER (WHERE id % 10 > 0) AS s,
		min(left(store, 10 / (id % 10))) FILTER (WHERE store < 's5' AND id % 10 > 0) AS m,
		sum(id) FILTER (WHERE store > 's5') AS i
	FROM sale GROUP BY 1 $$);

-- above the aggregates
CALL compare($$ SELECT upper(store) || count(*) AS label, sum(amount) - min(amount) AS rest,
		CASE WHEN count(*) > 100 THEN store END AS big
	FROM sale GROUP BY store HAVING count(*) > 63 AND store <> 's3' $$);

\pset tuples_only off
\pset format aligned
RESET search_path;
DROP SCHEMA definitions CASCADE;
