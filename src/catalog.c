/*
 * catalog.c
 *		The extension's own tables: layouts, reads, writes.
 *
 * The tables are ordinary ones, made by the install script and dumped by
 * pg_dump, but they are read and written as catalogs are: by systable scan and
 * CatalogTuple*, without SPI, planner, triggers or privilege checks.  The
 * privileges to act on a stream or view are the business of the callers.
 *
 * Reads use the catalog snapshot, which is taken anew for tables without a
 * syscache: they see whatever is committed when they run, in every isolation
 * level, and the transaction's own earlier commands.
 *
 * LOCKING: rows of checkpoint, leaf, piece, batch and late_window of a view are written
 * only under the checkpoint lock of the view (tide_catalog_lock_checkpoint), a
 * heavyweight lock that is held to the end of the transaction.  It is not a
 * tuple lock because that would cost a transaction id even where a batch finds
 * nothing to do.  Rows of stream and continuous_view are written by DDL, which
 * holds a lock on the table or view in question.  Lock order: source table,
 * its leaves, user's view, definition and storage, checkpoint.
 *
 * MEMORY: results are allocated in the caller's context.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "commands/sequence.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "catalog.h"

#define EXTENSION_NAME "tidemark"
#define SCHEMA_NAME "tidemark"
#define DATA_SCHEMA_NAME "tidemark_data"

#define Natts_stream						8
#define Anum_stream_relation				1
#define Anum_stream_definition				2
#define Anum_stream_watermark_delay			3
#define Anum_stream_max_future				4
#define Anum_stream_allow_update			5
#define Anum_stream_timezone				6
#define Anum_stream_created_at				7
#define Anum_stream_rows_restamped			8

#define Natts_view							13
#define Anum_view_view						1
#define Anum_view_storage					2
#define Anum_view_definition				3
#define Anum_view_stream					4
#define Anum_view_trigger_usec				5
#define Anum_view_watermark_delay			6
#define Anum_view_start_at					7
#define Anum_view_emit_final				8
#define Anum_view_paused					9
#define Anum_view_server_major				10
#define Anum_view_created_at				11
#define Anum_view_fingerprint				12
#define Anum_view_settings					13

#define Natts_checkpoint					19
#define Anum_checkpoint_view				1
#define Anum_checkpoint_source				2
#define Anum_checkpoint_fingerprint			3
#define Anum_checkpoint_batch_id			4
#define Anum_checkpoint_watermark			5
#define Anum_checkpoint_max_event_time		6
#define Anum_checkpoint_final_before		7
#define Anum_checkpoint_batch_clock			8
#define Anum_checkpoint_batch_max_event_time	9
#define Anum_checkpoint_updated_at			10
#define Anum_checkpoint_sampled_at			11
#define Anum_checkpoint_pos_xmax			12
#define Anum_checkpoint_has_target			13
#define Anum_checkpoint_target_xmax			14
#define Anum_checkpoint_pos_in_progress		15
#define Anum_checkpoint_target_in_progress	16
#define Anum_checkpoint_leaves				17
#define Anum_checkpoint_totals				18
#define Anum_checkpoint_last				19

#define Natts_leaf							4
#define Anum_leaf_view						1
#define Anum_leaf_leaf						2
#define Anum_leaf_pos_xmax					3
#define Anum_leaf_pos_in_progress			4

#define Natts_piece							5
#define Anum_piece_view						1
#define Anum_piece_leaf						2
#define Anum_piece_relfilenode				3
#define Anum_piece_next_block				4
#define Anum_piece_end_block				5

#define Natts_batch							6
#define Anum_batch_view						1
#define Anum_batch_batch_id					2
#define Anum_batch_committed_at				3
#define Anum_batch_watermark				4
#define Anum_batch_counters					5
#define Anum_batch_totals					6

#define Natts_late_window					3
#define Anum_late_window_view				1
#define Anum_late_window_window_start		2
#define Anum_late_window_rows				3

#define Natts_failure						10
#define Anum_failure_view					1
#define Anum_failure_attempts				2
#define Anum_failure_first_failed_at		3
#define Anum_failure_last_failed_at			4
#define Anum_failure_next_try				5
#define Anum_failure_sqlstate				6
#define Anum_failure_message				7
#define Anum_failure_detail					8
#define Anum_failure_hint					9
#define Anum_failure_context				10

/* the tables and their number of columns */
static const struct
{
	const char *name;
	int			natts;
}			known_tables[] = {
	{"batch", Natts_batch},
	{"checkpoint", Natts_checkpoint},
	{"continuous_view", Natts_view},
	{"failure", Natts_failure},
	{"late_window", Natts_late_window},
	{"leaf", Natts_leaf},
	{"piece", Natts_piece},
	{"stream", Natts_stream}
};

/* how long batches are kept */
#define BATCH_HISTORY						USECS_PER_HOUR

/* widest of our tables */
#define MAX_ATTS							19

/* a row that is being put together */
typedef struct Row
{
	Datum		values[MAX_ATTS];
	bool		nulls[MAX_ATTS];
} Row;

static Relation open_table(const char *name, LOCKMODE lockmode);
static int	make_keys(ScanKey keys, Oid first, Oid second);
static Oid	primary_key_index(Relation rel);
static bool hold_snapshot(void);
static void release_snapshot(bool is_held);
static HeapTuple fetch_row(Relation rel, Oid first, Oid second);
static HeapTuple fetch_row_as_of(Relation rel, Oid first, Oid second,
								 Snapshot snapshot);
static List *fetch_rows(Relation rel, AttrNumber attno, Oid key);
static List *fetch_rows_as_of(Relation rel, AttrNumber attno, Oid key,
							  Snapshot snapshot);
static void announce_change(Relation rel);
static void insert_row(const char *table, Row *row);
static void put_row(const char *table, Oid first, Oid second, Row *row);
static bool delete_rows(const char *table, Oid first, Oid second);

/* --------------------------------------------------------------------------
 * Schemas and existence
 * --------------------------------------------------------------------------
 */

