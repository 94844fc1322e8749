--
-- DDL that would make a stream unreadable or a view show something else
--
CREATE SCHEMA odd_ddl;
SET search_path = odd_ddl;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE TABLE store (store text, region text);
CREATE TABLE sale (store text, amount int, sold_at timestamptz NOT NULL);
CREATE TABLE part (store text, sold_at timestamptz NOT NULL) PARTITION BY LIST (store);
CREATE TABLE part_a PARTITION OF part FOR VALUES IN ('a');
SELECT tidemark.create_stream('sale', event_time => 'sold_at');
SELECT tidemark.create_stream('part', event_time => 'sold_at');
SELECT tidemark.create_continuous_view('per_store',
	'SELECT store, count(*) AS n FROM sale GROUP BY store', trigger => 'manual');
CREATE VIEW store_region AS SELECT store, region FROM store;
SELECT tidemark.create_continuous_view('per_region',
	'SELECT region, count(*) AS n FROM sale JOIN store_region USING (store) GROUP BY region',
	trigger => 'manual');
INSERT INTO sale VALUES ('a', 1, '2024-05-01');
CALL tidemark.catch_up('per_store');

-- a continuous view cannot be replaced; an ordinary one on top can
CREATE OR REPLACE VIEW per_store AS SELECT store, 1::bigint AS n FROM store;
DO 'BEGIN CREATE OR REPLACE VIEW odd_ddl.per_store AS SELECT NULL::text AS store, 1::bigint AS n; END';
CREATE VIEW on_top AS SELECT store FROM per_store;
CREATE OR REPLACE VIEW on_top AS SELECT store, n FROM per_store;
SELECT * FROM on_top;

-- tables that a crash empties, or that are elsewhere
\set VERBOSITY terse
ALTER TABLE sale SET UNLOGGED;
ALTER TABLE sale ADD COLUMN note text, SET UNLOGGED;
ALTER TABLE part_a SET UNLOGGED;
CREATE UNLOGGED TABLE part_b PARTITION OF part FOR VALUES IN ('b');
CREATE UNLOGGED TABLE part_b (LIKE part);
ALTER TABLE part ATTACH PARTITION part_b FOR VALUES IN ('b');
ALTER TABLE part_b SET LOGGED;
ALTER TABLE part ATTACH PARTITION part_b FOR VALUES IN ('b');
CREATE FOREIGN DATA WRAPPER odd_ddl_wrapper;
CREATE SERVER odd_ddl_server FOREIGN DATA WRAPPER odd_ddl_wrapper;
CREATE FOREIGN TABLE part_c PARTITION OF part FOR VALUES IN ('c') SERVER odd_ddl_server;
CREATE FOREIGN TABLE part_c (store text, sold_at timestamptz NOT NULL, _txid tidemark.stamp)
	SERVER odd_ddl_server;
ALTER TABLE part ATTACH PARTITION part_c FOR VALUES IN ('c');
ALTER FOREIGN TABLE part_c INHERIT sale;
DROP FOREIGN DATA WRAPPER odd_ddl_wrapper CASCADE;

-- inheritance
CREATE TABLE child () INHERITS (sale);
CREATE TABLE child (LIKE sale);
ALTER TABLE child INHERIT sale;
CREATE TABLE parent (store text);
ALTER TABLE sale INHERIT parent;
-- none of it concerns other tables
ALTER TABLE child INHERIT parent;
ALTER TABLE child SET UNLOGGED;
ALTER TABLE child NO INHERIT parent;
\set VERBOSITY default

-- a table that a continuous view joins, itself or by another view
ALTER TABLE store ADD COLUMN opened_at timestamptz;
SELECT tidemark.create_stream('store', event_time => 'opened_at');
DROP VIEW per_region;
SELECT tidemark.create_stream('store', event_time => 'opened_at');

-- the trigger of the extension's tables, where it does not belong
CREATE TABLE other (i int);
CREATE TRIGGER t BEFORE INSERT ON other FOR EACH ROW EXECUTE FUNCTION tidemark.note_restore();
INSERT INTO other VALUES (1);
DROP TRIGGER t ON other;
CREATE TRIGGER t AFTER INSERT ON other FOR EACH STATEMENT EXECUTE FUNCTION tidemark.note_restore();
INSERT INTO other VALUES (1);
SELECT tidemark.note_restore();

INSERT INTO sale VALUES ('a', 1, '2024-05-01');
CALL tidemark.catch_up('per_store');
SELECT * FROM on_top;
DROP SCHEMA odd_ddl CASCADE;
