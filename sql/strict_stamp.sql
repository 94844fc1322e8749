--
-- Streams whose rows are stamped by a trigger, whatever they bring
--
SET client_min_messages = error;
CREATE TABLE reading (k int, at timestamptz) PARTITION BY LIST (k);
CREATE TABLE reading_1 PARTITION OF reading FOR VALUES IN (1, 2);
SELECT tidemark.create_stream('reading', 'at', max_future => 'infinity', strict_stamp => true);
SELECT tidemark.create_continuous_view('per_key', 'SELECT k, count(*) AS n FROM reading GROUP BY k', trigger => 'manual');
CALL tidemark.catch_up('per_key');

-- a publisher's stamps, or none: on every partition, as a replica, too
CREATE TABLE reading_3 PARTITION OF reading FOR VALUES IN (3);
COPY reading (k, at, _txid) FROM stdin;
1	2026-01-01 00:00:00	5
3	2026-01-01 00:00:00	\N
\.
SET session_replication_role = replica;
COPY reading (k, at, _txid) FROM stdin;
2	2026-01-01 00:00:00	7
\.
RESET session_replication_role;
CALL tidemark.catch_up('per_key');
SELECT * FROM per_key ORDER BY k;
SELECT strict_stamp FROM tidemark.streams WHERE relation = 'reading'::regclass;

-- the target of a subscription needs it
BEGIN;
SET LOCAL allow_system_table_mods = on;
CREATE SUBSCRIPTION regress_tidemark_sub CONNECTION 'dbname=regress_none' PUBLICATION p WITH (connect = false, slot_name = NONE);
INSERT INTO pg_subscription_rel
	SELECT oid, 'reading_1'::regclass, 'r', NULL FROM pg_subscription WHERE subname = 'regress_tidemark_sub';
SAVEPOINT s;
SELECT tidemark.alter_stream('reading', strict_stamp => false);
ROLLBACK TO s;
SELECT tidemark.drop_stream('reading', cascade => true);
SAVEPOINT s;
SELECT tidemark.create_stream('reading', 'at');
ROLLBACK TO s;
SELECT tidemark.create_stream('reading', 'at', strict_stamp => true);
ROLLBACK;

SELECT tidemark.alter_stream('reading', strict_stamp => false);
SELECT count(*) FROM pg_trigger WHERE tgname = 'tidemark_strict_stamp';
SELECT tidemark.drop_stream('reading', cascade => true);
DROP TABLE reading;
