# A standby shows views and figures, runs nothing, and goes on where the
# primary was once it is promoted.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
max_worker_processes = 16
));
$primary->start;
$primary->safe_psql('postgres', q{
CREATE EXTENSION tidemark;
CREATE TABLE event (k int, at timestamptz NOT NULL);
SELECT tidemark.create_stream('event', event_time => 'at');
SELECT tidemark.create_continuous_view('total',
	'SELECT count(*) AS n, sum(k) AS s FROM event', trigger => 'commit');
});
$primary->backup('backup');

my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'backup', has_streaming => 1);
$standby->start;

sub refused
{
	my ($sql, $message, $name) = @_;
	my ($status, $stdout, $stderr) = $standby->psql('postgres', $sql);

	is($status, 3, "$name is refused");
	like($stderr, $message, "$name says why");
}

$primary->safe_psql('postgres', q{
INSERT INTO event SELECT i, now() FROM generate_series(1, 100) i;
SELECT tidemark.wait_for('total');
});
$primary->wait_for_catchup($standby);

is($standby->safe_psql('postgres', 'TABLE total'), '100|5050',
	'the view is read');
is($standby->safe_psql('postgres', q{
SELECT rows_in, rows_used, backlog_bytes IS NULL,
	watermark = tidemark.watermark('total') FROM tidemark.progress}),
	'100|100|t|t', 'progress is read');
is($standby->safe_psql('postgres', q{
SELECT (SELECT count(*) FROM tidemark.streams),
	(SELECT count(*) FROM tidemark.continuous_views),
	(SELECT count(*) FROM tidemark.failures),
	(SELECT count(*) FROM tidemark.workers),
	(SELECT count(*) > 5 FROM tidemark.explain('total'))}),
	'1|1|0|0|t', 'so are the other views');
refused("CALL tidemark.catch_up('total')", qr/read-only transaction/,
	'catch_up');
refused("SELECT tidemark.wait_for('total')", qr/during recovery/, 'wait_for');

$standby->promote;
$standby->safe_psql('postgres', q{
INSERT INTO event SELECT i, now() FROM generate_series(101, 110) i;
});
is($standby->safe_psql('postgres', "SELECT tidemark.wait_for('total')"), 't',
	'workers run after promotion');
is($standby->safe_psql('postgres', 'TABLE total'), '110|6105',
	'and go on where the primary was');

$standby->stop;
$primary->stop;
done_testing();
