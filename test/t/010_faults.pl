# Exactly once, whatever happens to a batch: every fault point there is in the
# source, before and after each durable step, acts in every way (an error, a
# cancel, a terminated process, kill -9 and the server's recovery), in worker
# processes and in sessions that catch up, while others insert.  Then the views
# are held against their queries over a copy of the rows, the streams being
# truncated, and their counters against the number of rows.
#
# Needs the build with fault points that test/check makes.
use strict;
use warnings;

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

plan skip_all => 'needs a build with fault points'
  unless $ENV{FAULT_CONFIG};

my @actions = qw(error cancel terminate kill);

# ---------------------------------------------------------------------------
# The points there are, from the source

my @points;
foreach my $file (grep { !/fault/ } glob('src/*.c'))
{
	push @points, slurp_file($file) =~ /TIDE_FAULT\("([^"]+)"\)/g;
}
my %seen;
is(join(', ', grep { $seen{$_}++ } @points), '', 'points have names of their own');

# ---------------------------------------------------------------------------
# Server, streams, views

$ENV{TEMP_CONFIG} = $ENV{FAULT_CONFIG};
my $node = PostgreSQL::Test::Cluster->new('main',
	$ENV{FAULT_INSTALL} ? (install_path => $ENV{FAULT_INSTALL}) : ());
$node->init;
$node->append_conf('postgresql.conf', q(
shared_preload_libraries = 'tidemark'
restart_after_crash = on
max_worker_processes = 16
autovacuum = off
timezone = 'UTC'
tidemark.batch_memory = '64kB'
tidemark.piece_blocks = 20
tidemark.retry_interval = '1ms'
tidemark.retry_max_interval = '5ms'
tidemark.min_batch_interval = '20ms'
log_statement = none
));
$node->start;

sub sql { return $node->safe_psql('postgres', $_[0]); }

sql(q{
CREATE EXTENSION tidemark;
CREATE FUNCTION fault_set(point text, action text, nth int, who text) RETURNS void
	LANGUAGE c AS '$libdir/tidemark', 'tide_fault_set';
CREATE FUNCTION fault_points(OUT point text, OUT countdown int4, OUT hits int8,
	OUT fired int8, OUT waiting int4) RETURNS SETOF record
	LANGUAGE c AS '$libdir/tidemark', 'tide_fault_points';

-- event time goes on by a second with every row
CREATE SEQUENCE event_second;
CREATE TABLE event (k int, v numeric, pad text, at timestamptz,
	id bigint DEFAULT nextval('event_second'));
CREATE FUNCTION add_events(n int) RETURNS void LANGUAGE sql AS $$
	INSERT INTO event SELECT s % 7, s % 1000, repeat('x', 200),
		timestamptz '2020-01-01' + s * interval '1 second', s
	FROM (SELECT nextval('event_second') AS s FROM generate_series(1, n)) q
$$;
CREATE TABLE kind AS SELECT k, 'kind ' || k % 3 AS name FROM generate_series(0, 4) k;
SELECT tidemark.create_stream('event', 'at', watermark_delay => '30 minutes');

-- rows that come without a stamp
CREATE TABLE loose (k int, v int, at timestamptz, pad text);
INSERT INTO loose SELECT i % 5, i, '2020-01-01', repeat('x', 1000)
	FROM generate_series(1, 1200) i;
SELECT tidemark.create_stream('loose', 'at');

-- leaves that come and go
CREATE TABLE part (k int, v int, at timestamptz) PARTITION BY LIST (k);
CREATE TABLE part_1 PARTITION OF part FOR VALUES IN (1);
CREATE TABLE part_2 PARTITION OF part FOR VALUES IN (2);
SELECT tidemark.create_stream('part', 'at');
INSERT INTO part VALUES (1, 1, '2020-01-01'), (2, 2, '2020-01-01');

-- a history
CREATE TABLE log (k int, v int, at timestamptz, pad text);
INSERT INTO log SELECT i % 5, i, timestamptz '2020-01-01' + i * interval '1 second',
	repeat('x', 500) FROM generate_series(1, 1500) i;
CREATE INDEX log_index ON log (v);
SELECT tidemark.create_stream('log', 'at');
});

