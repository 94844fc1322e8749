-- Streams: create, alter, drop, and what they add to a table.
\set VERBOSITY default
SET client_min_messages = notice;
SET timezone = 'UTC';
CREATE SCHEMA stream_test;
SET search_path = stream_test;

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

-- the event time of a stream, as Postgres shows it (before 16 with the table's
-- name on each column)
CREATE FUNCTION event_time_of(relation regclass) RETURNS text
LANGUAGE sql AS $$
	SELECT regexp_replace(pg_get_viewdef(definition), '\m' || relname || '\.', '', 'g')
	FROM tidemark.stream s JOIN pg_class c ON c.oid = s.relation
	WHERE s.relation = event_time_of.relation
$$;

CREATE FUNCTION streams() RETURNS SETOF text
LANGUAGE sql AS $$
	SELECT concat_ws(' ', relation, watermark_delay, coalesce(max_future::text, 'infinity'),
					 allow_update, timezone)
	FROM tidemark.stream ORDER BY relation::text
$$;
\pset format unaligned
\pset tuples_only on

--
-- Life of a stream
--
CREATE TABLE sale (store text, amount numeric, sold_at timestamptz NOT NULL);
INSERT INTO sale VALUES ('before', 1, '2026-01-01 10:00');
SELECT relfilenode AS file FROM pg_class WHERE oid = 'sale'::regclass \gset
SELECT tidemark.create_stream('sale', event_time => 'sold_at', watermark_delay => '10 minutes');
SELECT relfilenode = :file AS not_rewritten FROM pg_class WHERE oid = 'sale'::regclass;
INSERT INTO sale VALUES ('after', 1, '2026-01-01 10:01');
SELECT store, CASE WHEN _txid::int8 = 0 THEN 'history' ELSE 'stamped' END FROM sale;
SELECT attname, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid)
FROM pg_attribute LEFT JOIN pg_attrdef ON adrelid = attrelid AND adnum = attnum
WHERE attrelid = 'sale'::regclass AND attnum > 0 ORDER BY attnum;
SELECT pg_get_indexdef('sale__txid_idx'::regclass), indisvalid, indisready
FROM pg_index WHERE indexrelid = 'sale__txid_idx'::regclass;
SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE tgrelid = 'sale'::regclass;
SELECT streams();
SELECT event_time_of('sale');

-- a second time
SELECT refused($$SELECT tidemark.create_stream('sale', 'sold_at')$$);
SELECT tidemark.create_stream('sale', 'sold_at', if_not_exists => true);

-- an UPDATE is refused, one that updates nothing is not
SELECT refused($$UPDATE sale SET amount = 2 WHERE store = 'after'$$);
UPDATE sale SET amount = 2 WHERE store = 'nowhere';
CREATE UNIQUE INDEX sale_store ON sale (store);
INSERT INTO sale VALUES ('upsert', 1, '2026-01-01 10:02')
ON CONFLICT (store) DO UPDATE SET amount = 5;
SELECT refused($$
	INSERT INTO sale VALUES ('upsert', 1, '2026-01-01 10:02')
	ON CONFLICT (store) DO UPDATE SET amount = 5
$$);
MERGE INTO sale USING (VALUES ('merge')) AS v (s) ON store = s
WHEN MATCHED THEN UPDATE SET amount = 6
WHEN NOT MATCHED THEN INSERT (store, amount, sold_at) VALUES (s, 1, '2026-01-01 10:03');
SELECT refused($$
	MERGE INTO sale USING (VALUES ('merge')) AS v (s) ON store = s
	WHEN MATCHED THEN UPDATE SET amount = 6
$$);
SELECT store, amount FROM sale ORDER BY sold_at;
DELETE FROM sale WHERE store = 'merge';

