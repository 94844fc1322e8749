--
-- However a continuous view goes, nothing of it is left behind; and what
-- must not go alone is refused.
--
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE ROLE regress_drop_owner;
CREATE SCHEMA drop_test;
GRANT ALL ON SCHEMA drop_test TO regress_drop_owner;
SET search_path = drop_test;

-- a stream with n rows and a view on it, that has read some and has more to
-- read in pieces; also a failure and a leaf of it
CREATE PROCEDURE make(stream text, v text) LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE %I (id int, at timestamptz) PARTITION BY RANGE (id)', stream);
	EXECUTE format('CREATE TABLE %I PARTITION OF %I FOR VALUES FROM (0) TO (500)', stream || '_1', stream);
	EXECUTE format('CREATE TABLE %I PARTITION OF %I DEFAULT', stream || '_2', stream);
	EXECUTE format('INSERT INTO %I SELECT i, timestamptz ''2024-05-01'' + i * interval ''1 minute'' FROM generate_series(1, 1000) i', stream);
	PERFORM tidemark.create_stream(stream::regclass, event_time => 'at');
	PERFORM tidemark.create_continuous_view(v, format('SELECT window_start, count(*) AS n
		FROM %I, tidemark.tumble(at, ''1 hour'') GROUP BY window_start', stream), trigger => 'manual');
	COMMIT;
	SET tidemark.piece_blocks = 1;
	BEGIN
		CALL tidemark.catch_up(v::regclass);
	EXCEPTION WHEN division_by_zero THEN
		RAISE;
	END;
	RESET tidemark.piece_blocks;
	COMMIT;
END $$;
-- what the extension holds
CREATE FUNCTION left_behind(OUT objects bigint, OUT streams bigint, OUT views bigint, OUT checkpoints bigint,
	OUT leaves bigint, OUT pieces bigint, OUT batches bigint, OUT failures bigint)
LANGUAGE sql AS $$
	SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace AND relkind IN ('r', 'v')),
		(SELECT count(*) FROM tidemark.stream), (SELECT count(*) FROM tidemark.continuous_view),
		(SELECT count(*) FROM tidemark.checkpoint), (SELECT count(*) FROM tidemark.leaf),
		(SELECT count(*) FROM tidemark.piece), (SELECT count(*) FROM tidemark.batch), (SELECT count(*) FROM tidemark.failure)
$$;
SELECT * FROM left_behind();
CALL make('event', 'v');
SELECT * FROM left_behind();

-- DROP VIEW
BEGIN;
DROP VIEW v;
SELECT * FROM left_behind();
ROLLBACK;
SELECT * FROM left_behind();
CALL tidemark.catch_up('v');
SELECT sum(n) FROM v;
-- a leaf's own position, and a failure
ALTER TABLE event DETACH PARTITION event_1;
INSERT INTO event VALUES (1001, '2024-05-02');
CALL tidemark.catch_up('v');
INSERT INTO tidemark.failure SELECT 'v'::regclass, 1, now(), now(), now(), '22012', 'division by zero', NULL, NULL, NULL;
SELECT * FROM left_behind();
BEGIN;
DROP VIEW v RESTRICT;
SELECT * FROM left_behind();
ROLLBACK;
BEGIN;
DROP VIEW IF EXISTS v, nothing CASCADE;
SELECT * FROM left_behind();
ROLLBACK;

-- drop_continuous_view
BEGIN;
SELECT tidemark.drop_continuous_view('v');
SELECT * FROM left_behind();
ROLLBACK;
CREATE VIEW on_top AS SELECT * FROM v;
\set VERBOSITY terse
SELECT tidemark.drop_continuous_view('v');
DROP VIEW v;
BEGIN;
SELECT tidemark.drop_continuous_view('v', cascade => true);
SELECT * FROM left_behind();
SELECT to_regclass('on_top');
ROLLBACK;
BEGIN;
DROP VIEW v CASCADE;
SELECT * FROM left_behind();
SELECT to_regclass('on_top');
ROLLBACK;
DROP VIEW on_top;

-- dropped while it is read
BEGIN;
DECLARE c CURSOR FOR SELECT * FROM v;
FETCH 1 FROM c;
DO $$ BEGIN DROP VIEW v; EXCEPTION WHEN object_in_use THEN RAISE WARNING 'in use'; END $$;
ROLLBACK;

-- the source: only with CASCADE
DROP TABLE event;
INSERT INTO event VALUES (1002, '2024-05-02');
CALL tidemark.catch_up('v');
DROP TABLE event_2;
CALL tidemark.catch_up('v');
SELECT sum(n) FROM v;
BEGIN;
DROP TABLE event CASCADE;
SELECT * FROM left_behind();
SELECT to_regclass('v');
ROLLBACK;
-- its columns
ALTER TABLE event DROP COLUMN at;
BEGIN;
ALTER TABLE event DROP COLUMN at CASCADE;
SELECT * FROM left_behind();
SELECT to_regclass('v');
ROLLBACK;
-- and the stamp
ALTER TABLE event DROP COLUMN _txid;
BEGIN;
ALTER TABLE event DROP COLUMN _txid CASCADE;
SELECT * FROM left_behind();
CALL tidemark.catch_up('v');
ROLLBACK;
-- a type that is used
CREATE TYPE mood AS ENUM ('ok');
CREATE COLLATION own FROM "C";
ALTER TABLE event ADD COLUMN mood mood;
SELECT tidemark.create_continuous_view('moods', 'SELECT mood, count(*) AS n FROM event GROUP BY mood', trigger => 'manual');
SELECT tidemark.create_continuous_view('best', 'SELECT max(mood) AS best FROM event GROUP BY ARRAY[mood]', trigger => 'manual');
SELECT tidemark.create_continuous_view('collated', 'SELECT mood::text COLLATE own AS mood FROM event GROUP BY 1', trigger => 'manual');
DROP TYPE mood;
DROP COLLATION own;
BEGIN;
DROP TYPE mood CASCADE;
SELECT to_regclass('moods'), to_regclass('best'), to_regclass('collated'), to_regclass('v');
SELECT * FROM left_behind();
ROLLBACK;
BEGIN;
DROP COLLATION own CASCADE;
SELECT to_regclass('moods'), to_regclass('best'), to_regclass('collated'), to_regclass('v');
SELECT * FROM left_behind();
ROLLBACK;
DROP VIEW moods, best, collated;
-- parts of a view
SELECT storage, definition FROM tidemark.continuous_view WHERE view = 'v'::regclass \gset
CREATE FUNCTION try(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN concat_ws(' ', 'done:', CASE WHEN to_regclass('drop_test.v') IS NULL THEN 'view is gone' ELSE 'view is there' END,
		left_behind()::text);
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, '_\d+', '_N', 'g');
END $$;
BEGIN;
SELECT try('DROP TABLE ' || :'storage');
SELECT try('DROP VIEW ' || :'definition');
SELECT try('DROP SCHEMA tidemark_data');
SAVEPOINT s;
SELECT try('DROP TABLE ' || :'storage' || ' CASCADE');
ROLLBACK TO s;
SELECT try('DROP VIEW ' || :'definition' || ' CASCADE');
ROLLBACK TO s;
SELECT try('DROP SCHEMA tidemark_data CASCADE');
ROLLBACK;

-- drop_stream
SELECT tidemark.drop_stream('event');
BEGIN;
SELECT tidemark.drop_stream('event', cascade => true);
SELECT * FROM left_behind();
SELECT to_regclass('v');
\d event
ROLLBACK;
SELECT tidemark.drop_continuous_view('v');
SELECT tidemark.drop_stream('event');
SELECT * FROM left_behind();
DROP TABLE event, event_1;

-- two in one transaction, and made anew under the same name
CALL make('event', 'v');
CALL make('other', 'w');
CREATE TABLE events AS SELECT 1 AS a;
BEGIN;
DROP TABLE event CASCADE;
DROP VIEW w;
SELECT * FROM left_behind();
ROLLBACK;
BEGIN;
DROP VIEW v, w;
SELECT tidemark.create_continuous_view('v', 'SELECT count(*) AS n FROM event', trigger => 'manual');
CALL tidemark.catch_up('v');
TABLE v;
COMMIT;
SELECT * FROM left_behind();
CALL tidemark.catch_up('v');
TABLE v;
DROP TABLE event, other CASCADE;
SELECT * FROM left_behind();

-- DROP SCHEMA: of all, of the view, of the table
CREATE SCHEMA drop_all;
CREATE SCHEMA drop_view;
SET search_path = drop_all, drop_test;
CALL make('event', 'v');
CALL make('kept', 'drop_view.w');
SET search_path = drop_test;
DROP SCHEMA drop_all;
BEGIN;
DROP SCHEMA drop_view CASCADE;
SELECT * FROM left_behind();
CALL tidemark.catch_up('drop_all.v');
ROLLBACK;
DROP SCHEMA drop_all CASCADE;
SELECT * FROM left_behind();
SELECT relname FROM pg_class WHERE relnamespace = 'drop_view'::regnamespace;
DROP SCHEMA drop_view;

-- DROP OWNED, REASSIGN OWNED
SET ROLE regress_drop_owner;
CALL make('event', 'v');
RESET ROLE;
DROP ROLE regress_drop_owner;
CREATE ROLE regress_drop_heir;
GRANT ALL ON SCHEMA drop_test TO regress_drop_heir;
BEGIN;
DROP OWNED BY regress_drop_owner;
SELECT * FROM left_behind();
SELECT to_regclass('event'), to_regclass('v');
ROLLBACK;
REASSIGN OWNED BY regress_drop_owner TO regress_drop_heir;
DROP OWNED BY regress_drop_owner;
DROP ROLE regress_drop_owner;
SET ROLE regress_drop_heir;
INSERT INTO event VALUES (1003, '2024-05-02');
CALL tidemark.catch_up('v');
SELECT sum(n) FROM v;
SELECT view FROM tidemark.continuous_views;
RESET ROLE;
DROP OWNED BY regress_drop_heir;
DROP ROLE regress_drop_heir;
SELECT * FROM left_behind();

-- DROP EXTENSION: the streams stop it, with CASCADE they are tables again
CALL make('event', 'v');
SELECT tidemark.create_continuous_view('final', 'SELECT window_start, count(*) AS n FROM event, tidemark.tumble(at, ''1 hour'')
	GROUP BY window_start', emit => 'final', trigger => 'manual');
SELECT tidemark.create_continuous_view('stateful', 'SELECT avg(id) AS mean, stddev(id) AS spread FROM event', trigger => 'manual');
DROP EXTENSION tidemark;
BEGIN;
DROP EXTENSION tidemark CASCADE;
SELECT to_regclass('v'), to_regclass('final'), to_regclass('stateful'), to_regclass('event');
SELECT nspname FROM pg_namespace WHERE nspname LIKE 'tidemark%';
SELECT attname FROM pg_attribute WHERE attrelid = 'event'::regclass AND attnum > 0 AND NOT attisdropped;
INSERT INTO event VALUES (1, '2024-05-01');
UPDATE event SET id = 2 WHERE id = 1;
CREATE EXTENSION tidemark;
SELECT * FROM left_behind();
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('v', 'SELECT count(*) AS n FROM event', trigger => 'manual');
CALL tidemark.catch_up('v');
TABLE v;
ROLLBACK;
SELECT * FROM left_behind();

DROP SCHEMA drop_test CASCADE;
RESET search_path;
SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace AND relkind IN ('r', 'v');
