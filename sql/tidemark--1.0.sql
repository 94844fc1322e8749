/* sql/tidemark--1.0.sql */

-- complain if script is sourced in psql, rather than via CREATE EXTENSION
\echo Use "CREATE EXTENSION tidemark" to load this file. \quit

-- Everything is created, never replaced: an object somebody put in our way
-- makes the script fail instead of being used.

-- ---------------------------------------------------------------------------
-- Section 1: schemas
-- ---------------------------------------------------------------------------

-- Storage tables and definition views live here; they are made by functions
-- of the extension and are not members of it, so that pg_dump dumps them.
CREATE SCHEMA tidemark_data;
COMMENT ON SCHEMA tidemark_data IS
'storage tables and definition views of tidemark''s continuous views';
GRANT USAGE ON SCHEMA tidemark, tidemark_data TO PUBLIC;

-- ---------------------------------------------------------------------------
-- Section 2: types (stamp, state)
-- ---------------------------------------------------------------------------

-- stamp: the transaction that inserted a row, as base + top-level full
-- transaction id (src/stamp.c).  An own type without implicit casts, so that a
-- number which slips into the column is an error and not a lost row.
CREATE TYPE tidemark.stamp;

CREATE FUNCTION tidemark.stamp_in(text cstring)
RETURNS tidemark.stamp
AS 'int8in' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_in(cstring) IS 'I/O';

CREATE FUNCTION tidemark.stamp_out(stamp tidemark.stamp)
RETURNS cstring
AS 'int8out' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_out(tidemark.stamp) IS 'I/O';

CREATE FUNCTION tidemark.stamp_recv(buffer internal)
RETURNS tidemark.stamp
AS 'int8recv' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_recv(internal) IS 'I/O';

CREATE FUNCTION tidemark.stamp_send(stamp tidemark.stamp)
RETURNS bytea
AS 'int8send' LANGUAGE internal IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_send(tidemark.stamp) IS 'I/O';

CREATE TYPE tidemark.stamp (
	INPUT = tidemark.stamp_in,
	OUTPUT = tidemark.stamp_out,
	RECEIVE = tidemark.stamp_recv,
	SEND = tidemark.stamp_send,
	LIKE = pg_catalog.int8
);
COMMENT ON TYPE tidemark.stamp IS
'the transaction that inserted a row; 0: the row was there before its table became a stream';

CREATE FUNCTION tidemark.stamp_lt(a tidemark.stamp, b tidemark.stamp)
RETURNS bool
AS 'int8lt' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_lt(tidemark.stamp, tidemark.stamp) IS
'implementation of < operator';

CREATE FUNCTION tidemark.stamp_le(a tidemark.stamp, b tidemark.stamp)
RETURNS bool
AS 'int8le' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_le(tidemark.stamp, tidemark.stamp) IS
'implementation of <= operator';

CREATE FUNCTION tidemark.stamp_eq(a tidemark.stamp, b tidemark.stamp)
RETURNS bool
AS 'int8eq' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_eq(tidemark.stamp, tidemark.stamp) IS
'implementation of = operator';

CREATE FUNCTION tidemark.stamp_ne(a tidemark.stamp, b tidemark.stamp)
RETURNS bool
AS 'int8ne' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_ne(tidemark.stamp, tidemark.stamp) IS
'implementation of <> operator';

CREATE FUNCTION tidemark.stamp_ge(a tidemark.stamp, b tidemark.stamp)
RETURNS bool
AS 'int8ge' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_ge(tidemark.stamp, tidemark.stamp) IS
'implementation of >= operator';

CREATE FUNCTION tidemark.stamp_gt(a tidemark.stamp, b tidemark.stamp)
RETURNS bool
AS 'int8gt' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_gt(tidemark.stamp, tidemark.stamp) IS
'implementation of > operator';

CREATE FUNCTION tidemark.stamp_cmp(a tidemark.stamp, b tidemark.stamp)
RETURNS int4
AS 'btint8cmp' LANGUAGE internal IMMUTABLE STRICT LEAKPROOF PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_cmp(tidemark.stamp, tidemark.stamp) IS
'less-equal-greater';

