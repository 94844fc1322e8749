/*
 * verify.c
 *		Comparing a continuous view with its defining query.
 *
 * The defining query, run over the rows that the view has consumed, is the
 * oracle of the view.  It is run here as PostgreSQL runs any query: its own
 * plan, its own grouping and aggregates, whatever access path the planner
 * likes; nothing of what a batch does takes part except the decision which
 * rows are meant.  That is a qualification on the stream, tested before the
 * user's WHERE: tidemark.verify_row.
 *
 * Both sides go into one sort by window and hash of the keys, expected rows
 * before found ones, and are compared group by group as they come out.  So
 * memory does not depend on the number of groups.
 *
 * A storage row is also held against its own states, which nobody would notice
 * to be damaged before the next batch: they are finalised, and must give the
 * stored values.  States that make a function fail are caught in a
 * subtransaction.
 *
 * LOCKING: the source, its leaves, and the view's parts, AccessShare, before
 * the snapshot, as in a batch.  No checkpoint lock: checkpoint, storage and
 * source are all read with one snapshot, in which they fit, because a batch
 * commits them together (I2).  So batches go on meanwhile.
 *
 * TRANSACTIONS: in the caller's, at any isolation level: the snapshot is the
 * latest one, not the transaction's.
 *
 * SECURITY: the query runs as the view's owner, with the settings of the view.
 *
 * MEMORY: everything is in the context of the call; a row's own needs are in
 * row_context, reset for each row.
 */
#include "postgres.h"

#include <math.h>

#include "access/relscan.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/jsonb.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/ruleutils.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/tuplesort.h"
#include "utils/typcache.h"

#include "compat.h"
#include "analyze.h"
#include "catalog.h"
#include "definition.h"
#include "groups.h"
#include "position.h"
#include "scan.h"
#include "security.h"
#include "stamp.h"
#include "storage.h"
#include "view.h"
#include "watermark.h"

PG_FUNCTION_INFO_V1(tide_verify);
PG_FUNCTION_INFO_V1(tide_verify_row);

/* floats compare within this, relative; single precision has 7 digits */
#define FLOAT8_TOLERANCE 1e-9
#define FLOAT4_TOLERANCE 1e-6

/* columns of the sort; then keys, values, texts of values by state, flaws */
#define SORT_WINDOW_START 1
#define SORT_HASH 2
#define SORT_SIDE 3
#define SORT_FIRST_KEY 4

/* columns of the result */
#define RESULT_NCOLUMNS 5

typedef enum Side
{
	SIDE_EXPECTED,
	SIDE_FOUND
} Side;

/* how to compare and print the values of one column */
typedef struct Column
{
	char	   *name;
	Oid			type;
	Oid			collation;
	int16		typlen;
	bool		typbyval;
	FmgrInfo	output;
	bool		has_equality;
	FmgrInfo	equality;
	bool		has_order;		/* depends on the order of the rows */
} Column;

/* one stored or computed group, and whether it has found its other half */
typedef struct Row
{
	Side		side;
	Datum	   *values;			/* all columns of the sort */
	bool	   *nulls;
	bool		is_done;
} Row;

/* one call of verify */
typedef struct Verify
{
	TideView   *view;
	TideStream *stream;
	TideCheckpoint *checkpoint;
	Oid			owner;
	Snapshot	snapshot;
	List	   *leaves;			/* OIDs */
	List	   *own_positions;	/* of TideLeaf * */
	Oid			last_leaf;		/* of which verify_row knows the position */
	const TidePosition *last_position;
	TideQuery  *query;
	TideJudge	judge;
	TideCounters scratch;
	ReturnSetInfo *rsinfo;
	/* what was retained of the rows that the view consumed */
	int64		rows_retained;
	int64		rows_null_time;
	int64		oldest;			/* event time, DT_NOEND: none */
	int64		since;			/* earlier windows are incomplete */
	bool		is_complete;	/* all of them are there */
	/* comparing */
	TideStorageLayout *layout;
	TideAggExec *aggs;
	TideGroups *groups;
	AggStatePerGroup empty;		/* a group without rows */
	Column	   *keys;
	Column	   *values;
	int			first_value;	/* columns of the sort, from 1 */
	int			first_by_state;
	int			flaw;
	TupleDesc	desc;
	TupleTableSlot *slot;
	Tuplesortstate *sort;
	ExprState  *equality;
	ExprContext *context;
	TupleTableSlot *left_slot;
	TupleTableSlot *right_slot;
	MemoryContext row_context;
	MemoryContext run_context;	/* rows of one window and hash */
	/* storage */
	int64		rows_stored;
	int64		rows_extra;		/* that should not be there */
	int64		rows_missing;
} Verify;

/* receives the rows of the plain query */
typedef struct Receiver
{
	DestReceiver pub;			/* must be first */
	Verify	   *verify;
} Receiver;

/* what tidemark.verify_row asks; set only while a query of verify runs */
static Verify *active_verify = NULL;

static void begin_verify(Verify *verify, Oid viewid);
static void compare_all(Verify *verify, bool has_since, int64 since);
static void count_retained(Verify *verify);
static void find_since(Verify *verify, bool has_since, int64 since);
static void begin_sort(Verify *verify);
static void run_plain(Verify *verify);
static void read_storage(Verify *verify);
static void compare_sorted(Verify *verify);
static void check_counters(Verify *verify);
static void emit(Verify *verify, const char *verdict, Row *group,
				 const char *expected, const char *found);

/* --------------------------------------------------------------------------
 * Entry points
 * --------------------------------------------------------------------------
 */

