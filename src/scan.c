/*
 * scan.c
 *		The stream scan: block ranges, consumed(), judging source rows.
 *
 * In the plan of a batch, and only there, the stream is read by one CustomScan
 * over all its leaves.  The planner must not choose the access path: on a
 * table that was not analysed it would read everything.  The scan asks the
 * BRIN index on the stamp column for block ranges, reads them page at a time,
 * and tests every row's stamp against the two positions of the batch
 * (position.c); without a valid index it reads the whole leaf.
 *
 * The scan is also where a source row is judged, once: null time, then WHERE,
 * then late.  Only what is on time goes on to joins.  That is why the node
 * evaluates its quals itself, between two of these steps.
 *
 * A row is judged the first time it is read.  The executor may read it again
 * (the inner side of a nested loop is rescanned), or not at all (a join with
 * an empty table, a constant false condition): each row has a number in the
 * order of reading, rows above the highest number seen are counted, and
 * tide_scan_drain reads what the executor left.
 *
 * LOCKING: the caller has locked source and leaves before it took the
 * snapshot; the scan opens them with NoLock.
 *
 * MEMORY: everything of a leaf that is being read is in the query context of
 * the executor, or in the caller's context without an executor.
 */
#include "postgres.h"

#include "access/attmap.h"
#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/tupmacs.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/extensible.h"
#include "nodes/tidbitmap.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/restrictinfo.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "compat.h"
#include "guc.h"
#include "position.h"
#include "scan.h"
#include "stamp.h"

/* more transactions in progress than this are looked up as one range */
#define MAX_SINGLE_STAMPS 4

/* offsets of a number in the shape of a tid: 1 .. this */
#define ORDINALS_PER_BLOCK 60000

/* memory for a bitmap of pages before it turns to chunks of pages */
#define BITMAP_BYTES (1024 * 1024L)

/* in the entry of the stream in an input query */
#define INPUT_MARK "tidemark stream"

/* blocks that are looked at to divide a backlog */
#define CUT_SAMPLES 128

/* blocks [start, end) */
typedef struct BlockRange
{
	BlockNumber start;
	BlockNumber end;
} BlockRange;

/* the reading of one request */
typedef struct TideScanState
{
	CustomScanState css;		/* must be first; unused without executor */
	TideScanRequest *request;
	int			max_attno;		/* columns of the source that are needed */
	AttrNumber	event_attno;	/* the event time is this column, or 0 */
	ExprState  *event_time;		/* else this expression */
	AttrNumber *columns;		/* see find_columns */
	int			next_leaf;		/* index into request->leaves */
	/* the leaf that is being read */
	TideScanLeaf *leaf;
	Relation	rel;
	TableScanDesc scan;
	TupleTableSlot *leaf_slot;
	AttrMap    *attmap;			/* source column -> leaf column, or NULL */
	AttrNumber	stamp_attno;
	int64		missing_stamp;	/* of rows from before the column */
	bool		missing_stamp_is_null;
	int			leaf_max_attno; /* columns of the leaf that are needed */
	BlockRange *ranges;
	int			nranges;
	int			next_range;
	/* numbers of rows */
	int64		ordinal;		/* of the next row */
	int64		judged;			/* rows below are counted */
} TideScanState;

static TideScanRequest *active_request = NULL;
static set_rel_pathlist_hook_type previous_pathlist_hook = NULL;

static void set_stream_path(PlannerInfo *root, RelOptInfo *rel, Index rti,
							RangeTblEntry *rte);
static Plan *plan_stream_path(PlannerInfo *root, RelOptInfo *rel,
							  CustomPath *best_path, List *tlist,
							  List *clauses, List *custom_plans);
static Node *create_state(CustomScan *cscan);
static void begin_scan(CustomScanState *node, EState *estate, int eflags);
static TupleTableSlot *exec_scan(CustomScanState *node);
static void end_scan(CustomScanState *node);
static void rescan(CustomScanState *node);
static TupleTableSlot *next_passed_row(TideScanState *state);
static bool next_row(TideScanState *state);
static AttrNumber *find_columns(List *target_list);
static bool open_next_leaf(TideScanState *state);
static void close_leaf(TideScanState *state);

static const CustomPathMethods path_methods = {
	.CustomName = "TidemarkStreamScan",
	.PlanCustomPath = plan_stream_path
};