-- unless it is allowed
SELECT tidemark.alter_stream('sale', allow_update => true);
UPDATE sale SET amount = 2 WHERE store = 'after';
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'sale'::regclass;
-- but never of the stamp, as the row would be read again
SELECT refused($$UPDATE sale SET _txid = DEFAULT$$);
SELECT refused($$UPDATE sale SET _txid = NULL, amount = 2$$);
SELECT refused($$WITH u AS (UPDATE sale SET _txid = NULL RETURNING 1) TABLE u$$);
SELECT refused($$
	MERGE INTO sale USING (VALUES ('after')) AS v (s) ON store = s
	WHEN MATCHED THEN UPDATE SET _txid = DEFAULT
$$);
CREATE UNIQUE INDEX sale_upsert ON sale (store, sold_at);
SELECT refused($$
	INSERT INTO sale (store, amount, sold_at) SELECT store, amount, sold_at FROM sale
	ON CONFLICT (store, sold_at) DO UPDATE SET _txid = EXCLUDED._txid
$$);
INSERT INTO sale (store, amount, sold_at) SELECT store, amount, sold_at FROM sale
ON CONFLICT (store, sold_at) DO UPDATE SET amount = EXCLUDED.amount;
DROP INDEX sale_upsert;
SELECT tidemark.alter_stream('sale', allow_update => false);
SELECT refused($$UPDATE sale SET amount = 3 WHERE store = 'after'$$);

-- a positional INSERT after ADD COLUMN is a type error, not a wrong stamp
ALTER TABLE sale ADD COLUMN quantity int;
SELECT refused($$INSERT INTO sale VALUES ('positional', 1, now(), 7)$$);
ALTER TABLE sale DROP COLUMN quantity;

-- other settings
SELECT tidemark.alter_stream('sale', watermark_delay => '1 day');
SELECT tidemark.alter_stream('sale', max_future => 'infinity');
SELECT tidemark.alter_stream('sale', timezone => 'Europe/Berlin');
SELECT streams();
SELECT tidemark.alter_stream('sale', '0', '90 minutes');
SELECT streams();

-- DDL on the table is followed, or refused by Postgres
ALTER TABLE sale RENAME COLUMN sold_at TO at;
ALTER TABLE sale RENAME TO sales;
CREATE SCHEMA stream_test_2;
ALTER TABLE sales SET SCHEMA stream_test_2;
SELECT streams();
SELECT event_time_of('stream_test_2.sales');
ALTER TABLE stream_test_2.sales SET SCHEMA stream_test;
DO $$ BEGIN
	ALTER TABLE sales DROP COLUMN at;
EXCEPTION WHEN dependent_objects_still_exist THEN
	RAISE NOTICE 'refused: DROP COLUMN';
END $$;
DO $$ BEGIN
	ALTER TABLE sales ALTER COLUMN at TYPE timestamp;
EXCEPTION WHEN feature_not_supported THEN
	RAISE NOTICE 'refused: ALTER TYPE';
END $$;
ALTER TABLE sales DROP COLUMN amount;

-- drop_stream leaves the table as it was
SELECT tidemark.drop_stream('sales');
SELECT attname FROM pg_attribute WHERE attrelid = 'sales'::regclass AND attnum > 0 AND NOT attisdropped;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'sales'::regclass;
SELECT count(*) FROM pg_index WHERE indrelid = 'sales'::regclass;
SELECT streams();
SELECT relname FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace AND relname LIKE 'stream%';
SELECT store FROM sales ORDER BY at;
SELECT refused($$SELECT tidemark.drop_stream('sales')$$);
SELECT tidemark.drop_stream('sales', if_exists => true);
SELECT refused($$SELECT tidemark.alter_stream('sales', '1 minute')$$);

-- and it can become one again; DROP TABLE takes all of it along
SELECT tidemark.create_stream('sales', 'at', '1 hour', allow_update => true);
SELECT streams();
DROP TABLE sales;
SELECT streams();
SELECT relname FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace AND relname LIKE 'stream%';

-- a view of the user's on _txid holds the column, unless cascade
CREATE TABLE held (at timestamptz);
SELECT tidemark.create_stream('held', 'at');
CREATE VIEW holds AS SELECT * FROM held;
SELECT refused($$SELECT tidemark.drop_stream('held')$$);
SELECT tidemark.drop_stream('held', cascade => true);
SELECT to_regclass('holds');

-- not in a read-only transaction
BEGIN TRANSACTION READ ONLY;
SELECT refused($$SELECT tidemark.create_stream('held', 'at')$$);
SELECT refused($$SELECT tidemark.alter_stream('held', '1 hour')$$);
SELECT refused($$SELECT tidemark.drop_stream('held')$$);
SELECT refused($$SELECT tidemark.rebase()$$);
ROLLBACK;

-- rolled back
BEGIN;
SELECT tidemark.create_stream('held', 'at');
ROLLBACK;
SELECT streams();
BEGIN;
CREATE TABLE fresh (at timestamptz);
SELECT tidemark.create_stream('fresh', 'at');
INSERT INTO fresh VALUES (now());
DROP TABLE fresh;
COMMIT;
SELECT streams();

