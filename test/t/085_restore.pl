# A dump that is restored into another server: what was computed is there, what
# was not read yet is read once, and views are whole again.
use strict;
use warnings;

use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

sub make_node
{
	my ($name) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);

	$node->init;
	$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
max_worker_processes = 16
max_prepared_transactions = 5
));
	$node->start;
	return $node;
}

# view and query agree, in both directions
sub matches
{
	my ($node, $view, $query, $name) = @_;

	is($node->safe_psql('restored', qq(
		SELECT (SELECT count(*) FROM (TABLE $view EXCEPT ALL $query) d),
			(SELECT count(*) FROM ($query EXCEPT ALL TABLE $view) d),
			(SELECT count(*) > 0 FROM $view))), '0|0|t', $name);
}

my $per_minute = q{SELECT window_start, store, count(*) AS n, sum(amount) AS s,
	avg(amount) AS a FROM sale, tidemark.tumble(at, '1 minute')
	GROUP BY window_start, store};
my $per_region = q{SELECT region, count(*) AS n, sum(amount) AS s
	FROM sale JOIN store USING (store) GROUP BY region};
my $per_level = q{SELECT level, count(*) AS n FROM log GROUP BY level};

my $source = make_node('source');
$source->safe_psql('postgres', 'CREATE DATABASE original');
# transaction ids that the other servers do not reach
$source->safe_psql('postgres', q{
DO $$ BEGIN FOR i IN 1..5000 LOOP PERFORM txid_current(); COMMIT; END LOOP; END $$
});
$source->safe_psql('original', qq{
CREATE EXTENSION tidemark;
CREATE ROLE regress_owner;
GRANT CREATE ON SCHEMA public TO regress_owner;
SET ROLE regress_owner;
CREATE TABLE store (store int PRIMARY KEY, region text);
INSERT INTO store SELECT i, 'r' || i % 3 FROM generate_series(0, 9) i;
CREATE TABLE sale (store int, amount numeric, at timestamptz NOT NULL)
	PARTITION BY RANGE (at);
CREATE TABLE sale_1 PARTITION OF sale FOR VALUES FROM ('2024-05-01') TO ('2024-05-02');
CREATE TABLE sale_2 PARTITION OF sale FOR VALUES FROM ('2024-05-02') TO ('2024-05-03');
-- history
INSERT INTO sale SELECT i % 10, i, timestamptz '2024-05-01' + i * interval '1 s'
	FROM generate_series(1, 1000) i;
SELECT tidemark.create_stream('sale', event_time => 'at', watermark_delay => '3 days');
SELECT tidemark.create_continuous_view('per_minute', \$\$ $per_minute \$\$, trigger => 'commit');
SELECT tidemark.create_continuous_view('final_minutes', \$\$ $per_minute \$\$,
	trigger => 'commit', emit => 'final', watermark_delay => '0');
SELECT tidemark.create_continuous_view('per_region', \$\$ $per_region \$\$, trigger => 'manual');
CREATE TABLE log (level text, at timestamptz NOT NULL);
SELECT tidemark.create_stream('log', event_time => 'at');
});
$source->safe_psql('original', q{
INSERT INTO sale SELECT i % 10, i, timestamptz '2024-05-01' + i * interval '13 s'
	FROM generate_series(1, 5000) i;
});
$source->safe_psql('original', 'CALL tidemark.catch_up(' . "'$_')")
	foreach ('per_minute', 'final_minutes', 'per_region');
# a writer that has not committed, one that is prepared, and rows not read yet
$source->safe_psql('original', q{
BEGIN;
INSERT INTO sale VALUES (1, 1000000, '2024-05-01 12:00');
PREPARE TRANSACTION 'prepared';
});
$source->safe_psql('original', q{SELECT tidemark.pause('per_minute')});
$source->safe_psql('original', q{
INSERT INTO sale SELECT i % 10, i, timestamptz '2024-05-02' + i * interval '1 s'
	FROM generate_series(1, 100) i;
INSERT INTO log SELECT 'l' || i % 3, now() FROM generate_series(1, 10) i;
});
$source->safe_psql('original', q{SELECT tidemark.resume('per_minute');
	UPDATE tidemark.continuous_view SET paused = true WHERE view = 'per_minute'::regclass});
my $dumps = $source->basedir;
command_ok([ 'pg_dump', '-Fp', '-f', "$dumps/plain.sql", $source->connstr('original') ],
	'dump, plain');
command_ok([ 'pg_dump', '-Fc', '-f', "$dumps/custom.dump", $source->connstr('original') ],
	'dump, custom');
my $stamps = $source->safe_psql('original', 'SELECT max(_txid::int8) FROM sale');
$source->safe_psql('original', q{COMMIT PREPARED 'prepared'});
$source->stop;