static const CustomScanMethods scan_methods = {
	.CustomName = "TidemarkStreamScan",
	.CreateCustomScanState = create_state
};

static const CustomExecMethods exec_methods = {
	.CustomName = "TidemarkStreamScan",
	.BeginCustomScan = begin_scan,
	.ExecCustomScan = exec_scan,
	.EndCustomScan = end_scan,
	.ReScanCustomScan = rescan
};

/* Install the planner hook.  Called once, from _PG_init. */
void
tide_scan_register(void)
{
	RegisterCustomScanMethods(&scan_methods);
	previous_pathlist_hook = set_rel_pathlist_hook;
	set_rel_pathlist_hook = set_stream_path;
}

/*
 * Let plans of the request's input query read the stream by this request until
 * it is cleared.  An error in between is followed by tide_scan_clear_request
 * in the caller's PG_FINALLY.
 *
 * Other queries of the stream are planned meanwhile, as those of functions of
 * the user, and inlined ones become part of ours: they must see an ordinary
 * table.  So the entry itself is marked, in the name of a CTE, which means
 * nothing for a relation and goes along when the planner copies the entry.
 */
void
tide_scan_set_request(TideScanRequest *request)
{
	TideQuery  *query = request->query;
	RangeTblEntry *rte = rt_fetch(query->stream_rti, query->input->rtable);

	Assert(active_request == NULL);
	rte->ctename = pstrdup(INPUT_MARK);
	active_request = request;
}

/* Is this entry the stream of a batch's input query? */
static bool
is_input_stream(RangeTblEntry *rte)
{
	return active_request != NULL && rte->rtekind == RTE_RELATION &&
		rte->relid == active_request->query->stream &&
		rte->ctename != NULL && strcmp(rte->ctename, INPUT_MARK) == 0;
}

/* Plans are ordinary ones again. */
void
tide_scan_clear_request(void)
{
	active_request = NULL;
}

/* The number that a row has in place of its ctid. */
int64
tide_scan_ordinal(Datum tid)
{
	ItemPointer pointer = (ItemPointer) DatumGetPointer(tid);

	return (int64) ItemPointerGetBlockNumberNoCheck(pointer) *
		ORDINALS_PER_BLOCK +
		ItemPointerGetOffsetNumberNoCheck(pointer) - 1;
}

/* The inverse of tide_scan_ordinal. */
static void
set_ordinal(ItemPointer pointer, int64 ordinal)
{
	ItemPointerSet(pointer, (BlockNumber) (ordinal / ORDINALS_PER_BLOCK),
				   (OffsetNumber) (ordinal % ORDINALS_PER_BLOCK + 1));
}

/*
 * The leaves of a source: itself, or the leaf partitions of a partitioned
 * table, in the order of their OIDs.  Locks source and leaves (AccessShare) to
 * the end of the transaction; the source must exist.
 */
List *
tide_scan_source_leaves(Oid source)
{
	List	   *leaves = NIL;
	ListCell   *lc;

	foreach(lc, find_all_inheritors(source, AccessShareLock, NULL))
	{
		char		relkind = get_rel_relkind(lfirst_oid(lc));

		if (relkind == RELKIND_RELATION)
			leaves = lappend_oid(leaves, lfirst_oid(lc));
	}

	return leaves;
}

/* --------------------------------------------------------------------------
 * Planning
 * --------------------------------------------------------------------------
 */

/* set_rel_pathlist_hook: in a batch, the stream has the stream scan only. */
static void
set_stream_path(PlannerInfo *root, RelOptInfo *rel, Index rti,
				RangeTblEntry *rte)
{
	CustomPath *path;

	if (previous_pathlist_hook)
		previous_pathlist_hook(root, rel, rti, rte);

	if (!is_input_stream(rte))
		return;

	/* a partitioned table was made dummy, as we read it with inh = false */
	rel->rows = clamp_row_est(active_request->estimate);

	path = makeNode(CustomPath);
	path->path.pathtype = T_CustomScan;
	path->path.parent = rel;
	path->path.pathtarget = rel->reltarget;
	path->path.rows = rel->rows;
	path->path.total_cost = rel->rows * 0.01;
	path->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	path->methods = &path_methods;

	rel->pathlist = NIL;
	rel->partial_pathlist = NIL;
	rel->consider_parallel = false;
	add_path(rel, (Path *) path);
}