/* Is the extension installed in this database, script finished? */
bool
tide_catalog_exists(void)
{
	return OidIsValid(get_extension_oid(EXTENSION_NAME, true)) &&
		OidIsValid(get_namespace_oid(DATA_SCHEMA_NAME, true));
}

/* The schema of the SQL surface; ereports when the extension is not there. */
Oid
tide_catalog_schema(void)
{
	return get_namespace_oid(SCHEMA_NAME, false);
}

/* The schema of storage tables and definition views. */
Oid
tide_catalog_data_schema(void)
{
	return get_namespace_oid(DATA_SCHEMA_NAME, false);
}

/* The extension's owner, who owns the storage tables. */
Oid
tide_catalog_owner(void)
{
	HeapTuple	tuple;
	Oid			owner;

	tuple = SearchSysCache1(NAMESPACENAME, CStringGetDatum(DATA_SCHEMA_NAME));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_SCHEMA),
				 errmsg("schema \"%s\" does not exist", DATA_SCHEMA_NAME),
				 errhint("Run CREATE EXTENSION tidemark.")));
	owner = ((Form_pg_namespace) GETSTRUCT(tuple))->nspowner;
	ReleaseSysCache(tuple);

	return owner;
}

/* OID of one of our tables; ereports when it is not there. */
Oid
tide_catalog_table(const char *name)
{
	Oid			schema = get_namespace_oid(SCHEMA_NAME, true);
	Oid			relid = InvalidOid;

	if (OidIsValid(schema))
		relid = get_relname_relid(name, schema);
	if (!OidIsValid(relid))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("table \"%s.%s\" does not exist", SCHEMA_NAME, name),
				 errhint("Run CREATE EXTENSION tidemark.")));

	return relid;
}

/* A number for the names of a new storage table and definition view. */
int64
tide_catalog_next_object_id(void)
{
	bool		check_permissions = false;	/* the sequence is ours */

	return nextval_internal(tide_catalog_table("object_id"),
							check_permissions);
}

/* --------------------------------------------------------------------------
 * Conversions
 * --------------------------------------------------------------------------
 */

/* An int8[] of n numbers. */
static Datum
make_int8_array(const int64 *numbers, int n)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(n, 1));
	int			i;

	for (i = 0; i < n; i++)
		elems[i] = Int64GetDatum(numbers[i]);

	return PointerGetDatum(construct_array(elems, n, INT8OID, sizeof(int64),
										   FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}

/* The numbers of an int8[]; their count in *n. */
static int64 *
read_int8_array(Datum array, int *n)
{
	Datum	   *elems;
	int64	   *numbers;
	int			i;

	deconstruct_array(DatumGetArrayTypeP(array), INT8OID, sizeof(int64),
					  FLOAT8PASSBYVAL, TYPALIGN_DOUBLE, &elems, NULL, n);
	numbers = palloc(sizeof(int64) * Max(*n, 1));
	for (i = 0; i < *n; i++)
		numbers[i] = DatumGetInt64(elems[i]);
	pfree(elems);

	return numbers;
}

/* A regclass[] of OIDs. */
static Datum
make_regclass_array(List *oids)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(oids), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, oids)
		elems[n++] = ObjectIdGetDatum(lfirst_oid(lc));

	return PointerGetDatum(construct_array(elems, n, REGCLASSOID, sizeof(Oid),
										   true, TYPALIGN_INT));
}

/* The OIDs of a regclass[]. */
static List *
read_regclass_array(Datum array)
{
	Datum	   *elems;
	List	   *oids = NIL;
	int			n;
	int			i;

	deconstruct_array(DatumGetArrayTypeP(array), REGCLASSOID, sizeof(Oid),
					  true, TYPALIGN_INT, &elems, NULL, &n);
	for (i = 0; i < n; i++)
		oids = lappend_oid(oids, DatumGetObjectId(elems[i]));
	pfree(elems);

	return oids;
}

/* A text[] of strings. */
static Datum
make_text_array(List *strings)
{
	Datum	   *elems = palloc(sizeof(Datum) * Max(list_length(strings), 1));
	int			n = 0;
	ListCell   *lc;

	foreach(lc, strings)
		elems[n++] = CStringGetTextDatum((char *) lfirst(lc));

	return PointerGetDatum(construct_array(elems, n, TEXTOID, -1, false,
										   TYPALIGN_INT));
}

/* The strings of a text[]. */
static List *
read_text_array(Datum array)
{
	Datum	   *elems;
	List	   *strings = NIL;
	int			n;
	int			i;

	deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false,
					  TYPALIGN_INT, &elems, NULL, &n);
	for (i = 0; i < n; i++)
		strings = lappend(strings, TextDatumGetCString(elems[i]));

	return strings;
}

/* Counters from an array, which an older version may have made shorter. */
static TideCounters
read_counters(Datum array)
{
	TideCounters counters = {{0}};
	int64	   *numbers;
	int			n;

	numbers = read_int8_array(array, &n);
	memcpy(counters.v, numbers, sizeof(int64) * Min(n, TIDE_NCOUNTERS));
	pfree(numbers);

	return counters;
}

/* A position from its two columns. */
static TidePosition
read_position(Datum xmax, Datum in_progress)
{
	TidePosition position;

	position.xmax = DatumGetInt64(xmax);
	position.in_progress = read_int8_array(in_progress,
										   &position.nin_progress);

	return position;
}

/* A text column that may be NULL. */
static char *
read_text_or_null(Datum value, bool isnull)
{
	return isnull ? NULL : TextDatumGetCString(value);
}

/* Set a column of a row. */
static void
set_column(Row *row, AttrNumber attno, Datum value)
{
	row->values[attno - 1] = value;
	row->nulls[attno - 1] = false;
}

/* Set a text column of a row, NULL for NULL. */
static void
set_text_column(Row *row, AttrNumber attno, const char *string)
{
	if (string != NULL)
		set_column(row, attno, CStringGetTextDatum(string));
}

/* A row of NULLs. */
static void
init_row(Row *row)
{
	memset(row->nulls, true, sizeof(row->nulls));
	memset(row->values, 0, sizeof(row->values));
}