-- DROP COLUMN ... CASCADE ends the stream; what is left is named
SELECT tidemark.create_stream('held', 'at');
ALTER TABLE held ADD COLUMN at2 timestamptz;
SET client_min_messages = warning;
ALTER TABLE held DROP COLUMN at CASCADE;
RESET client_min_messages;
SELECT streams();
SELECT refused($$SELECT tidemark.create_stream('held', 'at2')$$);
ALTER TABLE held DROP COLUMN _txid;
SELECT tidemark.create_stream('held', 'at2');
DROP TABLE held;

--
-- Event times
--
CREATE DOMAIN moment AS timestamptz CHECK (value > '1970-01-01');
CREATE TABLE e (
	id int, ms int8, at timestamptz, "Local Time" timestamp, dom moment,
	day date, note text, "max(at)" timestamptz, j jsonb
);
CREATE FUNCTION try(event_time text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
	result text;
	level text := current_setting('client_min_messages');
BEGIN
	PERFORM set_config('client_min_messages', 'warning', true);
	result := refused(format('SELECT tidemark.create_stream(''e'', %L)', event_time));
	IF result = 'accepted' THEN
		result := event_time_of('e');
		PERFORM tidemark.drop_stream('e');
	END IF;
	PERFORM set_config('client_min_messages', level, true);
	RETURN result;
END $$;
SELECT try('at');
SELECT try('AT');
SELECT try('Local Time');
SELECT try('"Local Time"');
SELECT try('dom');
SELECT try('max(at)');
SELECT try('e.at');
SELECT try('to_timestamp(ms / 1000.0)');
SELECT try('"Local Time" AT TIME ZONE ''Europe/Berlin''');
SELECT try('day::timestamp');
SELECT try('greatest(at, dom)');
SELECT try('CASE WHEN id > 0 THEN at ELSE dom END');
SELECT try('(at)');
-- wrong type
SELECT try('id');
SELECT try('ms');
SELECT try('day');
SELECT try('note');
SELECT try('e');
-- not one expression
SELECT try('');
SELECT try('at, dom');
SELECT try('at AS x');
SELECT try('at FROM pg_class');
SELECT try('at WHERE true');
SELECT try('DISTINCT at');
SELECT try('at LIMIT 1');
SELECT try('at; DROP TABLE e');
SELECT try('at)');
SELECT try('*');
-- no such column, function, parameter
SELECT try('sold');
SELECT try('nosuch(at)');
SELECT try('$1');
-- not a function of the row
SELECT try('(SELECT max(at) FROM e)');
SELECT try('max(dom)');
SELECT try('first_value(at) OVER ()');
SELECT try('generate_series(at, dom, interval ''1 day'')');
SELECT try('timestamptz ''2026-01-01''');
SELECT try('make_timestamp(tableoid::int, 1, 1, 1, 1, 1)');
SELECT try('jsonb_populate_record(e, j)::text::timestamp');
-- not immutable
SELECT try('now()');
SELECT try('at + (now() - now())');
SELECT try('note::timestamptz');
SELECT try('"Local Time"::timestamptz');
-- the error is in the text, not in the query
SELECT tidemark.create_stream('e', 'to_timestamp(msec / 1000.0)');

--
-- Tables
--
CREATE TABLE plain (at timestamptz);
CREATE VIEW v AS SELECT * FROM plain;
SELECT refused($$SELECT tidemark.create_stream('v', 'at')$$);
CREATE MATERIALIZED VIEW mv AS SELECT * FROM plain;
SELECT refused($$SELECT tidemark.create_stream('mv', 'at')$$);
CREATE FOREIGN DATA WRAPPER stream_test_wrapper;
CREATE SERVER stream_test_server FOREIGN DATA WRAPPER stream_test_wrapper;
CREATE FOREIGN TABLE ft (at timestamptz) SERVER stream_test_server;
SELECT refused($$SELECT tidemark.create_stream('ft', 'at')$$);
CREATE INDEX plain_at ON plain (at);
SELECT refused($$SELECT tidemark.create_stream('plain_at', 'at')$$);
CREATE SEQUENCE seq;
SELECT refused($$SELECT tidemark.create_stream('seq', 'at')$$);
CREATE TEMPORARY TABLE tt (at timestamptz);
SELECT refused($$SELECT tidemark.create_stream('tt', 'at')$$);
CREATE UNLOGGED TABLE ut (at timestamptz);
SELECT refused($$SELECT tidemark.create_stream('ut', 'at')$$);
SELECT refused($$SELECT tidemark.create_stream('pg_catalog.pg_class', 'relname')$$);
SELECT refused($$SELECT tidemark.create_stream('tidemark.checkpoint', 'updated_at')$$);
CREATE TYPE row_type AS (at timestamptz);
CREATE TABLE typed OF row_type;
SELECT refused($$SELECT tidemark.create_stream('typed', 'at')$$);
CREATE TABLE parent (at timestamptz);
CREATE TABLE child () INHERITS (parent);
SELECT refused($$SELECT tidemark.create_stream('parent', 'at')$$);
SELECT refused($$SELECT tidemark.create_stream('child', 'at')$$);
CREATE TABLE taken (at timestamptz, _txid int8);
SELECT refused($$SELECT tidemark.create_stream('taken', 'at')$$);
SELECT refused($$SELECT tidemark.create_stream('nosuch', 'at')$$);
SELECT refused($$SELECT tidemark.create_stream(1::regclass, 'at')$$);
SELECT refused($$SELECT tidemark.create_stream(NULL, 'at')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', NULL)$$);

--
-- Parameters
--
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', '-1 second')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', '1 month')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', '1 year')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', interval '2147483647 days')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', NULL)$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', max_future => '-1 hour')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', max_future => '1 month')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', max_future => 'soon')$$);
SELECT refused($$SELECT tidemark.create_stream('plain', 'at', timezone => 'Mars/Olympus')$$);
SELECT streams();
SET timezone = 'America/New_York';
SELECT tidemark.create_stream('plain', 'at', '1 day -1 hours', max_future => 'Infinity');
SET timezone = 'UTC';
SELECT streams();
SELECT refused($$SELECT tidemark.alter_stream('plain', '-1 day')$$);
SELECT refused($$SELECT tidemark.alter_stream('plain', max_future => '1 mon')$$);
SELECT refused($$SELECT tidemark.alter_stream('plain', timezone => '')$$);
SELECT refused($$SELECT tidemark.alter_stream(NULL)$$);
SELECT streams();
SELECT tidemark.drop_stream('plain');

