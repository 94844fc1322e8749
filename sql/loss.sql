--
-- DROP, DETACH and TRUNCATE do not take rows that no batch has read
--
CREATE SCHEMA loss_test;
SET search_path = loss_test;
SET timezone = 'UTC';
SET client_min_messages = warning;

CREATE TABLE event (id int, at timestamptz) PARTITION BY RANGE (at);
CREATE TABLE event_1 PARTITION OF event FOR VALUES FROM ('2024-01-01') TO ('2024-02-01');
CREATE TABLE event_2 PARTITION OF event FOR VALUES FROM ('2024-02-01') TO ('2024-03-01') PARTITION BY RANGE (id);
CREATE TABLE event_2_a PARTITION OF event_2 FOR VALUES FROM (0) TO (100);
CREATE TABLE event_2_b PARTITION OF event_2 FOR VALUES FROM (100) TO (1000);
CREATE TABLE event_3 PARTITION OF event FOR VALUES FROM ('2024-03-01') TO ('2024-04-01');
SELECT tidemark.create_stream('event', event_time => 'at', watermark_delay => '1 day');
SELECT tidemark.create_continuous_view('total', 'SELECT count(*) AS n FROM event', trigger => 'manual');
SELECT tidemark.create_continuous_view('months', $$
	SELECT date_trunc('day', at) AS day, count(*) AS n FROM event GROUP BY 1
$$, trigger => 'manual');
INSERT INTO event VALUES (1, '2024-01-01'), (2, '2024-02-01'), (102, '2024-02-01'), (3, '2024-03-01');
\set VERBOSITY default
\set SHOW_CONTEXT never

-- the history is not read yet
TRUNCATE event_1;
CALL tidemark.catch_up('total');
TRUNCATE event_1;
TRUNCATE event;
DROP TABLE event_1;
ALTER TABLE event DETACH PARTITION event_1;
DROP TABLE event_2;
DROP TABLE event_2_a, event_2_b;
ALTER TABLE event DETACH PARTITION event_2;
ALTER TABLE event_2 DETACH PARTITION event_2_a;
ALTER TABLE event DETACH PARTITION event_3 CONCURRENTLY;
\set VERBOSITY terse
-- all is there
SELECT count(*) FROM event;
CALL tidemark.catch_up('months');
SELECT n FROM total;
-- now they may go
BEGIN;
TRUNCATE event;
ROLLBACK;
BEGIN;
DROP TABLE event_2;
ALTER TABLE event DETACH PARTITION event_1;
TRUNCATE event_3;
ROLLBACK;
-- rows of the own transaction were never in the stream
BEGIN;
INSERT INTO event VALUES (4, '2024-03-02');
TRUNCATE event_3;
ROLLBACK;
-- rows that are deleted are not there, and those that were read may go
INSERT INTO event VALUES (5, '2024-01-02'), (6, '2024-01-02');
TRUNCATE event_1;
DELETE FROM event WHERE id = 5;
TRUNCATE event_1;
DELETE FROM event WHERE id = 6;
BEGIN;
TRUNCATE event_1;
ROLLBACK;
-- rows that wait for their stamp
COPY event_1 (id, at, _txid) FROM stdin;
7	2024-01-03	\N
\.
TRUNCATE event_1;

-- by way of a foreign key
CREATE TABLE dim (id int PRIMARY KEY);
INSERT INTO dim VALUES (1), (2);
CREATE TABLE fact (id int REFERENCES dim, at timestamptz);
SELECT tidemark.create_stream('fact', event_time => 'at', watermark_delay => '1 day');
SELECT tidemark.create_continuous_view('facts', 'SELECT count(*) AS n FROM fact', trigger => 'manual');
CALL tidemark.catch_up('facts');
INSERT INTO fact VALUES (1, '2024-01-01'), (2, '2024-01-01');
TRUNCATE dim CASCADE;
CALL tidemark.catch_up('facts');
TRUNCATE dim CASCADE;
SELECT n FROM facts;
-- a whole stream goes with its views, read or not
INSERT INTO dim VALUES (1);
INSERT INTO fact VALUES (1, '2024-01-01');
DROP TABLE fact;
DROP TABLE fact CASCADE;

