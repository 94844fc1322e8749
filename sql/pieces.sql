--
-- The history of a stream, read in pieces: a transaction each, one logical
-- batch all together.  A CALL in a transaction block reads one piece.
--
CREATE SCHEMA pieces_test;
SET search_path = pieces_test;
SET timezone = 'UTC';
SET client_min_messages = warning;
SET tidemark.allow_unconsumed_drop = on;
SET tidemark.piece_blocks = 1;

CREATE FUNCTION compare(a regclass, b regclass,
	OUT only_a bigint, OUT only_b bigint, OUT rows bigint)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('SELECT (SELECT count(*) FROM (TABLE %1$s EXCEPT ALL TABLE %2$s) d),
		(SELECT count(*) FROM (TABLE %2$s EXCEPT ALL TABLE %1$s) d),
		(SELECT count(*) FROM %1$s)', a, b) INTO only_a, only_b, rows;
END $$;
-- one transaction of the reading: how far it is
CREATE PROCEDURE piece(v regclass, times int DEFAULT 1) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN 1..times LOOP
		-- in a subtransaction, so one batch
		BEGIN
			CALL tidemark.catch_up(v);
		EXCEPTION WHEN division_by_zero THEN
			RAISE WARNING '%', SQLERRM;
		END;
		COMMIT;
	END LOOP;
END $$;
CREATE FUNCTION standing(v regclass, OUT batch bigint, OUT reading bool, OUT watermark timestamptz,
	OUT rows_in bigint, OUT used bigint, OUT left_to_read numeric)
LANGUAGE sql AS $$
	SELECT batch_id, reading_history, watermark, rows_in, rows_used,
		(SELECT sum(end_block - next_block) FROM tidemark.piece WHERE piece.view = v)
	FROM tidemark.progress WHERE view = v
$$;

CREATE FUNCTION fill(relation regclass, first int, last int) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('INSERT INTO %s (id, at, pad)
		SELECT i, timestamptz ''2024-05-01'' + i * interval ''1 minute'', repeat(''x'', 1000)
		FROM generate_series(%s, %s) i', relation, first, last);
END $$;
CREATE FUNCTION make_view(v text, relation text) RETURNS regclass LANGUAGE sql AS $$
	SELECT tidemark.create_continuous_view(v, format($q$
		SELECT window_start, count(*) AS n, sum(id) AS ids, sum(1000 / id) AS inverse
		FROM %s, tidemark.tumble(at, '1 hour') GROUP BY window_start $q$, relation), trigger => 'manual')
$$;
-- compare a view with what it must hold: the rows of a relation
CREATE FUNCTION check_view(v regclass, source text,
	OUT only_view bigint, OUT only_oracle bigint, OUT groups bigint, OUT n bigint)
LANGUAGE plpgsql AS $$
BEGIN
	EXECUTE format('CREATE TABLE oracle AS
		SELECT to_timestamp(floor(extract(epoch FROM at) / 3600) * 3600) AS w, count(*) AS n, sum(id) AS ids,
			sum(1000 / id) AS inverse
		FROM (%s) s (id, at) GROUP BY 1', source);
	SELECT * INTO only_view, only_oracle, groups FROM compare(v, 'oracle');
	SELECT sum(oracle.n) INTO n FROM oracle;
	DROP TABLE oracle;
END $$;

--
-- From one end to the other
--
CREATE TABLE log (id int, at timestamptz, pad text);
SELECT fill('log', 1, 700);
SELECT tidemark.create_stream('log', event_time => 'at', watermark_delay => '10 minutes');
SELECT make_view('whole', 'log');
SELECT make_view('piecewise', 'log');
SELECT make_view('steered', 'log');
CALL tidemark.catch_up('whole');
SELECT * FROM standing('whole');
SET tidemark.piece_blocks = 7;
CALL tidemark.catch_up('piecewise');
SELECT * FROM standing('piecewise');
SET tidemark.piece_blocks = 1;
SELECT * FROM compare('whole', 'piecewise');

-- step by step
CALL piece('steered');
SELECT * FROM standing('steered');
SELECT sum(n) FROM steered;
SELECT tidemark.backlog_bytes('steered') / current_setting('block_size')::int AS backlog;
-- rows that come meanwhile are not of this logical batch, wherever they are put
DELETE FROM log WHERE id IN (650, 651, 652, 653, 654, 655, 656, 3);
VACUUM log;
SELECT fill('log', 701, 710);
CALL piece('steered', 2);
SELECT * FROM standing('steered');
-- a piece that is rolled back is read again
BEGIN;
CALL tidemark.catch_up('steered');
SELECT rows_in, left_to_read FROM standing('steered');
ROLLBACK;
SELECT rows_in, left_to_read FROM standing('steered');
-- and one that fails, when the row is mended
INSERT INTO log VALUES (0, '2024-05-01');
CALL piece('steered', 3);
SELECT rows_in, left_to_read FROM standing('steered');
-- paused and resumed in the middle
SELECT tidemark.pause('steered');
CALL tidemark.catch_up('steered');
SELECT tidemark.resume('steered');
CALL piece('steered');
SELECT rows_in, left_to_read FROM standing('steered');
-- the end of the table is cut off, and comes back
DELETE FROM log WHERE id > 680 OR id = 0;
VACUUM log;
CALL piece('steered', 3);
SELECT fill('log', 711, 720);
CALL tidemark.catch_up('steered');
SELECT * FROM standing('steered');
SELECT * FROM check_view('steered', $$
	SELECT id, at FROM log UNION ALL VALUES (3, timestamptz '2024-05-01 00:03') $$);
TRUNCATE log;
CALL tidemark.catch_up('steered');
SELECT * FROM standing('steered');

--
-- A bad row in the history holds its piece back, and is found again
--
CREATE TABLE bad (id int, at timestamptz, pad text);
SELECT fill('bad', 1, 20);
SELECT fill('bad', 0, 0);
SELECT fill('bad', 21, 40);
SELECT tidemark.create_stream('bad', event_time => 'at');
SELECT make_view('bad_view', 'bad');
CALL piece('bad_view', 4);
SELECT * FROM standing('bad_view');
DELETE FROM bad WHERE id = 0;
CALL tidemark.catch_up('bad_view');
SELECT * FROM standing('bad_view');
SELECT * FROM check_view('bad_view', 'SELECT id, at FROM bad');

--
-- A writer that is in progress when the reading begins, and ends meanwhile
--
CREATE TABLE busy (id int, at timestamptz, pad text);
SELECT fill('busy', 1, 100);
SELECT tidemark.create_stream('busy', event_time => 'at');
SELECT make_view('busy_view', 'busy');
BEGIN;
SELECT fill('busy', 101, 120);
CALL tidemark.catch_up('busy_view');
SELECT rows_in, left_to_read FROM standing('busy_view');
SAVEPOINT s;
SELECT fill('busy', 121, 130);
RELEASE s;
CALL tidemark.catch_up('busy_view');
COMMIT;
SELECT * FROM standing('busy_view');
CALL piece('busy_view', 16);
-- the history is complete, the writer's rows are the next batch
SELECT * FROM standing('busy_view');
CALL tidemark.catch_up('busy_view');
SELECT * FROM standing('busy_view');
SELECT * FROM check_view('busy_view', 'SELECT id, at FROM busy');

--
-- A table that is rewritten: what was read is thrown away and read again
--
CREATE TABLE moved (id int PRIMARY KEY, at timestamptz, pad text);
SELECT fill('moved', 1, 100);
SELECT tidemark.create_stream('moved', event_time => 'at');
SELECT make_view('moved_view', 'moved');
SELECT tidemark.create_continuous_view('moved_all', 'SELECT count(*) AS n FROM moved', trigger => 'manual');
CALL piece('moved_view', 5);
CALL piece('moved_all', 5);
SELECT batch, reading, rows_in, left_to_read > 0 AS is_left FROM standing('moved_view');
DELETE FROM moved WHERE id <= 10 OR id = 90;
VACUUM FULL moved;
CALL piece('moved_view', 2);
CALL piece('moved_all', 2);
SELECT batch, reading, rows_in, left_to_read > 0 AS is_left FROM standing('moved_view');
SELECT * FROM moved_all;
-- rows that come between are in the new target
SELECT fill('moved', 101, 110);
CLUSTER moved USING moved_pkey;
CALL piece('moved_view', 2);
SELECT batch, reading, rows_in, left_to_read > 0 AS is_left FROM standing('moved_view');
ALTER TABLE moved ALTER pad TYPE varchar(2000), ADD COLUMN more int DEFAULT random() * 10;
CALL piece('moved_view', 2);
SELECT batch, reading, rows_in, left_to_read > 0 AS is_left FROM standing('moved_view');
CALL tidemark.catch_up('moved_view');
CALL tidemark.catch_up('moved_all');
SELECT batch, reading, rows_in, left_to_read > 0 AS is_left FROM standing('moved_view');
SELECT * FROM check_view('moved_view', 'SELECT id, at FROM moved');
SELECT n, (SELECT count(*) FROM moved) FROM moved_all;
-- not begun yet
CREATE TABLE unmoved (id int, at timestamptz, pad text);
SELECT fill('unmoved', 1, 100);
SELECT tidemark.create_stream('unmoved', event_time => 'at');
SELECT make_view('unmoved_view', 'unmoved');
VACUUM FULL unmoved;
CALL tidemark.catch_up('unmoved_view');
VACUUM FULL unmoved;
CALL tidemark.catch_up('unmoved_view');
SELECT * FROM standing('unmoved_view');

--
-- A table that is emptied: what was read stays
--
CREATE TABLE emptied (id int, at timestamptz, pad text);
SELECT fill('emptied', 1, 100);
SELECT tidemark.create_stream('emptied', event_time => 'at');
SELECT make_view('emptied_view', 'emptied');
CALL piece('emptied_view', 5);
TRUNCATE emptied;
SELECT fill('emptied', 101, 103);
CALL piece('emptied_view');
SELECT * FROM standing('emptied_view');
CALL tidemark.catch_up('emptied_view');
SELECT * FROM standing('emptied_view');
SELECT n, ids FROM emptied_view ORDER BY window_start;
-- in the transaction that filled it
CREATE TABLE refilled (id int, at timestamptz, pad text);
SELECT fill('refilled', 1, 100);
SELECT tidemark.create_stream('refilled', event_time => 'at');
SELECT make_view('refilled_view', 'refilled');
CALL piece('refilled_view', 5);
BEGIN;
TRUNCATE refilled;
SELECT fill('refilled', 101, 150);
COMMIT;
CALL tidemark.catch_up('refilled_view');
SELECT * FROM standing('refilled_view');
SELECT sum(n) AS n, sum(ids) AS ids FROM refilled_view;

--
-- Partitions that come and go meanwhile
--
CREATE TABLE part (id int, at timestamptz, pad text) PARTITION BY RANGE (id);
CREATE TABLE part_1 PARTITION OF part FOR VALUES FROM (0) TO (101);
CREATE TABLE part_2 PARTITION OF part FOR VALUES FROM (101) TO (201);
CREATE TABLE part_3 PARTITION OF part FOR VALUES FROM (201) TO (301);
SELECT fill('part', 1, 300);
SELECT tidemark.create_stream('part', event_time => 'at', watermark_delay => '1 day');
-- of the time before the history is read
CREATE TABLE part_6 (id int, at timestamptz, pad text, _txid tidemark.stamp DEFAULT tidemark.txid_stamp());
SELECT fill('part_6', 501, 600);
SELECT make_view('part_' || name, 'part') FROM unnest('{attach,detach,back,drop,rewrite}'::text[]) name;
-- part_1 is read, part_2 begun, part_3 not
CALL piece('part_attach', 18);
CALL piece('part_back', 18);
SELECT * FROM standing('part_attach');
-- a partition attached with rows in it, one created, and rows in both
CREATE TABLE part_4 (pad text, at timestamptz, id int, _txid tidemark.stamp DEFAULT tidemark.txid_stamp());
SELECT fill('part_4', 301, 400);
ALTER TABLE part ATTACH PARTITION part_4 FOR VALUES FROM (301) TO (401);
CREATE TABLE part_5 PARTITION OF part FOR VALUES FROM (401) TO (501);
SELECT fill('part', 401, 450);
ALTER TABLE part ATTACH PARTITION part_6 FOR VALUES FROM (501) TO (601);
CALL tidemark.catch_up('part_attach');
SELECT * FROM standing('part_attach');
SELECT * FROM check_view('part_attach', 'SELECT id, at FROM part');
-- the one that is read goes and comes back
ALTER TABLE part DETACH PARTITION part_1;
CALL tidemark.catch_up('part_back');
SELECT * FROM standing('part_back');
ALTER TABLE part ATTACH PARTITION part_1 FOR VALUES FROM (0) TO (101);
CALL tidemark.catch_up('part_back');
SELECT * FROM standing('part_back');
SELECT * FROM check_view('part_back', 'SELECT id, at FROM part');
-- the one that is begun goes
CALL piece('part_detach', 18);
ALTER TABLE part DETACH PARTITION part_2;
CALL piece('part_detach');
SELECT * FROM standing('part_detach');
CALL tidemark.catch_up('part_detach');
SELECT * FROM standing('part_detach');
SELECT * FROM check_view('part_detach', 'SELECT id, at FROM part');
ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES FROM (101) TO (201);
CALL tidemark.catch_up('part_detach');
SELECT * FROM check_view('part_detach', 'SELECT id, at FROM part');
-- the one that is not begun goes and comes back
CALL piece('part_rewrite', 18);
ALTER TABLE part DETACH PARTITION part_3;
CALL piece('part_rewrite');
ALTER TABLE part ATTACH PARTITION part_3 FOR VALUES FROM (201) TO (301);
-- and another is rewritten
VACUUM FULL part_3;
VACUUM FULL part_1;
CALL tidemark.catch_up('part_rewrite');
SELECT * FROM standing('part_rewrite');
SELECT * FROM check_view('part_rewrite', 'SELECT id, at FROM part');
-- the one that is begun is dropped: what was read of it stays
CALL piece('part_drop', 18);
DROP TABLE part_2;
CALL tidemark.catch_up('part_drop');
SELECT * FROM standing('part_drop');

--
-- Rows that are moved by updates
--
CREATE TABLE updated (id int, at timestamptz, pad text);
SELECT fill('updated', 1, 100);
SELECT tidemark.create_stream('updated', event_time => 'at', allow_update => true);
SELECT make_view('updated_view', 'updated');
CALL piece('updated_view', 5);
UPDATE updated SET pad = upper(pad) WHERE id % 10 = 0;
CALL tidemark.catch_up('updated_view');
SELECT * FROM standing('updated_view');
SELECT * FROM check_view('updated_view', 'SELECT id, at FROM updated');
-- also when that is allowed in the middle
CREATE TABLE mended (id int, at timestamptz, pad text);
SELECT fill('mended', 1, 100);
SELECT tidemark.create_stream('mended', event_time => 'at');
SELECT make_view('mended_view', 'mended');
CALL piece('mended_view', 5);
SELECT * FROM standing('mended_view');
SELECT tidemark.alter_stream('mended', allow_update => true);
UPDATE mended SET pad = upper(pad) WHERE id % 10 = 0;
CALL tidemark.catch_up('mended_view');
SELECT * FROM standing('mended_view');
SELECT * FROM check_view('mended_view', 'SELECT id, at FROM mended');

--
-- A backlog is divided, too, by the transactions that brought it
--
CREATE TABLE late (id int, at timestamptz, pad text);
SELECT tidemark.create_stream('late', event_time => 'at');
SELECT make_view('late_view', 'late');
SELECT make_view('late_whole', 'late');
INSERT INTO late VALUES (1, '2024-05-01 01:00');
CALL tidemark.catch_up('late_view');
CALL tidemark.catch_up('late_whole');
-- each transaction is late by what the one before it brings, but one batch has them all
CREATE PROCEDURE back_in_time(transactions int) LANGUAGE plpgsql AS $$
BEGIN
	FOR i IN REVERSE transactions..1 LOOP
		PERFORM fill('late', i * 60, i * 60 + 20);
		COMMIT;
	END LOOP;
END $$;
CALL back_in_time(20);
CALL tidemark.catch_up('late_view');
SELECT batch, reading, watermark, rows_in, used FROM standing('late_view');
SELECT * FROM check_view('late_view', 'SELECT id, at FROM late');
-- step by step, with a writer
BEGIN;
SELECT fill('late', 930, 936);
CALL tidemark.catch_up('late_whole');
COMMIT;
SELECT batch, reading, watermark, rows_in < 421 AS in_pieces FROM standing('late_whole');
CALL piece('late_whole', 2);
DELETE FROM late WHERE id = 1;
VACUUM FULL late;
INSERT INTO late SELECT i, '2024-05-01 23:00' FROM generate_series(1001, 1010) i;
CALL piece('late_whole', 2);
CALL tidemark.catch_up('late_view');
CALL tidemark.catch_up('late_whole');
SELECT batch, reading, watermark, rows_in, used FROM standing('late_view');
SELECT batch, reading, watermark, rows_in, used FROM standing('late_whole');
-- the writer's rows are late in both
SELECT * FROM compare('late_view', 'late_whole');
SELECT * FROM check_view('late_whole', $$
	SELECT id, at FROM late WHERE id NOT BETWEEN 930 AND 936
	UNION ALL VALUES (1, timestamptz '2024-05-01 01:00') $$);

SELECT count(*) FROM tidemark.piece;
DROP SCHEMA pieces_test CASCADE;
SELECT count(*) FROM tidemark.leaf;
SELECT count(*) FROM tidemark.piece;
