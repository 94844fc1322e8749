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

-- States of aggregates, as their serialize functions give them.  No casts: a
-- crafted state can hang a deserialize function beyond the reach of
-- pg_terminate_backend, so nothing but a restore makes one from text.
CREATE TYPE tidemark.state;

CREATE FUNCTION tidemark.state_in(text cstring)
RETURNS tidemark.state
AS 'MODULE_PATHNAME', 'tide_state_in'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.state_in(cstring) IS 'I/O';

CREATE FUNCTION tidemark.state_out(state tidemark.state)
RETURNS cstring
AS 'MODULE_PATHNAME', 'tide_state_out'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.state_out(tidemark.state) IS 'I/O';

CREATE FUNCTION tidemark.state_recv(buffer internal)
RETURNS tidemark.state
AS 'MODULE_PATHNAME', 'tide_state_recv'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.state_recv(internal) IS 'I/O';

CREATE FUNCTION tidemark.state_send(state tidemark.state)
RETURNS bytea
AS 'MODULE_PATHNAME', 'tide_state_send'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.state_send(tidemark.state) IS 'I/O';

CREATE TYPE tidemark.state (
	INPUT = tidemark.state_in,
	OUTPUT = tidemark.state_out,
	RECEIVE = tidemark.state_recv,
	SEND = tidemark.state_send,
	INTERNALLENGTH = VARIABLE,
	STORAGE = extended
);
COMMENT ON TYPE tidemark.state IS
'state of an aggregate with an internal transition type';

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
	created_at timestamptz NOT NULL,
	rows_restamped int8 NOT NULL	-- rows that came without a stamp
);

