--
-- Streams that are partitioned: every leaf's rows count once, wherever and
-- whenever the leaf comes from.
--
CREATE SCHEMA partitions_test;
SET search_path = partitions_test;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE FUNCTION compare(a regclass, b regclass,
	OUT only_a bigint, OUT only_b bigint, OUT rows bigint)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT (SELECT count(*) FROM (TABLE %1$s EXCEPT ALL TABLE %2$s) d),
		(SELECT count(*) FROM (TABLE %2$s EXCEPT ALL TABLE %1$s) d),
		(SELECT count(*) FROM %1$s)', a, b) INTO only_a, only_b, rows;
END $$;

-- two levels, other column orders, dropped columns, a default partition
CREATE TABLE event (gone int, id int, kind text, at timestamptz, value numeric, big text) PARTITION BY RANGE (at);
ALTER TABLE event DROP COLUMN gone;
CREATE TABLE day_1 (value numeric, at timestamptz, old1 int, kind text, old2 text, id int, big text);
ALTER TABLE day_1 DROP COLUMN old1, DROP COLUMN old2;
ALTER TABLE event ATTACH PARTITION day_1 FOR VALUES FROM ('2024-05-01') TO ('2024-05-02');
CREATE TABLE day_2 PARTITION OF event FOR VALUES FROM ('2024-05-02') TO ('2024-05-03') PARTITION BY LIST (kind);
CREATE TABLE day_2_a PARTITION OF day_2 FOR VALUES IN ('a');
CREATE TABLE day_2_b (big text, kind text, at timestamptz, id int, old int, value numeric);
ALTER TABLE day_2_b DROP COLUMN old;
ALTER TABLE day_2 ATTACH PARTITION day_2_b FOR VALUES IN ('b', NULL);
CREATE TABLE day_2_rest PARTITION OF day_2 DEFAULT PARTITION BY HASH (id);
CREATE TABLE day_2_even PARTITION OF day_2_rest FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE day_2_odd PARTITION OF day_2_rest FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE other PARTITION OF event DEFAULT;

CREATE PROCEDURE fill(first int, last int) LANGUAGE sql AS $$
	INSERT INTO event (id, kind, at, value, big)
	SELECT i, (ARRAY['a', 'b', 'c', 'd', NULL])[i % 5 + 1], timestamptz '2024-04-30 20:00' + i * interval '13 minutes',
		nullif(i % 17, 3) / 4.0, repeat('x', i % 3 * 2000)
	FROM generate_series(first, last) i
$$;
CALL fill(1, 50);
CALL fill(101, 150);
CALL fill(201, 250);
SELECT tableoid::regclass, count(*) FROM event GROUP BY 1 ORDER BY tableoid::regclass::text COLLATE "C";
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '400 days');
CREATE TABLE query AS SELECT $$
	SELECT window_start, kind, count(*) AS n, sum(value) AS total, max(length(big)) AS longest, min(id) AS first,
		count(event) AS rows
	FROM event, tidemark.tumble(at, '3 hours') WHERE value IS DISTINCT FROM 1 GROUP BY window_start, kind $$ AS text;
SELECT tidemark.create_continuous_view('event_view', text, trigger => 'manual') FROM query;
SELECT tidemark.create_continuous_view('event_total', 'SELECT count(*) AS n, sum(id) AS ids FROM event', trigger => 'manual') FROM query;
CREATE PROCEDURE catch_up() LANGUAGE plpgsql AS $$
BEGIN
	CALL tidemark.catch_up('event_view');
	CALL tidemark.catch_up('event_total');
END $$;
-- what is in the table is in the views
CREATE PROCEDURE check_views(INOUT only_view bigint = 0, INOUT only_oracle bigint = 0, INOUT groups bigint = 0,
	INOUT n bigint = 0, INOUT oracle_n bigint = 0, INOUT ids bigint = 0)
LANGUAGE plpgsql AS $$
BEGIN
	CREATE TABLE oracle AS
		SELECT to_timestamp(floor(extract(epoch FROM at) / 10800) * 10800), kind, count(*) AS n, sum(value), max(length(big)),
			min(id), count(*) AS rows
		FROM event WHERE value IS DISTINCT FROM 1 GROUP BY 1, 2;
	SELECT * INTO only_view, only_oracle, groups FROM compare('event_view', 'oracle');
	SELECT t.n, (SELECT count(*) FROM event), t.ids - (SELECT sum(id) FROM event) INTO n, oracle_n, ids FROM event_total t;
	DROP TABLE oracle;
