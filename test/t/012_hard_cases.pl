# Situations in which systems of this kind have lost or doubled rows: prepared
# transactions over a restart, ids out of order, broken bookkeeping beside
# writers, many tiny commits, maintenance of the source.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', q(
shared_preload_libraries = 'tidemark'
max_prepared_transactions = 5
autovacuum = off
timezone = 'UTC'
));
$node->start;

sub sql { return $node->safe_psql('postgres', $_[0]); }

# What the view has, and what it has not, against its query over the table.
sub is_exact
{
	my ($what) = @_;
	my $oracle = q{SELECT window_start, key, count(*) AS n, sum(value) AS s
		FROM event, tidemark.tumble(at, '1 hour') GROUP BY window_start, key};
	is(sql("SELECT (SELECT count(*) FROM ($oracle EXCEPT ALL TABLE hourly) a),
		(SELECT count(*) FROM (TABLE hourly EXCEPT ALL $oracle) b)"), '0|0', $what);
}

sql(q{
CREATE EXTENSION tidemark;
CREATE TABLE event (id bigint, key text, value numeric, at timestamptz);
SELECT tidemark.create_stream('event', 'at', watermark_delay => '100 days');
SELECT tidemark.create_continuous_view('hourly', $$
	SELECT window_start, key, count(*) AS n, sum(value) AS s
	FROM event, tidemark.tumble(at, '1 hour') GROUP BY window_start, key $$,
	trigger => 'manual');
});

# A prepared transaction straddles batches and a restart
sql(q{BEGIN; INSERT INTO event VALUES (100, 'a', 1, '2026-01-02'); PREPARE TRANSACTION 'p';});
sql(q{INSERT INTO event SELECT i, 'a', i, '2026-01-01' FROM generate_series(1, 10) i});
sql(q{CALL tidemark.catch_up('hourly')});
is(sql('SELECT sum(n) FROM hourly'), '10', 'nobody waits for a prepared transaction');
$node->restart;
sql(q{INSERT INTO event VALUES (101, 'a', 2, '2026-01-01')});
sql(q{CALL tidemark.catch_up('hourly')});
is(sql('SELECT sum(n) FROM hourly'), '11', 'nor after a restart');
sql(q{COMMIT PREPARED 'p'});
sql(q{CALL tidemark.catch_up('hourly')});
is(sql('SELECT sum(n) FROM hourly'), '12', 'its row comes once');
is_exact('exact over a restart');

# ... and after a crash
sql(q{BEGIN; INSERT INTO event VALUES (102, 'b', 1, '2026-01-02'); PREPARE TRANSACTION 'q';});
sql(q{INSERT INTO event VALUES (99, 'a', 2, '2026-01-01')});
sql(q{CALL tidemark.catch_up('hourly')});
$node->stop('immediate');
$node->start;
sql(q{CALL tidemark.catch_up('hourly')});
sql(q{COMMIT PREPARED 'q'});
sql(q{CALL tidemark.catch_up('hourly')});
is_exact('exact over a crash');

# Ids that go down, come late, and come twice
foreach my $first (5000, 4000, 4000, 1)
{
	sql("INSERT INTO event SELECT $first - i, 'c', i, '2026-01-03'
		FROM generate_series(1, 20) i");
	sql(q{CALL tidemark.catch_up('hourly')});
}
is_exact('ids are of no matter');

# Writers do not depend on the bookkeeping
my $locker = $node->background_psql('postgres');
$locker->query_safe(q{BEGIN;
	LOCK tidemark.checkpoint, tidemark.continuous_view, tidemark.leaf, tidemark.piece,
		tidemark.batch, tidemark.failure;});
is(sql(q{SET statement_timeout = '30s';
	INSERT INTO event VALUES (1, 'd', 1, '2026-01-04');
	COPY event FROM PROGRAM 'echo 2,d,1,2026-01-04' (FORMAT csv);
	SELECT count(*) FROM event WHERE key = 'd'}), '2',
	'rows are inserted while the catalog is locked');
$locker->query_safe('ROLLBACK');
$locker->quit;
sql(q{CALL tidemark.catch_up('hourly')});
is_exact('exact after that');

# Many tiny commits into one old window, and two rows far apart in one
sql(q{DO $$ BEGIN
	FOR i IN 1..2000 LOOP
		INSERT INTO event VALUES (i, 'e', i, '2025-12-01');
		COMMIT;
		IF i % 200 = 0 THEN
			CALL tidemark.catch_up('hourly');
			COMMIT;
		END IF;
	END LOOP;
END $$});
sql(q{CALL tidemark.catch_up('hourly')});
is_exact('many tiny commits');
sql(q{INSERT INTO event VALUES (1, 'f', 1, '2025-11-01'), (2, 'f', 2, '2026-01-30')});
sql(q{CALL tidemark.catch_up('hourly')});
is(sql(q{SELECT last_rows_in, last_groups_updated FROM tidemark.progress
	WHERE view = 'hourly'::regclass}), '2|2', 'work is as the rows are');
is_exact('rows far apart');

# Maintenance: frozen and moved rows are known, and nothing waits
foreach my $command ('VACUUM event', 'VACUUM (FREEZE) event', 'ANALYZE event',
	'CREATE INDEX CONCURRENTLY event_at ON event (at)', 'CLUSTER event USING event_at',
	'VACUUM (FULL) event', 'REINDEX TABLE event', 'DELETE FROM event WHERE false')
{
	sql(q{INSERT INTO event VALUES (1, 'g', 1, '2026-01-05')});
	sql($command);
	sql(q{CALL tidemark.catch_up('hourly')});
	is_exact("exact after $command");
}
my $vacuum = $node->background_psql('postgres');
$vacuum->query_safe('BEGIN; LOCK event IN SHARE UPDATE EXCLUSIVE MODE');
sql(q{INSERT INTO event VALUES (1, 'g', 1, '2026-01-05');
	SET statement_timeout = '30s';});
sql(q{CALL tidemark.catch_up('hourly')});
is_exact('a batch does not wait for VACUUM or pg_dump');
$vacuum->quit;

is(sql(q{SELECT rows_in = (SELECT count(*) FROM event)
	AND rows_in = rows_used FROM tidemark.progress WHERE view = 'hourly'::regclass}), 't',
	'every row is counted once');
$node->stop;
done_testing();