/* PlanCustomPath: the node with its quals, which it evaluates itself. */
static Plan *
plan_stream_path(PlannerInfo *root, RelOptInfo *rel, CustomPath *best_path,
				 List *tlist, List *clauses, List *custom_plans)
{
	CustomScan *cscan = makeNode(CustomScan);
	bool		pseudoconstant = false;

	cscan->scan.plan.targetlist = tlist;
	cscan->scan.plan.qual = extract_actual_clauses(clauses, pseudoconstant);
	cscan->scan.scanrelid = rel->relid;
	cscan->flags = best_path->flags;
	cscan->methods = &scan_methods;

	return (Plan *) cscan;
}

/* CreateCustomScanState. */
static Node *
create_state(CustomScan *cscan)
{
	TideScanState *state = palloc0(sizeof(TideScanState));

	NodeSetTag(state, T_CustomScanState);
	state->css.methods = &exec_methods;

	return (Node *) state;
}

/* --------------------------------------------------------------------------
 * Executing
 * --------------------------------------------------------------------------
 */

/* The highest column of the source that an expression needs; all for *. */
static int
max_attno_used(Node *node, Index varno, int natts)
{
	Bitmapset  *attnos = NULL;
	int			x = -1;
	int			max = 0;

	pull_varattnos(node, varno, &attnos);
	while ((x = bms_next_member(attnos, x)) >= 0)
	{
		int			attno = x + FirstLowInvalidHeapAttributeNumber;

		if (attno == 0)
			return natts;
		max = Max(max, attno);
	}

	return max;
}

/*
 * Connect a scan with its request and prepare the event time.  parent is NULL
 * when there is no executor node.
 */
static void
attach_request(TideScanState *state, TideScanRequest *request,
			   PlanState *parent)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	int			natts = slot->tts_tupleDescriptor->natts;
	TideQuery  *query = request->query;
	Expr	   *event_time = query->event_time;

	state->request = request;
	request->state = state;
	if (IsA(event_time, Var))
		state->event_attno = castNode(Var, event_time)->varattno;
	else
		state->event_time = ExecInitExpr(expression_planner(copyObject(event_time)),
										 parent);
	state->max_attno = Max(state->max_attno,
						   max_attno_used((Node *) event_time,
										  query->stream_rti, natts));

	/* columns that nobody needs stay NULL */
	memset(slot->tts_isnull, true, sizeof(bool) * natts);
	memset(slot->tts_values, 0, sizeof(Datum) * natts);
}

/* BeginCustomScan. */
static void
begin_scan(CustomScanState *node, EState *estate, int eflags)
{
	TideScanState *state = (TideScanState *) node;
	CustomScan *cscan = (CustomScan *) node->ss.ps.plan;
	Index		varno = cscan->scan.scanrelid;
	int			natts = RelationGetNumberOfAttributes(node->ss.ss_currentRelation);

	if (active_request == NULL)
		elog(ERROR, "stream scan outside of a batch");

	state->max_attno =
		Max(max_attno_used((Node *) cscan->scan.plan.targetlist, varno, natts),
			max_attno_used((Node *) cscan->scan.plan.qual, varno, natts));
	attach_request(state, active_request, &node->ss.ps);
	if (tide_fast_path)
		state->columns = find_columns(cscan->scan.plan.targetlist);
}

/* ExecCustomScan. */
static TupleTableSlot *
exec_scan(CustomScanState *node)
{
	TideScanState *state = (TideScanState *) node;
	TupleTableSlot *slot = next_passed_row(state);

	if (slot == NULL || node->ss.ps.ps_ProjInfo == NULL)
		return slot;

	return ExecProject(node->ss.ps.ps_ProjInfo);
}

/* Is the stream scan all there is to a plan? */
bool
tide_scan_is_plan(TideScanRequest *request, PlanState *planstate)
{
	return request->state != NULL &&
		planstate == (PlanState *) &request->state->css;
}

/*
 * For every column of the target list the column of the source that it is, 0
 * for its number; NULL when one is something else.
 */
static AttrNumber *
find_columns(List *target_list)
{
	AttrNumber *columns = palloc(sizeof(AttrNumber) *
								 Max(list_length(target_list), 1));
	ListCell   *lc;

	foreach(lc, target_list)
	{
		Expr	   *expr = lfirst_node(TargetEntry, lc)->expr;
		AttrNumber	attno = IsA(expr, Var) ? ((Var *) expr)->varattno : 0;

		if (attno <= 0 && attno != SelfItemPointerAttributeNumber)
			return NULL;
		columns[foreach_current_index(lc)] = Max(attno, 0);
	}

	return columns;
}