/* --------------------------------------------------------------------------
 * Streams
 * --------------------------------------------------------------------------
 */

/* The stream of a table, or NULL. */
TideStream *
tide_catalog_read_stream(Oid relation)
{
	Relation	rel = open_table("stream", AccessShareLock);
	HeapTuple	tuple = fetch_row(rel, relation, InvalidOid);
	TideStream *stream = NULL;

	if (tuple != NULL)
	{
		Row			row;

		heap_deform_tuple(tuple, RelationGetDescr(rel), row.values, row.nulls);
		stream = palloc0(sizeof(TideStream));
		stream->relation = relation;
		stream->definition =
			DatumGetObjectId(row.values[Anum_stream_definition - 1]);
		stream->watermark_delay =
			DatumGetInt64(row.values[Anum_stream_watermark_delay - 1]);
		stream->has_max_future = !row.nulls[Anum_stream_max_future - 1];
		if (stream->has_max_future)
			stream->max_future =
				DatumGetInt64(row.values[Anum_stream_max_future - 1]);
		stream->allow_update =
			DatumGetBool(row.values[Anum_stream_allow_update - 1]);
		stream->timezone =
			TextDatumGetCString(row.values[Anum_stream_timezone - 1]);
		stream->created_at =
			DatumGetTimestampTz(row.values[Anum_stream_created_at - 1]);
		stream->rows_restamped =
			DatumGetInt64(row.values[Anum_stream_rows_restamped - 1]);
	}
	table_close(rel, AccessShareLock);

	return stream;
}

/* OIDs of all streams, ascending. */
List *
tide_catalog_read_streams(void)
{
	Relation	rel = open_table("stream", AccessShareLock);
	List	   *streams = NIL;
	ListCell   *lc;

	foreach(lc, fetch_rows(rel, Anum_stream_relation, InvalidOid))
	{
		bool		isnull;

		streams = lappend_oid(streams,
							  DatumGetObjectId(heap_getattr(lfirst(lc),
															Anum_stream_relation,
															RelationGetDescr(rel),
															&isnull)));
	}
	table_close(rel, AccessShareLock);
	list_sort(streams, list_oid_cmp);

	return streams;
}

/* The row of a stream. */
static void
make_stream_row(const TideStream *stream, Row *row)
{
	init_row(row);
	set_column(row, Anum_stream_relation, ObjectIdGetDatum(stream->relation));
	set_column(row, Anum_stream_definition,
			   ObjectIdGetDatum(stream->definition));
	set_column(row, Anum_stream_watermark_delay,
			   Int64GetDatum(stream->watermark_delay));
	if (stream->has_max_future)
		set_column(row, Anum_stream_max_future,
				   Int64GetDatum(stream->max_future));
	set_column(row, Anum_stream_allow_update,
			   BoolGetDatum(stream->allow_update));
	set_text_column(row, Anum_stream_timezone, stream->timezone);
	set_column(row, Anum_stream_created_at,
			   TimestampTzGetDatum(stream->created_at));
	set_column(row, Anum_stream_rows_restamped,
			   Int64GetDatum(stream->rows_restamped));
}

/*
 * Lock the row of a stream against others who change it, to the end of the
 * transaction.  Before it is read.
 */
void
tide_catalog_lock_stream(Oid relation)
{
	LockDatabaseObject(tide_catalog_table("stream"), relation, 0,
					   ExclusiveLock);
}

/* Add a stream; a second one of the same table is a unique violation. */
void
tide_catalog_insert_stream(const TideStream *stream)
{
	Row			row;

	make_stream_row(stream, &row);
	insert_row("stream", &row);
}

/* Change a stream that exists. */
void
tide_catalog_update_stream(const TideStream *stream)
{
	Row			row;

	make_stream_row(stream, &row);
	put_row("stream", stream->relation, InvalidOid, &row);
}

/* Remove a stream, if it is there. */
void
tide_catalog_delete_stream(Oid relation)
{
	(void) delete_rows("stream", relation, InvalidOid);
}

/* --------------------------------------------------------------------------
 * Continuous views
 * --------------------------------------------------------------------------
 */

/* A view from its tuple. */
static TideView *
read_view_tuple(Relation rel, HeapTuple tuple)
{
	TideView   *view = palloc0(sizeof(TideView));
	Row			row;

	heap_deform_tuple(tuple, RelationGetDescr(rel), row.values, row.nulls);
	view->view = DatumGetObjectId(row.values[Anum_view_view - 1]);
	view->storage = DatumGetObjectId(row.values[Anum_view_storage - 1]);
	view->definition = DatumGetObjectId(row.values[Anum_view_definition - 1]);
	view->stream = DatumGetObjectId(row.values[Anum_view_stream - 1]);
	view->trigger_usec = DatumGetInt64(row.values[Anum_view_trigger_usec - 1]);
	view->has_watermark_delay = !row.nulls[Anum_view_watermark_delay - 1];
	if (view->has_watermark_delay)
		view->watermark_delay =
			DatumGetInt64(row.values[Anum_view_watermark_delay - 1]);
	view->has_start_at = !row.nulls[Anum_view_start_at - 1];
	if (view->has_start_at)
		view->start_at =
			DatumGetTimestampTz(row.values[Anum_view_start_at - 1]);
	view->emit_final = DatumGetBool(row.values[Anum_view_emit_final - 1]);
	view->paused = DatumGetBool(row.values[Anum_view_paused - 1]);
	view->server_major = DatumGetInt32(row.values[Anum_view_server_major - 1]);
	view->created_at =
		DatumGetTimestampTz(row.values[Anum_view_created_at - 1]);
	view->fingerprint = DatumGetInt64(row.values[Anum_view_fingerprint - 1]);
	view->settings = read_text_array(row.values[Anum_view_settings - 1]);

	return view;
}

/* A continuous view, or NULL. */
TideView *
tide_catalog_read_view(Oid view)
{
	Relation	rel = open_table("continuous_view", AccessShareLock);
	HeapTuple	tuple = fetch_row(rel, view, InvalidOid);
	TideView   *result = NULL;

	if (tuple != NULL)
		result = read_view_tuple(rel, tuple);
	table_close(rel, AccessShareLock);

	return result;
}