--
-- Partitioned tables
--
CREATE TABLE event (id int, at timestamptz) PARTITION BY RANGE (at);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2026-01-01') TO ('2026-02-01');
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2026-02-01') TO ('2026-03-01')
	PARTITION BY HASH (id);
CREATE TABLE event_2_0 PARTITION OF event_2 FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE event_2_1 PARTITION OF event_2 FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO event SELECT i, '2026-01-15'::timestamptz + i * interval '1 day' FROM generate_series(1, 20) i;
SELECT refused($$SELECT tidemark.create_stream('event_1', 'at')$$);
SELECT refused($$SELECT tidemark.create_stream('event_2_0', 'at')$$);
CREATE FOREIGN TABLE event_3 PARTITION OF event FOR VALUES FROM ('2026-03-01') TO ('2026-04-01')
	SERVER stream_test_server;
SELECT refused($$SELECT tidemark.create_stream('event', 'at')$$);
DROP FOREIGN TABLE event_3;
CREATE UNLOGGED TABLE event_3 PARTITION OF event FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
SELECT refused($$SELECT tidemark.create_stream('event', 'at')$$);
DROP TABLE event_3;
SELECT tidemark.create_stream('event', 'at');
CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM ('2026-03-01') TO ('2026-04-01');
INSERT INTO event VALUES (21, '2026-01-05'), (22, '2026-02-05'), (23, '2026-03-05');
SELECT tableoid::regclass, count(*), count(*) FILTER (WHERE _txid::int8 = 0) AS history
FROM event GROUP BY tableoid ORDER BY tableoid::regclass::text COLLATE "C";
SELECT indexrelid::regclass, indisvalid FROM pg_index
WHERE indrelid::regclass::text LIKE 'event%' ORDER BY indexrelid::regclass::text COLLATE "C";
SELECT tgrelid::regclass, tgname FROM pg_trigger
WHERE tgrelid::regclass::text LIKE 'event%' ORDER BY tgrelid::regclass::text COLLATE "C";
SELECT refused($$UPDATE event SET id = 0 WHERE id = 23$$);
SELECT refused($$UPDATE event_2_0 SET id = 0$$);
SET enable_seqscan = off;
SELECT count(*) FROM event WHERE _txid OPERATOR(tidemark.>) '0';
RESET enable_seqscan;
SELECT tidemark.alter_stream('event', allow_update => true);
UPDATE event SET id = 24 WHERE id = 23;
SELECT tidemark.drop_stream('event');
SELECT attrelid::regclass, attname FROM pg_attribute
WHERE attrelid::regclass::text LIKE 'event%' AND attnum > 0 AND NOT attisdropped
ORDER BY attrelid::regclass::text COLLATE "C", attnum;
SELECT tidemark.create_stream('event', 'at');
DROP TABLE event;
SELECT streams();