CREATE OPERATOR tidemark.< (
	LEFTARG = tidemark.stamp, RIGHTARG = tidemark.stamp,
	FUNCTION = tidemark.stamp_lt,
	COMMUTATOR = OPERATOR(tidemark.>), NEGATOR = OPERATOR(tidemark.>=),
	RESTRICT = scalarltsel, JOIN = scalarltjoinsel
);
CREATE OPERATOR tidemark.<= (
	LEFTARG = tidemark.stamp, RIGHTARG = tidemark.stamp,
	FUNCTION = tidemark.stamp_le,
	COMMUTATOR = OPERATOR(tidemark.>=), NEGATOR = OPERATOR(tidemark.>),
	RESTRICT = scalarlesel, JOIN = scalarlejoinsel
);
CREATE OPERATOR tidemark.= (
	LEFTARG = tidemark.stamp, RIGHTARG = tidemark.stamp,
	FUNCTION = tidemark.stamp_eq,
	COMMUTATOR = OPERATOR(tidemark.=), NEGATOR = OPERATOR(tidemark.<>),
	RESTRICT = eqsel, JOIN = eqjoinsel, MERGES
);
CREATE OPERATOR tidemark.<> (
	LEFTARG = tidemark.stamp, RIGHTARG = tidemark.stamp,
	FUNCTION = tidemark.stamp_ne,
	COMMUTATOR = OPERATOR(tidemark.<>), NEGATOR = OPERATOR(tidemark.=),
	RESTRICT = neqsel, JOIN = neqjoinsel
);
CREATE OPERATOR tidemark.>= (
	LEFTARG = tidemark.stamp, RIGHTARG = tidemark.stamp,
	FUNCTION = tidemark.stamp_ge,
	COMMUTATOR = OPERATOR(tidemark.<=), NEGATOR = OPERATOR(tidemark.<),
	RESTRICT = scalargesel, JOIN = scalargejoinsel
);
CREATE OPERATOR tidemark.> (
	LEFTARG = tidemark.stamp, RIGHTARG = tidemark.stamp,
	FUNCTION = tidemark.stamp_gt,
	COMMUTATOR = OPERATOR(tidemark.<), NEGATOR = OPERATOR(tidemark.<=),
	RESTRICT = scalargtsel, JOIN = scalargtjoinsel
);

CREATE OPERATOR CLASS tidemark.stamp_ops
DEFAULT FOR TYPE tidemark.stamp USING btree AS
	OPERATOR 1 tidemark.<,
	OPERATOR 2 tidemark.<=,
	OPERATOR 3 tidemark.=,
	OPERATOR 4 tidemark.>=,
	OPERATOR 5 tidemark.>,
	FUNCTION 1 tidemark.stamp_cmp(tidemark.stamp, tidemark.stamp),
	FUNCTION 2 (tidemark.stamp, tidemark.stamp)
		pg_catalog.btint8sortsupport(internal),
	FUNCTION 4 (tidemark.stamp, tidemark.stamp)
		pg_catalog.btequalimage(oid);

CREATE OPERATOR CLASS tidemark.stamp_minmax_ops
DEFAULT FOR TYPE tidemark.stamp USING brin AS
	OPERATOR 1 tidemark.<,
	OPERATOR 2 tidemark.<=,
	OPERATOR 3 tidemark.=,
	OPERATOR 4 tidemark.>=,
	OPERATOR 5 tidemark.>,
	FUNCTION 1 pg_catalog.brin_minmax_opcinfo(internal),
	FUNCTION 2 pg_catalog.brin_minmax_add_value(internal, internal, internal, internal),
	FUNCTION 3 pg_catalog.brin_minmax_consistent(internal, internal, internal),
	FUNCTION 4 pg_catalog.brin_minmax_union(internal, internal, internal);

-- explicit only
CREATE CAST (tidemark.stamp AS pg_catalog.int8) WITHOUT FUNCTION;
CREATE CAST (pg_catalog.int8 AS tidemark.stamp) WITHOUT FUNCTION;

-- The base of this database's stamps.  rebase() writes the body; it is never
-- dumped, so that a restored database gets a base of its own.
CREATE FUNCTION tidemark.stamp_base()
RETURNS int8
AS 'SELECT 0' LANGUAGE sql IMMUTABLE PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.stamp_base() IS
'what is added to a transaction id to make a stamp of this database';