/* See scan.h. */
TupleTableSlot *
tide_scan_next(TideScanRequest *request)
{
	TideScanState *state = request->state;
	PlanState  *planstate = &state->css.ss.ps;
	TupleTableSlot *result = planstate->ps_ResultTupleSlot;
	TupleTableSlot *slot = next_passed_row(state);
	int			i;

	if (slot == NULL || planstate->ps_ProjInfo == NULL)
		return slot;
	if (state->columns == NULL)
		return ExecProject(planstate->ps_ProjInfo);

	ExecClearTuple(result);
	for (i = 0; i < result->tts_tupleDescriptor->natts; i++)
	{
		AttrNumber	column = state->columns[i];

		result->tts_isnull[i] = column > 0 && slot->tts_isnull[column - 1];
		result->tts_values[i] = column > 0 ? slot->tts_values[column - 1] :
			PointerGetDatum(&slot->tts_tid);
	}

	return ExecStoreVirtualTuple(result);
}

/* EndCustomScan. */
static void
end_scan(CustomScanState *node)
{
	TideScanState *state = (TideScanState *) node;

	close_leaf(state);
	if (state->request != NULL)
		state->request->state = NULL;
}

/* ReScanCustomScan: from the start; what was judged stays judged. */
static void
rescan(CustomScanState *node)
{
	TideScanState *state = (TideScanState *) node;

	close_leaf(state);
	state->next_leaf = 0;
	state->ordinal = 0;
}

/* The event time of the row in the slot. */
static int64
read_event_time(TideScanState *state, ExprContext *context,
				TupleTableSlot *slot, bool *isnull)
{
	if (state->event_time == NULL)
	{
		*isnull = slot->tts_isnull[state->event_attno - 1];
		return DatumGetInt64(slot->tts_values[state->event_attno - 1]);
	}

	return DatumGetInt64(ExecEvalExprSwitchContext(state->event_time, context,
												   isnull));
}

/*
 * The next row that is on time and satisfies the quals, in the scan slot; NULL
 * at the end.  Counts the fates of the others.
 */
static TupleTableSlot *
next_passed_row(TideScanState *state)
{
	CustomScanState *node = &state->css;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	ExprContext *context = node->ss.ps.ps_ExprContext;
	TideScanRequest *request = state->request;

	ResetExprContext(context);
	context->ecxt_scantuple = slot;
	while (next_row(state))
	{
		TideCounters scratch;
		TideCounters *counters = &scratch;
		TideVerdict verdict;
		int64		event_time;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		if (state->ordinal > state->judged)
		{
			state->judged = state->ordinal;
			counters = request->counters;
			counters->v[TIDE_ROWS_IN]++;
		}

		event_time = read_event_time(state, context, slot, &isnull);
		verdict = tide_watermark_judge(request->judge, isnull, event_time,
									   counters);
		if (verdict == TIDE_VERDICT_NULL_TIME)
			counters->v[TIDE_ROWS_NULL_TIME]++;
		else if (verdict == TIDE_VERDICT_BEFORE_START ||
				 !ExecQual(node->ss.ps.qual, context))
			counters->v[TIDE_ROWS_FILTERED]++;
		else if (verdict == TIDE_VERDICT_LATE)
		{
			counters->v[TIDE_ROWS_LATE]++;
			if (counters == request->counters)
				tide_late_add(request->late, request->judge->window_start);
		}
		else
		{
			if (counters == request->counters)
				request->passed++;
			return slot;
		}
		ResetExprContext(context);
	}

	return NULL;
}

/* --------------------------------------------------------------------------
 * Reading
 * --------------------------------------------------------------------------
 */

/*
 * The stamp of the row in the leaf's slot.  It is nearly always the last
 * column, so that it can be had without looking at the ones before it: they
 * may be many, and most rows are not of the batch.
 */