END $$;
CALL catch_up();
CALL check_views();
CALL fill(51, 100);
CALL catch_up();
CALL check_views();
-- rows that are inserted into a leaf, and into one below
INSERT INTO day_1 (id, at, kind) VALUES (1000, '2024-05-01 12:00', 'z');
INSERT INTO day_2 (id, at, kind) VALUES (1001, '2024-05-02 12:00', 'z');
COPY day_2_odd (id, at, kind) FROM stdin;
1006	2024-05-02 13:00	y
\.
COPY event (id, at, kind) FROM stdin;
1003	2024-05-01 13:00	y
1004	2024-06-01 13:00	y
\.
CALL catch_up();
CALL check_views();

-- created later, at any level
CREATE TABLE july PARTITION OF event FOR VALUES FROM ('2024-07-01') TO ('2024-08-01') PARTITION BY LIST (kind);
CREATE TABLE july_a PARTITION OF july FOR VALUES IN ('a');
INSERT INTO event (id, at, kind) VALUES (1010, '2024-07-01 13:00', 'a');
CALL catch_up();
CREATE TABLE july_rest PARTITION OF july DEFAULT;
INSERT INTO event (id, at, kind) VALUES (1011, '2024-07-01 13:00', 'b'), (1012, '2024-05-01 13:00', 'b');
CALL catch_up();
CALL check_views();
-- attached with rows of before and rows that no batch has seen
CREATE TABLE august (LIKE event INCLUDING DEFAULTS);
INSERT INTO august (id, at, kind) SELECT i, timestamptz '2024-07-31 20:00' + i * interval '1 minute', 'a'
FROM generate_series(2000, 2050) i;
CALL catch_up();
CREATE TABLE september (LIKE event);
INSERT INTO september (id, at, kind) SELECT i, timestamptz '2024-09-01 20:00' + i * interval '1 minute', 'a'
FROM generate_series(3000, 3050) i;
COPY september (id, at, kind) FROM stdin;
3100	2024-09-02 12:00	a
3101	2024-09-02 13:00	a
\.
SELECT count(*) FROM september WHERE _txid IS NULL;
ALTER TABLE event ATTACH PARTITION august FOR VALUES FROM ('2024-08-01') TO ('2024-09-01');
ALTER TABLE event ATTACH PARTITION september FOR VALUES FROM ('2024-09-01') TO ('2024-10-01');
INSERT INTO event (id, at, kind) VALUES (2051, '2024-08-01 13:00', 'a'), (3051, '2024-09-01 13:00', 'a');
INSERT INTO september (id, at, kind) VALUES (3052, '2024-09-01 13:00', 'a');
CALL catch_up();
CALL check_views();
SELECT rows_restamped FROM tidemark.streams WHERE relation = 'event'::regclass;
-- and with a tree of its own
CREATE TABLE october (LIKE event INCLUDING DEFAULTS) PARTITION BY RANGE (at);
CREATE TABLE october_1 PARTITION OF october FOR VALUES FROM ('2024-10-01') TO ('2024-10-15');
CREATE TABLE october_2 PARTITION OF october FOR VALUES FROM ('2024-10-15') TO ('2024-11-01');
INSERT INTO october (id, at, kind) SELECT i, timestamptz '2024-10-01' + i % 20 * interval '1 day', 'o'
FROM generate_series(4000, 4030) i;
ALTER TABLE event ATTACH PARTITION october FOR VALUES FROM ('2024-10-01') TO ('2024-11-01');
CALL catch_up();
CALL check_views();

