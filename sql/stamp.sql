-- Stamps: the type, the base, what a row gets.
SET timezone = 'UTC';
CREATE SCHEMA stamp_test;
SET search_path = stamp_test;

-- text and binary
CREATE TABLE s (v tidemark.stamp);
INSERT INTO s VALUES ('0'), ('-1'), ('9223372036854775807'), (NULL);
INSERT INTO s VALUES ('x');
INSERT INTO s VALUES ('9223372036854775808');
SELECT v FROM s ORDER BY v;
SELECT DISTINCT v FROM s ORDER BY v DESC;
SELECT tidemark.stamp_send('258');
-- no implicit casts
INSERT INTO s VALUES (1);
INSERT INTO s VALUES (1::int8);
SELECT v + 1 FROM s;
SELECT v > 5 FROM s;
INSERT INTO s VALUES (7::int8::tidemark.stamp);
SELECT sum(v::int8) FROM s WHERE v::int8 < 100;
-- operators
SELECT a, b, a OPERATOR(tidemark.<) b AS lt, a OPERATOR(tidemark.<=) b AS le,
	a OPERATOR(tidemark.=) b AS eq, a OPERATOR(tidemark.<>) b AS ne,
	a OPERATOR(tidemark.>=) b AS ge, a OPERATOR(tidemark.>) b AS gt,
	tidemark.stamp_cmp(a, b)
FROM (VALUES ('1'::tidemark.stamp, '2'::tidemark.stamp), ('2', '2'), ('3', '2')) AS v (a, b);
-- a btree and a join
CREATE INDEX s_btree ON s (v);
SET enable_seqscan = off;
SET enable_bitmapscan = off;
EXPLAIN (COSTS OFF) SELECT v FROM s WHERE v OPERATOR(tidemark.=) '7';
SELECT v FROM s WHERE v OPERATOR(tidemark.=) '7';
RESET enable_bitmapscan;
DROP INDEX s_btree;
SELECT count(*) FROM s a JOIN s b ON a.v OPERATOR(tidemark.=) b.v;
SELECT opcname, amname, opcdefault FROM pg_opclass JOIN pg_am a ON a.oid = opcmethod
WHERE opcintype = 'tidemark.stamp'::regtype ORDER BY opcname;
SELECT amvalidate(oid) FROM pg_opclass WHERE opcintype = 'tidemark.stamp'::regtype ORDER BY opcname;

-- BRIN: ranges and IS NULL
CREATE TABLE b (v tidemark.stamp, filler text);
INSERT INTO b SELECT i::int8::tidemark.stamp, repeat('x', 500) FROM generate_series(1, 6000) i;
CREATE INDEX b_brin ON b USING brin (v) WITH (pages_per_range = 16);
EXPLAIN (COSTS OFF) SELECT count(*) FROM b WHERE v OPERATOR(tidemark.>=) '5000' AND v OPERATOR(tidemark.<) '5010';
SELECT count(*) FROM b WHERE v OPERATOR(tidemark.>=) '5000' AND v OPERATOR(tidemark.<) '5010';
SELECT count(*) FROM b WHERE v OPERATOR(tidemark.=) '5999';
EXPLAIN (COSTS OFF) SELECT count(*) FROM b WHERE v IS NULL;
SELECT count(*) FROM b WHERE v IS NULL;
RESET enable_seqscan;

-- the base: about now in seconds, and a stamp is base + full transaction id
SELECT abs((tidemark.stamp_base() >> 31) - extract(epoch FROM now())) < 86400 AS near_now;
BEGIN;
SELECT tidemark.txid_stamp()::int8 = tidemark.stamp_base() + pg_current_xact_id()::text::int8 AS sum;
COMMIT;
SELECT provolatile, proparallel FROM pg_proc WHERE oid = 'tidemark.txid_stamp()'::regprocedure;

-- one stamp a transaction, whatever its savepoints and exception blocks
CREATE TABLE t (n int, at timestamptz DEFAULT '2026-01-01');
SELECT tidemark.create_stream('t', 'at');
BEGIN;
INSERT INTO t VALUES (1);
SAVEPOINT a;
INSERT INTO t VALUES (2);
ROLLBACK TO a;
INSERT INTO t VALUES (3);
SAVEPOINT b;
INSERT INTO t SELECT generate_series(4, 6);
RELEASE b;
DO $$ BEGIN
	INSERT INTO t VALUES (7);
	BEGIN
		INSERT INTO t VALUES (8);
		RAISE division_by_zero;
	EXCEPTION WHEN division_by_zero THEN
		INSERT INTO t VALUES (9);
	END;
END $$;
SELECT count(DISTINCT _txid), min(_txid::int8) = tidemark.txid_stamp()::int8 FROM t;
COMMIT;
INSERT INTO t VALUES (10);
SELECT array_agg(n ORDER BY n) FROM t GROUP BY _txid ORDER BY _txid;
-- greater in later transactions
SELECT bool_and(a._txid::int8 < b._txid::int8) FROM t a, t b WHERE a.n < 10 AND b.n = 10;
-- prepared statements, functions and COPY stamp anew
PREPARE p AS INSERT INTO t VALUES (11) RETURNING _txid::int8 = tidemark.txid_stamp()::int8 AS own;
EXECUTE p;
EXECUTE p;
COPY t (n) FROM stdin;
12
12
\.
SELECT n, count(*), count(DISTINCT _txid) FROM t WHERE n > 10 GROUP BY n ORDER BY n;
-- what a row type brings along: NULL becomes the stamp
INSERT INTO t SELECT (jsonb_populate_record(NULL::t, '{"n": 13, "at": "2026-01-01"}')).*;
INSERT INTO t SELECT * FROM jsonb_populate_record(NULL::t, '{"n": 13, "at": "2026-01-01"}');
DO $$
DECLARE
	r t;
