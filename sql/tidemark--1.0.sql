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

-- ---------------------------------------------------------------------------
-- Section 6: continuous views
-- ---------------------------------------------------------------------------

-- ---------------------------------------------------------------------------
-- Section 7: running
-- ---------------------------------------------------------------------------

-- ---------------------------------------------------------------------------
-- Section 8: watching
-- ---------------------------------------------------------------------------