CREATE TABLE tidemark.continuous_view (
	view regclass NOT NULL PRIMARY KEY,	-- what the user reads
	storage regclass NOT NULL,		-- tidemark_data.view_N
	definition regclass NOT NULL,	-- tidemark_data.definition_N
	stream regclass NOT NULL,
	trigger_usec int8 NOT NULL,		-- 0: commit, -1: manual, else the interval
	watermark_delay int8,			-- microseconds; NULL: the stream's
	start_at timestamptz,			-- windows that start earlier are left out
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
	final_before timestamptz NOT NULL,	-- windows that start earlier are final
	batch_clock timestamptz NOT NULL,	-- when the logical batch was begun
	batch_max_event_time timestamptz NOT NULL,	-- seen by its pieces so far
	updated_at timestamptz NOT NULL,
	sampled_at timestamptz NOT NULL,	-- last row of the history
	pos_xmax int8 NOT NULL,			-- position, in stamp space
	has_target bool NOT NULL,		-- a logical batch is read in pieces up to it
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
	counters int8[] NOT NULL,		-- TideCounter, of the batch
	totals int8[] NOT NULL			-- TideCounter, since creation
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

-- How many late rows each window missed, by its start as the storage table has
-- it; a window without late rows has no row.
CREATE TABLE tidemark.late_window (
	view regclass NOT NULL,
	window_start timestamptz NOT NULL,
	rows int8 NOT NULL,
	PRIMARY KEY (view, window_start)
) WITH (fillfactor = 50);

COMMENT ON SEQUENCE tidemark.object_id IS
'numbers the definition views and storage tables';
COMMENT ON TABLE tidemark.stream IS
'event tables that are streams; see the view streams';
COMMENT ON TABLE tidemark.continuous_view IS
'continuous views and their settings; see the view continuous_views';
COMMENT ON TABLE tidemark.checkpoint IS
'position, watermark and counters of each continuous view; see the view progress';
COMMENT ON TABLE tidemark.leaf IS
'leaves of streams that stand elsewhere than their view''s checkpoint';
COMMENT ON TABLE tidemark.piece IS
'what is left to read of backlogs that are too large for one transaction';
COMMENT ON TABLE tidemark.batch IS
'recent batches, sampled; see the view batches';
COMMENT ON TABLE tidemark.failure IS
'failures that continuous views are in; see the view failures';

COMMENT ON TABLE tidemark.late_window IS
'rows that came too late for their window, counted by window';

-- The library writes to its tables without triggers; these are for a restore.
CREATE FUNCTION tidemark.note_restore()
RETURNS trigger
AS 'MODULE_PATHNAME', 'tide_note_restore'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.note_restore() IS
'trigger of the extension''s tables: a dump is restored, so no batches until that session ends';

CREATE TRIGGER tidemark_note_restore AFTER INSERT ON tidemark.stream
FOR EACH STATEMENT EXECUTE FUNCTION tidemark.note_restore();
CREATE TRIGGER tidemark_note_restore AFTER INSERT ON tidemark.continuous_view
FOR EACH STATEMENT EXECUTE FUNCTION tidemark.note_restore();
CREATE TRIGGER tidemark_note_restore AFTER INSERT ON tidemark.checkpoint
FOR EACH STATEMENT EXECUTE FUNCTION tidemark.note_restore();

SELECT pg_catalog.pg_extension_config_dump('tidemark.object_id', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.stream', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.continuous_view', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.checkpoint', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.leaf', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.piece', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.batch', '');
SELECT pg_catalog.pg_extension_config_dump('tidemark.late_window', '');

-- ---------------------------------------------------------------------------
-- Section 4: windows
-- ---------------------------------------------------------------------------

-- tumble is what queries use.  It is inlined (so it must not be strict, and
-- its body is parsed here and now: no search_path can change it) and gives no
-- row where there is no window.

CREATE FUNCTION tidemark.tumble_start(ts timestamptz, size interval,
	origin timestamptz DEFAULT '2000-01-03 00:00:00+00')
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'tide_tumble_start'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.tumble_start(timestamptz, interval, timestamptz) IS
'start of the window of a fixed size that holds a time';

CREATE FUNCTION tidemark.tumble_end(ts timestamptz, size interval,
	origin timestamptz DEFAULT '2000-01-03 00:00:00+00')
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'tide_tumble_end'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.tumble_end(timestamptz, interval, timestamptz) IS
'end of the window of a fixed size that holds a time';

CREATE FUNCTION tidemark.tumble(ts timestamptz, size interval,
	origin timestamptz DEFAULT '2000-01-03 00:00:00+00')
RETURNS TABLE (window_start timestamptz, window_end timestamptz)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
	SELECT tidemark.tumble_start(ts, size, origin),
		tidemark.tumble_end(ts, size, origin)
	WHERE tidemark.tumble_start(ts, size, origin) IS NOT NULL;
END;
COMMENT ON FUNCTION tidemark.tumble(timestamptz, interval, timestamptz) IS
'the window of a fixed size that holds a time';

CREATE FUNCTION tidemark.tumble_start(ts timestamp, size interval,
	origin timestamp DEFAULT '2000-01-03 00:00:00')
RETURNS timestamp
AS 'MODULE_PATHNAME', 'tide_tumble_start'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.tumble_start(timestamp, interval, timestamp) IS
'start of the window of a fixed size that holds a time';

CREATE FUNCTION tidemark.tumble_end(ts timestamp, size interval,
	origin timestamp DEFAULT '2000-01-03 00:00:00')
RETURNS timestamp
AS 'MODULE_PATHNAME', 'tide_tumble_end'
LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.tumble_end(timestamp, interval, timestamp) IS
'end of the window of a fixed size that holds a time';

CREATE FUNCTION tidemark.tumble(ts timestamp, size interval,
	origin timestamp DEFAULT '2000-01-03 00:00:00')
RETURNS TABLE (window_start timestamp, window_end timestamp)
LANGUAGE sql IMMUTABLE PARALLEL SAFE ROWS 1
BEGIN ATOMIC
	SELECT tidemark.tumble_start(ts, size, origin),
		tidemark.tumble_end(ts, size, origin)
	WHERE tidemark.tumble_start(ts, size, origin) IS NOT NULL;
END;
COMMENT ON FUNCTION tidemark.tumble(timestamp, interval, timestamp) IS
'the window of a fixed size that holds a time';

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
	strict_stamp bool DEFAULT false,
	if_not_exists bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_create_stream'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.create_stream(regclass, text, interval, text, text, bool, bool, bool) IS
'make a table a stream: say what its event time is, and add the stamp column';

CREATE FUNCTION tidemark.alter_stream(
	relation regclass,
	watermark_delay interval DEFAULT NULL,
	max_future text DEFAULT NULL,
	timezone text DEFAULT NULL,
	allow_update bool DEFAULT NULL,
	strict_stamp bool DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_alter_stream'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.alter_stream(regclass, interval, text, text, bool, bool) IS
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

CREATE FUNCTION tidemark.stamp_row()
RETURNS trigger
AS 'MODULE_PATHNAME', 'tide_stamp_row'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.stamp_row() IS
'trigger of a stream with strict_stamp: gives every row the stamp of its transaction';

CREATE FUNCTION tidemark.guard_update()
RETURNS trigger
AS 'MODULE_PATHNAME', 'tide_guard_update'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.guard_update() IS
'trigger of a stream that refuses updates';

-- ---------------------------------------------------------------------------
-- Section 6: continuous views
-- ---------------------------------------------------------------------------

CREATE FUNCTION tidemark.create_continuous_view(
	name text,
	query text,
	trigger text DEFAULT '1 second',
	emit text DEFAULT 'update',
	watermark_delay interval DEFAULT NULL,
	start text DEFAULT 'earliest',
	if_not_exists bool DEFAULT false)
RETURNS regclass
AS 'MODULE_PATHNAME', 'tide_create_continuous_view'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.create_continuous_view(text, text, text, text, interval, text, bool) IS
'create a view that is kept fresh by batches over a stream';

CREATE FUNCTION tidemark.drop_continuous_view(
	view regclass,
	cascade bool DEFAULT false)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_drop_continuous_view'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.drop_continuous_view(regclass, bool) IS
'drop a continuous view with its storage and checkpoint, as DROP VIEW does';

CREATE FUNCTION tidemark.pause(view regclass)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_pause'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.pause(regclass) IS
'run no more batches of a continuous view, until it is resumed';

CREATE FUNCTION tidemark.resume(view regclass)
RETURNS void
AS 'MODULE_PATHNAME', 'tide_resume'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.resume(regclass) IS
'run batches of a continuous view again, from where it was paused';

CREATE FUNCTION tidemark.watermark(view regclass)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'tide_watermark'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.watermark(regclass) IS
'watermark of a continuous view: windows that end at or before it are final';

-- For the views with emit => 'final'; the second argument chooses the type.
CREATE FUNCTION tidemark.final_before(storage regclass, type timestamptz)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'tide_final_before'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.final_before(regclass, timestamptz) IS
'start of the first window of a storage table that is not final';

CREATE FUNCTION tidemark.final_before(storage regclass, type timestamp)
RETURNS timestamp
AS 'MODULE_PATHNAME', 'tide_final_before'
LANGUAGE C STABLE CALLED ON NULL INPUT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.final_before(regclass, timestamp) IS
'start of the first window of a storage table that is not final';

CREATE FUNCTION tidemark.explain(view regclass)
RETURNS SETOF text
AS 'MODULE_PATHNAME', 'tide_explain'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED ROWS 10;
COMMENT ON FUNCTION tidemark.explain(regclass) IS
'how a continuous view is maintained: stream, window, keys, aggregates, settings, position';

CREATE FUNCTION tidemark.verify(
	view regclass,
	since timestamptz DEFAULT NULL,
	OUT verdict text,
	OUT window_start timestamptz,
	OUT keys jsonb,
	OUT expected jsonb,
	OUT found jsonb)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'tide_verify'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE ROWS 10;
COMMENT ON FUNCTION tidemark.verify(regclass, timestamptz) IS
'compare a continuous view with its query over the rows it has consumed: the groups that differ, and why';

-- What verify adds to the WHERE clause of a query.
CREATE FUNCTION tidemark.verify_row(
	leaf oid,
	stamp tidemark.stamp,
	event_time timestamptz)
RETURNS bool
AS 'MODULE_PATHNAME', 'tide_verify_row'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.verify_row(oid, tidemark.stamp, timestamptz) IS
'has the view that is being verified consumed the row; for tidemark.verify only';

CREATE FUNCTION tidemark.verify_row(
	leaf oid,
	stamp tidemark.stamp,
	event_time timestamp)
RETURNS bool
AS 'MODULE_PATHNAME', 'tide_verify_row'
LANGUAGE C VOLATILE CALLED ON NULL INPUT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.verify_row(oid, tidemark.stamp, timestamp) IS
'has the view that is being verified consumed the row; for tidemark.verify only';

-- ---------------------------------------------------------------------------
-- Section 7: running
-- ---------------------------------------------------------------------------

CREATE PROCEDURE tidemark.catch_up(view regclass)
LANGUAGE C
AS 'MODULE_PATHNAME', 'tide_catch_up';
COMMENT ON PROCEDURE tidemark.catch_up(regclass) IS
'take all that is committed into a continuous view, a transaction a batch';

CREATE FUNCTION tidemark.wait_for(
	view regclass,
	timeout interval DEFAULT '1 minute')
RETURNS bool
AS 'MODULE_PATHNAME', 'tide_wait_for'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.wait_for(regclass, interval) IS
'wait until all that was committed before the call is in a continuous view; false: timed out';

-- ---------------------------------------------------------------------------
-- Section 8: watching
-- ---------------------------------------------------------------------------

CREATE FUNCTION tidemark.event_clock(stream regclass, event_time timestamptz)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'tide_event_clock'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.event_clock(regclass, timestamptz) IS
'a time as the checkpoint keeps it, on the clock: differs where the event time is a timestamp';

CREATE FUNCTION tidemark.backlog_bytes(view regclass)
RETURNS int8
AS 'MODULE_PATHNAME', 'tide_backlog_bytes'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.backlog_bytes(regclass) IS
'bytes of the stream that the next batches of a view will read; NULL while the stream is locked';

CREATE FUNCTION tidemark.view_status(view regclass)
RETURNS text
AS 'MODULE_PATHNAME', 'tide_view_status'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.view_status(regclass) IS
'where a continuous view stands: paused, failed, backfill, falling behind, catching up, running, waiting for watermark, idle';

CREATE FUNCTION tidemark.history_share(view regclass)
RETURNS float8
AS 'MODULE_PATHNAME', 'tide_history_share'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION tidemark.history_share(regclass) IS
'share of the history of its stream that a view has read, from 0 to 1; NULL while the stream is locked';

CREATE FUNCTION tidemark.state_bytes(view regclass)
RETURNS int8
AS 'MODULE_PATHNAME', 'tide_state_bytes'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION tidemark.state_bytes(regclass) IS
'bytes of the storage table of a view with its indexes; NULL while it is locked';

CREATE FUNCTION tidemark.open_windows(view regclass)
RETURNS int8
AS 'MODULE_PATHNAME', 'tide_open_windows'
LANGUAGE C STABLE STRICT PARALLEL RESTRICTED;
COMMENT ON FUNCTION tidemark.open_windows(regclass) IS
'windows of a view that are not final, up to 10000; NULL without windows, or while the storage is locked';

-- Whether the current user may see what concerns a relation.
CREATE FUNCTION tidemark.may_watch(relation regclass)
RETURNS bool
AS 'MODULE_PATHNAME', 'tide_may_watch'
LANGUAGE C STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION tidemark.may_watch(regclass) IS
'may the current user see the figures of a stream or view: its owner and pg_monitor may';

CREATE VIEW tidemark.streams AS
	SELECT s.relation,
		pg_catalog.pg_get_viewdef(s.definition) AS definition,
		pg_catalog.make_interval(secs => s.watermark_delay / 1000000.0) AS watermark_delay,
		pg_catalog.make_interval(secs => s.max_future / 1000000.0) AS max_future,
		s.timezone, s.allow_update,
		EXISTS (SELECT FROM pg_catalog.pg_trigger t
				WHERE t.tgrelid OPERATOR(pg_catalog.=) s.relation
					AND t.tgname OPERATOR(pg_catalog.=) 'tidemark_strict_stamp') AS strict_stamp,
		s.created_at, s.rows_restamped,
		(SELECT pg_catalog.count(*) FROM tidemark.continuous_view v
		 WHERE v.stream OPERATOR(pg_catalog.=) s.relation) AS views
	FROM tidemark.stream s
	WHERE tidemark.may_watch(s.relation);
COMMENT ON VIEW tidemark.streams IS 'event tables that are streams';

CREATE VIEW tidemark.continuous_views AS
	SELECT v.view, v.stream,
		CASE v.trigger_usec WHEN 0 THEN 'commit' WHEN -1 THEN 'manual'
			ELSE pg_catalog.make_interval(secs => v.trigger_usec / 1000000.0)::pg_catalog.text
			END AS trigger,
		CASE WHEN v.emit_final THEN 'final' ELSE 'update' END AS emit,
		pg_catalog.make_interval(secs =>
			coalesce(v.watermark_delay, s.watermark_delay) / 1000000.0) AS watermark_delay,
		v.paused, v.storage, v.definition,
		pg_catalog.pg_get_viewdef(v.definition) AS query,
		v.settings, v.created_at
	FROM tidemark.continuous_view v
		LEFT JOIN tidemark.stream s
			ON s.relation OPERATOR(pg_catalog.=) v.stream
	WHERE tidemark.may_watch(v.view);
COMMENT ON VIEW tidemark.continuous_views IS 'continuous views and their settings';

-- The arrays are unpacked by the numbers of TideCounter in src/catalog.h.
CREATE VIEW tidemark.progress AS
	SELECT c.view,
		tidemark.view_status(c.view) AS status,
		c.batch_id,
		tidemark.event_clock(c.source, c.watermark) AS watermark,
		tidemark.event_clock(c.source, c.max_event_time) AS max_event_time,
		CASE WHEN pg_catalog.isfinite(c.max_event_time)
			THEN pg_catalog.clock_timestamp()
				- tidemark.event_clock(c.source, c.max_event_time)
			END AS event_time_lag,
		c.updated_at AS last_batch_at,
		pg_catalog.clock_timestamp() - c.updated_at AS last_batch_age,
		c.has_target AS reading_history,
		tidemark.history_share(c.view) AS history_share,
		tidemark.backlog_bytes(c.view) AS backlog_bytes,
		c.totals[1] AS rows_in,
		c.totals[2] AS rows_null_time,
		c.totals[3] AS rows_rejected,
		c.totals[4] AS rows_filtered,
		c.totals[5] AS rows_late,
		c.totals[6] AS rows_duplicate,
		c.totals[7] AS rows_failed,
		c.totals[8] AS rows_used,
		c.totals[9] AS rows_future,
		c.totals[10] AS rows_late_partly,
		c.totals[11] AS rows_null_id,
		c.totals[13] AS rows_lost,
		c.totals[15] AS state_rows,
		tidemark.state_bytes(c.view) AS state_bytes,
		tidemark.open_windows(c.view) AS open_windows,
		c.totals[19] AS batches,
		c.totals[17] AS notifications,
		c.totals[18] AS notifications_skipped,
		c.totals[25] AS peak_memory_bytes,
		c.last[1] AS last_rows_in,
		c.last[14] AS last_groups_updated,
		c.last[15] AS last_groups_new,
		c.last[16] AS last_flushes,
		c.last[20] AS last_blocks_read,
		c.last[21] / 1000.0 AS last_plan_ms,
		c.last[22] / 1000.0 AS last_read_ms,
		c.last[23] / 1000.0 AS last_merge_ms,
		c.last[24] / 1000.0 AS previous_commit_ms,
		-- rows a second: committed over the last seconds, and worked off
		(c.totals[1] - b.totals[1]) / nullif(pg_catalog.date_part('epoch',
			c.updated_at - b.committed_at), 0) AS input_rate,
		c.last[1] * 1000000.0 / nullif(c.last[21] + c.last[22] + c.last[23], 0)
			AS processing_rate
	FROM tidemark.checkpoint c
		LEFT JOIN LATERAL (
			SELECT h.committed_at, h.totals FROM tidemark.batch h
			WHERE h.view OPERATOR(pg_catalog.=) c.view
				AND h.committed_at < c.updated_at - interval '10 seconds'
			ORDER BY h.committed_at DESC LIMIT 1) b ON true
	WHERE tidemark.may_watch(c.view);
COMMENT ON VIEW tidemark.progress IS
'where each continuous view stands: its counters since creation and its last batch';

CREATE VIEW tidemark.batches AS
	SELECT b.view, b.batch_id, b.committed_at,
		tidemark.event_clock(v.stream, b.watermark) AS watermark,
		b.counters[1] AS rows_in,
		b.counters[2] AS rows_null_time,
		b.counters[3] AS rows_rejected,
		b.counters[4] AS rows_filtered,
		b.counters[5] AS rows_late,
		b.counters[6] AS rows_duplicate,
		b.counters[7] AS rows_failed,
		b.counters[8] AS rows_used,
		b.counters[9] AS rows_future,
		b.counters[14] AS groups_updated,
		b.counters[15] AS groups_new,
		b.counters[16] AS flushes,
		b.counters[20] AS blocks_read,
		b.counters[21] / 1000.0 AS plan_ms,
		b.counters[22] / 1000.0 AS read_ms,
		b.counters[23] / 1000.0 AS merge_ms,
		b.counters[25] AS peak_memory_bytes
	FROM tidemark.batch b
		JOIN tidemark.continuous_view v
			ON v.view OPERATOR(pg_catalog.=) b.view
	WHERE tidemark.may_watch(b.view);
COMMENT ON VIEW tidemark.batches IS
'batches of the last hour, at most one a second and view';

CREATE VIEW tidemark.failures AS
	SELECT f.* FROM tidemark.failure f
	WHERE tidemark.may_watch(f.view);
COMMENT ON VIEW tidemark.failures IS
'continuous views that failed, why, and when they are tried again';

GRANT SELECT ON tidemark.streams, tidemark.continuous_views, tidemark.progress,
	tidemark.batches, tidemark.failures TO PUBLIC;

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