/* Views that read a stream, or all when stream is invalid. */
static List *
read_views(Oid stream)
{
	Relation	rel = open_table("continuous_view", AccessShareLock);
	List	   *views = NIL;
	ListCell   *lc;

	foreach(lc, fetch_rows(rel, Anum_view_stream, stream))
		views = lappend(views, read_view_tuple(rel, lfirst(lc)));
	table_close(rel, AccessShareLock);

	return views;
}

/* All continuous views of the database. */
List *
tide_catalog_read_views(void)
{
	return read_views(InvalidOid);
}

/* The continuous views that read a stream. */
List *
tide_catalog_read_views_of(Oid stream)
{
	Assert(OidIsValid(stream));

	return read_views(stream);
}

/* The row of a view. */
static void
make_view_row(const TideView *view, Row *row)
{
	init_row(row);
	set_column(row, Anum_view_view, ObjectIdGetDatum(view->view));
	set_column(row, Anum_view_storage, ObjectIdGetDatum(view->storage));
	set_column(row, Anum_view_definition, ObjectIdGetDatum(view->definition));
	set_column(row, Anum_view_stream, ObjectIdGetDatum(view->stream));
	set_column(row, Anum_view_trigger_usec, Int64GetDatum(view->trigger_usec));
	if (view->has_watermark_delay)
		set_column(row, Anum_view_watermark_delay,
				   Int64GetDatum(view->watermark_delay));
	if (view->has_start_at)
		set_column(row, Anum_view_start_at,
				   TimestampTzGetDatum(view->start_at));
	set_column(row, Anum_view_emit_final, BoolGetDatum(view->emit_final));
	set_column(row, Anum_view_paused, BoolGetDatum(view->paused));
	set_column(row, Anum_view_server_major, Int32GetDatum(view->server_major));
	set_column(row, Anum_view_created_at,
			   TimestampTzGetDatum(view->created_at));
	set_column(row, Anum_view_fingerprint, Int64GetDatum(view->fingerprint));
	set_column(row, Anum_view_settings, make_text_array(view->settings));
}

/* Add a view. */
void
tide_catalog_insert_view(const TideView *view)
{
	Row			row;

	make_view_row(view, &row);
	insert_row("continuous_view", &row);
}

/* Change a view that exists. */
void
tide_catalog_update_view(const TideView *view)
{
	Row			row;

	make_view_row(view, &row);
	put_row("continuous_view", view->view, InvalidOid, &row);
}

/*
 * Remove all that the tables hold of a view, whatever part of it is there:
 * also the remains of a view that was dropped while the library was not
 * loaded.
 */
void
tide_catalog_delete_view(Oid view)
{
	(void) delete_rows("continuous_view", view, InvalidOid);
	(void) delete_rows("checkpoint", view, InvalidOid);
	(void) delete_rows("leaf", view, InvalidOid);
	(void) delete_rows("piece", view, InvalidOid);
	(void) delete_rows("batch", view, InvalidOid);
	(void) delete_rows("failure", view, InvalidOid);
	(void) delete_rows("late_window", view, InvalidOid);
}

/* --------------------------------------------------------------------------
 * Checkpoints
 * --------------------------------------------------------------------------
 */

/* Take the checkpoint lock of a view; false: not available. */
static bool
acquire_checkpoint_lock(Oid view, bool dont_wait)
{
	LOCKTAG		tag;
	bool		session_lock = false;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, tide_catalog_table("checkpoint"),
					   view, 0);
	if (LockAcquire(&tag, ExclusiveLock, session_lock, dont_wait) ==
		LOCKACQUIRE_NOT_AVAIL)
		return false;

	/* what the last holder did is to be seen by our caches */
	AcceptInvalidationMessages();
	return true;
}

/* Take the checkpoint lock of a view to the end of the transaction. */
void
tide_catalog_lock_checkpoint(Oid view)
{
	bool		dont_wait = false;

	(void) acquire_checkpoint_lock(view, dont_wait);
}

/* The same without waiting; false: another process has it. */
bool
tide_catalog_trylock_checkpoint(Oid view)
{
	bool		dont_wait = true;

	return acquire_checkpoint_lock(view, dont_wait);
}

/* Does another process have it?  Takes nothing. */
bool
tide_catalog_checkpoint_is_locked(Oid view)
{
	LOCKTAG		tag;
	int			holders;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, tide_catalog_table("checkpoint"),
					   view, 0);
	(void) GetLockConflicts(&tag, ExclusiveLock, &holders);

	return holders > 0;
}

/*
 * The checkpoint of a view for a source, or NULL.  Without the checkpoint
 * lock the result may be outdated at once.
 */
TideCheckpoint *
tide_catalog_read_checkpoint(Oid view, Oid source)
{
	return tide_catalog_read_checkpoint_as_of(view, source, NULL);
}

