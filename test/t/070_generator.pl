# Random queries: each is refused with a reason, or the continuous view equals
# the query run as plain SQL, after several random batches.  Where plain SQL
# fails, the batch or reading the view fails with the same SQLSTATE, and the
# position stays.
#
# SEED   of the first round; the rounds that follow add one each (default 1)
# COUNT  number of queries, rounded up to whole rounds of 50 (default 2000)
# SERVER connection string of a running server, whose schemas gen and oracle are
#        made anew; default: a server of its own
# SCRIPT file to append the SQL of the rounds to
#
# A difference is printed with the seed of its round: SEED=that COUNT=50
# repeats it.  QUERY= narrows a round down to the queries of these numbers.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::Bin/..";

use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use QueryGenerator;
use Test::More;

use constant ROUND => 50;

my $seed = $ENV{SEED} || 1;
my $count = $ENV{COUNT} || 2000;
my %wanted = map { $_ => 1 } split /\D+/, $ENV{QUERY} // '';
my ($node, $connection);

if ($ENV{SERVER})
{
	$connection = $ENV{SERVER};
}
else
{
	$node = PostgreSQL::Test::Cluster->new('main');
	$node->init;
	$node->append_conf('postgresql.conf', qq(
shared_preload_libraries = 'tidemark'
jit = off
max_prepared_transactions = 2
log_min_messages = panic
log_min_error_statement = panic
log_statement = none
log_min_duration_statement = -1
));
	$node->start;
	$connection = $node->connstr('postgres');
}

# Run a script; its output, errors, and how psql ended.
sub run_psql
{
	my $sql = shift;
	my ($out, $err) = ('', '');
	IPC::Run::run [ 'psql', '-XqAt', '-d', $connection, '-f', '-' ],
	  '<', \$sql, '>', \$out, '2>', \$err;
	return ($out, $err, $? >> 8);
}

# What a query gave.  outcome: refused, running, failed (as plain SQL does),
# wrong.
my $functions = <<'SQL';
CREATE TABLE gen.result (
	def int PRIMARY KEY, query text, kind text, outcome text, state text,
	message text, compared int DEFAULT 0, failures int DEFAULT 0, rows int8 DEFAULT 0,
	shown text[], checkpoint text, detail text);

CREATE FUNCTION gen.plain_state(query text) RETURNS text
LANGUAGE plpgsql SET search_path = gen AS $$
BEGIN
	EXECUTE 'EXPLAIN ' || query;
	RETURN '00000';
EXCEPTION WHEN OTHERS THEN
	RETURN SQLSTATE;
END $$;

-- Make the view; whether it was made.  A refusal must have a reason: those of
-- class 42 but a few are what plain SQL says, too.
CREATE FUNCTION gen.make(def int, query text, kind text) RETURNS bool
LANGUAGE plpgsql SET search_path = gen AS $$
DECLARE
	plain text;
	why text;
BEGIN
	PERFORM tidemark.create_continuous_view('gen.v' || def, query, trigger => 'manual');
	INSERT INTO gen.result (def, query, kind, outcome)
		VALUES (def, query, kind, 'running');

	-- columns are those of the query
	SELECT string_agg(format('%s: %s %s', a.attname, a.atttypid::regtype, b.atttypid::regtype), '; ')
		INTO why
		FROM (SELECT * FROM pg_attribute
			  WHERE attrelid = ('gen.v' || def)::regclass AND attnum > 0) a
			FULL JOIN
			 (SELECT * FROM pg_attribute
			  WHERE attrelid = (SELECT definition FROM tidemark.continuous_view
								WHERE view = ('gen.v' || def)::regclass) AND attnum > 0) b
			ON a.attnum = b.attnum AND a.attname = b.attname AND a.atttypid = b.atttypid
				AND a.atttypmod = b.atttypmod AND a.attcollation = b.attcollation
		WHERE a.attnum IS NULL OR b.attnum IS NULL;
	IF why IS NOT NULL THEN
		UPDATE gen.result r SET outcome = 'wrong', detail = 'columns: ' || why
			WHERE r.def = make.def;
	END IF;
	RETURN true;
