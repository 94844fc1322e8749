# Random SELECTs over streams, of which a part can be maintained as continuous
# views and a part must be refused, and random events for them.
#
# Deterministic: srand(seed) before, and the same seed gives the same queries.
# A query is valid plain SQL unless it was mutated or an error was put into it
# on purpose.  Its result does not depend on the order of rows, nor on the
# order in which floats are added: float8 and float4 columns hold multiples of
# 1/4, what is computed from them otherwise is rounded, and values that are
# equal but look different (1.0 and 1.00) are shown in one form.
package QueryGenerator;

use strict;
use warnings;

# The session's time zones, and those of windows
my @ZONES = ('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata',
	'Australia/Lord_Howe', 'Pacific/Apia');

# Streams: event time, its type.  All have the same columns.
my %STREAMS = (
	ev => { time => 'at', type => 'timestamptz' },
	ev_parts => { time => 'at', type => 'timestamptz' },
	ev_plain => { time => 'local', type => 'timestamp' },
	ev_millis => { time => 'to_timestamp(ms / 1000.0)', type => 'timestamptz' });

# Columns of a stream that are filled at random: type, and how a value is made
my @COLUMNS = (
	[ k => 'int', sub { chance(0.1) ? 'NULL' : int rand 6 } ],
	[ g => 'text', sub { chance(0.1) ? 'NULL' : quote(pick('a', 'b', 'c', 'A', '')) } ],
	[ i => 'int', sub { chance(0.1) ? 'NULL' : int(rand 101) - 50 } ],
	[ b => 'bigint', sub { chance(0.1) ? 'NULL' : (int(rand 21) - 10) * 1000000007 } ],
	[ s => 'smallint', sub { chance(0.1) ? 'NULL' : int(rand 9) - 4 } ],
	[ n => 'numeric(10,2)', sub { chance(0.1) ? 'NULL' : (int(rand 41) - 20) / 4 } ],
	[ nz => 'numeric', sub { quote(chance(0.02) ? pick('NaN', 'Infinity', '-Infinity')
			: pick('1', '1.0', '1.000', '0', '0.00', '-2.5', '-2.50', '12345678901234567890.5')) } ],
	[ f => 'float8', sub { chance(0.1) ? 'NULL' : (int(rand 81) - 40) / 4 } ],
	[ r => 'float4', sub { chance(0.1) ? 'NULL' : (int(rand 41) - 20) / 4 } ],
	[ t => 'text', sub { chance(0.1) ? 'NULL' : quote(pick('', 'x', 'yy', 'Zoë', "it''s", 'long ' x 9, '12')) } ],
	[ c => 'char(4)', sub { quote(pick('ab', 'ab  ', 'b', '')) } ],
	[ bo => 'bool', sub { pick('true', 'false', 'NULL') } ],
	[ d => 'date', sub { quote(pick('2024-03-30', '2024-03-31', '2024-04-01', '1999-12-31', 'infinity')) } ],
	[ tz => 'timestamptz', sub { quote('2024-03-' . (29 + int rand 3) . ' ' . pick('00:00', '01:00', '02:30', '23:59:59.999999') . '+00') } ],
	[ ti => 'time', sub { quote(sprintf '%02d:00', int rand 24) } ],
	[ iv => 'interval', sub { quote(pick('1 month', '30 days', '720 hours', '1 day', '24 hours', '-1 second', '0')) } ],
	[ u => 'uuid', sub { quote(sprintf '00000000-0000-0000-0000-%012d', int rand 5) } ],
	[ j => 'jsonb', sub { chance(0.1) ? 'NULL' : quote(sprintf '{"a": %d, "b": "%s"}', int rand 4, pick('x', 'y')) } ],
	[ arr => 'int[]', sub { quote(pick('{}', '{1}', '{1,2}', '{NULL,3}', '{2,1}')) } ],
	[ bi => 'bit(4)', sub { 'B' . quote(sprintf '%04b', int rand 16) } ],
	[ by => 'bytea', sub { quote(pick('', '\x00', '\xdeadbeef')) } ],
	[ en => 'mood', sub { chance(0.1) ? 'NULL' : quote(pick('sad', 'ok', 'happy')) } ],
	[ ip => 'inet', sub { quote('10.0.0.' . int rand 4) } ],
	[ m => 'money', sub { chance(0.1) ? 'NULL' : quote(int(rand 500) / 4) } ],
	[ rg => 'int4range', sub { quote(pick('[1,5)', '[3,9)', 'empty', '(,4)')) } ],
	[ cp => 'pair', sub { chance(0.1) ? 'NULL' : quote(sprintf '(%d,%s)', int rand 3, pick('p', 'q')) } ],
	[ l => 'pg_lsn', sub { quote('0/' . int rand 9) } ]);

sub chance { return rand() < shift; }
sub pick { return $_[ int rand @_ ]; }
sub quote { return "'" . shift() . "'"; }

# some distinct ones of a list, up to $n, in random order
sub sample
{
	my ($n, @list) = @_;
	my @result;
	push @result, splice @list, int rand @list, 1 while @list && $n-- > 0;
	return @result;
}

sub zone { return pick(@ZONES); }

# ---------------------------------------------------------------------------
# Tables and events
# ---------------------------------------------------------------------------

