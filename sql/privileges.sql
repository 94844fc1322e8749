--
-- Who may do what: owners steer, readers need SELECT on the view alone, and
-- a batch runs with the rights of the view's owner, whoever runs it.
--
SET client_min_messages = warning;
SET timezone = 'UTC';
CREATE ROLE regress_priv_owner;
CREATE ROLE regress_priv_reader;
CREATE ROLE regress_priv_stranger;
CREATE ROLE regress_priv_watcher;
CREATE ROLE regress_priv_group;
CREATE ROLE regress_priv_member;
GRANT regress_priv_group TO regress_priv_member;
GRANT pg_monitor TO regress_priv_watcher;
CREATE SCHEMA priv_test;
GRANT ALL ON SCHEMA priv_test TO PUBLIC;
SET search_path = priv_test;

-- SQLSTATE and message of a statement that fails
CREATE FUNCTION refused(statement text) RETURNS text
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE statement;
	RETURN 'accepted';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE || ': ' || regexp_replace(SQLERRM, '_\d+', '_N', 'g');
END $$;
\pset format unaligned
\pset tuples_only on

SET ROLE regress_priv_owner;
CREATE TABLE sale (store text, secret int, at timestamptz);
SELECT tidemark.create_stream('sale', event_time => 'at');
SELECT tidemark.create_continuous_view('v', 'SELECT store, count(*) AS n, avg(secret) AS mean FROM sale GROUP BY store', trigger => 'manual');
INSERT INTO sale VALUES ('a', 1, '2024-05-01'), ('b', 2, '2024-05-01');
CALL tidemark.catch_up('v');
TABLE v ORDER BY store;

--
-- A stranger can do nothing with it
--
SET ROLE regress_priv_stranger;
SELECT refused('TABLE v');
SELECT refused($$ SELECT tidemark.pause('v') $$);
SELECT refused($$ SELECT tidemark.resume('v') $$);
SELECT refused($$ SELECT tidemark.explain('v') $$);
SELECT refused($$ SELECT tidemark.wait_for('v') $$);
SELECT refused($$ SELECT tidemark.drop_continuous_view('v') $$);
SELECT refused($$ CALL tidemark.catch_up('v') $$);
SELECT refused('DROP VIEW v');
SELECT refused($$ SELECT tidemark.watermark('v') $$);
SELECT count(*) FROM tidemark.continuous_views;
SELECT count(*) FROM tidemark.progress;
SELECT count(*) FROM tidemark.batches;
SELECT count(*) FROM tidemark.streams;
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT count(*) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('v', 'SELECT 1', if_not_exists => true) $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('pg_catalog.stolen', 'SELECT count(*) AS n FROM sale') $$);

