--
-- Creating and steering continuous views: what the functions answer, and
-- every error they know.
--
CREATE SCHEMA steer_test;
SET search_path = steer_test;
SET timezone = 'UTC';
SET client_min_messages = notice;

-- SQLSTATE, message, detail and hint of a statement that fails
CREATE FUNCTION refused(statement text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	message text;
	detail text;
	hint text;
BEGIN
	EXECUTE statement;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS message = MESSAGE_TEXT,
		detail = PG_EXCEPTION_DETAIL, hint = PG_EXCEPTION_HINT;
	RETURN concat_ws(E'\n', SQLSTATE || ': ' || message,
					 '  ' || nullif(detail, ''), '  ' || nullif(hint, ''));
END $$;
CREATE FUNCTION refused_with(parameters text) RETURNS text LANGUAGE sql AS $$
	SELECT refused(format('SELECT tidemark.create_continuous_view(''refused'',
		''SELECT count(*) AS n FROM steer_test.sale'', %s)', parameters))
$$;
CREATE TABLE sale (store text, amount numeric, at timestamptz NOT NULL);
CREATE TABLE plain (a int);
CREATE VIEW plain_view AS SELECT a FROM plain;
SELECT tidemark.create_stream('sale', event_time => 'at');
\pset format unaligned
\pset tuples_only on

--
-- create_continuous_view: parameters (the query: see refusals)
--
SELECT refused($$ SELECT tidemark.create_continuous_view(NULL, 'SELECT 1') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('v', NULL) $$);
SELECT refused_with('trigger => NULL');
SELECT refused_with('emit => NULL');
SELECT refused_with('start => NULL');
SELECT refused_with('if_not_exists => NULL');
SELECT refused_with($$ trigger => 'sometimes' $$);
SELECT refused_with($$ trigger => '' $$);
SELECT refused_with($$ trigger => '0' $$);
SELECT refused_with($$ trigger => '999 microseconds' $$);
SELECT refused_with($$ trigger => '-1 second' $$);
SELECT refused_with($$ trigger => '1 month' $$);
SELECT refused_with($$ trigger => '1000000000 days' $$);
SELECT refused_with($$ emit => 'append' $$);
SELECT refused_with($$ emit => 'final' $$);
SELECT refused_with($$ watermark_delay => '-1 second' $$);
SELECT refused_with($$ watermark_delay => '1 month' $$);
SELECT refused_with($$ start => 'yesterday noon or so' $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('a.b.c.d', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('nowhere.v', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('a b', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('pg_temp.v', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('tidemark.v', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('tidemark_data.v', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('pg_catalog.v', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('plain', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('plain', 'SELECT count(*) AS n FROM sale', if_not_exists => true) $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('v', 'SELECT nonsense FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('v', 'SELECT count(*) AS n FROM nowhere') $$);
-- nothing is left of them
SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace
	AND relname !~ '^stream';

--
-- what is accepted
--
SELECT tidemark.create_continuous_view('v', 'SELECT store, count(*) AS n FROM sale GROUP BY store', trigger => 'manual');
SELECT refused($$ SELECT tidemark.create_continuous_view('v', 'SELECT count(*) AS n FROM sale') $$);
SELECT tidemark.create_continuous_view('v', 'SELECT nonsense', if_not_exists => true, trigger => 'nonsense');
SELECT tidemark.create_continuous_view('steer_test."Quoted ""View"""', 'SELECT "store" AS "Its ""Store""", count(*) AS "N" FROM sale GROUP BY 1',
	trigger => 'MANUAL');
SELECT tidemark.create_continuous_view(name => 'each_hour', query => 'SELECT count(*) AS n FROM sale',
	trigger => '1 hour', watermark_delay => '36 hours', emit => 'Update', start => 'earliest');
SELECT tidemark.create_continuous_view('at_commit', 'SELECT count(*) AS n FROM sale', 'Commit');
SELECT view, stream, trigger, emit, watermark_delay, paused FROM tidemark.continuous_views
WHERE stream = 'sale'::regclass ORDER BY view::text COLLATE "C";
INSERT INTO sale VALUES ('a', 1, '2024-05-01 12:00'), ('b', 2, '2024-05-01 12:00');
CALL tidemark.catch_up('v');
CALL tidemark.catch_up('"Quoted ""View"""');
CALL tidemark.catch_up('each_hour');
TABLE v ORDER BY store;
SELECT "Its ""Store""", "N" FROM "Quoted ""View""" ORDER BY 1;
TABLE each_hour;
-- the query ends in a semicolon, has comments, and is a prefix of nothing
SELECT tidemark.create_continuous_view('commented', $$ -- a comment
	SELECT count(*) /* inner */ AS n FROM sale; -- and another $$, trigger => 'manual');
-- in a transaction that fails nothing is left; in one that commits the view works
BEGIN;
SELECT tidemark.create_continuous_view('rolled_back', 'SELECT count(*) AS n FROM sale', trigger => 'manual');
CALL tidemark.catch_up('rolled_back');
TABLE rolled_back;
ROLLBACK;
SELECT refused('TABLE rolled_back');
BEGIN;
CREATE TABLE fresh (id int, at timestamptz);
INSERT INTO fresh VALUES (1, '2024-05-01');
SELECT tidemark.create_stream('fresh', event_time => 'at');
INSERT INTO fresh VALUES (2, '2024-05-01');
SELECT tidemark.create_continuous_view('fresh_view', 'SELECT count(*) AS n, sum(id) AS ids FROM fresh', trigger => 'manual');
INSERT INTO fresh VALUES (4, '2024-05-01');
CALL tidemark.catch_up('fresh_view');
COMMIT;
CALL tidemark.catch_up('fresh_view');
TABLE fresh_view;

--
-- what is no continuous view
--
SELECT function, refused(format(statement, v)) FROM (VALUES
	('pause', 'SELECT tidemark.pause(%L)'), ('resume', 'SELECT tidemark.resume(%L)'),
	('watermark', 'SELECT tidemark.watermark(%L)'), ('explain', 'SELECT tidemark.explain(%L)'),
	('drop', 'SELECT tidemark.drop_continuous_view(%L)'), ('catch_up', 'CALL tidemark.catch_up(%L)'),
	('wait_for', 'SELECT tidemark.wait_for(%L)')) f (function, statement),
	(VALUES ('plain_view'), ('plain'), ('nowhere'), ('12345678')) v (v);
SELECT tidemark.pause(NULL) IS NULL, tidemark.resume(NULL) IS NULL, tidemark.watermark(NULL) IS NULL,
	tidemark.wait_for(NULL) IS NULL, (SELECT count(*) FROM tidemark.explain(NULL));
SELECT refused('CALL tidemark.catch_up(NULL)');
SELECT refused('SELECT tidemark.drop_continuous_view(NULL)');
SELECT refused($$ SELECT tidemark.drop_continuous_view('v', NULL) $$);

--
-- pause, resume
--
SELECT tidemark.pause('v');
SELECT paused FROM tidemark.continuous_views WHERE view = 'v'::regclass;
SELECT tidemark.pause('v');
INSERT INTO sale VALUES ('a', 1, '2024-05-01 12:00');
SELECT refused($$ CALL tidemark.catch_up('v') $$);
SELECT refused($$ SELECT tidemark.wait_for('v') $$);
TABLE v ORDER BY store;
SELECT tidemark.watermark('v');
SELECT tidemark.resume('v');
SELECT tidemark.resume('v');
SELECT refused($$ SELECT tidemark.wait_for('v') $$);
CALL tidemark.catch_up('v');
TABLE v ORDER BY store;
-- a pause that is rolled back was none
BEGIN;
SELECT tidemark.pause('v');
ROLLBACK;
INSERT INTO sale VALUES ('a', 1, '2024-05-01 12:00');
CALL tidemark.catch_up('v');
TABLE v ORDER BY store;

--
-- wait_for
--
SELECT refused($$ SELECT tidemark.wait_for('at_commit', '-1 second') $$);
SELECT refused($$ SELECT tidemark.wait_for('at_commit', '1 month') $$);
SELECT tidemark.wait_for('at_commit', NULL) IS NULL;
SELECT tidemark.wait_for('at_commit');
TABLE at_commit;
INSERT INTO sale VALUES ('c', 1, '2024-05-01 12:00');
SELECT tidemark.wait_for('at_commit', timeout => '5 minutes');
TABLE at_commit;
-- what is not committed is not waited for
BEGIN;
INSERT INTO sale VALUES ('d', 1, '2024-05-01 12:00');
SELECT tidemark.wait_for('at_commit');
TABLE at_commit;
ROLLBACK;
SELECT tidemark.pause('at_commit');
INSERT INTO sale VALUES ('e', 1, '2024-05-01 12:00');
SELECT refused($$ SELECT tidemark.wait_for('at_commit') $$);
SELECT tidemark.resume('at_commit');
SELECT tidemark.wait_for('at_commit');
TABLE at_commit;
-- not in time, as nobody runs it: the resume is not committed
SELECT tidemark.pause('at_commit');
INSERT INTO sale VALUES ('f', 1, '2024-05-01 12:00');
BEGIN;
SELECT tidemark.resume('at_commit');
SELECT tidemark.wait_for('at_commit', '10 milliseconds');
SELECT tidemark.wait_for('at_commit', '0');
CALL tidemark.catch_up('at_commit');
SELECT tidemark.wait_for('at_commit', '0');
ROLLBACK;
TABLE at_commit;
SELECT tidemark.resume('at_commit');
-- a view that failed says so, whether before or while it is waited for
SELECT tidemark.create_continuous_view('inverse', 'SELECT sum(1 / amount)::int AS total FROM sale', trigger => 'commit');
SELECT tidemark.wait_for('inverse');
INSERT INTO sale VALUES ('zero', 0, '2024-05-01 12:00');
SELECT refused($$ SELECT tidemark.wait_for('inverse') $$);
SELECT view, sqlstate, message FROM tidemark.failures;
SELECT tidemark.wait_for('at_commit');
TABLE at_commit;
-- mended, and tried at once
DELETE FROM sale WHERE amount = 0;
SELECT tidemark.pause('inverse');
SELECT tidemark.resume('inverse');
SELECT tidemark.wait_for('inverse');
SELECT count(*) FROM tidemark.failures;
-- what is run by hand is no failure of the view: the caller has the error
INSERT INTO sale VALUES ('zero', 0, '2024-05-01 12:00');
SELECT tidemark.create_continuous_view('inverse_by_hand', 'SELECT sum(1 / amount) AS total FROM sale', trigger => 'manual');
SELECT refused($$ CALL tidemark.catch_up('inverse_by_hand') $$);
SELECT count(*) FROM tidemark.failures WHERE view = 'inverse_by_hand'::regclass;
DROP VIEW inverse, inverse_by_hand;
SELECT count(*) FROM tidemark.failures;

--
-- catch_up: where it can be called
--
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT refused($$ CALL tidemark.catch_up('v') $$);
ROLLBACK;
BEGIN ISOLATION LEVEL SERIALIZABLE;
SELECT refused($$ CALL tidemark.catch_up('v') $$);
ROLLBACK;
BEGIN READ ONLY;
SELECT refused($$ CALL tidemark.catch_up('v') $$);
ROLLBACK;
-- whatever the session's default is, outside of a block
SET default_transaction_isolation = 'serializable';
CALL tidemark.catch_up('v');
RESET default_transaction_isolation;
SET default_transaction_read_only = on;
\set VERBOSITY terse
CALL tidemark.catch_up('v');
\set VERBOSITY default
RESET default_transaction_read_only;
SELECT refused('SELECT tidemark.catch_up(''v'')');
-- from functions, procedures and DO, atomic or not
CREATE PROCEDURE twice(v regclass) LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO sale VALUES ('x', 1, '2024-05-01 12:00');
	COMMIT;
	CALL tidemark.catch_up(v);
	INSERT INTO sale VALUES ('x', 1, '2024-05-01 12:00');
	COMMIT;
	CALL tidemark.catch_up(v);
END $$;
CALL twice('v');
SELECT n FROM v WHERE store = 'x';
BEGIN;
INSERT INTO sale VALUES ('y', 1, '2024-05-01 12:00');
COMMIT;
CREATE FUNCTION once(v regclass) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
	CALL tidemark.catch_up(v);
	RETURN (SELECT n FROM v WHERE store = 'y');
END $$;
SELECT once('v');
DO $$ BEGIN CALL tidemark.catch_up('steer_test.v'); END $$;
DO $$
BEGIN
	INSERT INTO sale VALUES ('z', 1, '2024-05-01 12:00');
	COMMIT;
	BEGIN
		CALL tidemark.catch_up('steer_test.v');
		RAISE EXCEPTION 'undone';
	EXCEPTION WHEN raise_exception THEN
		NULL;
	END;
END $$;
SELECT count(*) FROM v WHERE store = 'z';
CALL tidemark.catch_up('v');
SELECT n FROM v WHERE store = 'z';

--
-- explain
--
CREATE FUNCTION explained(view regclass) RETURNS SETOF text LANGUAGE sql AS $$
	SELECT regexp_replace(line, '_\d+', '_N', 'g') FROM tidemark.explain(view) line WHERE line !~ '^position'
$$;
CREATE TABLE store (store text, region text);
SELECT tidemark.create_continuous_view('explained_view', $$
	SELECT window_start, upper(region) AS region, sum(amount) / count(*) AS mean, max(amount) FILTER (WHERE amount > 0) AS most
	FROM sale LEFT JOIN store USING (store), tidemark.tumble(at, '1 hour')
	WHERE amount IS NOT NULL GROUP BY window_start, upper(region) HAVING count(*) > 1
$$, trigger => '90 seconds', emit => 'final', watermark_delay => '1 hour');
SELECT explained('explained_view');
SELECT explained('v');
SELECT v, regexp_replace(line, 'position: [0-9:,]+,', 'position: N,') FROM unnest('{v,commented}'::regclass[]) v, tidemark.explain(v) line
WHERE line ~ '^position';

--
-- renamed, moved, given to somebody else: the view is followed
--
CREATE SCHEMA steer_other;
ALTER VIEW v RENAME TO w;
ALTER VIEW w SET SCHEMA steer_other;
ALTER VIEW steer_other.w RENAME COLUMN n TO number;
ALTER TABLE sale RENAME TO sold;
ALTER TABLE sold RENAME COLUMN store TO shop;
ALTER TABLE sold RENAME COLUMN at TO sold_at;
ALTER TABLE sold SET SCHEMA steer_other;
INSERT INTO steer_other.sold VALUES ('a', 1, '2024-05-01 12:00');
CALL tidemark.catch_up('steer_other.w');
SELECT * FROM steer_other.w WHERE store = 'a';
CALL tidemark.catch_up('explained_view');
SELECT explained('steer_other.w');
ALTER SCHEMA steer_other RENAME TO steer_third;
INSERT INTO steer_third.sold VALUES ('a', 1, '2024-05-01 12:00');
CALL tidemark.catch_up('steer_third.w');
SELECT * FROM steer_third.w WHERE store = 'a';
SELECT view, stream FROM tidemark.continuous_views WHERE view = 'steer_third.w'::regclass;
-- columns that are not used come and go; those that are do not
ALTER TABLE steer_third.sold ADD COLUMN note text DEFAULT 'none';
INSERT INTO steer_third.sold (shop, amount, sold_at) VALUES ('a', 1, '2024-05-01 12:00');
CALL tidemark.catch_up('steer_third.w');
ALTER TABLE steer_third.sold DROP COLUMN note;
INSERT INTO steer_third.sold VALUES ('a', 1, '2024-05-01 12:00');
CALL tidemark.catch_up('steer_third.w');
SELECT * FROM steer_third.w WHERE store = 'a';
SELECT refused('ALTER TABLE steer_third.sold DROP COLUMN shop');
SELECT regexp_replace(refused('ALTER TABLE steer_third.sold ALTER COLUMN amount TYPE float8'), '_\d+', '_N');
-- options of a view are the user's
ALTER VIEW steer_third.w SET (security_barrier = true);
COMMENT ON VIEW steer_third.w IS 'mine';
ALTER VIEW steer_third.w ALTER COLUMN number SET DEFAULT 1;
CALL tidemark.catch_up('steer_third.w');
-- states of another definition, or of another server, are not gone on with
UPDATE tidemark.continuous_view SET fingerprint = fingerprint + 1 WHERE view = 'steer_third.w'::regclass;
INSERT INTO steer_third.sold VALUES ('a', 1, '2024-05-01 12:00');
SELECT refused('CALL tidemark.catch_up(''steer_third.w'')');
UPDATE tidemark.continuous_view SET fingerprint = fingerprint - 1, server_major = 9 WHERE view = 'steer_third.w'::regclass;
SELECT refused('CALL tidemark.catch_up(''steer_third.w'')');
UPDATE tidemark.continuous_view SET server_major = current_setting('server_version_num')::int / 10000
	WHERE view = 'steer_third.w'::regclass;
CALL tidemark.catch_up('steer_third.w');

SET client_min_messages = warning;
DROP SCHEMA steer_test, steer_third CASCADE;
SELECT count(*) FROM tidemark.continuous_view;