my %query = (
	per_window => q{SELECT window_start, k, count(*) AS n, sum(v) AS total, avg(v) AS mean, max(id) AS newest
		FROM event, tidemark.tumble(at, '20 seconds') GROUP BY window_start, k},
	joined => q{SELECT name, count(*) AS n, sum(v) AS total
		FROM event JOIN kind USING (k) GROUP BY name},
	wide => q{SELECT id, v, count(*) AS n FROM event WHERE k > 0 GROUP BY id, v},
	all_of_it => q{SELECT count(*) AS n, sum(v) AS total FROM event},
	loose_rows => q{SELECT k, count(*) AS n, sum(v) AS total FROM loose GROUP BY k},
	parts => q{SELECT k, count(*) AS n, sum(v) AS total FROM part GROUP BY k},);
my %view = (
	worker_per_window => 'per_window', worker_final => 'per_window',
	worker_joined => 'joined', worker_wide => 'wide', worker_all => 'all_of_it',
	worker_parts => 'parts',
	call_per_window => 'per_window', call_final => 'per_window',
	call_joined => 'joined', call_wide => 'wide', call_all => 'all_of_it',
	call_loose => 'loose_rows', call_parts => 'parts',);
foreach my $view (sort keys %view)
{
	my $trigger = $view =~ /^worker/ ? 'commit' : 'manual';
	my $emit = $view =~ /final$/ ? 'final' : 'update';
	sql("SELECT tidemark.create_continuous_view('$view', \$\$$query{$view{$view}}\$\$,
		trigger => '$trigger', emit => '$emit')");
}

sql("CALL tidemark.catch_up('$_')") foreach grep { /^call/ } sort keys %view;

# ---------------------------------------------------------------------------
# The load: rows of plain inserts, of savepoints, of transactions rolled back

my $script = $node->basedir . '/load.sql';
append_to_file($script, q{
\set n random(1, 6)
SELECT add_events(:n);
BEGIN;
SELECT add_events(1);
SAVEPOINT s;
SELECT add_events(1);
ROLLBACK TO s;
SELECT add_events(:n);
SAVEPOINT t;
SELECT add_events(1);
COMMIT;
BEGIN;
SELECT add_events(:n);
ROLLBACK;
INSERT INTO part VALUES (1 + :n % 2, :n, '2020-01-01');
});
my $load;
my $load_output = '';

sub start_load
{
	stop_load();
	$load = IPC::Run::start(
		[ 'pgbench', '-n', '-c', 2, '-R', 10, '-T', 3600, '-f', $script,
			'-h', $node->host, '-p', $node->port, 'postgres' ],
		'<', \undef, '>&', \$load_output);
}

sub stop_load
{
	return unless $load;
	$load->kill_kill(grace => 0);
	$load = undef;
}

# ---------------------------------------------------------------------------
# Rounds: arm a point, do what reaches it, see in the log that it acted

my $kills = 0;

sub acted
{
	my ($point, $action, $offset) = @_;
	my @found = slurp_file($node->logfile, $offset) =~
	  /fault point "\Q$point\E" acts: $action/g;
	return scalar(@found);
}

# Look until something is true, for a minute.
sub wait_until
{
	my ($look) = @_;
	foreach (1 .. 6000)
	{
		return 1 if $look->();
		select(undef, undef, undef, 0.01);
	}
	return 0;
}

sub server_is_back
{
	my ($offset) = @_;
	$kills++;
	wait_until(sub {
		slurp_file($node->logfile, $offset) =~
		  /database system is ready to accept connections/;
	}) or BAIL_OUT('the server did not come back');
	start_load();
}