static inline int64
read_stamp(TideScanState *state, bool *isnull)
{
	TupleTableSlot *slot = state->leaf_slot;

	if (TTS_IS_BUFFERTUPLE(slot))
	{
		HeapTuple	tuple = ((HeapTupleTableSlot *) slot)->tuple;
		HeapTupleHeader header = tuple->t_data;
		AttrNumber	attno = state->stamp_attno;
		int64		stamp;

		/* an int8 ends where the tuple ends */
		if (HeapTupleHeaderGetNatts(header) == attno)
		{
			*isnull = HeapTupleHasNulls(tuple) &&
				att_isnull(attno - 1, header->t_bits);
			memcpy(&stamp, (char *) header + tuple->t_len - sizeof(stamp),
				   sizeof(stamp));
			return stamp;
		}
		/* stored before the column was added */
		if (HeapTupleHeaderGetNatts(header) < attno)
		{
			*isnull = state->missing_stamp_is_null;
			return state->missing_stamp;
		}
	}

	return DatumGetInt64(slot_getattr(slot, state->stamp_attno, isnull));
}

/* Is the row in the leaf's slot one of the batch? */
static bool
row_belongs(TideScanState *state)
{
	bool		isnull;
	int64		stamp = read_stamp(state, &isnull);

	if (isnull || state->request->unstamped)
		return isnull && state->request->unstamped;

	return tide_position_consumed(&state->request->to, stamp) &&
		!tide_position_consumed(&state->leaf->from, stamp);
}

/* Start the next block range of the current leaf; false: there is none. */
static bool
start_next_range(TideScanState *state)
{
	BlockRange *range;
	ItemPointerData first;
	ItemPointerData last;

	if (state->next_range >= state->nranges)
		return false;
	range = &state->ranges[state->next_range++];
	ItemPointerSet(&first, range->start, FirstOffsetNumber);
	ItemPointerSet(&last, range->end - 1, MaxOffsetNumber);
	if (state->scan == NULL)
		state->scan = table_beginscan_tidrange(state->rel,
											   state->request->snapshot,
											   &first, &last);
	else
		table_rescan_tidrange(state->scan, &first, &last);
	state->request->counters->v[TIDE_BLOCKS_READ] += range->end - range->start;

	return true;
}

/*
 * Read the next row of the batch into the leaf's slot, without a number; false
 * at the end.
 */
static bool
next_leaf_row(TideScanState *state)
{
	for (;;)
	{
		if (state->rel == NULL && !open_next_leaf(state))
			return false;

		if (state->scan != NULL)
		{
			while (table_scan_getnextslot_tidrange(state->scan,
												   ForwardScanDirection,
												   state->leaf_slot))
			{
				if (row_belongs(state))
					return true;
			}
			CHECK_FOR_INTERRUPTS();
		}
		if (!start_next_range(state))
			close_leaf(state);
	}
}

/* Read the next row of the batch into the scan slot and give it its number. */
static bool
next_row(TideScanState *state)
{
	TupleTableSlot *slot = state->css.ss.ss_ScanTupleSlot;
	TupleTableSlot *leaf_slot;
	int			i;

	ExecClearTuple(slot);
	if (!next_leaf_row(state))
		return false;

	leaf_slot = state->leaf_slot;
	slot_getsomeattrs(leaf_slot, state->leaf_max_attno);
	for (i = 0; i < state->max_attno; i++)
	{
		int			source = state->attmap ? state->attmap->attnums[i] : i + 1;

		/* 0: a dropped column of the source */
		slot->tts_isnull[i] = source == 0 || leaf_slot->tts_isnull[source - 1];
		slot->tts_values[i] = source == 0 ? (Datum) 0 :
			leaf_slot->tts_values[source - 1];
	}
	ExecStoreVirtualTuple(slot);
	slot->tts_tableOid = leaf_slot->tts_tableOid;
	set_ordinal(&slot->tts_tid, state->ordinal++);

	return true;
}

/* A scan key on the stamp column. */
static void
init_stamp_key(ScanKey key, StrategyNumber strategy, RegProcedure procedure,
			   int64 stamp)
{
	int			no_flags = 0;
	AttrNumber	first_column = 1;

	ScanKeyEntryInitialize(key, no_flags, first_column, strategy,
						   tide_stamp_type(), InvalidOid, procedure,
						   Int64GetDatum(stamp));
}