/* tidemark.verify(view, since) */
Datum
tide_verify(PG_FUNCTION_ARGS)
{
	Verify	   *verify = palloc0(sizeof(Verify));
	Verify	   *outer_verify = active_verify;
	bool		has_since = !PG_ARGISNULL(1);
	int64		since = 0;
	TideSecurity saved;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("view must not be null")));
	InitMaterializedSRF(fcinfo, 0);
	verify->rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	begin_verify(verify, PG_GETARG_OID(0));

	if (has_since)
		since = PG_GETARG_TIMESTAMPTZ(1);
	PushActiveSnapshot(verify->snapshot);
	tide_security_enter(&saved, verify->owner, verify->view->settings);
	PG_TRY();
	{
		active_verify = verify;
		compare_all(verify, has_since, since);
	}
	PG_FINALLY();
	{
		active_verify = outer_verify;
	}
	PG_END_TRY();
	tide_security_leave(&saved);
	PopActiveSnapshot();
	UnregisterSnapshot(verify->snapshot);

	return (Datum) 0;
}

/* The position of a leaf, as in a batch; the one of the last call is known. */
static const TidePosition *
leaf_position(Verify *verify, Oid relid)
{
	static const TidePosition nowhere = {0, 0, NULL};
	ListCell   *lc;

	if (relid == verify->last_leaf)
		return verify->last_position;

	verify->last_leaf = relid;
	verify->last_position =
		list_member_oid(verify->checkpoint->leaves, relid) ?
		&verify->checkpoint->position : &nowhere;
	foreach(lc, verify->own_positions)
	{
		TideLeaf   *leaf = lfirst(lc);

		if (leaf->leaf == relid)
			verify->last_position = &leaf->position;
	}

	return verify->last_position;
}

/*
 * tidemark.verify_row(leaf, stamp, event_time): is it one of the rows that the
 * view has consumed and placed in a window?  For the queries of verify only;
 * the position of the leaf is remembered from row to row.
 */
Datum
tide_verify_row(PG_FUNCTION_ARGS)
{
	Verify	   *verify = active_verify;
	const TidePosition *position;
	TideVerdict verdict;
	int64		event_time;

	if (verify == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("tidemark.verify_row can only be called by tidemark.verify"),
				 errhint("Use tidemark.verify.")));
	if (PG_ARGISNULL(0) || PG_ARGISNULL(1))
		PG_RETURN_BOOL(false);
	position = leaf_position(verify, PG_GETARG_OID(0));
	if (!tide_position_consumed(position, PG_GETARG_INT64(1)))
		PG_RETURN_BOOL(false);

	event_time = PG_ARGISNULL(2) ? 0 : PG_GETARG_INT64(2);
	verdict = tide_watermark_judge(&verify->judge, PG_ARGISNULL(2),
								   event_time, &verify->scratch);
	verify->rows_retained++;
	if (verdict == TIDE_VERDICT_NULL_TIME)
		verify->rows_null_time++;
	else
		verify->oldest = Min(verify->oldest, event_time);

	PG_RETURN_BOOL(verdict == TIDE_VERDICT_ON_TIME);
}

/* --------------------------------------------------------------------------
 * Preparing
 * --------------------------------------------------------------------------
 */

/* The owner of a relation that is locked. */
static Oid
relation_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", relid);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);

	return owner;
}

/* Lock what the query of a view reads, in the order of a batch. */
static void
lock_used(Oid viewid)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, tide_definition_relations(viewid))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_VIEW)
			lock_used(lfirst_oid(lc));
		LockRelationOid(lfirst_oid(lc), AccessShareLock);
	}
}

/* Lock, take the snapshot, and read where the view stands in it. */
static void
begin_verify(Verify *verify, Oid viewid)
{
	TideView   *view = tide_view_get_owned(viewid);

	LockRelationOid(view->stream, AccessShareLock);
	if (get_rel_name(view->stream) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("stream of continuous view \"%s\" does not exist",
						get_rel_name(viewid))));
	verify->leaves = tide_scan_source_leaves(view->stream);
	lock_used(view->definition);
	LockRelationOid(viewid, AccessShareLock);
	view = tide_view_get_owned(viewid);
	LockRelationOid(view->definition, AccessShareLock);
	LockRelationOid(view->storage, AccessShareLock);

	verify->view = view;
	verify->owner = relation_owner(viewid);
	verify->snapshot = RegisterSnapshot(GetLatestSnapshot());
	verify->stream = tide_catalog_read_stream(view->stream);
	verify->checkpoint = tide_catalog_read_checkpoint_as_of(viewid,
															view->stream,
															verify->snapshot);
	if (verify->stream == NULL || verify->checkpoint == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("continuous view \"%s\" has lost its %s",
						get_rel_name(viewid),
						verify->stream == NULL ? "stream" : "checkpoint"),
				 errhint("Drop the view and create it again.")));
	if (verify->checkpoint->has_target &&
		verify->checkpoint->position.xmax == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("continuous view \"%s\" is reading the history of its stream",
						get_rel_name(viewid)),
				 errdetail("It stands at no position before that is done."),
				 errhint("Call tidemark.wait_for or CALL tidemark.catch_up, and verify it then.")));
	verify->own_positions = tide_catalog_read_leaves_as_of(viewid,
														   verify->snapshot);
}

/* Compare view and query, and emit what differs. */
static void
compare_all(Verify *verify, bool has_since, int64 since)
{
	Oid			definition = verify->view->definition;

	verify->query = tide_analyze(tide_analyze_definition(definition));
	if (verify->query->fingerprint != verify->checkpoint->fingerprint)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("definition of continuous view \"%s\" is not the one its state was made with",
						get_rel_name(verify->view->view)),
				 errhint("Undo the change, or drop the view and create it again.")));
	tide_watermark_begin(&verify->judge, &verify->query->window,
						 verify->stream, verify->view, verify->checkpoint,
						 verify->query->event_type == TIMESTAMPOID);
	/* late rows are expected, and explained by their tally */
	verify->judge.late_before = PG_INT64_MIN;

	count_retained(verify);
	find_since(verify, has_since, since);
	begin_sort(verify);
	run_plain(verify);
	read_storage(verify);
	tuplesort_performsort(verify->sort);
	compare_sorted(verify);
	tuplesort_end(verify->sort);
	check_counters(verify);
	tide_groups_end(verify->groups);
	tide_aggregate_end(verify->aggs);
}

