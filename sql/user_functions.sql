--
-- Functions of the user that a batch calls, and what they may do meanwhile
--
CREATE SCHEMA user_functions;
SET search_path = user_functions;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE TABLE sale (store text, amount int, sold_at timestamptz NOT NULL);
SELECT tidemark.create_stream('sale', event_time => 'sold_at', watermark_delay => '1 day');

-- a query of the stream in a function is an ordinary one, whether the function
-- is called when the batch is planned, when it runs, or is inlined
CREATE FUNCTION sales_folded() RETURNS bigint LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN (SELECT count(*) FROM user_functions.sale); END';
CREATE FUNCTION sales_called(text) RETURNS bigint LANGUAGE plpgsql STABLE
	AS 'BEGIN RETURN (SELECT count(*) FROM user_functions.sale s WHERE s.store = $1); END';
CREATE FUNCTION sales_inlined(text) RETURNS TABLE (sales bigint) LANGUAGE sql STABLE
	AS 'SELECT count(*) FROM user_functions.sale s WHERE s.store = $1';
SELECT tidemark.create_continuous_view('folded', $$
	SELECT store, count(*) AS n FROM sale WHERE sales_folded() > 0 GROUP BY store
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('called', $$
	SELECT store, count(*) AS n, max(sales_called(store)) AS sales FROM sale GROUP BY store
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('inlined', $$
	SELECT store, count(*) AS n, max(sales) AS sales FROM sale, sales_inlined(store) GROUP BY store
$$, trigger => 'manual');
INSERT INTO sale SELECT 's' || i % 2, i, timestamptz '2024-05-01' + i * interval '1 min'
FROM generate_series(1, 10) i;
CALL tidemark.catch_up('folded');
CALL tidemark.catch_up('called');
CALL tidemark.catch_up('inlined');
INSERT INTO sale SELECT 's' || i % 2, i, timestamptz '2024-05-01' + i * interval '1 min'
FROM generate_series(1, 4) i;
CALL tidemark.catch_up('folded');
CALL tidemark.catch_up('called');
CALL tidemark.catch_up('inlined');
SELECT * FROM folded ORDER BY store;
SELECT * FROM called ORDER BY store;
SELECT * FROM inlined ORDER BY store;
SELECT view, rows_in, rows_used FROM tidemark.progress
WHERE view IN ('folded'::regclass, 'called'::regclass, 'inlined'::regclass) ORDER BY view::text;
-- nor did the plans that were made in a batch stay with the functions
SELECT sales_called('s0'), sales_folded();

-- a batch inside of a batch would read its rows twice
CREATE FUNCTION run(v text) RETURNS int LANGUAGE plpgsql
	AS 'BEGIN EXECUTE format(''CALL tidemark.catch_up(%L)'', v); RETURN 1; END';
CREATE FUNCTION run_anyway(v text, amount int) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN user_functions.run(v); END';
CREATE FUNCTION try_to_run(v text, amount int) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN user_functions.run(v); EXCEPTION WHEN object_in_use THEN RETURN 0; END';
SELECT tidemark.create_continuous_view('recursive', $$
	SELECT count(*) AS n, sum(run_anyway('user_functions.recursive', amount)) AS s FROM sale
$$, trigger => 'manual');
SELECT tidemark.create_continuous_view('other', $$
	SELECT count(*) AS n, sum(try_to_run('user_functions.called', amount)) AS s FROM sale
$$, trigger => 'manual');
\set VERBOSITY terse
CALL tidemark.catch_up('recursive');
CALL tidemark.catch_up('other');
SELECT * FROM recursive;
SELECT * FROM other;

-- rows are given a stamp with the rights of the table's owner, as the
-- expressions of its indexes are his; rows so large that a new version is on
-- another page, and needs a new entry in every index
CREATE ROLE regress_indexer;
CREATE TABLE seen (role name, is_superuser bool);
GRANT USAGE, CREATE ON SCHEMA user_functions TO regress_indexer;
GRANT INSERT ON seen TO regress_indexer;
SET ROLE regress_indexer;
CREATE TABLE event (id int, at timestamptz NOT NULL, pad text DEFAULT repeat('x', 5000));
ALTER TABLE event ALTER pad SET STORAGE PLAIN;
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('events', 'SELECT count(*) AS n FROM event',
	trigger => 'manual');
CREATE FUNCTION look(int) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO user_functions.seen
		SELECT current_user, rolsuper FROM pg_roles WHERE rolname = current_user;
	RETURN $1;
END $$;
CREATE FUNCTION indexed(int) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN user_functions.look($1); END';
CREATE INDEX ON event (indexed(id));
COPY event (id, at, _txid) FROM stdin;
1	2024-05-01	\N
\.
RESET ROLE;
TRUNCATE seen;
CALL tidemark.catch_up('events');
SELECT * FROM events;
SELECT DISTINCT * FROM seen;

-- what the progress needs, a snapshot of its own, is not to be had in a plan
-- that runs in parallel
CREATE TABLE large AS SELECT i FROM generate_series(1, 1000) i;
SET min_parallel_table_scan_size = 0;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SELECT count(*) FROM large;
SELECT view, backlog_bytes, (SELECT count(*) FROM large) AS n FROM tidemark.progress
WHERE view = 'events'::regclass;

DROP SCHEMA user_functions CASCADE;
DROP ROLE regress_indexer;