-- lost rows are counted, once, and by those who miss them
CALL tidemark.catch_up('total');
CALL tidemark.catch_up('months');
INSERT INTO event VALUES (8, '2024-02-03'), (108, '2024-02-03'), (9, '2024-03-03');
CALL tidemark.catch_up('total');
INSERT INTO event VALUES (10, '2024-02-03');
SELECT view, rows_in, rows_lost FROM tidemark.progress WHERE view::text IN ('total', 'months') ORDER BY view::text;
SET tidemark.allow_unconsumed_drop = on;
BEGIN;
TRUNCATE event;
SELECT view, rows_lost FROM tidemark.progress WHERE view::text IN ('total', 'months') ORDER BY view::text;
ROLLBACK;
BEGIN;
ALTER TABLE event DETACH PARTITION event_2;
SELECT view, rows_lost FROM tidemark.progress WHERE view::text IN ('total', 'months') ORDER BY view::text;
ROLLBACK;
DROP TABLE event_2_a, event_2;
SELECT view, rows_lost FROM tidemark.progress WHERE view::text IN ('total', 'months') ORDER BY view::text;
RESET tidemark.allow_unconsumed_drop;
CALL tidemark.catch_up('total');
CALL tidemark.catch_up('months');
SELECT view, rows_in, rows_lost FROM tidemark.progress WHERE view::text IN ('total', 'months') ORDER BY view::text;

-- partitions of another schema, and of another owner
CREATE SCHEMA loss_parts;
CREATE TABLE loss_parts.event_4 PARTITION OF event FOR VALUES FROM ('2024-04-01') TO ('2024-05-01');
INSERT INTO event VALUES (11, '2024-04-01');
DROP SCHEMA loss_parts CASCADE;
CALL tidemark.catch_up('total');
CALL tidemark.catch_up('months');
DROP SCHEMA loss_parts CASCADE;
CREATE ROLE regress_loss;
GRANT USAGE ON SCHEMA loss_test TO regress_loss;
CREATE TABLE event_5 PARTITION OF event FOR VALUES FROM ('2024-05-01') TO ('2024-06-01');
ALTER TABLE event_5 OWNER TO regress_loss;
INSERT INTO event VALUES (12, '2024-05-01');
DROP OWNED BY regress_loss;
-- somebody who may not is told so
SET ROLE regress_loss;
TRUNCATE event_3;
DROP TABLE event_3;
ALTER TABLE event DETACH PARTITION event_5;
RESET ROLE;
CALL tidemark.catch_up('total');
CALL tidemark.catch_up('months');
DROP OWNED BY regress_loss;
DROP ROLE regress_loss;

-- in the middle of a history: blocks that were read may go
CREATE TABLE past (id int, at timestamptz);
INSERT INTO past SELECT i, '2024-01-01' FROM generate_series(1, 1000) i;
SELECT tidemark.create_stream('past', event_time => 'at', watermark_delay => '1 day');
SELECT tidemark.create_continuous_view('past_count', 'SELECT count(*) AS n FROM past', trigger => 'manual');
SET tidemark.piece_blocks = 2;
SET tidemark.allow_unconsumed_drop = on;
BEGIN;
CALL tidemark.catch_up('past_count');
CREATE TABLE seen AS SELECT n FROM past_count;
TRUNCATE past;
SELECT n > 0 AND n < 1000 AS some, n + rows_lost AS all FROM seen, tidemark.progress WHERE view = 'past_count'::regclass;
ROLLBACK;
RESET tidemark.allow_unconsumed_drop;
RESET tidemark.piece_blocks;

-- what has a column of that name only
CREATE TABLE other (_txid int);
INSERT INTO other VALUES (1);
TRUNCATE other;
DROP TABLE other;
DROP SCHEMA loss_test CASCADE;
SELECT count(*) FROM tidemark.continuous_views;