CREATE FUNCTION tidemark.rebase(beyond int8 DEFAULT 0)
RETURNS int8
AS 'MODULE_PATHNAME', 'tide_rebase'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.rebase(int8) IS
'move the base forward, so that new stamps are greater than all that exist and than the given one';
REVOKE ALL ON FUNCTION tidemark.rebase(int8) FROM PUBLIC;

SELECT tidemark.rebase();

CREATE FUNCTION tidemark.txid_stamp()
RETURNS tidemark.stamp
AS 'MODULE_PATHNAME', 'tide_txid_stamp'
LANGUAGE C STABLE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.txid_stamp() IS
'the stamp of the current transaction: default of the column _txid of a stream';

CREATE FUNCTION tidemark.guard_stamp(stamp tidemark.stamp, relation regclass)
RETURNS tidemark.stamp
AS 'MODULE_PATHNAME', 'tide_guard_stamp'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.guard_stamp(tidemark.stamp, regclass) IS
'the stamp of the current transaction; an error when another one is given';

-- ---------------------------------------------------------------------------
-- Section 3: tables.  src/catalog.h has the same columns in the same order.
-- ---------------------------------------------------------------------------

-- Numbers the definition views and storage tables; survives in dumps.
CREATE SEQUENCE tidemark.object_id;

CREATE TABLE tidemark.stream (
	relation regclass NOT NULL PRIMARY KEY,	-- the event table
	definition regclass NOT NULL,	-- tidemark_data.stream_N: SELECT event_time
	watermark_delay int8 NOT NULL,	-- microseconds
	max_future int8,				-- microseconds; NULL: clock cap lifted
	allow_update bool NOT NULL,
	timezone text NOT NULL,			-- relates timestamp event times to the clock
	created_at timestamptz NOT NULL
);

CREATE TABLE tidemark.continuous_view (
	view regclass NOT NULL PRIMARY KEY,	-- what the user reads
	storage regclass NOT NULL,		-- tidemark_data.view_N
	definition regclass NOT NULL,	-- tidemark_data.definition_N
	stream regclass NOT NULL,
	trigger_usec int8 NOT NULL,		-- 0: commit, -1: manual, else the interval
	watermark_delay int8,			-- microseconds; NULL: the stream's
	emit_final bool NOT NULL,
	paused bool NOT NULL,
	server_major int4 NOT NULL,		-- wrote the states
	created_at timestamptz NOT NULL,
	fingerprint int8 NOT NULL,		-- of the definition
	settings text[] NOT NULL		-- name, value, name, value, ...
);

-- One row a view and source, updated by every batch: no index on anything
-- that changes and room on the page, so that the updates are HOT.
CREATE TABLE tidemark.checkpoint (
	view regclass NOT NULL,
	source regclass NOT NULL,
	fingerprint int8 NOT NULL,
	batch_id int8 NOT NULL,			-- last committed logical batch, 0: none
	watermark timestamptz NOT NULL,
	max_event_time timestamptz NOT NULL,	-- seen so far, pieces included
	updated_at timestamptz NOT NULL,
	pos_xmax int8 NOT NULL,			-- position, in stamp space
	has_target bool NOT NULL,		-- pieces are being read, up to the target
	target_xmax int8 NOT NULL,
	pos_in_progress int8[] NOT NULL,
	target_in_progress int8[] NOT NULL,
	leaves regclass[] NOT NULL,		-- leaves that stand at the position
	totals int8[] NOT NULL,			-- TideCounter, since creation
	last int8[] NOT NULL,			-- TideCounter, last batch
	PRIMARY KEY (view, source)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0,
		autovacuum_vacuum_threshold = 500);

-- Leaves of a source that stand elsewhere than their view's checkpoint.
CREATE TABLE tidemark.leaf (
	view regclass NOT NULL,
	leaf regclass NOT NULL,
	pos_xmax int8 NOT NULL,
	pos_in_progress int8[] NOT NULL,
	PRIMARY KEY (view, leaf)
);

-- What is left to read of a backlog that is too large for one transaction.
CREATE TABLE tidemark.piece (
	view regclass NOT NULL,
	leaf regclass NOT NULL,
	relfilenode oid NOT NULL,
	next_block int8 NOT NULL,
	end_block int8 NOT NULL,
	PRIMARY KEY (view, leaf)
) WITH (fillfactor = 50);