/* The same as a snapshot sees it: it fits the storage table as seen by it. */
TideCheckpoint *
tide_catalog_read_checkpoint_as_of(Oid view, Oid source, Snapshot snapshot)
{
	Relation	rel = open_table("checkpoint", AccessShareLock);
	HeapTuple	tuple = fetch_row_as_of(rel, view, source, snapshot);
	TideCheckpoint *checkpoint = NULL;

	if (tuple != NULL)
	{
		Row			row;

		heap_deform_tuple(tuple, RelationGetDescr(rel), row.values, row.nulls);
		checkpoint = palloc0(sizeof(TideCheckpoint));
		checkpoint->view = view;
		checkpoint->source = source;
		checkpoint->fingerprint =
			DatumGetInt64(row.values[Anum_checkpoint_fingerprint - 1]);
		checkpoint->batch_id =
			DatumGetInt64(row.values[Anum_checkpoint_batch_id - 1]);
		checkpoint->watermark =
			DatumGetTimestampTz(row.values[Anum_checkpoint_watermark - 1]);
		checkpoint->max_event_time =
			DatumGetTimestampTz(row.values[Anum_checkpoint_max_event_time - 1]);
		checkpoint->final_before =
			DatumGetInt64(row.values[Anum_checkpoint_final_before - 1]);
		checkpoint->batch_clock =
			DatumGetTimestampTz(row.values[Anum_checkpoint_batch_clock - 1]);
		checkpoint->batch_max_event_time =
			DatumGetInt64(row.values[Anum_checkpoint_batch_max_event_time - 1]);
		checkpoint->updated_at =
			DatumGetTimestampTz(row.values[Anum_checkpoint_updated_at - 1]);
		checkpoint->sampled_at =
			DatumGetTimestampTz(row.values[Anum_checkpoint_sampled_at - 1]);
		checkpoint->position =
			read_position(row.values[Anum_checkpoint_pos_xmax - 1],
						  row.values[Anum_checkpoint_pos_in_progress - 1]);
		checkpoint->has_target =
			DatumGetBool(row.values[Anum_checkpoint_has_target - 1]);
		checkpoint->target =
			read_position(row.values[Anum_checkpoint_target_xmax - 1],
						  row.values[Anum_checkpoint_target_in_progress - 1]);
		checkpoint->leaves =
			read_regclass_array(row.values[Anum_checkpoint_leaves - 1]);
		checkpoint->totals =
			read_counters(row.values[Anum_checkpoint_totals - 1]);
		checkpoint->last =
			read_counters(row.values[Anum_checkpoint_last - 1]);
	}
	table_close(rel, AccessShareLock);

	return checkpoint;
}

/* The end of the position that is furthest ahead, targets included; or 0. */
int64
tide_catalog_furthest_position(void)
{
	Relation	rel = open_table("checkpoint", AccessShareLock);
	int64		furthest = 0;
	ListCell   *lc;

	foreach(lc, fetch_rows(rel, Anum_checkpoint_view, InvalidOid))
	{
		Row			row;

		heap_deform_tuple(lfirst(lc), RelationGetDescr(rel), row.values,
						  row.nulls);
		furthest = Max(furthest,
					   DatumGetInt64(row.values[Anum_checkpoint_pos_xmax - 1]));
		if (DatumGetBool(row.values[Anum_checkpoint_has_target - 1]))
			furthest = Max(furthest,
						   DatumGetInt64(row.values[Anum_checkpoint_target_xmax - 1]));
	}
	table_close(rel, AccessShareLock);

	return furthest;
}

/* The row of a checkpoint. */
static void
make_checkpoint_row(const TideCheckpoint *checkpoint, Row *row)
{
	init_row(row);
	set_column(row, Anum_checkpoint_view, ObjectIdGetDatum(checkpoint->view));
	set_column(row, Anum_checkpoint_source,
			   ObjectIdGetDatum(checkpoint->source));
	set_column(row, Anum_checkpoint_fingerprint,
			   Int64GetDatum(checkpoint->fingerprint));
	set_column(row, Anum_checkpoint_batch_id,
			   Int64GetDatum(checkpoint->batch_id));
	set_column(row, Anum_checkpoint_watermark,
			   TimestampTzGetDatum(checkpoint->watermark));
	set_column(row, Anum_checkpoint_max_event_time,
			   TimestampTzGetDatum(checkpoint->max_event_time));
	set_column(row, Anum_checkpoint_final_before,
			   Int64GetDatum(checkpoint->final_before));
	set_column(row, Anum_checkpoint_batch_clock,
			   TimestampTzGetDatum(checkpoint->batch_clock));
	set_column(row, Anum_checkpoint_batch_max_event_time,
			   Int64GetDatum(checkpoint->batch_max_event_time));
	set_column(row, Anum_checkpoint_updated_at,
			   TimestampTzGetDatum(checkpoint->updated_at));
	set_column(row, Anum_checkpoint_sampled_at,
			   TimestampTzGetDatum(checkpoint->sampled_at));
	set_column(row, Anum_checkpoint_pos_xmax,
			   Int64GetDatum(checkpoint->position.xmax));
	set_column(row, Anum_checkpoint_pos_in_progress,
			   make_int8_array(checkpoint->position.in_progress,
							   checkpoint->position.nin_progress));
	set_column(row, Anum_checkpoint_has_target,
			   BoolGetDatum(checkpoint->has_target));
	set_column(row, Anum_checkpoint_target_xmax,
			   Int64GetDatum(checkpoint->target.xmax));
	set_column(row, Anum_checkpoint_target_in_progress,
			   make_int8_array(checkpoint->target.in_progress,
							   checkpoint->target.nin_progress));
	set_column(row, Anum_checkpoint_leaves,
			   make_regclass_array(checkpoint->leaves));
	set_column(row, Anum_checkpoint_totals,
			   make_int8_array(checkpoint->totals.v, TIDE_NCOUNTERS));
	set_column(row, Anum_checkpoint_last,
			   make_int8_array(checkpoint->last.v, TIDE_NCOUNTERS));
}

/* Add a checkpoint. */
void
tide_catalog_insert_checkpoint(const TideCheckpoint *checkpoint)
{
	Row			row;

	make_checkpoint_row(checkpoint, &row);
	insert_row("checkpoint", &row);
}

/* Write a checkpoint that exists.  The caller holds the checkpoint lock. */
void
tide_catalog_update_checkpoint(const TideCheckpoint *checkpoint)
{
	Row			row;

	make_checkpoint_row(checkpoint, &row);
	put_row("checkpoint", checkpoint->view, checkpoint->source, &row);
}

/* Remove the batches of a view that were committed before a time. */
static void
delete_old_batches(Oid view, TimestampTz before)
{
	Relation	rel = open_table("batch", RowExclusiveLock);
	List	   *indexes = RelationGetIndexList(rel);
	Oid			index = indexes == NIL ? InvalidOid : linitial_oid(indexes);
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_batch_view, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(view));
	ScanKeyInit(&keys[1], Anum_batch_committed_at, BTLessStrategyNumber,
				F_TIMESTAMPTZ_LT, TimestampTzGetDatum(before));
	scan = systable_beginscan(rel, index, OidIsValid(index), NULL,
							  lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		CatalogTupleDelete(rel, &tuple->t_self);
	systable_endscan(scan);
	table_close(rel, RowExclusiveLock);
}

