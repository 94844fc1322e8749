--
-- A stream of so many partitions that the checkpoint is stored out of line
--
SET client_min_messages = warning;
SET TimeZone = 'UTC';
CREATE TABLE crowd (k int, v int, at timestamptz) PARTITION BY LIST (k);
DO $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXECUTE format('CREATE TABLE crowd_%s PARTITION OF crowd FOR VALUES IN (%s)', i, i);
	END LOOP;
END $$;
SELECT tidemark.create_stream('crowd', 'at', watermark_delay => '1 hour', max_future => 'infinity');
SELECT tidemark.create_continuous_view('crowd_view',
	'SELECT window_start, k % 7 AS k, count(*) AS n, sum(v) AS total
	 FROM crowd, tidemark.tumble(at, ''1 minute'') GROUP BY window_start, k % 7', trigger => 'manual');
INSERT INTO crowd SELECT i % 600 + 1, i, '2026-01-01 00:00Z'::timestamptz + i * interval '1 second'
	FROM generate_series(1, 3000) i;
CALL tidemark.catch_up('crowd_view');
SELECT pg_relation_size(reltoastrelid) > 0 AS out_of_line
	FROM pg_class WHERE oid = 'tidemark.checkpoint'::regclass;
INSERT INTO crowd SELECT i % 600 + 1, i, '2026-01-01 00:10Z'::timestamptz + i * interval '1 second'
	FROM generate_series(1, 3000) i;
CALL tidemark.catch_up('crowd_view');
INSERT INTO crowd VALUES (600, 1, '2026-01-01 00:20Z');
CALL tidemark.catch_up('crowd_view');
CREATE TABLE crowd_oracle AS
	SELECT to_timestamp(floor(extract(epoch FROM at) / 60) * 60) AS window_start, k % 7 AS k,
		count(*) AS n, sum(v) AS total FROM crowd GROUP BY 1, 2;
SELECT count(*) AS groups FROM crowd_view;
SELECT count(*) AS missing FROM (TABLE crowd_oracle EXCEPT ALL TABLE crowd_view) x;
SELECT count(*) AS surplus FROM (TABLE crowd_view EXCEPT ALL TABLE crowd_oracle) x;
SELECT rows_in, rows_used, rows_late, backlog_bytes FROM tidemark.progress WHERE view = 'crowd_view'::regclass;
DROP TABLE crowd_oracle;
SELECT tidemark.drop_stream('crowd', cascade => true);
-- in steps: a lock for every partition and its index
DO $$
BEGIN
	FOR i IN 1 .. 600 LOOP
		EXECUTE format('DROP TABLE crowd_%s', i);
	END LOOP;
END $$;
DROP TABLE crowd;