--
-- SELECT on the source, or on the columns that are used
--
RESET ROLE;
GRANT SELECT (store, at) ON sale TO regress_priv_stranger;
SET ROLE regress_priv_stranger;
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT sum(secret) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT count(sale) AS n FROM sale') $$);
SELECT tidemark.create_continuous_view('allowed', 'SELECT store, count(*) AS n FROM sale GROUP BY store', trigger => 'manual');
CALL tidemark.catch_up('allowed');
TABLE allowed ORDER BY store;
-- of the tables that are joined, and of what views on them read
RESET ROLE;
CREATE TABLE shop (store text, region text);
INSERT INTO shop VALUES ('a', 'x');
CREATE VIEW shops AS SELECT * FROM shop;
SET ROLE regress_priv_stranger;
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT region, count(*) AS n FROM sale JOIN shop USING (store) GROUP BY region') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT region, count(*) AS n FROM sale JOIN shops USING (store) GROUP BY region') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT count(*) AS n FROM sale WHERE store IN (SELECT store FROM shop)') $$);
RESET ROLE;
GRANT SELECT ON shops TO regress_priv_stranger;
SET ROLE regress_priv_stranger;
SELECT tidemark.create_continuous_view('regions', 'SELECT region, count(*) AS n FROM sale JOIN shops USING (store) GROUP BY region', trigger => 'manual');
CALL tidemark.catch_up('regions');
TABLE regions;
-- of functions and aggregates
RESET ROLE;
CREATE FUNCTION closed(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1';
CREATE AGGREGATE closed_sum(int) (SFUNC = int4pl, STYPE = int, INITCOND = 0, COMBINEFUNC = int4pl);
REVOKE ALL ON FUNCTION closed, closed_sum FROM PUBLIC;
SET ROLE regress_priv_stranger;
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT sum(closed(length(store))) AS n FROM sale') $$);
SELECT refused($$ SELECT tidemark.create_continuous_view('stolen', 'SELECT closed_sum(length(store)) AS n FROM sale') $$);
-- above the aggregates it is checked when the view is read, as in every view
SELECT refused($$ SELECT tidemark.create_continuous_view('closing', 'SELECT closed(count(*)::int) AS n FROM sale', trigger => 'manual') $$);
SELECT refused('TABLE closing');
DROP VIEW closing;

-- rights that were lost stop the view; the position stays
RESET ROLE;
INSERT INTO sale VALUES ('a', 3, '2024-05-01');
REVOKE SELECT (store, at) ON sale FROM regress_priv_stranger;
SELECT refused($$ CALL tidemark.catch_up('allowed') $$);
SET ROLE regress_priv_stranger;
SELECT refused($$ CALL tidemark.catch_up('allowed') $$);
TABLE allowed ORDER BY store;
RESET ROLE;
GRANT SELECT (store, at) ON sale TO regress_priv_stranger;
SET ROLE regress_priv_stranger;
CALL tidemark.catch_up('allowed');
TABLE allowed ORDER BY store;
RESET ROLE;
DROP VIEW allowed, regions;
REVOKE ALL ON sale FROM regress_priv_stranger;

--
-- Readers: SELECT on the view, nothing else
--
SET ROLE regress_priv_owner;
GRANT SELECT ON v TO regress_priv_reader;
SET ROLE regress_priv_reader;
TABLE v ORDER BY store;
SELECT refused('TABLE sale');
SELECT tidemark.watermark('v');
SELECT refused($$ SELECT tidemark.wait_for('v') $$);
SELECT refused($$ CALL tidemark.catch_up('v') $$);
SELECT refused($$ SELECT tidemark.explain('v') $$);
RESET ROLE;
SELECT storage, definition FROM tidemark.continuous_views WHERE view = 'v'::regclass \gset
SET ROLE regress_priv_reader;
SELECT refused('TABLE ' || :'storage');
SELECT refused('TABLE ' || :'definition');
-- a final view reads its checkpoint for the reader
SET ROLE regress_priv_owner;
SELECT tidemark.create_continuous_view('final', 'SELECT window_start, count(*) AS n FROM sale, tidemark.tumble(at, ''1 hour'') GROUP BY window_start',
	trigger => 'manual', emit => 'final');
INSERT INTO sale VALUES ('c', 1, '2024-05-01 02:00');
CALL tidemark.catch_up('final');
GRANT SELECT ON final TO regress_priv_reader;
SET ROLE regress_priv_reader;
TABLE final;
-- monitoring
SET ROLE regress_priv_watcher;
SELECT view FROM tidemark.continuous_views ORDER BY view::text COLLATE "C";
SELECT view, rows_in FROM tidemark.progress ORDER BY view::text COLLATE "C";
SELECT refused('TABLE v');
SELECT refused($$ SELECT tidemark.pause('v') $$);

--
-- The storage is written by batches only, not by its view's owner
--
SET ROLE regress_priv_owner;
SELECT count(*) FROM :storage;
SELECT refused('INSERT INTO ' || :'storage' || ' DEFAULT VALUES');
SELECT refused('UPDATE ' || :'storage' || ' SET v1 = 0');
SELECT refused('DELETE FROM ' || :'storage');
SELECT refused('TRUNCATE ' || :'storage');
SELECT refused('LOCK ' || :'storage' || ' IN ACCESS EXCLUSIVE MODE');
SELECT refused('ALTER TABLE ' || :'storage' || ' ADD COLUMN x int');
SELECT refused('DROP TABLE ' || :'storage');
SELECT refused('CREATE TRIGGER t BEFORE INSERT ON ' || :'storage' || ' FOR EACH ROW EXECUTE FUNCTION tsvector_update_trigger()');
SELECT refused('CREATE RULE r AS ON INSERT TO ' || :'storage' || ' DO INSTEAD NOTHING');
SET client_min_messages = error;
SELECT refused('GRANT SELECT ON ' || :'storage' || ' TO PUBLIC');
SET client_min_messages = warning;
SELECT has_table_privilege('regress_priv_reader', :'storage', 'SELECT');
SELECT refused('TABLE ' || :'definition');
SELECT refused('CREATE OR REPLACE VIEW ' || :'definition' || ' AS SELECT 1');
SELECT refused('ALTER VIEW ' || :'definition' || ' RENAME TO x');
SELECT refused('CREATE TABLE tidemark_data.mine ()');
SELECT refused('CREATE TABLE tidemark.mine ()');
SELECT refused('UPDATE v SET n = 0');
SELECT refused('DELETE FROM v');
SELECT refused('INSERT INTO v VALUES (1)');
SELECT refused('TABLE tidemark.checkpoint');
SELECT refused('DELETE FROM tidemark.continuous_view');
SELECT refused('UPDATE tidemark.checkpoint SET watermark = now()');
SELECT refused('SELECT tidemark.rebase()');
SELECT refused($$ SELECT nextval('tidemark.object_id') $$);
-- nobody makes a state by hand
SELECT refused($$ SELECT 'x'::tidemark.state $$);
SELECT refused($$ SELECT '\x00'::bytea::tidemark.state $$);

--
-- A batch that another runs has the owner's rights, not the caller's
--
SET ROLE regress_priv_owner;
CREATE FUNCTION who(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1 || current_user; END';
CREATE FUNCTION steal(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN RETURN (SELECT count(*) FROM priv_test.vault); END';
CREATE FUNCTION become(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN EXECUTE ''RESET ROLE''; RETURN 1; END';
CREATE FUNCTION set_role(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS $$ BEGIN PERFORM set_config('role', 'none', false); RETURN 1; END $$;
CREATE FUNCTION set_user(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS $$ BEGIN PERFORM set_config('session_authorization', 'default', false); RETURN 1; END $$;
CREATE FUNCTION set_path(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS $$ BEGIN PERFORM set_config('search_path', 'stolen', false); RETURN 1; END $$;
CREATE FUNCTION authorize(text) RETURNS int LANGUAGE plpgsql IMMUTABLE
	AS 'BEGIN SET SESSION AUTHORIZATION DEFAULT; RETURN 1; END';
SELECT tidemark.create_continuous_view('who_ran', 'SELECT who(store) AS who, count(*) AS n FROM sale GROUP BY 1', trigger => 'manual');
SELECT tidemark.create_continuous_view('thief', 'SELECT sum(steal(store)) AS n FROM sale', trigger => 'manual');
SELECT tidemark.create_continuous_view('climber', 'SELECT sum(become(store)) AS n FROM sale', trigger => 'manual');
SELECT tidemark.create_continuous_view(f || '_view', format('SELECT sum(%s(store)) AS n FROM sale', f), trigger => 'manual')
FROM unnest('{set_role,set_user,set_path}'::text[]) f;
SELECT tidemark.create_continuous_view('impostor', 'SELECT sum(authorize(store)) AS n FROM sale', trigger => 'manual');
RESET ROLE;
CREATE TABLE vault (gold int);
SELECT refused($$ CALL tidemark.catch_up('who_ran') $$);
TABLE who_ran ORDER BY who;
SELECT refused($$ CALL tidemark.catch_up('thief') $$);
SELECT refused($$ CALL tidemark.catch_up('climber') $$);
SELECT refused($$ CALL tidemark.catch_up('impostor') $$);
SELECT f, refused(format('CALL tidemark.catch_up(%L)', f || '_view')) FROM unnest('{set_role,set_user,set_path}'::text[]) f;
SELECT current_user = session_user AS myself, current_setting('search_path');
-- expressions above the aggregates run with the rights of the reader, as in
-- every view
SET ROLE regress_priv_owner;
SELECT tidemark.create_continuous_view('who_reads', 'SELECT who(max(store)) AS who FROM sale', trigger => 'manual');
CALL tidemark.catch_up('who_reads');
GRANT SELECT ON who_reads TO regress_priv_reader;
SET ROLE regress_priv_reader;
TABLE who_reads;

-- what search_path has before pg_catalog, and what sits in the way, is not run
SET ROLE regress_priv_owner;
SELECT tidemark.create_continuous_view('plain', 'SELECT sum(length(store)) AS n FROM sale WHERE length(store) = 1', trigger => 'manual');
SET ROLE regress_priv_stranger;
CREATE FUNCTION length(text) RETURNS int LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE FUNCTION int4eq_evil(int, int) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RAISE EXCEPTION ''hijacked''; END';
CREATE OPERATOR = (LEFTARG = int, RIGHTARG = int, FUNCTION = int4eq_evil);
SET search_path = priv_test, pg_catalog;
RESET ROLE;
CALL tidemark.catch_up('plain');
TABLE plain;
SELECT tidemark.pause('plain');
SELECT tidemark.resume('plain');
SELECT count(*) FROM tidemark.progress WHERE view OPERATOR(pg_catalog.=) 'plain'::regclass;
DROP VIEW plain;
SET search_path = priv_test;
DROP OPERATOR priv_test.= (int, int);
DROP FUNCTION priv_test.length(text);

-- row level security is that of the owner
RESET ROLE;
CREATE TABLE guarded (id int, at timestamptz);
ALTER TABLE guarded ENABLE ROW LEVEL SECURITY;
CREATE POLICY p ON guarded USING (id < 10);
SELECT tidemark.create_stream('guarded', event_time => 'at');
GRANT SELECT ON guarded TO regress_priv_owner;
CREATE FUNCTION leak(id int) RETURNS bool LANGUAGE plpgsql IMMUTABLE COST 0.0001
	AS $$ BEGIN IF id >= 10 THEN RAISE WARNING 'leaked: %', id; END IF; RETURN true; END $$;
SELECT tidemark.create_continuous_view('unguarded_view', 'SELECT count(*) AS n FROM guarded', trigger => 'manual');
SET ROLE regress_priv_owner;
SELECT tidemark.create_continuous_view('guarded_view', 'SELECT count(*) AS n FROM guarded WHERE leak(id)', trigger => 'manual');
SELECT tidemark.create_continuous_view('guarded_join', 'SELECT count(*) AS n FROM guarded JOIN (VALUES (5), (15)) v (id) USING (id) WHERE leak(id)',
	trigger => 'manual');
RESET ROLE;
INSERT INTO guarded SELECT i, '2024-05-01' FROM generate_series(1, 20) i;
CALL tidemark.catch_up('unguarded_view');
CALL tidemark.catch_up('guarded_view');
SET row_security = off;
CALL tidemark.catch_up('guarded_join');
RESET row_security;
TABLE unguarded_view;
TABLE guarded_view;
TABLE guarded_join;
SELECT view, rows_in, rows_filtered, rows_used FROM tidemark.progress WHERE view::text LIKE '%guarded%' ORDER BY view::text COLLATE "C";

--
-- Members of the owner, and superusers, steer as the owner does
--
CREATE TABLE shared (id int, at timestamptz);
ALTER TABLE shared OWNER TO regress_priv_group;
SET ROLE regress_priv_member;
SELECT tidemark.create_stream('shared', event_time => 'at');
SET ROLE regress_priv_group;
SELECT tidemark.create_continuous_view('shared_view', 'SELECT count(*) AS n FROM shared', trigger => 'manual');
SET ROLE regress_priv_member;
INSERT INTO shared VALUES (1, '2024-05-01');
CALL tidemark.catch_up('shared_view');
TABLE shared_view;
SELECT tidemark.pause('shared_view');
SELECT tidemark.resume('shared_view');
SELECT count(*) > 5 AS lines FROM tidemark.explain('shared_view');
SELECT view FROM tidemark.progress;

--
-- A new owner: his rights, his storage, and nobody else's
--
RESET ROLE;
ALTER VIEW shared_view OWNER TO regress_priv_stranger;
SELECT storage FROM tidemark.continuous_view WHERE view = 'shared_view'::regclass \gset
SELECT role, has_table_privilege(role, :'storage', 'SELECT') FROM unnest('{regress_priv_group,regress_priv_stranger}'::text[]) role;
SET ROLE regress_priv_stranger;
TABLE shared_view;
SET ROLE regress_priv_group;
SELECT refused('TABLE shared_view');
SELECT refused($$ CALL tidemark.catch_up('shared_view') $$);
-- he has no right on the stream
INSERT INTO shared VALUES (2, '2024-05-01');
SET ROLE regress_priv_stranger;
SELECT refused($$ CALL tidemark.catch_up('shared_view') $$);
SET ROLE regress_priv_group;
GRANT SELECT ON shared TO regress_priv_stranger;
SET ROLE regress_priv_stranger;
CALL tidemark.catch_up('shared_view');
TABLE shared_view;
-- rights that were taken from him come back with the next batch
RESET ROLE;
REVOKE ALL ON :storage FROM regress_priv_stranger;
INSERT INTO shared VALUES (3, '2024-05-01');
CALL tidemark.catch_up('shared_view');
SET ROLE regress_priv_stranger;
TABLE shared_view;
RESET ROLE;
-- a superuser, and back
ALTER TABLE shared_view OWNER TO CURRENT_USER;
TABLE shared_view;
ALTER VIEW shared_view OWNER TO regress_priv_group;
SET ROLE regress_priv_group;
TABLE shared_view;
RESET ROLE;

DROP SCHEMA priv_test CASCADE;
DROP ROLE regress_priv_owner, regress_priv_reader, regress_priv_stranger, regress_priv_watcher, regress_priv_member, regress_priv_group;
