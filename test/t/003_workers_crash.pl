# Worker processes: crashes, exhausted background workers, promotion.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('main');
$node->init(allows_streaming => 1);
$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
max_worker_processes = 8
autovacuum = off
restart_after_crash = on
tidemark.poll_interval = '1h'
));
$node->start;

sub wait_for
{
	my ($on, $query, $what) = @_;
	ok($on->poll_query_until('postgres', $query), $what);
}

$node->safe_psql('postgres', q{
CREATE EXTENSION tidemark;
CREATE TABLE event (v int, at timestamptz NOT NULL);
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('total', $$
	SELECT count(*) AS n, sum(v) AS s FROM event
$$, trigger => 'commit');
INSERT INTO event VALUES (1, now());
});
wait_for($node, "SELECT sum(n) = 1 FROM total", 'works');

my $exact = "SELECT (SELECT row(n, s) FROM total)
	= (SELECT row(count(*), sum(v)) FROM event)";

# kill -9: the cluster restarts, everything resumes by itself
foreach my $kind ('batch worker', 'scheduler', 'launcher')
{
	my $pid = $node->safe_psql('postgres', "SELECT min(pid)
		FROM tidemark.workers WHERE kind = '$kind'");
	my $offset = -s $node->logfile;
	kill('KILL', $pid);
	$node->wait_for_log(
		qr/reinitializing.*database system is ready to accept connections/s,
		$offset);
	ok($node->poll_query_until('postgres', 'SELECT true'),
		"the server is back after kill -9 of a $kind");
	$node->safe_psql('postgres', "INSERT INTO event VALUES (2, now())");
	wait_for($node, $exact, "exact after kill -9 of a $kind");
}

# the postmaster dies: so do all
my @pids = split /\n/, $node->safe_psql('postgres',
	'SELECT pid FROM tidemark.workers');
$node->kill9;
my $alive = 1;
foreach (1 .. 100 * $PostgreSQL::Test::Utils::timeout_default)
{
	$alive = grep { kill(0, $_) } @pids;
	last unless $alive;
	select(undef, undef, undef, 0.01);
}
is($alive, 0, 'all processes end with the postmaster');
$node->start;
$node->safe_psql('postgres', "INSERT INTO event VALUES (3, now())");
wait_for($node, $exact, 'exact after a crash of the server');

# a standby has no workers; once promoted, it has
$node->backup('backup');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($node, 'backup', has_streaming => 1);
$standby->start;
$node->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT count(*) FROM tidemark.workers'),
	'0', 'no processes on a standby');
$node->stop;
$standby->promote;
$standby->safe_psql('postgres', "INSERT INTO event VALUES (4, now())");
wait_for($standby, $exact, 'exact after promotion');
$standby->stop;

# no place for a background worker: said once, and done later
$node->append_conf('postgresql.conf', 'max_worker_processes = 2');
my $offset = -s $node->logfile;
$node->start;
$node->safe_psql('postgres', "INSERT INTO event VALUES (5, now())");
$node->wait_for_log(qr/could not register a (scheduler|batch worker) of tidemark/,
	$offset);
pass('a lack of background workers is logged');
my @messages = slurp_file($node->logfile, $offset) =~
	/could not register a \w+/g;
is(scalar(@messages), 1, '... once');
$node->adjust_conf('postgresql.conf', 'max_worker_processes', '8');
$node->restart;
wait_for($node, $exact, 'exact when there are some again');
$node->stop;

done_testing();