# In sessions that run a statement.
sub call_rounds
{
	my ($point) = @_;
	# the later times are in the middle of a batch
	my @times = $point =~ /: row|row$/ ? (1, 17, 60) : (1, 1, 1);
	my @rounds = ([ 'error', $times[0] ], [ 'error', $times[1] ], [ 'cancel', $times[0] ],
		[ 'cancel', $times[2] ], [ 'error', $times[2] ]);
	my $offset = -s $node->logfile;
	my $statements = '';
	my ($out, $err);

	foreach my $round (@rounds)
	{
		$round->[1] = 1 if $point =~ /^restamp/;
		$statements .= arm($point, @$round, 'session') . reach($point)
		  . arm($point, 'off', 0, 'any') . repair($point);
	}
	run_script($point, $statements);
	foreach my $action (qw(error cancel))
	{
		my $wanted = grep { $_->[0] eq $action } @rounds;
		my $found = acted($point, $action, $offset);
		$found == $wanted
		  or fail("$point: $action was reached $found of $wanted times");
	}

	foreach my $action (qw(terminate kill))
	{
		$offset = -s $node->logfile;
		run_script($point, arm($point, $action, 1, 'session') . reach($point), 1);
		if (!acted($point, $action, $offset))
		{
			fail("$point: $action was not reached");
			run_script($point, arm($point, 'off', 0, 'any'));
		}
		elsif ($action eq 'kill')
		{
			server_is_back($offset);
		}
		run_script($point, repair($point));
	}
}

sub arm
{
	my ($point, $action, $nth, $who) = @_;
	return "SELECT fault_set('$point', '$action', $nth, '$who');\n";
}

# Run statements that may fail; what they print is what they find wrong.
sub run_script
{
	my ($point, $statements, $may_end) = @_;
	my ($out, $err);
	my $rc = $node->psql('postgres', $statements, stdout => \$out, stderr => \$err,
		on_error_stop => 0, on_error_die => 0);

	like($out, qr/^\s*$/, "$point: nothing is wrong") if $out !~ /^\s*$/;
	return if $rc == 0 || $may_end;
	fail("$point: the session ended");
	diag($err);
}

# In a worker that is woken by rows.
my $session;

sub worker_rounds
{
	my ($point) = @_;
	# only a worker that has failed gets here
	my $first = $point =~ /failure/ ? arm('batch: planned', 'error', 1, 'worker') : '';

	foreach my $action (qw(error cancel terminate error kill))
	{
		my $offset = -s $node->logfile;

		$session //= $node->background_psql('postgres', on_error_stop => 0);
		# a kill ends this session too, before or after it has its answer
		eval {
			$session->query(arm($point, $action, $action eq 'kill' && !$first ? 2 : 1, 'worker')
				. $first . 'SELECT add_events(40); SELECT add_events(40);');
			1;
		} or $action eq 'kill' or die $@;
		if (!wait_until(sub { acted($point, $action, $offset) }))
		{
			fail("$point: $action was not reached by a worker");
			$session->query(arm($point, 'off', 0, 'any'));
			next;
		}
		next unless $action eq 'kill';
		eval { $session->quit };
		$session = undef;
		server_is_back($offset);
	}
}

# ---------------------------------------------------------------------------
# What reaches a point

my $add = 'SELECT add_events(40); SELECT add_events(40); SELECT add_events(40);';