/* Add the last batch of a checkpoint to the history, and let old ones go. */
void
tide_catalog_append_batch(const TideCheckpoint *checkpoint)
{
	Row			row;

	init_row(&row);
	set_column(&row, Anum_batch_view, ObjectIdGetDatum(checkpoint->view));
	set_column(&row, Anum_batch_batch_id, Int64GetDatum(checkpoint->batch_id));
	set_column(&row, Anum_batch_committed_at,
			   TimestampTzGetDatum(checkpoint->updated_at));
	set_column(&row, Anum_batch_watermark,
			   TimestampTzGetDatum(checkpoint->watermark));
	set_column(&row, Anum_batch_counters,
			   make_int8_array(checkpoint->last.v, TIDE_NCOUNTERS));
	set_column(&row, Anum_batch_totals,
			   make_int8_array(checkpoint->totals.v, TIDE_NCOUNTERS));
	insert_row("batch", &row);
	delete_old_batches(checkpoint->view, checkpoint->updated_at -
					   BATCH_HISTORY);
}

/* The leaves of a view that stand elsewhere than its checkpoint. */
List *
tide_catalog_read_leaves(Oid view)
{
	return tide_catalog_read_leaves_as_of(view, NULL);
}

/* The same as a snapshot sees it. */
List *
tide_catalog_read_leaves_as_of(Oid view, Snapshot snapshot)
{
	Relation	rel = open_table("leaf", AccessShareLock);
	List	   *leaves = NIL;
	ListCell   *lc;

	foreach(lc, fetch_rows_as_of(rel, Anum_leaf_view, view, snapshot))
	{
		TideLeaf   *leaf = palloc(sizeof(TideLeaf));
		Row			row;

		heap_deform_tuple(lfirst(lc), RelationGetDescr(rel), row.values,
						  row.nulls);
		leaf->leaf = DatumGetObjectId(row.values[Anum_leaf_leaf - 1]);
		leaf->position =
			read_position(row.values[Anum_leaf_pos_xmax - 1],
						  row.values[Anum_leaf_pos_in_progress - 1]);
		leaves = lappend(leaves, leaf);
	}
	table_close(rel, AccessShareLock);

	return leaves;
}

/* Write the position of a leaf, whether there was one or not. */
void
tide_catalog_put_leaf(Oid view, const TideLeaf *leaf)
{
	Row			row;

	init_row(&row);
	set_column(&row, Anum_leaf_view, ObjectIdGetDatum(view));
	set_column(&row, Anum_leaf_leaf, ObjectIdGetDatum(leaf->leaf));
	set_column(&row, Anum_leaf_pos_xmax, Int64GetDatum(leaf->position.xmax));
	set_column(&row, Anum_leaf_pos_in_progress,
			   make_int8_array(leaf->position.in_progress,
							   leaf->position.nin_progress));
	put_row("leaf", view, leaf->leaf, &row);
}

/* Forget a leaf: it stands where the view stands. */
void
tide_catalog_delete_leaf(Oid view, Oid leaf)
{
	(void) delete_rows("leaf", view, leaf);
}

/* The pieces a view has left to read. */
List *
tide_catalog_read_pieces(Oid view)
{
	Relation	rel = open_table("piece", AccessShareLock);
	List	   *pieces = NIL;
	ListCell   *lc;

	foreach(lc, fetch_rows(rel, Anum_piece_view, view))
	{
		TidePiece  *piece = palloc(sizeof(TidePiece));
		Row			row;

		heap_deform_tuple(lfirst(lc), RelationGetDescr(rel), row.values,
						  row.nulls);
		piece->leaf = DatumGetObjectId(row.values[Anum_piece_leaf - 1]);
		piece->relfilenode =
			DatumGetObjectId(row.values[Anum_piece_relfilenode - 1]);
		piece->next_block =
			DatumGetInt64(row.values[Anum_piece_next_block - 1]);
		piece->end_block = DatumGetInt64(row.values[Anum_piece_end_block - 1]);
		pieces = lappend(pieces, piece);
	}
	table_close(rel, AccessShareLock);

	return pieces;
}

/* Write a piece, whether it was there or not. */
void
tide_catalog_put_piece(Oid view, const TidePiece *piece)
{
	Row			row;

	init_row(&row);
	set_column(&row, Anum_piece_view, ObjectIdGetDatum(view));
	set_column(&row, Anum_piece_leaf, ObjectIdGetDatum(piece->leaf));
	set_column(&row, Anum_piece_relfilenode,
			   ObjectIdGetDatum(piece->relfilenode));
	set_column(&row, Anum_piece_next_block, Int64GetDatum(piece->next_block));
	set_column(&row, Anum_piece_end_block, Int64GetDatum(piece->end_block));
	put_row("piece", view, piece->leaf, &row);
}

/* Remove a piece; all of the view's when leaf is invalid. */
void
tide_catalog_delete_piece(Oid view, Oid leaf)
{
	(void) delete_rows("piece", view, leaf);
}

/* --------------------------------------------------------------------------
 * Late rows
 * --------------------------------------------------------------------------
 */

/* Begin to read the tally of a window, as the catalog or a snapshot sees it. */
static SysScanDesc
begin_late_scan(Relation rel, Oid view, int64 window_start, Snapshot snapshot)
{
	Oid			index = primary_key_index(rel);
	ScanKeyData keys[2];

	ScanKeyInit(&keys[0], Anum_late_window_view, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(view));
	ScanKeyInit(&keys[1], Anum_late_window_window_start,
				BTEqualStrategyNumber, F_TIMESTAMPTZ_EQ,
				TimestampTzGetDatum(window_start));

	return systable_beginscan(rel, index, OidIsValid(index), snapshot,
							  lengthof(keys), keys);
}