-- Recent batches, sampled: at most one row a second and view.
CREATE TABLE tidemark.batch (
	view regclass NOT NULL,
	batch_id int8 NOT NULL,
	committed_at timestamptz NOT NULL,
	watermark timestamptz NOT NULL,
	counters int8[] NOT NULL		-- TideCounter
);
CREATE INDEX ON tidemark.batch (view, committed_at);

-- The failure a view is in; the row goes when a batch succeeds.
CREATE TABLE tidemark.failure (
	view regclass NOT NULL PRIMARY KEY,
	attempts int4 NOT NULL,
	first_failed_at timestamptz NOT NULL,
	last_failed_at timestamptz NOT NULL,
	next_try timestamptz NOT NULL,
	sqlstate text NOT NULL,
	message text NOT NULL,
	detail text,
	hint text,
	context text
) WITH (fillfactor = 50);

SELECT pg_catalog.pg_extension_config_dump('tidemark.object_id', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.stream', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.continuous_view', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.checkpoint', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.leaf', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.piece', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.batch', '');

-- ---------------------------------------------------------------------------
-- Section 4: windows
-- ---------------------------------------------------------------------------

-- ---------------------------------------------------------------------------
-- Section 5: streams
-- ---------------------------------------------------------------------------

CREATE FUNCTION tidemark.create_stream(
	relation regclass,
	event_time text,
	watermark_delay interval DEFAULT '0',
	max_future text DEFAULT '5 minutes',
	timezone text DEFAULT NULL,
	allow_update bool DEFAULT false,
	if_not_exists bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_create_stream'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.create_stream(regclass, text, interval, text, text, bool, bool) IS
'make a table a stream: say what its event time is, and add the stamp column';

CREATE FUNCTION tidemark.alter_stream(
	relation regclass,
	watermark_delay interval DEFAULT NULL,
	max_future text DEFAULT NULL,
	timezone text DEFAULT NULL,
	allow_update bool DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_alter_stream'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.alter_stream(regclass, interval, text, text, bool) IS
'change the settings of a stream; NULL leaves one as it is';

CREATE FUNCTION tidemark.drop_stream(
	relation regclass,
	cascade bool DEFAULT false,
	if_exists bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_drop_stream'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.drop_stream(regclass, bool, bool) IS
'make a stream an ordinary table again; cascade drops the continuous views that read it';

CREATE FUNCTION tidemark.guard_update()
RETURNS trigger
AS 'MODULE_PATHNAME', 'tide_guard_update'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.guard_update() IS
'trigger of a stream that refuses updates';

-- ---------------------------------------------------------------------------
-- Section 6: continuous views
-- ---------------------------------------------------------------------------

-- ---------------------------------------------------------------------------
-- Section 7: running
-- ---------------------------------------------------------------------------

-- ---------------------------------------------------------------------------
-- Section 8: watching
-- ---------------------------------------------------------------------------

-- The processes of the whole cluster; no rows without preloading.
CREATE FUNCTION tidemark.worker_slots(
	OUT pid int4,
	OUT kind text,
	OUT database_id oid,
	OUT view_id oid,
	OUT state text,
	OUT since timestamptz)
RETURNS SETOF record
LANGUAGE C VOLATILE PARALLEL RESTRICTED ROWS 10
AS 'MODULE_PATHNAME', 'tide_worker_slots';
COMMENT ON FUNCTION tidemark.worker_slots() IS
'processes of tidemark in the whole cluster, as they are in shared memory';

CREATE VIEW tidemark.workers AS
	SELECT s.pid, s.kind, d.datname AS database,
		-- another database's OIDs mean something else here
		CASE WHEN d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
			THEN s.view_id::pg_catalog.regclass END AS view,
		s.state, s.since
	FROM tidemark.worker_slots() s
		LEFT JOIN pg_catalog.pg_database d
			ON d.oid OPERATOR(pg_catalog.=) s.database_id;
COMMENT ON VIEW tidemark.workers IS
'launcher, schedulers and batch workers of the whole cluster';
GRANT SELECT ON tidemark.workers TO PUBLIC;