BEGIN
	r.n := 13;
	INSERT INTO t VALUES (r.*);
END $$;
INSERT INTO t (n, _txid) VALUES (13, NULL), (13, DEFAULT);
INSERT INTO t (n, _txid) VALUES (13, tidemark.txid_stamp());
SELECT count(*), count(DISTINCT _txid), count(*) FILTER (WHERE _txid IS NULL) AS unstamped FROM t WHERE n = 13;
-- a stamp from elsewhere is refused
INSERT INTO t (n, _txid) VALUES (14, '5');
INSERT INTO t (n, _txid) VALUES (14, DEFAULT), (14, '5');
INSERT INTO t VALUES (14, now(), 5::int8::tidemark.stamp);
INSERT INTO t SELECT * FROM t;
INSERT INTO t TABLE t UNION ALL TABLE t;
WITH w AS (INSERT INTO t SELECT * FROM t RETURNING n) SELECT count(*) FROM w;
MERGE INTO t USING (SELECT 14 AS n) AS v ON t.n = v.n
WHEN NOT MATCHED THEN INSERT (n, _txid) VALUES (v.n, '5');
PREPARE q (tidemark.stamp) AS INSERT INTO t (n, _txid) VALUES (14, $1);
EXECUTE q ('5');
CREATE VIEW t_view AS SELECT * FROM t;
INSERT INTO t_view SELECT * FROM t;
DO $$
DECLARE
	r t;
BEGIN
	SELECT * INTO r FROM t WHERE n = 1;
	INSERT INTO t VALUES (r.*);
END $$;
SELECT count(*) FROM t WHERE n = 14;
-- the ordinary ones are as they were
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO t VALUES (15);
EXPLAIN (VERBOSE, COSTS OFF) INSERT INTO t (n) VALUES (15), (16);
INSERT INTO t SELECT n FROM t WHERE n = 1 UNION ALL SELECT n FROM t WHERE n = 3;
MERGE INTO t USING (VALUES (17), (18)) AS v (n) ON t.n = v.n
WHEN NOT MATCHED THEN INSERT (n) VALUES (v.n);
WITH w AS (INSERT INTO t SELECT generate_series(19, 20) RETURNING _txid)
SELECT count(*), count(DISTINCT _txid) FROM w;
INSERT INTO t_view (n) VALUES (21) RETURNING n;
SELECT n FROM t WHERE _txid IS NULL;
-- a partition that was attached has no default: it is stamped, too
CREATE TABLE p (n int, at timestamptz) PARTITION BY LIST (n);
SELECT tidemark.create_stream('p', 'at');
CREATE TABLE p1 (n int, _txid tidemark.stamp, at timestamptz);
ALTER TABLE p ATTACH PARTITION p1 FOR VALUES IN (1);
INSERT INTO p1 (n) VALUES (1);
INSERT INTO p (n) VALUES (1);
INSERT INTO p1 (n, at) SELECT 1, '2026-01-01';
SELECT count(*), count(DISTINCT _txid) FROM p;
-- a table with a column of that name that is no stream
CREATE TABLE own (_txid int8, n int);
INSERT INTO own VALUES (1, 2);
INSERT INTO own (n) VALUES (2);
COPY own TO stdout;

-- COPY without a column list means the user's columns
CREATE TABLE c (id int, at timestamptz, twice int GENERATED ALWAYS AS (id * 2) STORED, note text, gone int);
ALTER TABLE c DROP COLUMN gone;
SELECT tidemark.create_stream('c', 'at');
ALTER TABLE c ADD COLUMN later text;
COPY c FROM stdin;
1	2026-01-01 00:00:00+00	one	x
2	2026-01-02 00:00:00+00	two	y
\.
COPY c TO stdout (FORMAT csv, HEADER);
COPY c (id, _txid) FROM stdin;
3	5
\.
SELECT id, twice, note, later, _txid::int8 > 5 AS stamped FROM c ORDER BY id;
COPY c FROM stdin (FORMAT csv, HEADER match);
id,at,note,later
4,2026-01-04,four,z
\.
COPY p FROM stdin;
1	2026-01-02 00:00:00+00
\.
COPY p1 TO stdout (NULL 'none');
COPY nosuch TO stdout;
COPY t_view TO stdout;

-- rebase moves forward only, and at once
SELECT tidemark.stamp_base() AS base \gset
SELECT tidemark.rebase() >= :base AS forward;
SELECT tidemark.txid_stamp()::int8 AS stamp \gset
SELECT tidemark.rebase(:stamp + 1000000) > :base AS forward;
SELECT tidemark.txid_stamp()::int8 > :stamp + 1000000 AS beyond;
SELECT tidemark.stamp_base() AS base \gset
SELECT tidemark.rebase(1) = :base OR tidemark.rebase(1) > :base AS not_back;
BEGIN;
SELECT tidemark.txid_stamp()::int8 AS stamp \gset
SELECT tidemark.rebase(:stamp + 1000000) > 0 AS rebased;
SELECT tidemark.txid_stamp()::int8 > :stamp + 1000000 AS beyond;
ROLLBACK;
SELECT tidemark.txid_stamp()::int8 < :stamp + 1000000 AS rolled_back;
SELECT tidemark.rebase(9223372036854775807);
SELECT tidemark.rebase(9223372036854775806);
-- somebody's hand
BEGIN;
CREATE OR REPLACE FUNCTION tidemark.stamp_base() RETURNS int8 LANGUAGE sql IMMUTABLE AS 'SELECT 1 + 1';
SELECT tidemark.txid_stamp();
ROLLBACK;
SELECT tidemark.txid_stamp()::int8 > 0 AS valid_again;

DROP SCHEMA stamp_test CASCADE;