sub check_restored
{
	my ($node, $name) = @_;

	$node->safe_psql('restored',
		q{UPDATE tidemark.continuous_view SET paused = false});
	# by themselves: parts are bound, and owned, again
	ok($node->poll_query_until('restored', q{
		SELECT count(*) = 6 FROM pg_depend d
			JOIN tidemark.continuous_view v ON d.objid IN (v.storage, v.definition)
				AND d.refobjid = v.view AND d.deptype = 'i'}),
		"$name: the parts of views are bound");
	is($node->safe_psql('restored', q{
		SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace
			AND relkind IN ('r', 'v')
			AND relowner <> (SELECT extowner FROM pg_extension WHERE extname = 'tidemark')}),
		'0', "$name: and the extension's");
	is($node->safe_psql('restored', q{
		SELECT has_table_privilege('regress_owner', storage, 'SELECT')
		FROM tidemark.continuous_view WHERE view = 'per_region'::regclass}),
		't', "$name: the owner may read the storage");

	ok($node->poll_query_until('restored',
		"SELECT tidemark.wait_for('per_minute', '10 s') AND tidemark.wait_for('final_minutes', '10 s')"),
		"$name: work goes on");
	$node->safe_psql('restored', "CALL tidemark.catch_up('per_region')");
	matches($node, 'per_minute', $per_minute, "$name: rows that were not read are");
	matches($node, 'per_region', $per_region, "$name: also in a view run by hand");

	$node->safe_psql('restored', q{
INSERT INTO sale SELECT i % 10, i, timestamptz '2024-05-02 01:00' + i * interval '1 s'
	FROM generate_series(1, 100) i;
SELECT tidemark.wait_for('per_minute', '1 min'), tidemark.wait_for('final_minutes', '1 min');
CALL tidemark.catch_up('per_region');
	});
	matches($node, 'per_minute', $per_minute, "$name: new rows are counted");
	matches($node, 'per_region', $per_region, "$name: also in a view run by hand");
	is($node->safe_psql('restored', "SELECT sum(n) FROM final_minutes
		WHERE window_start >= '2024-05-02 01:00'"), '59',
		"$name: windows become final");
	is($node->safe_psql('restored', "SELECT min(_txid::int8) > $stamps FROM sale
		WHERE at > '2024-05-02 01:00'"), 't', "$name: new stamps are larger");

	# a view of a stream that had none
	$node->safe_psql('restored', qq{
SELECT tidemark.create_continuous_view('per_level', \$\$ $per_level \$\$, trigger => 'manual');
CALL tidemark.catch_up('per_level');
	});
	matches($node, 'per_level', $per_level, "$name: a new view of a stream without");

	# nothing is left of what is dropped
	$node->safe_psql('restored', q{
DROP VIEW per_region;
SET client_min_messages = warning;
DROP TABLE sale CASCADE;
DROP TABLE log CASCADE;
	});
	is($node->safe_psql('restored', q{
		SELECT (SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace),
			(SELECT count(*) FROM tidemark.stream),
			(SELECT count(*) FROM tidemark.continuous_view),
			(SELECT count(*) FROM tidemark.checkpoint)}), '0|0|0|0',
		"$name: nothing is left after DROP");
}

# into a server with smaller transaction ids, which is running
my $target = make_node('target');
sub prepare_database
{
	my ($node) = @_;

	$node->safe_psql('postgres', q{
		DROP DATABASE IF EXISTS restored});
	$node->safe_psql('postgres', 'CREATE DATABASE restored');
}
$target->safe_psql('postgres', 'CREATE ROLE regress_owner');
prepare_database($target);
command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $target->connstr('restored'),
	'-f', "$dumps/plain.sql" ], 'restore of the plain dump');
check_restored($target, 'plain');

prepare_database($target);
command_ok([ 'pg_restore', '--exit-on-error', '-d', $target->connstr('restored'),
	'-j', '2', "$dumps/custom.dump" ], 'restore of the custom dump, two jobs');
check_restored($target, 'custom');

# while the restoring session lives, no batch runs; then the views do
prepare_database($target);
my $session = $target->background_psql('restored');
$session->query_safe("\\i $dumps/plain.sql");
$session->query_safe('SET search_path = public');
my ($status, $out, $err) = $target->psql('restored', "CALL tidemark.catch_up('public.per_region')");
like($err, qr/while a dump is restored/, 'no batch beside a restore');
is($target->safe_psql('restored', q{SELECT sum(batch_id) FROM tidemark.checkpoint
	WHERE view = 'public.per_region'::regclass}), '1', 'nor did one run');
$session->quit;

# DROP at once leaves nothing either
$target->safe_psql('restored', 'DROP VIEW per_minute, final_minutes, per_region');
is($target->safe_psql('restored', q{
	SELECT count(*) FROM pg_class WHERE relnamespace = 'tidemark_data'::regnamespace
		AND relname ~ '^(view|definition)_\d+$'}), '0',
	'nothing is left after an early DROP');
is($target->safe_psql('restored', 'SELECT count(*) FROM tidemark.continuous_view'), '0',
	'nor rows');

# into a database that has the extension since before the dump
$target->safe_psql('postgres', 'DROP DATABASE restored');
$target->safe_psql('postgres', 'CREATE DATABASE restored');
$target->safe_psql('restored', q{
CREATE EXTENSION tidemark;
CREATE TABLE early (at timestamptz NOT NULL);
SELECT tidemark.create_stream('early', event_time => 'at');
SELECT tidemark.create_continuous_view('early_view', 'SELECT count(*) AS n FROM early',
	trigger => 'manual');
-- as if it had been made long ago
UPDATE pg_proc SET prosrc = 'SELECT ' || (substr(prosrc, 8)::int8 - (1000000::int8 << 31))
WHERE oid = 'tidemark.stamp_base()'::regprocedure;
});
$target->safe_psql('restored', q{
DROP VIEW early_view;
DROP TABLE early CASCADE;
});
is($target->safe_psql('restored',
	"SELECT tidemark.stamp_base() + txid_current() < $stamps"), 't',
	'an installation that is older than the dump');
# the schema is there already, which is no matter
command_ok([ 'psql', '-X', '-q', '-d', $target->connstr('restored'),
	'-f', "$dumps/plain.sql" ], 'restore into it');
check_restored($target, 'older');

$target->stop;
done_testing();