EXCEPTION WHEN OTHERS OR query_canceled THEN
	IF SQLSTATE NOT LIKE '0A%' AND SQLSTATE NOT IN
		('42P16', '42701', '42P22', '42601', '55000') THEN
		plain := gen.plain_state(query);
		IF plain <> SQLSTATE AND NOT (SQLSTATE LIKE '22%' AND plain = '00000') THEN
			why := 'plain SQL gives ' || plain;
		END IF;
	END IF;
	IF SQLSTATE !~ '^(0A|22|42|55000)' AND plain IS DISTINCT FROM SQLSTATE OR
		SQLSTATE LIKE 'XX%' OR SQLERRM = '' THEN
		why := coalesce(why, '') || ' not a proper reason';
	END IF;
	INSERT INTO gen.result (def, query, kind, outcome, state, message, detail)
		VALUES (def, query, kind, CASE WHEN why IS NULL THEN 'refused' ELSE 'wrong' END,
			SQLSTATE, SQLERRM, why);
	RETURN false;
END $$;

CREATE FUNCTION gen.is_running(def int, states text[] = '{running}') RETURNS bool
LANGUAGE sql AS $$
	SELECT EXISTS (SELECT FROM gen.result r
				   WHERE r.def = is_running.def AND outcome = ANY (states))
$$;

