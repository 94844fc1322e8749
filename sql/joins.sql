--
-- Joins with ordinary tables: a batch sees them as they are, output is not
-- rewritten, and every row of the stream has one fate, however often the
-- join gives it.
--
CREATE SCHEMA joins_test;
SET search_path = joins_test;
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
CREATE FUNCTION fates(v regclass, OUT batch bigint, OUT rows_in bigint, OUT null_time bigint,
	OUT filtered bigint, OUT late bigint, OUT used bigint, OUT sums_up bool, OUT watermark timestamptz)
LANGUAGE sql AS $$
	SELECT batch_id, rows_in, rows_null_time, rows_filtered, rows_late, rows_used,
		rows_in = rows_null_time + rows_rejected + rows_filtered + rows_late + rows_duplicate
			+ rows_failed + rows_used, watermark
	FROM tidemark.progress WHERE view = v
$$;

CREATE TABLE sale (id int, store text, item int, amount numeric, at timestamptz);
SELECT tidemark.create_stream('sale', event_time => 'at', watermark_delay => '1 day');
CREATE TABLE store (store text, region text, opened date);
CREATE TABLE tag (item int, tag text);
CREATE TABLE nothing (store text, item int);
CREATE VIEW open_store AS SELECT * FROM store WHERE opened < '2024-01-01';
INSERT INTO store SELECT 's' || i, 'r' || i % 3, date '2023-06-01' + i * 30 FROM generate_series(0, 9) i;
INSERT INTO store VALUES (NULL, 'none', NULL);
-- every item has as many tags as its number
INSERT INTO tag SELECT i, 't' || t FROM generate_series(0, 4) i, generate_series(1, i) t;