/* The rows of a tuple of late_window. */
static int64
get_late_rows(Relation rel, HeapTuple tuple)
{
	bool		isnull;

	return DatumGetInt64(heap_getattr(tuple, Anum_late_window_rows,
									  RelationGetDescr(rel), &isnull));
}

/* Add to the tally of a window.  The caller holds the checkpoint lock. */
void
tide_catalog_add_late(Oid view, int64 window_start, int64 rows)
{
	Relation	rel = open_table("late_window", RowExclusiveLock);
	SysScanDesc scan = begin_late_scan(rel, view, window_start, NULL);
	HeapTuple	old = systable_getnext(scan);
	HeapTuple	new;
	Row			row;

	if (HeapTupleIsValid(old))
		rows += get_late_rows(rel, old);
	init_row(&row);
	set_column(&row, Anum_late_window_view, ObjectIdGetDatum(view));
	set_column(&row, Anum_late_window_window_start,
			   TimestampTzGetDatum(window_start));
	set_column(&row, Anum_late_window_rows, Int64GetDatum(rows));
	new = heap_form_tuple(RelationGetDescr(rel), row.values, row.nulls);
	if (HeapTupleIsValid(old))
		CatalogTupleUpdate(rel, &old->t_self, new);
	else
		CatalogTupleInsert(rel, new);
	systable_endscan(scan);
	announce_change(rel);
	table_close(rel, RowExclusiveLock);
}

/* The tally of a window, as a snapshot sees it. */
int64
tide_catalog_read_late(Oid view, int64 window_start, Snapshot snapshot)
{
	Relation	rel = open_table("late_window", AccessShareLock);
	SysScanDesc scan = begin_late_scan(rel, view, window_start, snapshot);
	HeapTuple	tuple = systable_getnext(scan);
	int64		rows = HeapTupleIsValid(tuple) ? get_late_rows(rel, tuple) : 0;

	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	return rows;
}

/* The tally of all windows of a view, as a snapshot sees it. */
int64
tide_catalog_sum_late(Oid view, Snapshot snapshot)
{
	Relation	rel = open_table("late_window", AccessShareLock);
	int64		sum = 0;
	ListCell   *lc;

	foreach(lc, fetch_rows_as_of(rel, Anum_late_window_view, view, snapshot))
		sum += get_late_rows(rel, lfirst(lc));
	table_close(rel, AccessShareLock);

	return sum;
}

/* --------------------------------------------------------------------------
 * Failures
 * --------------------------------------------------------------------------
 */

/* The failure a view is in, or NULL. */
TideFailure *
tide_catalog_read_failure(Oid view)
{
	Relation	rel = open_table("failure", AccessShareLock);
	HeapTuple	tuple = fetch_row(rel, view, InvalidOid);
	TideFailure *failure = NULL;

	if (tuple != NULL)
	{
		Row			row;

		heap_deform_tuple(tuple, RelationGetDescr(rel), row.values, row.nulls);
		failure = palloc0(sizeof(TideFailure));
		failure->view = view;
		failure->attempts =
			DatumGetInt32(row.values[Anum_failure_attempts - 1]);
		failure->first_failed_at =
			DatumGetTimestampTz(row.values[Anum_failure_first_failed_at - 1]);
		failure->last_failed_at =
			DatumGetTimestampTz(row.values[Anum_failure_last_failed_at - 1]);
		failure->next_try =
			DatumGetTimestampTz(row.values[Anum_failure_next_try - 1]);
		failure->sqlstate =
			TextDatumGetCString(row.values[Anum_failure_sqlstate - 1]);
		failure->message =
			TextDatumGetCString(row.values[Anum_failure_message - 1]);
		failure->detail =
			read_text_or_null(row.values[Anum_failure_detail - 1],
							  row.nulls[Anum_failure_detail - 1]);
		failure->hint =
			read_text_or_null(row.values[Anum_failure_hint - 1],
							  row.nulls[Anum_failure_hint - 1]);
		failure->context =
			read_text_or_null(row.values[Anum_failure_context - 1],
							  row.nulls[Anum_failure_context - 1]);
	}
	table_close(rel, AccessShareLock);

	return failure;
}

/* Record a failure, over an earlier one of the same view. */
void
tide_catalog_put_failure(const TideFailure *failure)
{
	Row			row;

	init_row(&row);
	set_column(&row, Anum_failure_view, ObjectIdGetDatum(failure->view));
	set_column(&row, Anum_failure_attempts, Int32GetDatum(failure->attempts));
	set_column(&row, Anum_failure_first_failed_at,
			   TimestampTzGetDatum(failure->first_failed_at));
	set_column(&row, Anum_failure_last_failed_at,
			   TimestampTzGetDatum(failure->last_failed_at));
	set_column(&row, Anum_failure_next_try,
			   TimestampTzGetDatum(failure->next_try));
	set_text_column(&row, Anum_failure_sqlstate, failure->sqlstate);
	set_text_column(&row, Anum_failure_message, failure->message);
	set_text_column(&row, Anum_failure_detail, failure->detail);
	set_text_column(&row, Anum_failure_hint, failure->hint);
	set_text_column(&row, Anum_failure_context, failure->context);
	put_row("failure", failure->view, InvalidOid, &row);
}

/* Remove the failure of a view; was there one? */
bool
tide_catalog_delete_failure(Oid view)
{
	return delete_rows("failure", view, InvalidOid);
}

/* --------------------------------------------------------------------------
 * Rows
 * --------------------------------------------------------------------------
 */

/*
 * Open one of our tables.  One that was made by another version of the script
 * than the library knows is refused: its columns would be misread.
 */
static Relation
open_table(const char *name, LOCKMODE lockmode)
{
	Relation	rel = table_open(tide_catalog_table(name), lockmode);
	int			i;

	for (i = 0; i < lengthof(known_tables); i++)
	{
		if (strcmp(name, known_tables[i].name) != 0)
			continue;
		if (RelationGetNumberOfAttributes(rel) != known_tables[i].natts)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table \"%s.%s\" is of another version of tidemark",
							SCHEMA_NAME, name),
					 errdetail("It has %d columns, the library knows %d.",
							   RelationGetNumberOfAttributes(rel),
							   known_tables[i].natts),
					 errhint("Run ALTER EXTENSION tidemark UPDATE, and restart the server if the library was updated.")));
		return rel;
	}

	elog(ERROR, "unknown table \"%s\"", name);
	return NULL;				/* keep the compiler quiet */
}