-- detached: what was read stays, nothing is read, and nothing is read twice
-- when it comes back
ALTER TABLE event DETACH PARTITION august;
INSERT INTO august (id, at, kind) VALUES (2052, '2024-08-01 14:00', 'a');
INSERT INTO event (id, at, kind) VALUES (1013, '2024-07-01 13:00', 'b');
SELECT n AS before FROM event_total \gset
CALL catch_up();
SELECT n - :before AS new FROM event_total;
SELECT leaf, count(*) AS views FROM tidemark.leaf WHERE leaf = 'august'::regclass GROUP BY 1;
CALL catch_up();
INSERT INTO event (id, at, kind) VALUES (1014, '2024-07-01 13:00', 'b');
CALL catch_up();
INSERT INTO august (id, at, kind) VALUES (2053, '2024-08-01 14:00', 'a');
ALTER TABLE event ATTACH PARTITION august FOR VALUES FROM ('2024-08-01') TO ('2024-09-01');
INSERT INTO event (id, at, kind) VALUES (2054, '2024-08-01 14:00', 'a');
CALL catch_up();
SELECT n - :before AS new FROM event_total;
CALL check_views();
SELECT count(*) FROM tidemark.leaf;
-- again, at once, and in one transaction with rows
ALTER TABLE event DETACH PARTITION august;
CALL catch_up();
BEGIN;
INSERT INTO august (id, at, kind) VALUES (2055, '2024-08-01 14:00', 'a');
ALTER TABLE event ATTACH PARTITION august FOR VALUES FROM ('2024-08-01') TO ('2024-09-01');
INSERT INTO event (id, at, kind) VALUES (2056, '2024-08-01 14:00', 'a');
COMMIT;
CALL catch_up();
CALL check_views();
-- a whole subtree, that is detached and attached elsewhere in the tree
ALTER TABLE event DETACH PARTITION october;
CALL catch_up();
ALTER TABLE october DETACH PARTITION october_1;
ALTER TABLE event ATTACH PARTITION october_1 FOR VALUES FROM ('2024-10-01') TO ('2024-10-15');
CALL catch_up();
ALTER TABLE event ATTACH PARTITION october FOR VALUES FROM ('2024-10-15') TO ('2024-11-01');
CALL catch_up();
CALL check_views();
-- concurrently
ALTER TABLE event DETACH PARTITION other;
ALTER TABLE event DETACH PARTITION september CONCURRENTLY;
INSERT INTO event (id, at, kind) VALUES (1015, '2024-07-01 13:00', 'b');
CALL catch_up();
ALTER TABLE event ATTACH PARTITION other DEFAULT;
ALTER TABLE event ATTACH PARTITION september FOR VALUES FROM ('2024-09-01') TO ('2024-10-01');
CALL catch_up();
CALL check_views();
-- a row whose batch has been is moved by an update of the partition key
SELECT tidemark.alter_stream('event', allow_update => true);
UPDATE event SET at = at + interval '1 month' WHERE id IN (2000, 2010, 1011);
UPDATE event SET at = at - interval '1 month' WHERE id IN (2000, 2010, 1011);
CALL catch_up();
CALL check_views();
-- one that has not been read yet counts as it is when it is read
INSERT INTO event (id, at, kind) VALUES (1020, '2024-07-01 13:00', 'b');
UPDATE event SET at = at + interval '1 month' WHERE id = 1020;
CALL catch_up();
CALL check_views();

-- dropped and truncated: results stay
SELECT n AS before FROM event_total \gset
CREATE TABLE rows_before AS TABLE event_view;
DROP TABLE day_1;
TRUNCATE july, day_2_a;
CALL catch_up();
INSERT INTO event (id, at, kind) VALUES (5000, '2024-07-01 13:00', 'b');
DROP TABLE october;
CALL catch_up();
SELECT n - :before AS new FROM event_total;
SELECT only_a, only_b FROM compare('event_view', 'rows_before');
SELECT rows_in, rows_used, rows_filtered FROM tidemark.progress WHERE view = 'event_total'::regclass;
-- a leaf's name that is used again is a new leaf
CREATE TABLE day_1 PARTITION OF event FOR VALUES FROM ('2024-05-01') TO ('2024-05-02');
INSERT INTO event (id, at, kind) VALUES (5001, '2024-05-01 13:00', 'b');
CALL catch_up();
SELECT n - :before AS new FROM event_total;
-- no leaf at all
DROP TABLE july, august, september, other, day_1, day_2;
CALL catch_up();
SELECT n - :before AS new FROM event_total;
CREATE TABLE last PARTITION OF event DEFAULT;
INSERT INTO event (id, at, kind) VALUES (5002, '2024-07-01 13:00', 'b');
CALL catch_up();
SELECT n - :before AS new FROM event_total;

-- an event time that is an expression, and one without zone, in partitions
CREATE TABLE sensed (id int, ms bigint) PARTITION BY LIST (id);
CREATE TABLE sensed_1 (ms bigint, id int);
ALTER TABLE sensed ATTACH PARTITION sensed_1 FOR VALUES IN (1);
CREATE TABLE sensed_2 PARTITION OF sensed FOR VALUES IN (2);
SELECT tidemark.create_stream('sensed', event_time => 'to_timestamp(ms / 1000.0)', watermark_delay => '1 minute');
SELECT tidemark.create_continuous_view('sensed_view', $$
	SELECT window_start, id, count(*) AS n, max(ms) AS last
	FROM sensed, tidemark.tumble(to_timestamp(ms / 1000.0), '10 minutes') GROUP BY window_start, id $$, trigger => 'manual');
INSERT INTO sensed SELECT 1 + i % 2, 1714560000000 + i * 10000 FROM generate_series(1, 300) i;
CALL tidemark.catch_up('sensed_view');
INSERT INTO sensed SELECT 1 + i % 2, 1714560000000 + i * 10000 FROM generate_series(301, 600) i;
CALL tidemark.catch_up('sensed_view');
CREATE TABLE sensed_oracle AS
	SELECT to_timestamp(ms / 600000 * 600), id, count(*), max(ms) FROM sensed GROUP BY 1, 2;
TRUNCATE sensed;
SELECT * FROM compare('sensed_view', 'sensed_oracle');
SELECT rows_in, rows_used, rows_late, watermark FROM tidemark.progress WHERE view = 'sensed_view'::regclass;

DROP SCHEMA partitions_test CASCADE;
SELECT count(*) FROM tidemark.leaf;