/* tidemark.verify_row over a row of the stream, range table index rti */
static Expr *
make_row_test(Verify *verify, Index rti)
{
	Oid			type = verify->query->event_type;
	Oid			argtypes[3];
	AttrNumber	stamp_attno;
	List	   *args;
	Oid			function;

	argtypes[0] = OIDOID;
	argtypes[1] = tide_stamp_type();
	argtypes[2] = type;
	function = LookupFuncName(list_make2(makeString("tidemark"),
										 makeString("verify_row")),
							  lengthof(argtypes), argtypes, false);
	stamp_attno = get_attnum(verify->view->stream, TIDE_STAMP_COLUMN);
	if (stamp_attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no column \"%s\"",
						get_rel_name(verify->view->stream), TIDE_STAMP_COLUMN),
				 errhint("Drop the stream with tidemark.drop_stream and create it again.")));
	args = list_make3(makeVar(rti, TableOidAttributeNumber, OIDOID, -1,
							  InvalidOid, 0),
					  makeVar(rti, stamp_attno, argtypes[1], -1, InvalidOid, 0),
					  tide_analyze_event_time(verify->stream, rti));

	return (Expr *) makeFuncExpr(function, BOOLOID, args, InvalidOid,
								 InvalidOid, COERCE_EXPLICIT_CALL);
}

/*
 * See which of the rows that the view consumed are there: in verify_row.  Rows
 * that row security hides from the view's owner are not.
 */
static void
count_retained(Verify *verify)
{
	Oid			stream = verify->view->stream;
	char	   *name = get_rel_name(stream);
	char	   *sql;
	Index		rti = 1;
	bool		read_only = true;
	int			result;

	verify->rows_retained = 0;
	verify->rows_null_time = 0;
	verify->oldest = DT_NOEND;
	sql = psprintf("SELECT pg_catalog.count(*) FROM %s AS %s WHERE %s",
				   quote_qualified_identifier(get_namespace_name(get_rel_namespace(stream)),
											  name),
				   quote_identifier(name),
				   deparse_expression((Node *) make_row_test(verify, rti),
									  deparse_context_for(name, stream),
									  true, false));
	SPI_connect();
	result = SPI_execute(sql, read_only, 0);
	if (result != SPI_OK_SELECT)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(result));
	SPI_finish();
}

/*
 * A time given by the user, on the window axis.  For windows of type timestamp
 * it means the wall clock of the view's time zone, here and in the result.
 */
static int64
to_window_axis(Verify *verify, TimestampTz time)
{
	if (verify->query->window.type != TIMESTAMPOID ||
		TIMESTAMP_NOT_FINITE(time))
		return time;

	return DatumGetTimestamp(DirectFunctionCall1(timestamptz_timestamp,
												 TimestampTzGetDatum(time)));
}

/*
 * Which windows are whole in what the source retains: all when nothing is
 * missing, else those that start at or after its oldest event.
 */
static void
find_since(Verify *verify, bool has_since, int64 since)
{
	TideWindow *window = &verify->query->window;
	int64		rows_in = verify->checkpoint->totals.v[TIDE_ROWS_IN];
	int64		start;
	int64		end;
	int64		start_before;

	/* a view that began at 'latest' has not read all that is before it */
	verify->is_complete = verify->rows_retained >= rows_in &&
		(!verify->view->has_start_at || window->kind == TIDE_WINDOW_NONE);
	if (has_since)
		verify->since = to_window_axis(verify, since);
	else if (verify->is_complete)
		verify->since = PG_INT64_MIN;
	else if (TIMESTAMP_IS_NOEND(verify->oldest) ||
			 !tide_window_assign(window, verify->oldest, &start, &end))
		verify->since = PG_INT64_MAX;
	else if (tide_window_assign(window, verify->oldest - 1, &start_before,
								&end) && start_before != start)
		verify->since = start;
	else
	{
		(void) tide_window_assign(window, verify->oldest, &start, &end);
		verify->since = end;
	}
}

/* --------------------------------------------------------------------------
 * The two sides
 * --------------------------------------------------------------------------
 */

/* The name that the view gives a column of storage, or NULL. */
static char *
output_name(TideQuery *query, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, query->output)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (IsA(tle->expr, Var) && ((Var *) tle->expr)->varattno == attno)
			return tle->resname;
	}

	return NULL;
}

/* Prepare the comparison of a column, which is the n-th of its kind. */
static void
init_column(Verify *verify, Column *column, AttrNumber attno, char kind, int n,
			Oid type, Oid collation)
{
	TypeCacheEntry *cache = lookup_type_cache(type, TYPECACHE_EQ_OPR_FINFO);
	Oid			output;
	bool		is_varlena;

	column->name = output_name(verify->query, attno);
	if (column->name == NULL)
		column->name = psprintf("%c%d", kind, n);
	column->type = type;
	column->collation = collation;
	get_typlenbyval(type, &column->typlen, &column->typbyval);
	getTypeOutputInfo(type, &output, &is_varlena);
	fmgr_info(output, &column->output);
	column->has_equality = OidIsValid(cache->eq_opr);
	if (column->has_equality)
		fmgr_info(get_opcode(cache->eq_opr), &column->equality);
}

/*
 * Does the value of an aggregate depend on the order of the rows?  Batches see
 * them as they were committed, a query as they lie in the table.
 */
static bool
depends_on_order(Oid aggregate)
{
	static const char *const names[] = {
		"array_agg", "json_agg", "json_object_agg", "jsonb_agg",
		"jsonb_object_agg", "string_agg", "xmlagg"
	};
	char	   *name = get_func_name(aggregate);
	int			i;

	for (i = 0; name != NULL && i < lengthof(names); i++)
	{
		if (strcmp(name, names[i]) == 0)
			return true;
	}

	return false;
}