--
-- Rights
--
CREATE ROLE regress_tide_owner;
CREATE ROLE regress_tide_other;
CREATE ROLE regress_tide_writer;
GRANT USAGE, CREATE ON SCHEMA stream_test TO regress_tide_owner;
GRANT USAGE ON SCHEMA stream_test TO regress_tide_other, regress_tide_writer;
SET ROLE regress_tide_owner;
CREATE TABLE mine (store text, at timestamptz);
GRANT INSERT ON mine TO regress_tide_writer;
GRANT ALL ON mine TO regress_tide_other;
SET ROLE regress_tide_other;
SELECT refused($$SELECT tidemark.create_stream('mine', 'at')$$);
SET ROLE regress_tide_owner;
SELECT tidemark.create_stream('mine', 'at');
SET ROLE regress_tide_other;
SELECT refused($$SELECT tidemark.create_stream('mine', 'at', if_not_exists => true)$$);
SELECT refused($$SELECT tidemark.alter_stream('mine', '1 hour')$$);
SELECT refused($$SELECT tidemark.drop_stream('mine')$$);
INSERT INTO mine VALUES ('all', now());
SET ROLE regress_tide_writer;
INSERT INTO mine VALUES ('insert only', now());
SET ROLE regress_tide_owner;
SELECT count(*) FROM mine WHERE _txid::int8 > 0;
SELECT refused($$SELECT tidemark.rebase()$$);
SELECT refused(format('SELECT * FROM %s', definition))
	= '42501: permission denied for view ' || split_part(definition::text, '.', 2)
FROM (SELECT refobjid, objid::regclass AS definition FROM pg_depend
	  WHERE refobjid = 'mine'::regclass AND deptype = 'a' AND classid = 'pg_class'::regclass
	  AND objid::regclass::text LIKE 'tidemark_data%') d;
SELECT tidemark.alter_stream('mine', '1 hour', allow_update => true);
SELECT tidemark.drop_stream('mine');
-- the caller's code does not run with the rights of the extension's owner
CREATE FUNCTION whoami(at timestamptz) RETURNS bool
LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN RAISE NOTICE 'evaluated as %', current_user; RETURN true; END $$;
CREATE DOMAIN watched AS timestamptz CHECK (whoami(value));
CREATE TYPE pair AS (at watched);
SELECT tidemark.create_stream('mine', $$greatest(at, ('("2026-01-01 00:00+00")'::pair).at)$$);
SELECT tidemark.drop_stream('mine');
RESET ROLE;
DROP OWNED BY regress_tide_owner, regress_tide_other, regress_tide_writer CASCADE;
SELECT streams();
DROP ROLE regress_tide_owner, regress_tide_other, regress_tide_writer;

--
-- DROP EXTENSION leaves the tables
--
CREATE TABLE kept (id int, at timestamptz);
INSERT INTO kept VALUES (1, now());
SELECT tidemark.create_stream('kept', 'at');
INSERT INTO kept VALUES (2, now());
SELECT refused('DROP EXTENSION tidemark') ~ '^2BP01: ';
SET client_min_messages = warning;
BEGIN;
DROP EXTENSION tidemark CASCADE;
SELECT attname FROM pg_attribute WHERE attrelid = 'kept'::regclass AND attnum > 0 AND NOT attisdropped;
SELECT count(*) FROM pg_trigger WHERE tgrelid = 'kept'::regclass;
SELECT id FROM kept ORDER BY id;
CREATE EXTENSION tidemark;
SELECT tidemark.create_stream('kept', 'at');
SELECT streams();
ROLLBACK;
SELECT streams();
DROP SERVER stream_test_server CASCADE;
DROP FOREIGN DATA WRAPPER stream_test_wrapper;
DROP SCHEMA stream_test, stream_test_2 CASCADE;
SELECT relname FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace AND relname LIKE 'stream%';