/* Add the pages that may hold stamps of [low, high] to a bitmap. */
static void
add_stamp_pages(Relation index, Snapshot snapshot, int64 low, int64 high,
				TIDBitmap *bitmap)
{
	ScanKeyData keys[2];
	IndexScanDesc scan;

	init_stamp_key(&keys[0], BTGreaterEqualStrategyNumber, F_INT8GE, low);
	init_stamp_key(&keys[1], BTLessEqualStrategyNumber, F_INT8LE, high);
	scan = TIDE_INDEX_BEGINSCAN_BITMAP(index, snapshot, lengthof(keys));
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	(void) index_getbitmap(scan, bitmap);
	index_endscan(scan);
}

/* Add the pages that may hold rows without a stamp to a bitmap. */
static void
add_unstamped_pages(Relation index, Snapshot snapshot, TIDBitmap *bitmap)
{
	AttrNumber	first_column = 1;
	ScanKeyData key;
	IndexScanDesc scan;

	ScanKeyEntryInitialize(&key, SK_ISNULL | SK_SEARCHNULL, first_column,
						   InvalidStrategy, InvalidOid, InvalidOid, InvalidOid,
						   (Datum) 0);
	scan = TIDE_INDEX_BEGINSCAN_BITMAP(index, snapshot, 1);
	index_rescan(scan, &key, 1, NULL, 0);
	(void) index_getbitmap(scan, bitmap);
	index_endscan(scan);
}

/*
 * Ask the index for the pages of the batch's rows: those of transactions that
 * began after `from`, and of those in progress there that `to` consumed.
 */
static void
collect_pages(TideScanState *state, Relation index, TIDBitmap *bitmap)
{
	const TidePosition *from = &state->leaf->from;
	const TidePosition *to = &state->request->to;
	Snapshot	snapshot = state->request->snapshot;
	int64		low = PG_INT64_MAX;
	int64		high = 0;
	int			n = 0;
	int			i;

	if (state->request->unstamped)
	{
		add_unstamped_pages(index, snapshot, bitmap);
		return;
	}
	if (from->xmax < to->xmax)
		add_stamp_pages(index, snapshot, from->xmax, to->xmax - 1, bitmap);
	for (i = 0; i < from->nin_progress; i++)
	{
		int64		stamp = from->in_progress[i];

		if (!tide_position_consumed(to, stamp))
			continue;
		low = Min(low, stamp);
		high = Max(high, stamp);
		if (++n <= MAX_SINGLE_STAMPS)
			add_stamp_pages(index, snapshot, stamp, stamp, bitmap);
	}
	if (n > MAX_SINGLE_STAMPS)
		add_stamp_pages(index, snapshot, low, high, bitmap);
}

/* Turn a bitmap of pages into ranges of blocks below nblocks. */
static void
make_ranges(TideScanState *state, TIDBitmap *bitmap, BlockNumber nblocks)
{
	TideBitmapIterator *iterator = TIDE_BITMAP_BEGIN(bitmap);
	int			allocated = 16;

	TIDE_BITMAP_RESULT(page);

	state->ranges = palloc(sizeof(BlockRange) * allocated);
	while (TIDE_BITMAP_NEXT(iterator, page))
	{
		BlockRange *last = &state->ranges[state->nranges - 1];

		if (page->blockno >= nblocks)
			continue;
		if (state->nranges > 0 && last->end == page->blockno)
		{
			last->end++;
			continue;
		}
		if (state->nranges == allocated)
		{
			allocated *= 2;
			state->ranges = repalloc(state->ranges,
									 sizeof(BlockRange) * allocated);
		}
		state->ranges[state->nranges].start = page->blockno;
		state->ranges[state->nranges].end = page->blockno + 1;
		state->nranges++;
	}
	TIDE_BITMAP_END(iterator);
}

/* Find the block ranges of the leaf that is being opened. */
static void
find_ranges(TideScanState *state)
{
	TideScanLeaf *leaf = state->leaf;
	BlockNumber nblocks = RelationGetNumberOfBlocks(state->rel);
	Oid			index_oid = InvalidOid;

	state->nranges = 0;
	state->next_range = 0;
	if (leaf->end_block != InvalidBlockNumber)
		nblocks = Min(nblocks, leaf->end_block);
	else if (leaf->from.xmax > 0 || state->request->unstamped)
		index_oid = tide_stamp_index(state->rel);

	if (OidIsValid(index_oid))
	{
		Relation	index = index_open(index_oid, AccessShareLock);
		TIDBitmap  *bitmap = tbm_create(BITMAP_BYTES, NULL);

		collect_pages(state, index, bitmap);
		make_ranges(state, bitmap, nblocks);
		tbm_free(bitmap);
		index_close(index, AccessShareLock);
	}
	else if (leaf->start_block < nblocks)
	{
		state->ranges = palloc(sizeof(BlockRange));
		state->ranges[0].start = leaf->start_block;
		state->ranges[0].end = nblocks;
		state->nranges = 1;
	}
}