/* Prepare the sort and what it needs to compare. */
static void
begin_sort(Verify *verify)
{
	TideQuery  *query = verify->query;
	TideAggPlan *aggs = query->aggs;
	AttrNumber	columns[] = {SORT_WINDOW_START, SORT_HASH, SORT_SIDE};
	Oid			operators[] = {Int8LessOperator, Int8LessOperator, Int4LessOperator};
	Oid			collations[] = {InvalidOid, InvalidOid, InvalidOid};
	bool		nulls_first[] = {false, false, false};
	int			attno;
	int			i;

	verify->layout = tide_storage_layout(query);
	verify->aggs = tide_aggregate_begin(aggs);
	verify->groups = tide_groups_begin(query, verify->aggs);
	verify->empty = palloc0(tide_aggregate_group_size(verify->aggs));
	tide_aggregate_init(verify->aggs, verify->empty);
	verify->row_context = AllocSetContextCreate(CurrentMemoryContext,
												"tidemark verify row",
												ALLOCSET_DEFAULT_SIZES);
	verify->run_context = AllocSetContextCreate(CurrentMemoryContext,
												"tidemark verify run",
												ALLOCSET_DEFAULT_SIZES);

	verify->first_value = SORT_FIRST_KEY + query->nkeys;
	verify->first_by_state = verify->first_value + aggs->naggs;
	verify->flaw = verify->first_by_state + aggs->naggs;
	verify->desc = CreateTemplateTupleDesc(verify->flaw);
	TupleDescInitEntry(verify->desc, SORT_WINDOW_START, NULL, INT8OID, -1, 0);
	TupleDescInitEntry(verify->desc, SORT_HASH, NULL, INT8OID, -1, 0);
	TupleDescInitEntry(verify->desc, SORT_SIDE, NULL, INT4OID, -1, 0);

	verify->keys = palloc0(sizeof(Column) * Max(query->nkeys, 1));
	for (i = 0; i < query->nkeys; i++)
	{
		TideKey    *key = &query->keys[i];

		attno = SORT_FIRST_KEY + i;
		TupleDescInitEntry(verify->desc, attno, NULL, key->type, key->typmod,
						   0);
		TupleDescInitEntryCollation(verify->desc, attno, key->collation);
		init_column(verify, &verify->keys[i], TIDE_OUTPUT_KEY(i), 'k', i + 1,
					key->type, key->collation);
	}
	verify->values = palloc0(sizeof(Column) * Max(aggs->naggs, 1));
	for (i = 0; i < aggs->naggs; i++)
	{
		TideAgg    *agg = &aggs->aggs[i];

		attno = verify->first_value + i;
		TupleDescInitEntry(verify->desc, attno, NULL, agg->type, agg->typmod,
						   0);
		TupleDescInitEntryCollation(verify->desc, attno, agg->collation);
		TupleDescInitEntry(verify->desc, verify->first_by_state + i, NULL,
						   TEXTOID, -1, 0);
		init_column(verify, &verify->values[i], TIDE_OUTPUT_AGG(query, i),
					'v', i + 1, agg->type, agg->collation);
		verify->values[i].has_order = depends_on_order(agg->aggref->aggfnoid);
	}
	TupleDescInitEntry(verify->desc, verify->flaw, NULL, TEXTOID, -1, 0);

	verify->slot = MakeSingleTupleTableSlot(verify->desc, &TTSOpsVirtual);
	verify->sort = tuplesort_begin_heap(verify->desc, lengthof(columns),
										columns, operators, collations,
										nulls_first, work_mem, NULL,
										TUPLESORT_NONE);
	verify->equality = tide_groups_key_equality(verify->groups);
	verify->context = CreateStandaloneExprContext();
	verify->left_slot =
		MakeSingleTupleTableSlot(tide_groups_key_desc(verify->groups),
								 &TTSOpsVirtual);
	verify->right_slot =
		MakeSingleTupleTableSlot(tide_groups_key_desc(verify->groups),
								 &TTSOpsMinimalTuple);
}

/* Make verify->slot empty: all columns NULL, ready to be filled. */
static void
clear_slot(Verify *verify)
{
	ExecClearTuple(verify->slot);
	memset(verify->slot->tts_isnull, true,
		   sizeof(bool) * verify->desc->natts);
	memset(verify->slot->tts_values, 0, sizeof(Datum) * verify->desc->natts);
}

/* Set a column of verify->slot. */
static void
set_slot(Verify *verify, int attno, Datum value, bool isnull)
{
	verify->slot->tts_values[attno - 1] = value;
	verify->slot->tts_isnull[attno - 1] = isnull;
}

/* Hand verify->slot, filled but for its hash and side, to the sort. */
static int64
put_slot(Verify *verify, Side side)
{
	TupleTableSlot *slot = verify->slot;
	int64		hash;

	hash = tide_groups_hash(verify->groups,
							&slot->tts_values[SORT_FIRST_KEY - 1],
							&slot->tts_isnull[SORT_FIRST_KEY - 1]);
	set_slot(verify, SORT_HASH, Int64GetDatum(hash), false);
	set_slot(verify, SORT_SIDE, Int32GetDatum((int32) side), false);
	ExecStoreVirtualTuple(slot);
	tuplesort_puttupleslot(verify->sort, slot);

	return hash;
}

/* DestReceiver: a group of the plain query. */
static bool
receive_group(TupleTableSlot *slot, DestReceiver *self)
{
	Verify	   *verify = ((Receiver *) self)->verify;
	TideQuery  *query = verify->query;
	MemoryContext old_context = MemoryContextSwitchTo(verify->row_context);
	int64		window_start = 0;
	bool		has_start = false;
	ListCell   *lc;

	slot_getallattrs(slot);
	clear_slot(verify);
	foreach(lc, query->plain_attnos)
	{
		int			column = foreach_current_index(lc);
		AttrNumber	attno = lfirst_int(lc);
		Datum		value = slot->tts_values[column];
		bool		isnull = slot->tts_isnull[column];

		if (attno == TIDE_OUTPUT_WINDOW_START)
		{
			window_start = DatumGetInt64(value);
			has_start = true;
		}
		else if (attno == TIDE_OUTPUT_WINDOW_END)
		{
			/* only windows of a fixed size have an end in GROUP BY */
			if (!has_start)
				window_start = DatumGetInt64(value) - query->window.size;
		}
		else if (attno < TIDE_OUTPUT_AGG(query, 0))
			set_slot(verify, SORT_FIRST_KEY + attno - TIDE_OUTPUT_KEY(0),
					 value, isnull);
		else
			set_slot(verify,
					 verify->first_value + attno - TIDE_OUTPUT_AGG(query, 0),
					 value, isnull);
	}
	set_slot(verify, SORT_WINDOW_START, Int64GetDatum(window_start), false);
	(void) put_slot(verify, SIDE_EXPECTED);

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(verify->row_context);

	return true;
}

