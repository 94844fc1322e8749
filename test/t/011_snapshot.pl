# The snapshot of a batch is taken after its locks: an ALTER TABLE that rewrites
# the table, and commits while the batch waits for its lock or before, makes
# rows invisible to an older snapshot, which the position would count as
# consumed.
#
# Needs the build with fault points that test/check makes.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'needs a build with fault points'
  unless $ENV{FAULT_CONFIG};

$ENV{TEMP_CONFIG} = $ENV{FAULT_CONFIG};
my $node = PostgreSQL::Test::Cluster->new('main',
	$ENV{FAULT_INSTALL} ? (install_path => $ENV{FAULT_INSTALL}) : ());
$node->init;
$node->append_conf('postgresql.conf', q(
shared_preload_libraries = 'tidemark'
autovacuum = off
));
$node->start;

$node->safe_psql('postgres', q{
CREATE EXTENSION tidemark;
CREATE FUNCTION fault_set(point text, action text, nth int, who text) RETURNS void
	LANGUAGE c AS '$libdir/tidemark', 'tide_fault_set';
CREATE FUNCTION fault_points(OUT point text, OUT countdown int4, OUT hits int8,
	OUT fired int8, OUT waiting int4) RETURNS SETOF record
	LANGUAGE c AS '$libdir/tidemark', 'tide_fault_points';
CREATE TABLE event (v int, other int, at timestamptz);
SELECT tidemark.create_stream('event', 'at');
SELECT tidemark.create_continuous_view('total',
	'SELECT count(*) AS n, sum(v) AS s FROM event', trigger => 'manual');
INSERT INTO event VALUES (1, 1, '2026-01-01');
CALL tidemark.catch_up('total');
});

# A rewrite commits before the locks
my $expected = 1;
foreach my $type (qw(bigint numeric))
{
	$node->safe_psql('postgres', q{
		INSERT INTO event VALUES (1, 1, '2026-01-01'), (1, 2, '2026-01-01');
		SELECT fault_set('batch: begin', 'wait', 1, 'session')});
	$expected += 2;
	my $runner = $node->background_psql('postgres');
	$runner->query_until(qr/started/, qq{
\\echo started
CALL tidemark.catch_up('total');
});
	ok($node->poll_query_until('postgres',
		"SELECT waiting = 1 FROM fault_points() WHERE point = 'batch: begin'"),
		'the batch waits before its locks');
	$node->safe_psql('postgres', "ALTER TABLE event ALTER other TYPE $type");
	$node->safe_psql('postgres', "SELECT fault_set('batch: begin', 'off', 0, 'any')");
	$runner->quit;
	is($node->safe_psql('postgres', 'SELECT n, s FROM total'), "$expected|$expected",
		"nothing is lost by a rewrite to $type before the locks");
}

# A rewrite waits for a batch that has its locks, and takes nothing from it
foreach my $point ('batch: locked', 'batch: planned', 'batch: snapshot taken', 'batch: row')
{
	$node->safe_psql('postgres', qq{
		INSERT INTO event VALUES (1, 1, '2026-01-01'), (1, 2, '2026-01-01');
		SELECT fault_set('$point', 'wait', 1, 'session')});
	$expected += 2;
	my $runner = $node->background_psql('postgres');
	$runner->query_until(qr/started/, qq{
\\echo started
CALL tidemark.catch_up('total');
});
	ok($node->poll_query_until('postgres',
		"SELECT waiting = 1 FROM fault_points() WHERE point = '$point'"),
		"the batch waits at $point");
	my $rewriter = $node->background_psql('postgres');
	$rewriter->query_until(qr/started/, q{
\echo started
ALTER TABLE event ALTER other TYPE int;
ALTER TABLE event ALTER other TYPE numeric;
});
	ok($node->poll_query_until('postgres', q{
		SELECT count(*) = 1 FROM pg_locks WHERE NOT granted
			AND relation = 'event'::regclass AND mode = 'AccessExclusiveLock'}),
		'the rewrite waits');
	$node->safe_psql('postgres', "SELECT fault_set('$point', 'off', 0, 'any')");
	$runner->quit;
	$rewriter->quit;
	$node->safe_psql('postgres', "CALL tidemark.catch_up('total')");
	is($node->safe_psql('postgres', 'SELECT n, s FROM total'), "$expected|$expected",
		'nothing is lost or doubled');
}

is($node->safe_psql('postgres', q{SELECT rows_in FROM tidemark.progress}), $expected,
	'every row is counted once');
$node->stop;
done_testing();