/*
 * Scan keys on the first one or two columns, which are the primary key of
 * every table that is read by this; the number of keys.
 */
static int
make_keys(ScanKey keys, Oid first, Oid second)
{
	int			n = 0;

	if (OidIsValid(first))
		ScanKeyInit(&keys[n++], 1, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(first));
	if (OidIsValid(second))
		ScanKeyInit(&keys[n++], 2, BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(second));

	return n;
}

/* The primary key's index of one of our tables; invalid: there is none. */
static Oid
primary_key_index(Relation rel)
{
	list_free(RelationGetIndexList(rel));

	return rel->rd_pkindex;
}

/*
 * What is stored out of line, as the leaves of hundreds of partitions are, is
 * read and deleted under a snapshot of ours, so that VACUUM leaves it alone
 * meanwhile.  Makes one active unless there is one; true: it did.
 */
static bool
hold_snapshot(void)
{
	if (ActiveSnapshotSet())
		return false;
	PushActiveSnapshot(GetLatestSnapshot());

	return true;
}

/* Let go of what hold_snapshot made, if it did. */
static void
release_snapshot(bool is_held)
{
	if (is_held)
		PopActiveSnapshot();
}

/* A copy of a row with everything in line. */
static HeapTuple
copy_row(Relation rel, HeapTuple tuple)
{
	if (HeapTupleHasExternal(tuple))
		return toast_flatten_tuple(tuple, RelationGetDescr(rel));

	return heap_copytuple(tuple);
}

/* A copy of the one row with this key, or NULL. */
static HeapTuple
fetch_row(Relation rel, Oid first, Oid second)
{
	return fetch_row_as_of(rel, first, second, NULL);
}

/* The same as a snapshot sees it; NULL: the catalog snapshot. */
static HeapTuple
fetch_row_as_of(Relation rel, Oid first, Oid second, Snapshot snapshot)
{
	ScanKeyData keys[2];
	int			nkeys = make_keys(keys, first, second);
	bool		index_ok = true;
	bool		is_held = hold_snapshot();
	SysScanDesc scan;
	HeapTuple	tuple;

	scan = systable_beginscan(rel, primary_key_index(rel), index_ok, snapshot,
							  nkeys, keys);
	tuple = systable_getnext(scan);
	if (HeapTupleIsValid(tuple))
		tuple = copy_row(rel, tuple);
	systable_endscan(scan);
	release_snapshot(is_held);

	return tuple;
}

/*
 * Copies of all rows whose column has the value, all rows when the value is
 * invalid.  By sequential scan unless the column is the first one: these are
 * tables with as many rows as there are views.
 */
static List *
fetch_rows(Relation rel, AttrNumber attno, Oid key)
{
	return fetch_rows_as_of(rel, attno, key, NULL);
}

/* The same as a snapshot sees it; NULL: the catalog snapshot. */
static List *
fetch_rows_as_of(Relation rel, AttrNumber attno, Oid key, Snapshot snapshot)
{
	ScanKeyData keys[1];
	int			nkeys = OidIsValid(key) ? 1 : 0;
	Oid			index = attno == 1 ? primary_key_index(rel) : InvalidOid;
	List	   *rows = NIL;
	bool		is_held = hold_snapshot();
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], attno, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(key));
	scan = systable_beginscan(rel, index, OidIsValid(index), snapshot, nkeys,
							  keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		rows = lappend(rows, copy_row(rel, tuple));
	systable_endscan(scan);
	release_snapshot(is_held);

	return rows;
}

/* Let caches built from streams and views know; other tables feed none. */
static void
announce_change(Relation rel)
{
	const char *name = RelationGetRelationName(rel);

	if (strcmp(name, "stream") == 0 || strcmp(name, "continuous_view") == 0)
		CacheInvalidateRelcache(rel);
	CommandCounterIncrement();
}

/* Insert a row. */
static void
insert_row(const char *table, Row *row)
{
	Relation	rel = open_table(table, RowExclusiveLock);
	bool		is_held = hold_snapshot();

	CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel),
											row->values, row->nulls));
	release_snapshot(is_held);
	announce_change(rel);
	table_close(rel, RowExclusiveLock);
}

/* Update the row with this key, or insert it when there is none. */
static void
put_row(const char *table, Oid first, Oid second, Row *row)
{
	Relation	rel = open_table(table, RowExclusiveLock);
	HeapTuple	old = fetch_row(rel, first, second);
	HeapTuple	new = heap_form_tuple(RelationGetDescr(rel), row->values,
									  row->nulls);
	bool		is_held = hold_snapshot();

	if (old != NULL)
		CatalogTupleUpdate(rel, &old->t_self, new);
	else
		CatalogTupleInsert(rel, new);
	release_snapshot(is_held);
	announce_change(rel);
	table_close(rel, RowExclusiveLock);
}

/*
 * Delete the rows whose first column is first and, when second is valid, whose
 * next column is second.  Were there any?
 */
static bool
delete_rows(const char *table, Oid first, Oid second)
{
	Relation	rel = open_table(table, RowExclusiveLock);
	bool		is_held = hold_snapshot();
	bool		found = false;
	ListCell   *lc;

	foreach(lc, fetch_rows(rel, 1, first))
	{
		HeapTuple	tuple = lfirst(lc);
		bool		isnull;

		if (OidIsValid(second) &&
			DatumGetObjectId(heap_getattr(tuple, 2, RelationGetDescr(rel),
										  &isnull)) != second)
			continue;
		CatalogTupleDelete(rel, &tuple->t_self);
		found = true;
	}
	release_snapshot(is_held);
	if (found)
		announce_change(rel);
	table_close(rel, RowExclusiveLock);

	return found;
}