/* DestReceiver: nothing to prepare. */
static void
receiver_startup(DestReceiver *self, int operation, TupleDesc desc)
{
}

/* DestReceiver: nothing to clean up. */
static void
receiver_noop(DestReceiver *self)
{
}

/*
 * Run the defining query over the rows that the view has consumed.  The test
 * is a security qualification, so that no expression of the query sees a row
 * that it has not seen in a batch.
 */
static void
run_plain(Verify *verify)
{
	Query	   *plain = copyObject(verify->query->plain);
	Index		rti = verify->query->stream_rti;
	RangeTblEntry *rte = rt_fetch(rti, plain->rtable);
	Receiver	receiver;
	QueryDesc  *query_desc;
	int			no_flags = 0;

	rte->securityQuals = list_make1(make_row_test(verify, rti));
	memset(&receiver, 0, sizeof(receiver));
	receiver.pub.receiveSlot = receive_group;
	receiver.pub.rStartup = receiver_startup;
	receiver.pub.rShutdown = receiver_noop;
	receiver.pub.rDestroy = receiver_noop;
	receiver.pub.mydest = DestNone;
	receiver.verify = verify;

	query_desc = CreateQueryDesc(tide_analyze_plan_plain(plain), "",
								 verify->snapshot, InvalidSnapshot,
								 &receiver.pub, NULL, NULL, no_flags);
	ExecutorStart(query_desc, no_flags);
	TIDE_EXECUTOR_RUN(query_desc);
	ExecutorFinish(query_desc);
	ExecutorEnd(query_desc);
	FreeQueryDesc(query_desc);
}

/* The text of a value; NULL for a null. */
static char *
print_value(Column *column, Datum value, bool isnull)
{
	return isnull ? NULL : OutputFunctionCall(&column->output, value);
}

/* Are two floats equal but for the order in which they were added up? */
static bool
floats_are_equal(float8 a, float8 b, float8 tolerance)
{
	if (isnan(a) || isnan(b))
		return isnan(a) && isnan(b);
	if (isinf(a) || isinf(b))
		return a == b;

	return fabs(a - b) <= tolerance * Max(fabs(a), fabs(b));
}

/* Are two values of a column the same for the user? */
static bool
values_are_equal(Column *column, Datum a, bool a_is_null, Datum b,
				 bool b_is_null)
{
	if (a_is_null || b_is_null)
		return a_is_null && b_is_null;
	if (column->type == FLOAT8OID)
		return floats_are_equal(DatumGetFloat8(a), DatumGetFloat8(b),
								FLOAT8_TOLERANCE);
	if (column->type == FLOAT4OID)
		return floats_are_equal(DatumGetFloat4(a), DatumGetFloat4(b),
								FLOAT4_TOLERANCE);
	if (datum_image_eq(a, b, column->typbyval, column->typlen))
		return true;
	if (column->has_equality)
		return DatumGetBool(FunctionCall2Coll(&column->equality,
											  column->collation, a, b));

	return strcmp(OutputFunctionCall(&column->output, a),
				  OutputFunctionCall(&column->output, b)) == 0;
}

/*
 * Finalise the states of a storage row, which the slot holds, and note the
 * values that are not those stored.
 */
static void
check_states(Verify *verify, TupleTableSlot *stored)
{
	TideAggPlan *aggs = verify->query->aggs;
	Datum	   *states = palloc(sizeof(Datum) * Max(aggs->ntrans, 1));
	bool	   *state_nulls = palloc(sizeof(bool) * Max(aggs->ntrans, 1));
	Datum	   *new_states = palloc0(sizeof(Datum) * Max(aggs->ntrans, 1));
	bool	   *new_nulls = palloc0(sizeof(bool) * Max(aggs->ntrans, 1));
	Datum	   *values = palloc0(sizeof(Datum) * Max(aggs->naggs, 1));
	bool	   *nulls = palloc0(sizeof(bool) * Max(aggs->naggs, 1));
	int			i;

	for (i = 0; i < aggs->ntrans; i++)
	{
		states[i] = stored->tts_values[verify->layout->state[i] - 1];
		state_nulls[i] = stored->tts_isnull[verify->layout->state[i] - 1];
	}
	tide_aggregate_merge(verify->aggs, verify->empty, states, state_nulls,
						 values, nulls, new_states, new_nulls);
	for (i = 0; i < aggs->naggs; i++)
	{
		int			column = verify->layout->first_value - 1 + i;
		char	   *text;

		if (values_are_equal(&verify->values[i], values[i], nulls[i],
							 stored->tts_values[column],
							 stored->tts_isnull[column]))
			continue;
		text = print_value(&verify->values[i], values[i], nulls[i]);
		set_slot(verify, verify->first_by_state + i,
				 CStringGetTextDatum(text ? text : "NULL"), false);
	}
	tide_aggregate_release(verify->aggs);
}

/* Append to a JSON object that has no end yet. */
static void
append_member(StringInfo json, const char *name, const char *value)
{
	appendStringInfoString(json, json->len == 0 ? "{" : ", ");
	escape_json(json, name);
	appendStringInfoString(json, ": ");
	if (value == NULL)
		appendStringInfoString(json, "null");
	else
		escape_json(json, value);
}