CREATE TABLE shape (name text, query text);
INSERT INTO shape VALUES
('inner_join', 'SELECT @w AS w, region, count(*) AS n, sum(amount) AS total FROM sale JOIN store USING (store) GROUP BY 1, region'),
('inner_on', 'SELECT region, count(*) AS n FROM store s JOIN sale ON sale.store = s.store AND sale.item > 1 GROUP BY region'),
('left_join', 'SELECT @w AS w, region, count(*) AS n, count(region) AS known FROM sale LEFT JOIN store USING (store) GROUP BY 1, region'),
('left_on', 'SELECT region, count(*) AS n FROM sale LEFT JOIN store ON store.store = sale.store AND item = 2 GROUP BY region'),
('comma', 'SELECT region, count(*) AS n, max(opened) AS newest FROM sale, store WHERE sale.store = store.store AND amount > 5 GROUP BY region'),
('cross_join', 'SELECT region, count(*) AS n, sum(amount) AS total FROM sale CROSS JOIN store GROUP BY region'),
('inequality', 'SELECT region, count(*) AS n FROM sale JOIN store ON sale.store > store.store GROUP BY region'),
('multiplies', 'SELECT @w AS w, tag, count(*) AS n, sum(amount) AS total FROM sale JOIN tag USING (item) GROUP BY 1, tag'),
('multiplies_left', 'SELECT tag, count(*) AS n FROM sale LEFT JOIN tag USING (item) GROUP BY tag'),
('two_joins', 'SELECT region, tag, count(*) AS n FROM sale JOIN store USING (store) LEFT JOIN tag ON tag.item = sale.item GROUP BY region, tag'),
('bracketed', 'SELECT region, tag, count(*) AS n FROM sale LEFT JOIN (store JOIN tag ON length(region) = 2) ON store.store = sale.store AND tag.item = sale.item GROUP BY region, tag'),
('view_join', 'SELECT region, count(*) AS n FROM sale JOIN open_store USING (store) GROUP BY region'),
('subquery', 'SELECT region, sum(stores) AS s, count(*) AS n FROM sale JOIN (SELECT store, max(region) AS region, count(*) AS stores FROM store GROUP BY store) q USING (store) GROUP BY region'),
('subquery_union', 'SELECT src, count(*) AS n FROM sale JOIN (SELECT store, 1 AS src FROM store UNION ALL SELECT store, 2 FROM open_store) q USING (store) GROUP BY src'),
('values_join', 'SELECT v, count(*) AS n FROM sale JOIN (VALUES (1, 10), (2, 20), (2, 21)) x (item, v) USING (item) GROUP BY v'),
('lateral_join', 'SELECT first_tag, count(*) AS n FROM sale, LATERAL (SELECT tag AS first_tag FROM tag WHERE tag.item = sale.item ORDER BY tag LIMIT 1) t GROUP BY first_tag'),
('lateral_left', 'SELECT last_tag, count(*) AS n FROM sale LEFT JOIN LATERAL (SELECT tag AS last_tag FROM tag WHERE tag.item = sale.item AND sale.amount > 10 ORDER BY tag DESC LIMIT 1) t ON true GROUP BY last_tag'),
('lateral_aggregate', 'SELECT @w AS w, tags, count(*) AS n FROM sale, LATERAL (SELECT count(*) AS tags FROM tag WHERE tag.item <= sale.item) t GROUP BY 1, tags'),
('function', 'SELECT g, count(*) AS n FROM sale, generate_series(1, item) g GROUP BY g'),
('unnest', 'SELECT u, count(*) AS n FROM sale LEFT JOIN unnest(string_to_array(store, ''s'')) u ON true GROUP BY u'),
('semi_in', 'SELECT store, count(*) AS n FROM sale WHERE store IN (SELECT store FROM open_store) GROUP BY store'),
('semi_exists', 'SELECT item, count(*) AS n FROM sale WHERE EXISTS (SELECT FROM tag WHERE tag.item = sale.item) GROUP BY item'),
('anti_exists', 'SELECT item, count(*) AS n FROM sale WHERE NOT EXISTS (SELECT FROM tag WHERE tag.item = sale.item) GROUP BY item'),
('anti_in', 'SELECT store, count(*) AS n FROM sale WHERE item NOT IN (SELECT item FROM tag WHERE tag = ''t2'') GROUP BY store'),
('anti_left', 'SELECT sale.store, count(*) AS n FROM sale LEFT JOIN store ON store.store = sale.store WHERE store.store IS NULL GROUP BY sale.store'),
('scalar', 'SELECT (SELECT max(region) FROM store WHERE store.store = sale.store) AS region, sum((SELECT count(*) FROM tag WHERE tag.item = sale.item)) AS tags, count(*) AS n FROM sale GROUP BY 1'),
('scalar_where', 'SELECT count(*) AS n FROM sale WHERE amount > (SELECT count(*) FROM tag)'),
('filter_sublink', 'SELECT count(*) FILTER (WHERE store IN (SELECT store FROM open_store)) AS n, count(*) AS total FROM sale'),
('right_join', 'SELECT region, count(*) AS n FROM store RIGHT JOIN sale ON sale.store = store.store GROUP BY region'),
('empty_inner', 'SELECT @w AS w, count(*) AS n FROM sale JOIN nothing USING (store) GROUP BY 1'),
('empty_left', 'SELECT nothing.item, count(*) AS n FROM sale LEFT JOIN nothing USING (store) GROUP BY nothing.item'),
('empty_in', 'SELECT store, count(*) AS n FROM sale WHERE item IN (SELECT item FROM nothing) GROUP BY store'),
('empty_not_in', 'SELECT store, count(*) AS n FROM sale WHERE item NOT IN (SELECT item FROM nothing) GROUP BY store'),
('empty_exists', 'SELECT store, count(*) AS n FROM sale WHERE EXISTS (SELECT FROM nothing) GROUP BY store'),
('const_false', 'SELECT region, count(*) AS n FROM sale JOIN store USING (store) WHERE false GROUP BY region'),
('const_null', 'SELECT store, count(*) AS n FROM sale WHERE NULL::bool GROUP BY store'),
('contradiction', 'SELECT store, count(*) AS n FROM sale WHERE item = 1 AND item = 2 GROUP BY store'),
('left_false', 'SELECT region, count(*) AS n FROM sale LEFT JOIN store ON false GROUP BY region'),
('same_twice', 'SELECT a.region AS a, b.region AS b, count(*) AS n FROM sale JOIN store a USING (store) JOIN store b ON a.opened = b.opened GROUP BY a.region, b.region'),
('no_key', 'SELECT count(*) AS n, sum(amount) AS total FROM sale JOIN tag USING (item)');
UPDATE shape SET query = replace(query, '@w', 'date_bin(''1 hour'', at, ''2024-01-01'')');
SELECT tidemark.create_continuous_view('v_' || name, query, trigger => 'manual') IS NOT NULL AS made, count(*) FROM shape GROUP BY 1;

CREATE PROCEDURE catch_up_all() LANGUAGE plpgsql AS $$
DECLARE
	v regclass;
BEGIN
	FOR v IN SELECT view FROM tidemark.continuous_views WHERE stream = 'sale'::regclass ORDER BY view LOOP
		CALL tidemark.catch_up(v);
	END LOOP;
END $$;
CREATE PROCEDURE fill(first int, last int) LANGUAGE sql AS $$
	INSERT INTO sale SELECT i, CASE WHEN i % 13 > 0 THEN 's' || i % 12 END, nullif(i % 6, 5), i / 8.0,
		CASE WHEN i % 50 > 0 THEN timestamptz '2024-05-01' + i * interval '3 minutes' END
	FROM generate_series(first, last) i
$$;
CALL fill(1, 120);
CALL catch_up_all();
ANALYZE sale, store, tag, nothing;
CALL fill(121, 200);
CALL catch_up_all();
-- the plan that is chosen changes nothing
SET enable_hashjoin = off;
SET enable_mergejoin = off;
CALL fill(201, 300);
CALL catch_up_all();
SET enable_nestloop = off;
RESET enable_mergejoin;
CALL fill(301, 400);
CALL catch_up_all();
SET enable_material = off;
SET enable_memoize = off;
RESET enable_hashjoin;
RESET enable_nestloop;
SET tidemark.batch_memory = '64kB';
SET work_mem = '64kB';
CALL fill(401, 2000);
CALL catch_up_all();
RESET ALL;
SET search_path = joins_test;
SET timezone = 'UTC';
SET client_min_messages = warning;
DO $$
DECLARE
	s shape;