/* Open the next leaf; false: there is none.  Reading starts with its ranges. */
static bool
open_next_leaf(TideScanState *state)
{
	TideScanRequest *request = state->request;
	MemoryContext old_context = CurrentMemoryContext;
	int			i;

	if (state->next_leaf >= list_length(request->leaves))
		return false;
	if (state->css.ss.ps.state != NULL)
		MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

	state->leaf = list_nth(request->leaves, state->next_leaf++);
	state->rel = table_open(state->leaf->relid, NoLock);
	state->leaf_slot = table_slot_create(state->rel, NULL);
	state->stamp_attno = tide_stamp_attno(state->rel);
	if (state->stamp_attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("table \"%s\" has no column \"%s\"",
						RelationGetRelationName(state->rel),
						TIDE_STAMP_COLUMN),
				 errhint("Drop the stream with tidemark.drop_stream and create it again.")));

	state->missing_stamp =
		DatumGetInt64(getmissingattr(RelationGetDescr(state->rel),
									 state->stamp_attno,
									 &state->missing_stamp_is_null));
	state->attmap = NULL;
	state->leaf_max_attno = state->max_attno;
	if (state->max_attno > 0 && state->leaf->relid != request->query->stream)
	{
		Relation	source = table_open(request->query->stream, NoLock);

		state->attmap = TIDE_ATTRMAP_IF_REQ(RelationGetDescr(state->rel),
											RelationGetDescr(source));
		table_close(source, NoLock);
	}
	if (state->attmap != NULL)
	{
		state->leaf_max_attno = 0;
		for (i = 0; i < state->max_attno; i++)
			state->leaf_max_attno = Max(state->leaf_max_attno,
										state->attmap->attnums[i]);
	}
	find_ranges(state);
	MemoryContextSwitchTo(old_context);

	return true;
}

/* Stop reading the current leaf, if there is one. */
static void
close_leaf(TideScanState *state)
{
	if (state->rel == NULL)
		return;
	if (state->scan != NULL)
		table_endscan(state->scan);
	ExecDropSingleTupleTableSlot(state->leaf_slot);
	if (state->attmap != NULL)
		free_attrmap(state->attmap);
	if (state->ranges != NULL)
		pfree(state->ranges);
	table_close(state->rel, NoLock);
	state->scan = NULL;
	state->leaf_slot = NULL;
	state->attmap = NULL;
	state->ranges = NULL;
	state->rel = NULL;
}

/* --------------------------------------------------------------------------
 * Without the executor
 * --------------------------------------------------------------------------
 */

/*
 * Read what the executor left unread, so that every row has its fate and the
 * watermark has seen all of them.  Call between ExecutorRun and ExecutorEnd.
 * When the planner proved that nothing can come out there is no node.
 */
void
tide_scan_drain(TideScanRequest *request)
{
	TideScanState *state = request->state;
	bool		has_node = state != NULL;

	if (!has_node)
	{
		Relation	source = table_open(request->query->stream, NoLock);
		PlanState  *no_parent = NULL;

		state = palloc0(sizeof(TideScanState));
		state->css.ss.ss_ScanTupleSlot =
			MakeSingleTupleTableSlot(RelationGetDescr(source), &TTSOpsVirtual);
		state->css.ss.ps.ps_ExprContext = CreateStandaloneExprContext();
		attach_request(state, request, no_parent);
		table_close(source, NoLock);
	}

	/* whatever passes: nothing will come out of it */
	while (next_passed_row(state) != NULL)
		CHECK_FOR_INTERRUPTS();

	if (!has_node)
	{
		FreeExprContext(state->css.ss.ps.ps_ExprContext, true);
		ExecDropSingleTupleTableSlot(state->css.ss.ss_ScanTupleSlot);
		request->state = NULL;
		pfree(state);
	}
}

/* Is there any row to read?  Needs no plan. */
bool
tide_scan_probe(TideScanRequest *request)
{
	TideScanState *state = palloc0(sizeof(TideScanState));
	bool		found;

	state->request = request;
	found = next_leaf_row(state);
	close_leaf(state);
	pfree(state);

	return found;
}