-- Rows of a query as text, or the SQLSTATE it fails with
CREATE FUNCTION gen.rows_of(query text, OUT shown text[], OUT state text, OUT message text)
LANGUAGE plpgsql SET search_path = oracle, gen AS $$
BEGIN
	EXECUTE format('SELECT coalesce(array_agg(row_::text ORDER BY row_::text COLLATE "C"), ''{}'')
		FROM (%s) row_', rtrim(query, ';')) INTO shown;
	state := '00000';
EXCEPTION WHEN OTHERS OR query_canceled THEN
	state := SQLSTATE;
	message := SQLERRM;
END $$;

-- Are the rows of two queries equal by the operators of their types?  Words
-- that went astray let a query show one of several equal values, or all digits
-- of a float.
CREATE FUNCTION gen.are_equal(a text, b text) RETURNS bool
LANGUAGE plpgsql SET search_path = oracle, gen SET extra_float_digits = -5 AS $$
DECLARE
	n int8;
	x text[];
	y text[];
BEGIN
	SELECT shown INTO x FROM gen.rows_of(a);
	SELECT shown INTO y FROM gen.rows_of(b);
	IF x = y THEN
		RETURN true;
	END IF;
	EXECUTE format('SELECT count(*) FROM ((%1$s EXCEPT ALL (%2$s))
		UNION ALL ((%2$s) EXCEPT ALL %1$s)) row_', a, b) INTO n;
	RETURN n = 0;
EXCEPTION WHEN OTHERS THEN
	RETURN false;
END $$;

-- Judge a batch that ended with a state.  When it was in pieces, some of these
-- may have been committed before it failed.
CREATE FUNCTION gen.judge(def int, state text, message text, in_pieces bool, rows_expected int8)
RETURNS void LANGUAGE plpgsql SET search_path = gen AS $$
DECLARE
	r gen.result;
	oracle record;
	found record;
	point text;
	why text;
	source text;
	n int8;
BEGIN
	SELECT * INTO STRICT r FROM gen.result x WHERE x.def = judge.def;
	oracle := gen.rows_of(r.query);
	found := gen.rows_of('TABLE gen.v' || def);
	SELECT format('%s %s %s %s', batch_id, pos_xmax, pos_in_progress, totals[1]) INTO point
		FROM tidemark.checkpoint WHERE view = ('gen.v' || def)::regclass;

	IF state <> '00000' THEN
		IF oracle.state <> state THEN
			why := format('batch fails with %s (%s), plain SQL gives %s (%s)',
				state, message, oracle.state, oracle.message);
		ELSIF NOT in_pieces AND (point IS DISTINCT FROM coalesce(r.checkpoint, point) OR
				found.shown IS DISTINCT FROM coalesce(r.shown, found.shown)) THEN
			why := format('a failed batch changed %s to %s', r.checkpoint, point);
		END IF;
		UPDATE gen.result x SET outcome = CASE WHEN why IS NULL THEN 'failed' ELSE 'wrong' END,
			failures = failures + 1, state = judge.state, message = judge.message, detail = why
			WHERE x.def = judge.def;
		RETURN;
	END IF;

	IF oracle.state <> found.state THEN
		why := format('the view gives %s (%s), plain SQL %s (%s)',
			found.state, found.message, oracle.state, oracle.message);
	ELSIF oracle.shown IS DISTINCT FROM found.shown AND NOT
		(r.kind = 'mutated' AND gen.are_equal('TABLE gen.v' || def, r.query)) THEN
		SELECT string_agg(line, E'\n') INTO why FROM (
			(SELECT '+ ' || v AS line FROM (SELECT unnest(found.shown) EXCEPT ALL SELECT unnest(oracle.shown)) x (v) LIMIT 10)
			UNION ALL
			(SELECT '- ' || v FROM (SELECT unnest(oracle.shown) EXCEPT ALL SELECT unnest(found.shown)) x (v) LIMIT 10)) x;
	END IF;
	SELECT rows_in INTO n FROM tidemark.progress WHERE view = ('gen.v' || def)::regclass;
	IF n <> rows_expected THEN
		why := concat_ws(E'\n', why, format('rows_in %s instead of %s', n, rows_expected));
	END IF;
	UPDATE gen.result x SET outcome = CASE WHEN why IS NULL THEN 'running' ELSE 'wrong' END,
		state = found.state, message = found.message, compared = compared + 1,
		rows = greatest(rows, cardinality(found.shown)),
		shown = found.shown, checkpoint = point, detail = why
		WHERE x.def = judge.def;
END $$;

-- The product's own oracle
CREATE FUNCTION gen.verify(def int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	why text;
BEGIN
	SELECT string_agg(v::text, E'\n') INTO why FROM (
		SELECT v FROM tidemark.verify(('gen.v' || def)::regclass) v
		WHERE verdict <> 'not comparable' LIMIT 5) x;
	UPDATE gen.result r SET outcome = 'wrong', detail = 'verify: ' || why
		WHERE r.def = verify.def AND why IS NOT NULL;
EXCEPTION WHEN OTHERS OR query_canceled THEN
	UPDATE gen.result r SET outcome = 'wrong', state = SQLSTATE, message = SQLERRM,
		detail = 'verify fails'
		WHERE r.def = verify.def AND r.state = '00000';
END $$;
SQL

*chance = \&QueryGenerator::chance;
*pick = \&QueryGenerator::pick;

my $next_id;
my $session_zone;

# Catch up a view that is there, and judge it.
sub batch
{
	my ($def, $states, $rows) = @_;
	my $pieces = chance(0.15) ? 1 : 16384;
	my $memory = chance(0.15) ? 64 : 65536;
	my $fast = chance(0.7) ? 'on' : 'off';
	my $call = "CALL tidemark.catch_up('gen.v$def');\n";
	my $sql = "SELECT gen.is_running($def, '$states') AS is_running \\gset\n"
	  . "\\if :is_running\n"
	  . "SET tidemark.piece_blocks = $pieces; SET tidemark.batch_memory = $memory;"
	  . " SET tidemark.fast_path = $fast;\n";

	$sql .= "BEGIN; $call ROLLBACK;\n" if chance(0.1);
	if ($pieces > 1 && chance(0.1))
	{
		# one batch, in the block
		$sql .= "BEGIN; $call\\set state :SQLSTATE\n\\set message :LAST_ERROR_MESSAGE\nCOMMIT;\n";
	}
	else
	{
		my $zone = chance(0.2) ? QueryGenerator::zone() : '';
		$sql .= "SET timezone = '$zone'; SET datestyle = 'SQL, DMY';\n" if $zone;
		$sql .= "$call\\set state :SQLSTATE\n\\set message :LAST_ERROR_MESSAGE\n";
		$sql .= "SET timezone = '$session_zone'; RESET datestyle;\n" if $zone;
	}
	my $in_pieces = $pieces == 1 ? 'true' : 'false';
	return $sql . "SELECT gen.judge($def, :'state', :'message', $in_pieces, $rows);\n\\endif\n";
}


# The script of a round: events, queries, batches.  All that is random is made
# for queries that are not wanted, too, so that the others stay what they are.
sub make_round
{
	my ($first_def) = @_;
	my $rows = 0;
	my $prepared = 0;
	$session_zone = QueryGenerator::zone();
	my $sql = "\\set VERBOSITY sqlstate\nSET client_min_messages = error;\n"
	  . "SET search_path = gen; SET statement_timeout = '60s';\n"
	  . "CREATE TEMP TABLE temp_table (x int);\n"
	  . 'TRUNCATE gen.ev, gen.ev_parts, gen.ev_plain, gen.ev_millis; TRUNCATE gen.result;'
	  . " SET timezone = '$session_zone';\n";
	my @defs = map { $first_def + $_ } 0 .. ROUND - 1;
	my $add = sub {
		my ($has_poison) = @_;
		my $n = pick(0, 1, 5, 20, 40, 60);
		my $events = QueryGenerator::events($next_id, $n, $has_poison);
		my $form = rand;
		$next_id += $n;
		if ($form < 0.15 && $n > 0 && !$prepared && !$has_poison)
		{
			# open while a batch runs
			$sql .= "BEGIN; $events PREPARE TRANSACTION 'generator $$';\n";
			$prepared = $n;
			return;
		}
		if ($form < 0.25) { $sql .= "BEGIN; $events ROLLBACK;\n"; return; }
		$rows += $n;
		if ($form < 0.4)
		{
			my $other = QueryGenerator::events($next_id, 3, 0);
			$next_id += 3;
			$sql .= "BEGIN; SAVEPOINT a; $other ROLLBACK TO a; SAVEPOINT b; $events RELEASE b; COMMIT;\n";
		}
		else { $sql .= "BEGIN; $events COMMIT;\n"; }
	};

	my $finish = sub {
		return if !$prepared;
		my $commits = chance(0.8);
		$sql .= ($commits ? 'COMMIT' : 'ROLLBACK') . " PREPARED 'generator $$';\n";
		$rows += $prepared if $commits;
		$prepared = 0;
	};

	$add->(0) for 1 .. int rand 3;
	foreach my $def (@defs)
	{
		my ($query, $kind) = QueryGenerator::query();
		next if %wanted && !$wanted{ $def - $first_def };
		$sql .= "SELECT gen.make($def, \$query\$$query\$query\$, '$kind') \\g /dev/null\n";
	}
	for my $batch (1 .. pick(1, 2, 2, 3))
	{
		$finish->() if chance(0.7);
		$add->(0) for 1 .. pick(0, 1, 1, 2) + ($batch == 1);
		foreach my $def (@defs)
		{
			my $run = batch($def, '{running}', $rows);
			next if %wanted && !$wanted{ $def - $first_def };
			$sql .= $run;
		}
	}
	$finish->();
	# the last batch holds what queries fail on; without it they go on
	my $from = $next_id;
	$add->(1);
	foreach my $def (@defs)
	{
		my $run = batch($def, '{running}', $rows);
		next if %wanted && !$wanted{ $def - $first_def };
		$sql .= $run;
		$sql .= "SELECT gen.is_running($def) AS is_running \\gset\n\\if :is_running\n"
		  . "SELECT gen.verify($def);\n\\endif\n" if $def % 5 == 0;
	}
	$sql .= "UPDATE gen.result SET outcome = 'wrong', detail = 'never compared' WHERE outcome = 'running' AND compared = 0;\n";
	$sql .= "DELETE FROM gen.$_ WHERE z = 0 AND id >= $from;\n" for qw(ev ev_parts ev_plain ev_millis);
	foreach my $def (@defs)
	{
		next if %wanted && !$wanted{ $def - $first_def };
		# one that failed for another reason fails again
		$sql .= batch($def, '{failed}', '(SELECT count(*) FROM gen.ev)')
		  . "DROP VIEW IF EXISTS gen.v$def;\n";
	}
	return $sql . "SELECT def, kind, outcome, coalesce(state, ''), compared, failures, rows, coalesce(message, '') || '|' || coalesce(detail, '') || '|' || query FROM gen.result ORDER BY def;\n"
	  . "SELECT 'complete';\n";
}

my ($out, $err, $status) = run_psql("\\set ON_ERROR_STOP 1\nSET client_min_messages = warning;\n"
	  . ($ENV{SERVER} ? "DROP SCHEMA IF EXISTS gen, oracle CASCADE;\n" : '')
	  . QueryGenerator::setup() . $functions);
is($status, 0, 'tables and functions are made') or BAIL_OUT($err);

my %total;
my %states;
my ($done, $wrong, $empty, $failed_batches, $rounds) = (0, 0, 0, 0, 0);
while ($done < $count)
{
	my $round_seed = $seed + $rounds++;

	srand($round_seed);
	$next_id = 1;
	my $sql = make_round($done);
	my $show = "seed $round_seed (SEED=$round_seed COUNT=" . ROUND . ')';
	append_to_file($ENV{SCRIPT}, $sql) if $ENV{SCRIPT};
	($out, $err, $status) = run_psql($sql);
	if ($out !~ /^complete$/m)
	{
		fail("round is complete, $show");
		diag($err);
		last;
	}
	foreach my $line (split /\n(?=\d+\|\w+\|)|\ncomplete/, $out)
	{
		my ($def, $kind, $outcome, $state, $compared, $failures, $rows, $rest) = split /\|/, $line, 8;
		next if !defined $rest;
		my $was = $outcome eq 'refused' ? 'refused'
		  : $outcome eq 'wrong' ? 'wrong'
		  : $compared > 0 ? 'equal' : 'failed';
		$total{$kind}{$was}++;
		$total{all}{$was}++;
		$states{$state}++ if $outcome eq 'refused';
		$failed_batches += $failures;
		$empty++ if $was eq 'equal' && $rows == 0;
		next if $outcome ne 'wrong';
		$wrong++;
		diag("$show, QUERY=" . ($def - $done) . ": $kind, $compared batches compared, $state\n$rest\n");
	}
	$done += ROUND;
	last if $wrong > 20;
}

foreach my $kind (sort keys %total)
{
	note(sprintf '%-12s %s', "$kind:", join ', ',
		map { "$total{$kind}{$_} $_" } sort keys %{ $total{$kind} });
}
note('refused with ' . join ', ', map { "$_: $states{$_}" } sort keys %states);
my $all = $total{all};
my $accepted = ($all->{equal} // 0) + ($all->{failed} // 0) + ($all->{wrong} // 0);
my $rate = 100 * ($all->{equal} // 0) / ($done || 1);
note(sprintf 'summary: %d queries, seeds %d to %d: %.1f %% accepted and equal (%d of %d without rows), %d batches fail as plain SQL does, %d wrong',
	$done, $seed, $seed + $rounds - 1, $rate, $empty, $all->{equal} // 0, $failed_batches, $wrong);
is($wrong, 0, 'every query is refused with a reason or equals plain SQL');
cmp_ok($rate, '>=', 30, 'acceptance rate') if !%wanted;
ok($done >= $count, 'all were run');

$node->stop if $node;
done_testing();