/* An error that says nothing about a state. */
static bool
is_interruption(int sqlerrcode)
{
	return sqlerrcode == ERRCODE_QUERY_CANCELED ||
		sqlerrcode == ERRCODE_OUT_OF_MEMORY ||
		ERRCODE_TO_CATEGORY(sqlerrcode) == ERRCODE_OPERATOR_INTERVENTION;
}

/* The same as check_states, surviving an error; its message, or NULL. */
static char *
try_states(Verify *verify, TupleTableSlot *stored)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	char	   *volatile message = NULL;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		check_states(verify, stored);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		if (is_interruption(error->sqlerrcode))
			PG_RE_THROW();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		tide_aggregate_release(verify->aggs);
		message = error->message;
	}
	PG_END_TRY();

	return message;
}

/* Put a row of the storage table into the sort, with its flaws. */
static void
put_stored(Verify *verify, TupleTableSlot *stored, bool has_states)
{
	TideQuery  *query = verify->query;
	TideStorageLayout *layout = verify->layout;
	MemoryContext old_context = MemoryContextSwitchTo(verify->row_context);
	StringInfoData flaws;
	int64		window_start = 0;
	int64		hash;
	char	   *message = NULL;
	bool		is_null_start = false;
	int			i;

	initStringInfo(&flaws);
	slot_getallattrs(stored);
	clear_slot(verify);
	if (layout->window_start)
	{
		int			end = layout->window_end - 1;

		window_start =
			DatumGetInt64(stored->tts_values[layout->window_start - 1]);
		is_null_start = stored->tts_isnull[layout->window_start - 1];
		if (is_null_start)
			append_member(&flaws, "window_start", NULL);
		else if (stored->tts_isnull[end] ||
				 DatumGetInt64(stored->tts_values[end]) !=
				 tide_window_end(&query->window, window_start))
			append_member(&flaws, "window_end", stored->tts_isnull[end] ? NULL :
						  pstrdup(timestamptz_to_str(DatumGetInt64(stored->tts_values[end]))));
	}
	set_slot(verify, SORT_WINDOW_START, Int64GetDatum(window_start), false);
	for (i = 0; i < query->nkeys; i++)
		set_slot(verify, SORT_FIRST_KEY + i,
				 stored->tts_values[layout->first_key - 1 + i],
				 stored->tts_isnull[layout->first_key - 1 + i]);
	for (i = 0; i < query->aggs->naggs; i++)
		set_slot(verify, verify->first_value + i,
				 stored->tts_values[layout->first_value - 1 + i],
				 stored->tts_isnull[layout->first_value - 1 + i]);

	if (has_states)
		message = try_states(verify, stored);
	if (message != NULL)
		append_member(&flaws, "state", message);
	hash = tide_groups_hash(verify->groups,
							&verify->slot->tts_values[SORT_FIRST_KEY - 1],
							&verify->slot->tts_isnull[SORT_FIRST_KEY - 1]);
	if (stored->tts_isnull[layout->key_hash - 1] ||
		DatumGetInt64(stored->tts_values[layout->key_hash - 1]) != hash)
		append_member(&flaws, "_key_hash",
					  stored->tts_isnull[layout->key_hash - 1] ? NULL :
					  psprintf(INT64_FORMAT,
							   DatumGetInt64(stored->tts_values[layout->key_hash - 1])));
	if (flaws.len > 0)
		set_slot(verify, verify->flaw, CStringGetTextDatum(flaws.data), false);
	(void) put_slot(verify, SIDE_FOUND);

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(verify->row_context);
}

/* Put the rows of the storage table into the sort. */
static void
read_storage(Verify *verify)
{
	TideAggPlan *aggs = verify->query->aggs;
	Relation	rel = table_open(verify->view->storage, NoLock);
	TupleTableSlot *stored = table_slot_create(rel, NULL);
	bool		has_states = false;
	TableScanDesc scan;
	int			i;

	if (RelationGetNumberOfAttributes(rel) != verify->layout->natts)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("storage table \"%s\" does not fit its definition",
						RelationGetRelationName(rel))));
	for (i = 0; i < aggs->naggs; i++)
		has_states |= aggs->trans[aggs->aggs[i].transno].value_agg != i;

	/* states of another major version may not be read */
	has_states &= verify->view->server_major == TIDE_SERVER_MAJOR;

	scan = table_beginscan(rel, verify->snapshot, 0, NULL);
	while (table_scan_getnextslot(scan, ForwardScanDirection, stored))
	{
		CHECK_FOR_INTERRUPTS();
		put_stored(verify, stored, has_states);
		verify->rows_stored++;
	}
	table_endscan(scan);
	ExecDropSingleTupleTableSlot(stored);
	table_close(rel, NoLock);
}

/* --------------------------------------------------------------------------
 * Comparing
 * --------------------------------------------------------------------------
 */

/* Are the keys of two rows of a run the same group? */
static bool
keys_are_equal(Verify *verify, Row *a, Row *b)
{
	int			nkeys = verify->query->nkeys;
	bool		should_free = false;	/* run_context does */
	MinimalTuple tuple;

	if (nkeys == 0)
		return true;
	ExecClearTuple(verify->left_slot);
	memcpy(verify->left_slot->tts_values, &a->values[SORT_FIRST_KEY - 1],
		   sizeof(Datum) * nkeys);
	memcpy(verify->left_slot->tts_isnull, &a->nulls[SORT_FIRST_KEY - 1],
		   sizeof(bool) * nkeys);
	ExecStoreVirtualTuple(verify->left_slot);
	tuple = TIDE_FORM_MINIMAL_TUPLE(verify->left_slot->tts_tupleDescriptor,
									&b->values[SORT_FIRST_KEY - 1],
									&b->nulls[SORT_FIRST_KEY - 1]);
	ExecStoreMinimalTuple(tuple, verify->right_slot, should_free);
	verify->context->ecxt_innertuple = verify->left_slot;
	verify->context->ecxt_outertuple = verify->right_slot;

	return ExecQualAndReset(verify->equality, verify->context);
}