# What the queries read.  Schema oracle has the streams as plain SQL sees them:
# without the rows that have no time.
sub setup
{
	my $columns = join ",\n", map { "$_->[0] $_->[1]" } @COLUMNS;
	my $sql = qq{
CREATE EXTENSION IF NOT EXISTS tidemark;
CREATE SCHEMA gen;
CREATE SCHEMA oracle;
SET search_path = gen;
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE pair AS (a int, b text);
CREATE TABLE ev (id int, at timestamptz, local timestamp, ms bigint,
	z int NOT NULL, $columns);
CREATE TABLE ev_plain (LIKE ev INCLUDING ALL);
CREATE TABLE ev_millis (LIKE ev INCLUDING ALL);
CREATE TABLE ev_parts (LIKE ev INCLUDING ALL) PARTITION BY HASH (id);
CREATE TABLE ev_parts_0 PARTITION OF ev_parts FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE ev_parts_1 PARTITION OF ev_parts FOR VALUES WITH (MODULUS 2, REMAINDER 1);
CREATE TABLE dim (dk int PRIMARY KEY, dname text, dw int, dg text NOT NULL);
INSERT INTO dim VALUES (0, 'zero', 0, 'x'), (1, 'one', 1, 'y'), (2, 'two', NULL, 'x'),
	(3, NULL, 3, 'z'), (4, 'four', 4, 'y'), (9, 'nine', 9, 'z');
CREATE TABLE ext (g text, xv int, xn numeric);
INSERT INTO ext VALUES ('a', 1, 1.5), ('a', 2, 2.5), ('b', 3, NULL), (NULL, 4, 0.5), ('c', NULL, 7);
CREATE VIEW dims AS SELECT dk AS vk, upper(dname) AS vname, dw * 2 AS vw FROM dim WHERE dk < 9;
ANALYZE dim, ext;
CREATE DOMAIN small_domain AS int CHECK (VALUE < 100000);
CREATE AGGREGATE total(int) (sfunc = int4pl, stype = int, combinefunc = int4pl, parallel = safe);
CREATE AGGREGATE product(numeric) (sfunc = numeric_mul, stype = numeric, combinefunc = numeric_mul, initcond = '1');
CREATE FUNCTION count_true(n int, x bool, y bool) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
	'BEGIN RETURN CASE WHEN x AND y IS NOT TRUE THEN coalesce(n, 0) + 1 ELSE n END; END';
CREATE FUNCTION add_counts(a int, b int) RETURNS int IMMUTABLE LANGUAGE sql AS
	'SELECT CASE WHEN a IS NULL THEN b WHEN b IS NULL THEN a ELSE a + b END';
CREATE FUNCTION show_count(n int) RETURNS text IMMUTABLE LANGUAGE sql AS 'SELECT ''n='' || coalesce(n::text, ''none'')';
CREATE AGGREGATE only_first(bool, bool) (sfunc = count_true, stype = int, combinefunc = add_counts, finalfunc = show_count);
CREATE FUNCTION rounded(x float8) RETURNS numeric IMMUTABLE LANGUAGE sql AS
	'SELECT round(x::numeric + 0.00000123, 4)';
CREATE FUNCTION half(x numeric) RETURNS numeric IMMUTABLE LANGUAGE sql AS 'SELECT x / 2';
CREATE FUNCTION plus_one(x int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN x + 1; END';
CREATE FUNCTION dim_name(x int) RETURNS text STABLE LANGUAGE plpgsql AS
	'BEGIN RETURN (SELECT dname FROM gen.dim WHERE dk = x); END';
};
	foreach my $name (sort keys %STREAMS)
	{
		my $time = $STREAMS{$name}{time};
		$sql .= qq{
SELECT tidemark.create_stream('$name', event_time => '$time',
	watermark_delay => '36500000 days', max_future => 'infinity', timezone => 'UTC');
CREATE VIEW oracle.$name AS SELECT * FROM gen.$name WHERE isfinite($time);
};
	}
	return $sql;
}

# Event times that are worth a try: boundaries, jumps of the wall clock, and
# what is far away; else somewhere in two days.
sub event_time
{
	return 'NULL' if chance(0.03);
	return quote(pick('infinity', '-infinity')) if chance(0.01);
	return quote(pick('1969-12-31 23:59:59.999999+00', '2000-01-03 00:00+00',
			'1999-12-31 23:00+00', '0044-03-15 BC', '9999-12-31 23:59:59.999999+00',
			'2011-12-30 10:00+00', '1900-01-01 00:00+00')) if chance(0.05);
	return quote(sprintf '2024-03-%d %02d:%02d:00+00',
		30 + int rand 2, int rand 24, pick(0, 15, 30, 45)) if chance(0.3);
	return quote(sprintf '2024-03-%d %02d:%02d:%02d.%06d+00',
		30 + int rand 2, int rand 24, int rand 60, int rand 60, int rand 1000000);
}

# An INSERT of $count events, numbered from $first, into all streams.
sub events
{
	my ($first, $count, $has_poison) = @_;
	my $last = $first + $count - 1;
	my $names = join ', ', map { $_->[0] } @COLUMNS;
	my @rows;

	return '' if $count == 0;
	foreach my $id ($first .. $last)
	{
		my $time = event_time();
		my $z = $has_poison && $time =~ /^'[0-9]/ && chance(0.1) ? 0 : 1 + int rand 3;
		push @rows, "($id, $time, $z, "
		  . join(', ', map { $_->[2]->() } @COLUMNS) . ')';
	}
	my $sql = "INSERT INTO gen.ev (id, at, z, $names) VALUES\n" . join(",\n", @rows) . ";\n";
	$sql .= "INSERT INTO gen.$_->[0] (id, $_->[1], z, $names) SELECT id, $_->[2], z, $names"
	  . " FROM gen.ev WHERE id BETWEEN $first AND $last;\n"
	  for [ ev_parts => 'at', 'at' ],
	  [ ev_plain => 'local', "at AT TIME ZONE 'UTC'" ],
	  [ ev_millis => 'ms', "CASE WHEN isfinite(at) THEN extract(epoch FROM at) * 1000 END" ];
	return $sql;
}

# ---------------------------------------------------------------------------
# Expressions over a row
# ---------------------------------------------------------------------------

# A column, now and then with the stream's name before it.
sub col
{
	my ($q, $name) = @_;
	return $q->{qualify} || chance(0.1) ? "$q->{alias}.$name" : $name;
}

sub event_expr
{
	my $q = shift;
	my $expr = $STREAMS{ $q->{stream} }{time};
	if ($q->{qualify})
	{
		$expr =~ s/\b(at|local|ms)\b/$q->{alias}.$1/;
	}
	return $expr;
}

sub int_expr
{
	my ($q, $depth) = @_;
	my @joined = map { $_->[0] } grep { $_->[1] eq 'int' } @{ $q->{joined} };

	return pick(@joined) if @joined && chance(0.3);
	if ($depth <= 0 || chance(0.4))
	{
		return pick(col($q, 'k'), col($q, 'i'), col($q, 'i'), col($q, 's'), int(rand 20) - 5)
		  if !chance(0.04);
		return pick('100 / ' . col($q, 'z'), '100 / ' . col($q, 'z'), col($q, 't') . '::int',
			col($q, 'i') . ' * 100000000', '(' . col($q, 's') . ' * 9000)::smallint');
	}
	my $a = int_expr($q, $depth - 1);
	my $b = int_expr($q, $depth - 1);
	return pick(
		"($a + $b)", "($a - $b)", "($a * 3)", "abs($a)", "($a % 7)", "(- $a)",
		"coalesce($a, $b)", "nullif($a, $b)", "greatest($a, $b)", "least($a, $b)",
		'CASE WHEN ' . bool_expr($q, $depth - 1) . " THEN $a ELSE $b END",
		'CASE ' . col($q, 'g') . " WHEN 'a' THEN $a WHEN 'b' THEN $b END",
		'length(' . text_expr($q, $depth - 1) . ')',
		'(' . col($q, 'j') . "->>'a')::int",
		'cardinality(' . col($q, 'arr') . ')',
		'extract(hour FROM ' . event_expr($q) . ')::int',
		"plus_one($a)", '(' . col($q, 'cp') . ').a',
		"($a)::small_domain", 'CASE WHEN ' . col($q, 'z') . ' > 0 THEN 100 / ' . col($q, 'z') . ' END',
		'(SELECT max(dw) FROM dim WHERE dk = ' . "$q->{alias}.k)",
		'(SELECT count(*)::int FROM ext x WHERE x.g = ' . "$q->{alias}.g)");
}

sub num_expr
{
	my ($q, $depth) = @_;
	return col($q, pick('n', 'n', 'nz')) if $depth <= 0 || chance(0.5);
	my $a = num_expr($q, $depth - 1);
	my $int = int_expr($q, $depth - 1);
	return pick("($a + $int)", "($a * 2)", "round($a, 1)", "$int * 1.5", "half($a)",
		"($int)::numeric", "abs($a)", "coalesce($a, $int)", 'floor(' . col($q, 'n') . ')');
}

sub text_expr
{
	my ($q, $depth) = @_;
	my @joined = map { $_->[0] } grep { $_->[1] eq 'text' } @{ $q->{joined} };

	return pick(@joined) if @joined && chance(0.3);
	return col($q, pick('g', 'g', 't')) if $depth <= 0 || chance(0.4);
	my $a = text_expr($q, $depth - 1);
	my $int = int_expr($q, $depth - 1);
	return pick("upper($a)", "lower($a)", "$a || '-'", "($int)::text", "substr($a, 1, 2)",
		"coalesce($a, '?')", "left($a, 1)", col($q, 'en') . '::text', col($q, 'j') . "->>'b'",
		"concat($a, $int)", "md5($a)", "to_char(" . event_expr($q) . ", 'HH24')",
		'dim_name(' . col($q, 'k') . ')', '(' . col($q, 'cp') . ').b',
		'(SELECT dname FROM dim WHERE dk = ' . col($q, 'k') . ')',
		"CASE WHEN " . bool_expr($q, $depth - 1) . " THEN $a ELSE 'else' END",
		col($q, 'd') . '::text', "$a COLLATE \"C\"");
}

sub bool_expr
{
	my ($q, $depth) = @_;
	my $int = int_expr($q, $depth - 1);
	my $text = text_expr($q, $depth - 1);

	if ($depth > 0 && chance(0.3))
	{
		my $a = bool_expr($q, $depth - 1);
		return pick("NOT ($a)", "($a AND " . bool_expr($q, $depth - 1) . ')',
			"($a OR " . bool_expr($q, $depth - 1) . ')', "($a) IS NOT TRUE");
	}
	return pick(
		"$int " . pick('<', '>', '<=', '>=', '=', '<>') . ' ' . (int(rand 30) - 10),
		"$int IS " . pick('NULL', 'NOT NULL'), col($q, 'bo'), "$text LIKE '%" . pick('a', 'x', 'o') . "%'",
		"$text = 'a'", "$int IN (1, 2, 3, NULL)", "$int BETWEEN -5 AND 20",
		col($q, 'k') . ' = ANY (' . col($q, 'arr') . ')', "$text IS DISTINCT FROM 'b'",
		col($q, 'rg') . ' @> 3', col($q, 'en') . " >= 'ok'", col($q, 'n') . ' > 0',
		col($q, 'd') . " > '2024-01-01'", col($q, 'j') . " \@> '{\"a\": 1}'");
}

# Conditions with subqueries on ordinary tables
sub sub_condition
{
	my $q = shift;
	my $k = "$q->{alias}.k";
	my $g = "$q->{alias}.g";
	return pick(
		"EXISTS (SELECT 1 FROM dim x WHERE x.dk = $k)",
		"NOT EXISTS (SELECT FROM dim x WHERE x.dk = $k AND x.dw > 1)",
		"$k IN (SELECT x.dk FROM dim x WHERE x.dg <> 'z')",
		"$g IN (SELECT x.g FROM ext x)",
		"$g NOT IN (SELECT x.g FROM ext x WHERE x.g IS NOT NULL)",
		"$k < (SELECT avg(x.dk) FROM dim x)",
		"$k > ALL (SELECT x.xv FROM ext x WHERE x.g = $g)",
		"($k, $g) IN (SELECT x.xv, x.g FROM ext x)",
		"$k = ANY (ARRAY(SELECT x.vk FROM dims x))",
		"EXISTS (WITH w AS (SELECT x.dk FROM dim x) SELECT 1 FROM w WHERE w.dk = $k)",
		"$k IN (SELECT x.dk FROM dim x UNION ALL SELECT y.xv FROM ext y)",
		"$k IN (SELECT max(x.dk) FROM dim x GROUP BY x.dg)");
}

# ---------------------------------------------------------------------------
# Parts of a query
# ---------------------------------------------------------------------------

# FROM and WHERE.  Sets alias, joined columns, and whether columns need a
# qualification.
sub make_from
{
	my $q = shift;
	my $table = $q->{stream};
	my $alias = pick($table, 'e');
	my $from = $alias eq $table ? $table : pick("$table e", "$table AS e");
	my $before = '';
	my @where;

	$q->{alias} = $alias;
	$q->{qualify} = chance(0.3);
	$q->{joined} = [];
	for (my $n = chance(0.55) ? 0 : chance(0.7) ? 1 : 2; $n > 0; $n--)
	{
		my $x = "x$n";
		my $side = pick('JOIN', 'JOIN', 'LEFT JOIN', 'INNER JOIN');
		my @kinds = (
			[ "$side dim $x ON $x.dk = $alias.k", [ "$x.dname", 'text' ], [ "$x.dw", 'int' ] ],
			[ "$side dim $x ON $x.dk = $alias.k AND $x.dw > 0", [ "$x.dg", 'text' ], [ "$x.dk", 'int' ] ],
			[ "$side ext $x ON $x.g = $alias.g", [ "$x.xv", 'int' ] ],
			[ "$side ext $x ON $x.g IS NOT DISTINCT FROM $alias.g", [ "$x.xv", 'int' ], [ "$x.g", 'text' ] ],
			[ "$side dims $x ON $x.vk = $alias.k", [ "$x.vname", 'text' ], [ "$x.vw", 'int' ] ],
			[ "CROSS JOIN (VALUES (1, 'p'), (2, NULL)) $x (a, b)", [ "$x.a", 'int' ], [ "$x.b", 'text' ] ],
			[ "CROSS JOIN generate_series(1, $alias.k) $x", [ $x, 'int' ] ],
			[ "LEFT JOIN unnest($alias.arr) WITH ORDINALITY $x (a, o) ON true", [ "$x.a", 'int' ] ],
			[ "$side (SELECT dg, count(*)::int AS c, max(dk) AS top FROM dim GROUP BY dg) $x ON $x.top = $alias.k",
				[ "$x.c", 'int' ], [ "$x.dg", 'text' ] ],
			[ "$side LATERAL (SELECT d.dname, d.dw FROM dim d WHERE d.dk >= $alias.k ORDER BY d.dk LIMIT 1) $x ON true",
				[ "$x.dname", 'text' ], [ "$x.dw", 'int' ] ],
			[ "CROSS JOIN LATERAL (SELECT $alias.i + 1 AS a, $alias.t || '!' AS b) $x", [ "$x.a", 'int' ], [ "$x.b", 'text' ] ],
			[ "LEFT JOIN (dim d$n FULL JOIN ext y$n ON y$n.xv = d$n.dk) ON d$n.dk = $alias.k",
				[ "d$n.dname", 'text' ], [ "y$n.xv", 'int' ] ],
			[ "CROSS JOIN LATERAL (SELECT sum(d.dw)::int AS a, count(*)::int AS b FROM dim d WHERE d.dk <= $alias.k) $x", [ "$x.a", 'int' ], [ "$x.b", 'int' ] ],
			[ "LEFT JOIN LATERAL jsonb_each_text($alias.j) $x ON true", [ "$x.key", 'text' ], [ "$x.value", 'text' ] ],
			[ "CROSS JOIN ROWS FROM (unnest($alias.arr), generate_series(1, 2)) $x (a, b)", [ "$x.a", 'int' ], [ "$x.b", 'int' ] ],
			[ "LEFT JOIN (dim d$n CROSS JOIN ext y$n) $x ON $x.dk = $alias.k AND $x.xv = $alias.s", [ "$x.dname", 'text' ] ],
			[ "LEFT JOIN dim $x ON $x.dk = $alias.k AND EXISTS (SELECT FROM ext z WHERE z.xv = $x.dk)", [ "$x.dname", 'text' ], [ "$x.dw", 'int' ] ],
			[ "NATURAL LEFT JOIN (SELECT i.dk AS k, i.dw AS natural_w FROM dim i) $x", [ "$x.natural_w", 'int' ] ],
			[ "LEFT JOIN (SELECT DISTINCT ON (g) g, xv FROM ext ORDER BY g, xv) $x ON $x.g = $alias.g", [ "$x.xv", 'int' ] ]);
		my ($text, @columns);

		if (chance(0.08))
		{
			$from = "dim $x RIGHT JOIN $from ON $x.dk = $alias.k";
			@columns = ([ "$x.dname", 'text' ], [ "$x.dw", 'int' ]);
		}
		elsif (chance(0.08))
		{
			$before .= "dim $x, ";
			push @where, "$x.dk = $alias.k";
			@columns = ([ "$x.dname", 'text' ], [ "$x.dw", 'int' ]);
		}
		elsif (chance(0.08) && $from !~ /JOIN|,/)
		{
			$from .= " $side ext $x USING (g)";
			@columns = ([ "$x.xv", 'int' ]);
		}
		else
		{
			($text, @columns) = @{ pick(@kinds) };
			$from .= " $text";
			$q->{qualify} = 1 if $text =~ /ext/;
		}
		$q->{qualify} = 1 if $from =~ /ext/;
		push @{ $q->{joined} }, @columns;
	}
	$from = $before . $from;
	make_window($q, \$from);
	push @where, bool_expr($q, 2) if chance(0.35);
	push @where, sub_condition($q) if chance(0.12);
	push @where, pick('true', 'false', 'NULL', '1 = 1', "$q->{window_keys}[0] IS NOT NULL", "$q->{window_keys}[0] > '2024-03-31'")
	  if @{ $q->{window_keys} } && chance(0.05);
	$q->{from} = $from;
	$q->{where} = join ' AND ', map { "($_)" } @where;
	return;
}

# The window: adds to FROM or to the keys.  Columns of tumble and the keys are
# [expression, how it is shown].
sub make_window
{
	my ($q, $from) = @_;
	my $time = event_expr($q);
	my $type = $STREAMS{ $q->{stream} }{type};
	my $size = quote(pick('1 hour', '15 minutes', '1 day', '7 hours', '10 minutes 0.5 seconds', '1 week', '13 days'));
	my $origin = $type eq 'timestamptz'
	  ? pick("'2000-01-03'", "timestamptz '2024-03-31 01:00+00'", "'2030-01-01 00:07:11.5'")
	  : pick("'2000-01-03'", "timestamp '2024-03-31 01:00'");
	my $kind = pick(qw(tumble tumble tumble scalar bin trunc trunc none none none none instant));
	my $unit = quote(pick('hour', 'day', 'minute', 'week', 'month', 'quarter', 'year', 'decade'));

	$q->{window_keys} = [];
	if ($kind ne 'none' && chance(0.1))
	{
		$time = "$time AT TIME ZONE " . quote(zone());
		$type = $type eq 'timestamptz' ? 'timestamp' : 'timestamptz';
		$origin = quote('2000-01-03');
	}
	if ($kind eq 'tumble')
	{
		my $args = $time . ', ' . pick($size, $size, "size => $size", "interval $size");
		$args .= $args =~ /=>/ ? ", origin => $origin" : ", $origin" if chance(0.3);
		my $w = pick('', 'w', 'AS w');
		my $p = $w ? 'w.' : '';
		$$from .= pick(', ', ' CROSS JOIN ', ' JOIN ') . "tidemark.tumble($args) $w";
		if ($$from =~ / JOIN (tidemark.tumble.*)$/ && $$from !~ / CROSS (JOIN tidemark.tumble.*)$/)
		{
			$$from .= ' ON true';
		}
		# a comma binds less than JOIN: the stream must be to the left of it
		my @columns = ("${p}window_start", "${p}window_end");
		push @{ $q->{window_keys} }, sample(1 + int rand 2, @columns);
		$q->{qualify} = 1 if $$from =~ /ext/;
	}
	elsif ($kind eq 'scalar')
	{
		push @{ $q->{window_keys} },
		  sample(1 + chance(0.2), "tidemark.tumble_start($time, $size)", "tidemark.tumble_end($time, $size)");
	}
	elsif ($kind eq 'bin')
	{
		push @{ $q->{window_keys} }, "date_bin($size, $time, $origin)";
	}
	elsif ($kind eq 'trunc')
	{
		my $zone = $type eq 'timestamptz' && chance(0.4) ? ', ' . quote(zone()) : '';
		push @{ $q->{window_keys} }, "date_trunc($unit, $time$zone)";
	}
	elsif ($kind eq 'instant')
	{
		push @{ $q->{window_keys} }, $time;
	}
	return;
}

# A group key: expression, and in which form it is shown.
sub make_key
{
	my $q = shift;
	my $kind = rand;

	return [ int_expr($q, 2), '%s' ] if $kind < 0.2;
	return [ text_expr($q, 2), '%s' ] if $kind < 0.4;
	return [ num_expr($q, 1), 'trim_scale(%s)' ] if $kind < 0.48;
	return [ bool_expr($q, 1), '%s' ] if $kind < 0.55;
	return [ "extract(hour FROM $q->{window_keys}[0])", '%s' ] if $kind < 0.56 && @{ $q->{window_keys} };
	return [ col($q, 'iv'), 'justify_interval(%s)' ] if $kind < 0.58;
	return [ 'date_trunc(' . quote(pick('hour', 'day')) . ', ' . col($q, 'tz') . ')', '%s' ] if $kind < 0.62;
	return [ 'ARRAY[' . col($q, 'k') . ', ' . int_expr($q, 1) . ']', '%s' ] if $kind < 0.64;
	return [ 'NULL::' . pick('text', 'int'), '%s' ] if $kind < 0.65;
	return [ "'constant'::text", '%s' ] if $kind < 0.66;
	return [ col($q, pick('d', 'tz', 'ti', 'u', 'c', 'bi', 'by', 'en', 'ip', 'rg', 'arr', 'cp', 'j',
				'm', 'b', 'f', 'r', 's', 'bo', 'l', 't', 'g', 'k')), '%s' ];
}

sub filter
{
	my $q = shift;
	return chance(0.2) ? ' FILTER (WHERE ' . bool_expr($q, 1) . ')' : '';
}

# An aggregate with its type: int, numeric, or other.  Shown as it is.
sub make_aggregate
{
	my $q = shift;
	my $filter = filter($q);
	my $int = int_expr($q, 2);
	my $num = num_expr($q, 1);
	my $float = pick(col($q, 'f'), col($q, 'r'), '(' . int_expr($q, 1) . ')::float8');
	my $other = col($q, pick('f', 'r', 'i'));
	my $r = rand;

	return [ "count(*)$filter", 'int' ] if $r < 0.14;
	return [ 'count(' . pick($int, text_expr($q, 1), col($q, 'j'), $q->{alias}) . ")$filter", 'int' ] if $r < 0.2;
	return [ "sum($int)$filter", 'int' ] if $r < 0.32;
	return [ pick('min', 'max') . "($int)$filter", 'int' ] if $r < 0.4;
	return [ pick('bit_and', 'bit_or', 'bit_xor') . "($int)$filter", 'int' ] if $r < 0.43;
	return [ "avg($int)$filter", 'numeric' ] if $r < 0.49;
	return [ "sum($num)$filter", 'numeric' ] if $r < 0.55;
	return [ "avg(" . col($q, pick('n', 'b', 's')) . ")$filter", 'numeric' ] if $r < 0.6;
	return [ 'trim_scale(' . pick('min', 'max') . "($num)$filter)", 'numeric' ] if $r < 0.63;
	return [ 'sum(' . col($q, pick('b', 's')) . ")$filter", 'numeric' ] if $r < 0.66;
	return [ pick('stddev', 'variance', 'var_pop', 'stddev_pop', 'var_samp') . '('
		  . col($q, pick('n', 'i', 'b', 's')) . ")$filter", 'numeric' ] if $r < 0.69;
	return [ "sum($float)$filter", 'other' ] if $r < 0.72;
	return [ "avg($float)$filter", 'other' ] if $r < 0.74;
	return [ 'rounded(' . pick('stddev', 'var_pop', 'variance') . "($float)$filter)", 'numeric' ] if $r < 0.76;
	return [ 'rounded(' . pick('corr', 'covar_pop', 'regr_slope', 'regr_intercept', 'regr_r2', 'covar_samp', 'regr_avgx', 'regr_sxy')
		  . "($float, $other)$filter)", 'numeric' ] if $r < 0.79;
	return [ "regr_count($float, $other)$filter", 'int' ] if $r < 0.8;
	return [ pick('min', 'max') . '(' . pick(text_expr($q, 2), col($q, pick('d', 'tz', 'ti', 'c', 'en', 'ip', 'm', 'b', 'f', 'r', 's', 'l', 'arr')),
			event_expr($q)) . ")$filter", 'other' ] if $r < 0.9;
	return [ 'justify_interval(' . pick('min', 'max') . '(' . col($q, 'iv') . ")$filter)", 'other' ] if $r < 0.91;
	return [ pick('sum', 'avg') . '(' . col($q, 'iv') . ")$filter", 'other' ] if $r < 0.93;
	return [ pick('bool_and', 'bool_or', 'every') . '(' . bool_expr($q, 1) . ")$filter", 'other' ] if $r < 0.96;
	return [ "sum(" . col($q, 'm') . ")$filter", 'other' ] if $r < 0.97;
	return [ "total($int)$filter", 'int' ] if $r < 0.973;
	return [ 'trim_scale(product(' . col($q, 'n') . ")$filter)", 'numeric' ] if $r < 0.975;
	return [ 'only_first(' . bool_expr($q, 1) . ', ' . col($q, 'bo') . ")$filter", 'other' ] if $r < 0.978;
	return [ 'sum(100 / ' . col($q, 'z') . ') FILTER (WHERE ' . col($q, 'z') . ' > 0)', 'int' ] if $r < 0.985;
	return [ 'range_intersect_agg(' . col($q, 'rg') . ")$filter", 'other' ] if $r < 0.99;
	return [ pick('bit_and', 'bit_or') . '(' . col($q, 'bi') . ")$filter", 'other' ];
}

# An output column over aggregates, and perhaps over a key
sub make_output
{
	my $q = shift;
	my $a = make_aggregate($q);
	my $n = $a->[0];

	return $n if chance(0.55);
	return pick("coalesce($n\::text, '-')", "$n IS NULL", "($n)::text") if $a->[1] eq 'other' && $n !~ /\((\w+\.)?(d|tz|at|m|l)\)|to_timestamp|local/;
	return $n if $a->[1] eq 'other';
	my $b = make_aggregate($q);
	my $m = $b->[1] eq 'other' ? 'count(*)' : $b->[0];
	return pick("($n + $m)", "($n - $m)", "coalesce($n, 0)", "greatest($n, $m)", "$n > $m",
		"CASE WHEN count(*) > 2 THEN $n ELSE $m END", "nullif($n, $m)", "round(($n)::numeric, 2)",
		"($n)::text || '/' || ($m)::text", "half($n)", "ARRAY[$n, $m]\::text",
		"abs($n)", "1000 / nullif(count(*) - 2, 0)", "10 / count(*)", "($n)::numeric(30,3)",
		chance(0.1) ? '10 / (count(*) - 3)' : "-$n",
		"(CASE WHEN $n IS NULL THEN 'none' WHEN $n > 10 THEN 'many' ELSE 'few' END)");
}

# A name for an output column: those of storage tables, and such as need quotes
sub name
{
	my $number = shift;
	return "c$number" if chance(0.85);
	return pick("k$number", "v$number", "s$number", '_key_hash', 'window_start', 'window_end', 'value', '"group"',
		qq("Say ""$number"""), '"Straße"', "a_name_of_sixty_three_characters_is_as_long_as_a_name_can_be__$number", 'row_count', 'ev');
}

sub make_having
{
	my $q = shift;
	my $a = make_aggregate($q);
	my $n = $a->[1] eq 'other' ? 'count(*)' : $a->[0];
	my $condition = pick("$n > " . pick(0, 1, 3, 10), "$n IS NOT NULL", "count(*) % 2 = 0", "$n <> 5");
	return chance(0.2) ? "NOT ($condition) OR count(*) > 3" : $condition;
}

# Takes a query apart in a hash: from, where, keys, outputs, having
sub make_query
{
	my %q = (stream => pick('ev', 'ev', 'ev', 'ev_parts', 'ev_plain', 'ev_millis'), outputs => [], group => []);
	my $q = \%q;
	my $number = 1;
	my @keys;

	make_from($q);
	@keys = map { [ $_, '%s' ] } @{ $q{window_keys} };
	my $wanted = pick(0, 1, 1, 1, 2, 2, 3, 4);
	push @keys, make_key($q) for 1 .. $wanted;
	foreach my $key (@keys)
	{
		my ($expr, $shown) = @$key;
		my $style = rand;

		if ($style < 0.15)
		{
			push @{ $q{group} }, $expr;	# not shown
			next;
		}
		$shown = sprintf $shown, $expr;
		if ($style < 0.6 || $expr =~ /^-?\d+$/)
		{
			push @{ $q{outputs} }, "$shown AS " . name($number);
			push @{ $q{group} }, scalar @{ $q{outputs} };
		}
		elsif ($style < 0.75 && $shown eq $expr)
		{
			push @{ $q{outputs} }, "$shown AS c$number";
			push @{ $q{group} }, "c$number";
		}
		else
		{
			push @{ $q{outputs} }, "$shown AS c$number";
			push @{ $q{group} }, $expr;
		}
		$number++;
	}
	@{ $q{group} } = grep { !/^(\(- )?-?\d+\)?$/ || $_ > 0 } @{ $q{group} };
	my $aggregates = @keys ? int rand 5 : 1 + int rand 4;
	$aggregates = 1 if $aggregates == 0 && !@{ $q{outputs} };
	push @{ $q{outputs} }, make_output($q) . ' AS ' . name($number++) for 1 .. $aggregates;
	$q{having} = chance(0.15) ? make_having($q) : '';
	return $q;
}

sub deparse
{
	my $q = shift;
	my $distinct = chance(0.02) ? 'DISTINCT ' : '';
	my $sql = 'SELECT ' . ($q->{distinct} // '') . join(', ', @{ $q->{outputs} });
	$sql = "$q->{with} $sql" if $q->{with};
	$sql .= " FROM $q->{from}" if $q->{from};
	$sql .= " WHERE $q->{where}" if $q->{where} ne '';
	$sql .= " GROUP BY $distinct" . ($q->{sets} // join ', ', @{ $q->{group} })
	  if $q->{sets} || @{ $q->{group} };
	$sql .= " HAVING $q->{having}" if $q->{having} ne '';
	$sql .= " $q->{tail}" if $q->{tail};
	return $sql;
}

# ---------------------------------------------------------------------------
# What must be refused
# ---------------------------------------------------------------------------

my @UNSUPPORTED = (
	sub { $_[0]{tail} = 'ORDER BY ' . pick(1, 'count(*)', '1 DESC NULLS LAST'); },
	sub { $_[0]{tail} = pick('LIMIT 3', 'OFFSET 1', 'FETCH FIRST ROW ONLY', 'LIMIT ALL OFFSET 0'); },
	sub { $_[0]{tail} = pick('FOR UPDATE', 'FOR SHARE', 'FOR KEY SHARE NOWAIT'); },
	sub { $_[0]{distinct} = pick('DISTINCT ', 'DISTINCT ON (1) '); },
	sub { push @{ $_[0]{outputs} }, pick('row_number() OVER () AS w', 'sum(count(*)) OVER (ORDER BY count(*)) AS w',
			'rank() OVER (PARTITION BY count(*)) AS w'); },
	sub { $_[0]{sets} = pick('ROLLUP (', 'CUBE (', 'GROUPING SETS ((), ') . col($_[0], 'k') . ')'; },
	sub { $_[0]{sets} = 'GROUPING SETS ((' . col($_[0], 'k') . '), (' . col($_[0], 'g') . '))'; },
	sub { push @{ $_[0]{outputs} }, 'grouping(' . col($_[0], 'k') . ') AS gr'; push @{ $_[0]{group} }, col($_[0], 'k'); },
	sub { $_[0]{tail} = pick('UNION', 'UNION ALL', 'EXCEPT', 'INTERSECT ALL') . ' ' . deparse({ %{ $_[0] } }); },
	sub { $_[0]{with} = pick('WITH w AS (SELECT 1)', "WITH w AS (SELECT * FROM $_[0]{stream})", 'WITH RECURSIVE w AS (SELECT 1)',
			'WITH w AS (DELETE FROM dim RETURNING 1)'); },
	sub { push @{ $_[0]{outputs} }, pick('(SELECT max(dw) FROM dim) AS sub', 'EXISTS (SELECT 1 FROM dim WHERE dk = count(*)) AS sub',
			'count(*) IN (SELECT dk FROM dim) AS sub'); },
	sub { $_[0]{having} = pick('count(*) > (SELECT min(dk) FROM dim)', 'EXISTS (SELECT FROM dim)', 'count(*) > random()'); },
	sub { $_[0]{where} = pick('random() < 2', 'clock_timestamp() > now()', "nextval('gen.seq') > 0",
			"pg_advisory_lock(1) IS NULL", "set_config('tidemark.x', '1', false) = '1'"); },
	sub { push @{ $_[0]{outputs} }, pick('sum(random()) AS v', 'max(clock_timestamp()) AS v', 'count(*) * random() AS v',
			'gen_random_uuid() AS v'); },
	sub { push @{ $_[0]{outputs} }, pick('max(' . col($_[0], 'tz') . ')::date AS st', 'now() AS st', 'max(' . col($_[0], 'tz') . ')::text AS st',
			"to_char(count(*), '99') || current_date AS st", 'min(' . col($_[0], 'd') . ')::timestamptz AS st', 'current_user AS st'); },
	sub { push @{ $_[0]{outputs} }, pick('count', 'sum', 'avg') . '(DISTINCT ' . int_expr($_[0], 1) . ') AS di'; },
	sub { push @{ $_[0]{outputs} }, pick('sum', 'max', 'array_agg') . '(' . col($_[0], 'i') . ' ORDER BY ' . col($_[0], 'k') . ') AS o'; },
	sub { push @{ $_[0]{outputs} }, pick('percentile_cont(0.5)', 'mode()', 'percentile_disc(0.1)', 'rank(3)')
		  . ' WITHIN GROUP (ORDER BY ' . col($_[0], 'i') . ') AS o'; },
	sub { push @{ $_[0]{outputs} }, pick('length(string_agg(' . col($_[0], 't') . ", ',')) AS n", 'cardinality(array_agg(' . col($_[0], 'i') . ')) AS n',
			'jsonb_array_length(jsonb_agg(' . col($_[0], 'k') . ')) AS n', 'range_agg(' . col($_[0], 'rg') . ') AS n',
			'json_object_agg(' . col($_[0], 'u') . ', 1)::text AS n'); },
	sub { $_[0]{from} .= pick(", $_[0]{stream} other", " JOIN $_[0]{stream} other ON other.id = $_[0]{alias}.id", ', ev_parts other', ', oracle.ev other'); },
	sub { $_[0]{from} = pick("dim o LEFT JOIN $_[0]{from} ON o.dk = k", "dim o FULL JOIN $_[0]{from} ON o.dk = k"); },
	sub { $_[0]{from} = "dim o LEFT JOIN $_[0]{stream} $_[0]{alias} ON o.dk = $_[0]{alias}.k"; },
	sub { $_[0]{from} = "$_[0]{stream} $_[0]{alias} FULL JOIN dim o ON o.dk = $_[0]{alias}.k"; },
	sub { $_[0]{from} =~ s/\b($_[0]{stream})\b/(SELECT * FROM $1)/; },
	sub { $_[0]{from} =~ s/\b($_[0]{stream})\b/ONLY $1/; },
	sub { $_[0]{from} .= ' TABLESAMPLE BERNOULLI (100)'; },
	sub { $_[0]{where} = "EXISTS (SELECT 1 FROM $_[0]{stream} o WHERE o.id > $_[0]{alias}.id)"; },
	sub { push @{ $_[0]{group} }, "$_[0]{alias}." . pick('ctid', 'xmin', 'tableoid', 'cmax'); },
	sub { push @{ $_[0]{outputs} }, "max($_[0]{alias}.ctid) AS sys"; },
	sub { push @{ $_[0]{group} }, 'date_trunc(' . quote('month') . ", $_[0]{alias}.$STREAMS{ev}{time})", "date_bin('1 hour', $_[0]{alias}.at, '2000-01-01')"; },
	sub { $_[0]{from} .= ', tidemark.tumble(' . event_expr($_[0]) . ", '1 hour') AS second_window"; },
	sub { $_[0]{from} .= ', tidemark.tumble(' . pick('now()', col($_[0], 'tz'), event_expr($_[0]) . " + interval '1 hour'") . ", '1 hour') AS ww"; push @{ $_[0]{group} }, 'ww.window_start'; },
	sub { $_[0]{from} .= ', tidemark.tumble(' . event_expr($_[0]) . ', ' . pick("'1 month'", "'0'", "'-1 hour'", 'NULL', "'x'", "make_interval(hours => $_[0]{alias}.k)") . ') AS ww'; push @{ $_[0]{group} }, 'ww.window_start'; },
	sub { push @{ $_[0]{group} }, 'date_bin(' . pick("'1 month'", "'0'", "'-1 hour'", "NULL") . ', ' . event_expr($_[0]) . ", '2000-01-01')"; },
	sub { push @{ $_[0]{group} }, 'date_trunc(' . pick("'nonsense'", 'NULL', "'hour', " . event_expr($_[0]) . ', ' . quote('Nowhere/Land') . ') || (') . pick('', ', ' . event_expr($_[0])) . ')'; },
	sub { $_[0]{outputs} = [ map { /count|sum|avg|min|max/ ? () : $_ } @{ $_[0]{outputs} } ]; $_[0]{group} = []; push @{ $_[0]{outputs} }, col($_[0], 'k') . ' AS x'; },
	sub { push @{ $_[0]{outputs} }, pick('generate_series(1, 2) AS srf', 'unnest(ARRAY[count(*), 1]) AS srf'); },
	sub { push @{ $_[0]{outputs} }, $_[0]{outputs}[0], 'count(*) AS c1'; },
	sub { push @{ $_[0]{outputs} }, pick('count(*) + 1', '(count(*))', '*', "$_[0]{alias}.*", "'unknown' AS lit", 'ROW(count(*)) AS rec', 'NULL AS nul'); },
	sub { push @{ $_[0]{group} }, $_[0]{alias}; },
	sub { push @{ $_[0]{group} }, 'ROW(' . col($_[0], 'k') . ', ' . col($_[0], 'g') . ')'; },
	sub { push @{ $_[0]{outputs} }, pick('missing_column AS x', 'missing_function(1) AS x', 'count(*) + ' . "'text' AS x", 'sum(sum(' . col($_[0], 'i') . ')) AS x',
			col($_[0], 'tz') . ' + count(*) AS x', 'count(*)::date AS x', '$1 AS x', 'sum(' . col($_[0], 't') . ') AS x'); },
	sub { $_[0]{where} = pick('count(*) > 0', col($_[0], 'i'), "sum(i) > 0", ':nothing'); },
	sub { push @{ $_[0]{outputs} }, col($_[0], 'id') . ' AS ungrouped'; },
	sub { $_[0]{from} = pick('dim', 'ext', 'missing_table', 'dim, ext'); },
	sub { $_[0]{from} .= pick(', temp_table', ', pg_class FOR UPDATE', ', missing', ', LATERAL (SELECT random()) lr', ', pg_sequence sq'); },
	sub { push @{ $_[0]{outputs} }, pick('1 / 0 AS boom', "'x'::int AS boom", "'2024-13-01'::date AS boom", "count(*) / 0 AS boom"); },
	sub { push @{ $_[0]{outputs} }, pick('min(' . col($_[0], 'j') . ') AS x', 'max(' . col($_[0], 'bo') . ') AS x', 'avg(' . col($_[0], 'm') . ') AS x'); },
	sub { push @{ $_[0]{outputs} }, 'tidemark.tumble(' . event_expr($_[0]) . ", '1 hour') AS rec"; },
	sub { $_[0]{whole} = pick("INSERT INTO dim SELECT 1", "VALUES (1)", "TABLE $_[0]{stream}", "DELETE FROM $_[0]{stream}", 'SELECT', '',
			"SELECT count(*) INTO tt FROM $_[0]{stream}", "EXPLAIN SELECT 1", "CREATE TABLE tt ()", "SELECT count(*) FROM $_[0]{stream}; SELECT 1",
			"(SELECT count(*) AS n FROM $_[0]{stream})", "SELECT count(*) AS n FROM $_[0]{stream};", "COPY dim TO STDOUT", "SELECT count(*) AS n FROM $_[0]{stream} WHERE false"); });

# Drop, double, exchange or replace some of a query's words.  Words of one kind
# for each other, mostly: more of these can still be parsed.
sub mutate
{
	my $sql = shift;
	my @tokens = $sql =~ /('(?:[^']|'')*'|"[^"]*"|[a-z_][a-z_0-9]*(?:\.[a-z_0-9]+)*|[0-9.]+|::|=>|->>|[<>=!|@]+|\S)/gi;

	for (1 .. pick(1, 1, 1, 2, 3))
	{
		my $at = int rand @tokens;
		my $other = int rand @tokens;
		my $kind = rand;

		if ($kind < 0.08) { splice @tokens, $at, 1; }
		elsif ($kind < 0.12) { splice @tokens, $at, 0, $tokens[$at]; }
		elsif ($kind < 0.16) { @tokens[ $at, $at - 1 ] = @tokens[ $at - 1, $at ]; }
		elsif ($kind < 0.2) { @tokens[ $at, $other ] = @tokens[ $other, $at ]; }
		else
		{
			my $pattern = pick(qr/^[a-z]/, qr/^[a-z]/, qr/^[a-z_]+$/, qr/^\d/, qr/^'/, qr/^[-+*%<>=!|@]+$/,
				qr/^(AND|OR|NOT|IS|NULL|LEFT|RIGHT|FULL|CROSS|INNER|JOIN)$/,
				qr/^(sum|avg|min|max|count|every|bool_.*|bit_.*|stddev.*|var.*)$/);
			my @of_kind = grep { $tokens[$_] =~ $pattern } 0 .. $#tokens;
			next if !@of_kind;
			($at, $other) = (pick(@of_kind), pick(@of_kind));
			if (chance(0.2)) { splice @tokens, $at, 1; }
			elsif (chance(0.5)) { @tokens[ $at, $other ] = @tokens[ $other, $at ]; }
			else { $tokens[$at] = $tokens[$other]; }
		}
		@tokens = ('SELECT') if !@tokens;
	}
	return join ' ', @tokens;
}

# A query: its text, and of which kind it is: plain (may all the same be
# refused), unsupported, mutated.
sub query
{
	my $q = make_query();
	my $r = rand;
	my ($kind, $text) = ('plain', undef);

	if ($r < 0.25)
	{
		$kind = 'unsupported';
		pick(@UNSUPPORTED)->($q);
	}
	$text = $q->{whole} // deparse($q);
	if ($r > 0.82)
	{
		$kind = 'mutated';
		$text = mutate($text);
	}
	return ($text, $kind);
}

1;