# a view of the history, read in pieces; the one before is dropped
my $history = q{
SET client_min_messages = warning;
DROP VIEW IF EXISTS history;
SET tidemark.piece_blocks = 30;
DO $do$ BEGIN PERFORM tidemark.create_continuous_view('history', $$
	SELECT window_start, k, count(*) AS n, sum(v) AS total
	FROM log, tidemark.tumble(at, '1 minute') GROUP BY window_start, k $$,
	trigger => 'manual'); END $do$;
};
# one piece is read, then the table is rewritten
my $rewritten = $history . q{
BEGIN; CALL tidemark.catch_up('history'); COMMIT;
BEGIN; CALL tidemark.catch_up('history'); COMMIT;
CLUSTER log USING log_index;
};
my $loose = q{
COPY loose (k, v, at, _txid) FROM PROGRAM 'printf "1,7,2020-01-01,\\n2,8,2020-01-01,\\n"' (FORMAT csv);
CALL tidemark.catch_up('call_loose');
};
my $create = q{
DO $do$ BEGIN PERFORM tidemark.create_continuous_view('never',
	'SELECT count(*) AS n FROM event', trigger => 'manual'); END $do$;
};
# the first batch of a view is always sampled
my $sampled = q{
SET client_min_messages = warning;
DROP VIEW IF EXISTS sampled;
DO $do$ BEGIN PERFORM tidemark.create_continuous_view('sampled',
	'SELECT k, count(*) AS n FROM part GROUP BY k', trigger => 'manual'); END $do$;
CALL tidemark.catch_up('sampled');
};
my @call_views = qw(call_per_window call_joined call_wide call_all call_final);

sub is_historys { return $_[0] =~ /pieces|piece written|last piece|restart|cleared/; }

sub reach
{
	my ($point) = @_;
	return $create if $point =~ /^create view/;
	return $loose if $point =~ /^(restamp|summarize)/;
	return $sampled if $point =~ /before history/;
	return "$rewritten CALL tidemark.catch_up('history');"
	  if $point =~ /before restart|storage cleared/;
	return "$history CALL tidemark.catch_up('history');" if is_historys($point);
	return q{SET client_min_messages = warning;
		SET tidemark.allow_unconsumed_drop = on;
		ALTER TABLE part DETACH PARTITION part_2;
		INSERT INTO part VALUES (1, 1, '2020-01-01');
		CALL tidemark.catch_up('call_parts');} if $point =~ /leaf left/;
	return "$add SET tidemark.piece_blocks = 1; CALL tidemark.catch_up('call_all');"
	  if $point =~ /piece of stamps/;
	return "$add CALL tidemark.catch_up('call_final');" if $point =~ /notify/;
	my $view = $point =~ /row$/ ? 'call_wide' :
	  $call_views[ int(rand(@call_views)) ];
	return "$add CALL tidemark.catch_up('$view');";
}

# What was left undone is done, so that the next round finds things so; prints
# what is wrong.
sub repair
{
	my ($point) = @_;
	return q{
		INSERT INTO part_2 VALUES (2, 7, '2020-01-01');
		CALL tidemark.catch_up('call_parts');
		ALTER TABLE part ATTACH PARTITION part_2 FOR VALUES IN (2);
		CALL tidemark.catch_up('call_parts');} if $point =~ /leaf left/;
	return q{
		CALL tidemark.catch_up('history');
		SELECT 'the history: ' || x FROM (
			SELECT window_start, k, count(*) AS n, sum(v) AS total
			FROM log, tidemark.tumble(at, '1 minute') GROUP BY window_start, k
			EXCEPT ALL TABLE history) x;
		SELECT 'the history has ' || n || ', counted ' || rows_in
			FROM (SELECT sum(n) AS n FROM history) h, tidemark.progress
			WHERE view = 'history'::regclass AND (rows_in, rows_used, n) <> (1500, 1500, 1500);
		} if is_historys($point);
	return q{
		SELECT 'left of a view: ' || relname FROM pg_class
			WHERE relname = 'never' OR relnamespace = 'tidemark_data'::regnamespace
				AND relkind = 'r' AND NOT EXISTS (SELECT FROM tidemark.continuous_view
					WHERE storage = pg_class.oid);
		} if $point =~ /^create view/;
	# a session summarises a range once
	return '' if $point =~ /^summarize/;
	return join('', map { "CALL tidemark.catch_up('$_');\n" }
		  grep { rand() < 0.4 } @call_views, 'call_loose');
}

