# Worker processes and DDL: extension, databases, templates, limits.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init;
$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
max_worker_processes = 16
autovacuum = off
tidemark.poll_interval = '1h'
tidemark.max_workers = 2
));
$node->start;

sub wait_for
{
	my ($query, $what, $database) = @_;
	ok($node->poll_query_until($database // 'postgres', $query), $what);
}

# A stream and a view that is never done with a row of -1
sub make_view
{
	my ($database) = @_;
	$node->safe_psql($database, q{
CREATE EXTENSION IF NOT EXISTS tidemark;
CREATE TABLE event (v int, at timestamptz NOT NULL);
CREATE FUNCTION slow(v int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS $$
BEGIN
	IF v = -1 THEN PERFORM count(*) FROM pg_catalog.pg_parameter_acl; END IF;
	RETURN v;
END $$;
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('total', $$
	SELECT count(*) AS n, sum(slow(v)) AS s FROM event
$$, trigger => 'commit');
INSERT INTO event VALUES (1, now());
});
	wait_for("SELECT sum(n) = 1 FROM total", "$database: works", $database);
}

sub count_processes
{
	my ($database) = @_;
	return "SELECT count(*) FROM pg_stat_activity
		WHERE backend_type LIKE 'tidemark %' AND datname = '$database'";
}

# Keep a batch busy by a lock on a shared catalog, which works from another
# database; lasts as long as the session that is returned
sub make_busy
{
	my ($database) = @_;
	my $blocker = $node->background_psql('postgres');
	$blocker->query_safe('BEGIN');
	$blocker->query_safe(
		'LOCK TABLE pg_catalog.pg_parameter_acl IN ACCESS EXCLUSIVE MODE');
	$node->safe_psql($database, "INSERT INTO event VALUES (-1, now())");
	wait_for("SELECT count(*) = 1 FROM tidemark.workers
		WHERE view = 'total'::regclass AND state = 'running'",
		"$database: busy", $database);
	return $blocker;
}

# DROP DATABASE, first idle, then busy
$node->safe_psql('postgres', 'CREATE DATABASE regression_drop');
make_view('regression_drop');
$node->safe_psql('postgres', 'DROP DATABASE regression_drop');
pass('drop an idle database');

$node->safe_psql('postgres', 'CREATE DATABASE regression_drop');
make_view('regression_drop');
my $blocker = make_busy('regression_drop');
$node->safe_psql('postgres', 'DROP DATABASE regression_drop');
pass('drop a busy database at first try');
$blocker->quit;

# by its owner, with force: our processes belong to a superuser
$node->safe_psql('postgres', 'CREATE ROLE regress_owner LOGIN CREATEDB');
$node->safe_psql('postgres',
	'CREATE DATABASE regression_drop OWNER regress_owner');
make_view('regression_drop');
$blocker = make_busy('regression_drop');
$node->safe_psql('postgres', 'DROP DATABASE regression_drop WITH (FORCE)',
	extra_params => [ '-U', 'regress_owner' ]);
pass('an owner who is no superuser drops a busy database with force');
$blocker->quit;

# who must not drop it does not disturb it
$node->safe_psql('postgres', 'CREATE ROLE regress_other LOGIN');
$node->safe_psql('postgres', 'CREATE DATABASE regression_drop');
make_view('regression_drop');
my $pids = $node->safe_psql('regression_drop',
	"SELECT string_agg(pid::text, ',' ORDER BY pid) FROM tidemark.workers");
my ($ret, $out, $err) = $node->psql('postgres', 'DROP DATABASE regression_drop',
	extra_params => [ '-U', 'regress_other' ]);
like($err, qr/must be owner of database/, 'not the owner');
is($node->safe_psql('regression_drop',
	"SELECT string_agg(pid::text, ',' ORDER BY pid) FROM tidemark.workers"),
	$pids, 'the processes were left alone');

# a drop that fails
my $session = $node->background_psql('regression_drop');
$session->query_safe('SELECT 1');
($ret, $out, $err) = $node->psql('postgres', 'DROP DATABASE regression_drop');
like($err, qr/is being accessed by other users/, 'a drop fails');
$node->safe_psql('regression_drop', "INSERT INTO event VALUES (2, now())");
wait_for("SELECT sum(n) = 2 FROM total", 'the processes are back',
	'regression_drop');
$session->quit;
$node->safe_psql('postgres', 'DROP DATABASE regression_drop');

# a copy of a database that has views; the original has to be quiet for that
$node->safe_psql('postgres', 'CREATE DATABASE regression_template');
make_view('regression_template');
$node->safe_psql('postgres',
	'ALTER DATABASE regression_template IS_TEMPLATE true');
wait_for(count_processes('regression_template') =~ s/count\(\*\)/count(*) = 0/r,
	'no processes in a template');
$node->safe_psql('postgres',
	'CREATE DATABASE regression_copy TEMPLATE regression_template');
$node->safe_psql('regression_copy', "INSERT INTO event VALUES (2, now())");
wait_for("SELECT sum(n) = 2 FROM total", 'the copy has processes of its own',
	'regression_copy');
is($node->safe_psql('regression_template', "SELECT sum(n) FROM total"), '1',
	'and its own state');
$node->safe_psql('postgres', "
ALTER DATABASE regression_template IS_TEMPLATE false");
wait_for("SELECT count(*) = 1 FROM pg_stat_activity
	WHERE backend_type = 'tidemark scheduler'
	AND datname = 'regression_template'", 'the original is served again');

# more databases than workers: each gets its turn
make_view('postgres');
foreach my $database ('regression_template', 'regression_copy', 'postgres')
{
	$node->safe_psql($database, "INSERT INTO event VALUES (7, now())");
}
wait_for("SELECT sum(n) = 2 FROM total", 'first of three databases',
	'regression_template');
wait_for("SELECT sum(n) = 3 FROM total", 'second of three databases',
	'regression_copy');
wait_for("SELECT sum(n) = 2 FROM total", 'third of three databases',
	'postgres');
cmp_ok($node->safe_psql('postgres', "SELECT count(*) FROM tidemark.workers
	WHERE kind = 'batch worker'"), '<=', 2, 'tidemark.max_workers is kept');
$node->safe_psql('postgres', 'DROP DATABASE regression_copy');
$node->safe_psql('postgres', 'DROP DATABASE regression_template');

# DROP EXTENSION, rolled back and committed
$node->safe_psql('postgres', 'BEGIN; DROP EXTENSION tidemark CASCADE; ROLLBACK');
$node->safe_psql('postgres', "INSERT INTO event VALUES (8, now())");
wait_for("SELECT sum(n) = 3 FROM total", 'DROP EXTENSION rolled back');
my $offset = -s $node->logfile;
$node->safe_psql('postgres', 'DROP EXTENSION tidemark CASCADE');
wait_for(count_processes('postgres') =~ s/count\(\*\)/count(*) = 0/r,
	'all leave after DROP EXTENSION');
unlike(slurp_file($node->logfile, $offset), qr/(ERROR|FATAL|scheduler)/,
	'... quietly');

# the same with a worker in the middle of a batch
$node->safe_psql('postgres', 'DROP TABLE event; DROP FUNCTION slow');
make_view('postgres');
$blocker = make_busy('postgres');
my $busy = $node->safe_psql('postgres', "SELECT pid FROM tidemark.workers
	WHERE state = 'running' AND view IS NOT NULL");
$session = $node->background_psql('postgres');
$session->query_until(qr/started/, q{
\echo started
DROP EXTENSION tidemark CASCADE;
});
wait_for("SELECT $busy = ANY (pg_blocking_pids(pid)) FROM pg_stat_activity
	WHERE query LIKE 'DROP EXTENSION%' AND wait_event_type = 'Lock'",
	'DROP EXTENSION waits for the batch');
$node->safe_psql('postgres', "SELECT pg_cancel_backend($busy)");
$session->quit;
wait_for(count_processes('postgres') =~ s/count\(\*\)/count(*) = 0/r,
	'all leave after DROP EXTENSION in a batch');

$blocker->quit;

# without preloading there are no processes, and CREATE EXTENSION works
$node->adjust_conf('postgresql.conf', 'shared_preload_libraries', "''");
$node->restart;
$node->safe_psql('postgres', 'CREATE EXTENSION tidemark');
is($node->safe_psql('postgres', 'SELECT count(*) FROM tidemark.workers'), '0',
	'no processes without preloading');
$node->safe_psql('postgres', 'DROP EXTENSION tidemark');
$node->stop;

done_testing();