/* How many rows are there to read?  Needs no plan. */
int64
tide_scan_count_rows(TideScanRequest *request)
{
	TideScanState *state = palloc0(sizeof(TideScanState));
	int64		rows = 0;

	state->request = request;
	while (next_leaf_row(state))
	{
		CHECK_FOR_INTERRUPTS();
		rows++;
	}
	pfree(state);

	return rows;
}

/* See scan.h. */
void
tide_scan_visit_unstamped(List *leaves, Snapshot snapshot,
						  TideUnstampedCallback callback, void *arg)
{
	TideScanState *state = palloc0(sizeof(TideScanState));
	TideScanRequest request = {0};
	TideCounters scratch = {{0}};
	ListCell   *lc;

	foreach(lc, leaves)
	{
		TideScanLeaf *leaf = palloc0(sizeof(TideScanLeaf));

		leaf->relid = lfirst_oid(lc);
		leaf->end_block = InvalidBlockNumber;
		request.leaves = lappend(request.leaves, leaf);
	}
	request.snapshot = snapshot;
	request.counters = &scratch;
	request.unstamped = true;
	state->request = &request;
	while (next_leaf_row(state))
		callback(state->rel, state->leaf_slot, arg);
	pfree(state);
}

/* How many blocks the request would read.  Needs no plan. */
int64
tide_scan_count_blocks(TideScanRequest *request)
{
	TideScanState *state = palloc0(sizeof(TideScanState));
	int64		blocks = 0;
	int			i;

	state->request = request;
	while (open_next_leaf(state))
	{
		for (i = 0; i < state->nranges; i++)
			blocks += state->ranges[i].end - state->ranges[i].start;
		close_leaf(state);
	}
	pfree(state);

	return blocks;
}

/*
 * The stamp of the first row of the batch at or after a block of the leaf that
 * is open, up to the end of the range; -1: there is none.
 */
static int64
stamp_at(TideScanState *state, BlockNumber block, BlockNumber end)
{
	ItemPointerData first;
	ItemPointerData last;
	int64		stamp = -1;

	ItemPointerSet(&first, block, FirstOffsetNumber);
	ItemPointerSet(&last, end - 1, MaxOffsetNumber);
	if (state->scan == NULL)
		state->scan = table_beginscan_tidrange(state->rel,
											   state->request->snapshot,
											   &first, &last);
	else
		table_rescan_tidrange(state->scan, &first, &last);
	while (stamp < 0 &&
		   table_scan_getnextslot_tidrange(state->scan, ForwardScanDirection,
										   state->leaf_slot))
	{
		bool		isnull;

		if (row_belongs(state))
			stamp = read_stamp(state, &isnull);
	}

	return stamp;
}

/*
 * A stamp below which about a share of the request's rows lie, for a piece of
 * it: always above the stamp of some row, and to.xmax when there is no use in
 * dividing.  From a sample of the blocks; stamps follow physical order.
 */
int64
tide_scan_find_cut(TideScanRequest *request, int64 blocks, double share)
{
	TideScanState *state = palloc0(sizeof(TideScanState));
	int64	   *samples = palloc(sizeof(int64) * CUT_SAMPLES * 2);
	BlockNumber step = Max(blocks / CUT_SAMPLES, 1);
	int			nsamples = 0;
	int			wanted;
	int			i;

	state->request = request;
	while (open_next_leaf(state))
	{
		for (i = 0; i < state->nranges; i++)
		{
			BlockNumber block = state->ranges[i].start;

			for (; block < state->ranges[i].end; block += step)
			{
				int64		stamp;

				CHECK_FOR_INTERRUPTS();
				if (nsamples >= CUT_SAMPLES * 2)
					break;
				stamp = stamp_at(state, block,
								 Min(block + step, state->ranges[i].end));
				if (stamp >= 0)
					samples[nsamples++] = stamp;
			}
		}
		close_leaf(state);
	}
	pfree(state);
	if (nsamples == 0)
		return request->to.xmax;

	qsort(samples, nsamples, sizeof(int64),
		  tide_position_compare_stamps);
	wanted = Min((int) (nsamples * share), nsamples - 1);
	while (wanted < nsamples && samples[wanted] == samples[0])
		wanted++;

	return wanted < nsamples ? samples[wanted] : request->to.xmax;
}