start_load();
foreach my $point (@points)
{
	# worker's own points aside, and those that need what load does not bring
	call_rounds($point) unless $point =~ /^worker/;
	worker_rounds($point)
	  if $point =~ /^(worker|storage|batch)/
	  && !is_historys($point)
	  && $point !~ /leaf left|piece of stamps/;

	# from the middle on a kill may take commits with it
	next unless $point eq $points[ @points / 2 ];
	$node->append_conf('postgresql.conf', 'tidemark.asynchronous_commit = on');
	$node->reload;
}
stop_load();
$session->quit if $session;
sql('DROP VIEW IF EXISTS history, sampled');
is(sql("SELECT string_agg(point, ', ') FROM fault_points() WHERE countdown > 0"), '',
	'no point is left armed');

# ---------------------------------------------------------------------------
# How often each point acted: the log tells, as a killed process cannot

my $log = slurp_file($node->logfile);
my %acted;
$acted{$1}{$2}++ while $log =~ /fault point "([^"]+)" acts: (\w+)/g;
my ($total, $inside) = (0, 0);
note(sprintf('%-30s %s', 'point', join(' ', map { sprintf('%9s', $_) } @actions)));
foreach my $point (@points)
{
	note(sprintf('%-30s %s', $point,
		join(' ', map { sprintf('%9d', $acted{$point}{$_} // 0) } @actions)));
	foreach my $action (@actions)
	{
		my $n = $acted{$point}{$action} // 0;
		fail("$point: no $action") unless $n;
		$total += $n;
		$inside += $n if $point =~ /^(batch|storage|worker|catch_up)/;
	}
}
note("$total faults, $inside of them inside of a batch, $kills kills");
cmp_ok($inside, '>=', 200, 'at least 200 faults inside of a batch');
cmp_ok($kills, '>=', scalar(@points), 'at least a kill at every point');

# ---------------------------------------------------------------------------
# The views: complete, and exact without their streams

sql("CALL tidemark.catch_up('$_')") foreach sort keys %view;
foreach my $stream (qw(event loose part))
{
	sql("CREATE TABLE saved_$stream AS SELECT * FROM $stream");
	sql("TRUNCATE $stream");
}
foreach my $view (sort keys %view)
{
	(my $oracle = $query{$view{$view}}) =~ s/\bFROM (event|loose|part)\b/FROM saved_$1/;
	my ($stream) = $oracle =~ /saved_(\w+)/;
	my $rows = sql("SELECT count(*) FROM saved_$stream");
	my $only_view = sql("SELECT count(*) FROM (TABLE $view EXCEPT ALL $oracle) x");
	my $final = $view =~ /final$/ ?
	  "WHERE window_start + interval '20 seconds' <= tidemark.watermark('$view')" : '';
	my $only_oracle = sql("SELECT count(*) FROM (SELECT * FROM ($oracle) o $final
		EXCEPT ALL TABLE $view) x");
	is("$only_view $only_oracle", '0 0', "$view is exact");
	is(sql("SELECT rows_in = $rows AND rows_late = 0
		AND rows_in = rows_null_time + rows_rejected + rows_filtered + rows_late
			+ rows_duplicate + rows_failed + rows_used
		FROM tidemark.progress WHERE view = '$view'::regclass"), 't',
		"$view has counted $rows rows, each once");
	# that of a view without keys is there from the start
	is(sql("SELECT state_rows = (SELECT count(*) FROM " .
		sql("SELECT storage FROM tidemark.continuous_view WHERE view = '$view'::regclass") .
		") FROM tidemark.progress WHERE view = '$view'::regclass"), 't',
		"$view has counted its rows of state") unless $view =~ /_all$/;
}
cmp_ok(sql('SELECT count(*) FROM saved_event'), '>', 5000, 'there was something to count');
cmp_ok(sql("SELECT count(*) FROM worker_final"), '>', 100, 'windows became final');
is(sql('SELECT count(*) FROM tidemark.failure'), '0', 'no failure is left');
is(sql("SELECT rows_restamped > 0 FROM tidemark.streams WHERE relation = 'loose'::regclass"),
	't', 'rows were restamped');
my @traps = $log =~ /(TRAP:.*|PANIC:.*)/g;
is("@traps", '', 'no assertion failed');

$node->stop;
done_testing();