/* Why a group may differ without being wrong, or 'wrong'. */
static const char *
find_verdict(Verify *verify, int64 window_start, bool is_ordered)
{
	bool		is_windowed = verify->query->window.kind != TIDE_WINDOW_NONE;

	if (is_windowed ? window_start < verify->since : !verify->is_complete)
		return "source incomplete";
	if (is_windowed &&
		tide_catalog_read_late(verify->view->view, window_start,
							   verify->snapshot) > 0)
		return "late";
	if (is_ordered || verify->query->has_joins || verify->query->uses_now ||
		verify->stream->allow_update)
		return "not comparable";

	return "wrong";
}

/*
 * Append what is wrong with a row in itself, which may be NULL; was there
 * anything?
 */
static bool
append_flaws(Verify *verify, Row *expected, Row *found,
			 StringInfo expected_json, StringInfo found_json)
{
	bool		is_flawed = false;
	int			i;

	if (found == NULL)
		return false;
	for (i = 0; i < verify->query->aggs->naggs; i++)
	{
		Column	   *column = &verify->values[i];
		int			value = verify->first_value - 1 + i;
		int			by_state = verify->first_by_state - 1 + i;
		char	   *name;

		if (found->nulls[by_state])
			continue;
		name = psprintf("state of %s", column->name);
		if (expected != NULL)
			append_member(expected_json, name,
						  print_value(column, expected->values[value],
									  expected->nulls[value]));
		append_member(found_json, name,
					  TextDatumGetCString(found->values[by_state]));
		is_flawed = true;
	}
	if (!found->nulls[verify->flaw - 1])
	{
		char	   *flaws = TextDatumGetCString(found->values[verify->flaw - 1]);

		/* it is an object without its end */
		appendStringInfo(found_json, "%s%s",
						 found_json->len == 0 ? "{" : ", ", flaws + 1);
		is_flawed = true;
	}

	return is_flawed;
}

/*
 * Append the values of a group that differ, all when a side is NULL, to both
 * sides.  *is_ordered: those only that depend on the order of rows.
 */
static void
append_differences(Verify *verify, Row *expected, Row *found,
				   StringInfo expected_json, StringInfo found_json,
				   bool *is_ordered)
{
	int			i;

	*is_ordered = expected != NULL && found != NULL;
	for (i = 0; i < verify->query->aggs->naggs; i++)
	{
		Column	   *column = &verify->values[i];
		int			value = verify->first_value - 1 + i;

		if (expected != NULL && found != NULL &&
			values_are_equal(column, expected->values[value],
							 expected->nulls[value], found->values[value],
							 found->nulls[value]))
			continue;
		if (expected != NULL)
			append_member(expected_json, column->name,
						  print_value(column, expected->values[value],
									  expected->nulls[value]));
		if (found != NULL)
			append_member(found_json, column->name,
						  print_value(column, found->values[value],
									  found->nulls[value]));
		*is_ordered &= column->has_order;
	}
}

/* End a JSON object that may have no member. */
static char *
end_object(StringInfo json)
{
	appendStringInfoString(json, json->len == 0 ? "{}" : "}");

	return json->data;
}

/*
 * Compare a group as it should be with what was found, either of which may be
 * NULL; nfound rows were found.  Emits what differs.
 */
static void
compare_group(Verify *verify, Row *expected, Row *found, int nfound)
{
	Row		   *any = expected != NULL ? expected : found;
	int64		window_start = DatumGetInt64(any->values[SORT_WINDOW_START - 1]);
	StringInfoData expected_json;
	StringInfoData found_json;
	bool		is_flawed = nfound > 1;
	bool		is_ordered;
	const char *verdict;

	initStringInfo(&expected_json);
	initStringInfo(&found_json);
	if (nfound > 1)
	{
		append_member(&expected_json, "rows", expected != NULL ? "1" : "0");
		append_member(&found_json, "rows", psprintf("%d", nfound));
	}
	append_differences(verify, expected, found, &expected_json, &found_json,
					   &is_ordered);
	is_flawed |= append_flaws(verify, expected, found, &expected_json,
							  &found_json);
	if (expected != NULL && found != NULL && expected_json.len == 0 &&
		!is_flawed)
		return;

	verdict = is_flawed ? "wrong" :
		find_verdict(verify, window_start, is_ordered);
	if (strcmp(verdict, "wrong") == 0)
	{
		verify->rows_extra += Max(nfound - (expected != NULL), 0);
		verify->rows_missing += nfound == 0;
	}
	emit(verify, verdict, any,
		 expected != NULL ? end_object(&expected_json) : NULL,
		 found != NULL ? end_object(&found_json) : NULL);
}

/* Compare the rows of one window and hash: nearly always one group. */
static void
compare_run(Verify *verify, List *rows)
{
	ListCell   *lc;

	foreach(lc, rows)
	{
		Row		   *row = lfirst(lc);
		Row		   *expected = row->side == SIDE_EXPECTED ? row : NULL;
		Row		   *found = row->side == SIDE_FOUND ? row : NULL;
		int			nfound = found != NULL;
		ListCell   *lc2;

		if (row->is_done)
			continue;
		for_each_from(lc2, rows, foreach_current_index(lc) + 1)
		{
			Row		   *other = lfirst(lc2);

			if (other->is_done || other->side != SIDE_FOUND ||
				!keys_are_equal(verify, row, other))
				continue;
			other->is_done = true;
			if (found == NULL)
				found = other;
			nfound++;
		}
		compare_group(verify, expected, found, nfound);
	}
}