BEGIN
	FOR s IN TABLE shape LOOP
		EXECUTE format('CREATE TABLE %I AS %s', 'o_' || s.name,
			regexp_replace(s.query, '(FROM|JOIN) sale\M', '\1 (SELECT * FROM sale WHERE at IS NOT NULL) sale'));
	END LOOP;
END $$;
TRUNCATE sale;
SELECT name, c.*, f.rows_in, f.null_time, f.filtered, f.late, f.used, f.sums_up, f.watermark = '2024-05-04 03:57' AS watermark
FROM shape, compare(('v_' || name)::regclass, ('o_' || name)::regclass) c, fates(('v_' || name)::regclass) f
ORDER BY name COLLATE "C";

--
-- What is joined later does not change what was joined
--
CREATE TABLE visit (id int, page text, at timestamptz);
SELECT tidemark.create_stream('visit', event_time => 'at', watermark_delay => '10 minutes');
CREATE TABLE page (page text PRIMARY KEY, topic text);
INSERT INTO page VALUES ('a', 'x'), ('b', 'y');
SELECT tidemark.create_continuous_view('per_topic', $$
	SELECT window_start, topic, count(*) AS n, sum(id) AS ids
	FROM visit LEFT JOIN page USING (page), tidemark.tumble(at, '1 hour') WHERE id > 0 GROUP BY window_start, topic
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('per_known_topic', $$
	SELECT window_start, topic, count(*) AS n, sum(id) AS ids
	FROM visit JOIN page USING (page), tidemark.tumble(at, '1 hour') WHERE id > 0 GROUP BY window_start, topic
$$, trigger => 'manual');
INSERT INTO visit VALUES (1, 'a', '2024-05-01 10:00'), (2, 'b', '2024-05-01 10:00'), (4, 'c', '2024-05-01 10:00');
CALL tidemark.catch_up('per_topic');
CALL tidemark.catch_up('per_known_topic');
UPDATE page SET topic = 'z' WHERE page = 'a';
INSERT INTO page VALUES ('c', 'w');
INSERT INTO visit VALUES (8, 'a', '2024-05-01 10:01'), (16, 'b', '2024-05-01 10:01'), (32, 'c', '2024-05-01 10:01');
CALL tidemark.catch_up('per_topic');
CALL tidemark.catch_up('per_known_topic');
SELECT * FROM per_topic ORDER BY topic;
SELECT * FROM per_known_topic ORDER BY topic;
-- a batch sees the table as its own transaction does
BEGIN;
DELETE FROM page;
INSERT INTO visit VALUES (64, 'a', '2024-05-01 10:02');
ROLLBACK;
INSERT INTO visit VALUES (64, 'a', '2024-05-01 10:02');
BEGIN;
UPDATE page SET topic = 'mine';
CALL tidemark.catch_up('per_topic');
SELECT topic, ids FROM per_topic ORDER BY topic;
ROLLBACK;
CALL tidemark.catch_up('per_topic');
CALL tidemark.catch_up('per_known_topic');
SELECT topic, ids FROM per_topic ORDER BY topic;
-- late comes before the join, and WHERE before late
INSERT INTO visit VALUES (128, 'unknown', '2024-05-01 12:20');
CALL tidemark.catch_up('per_topic');
CALL tidemark.catch_up('per_known_topic');
INSERT INTO visit VALUES (256, 'a', '2024-05-01 10:30'), (512, 'unknown', '2024-05-01 10:30'),
	(-1, 'a', '2024-05-01 10:30'), (1024, 'a', '2024-05-01 12:00'), (2048, 'unknown', '2024-05-01 12:00');
CALL tidemark.catch_up('per_topic');
CALL tidemark.catch_up('per_known_topic');
SELECT topic, window_start::time, ids FROM per_topic ORDER BY topic, window_start;
SELECT topic, window_start::time, ids FROM per_known_topic ORDER BY topic, window_start;
SELECT * FROM fates('per_topic');
SELECT * FROM fates('per_known_topic');

-- a table that is used cannot go, a column that is cannot change
\set VERBOSITY terse
DROP TABLE page;
ALTER TABLE page DROP COLUMN topic;
ALTER TABLE page ALTER topic TYPE varchar;
-- renamed it is followed
ALTER TABLE page RENAME topic TO subject;
ALTER TABLE page RENAME TO document;
ALTER TABLE visit RENAME page TO document;
ALTER TABLE visit RENAME TO hit;
INSERT INTO hit VALUES (4096, 'b', '2024-05-01 12:00');
CALL tidemark.catch_up('per_topic');
SELECT topic, window_start::time, ids FROM per_topic WHERE topic = 'y';
-- with CASCADE it takes the view along, whole
DROP TABLE document CASCADE;
SELECT view FROM tidemark.continuous_views WHERE stream = 'hit'::regclass;
SELECT count(*) FROM tidemark.checkpoint WHERE source = 'hit'::regclass;

DROP SCHEMA joins_test CASCADE;
