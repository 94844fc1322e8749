# A database in which workers run is renamed, moved and copied.
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
));
$node->start;

# a scheduler runs and rows come through
sub works
{
	my ($database, $name) = @_;

	$node->safe_psql($database, 'INSERT INTO event VALUES (now())');
	ok($node->poll_query_until($database,
		'SELECT n = (SELECT count(*) FROM event) FROM total'), $name);
	ok($node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity
		WHERE datname = '$database' AND backend_type = 'tidemark scheduler'"),
		"$name: a scheduler runs");
}

$node->safe_psql('postgres', q{
CREATE ROLE regress_other CREATEDB LOGIN;
CREATE DATABASE first});
$node->safe_psql('first', q{
CREATE EXTENSION tidemark;
CREATE TABLE event (at timestamptz NOT NULL);
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('total', 'SELECT count(*) AS n FROM event',
	trigger => 'commit');
});
works('first', 'before');

# who may not rename or copy it does not send workers away
my $pids = "SELECT string_agg(pid::text, ',' ORDER BY pid) FROM pg_stat_activity
	WHERE datname = 'first' AND backend_type = 'tidemark scheduler'";
my $before = $node->safe_psql('postgres', $pids);
foreach my $sql ('ALTER DATABASE first RENAME TO second',
	'ALTER DATABASE first SET TABLESPACE pg_global',
	'CREATE DATABASE copy TEMPLATE first')
{
	my ($status) = $node->psql('postgres', "SET ROLE regress_other; $sql");
	isnt($status, 0, "refused: $sql");
}
is($node->safe_psql('postgres', $pids), $before, 'workers are where they were');

$node->safe_psql('postgres', 'ALTER DATABASE first RENAME TO second');
works('second', 'renamed');

# rolled back: they come back
$node->safe_psql('postgres', 'BEGIN; ALTER DATABASE second RENAME TO third; ROLLBACK');
works('second', 'not renamed');

$node->safe_psql('postgres', 'CREATE DATABASE copy TEMPLATE second');
works('second', 'copied');
works('copy', 'the copy');

my $folder = PostgreSQL::Test::Utils::tempdir;
$node->safe_psql('postgres', "CREATE TABLESPACE elsewhere LOCATION '$folder'");
$node->safe_psql('postgres', 'ALTER DATABASE second SET TABLESPACE elsewhere');
works('second', 'moved');

$node->stop;
done_testing();
