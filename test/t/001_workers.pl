# Launcher, scheduler and batch workers: wake-up at commit, idleness, the
# processes' end and return, failures.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The fallback poll never helps here: what happens was caused by a wake-up.
my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
max_worker_processes = 16
max_prepared_transactions = 5
autovacuum = off
tidemark.poll_interval = '1h'
tidemark.retry_interval = '100ms'
tidemark.retry_max_interval = '400ms'
));
$node->start;

sub wait_for
{
	my ($query, $what, $expected) = @_;
	ok($node->poll_query_until('postgres', $query, $expected // 't'), $what);
}

# Without the extension: the launcher, and nobody else
wait_for("SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'tidemark launcher'", 'launcher runs');
$node->safe_psql('postgres', 'CREATE EXTENSION tidemark');
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE backend_type
	IN ('tidemark scheduler', 'tidemark batch worker')",
	'nobody else without a view');

# Wake-up
$node->safe_psql('postgres', q{
CREATE TABLE event (k int, v int, at timestamptz NOT NULL);
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('per_key', $$
	SELECT k, count(*) AS n, sum(100 / v) AS s FROM event GROUP BY k
$$, trigger => 'commit');
SELECT tidemark.create_continuous_view('total', $$
	SELECT date_trunc('hour', at) AS hour, count(*) AS n FROM event GROUP BY 1
$$, trigger => 'commit');
SELECT tidemark.create_continuous_view('grid', $$
	SELECT k, count(*) AS n FROM event GROUP BY k
$$, trigger => '200 milliseconds');
SELECT tidemark.create_continuous_view('by_hand', $$
	SELECT k, count(*) AS n FROM event GROUP BY k
$$, trigger => 'manual');
});
wait_for("SELECT count(*) = 1 FROM tidemark.workers WHERE kind = 'scheduler'
	AND database = 'postgres'", 'a scheduler runs after CREATE');

$node->safe_psql('postgres',
	"INSERT INTO event SELECT 1, 1, now() FROM generate_series(1, 10)");
wait_for("SELECT sum(n) = 10 FROM total", 'an insert wakes the workers');
wait_for("SELECT sum(n) = 10 FROM per_key", '... for every view');
wait_for("SELECT sum(n) = 10 FROM grid", '... on an interval too');
is($node->safe_psql('postgres', "SELECT count(*) FROM by_hand"), '0',
	'not a manual one');

# Rolled back work wakes nobody to anything, a savepoint hides nothing
$node->safe_psql('postgres', q{
BEGIN; INSERT INTO event VALUES (1, 1, now()); ROLLBACK;
BEGIN; SAVEPOINT s; INSERT INTO event VALUES (1, 1, now()); RELEASE s; COMMIT;
});
wait_for("SELECT sum(n) = 11 FROM total", 'savepoint');

# COMMIT PREPARED tells nobody
$node->safe_psql('postgres', q{
BEGIN; INSERT INTO event VALUES (1, 1, now()); PREPARE TRANSACTION 'p';
});
$node->safe_psql('postgres', "COMMIT PREPARED 'p'");
wait_for("SELECT sum(n) = 12 FROM total", 'a prepared transaction');

# Idle: no transaction, no snapshot, no transaction id, nothing to do
wait_for("SELECT count(*) = 0 FROM pg_stat_activity
	WHERE backend_type LIKE 'tidemark %'
	AND (backend_xid IS NOT NULL OR backend_xmin IS NOT NULL
		OR xact_start IS NOT NULL)", 'no transaction when idle');
wait_for("SELECT count(*) = 0 FROM pg_locks l JOIN pg_stat_activity a
	USING (pid) WHERE a.backend_type LIKE 'tidemark %'
	AND l.locktype <> 'virtualxid'", 'no lock when idle');
wait_for("SELECT NOT EXISTS (SELECT FROM tidemark.workers
	WHERE kind = 'batch worker' AND state <> 'idle')", 'all workers are idle');

# A failing view is retried and stops nobody else
my $offset = -s $node->logfile;
$node->safe_psql('postgres', "INSERT INTO event VALUES (2, 0, now())");
wait_for("SELECT count(*) = 1 FROM tidemark.failure
	WHERE view = 'per_key'::regclass AND sqlstate = '22012'
	AND message = 'division by zero' AND attempts >= 4
	AND next_try > last_failed_at
	AND next_try <= last_failed_at + interval '400 ms'",
	'a failure is recorded and retried with a capped back-off');
is( $node->safe_psql(
		'postgres', "SELECT status FROM tidemark.progress
	WHERE view = 'per_key'::regclass"),
	'failed', 'the status tells');
wait_for("SELECT sum(n) = 13 FROM total", 'other views go on');
is($node->safe_psql('postgres', "SELECT sum(n) FROM per_key"), '12',
	'the failing view keeps its position');
my $log = slurp_file($node->logfile, $offset);
my @messages = $log =~ /maintaining continuous view "public.per_key" failed/g;
is(scalar(@messages), 1, 'one message for many failures of one kind');
like($log, qr/continuous view "public.per_key" in database "postgres"/,
	'the message names view and database');

$node->safe_psql('postgres', "DELETE FROM event WHERE v = 0");
wait_for("SELECT count(*) = 0 FROM tidemark.failure", 'recovers');
$node->wait_for_log(qr/continuous view "public.per_key" is maintained again/,
	$offset);
$node->safe_psql('postgres', "INSERT INTO event VALUES (1, 1, now())");
wait_for("SELECT sum(n) = 13 FROM per_key", 'goes on where it was');

# Each process ends when told to, and comes back
foreach my $kind ('batch worker', 'scheduler', 'launcher')
{
	my $pids = $node->safe_psql('postgres',
		"SELECT string_agg(pid::text, ',') FROM tidemark.workers
		WHERE kind = '$kind'");
	$node->safe_psql('postgres', "SELECT pg_terminate_backend(pid)
		FROM tidemark.workers WHERE kind = '$kind'");
	wait_for("SELECT count(*) = 0 FROM pg_stat_activity
		WHERE pid IN ($pids)", "$kind ends");
	my $before = $node->safe_psql('postgres', "SELECT sum(n) FROM total");
	$node->safe_psql('postgres', "INSERT INTO event VALUES (1, 1, now())");
	wait_for("SELECT sum(n) = $before + 1 FROM total",
		"work goes on after the end of a $kind");
	wait_for("SELECT count(*) >= 1 FROM tidemark.workers
		WHERE kind = '$kind'", "$kind is back");
}

# A batch that is never done: it waits for a lock that this session keeps
my $blocker = $node->background_psql('postgres');
$blocker->query_safe('SELECT pg_advisory_lock(7)');

# pg_cancel_backend cancels the batch, not the worker
$node->safe_psql('postgres', q{
CREATE FUNCTION slow(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF v = -1 THEN PERFORM pg_advisory_xact_lock(7); END IF;
	RETURN v;
END $$;
SELECT tidemark.create_continuous_view('slow_view', $$
	SELECT k, sum(slow(v)) AS s FROM event GROUP BY k
$$, trigger => 'commit');
INSERT INTO event VALUES (3, -1, now());
});
wait_for("SELECT count(*) = 1 FROM tidemark.workers
	WHERE view = 'slow_view'::regclass AND state = 'running'",
	'a busy worker is shown with its view');
like($node->safe_psql('postgres', "SELECT query FROM pg_stat_activity
	WHERE pid = (SELECT pid FROM tidemark.workers
		WHERE view = 'slow_view'::regclass)"),
	qr/public\.slow_view/, '... in pg_stat_activity too');
my $pid = $node->safe_psql('postgres', "SELECT pid FROM tidemark.workers
	WHERE view = 'slow_view'::regclass");
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
wait_for("SELECT count(*) = 1 FROM tidemark.failure WHERE sqlstate = '57014'",
	'a cancelled batch is a failure');
is($node->safe_psql('postgres', "SELECT count(*) FROM pg_stat_activity
	WHERE pid = $pid"), '1', 'the worker lives');
$node->safe_psql('postgres', "INSERT INTO event VALUES (1, 1, now())");
wait_for("SELECT count(*) = 1 FROM tidemark.workers
	WHERE view = 'slow_view'::regclass AND state = 'running'",
	'it is tried again');
wait_for("SELECT (SELECT sum(n) FROM total) = (SELECT count(*) FROM event) + 1",
	'others go on beside a busy worker');

# while a worker is busy, an unrelated database can be dropped
$node->safe_psql('postgres', 'CREATE DATABASE regression_other');
$node->safe_psql('postgres', 'DROP DATABASE regression_other');
pass('an unrelated database is dropped beside a busy worker');

$pid = $node->safe_psql('postgres', "SELECT pid FROM tidemark.workers
	WHERE view = 'slow_view'::regclass");
$node->safe_psql('postgres', "SELECT pg_terminate_backend($pid)");
wait_for("SELECT count(*) = 0 FROM pg_stat_activity WHERE pid = $pid",
	'a busy worker can be terminated');

# a dropped view is left alone, whatever its worker is at
wait_for("SELECT count(*) = 1 FROM tidemark.workers
	WHERE view = 'slow_view'::regclass AND state = 'running'", 'busy again');
$pid = $node->safe_psql('postgres', "SELECT pid FROM tidemark.workers
	WHERE view = 'slow_view'::regclass");
my $session = $node->background_psql('postgres');
$session->query_until(qr/started/, q{
\echo started
DROP VIEW slow_view;
});
wait_for("SELECT count(*) = 1 FROM pg_stat_activity
	WHERE $pid = ANY (pg_blocking_pids(pid))", 'DROP VIEW waits for the batch');
$offset = -s $node->logfile;
$node->safe_psql('postgres', "SELECT pg_cancel_backend($pid)");
$session->quit;
wait_for("SELECT count(*) = 0 FROM tidemark.failure",
	'dropped with its failure');
wait_for("SELECT NOT EXISTS (SELECT FROM tidemark.workers
	WHERE kind = 'batch worker' AND state <> 'idle')", 'nobody is at it');
unlike(slurp_file($node->logfile, $offset), qr/slow_view" failed/,
	'the end of a dropped view is no failure');

$blocker->quit;

# Stop and start
$node->stop('fast');
$node->start;
$node->safe_psql('postgres', "INSERT INTO event VALUES (1, 1, now())");
wait_for("SELECT (SELECT sum(n) FROM total) = (SELECT count(*) FROM event) + 1",
	'work goes on after a restart');
$node->stop;

done_testing();