/* Go through the sorted rows, run by run. */
static void
compare_sorted(Verify *verify)
{
	TupleTableSlot *slot = MakeSingleTupleTableSlot(verify->desc,
													&TTSOpsMinimalTuple);
	MemoryContext old_context = MemoryContextSwitchTo(verify->run_context);
	List	   *rows = NIL;
	int64		window_start = 0;
	int64		hash = 0;
	bool		forward = true;
	bool		copy = false;

	while (tuplesort_gettupleslot(verify->sort, forward, copy, slot, NULL))
	{
		int			natts = verify->desc->natts;
		Row		   *row;
		int			i;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(slot);
		if (rows != NIL &&
			(window_start != DatumGetInt64(slot->tts_values[SORT_WINDOW_START - 1]) ||
			 hash != DatumGetInt64(slot->tts_values[SORT_HASH - 1])))
		{
			compare_run(verify, rows);
			rows = NIL;
			MemoryContextReset(verify->run_context);
		}
		window_start = DatumGetInt64(slot->tts_values[SORT_WINDOW_START - 1]);
		hash = DatumGetInt64(slot->tts_values[SORT_HASH - 1]);

		row = palloc0(sizeof(Row));
		row->side = DatumGetInt32(slot->tts_values[SORT_SIDE - 1]);
		row->values = palloc(sizeof(Datum) * natts);
		row->nulls = palloc(sizeof(bool) * natts);
		memcpy(row->nulls, slot->tts_isnull, sizeof(bool) * natts);
		for (i = 0; i < natts; i++)
		{
			Form_pg_attribute att = TupleDescAttr(verify->desc, i);

			row->values[i] = row->nulls[i] ? (Datum) 0 :
				datumCopy(slot->tts_values[i], att->attbyval, att->attlen);
		}
		rows = lappend(rows, row);
	}
	compare_run(verify, rows);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(verify->run_context);
	ExecDropSingleTupleTableSlot(slot);
}

/* --------------------------------------------------------------------------
 * Counters
 * --------------------------------------------------------------------------
 */

/* Emit a counter that is not what it should be. */
static void
emit_counter(Verify *verify, const char *name, int64 expected, int64 found)
{
	StringInfoData expected_json;
	StringInfoData found_json;

	if (expected == found)
		return;
	initStringInfo(&expected_json);
	initStringInfo(&found_json);
	append_member(&expected_json, name, psprintf(INT64_FORMAT, expected));
	append_member(&found_json, name, psprintf(INT64_FORMAT, found));
	appendStringInfoChar(&expected_json, '}');
	appendStringInfoChar(&found_json, '}');
	emit(verify, "wrong", NULL, expected_json.data, found_json.data);
}

/*
 * Hold the view's counters against each other and against what is there.  When
 * the fates do not sum up, the one that can be counted again is at fault, or
 * their sum is.
 */
static void
check_counters(Verify *verify)
{
	TideCounters *totals = &verify->checkpoint->totals;
	TideQuery  *query = verify->query;
	bool		is_seeded = query->window.kind == TIDE_WINDOW_NONE &&
		query->nkeys == 0;
	int64		late = tide_catalog_sum_late(verify->view->view,
											 verify->snapshot);
	int64		rows = verify->rows_stored - is_seeded;
	int64		sum;
	int			i;

	emit_counter(verify, "rows_late", late, totals->v[TIDE_ROWS_LATE]);
	sum = late - totals->v[TIDE_ROWS_LATE];
	for (i = TIDE_ROWS_NULL_TIME; i <= TIDE_ROWS_USED; i++)
		sum += totals->v[i];
	if (sum != totals->v[TIDE_ROWS_IN] &&
		totals->v[TIDE_ROWS_IN] == verify->rows_retained &&
		totals->v[TIDE_ROWS_NULL_TIME] != verify->rows_null_time)
	{
		emit_counter(verify, "rows_null_time", verify->rows_null_time,
					 totals->v[TIDE_ROWS_NULL_TIME]);
		sum += verify->rows_null_time - totals->v[TIDE_ROWS_NULL_TIME];
	}
	emit_counter(verify, "rows_in", sum, totals->v[TIDE_ROWS_IN]);
	emit_counter(verify, "batches", verify->checkpoint->batch_id,
				 totals->v[TIDE_BATCHES]);

	/* rows that are reported as groups need no second report */
	if (totals->v[TIDE_GROUPS_NEW] != rows)
		emit_counter(verify, "state_rows",
					 rows - verify->rows_extra + verify->rows_missing,
					 totals->v[TIDE_GROUPS_NEW]);
}

/* --------------------------------------------------------------------------
 * The result
 * --------------------------------------------------------------------------
 */

/* A JSON object as jsonb. */
static Datum
make_jsonb(const char *json)
{
	return DirectFunctionCall1(jsonb_in, CStringGetDatum(json));
}

/* The keys of a group as JSON. */
static char *
print_keys(Verify *verify, Row *group)
{
	StringInfoData json;
	int			i;

	initStringInfo(&json);
	for (i = 0; i < verify->query->nkeys; i++)
	{
		int			column = SORT_FIRST_KEY - 1 + i;

		append_member(&json, verify->keys[i].name,
					  print_value(&verify->keys[i], group->values[column],
								  group->nulls[column]));
	}
	if (json.len == 0)
		appendStringInfoChar(&json, '{');
	appendStringInfoChar(&json, '}');

	return json.data;
}

/* Add a row to the result; group NULL: it is about the whole view. */
static void
emit(Verify *verify, const char *verdict, Row *group, const char *expected,
	 const char *found)
{
	Datum		values[RESULT_NCOLUMNS] = {0};
	bool		nulls[RESULT_NCOLUMNS] = {false, true, true, true, true};

	values[0] = CStringGetTextDatum(verdict);
	if (group != NULL && verify->query->window.kind != TIDE_WINDOW_NONE)
	{
		Datum		start = group->values[SORT_WINDOW_START - 1];

		if (verify->query->window.type == TIMESTAMPOID)
			start = DirectFunctionCall1(timestamp_timestamptz, start);
		values[1] = start;
		nulls[1] = false;
	}
	if (group != NULL)
	{
		values[2] = make_jsonb(print_keys(verify, group));
		nulls[2] = false;
	}
	if (expected != NULL)
	{
		values[3] = make_jsonb(expected);
		nulls[3] = false;
	}
	if (found != NULL)
	{
		values[4] = make_jsonb(found);
		nulls[4] = false;
	}
	tuplestore_putvalues(verify->rsinfo->setResult, verify->rsinfo->setDesc,
						 values, nulls);
}
