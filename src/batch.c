/*
 * batch.c
 *		The transaction of one batch.
 *
 * A batch reads the rows that were committed since the last one, merges them
 * into the storage table, advances the watermark and writes the checkpoint,
 * all in the caller's transaction: INVARIANT I2, they commit together or not
 * at all.
 *
 * The order matters.  Locks first: source and leaves, what else the query
 * reads, the user's view, definition and storage, the checkpoint.  Then the
 * plan.  Then the snapshot S2: a rewriting ALTER TABLE that commits
 * after the snapshot and before the lock would make rows invisible that the
 * position counts as consumed.  Then the query, under S2.
 *
 * What is larger than tidemark.piece_blocks is read in pieces, a transaction
 * each, but is one logical batch: its target position and its clock are fixed
 * when the first piece starts, every piece judges with the watermark from
 * before it, and watermark, finality and notification come with the last one.
 *
 * - A backlog is divided by stamps: a piece goes up to a position between the
 *	 view's and the target, so it is a batch like any other, whatever happens
 *	 to the table meanwhile.
 * - A history, whose rows have no stamps of their own, is divided by blocks,
 *	 and relies on rows staying where they are.  When a leaf was rewritten
 *	 between two pieces, the results so far are thrown away and the history
 *	 starts over; they are those of this logical batch only, because a view
 *	 that stands at a position has no history.  A stream that allows updates
 *	 is read in one.
 *
 * TRANSACTIONS: run in the caller's transaction, which must be READ COMMITTED:
 * with a transaction snapshot the checkpoint that is read under its lock could
 * be newer than the rows that can be seen.
 *
 * SECURITY: the query runs as the view's owner (security.c); storage and
 * catalog are written through the table AM, which asks nobody.
 *
 * MEMORY: everything is in a context of the batch, freed at its end; an error
 * leaves it to the end of the transaction.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_type.h"
#include "commands/async.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/json.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "analyze.h"
#include "batch.h"
#include "catalog.h"
#include "definition.h"
#include "fault.h"
#include "groups.h"
#include "guc.h"
#include "late.h"
#include "position.h"
#include "restore.h"
#include "scan.h"
#include "security.h"
#include "shmem.h"
#include "stamp.h"
#include "storage.h"
#include "watermark.h"

/* the history has at most one row a view in this time */
#define SAMPLE_INTERVAL USECS_PER_SEC

/* rows between two looks at the memory that states take */
#define MEMORY_CHECK_ROWS 256

/* a notification is left out when the queue is fuller than this */
#define NOTIFY_QUEUE_LIMIT 0.8

/* receives the rows of the input query */
typedef struct Receiver
{
	DestReceiver pub;			/* must be first */
	struct Batch *batch;
} Receiver;

/* one batch */
typedef struct Batch
{
	TideView   *view;
	TideStream *stream;
	TideCheckpoint *checkpoint;
	Oid			owner;
	List	   *leaves;			/* OIDs, as they are now */
	List	   *pieces;			/* of TidePiece *, when has_target */
	bool		is_last;		/* finishes the logical batch */
	bool		is_history;		/* pieces are blocks, not stamps */
	TideQuery  *query;
	TideJudge	judge;
	TideCounters counters;
	TideScanRequest request;
	TideLate   *late;
	TideAggExec *aggs;
	TideGroups *groups;
	TideStorage *storage;
	MemoryContext row_context;
	Receiver	receiver;
	int64		rows_received;
	uint8	   *came_out;		/* bit per source row, for joins */
	Size		came_out_bytes;
	instr_time	merge_time;
} Batch;

/* what the last commit of this process took, for the batch after it */
static Oid	last_committed_view = InvalidOid;
static int64 last_commit_usec = 0;

/* is a batch running in this process? */
static bool is_running = false;

static TideBatchReport run_batch(Oid viewid, bool wait);
static void check_position(Batch *batch, const TidePosition *position);
static bool lock_source(Batch *batch, bool wait, bool *is_gone);
static bool lock_all(Batch *batch, Oid viewid, bool wait, bool *is_gone);
static List *whole_leaves(Batch *batch);
static bool has_work(Batch *batch, Snapshot snapshot,
					 const TidePosition *position);
static void read_rows(Batch *batch);
static void advance_position(Batch *batch);
static void finish_logical_batch(Batch *batch);
static void write_checkpoint(Batch *batch);
static void flush_groups(Batch *batch);

/* --------------------------------------------------------------------------
 * Entry points
 * --------------------------------------------------------------------------
 */

/* Refuse what a batch cannot run in. */
static void
check_transaction(void)
{
	PreventCommandIfReadOnly("tidemark batch");
	if (IsolationUsesXactSnapshot())
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("cannot run a batch with the snapshot of a transaction"),
				 errdetail("The snapshot may be older than the view's position."),
				 errhint("Use isolation level READ COMMITTED.")));
}

/*
 * Run one batch; see batch.h.  A function of the user that a batch calls cannot
 * run another: the checkpoint lock does not stand between the two.
 */
TideBatchReport
tide_batch_run(Oid viewid, bool wait)
{
	TideBatchReport report;

	if (is_running)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot run a batch inside of a batch"),
				 errhint("Do not call tidemark.catch_up in a function that a continuous view uses.")));

	is_running = true;
	PG_TRY();
	{
		report = run_batch(viewid, wait);
	}
	PG_FINALLY();
	{
		is_running = false;
	}
	PG_END_TRY();

	return report;
}

/*
 * What a restore brings is complete when its session ends.  Asked after the
 * view's row was read, which then is there with the mark of its restore.
 */
static void
refuse_restore(Oid viewid)
{
	if (tide_restore_is_running())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("cannot run a batch of \"%s\" while a dump is restored",
						get_rel_name(viewid)),
				 errdetail("Another session has inserted into the tables of tidemark."),
				 errhint("Try again when that session has ended.")));
}

/* The batch of tide_batch_run. */
static TideBatchReport
run_batch(Oid viewid, bool wait)
{
	TideBatchReport report = {TIDE_BATCH_GONE, false, false};
	MemoryContext old_context = CurrentMemoryContext;
	MemoryContext context;
	Batch	   *batch;
	Snapshot	snapshot;
	TidePosition position;
	bool		is_gone = false;

	check_transaction();
	context = AllocSetContextCreate(CurrentMemoryContext, "tidemark batch",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	batch = palloc0(sizeof(Batch));

	TIDE_FAULT("batch: begin");
	if (!lock_all(batch, viewid, wait, &is_gone))
		report.result = is_gone ? TIDE_BATCH_GONE : TIDE_BATCH_BUSY;
	else if (!wait && tide_restore_is_running())
		report.result = TIDE_BATCH_BUSY;
	else
	{
		TIDE_FAULT("batch: locked");
		if (wait)
			refuse_restore(viewid);
		snapshot = RegisterSnapshot(GetLatestSnapshot());
		position = tide_position_capture(snapshot);
		report.waits_for_writers = position.nin_progress > 0;
		report.is_continuation = batch->checkpoint->has_target;
		check_position(batch, &position);
		if (!has_work(batch, snapshot, &position))
			report.result = TIDE_BATCH_NOTHING;
		else
		{
			TideSecurity saved;

			/* the owner may have changed behind our back */
			tide_storage_give(batch->view->storage, batch->owner);
			tide_security_enter(&saved, batch->owner, batch->view->settings);
			read_rows(batch);
			if (batch->is_last || !batch->is_history)
				advance_position(batch);
			if (batch->is_last)
				finish_logical_batch(batch);
			tide_security_leave(&saved);
			write_checkpoint(batch);
			report.result = batch->is_last ? TIDE_BATCH_DONE :
				TIDE_BATCH_PIECE;
		}
		UnregisterSnapshot(snapshot);
	}

	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);

	return report;
}

/*
 * A batch that only looks: its leaves and checkpoint, without the checkpoint
 * lock.  NULL: the source is locked and wait is false, or gone.
 */
static Batch *
begin_looking(const TideView *view, bool wait)
{
	Batch	   *batch = palloc0(sizeof(Batch));
	bool		is_gone = false;

	batch->view = (TideView *) view;
	if (!lock_source(batch, wait, &is_gone))
		return NULL;
	batch->checkpoint = tide_catalog_read_checkpoint(view->view, view->stream);
	if (batch->checkpoint == NULL)
		return NULL;
	if (batch->checkpoint->has_target)
		batch->pieces = tide_catalog_read_pieces(view->view);

	return batch;
}

/* See batch.h. */
bool
tide_batch_has_consumed(const TideView *view, const TidePosition *position)
{
	MemoryContext old_context = CurrentMemoryContext;
	MemoryContext context;
	bool		wait = false;
	Batch	   *batch;
	Snapshot	snapshot;
	bool		has_consumed;

	context = AllocSetContextCreate(CurrentMemoryContext, "tidemark batch",
									ALLOCSET_DEFAULT_SIZES);
	MemoryContextSwitchTo(context);
	batch = begin_looking(view, wait);
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	has_consumed = batch != NULL && !has_work(batch, snapshot, position);
	UnregisterSnapshot(snapshot);
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);

	return has_consumed;
}

/* See batch.h. */
int64
tide_batch_backlog(const TideView *view)
{
	bool		wait = false;
	Batch	   *batch = begin_looking(view, wait);
	TideScanRequest request = {0};
	int64		blocks = 0;
	ListCell   *lc;

	if (batch == NULL)
		return -1;
	foreach(lc, batch->pieces)
	{
		TidePiece  *piece = lfirst(lc);

		blocks += piece->end_block - piece->next_block;
	}
	if (batch->pieces != NIL)
		return blocks;

	request.snapshot = RegisterSnapshot(GetLatestSnapshot());
	request.to = tide_position_capture(request.snapshot);
	if (!tide_position_covers(&batch->checkpoint->position, &request.to))
	{
		TideCounters scratch = {{0}};

		request.leaves = whole_leaves(batch);
		request.counters = &scratch;
		if (tide_scan_probe(&request))
			blocks = tide_scan_count_blocks(&request);
	}
	UnregisterSnapshot(request.snapshot);

	return blocks;
}

/* See batch.h. */
double
tide_batch_history_share(const TideView *view)
{
	TideCheckpoint *checkpoint = tide_catalog_read_checkpoint(view->view,
															  view->stream);
	double		done;
	double		left = 0;
	int64		backlog;
	ListCell   *lc;

	if (checkpoint == NULL)
		return -1;
	if (checkpoint->position.xmax > 0)
		return 1;
	if (!checkpoint->has_target)
	{
		backlog = tide_batch_backlog(view);
		return backlog < 0 ? -1 : backlog == 0;
	}
	done = checkpoint->last.v[TIDE_BLOCKS_READ];
	foreach(lc, tide_catalog_read_pieces(view->view))
	{
		TidePiece  *piece = lfirst(lc);

		left += piece->end_block - piece->next_block;
	}

	return done + left > 0 ? done / (done + left) : 1;
}

/* Remember how long a commit took; the next batch of the view writes it. */
void
tide_batch_committed(Oid view, int64 commit_usec)
{
	last_committed_view = view;
	last_commit_usec = commit_usec;
}

/* --------------------------------------------------------------------------
 * Locks
 * --------------------------------------------------------------------------
 */

/* Lock a relation; false: not at once, or it is gone. */
static bool
lock_relation(Oid relid, bool wait, bool *is_gone)
{
	if (wait)
		LockRelationOid(relid, AccessShareLock);
	else if (!ConditionalLockRelationOid(relid, AccessShareLock))
		return false;
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)))
		return true;

	*is_gone = true;
	return false;
}

/*
 * Lock the source and find its leaves.  A worker does not wait for a leaf, as
 * it would be missing for other views; it comes back.
 */
static bool
lock_source(Batch *batch, bool wait, bool *is_gone)
{
	List	   *unlocked;
	ListCell   *lc;

	if (!lock_relation(batch->view->stream, wait, is_gone))
		return false;
	if (!wait)
	{
		unlocked = find_all_inheritors(batch->view->stream, NoLock, NULL);
		foreach(lc, unlocked)
		{
			bool		leaf_is_gone = false;

			if (!lock_relation(lfirst_oid(lc), wait, &leaf_is_gone))
				return false;
		}
	}
	batch->leaves = tide_scan_source_leaves(batch->view->stream);

	return true;
}

/*
 * Lock what the query of a view reads, views after what they read themselves:
 * what a DROP ... CASCADE begins with comes before what it goes on to.  The
 * planner takes these locks, too, but with those of our view held.  A worker
 * does not wait, as for a leaf.
 */
static bool
lock_used(Oid viewid, bool wait, bool *is_gone)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, tide_definition_relations(viewid))
	{
		Oid			relid = lfirst_oid(lc);

		if (get_rel_relkind(relid) == RELKIND_VIEW &&
			!lock_used(relid, wait, is_gone))
			return false;
		if (!lock_relation(relid, wait, is_gone))
			return false;
	}

	return true;
}

/*
 * Take all locks of a batch, in the order that DROP TABLE CASCADE and DROP
 * VIEW take theirs, and read what is under them.  False: gone, or busy.
 */
static bool
lock_all(Batch *batch, Oid viewid, bool wait, bool *is_gone)
{
	HeapTuple	tuple;

	batch->view = tide_catalog_read_view(viewid);
	*is_gone = batch->view == NULL || batch->view->paused;
	if (*is_gone)
		return false;
	if (!lock_source(batch, wait, is_gone) ||
		!lock_used(batch->view->definition, wait, is_gone) ||
		!lock_relation(viewid, wait, is_gone) ||
		!lock_relation(batch->view->definition, wait, is_gone) ||
		!lock_relation(batch->view->storage, wait, is_gone))
		return false;
	if (wait)
		tide_catalog_lock_checkpoint(viewid);
	else if (!tide_catalog_trylock_checkpoint(viewid))
		return false;

	/* the view may have been paused or made anew while we waited */
	batch->view = tide_catalog_read_view(viewid);
	*is_gone = batch->view == NULL || batch->view->paused;
	if (*is_gone)
		return false;
	batch->stream = tide_catalog_read_stream(batch->view->stream);
	batch->checkpoint = tide_catalog_read_checkpoint(viewid,
													 batch->view->stream);
	if (batch->stream == NULL || batch->checkpoint == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("continuous view \"%s\" has lost its %s",
						get_rel_name(viewid),
						batch->stream == NULL ? "stream" : "checkpoint"),
				 errhint("Drop the view and create it again.")));
	if (batch->checkpoint->has_target)
		batch->pieces = tide_catalog_read_pieces(viewid);

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(viewid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", viewid);
	batch->owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	ReleaseSysCache(tuple);

	return true;
}

/* --------------------------------------------------------------------------
 * What there is to read
 * --------------------------------------------------------------------------
 */

/*
 * Where a leaf stands: at its own position, at the view's, or nowhere when it
 * is new.
 */
static TidePosition
leaf_position(Batch *batch, List *own_positions, Oid relid)
{
	TidePosition nowhere = {0, 0, NULL};
	ListCell   *lc;

	foreach(lc, own_positions)
	{
		TideLeaf   *leaf = lfirst(lc);

		if (leaf->leaf == relid)
			return leaf->position;
	}
	if (list_member_oid(batch->checkpoint->leaves, relid))
		return batch->checkpoint->position;

	return nowhere;
}

/* What to read when everything is read at once. */
static List *
whole_leaves(Batch *batch)
{
	List	   *own_positions = tide_catalog_read_leaves(batch->view->view);
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, batch->leaves)
	{
		TideScanLeaf *leaf = palloc0(sizeof(TideScanLeaf));

		leaf->relid = lfirst_oid(lc);
		leaf->from = leaf_position(batch, own_positions, leaf->relid);
		leaf->end_block = InvalidBlockNumber;
		result = lappend(result, leaf);
	}

	return result;
}

/*
 * A position that lies behind the checkpoint's is one of another server, or of
 * one that was set back.
 */
static void
check_position(Batch *batch, const TidePosition *position)
{
	if (position->xmax < batch->checkpoint->position.xmax ||
		(batch->checkpoint->has_target &&
		 position->xmax < batch->checkpoint->target.xmax))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("position of continuous view \"%s\" is ahead of this server",
						get_rel_name(batch->view->view)),
				 errdetail("The view stands at %s, the server at %s.",
						   tide_position_out(&batch->checkpoint->position),
						   tide_position_out(position)),
				 errhint("After a restore from another server, call tidemark.rebase().")));
}

/*
 * Is there a row to read?  Cheap when nothing was committed, and without a
 * transaction id: an idle view costs a snapshot.
 */
static bool
has_work(Batch *batch, Snapshot snapshot, const TidePosition *position)
{
	TideScanRequest *request = &batch->request;
	bool		leaves_are_known = true;
	ListCell   *lc;

	if (batch->checkpoint->has_target)
		return true;

	foreach(lc, batch->leaves)
		leaves_are_known &= list_member_oid(batch->checkpoint->leaves,
											lfirst_oid(lc));
	if (leaves_are_known &&
		tide_position_covers(&batch->checkpoint->position, position))
		return false;

	request->leaves = whole_leaves(batch);
	request->to = *position;
	request->snapshot = snapshot;
	request->counters = &batch->counters;
	if (!tide_scan_probe(request))
		return false;
	memset(&batch->counters, 0, sizeof(batch->counters));

	return true;
}

/* --------------------------------------------------------------------------
 * Pieces
 * --------------------------------------------------------------------------
 */

/* The file and the length of a leaf, which is locked. */
static TidePiece *
describe_leaf(Oid relid)
{
	TidePiece  *piece = palloc0(sizeof(TidePiece));
	Relation	rel = table_open(relid, NoLock);

	piece->leaf = relid;
	piece->relfilenode = TIDE_RELFILENUMBER(rel);
	piece->end_block = RelationGetNumberOfBlocks(rel);
	table_close(rel, NoLock);

	return piece;
}

/*
 * Start a logical batch up to the position, with the pieces of a history that
 * is large, unless updates may move rows from blocks that are not read yet to
 * blocks that are, or the other way round.
 */
static void
start_logical_batch(Batch *batch, const TidePosition *position)
{
	TideCheckpoint *checkpoint = batch->checkpoint;
	TimestampTz clock = GetCurrentTimestamp();
	int64		blocks = 0;
	List	   *pieces = NIL;
	ListCell   *lc;

	memset(&checkpoint->last, 0, sizeof(checkpoint->last));
	if (!TIMESTAMP_IS_NOBEGIN(checkpoint->batch_clock))
		batch->counters.v[TIDE_TIME_ARRIVAL] =
			Max(clock - checkpoint->batch_clock, 0);
	checkpoint->batch_clock = clock;
	checkpoint->batch_max_event_time = DT_NOBEGIN;
	if (!batch->is_history || batch->stream->allow_update)
		return;

	foreach(lc, batch->leaves)
	{
		TidePiece  *piece = describe_leaf(lfirst_oid(lc));

		pieces = lappend(pieces, piece);
		blocks += piece->end_block;
	}
	if (blocks <= tide_piece_blocks)
		return;

	TIDE_FAULT("batch: before first pieces");
	foreach(lc, pieces)
		tide_catalog_put_piece(batch->view->view, lfirst(lc));
	TIDE_FAULT("batch: after first pieces");
	batch->pieces = pieces;
	checkpoint->has_target = true;
	checkpoint->target = *position;
	checkpoint->leaves = batch->leaves;
}

/* Does a leaf hold any row of the history? */
static bool
leaf_has_rows(Batch *batch, Oid relid)
{
	TideScanRequest request = {0};
	TideScanLeaf leaf = {0};
	TideCounters scratch = {{0}};
	bool		found;

	leaf.relid = relid;
	leaf.end_block = InvalidBlockNumber;
	request.leaves = list_make1(&leaf);
	request.to = batch->checkpoint->target;
	request.snapshot = RegisterSnapshot(GetLatestSnapshot());
	request.counters = &scratch;
	found = tide_scan_probe(&request);
	UnregisterSnapshot(request.snapshot);

	return found;
}

/*
 * Are the pieces still pieces of what is there?  Adjusts those whose leaf was
 * not begun, or was emptied; false: a leaf was rewritten or taken away after
 * a part of it was read, or rows may have been moved by updates.
 */
static bool
pieces_are_valid(Batch *batch)
{
	ListCell   *lc;

	if (batch->stream->allow_update)
		return false;
	foreach(lc, batch->pieces)
	{
		TidePiece  *piece = lfirst(lc);
		TidePiece  *now;

		if (!list_member_oid(batch->leaves, piece->leaf))
		{
			if (piece->next_block > 0 &&
				SearchSysCacheExists1(RELOID, ObjectIdGetDatum(piece->leaf)))
				return false;
			/* begun, it is gone for good; else it is new if it comes back */
			if (piece->next_block == 0)
				batch->checkpoint->leaves =
					list_delete_oid(batch->checkpoint->leaves, piece->leaf);
			tide_catalog_delete_piece(batch->view->view, piece->leaf);
			batch->pieces = foreach_delete_current(batch->pieces, lc);
			continue;
		}
		now = describe_leaf(piece->leaf);
		if (now->relfilenode == piece->relfilenode)
			continue;
		if (piece->next_block > 0 && leaf_has_rows(batch, piece->leaf))
			return false;
		now->next_block = piece->next_block > 0 ? now->end_block : 0;
		*piece = *now;
	}

	return true;
}

/* Throw away what pieces have brought, and the pieces. */
static void
restart_history(Batch *batch)
{
	TideCheckpoint *checkpoint = batch->checkpoint;

	ereport(LOG,
			(errmsg("continuous view \"%s\" starts over with the history of its stream",
					get_rel_name(batch->view->view)),
			 errdetail("A table of the stream was rewritten, detached or made updatable meanwhile.")));
	TIDE_FAULT("batch: before restart");
	tide_storage_clear(batch->view->storage);
	TIDE_FAULT("batch: storage cleared");
	PushActiveSnapshot(GetLatestSnapshot());
	tide_storage_seed(batch->query, batch->view->storage);
	PopActiveSnapshot();
	tide_catalog_delete_piece(batch->view->view, InvalidOid);
	batch->pieces = NIL;
	checkpoint->has_target = false;
	checkpoint->leaves = NIL;
	checkpoint->max_event_time = DT_NOBEGIN;
	checkpoint->batch_max_event_time = DT_NOBEGIN;
	memset(&checkpoint->totals, 0, sizeof(checkpoint->totals));
}

/*
 * How far to read of a backlog in this transaction: all of it, unless that is
 * too large; then up to a stamp, and the target is kept.
 */
static void
next_stamps(Batch *batch)
{
	TideCheckpoint *checkpoint = batch->checkpoint;
	TideScanRequest *request = &batch->request;
	int64		blocks = tide_scan_count_blocks(request);
	int64		cut;

	if (blocks <= tide_piece_blocks)
		return;
	cut = tide_scan_find_cut(request, blocks,
							 (double) tide_piece_blocks / blocks);

	/* what the view has consumed it keeps */
	cut = Max(cut, checkpoint->position.xmax);
	if (cut >= request->to.xmax)
		return;
	checkpoint->has_target = true;
	checkpoint->target = request->to;
	request->to = tide_position_below(&checkpoint->target, cut);
	TIDE_FAULT("batch: piece of stamps");
}

/*
 * What to read of the history in this transaction, and the pieces as they are
 * after it.
 */
static List *
next_blocks(Batch *batch)
{
	int64		budget = tide_piece_blocks;
	List	   *result = NIL;
	ListCell   *lc;

	foreach(lc, batch->pieces)
	{
		TidePiece  *piece = lfirst(lc);
		int64		end = Min(piece->end_block, piece->next_block + budget);

		if (piece->next_block < end)
		{
			TideScanLeaf *leaf = palloc0(sizeof(TideScanLeaf));

			leaf->relid = piece->leaf;
			leaf->start_block = piece->next_block;
			leaf->end_block = end;
			result = lappend(result, leaf);
			budget -= end - piece->next_block;
			piece->next_block = end;
		}
		if (piece->next_block >= piece->end_block)
		{
			TIDE_FAULT("batch: before last piece");
			tide_catalog_delete_piece(batch->view->view, piece->leaf);
			batch->pieces = foreach_delete_current(batch->pieces, lc);
		}
		else
			tide_catalog_put_piece(batch->view->view, piece);
		TIDE_FAULT("batch: piece written");
		if (budget <= 0)
			break;
	}

	return result;
}

/* --------------------------------------------------------------------------
 * Reading
 * --------------------------------------------------------------------------
 */

/* Microseconds since start. */
static int64
elapsed_usec(instr_time start)
{
	instr_time	now;

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, start);

	return INSTR_TIME_GET_MICROSEC(now);
}

/* Take the definition apart and hold it against the checkpoint. */
static void
analyze_view(Batch *batch)
{
	TideView   *view = batch->view;

	batch->query = tide_analyze(tide_analyze_definition(view->definition));
	if (batch->query->fingerprint != view->fingerprint ||
		batch->query->fingerprint != batch->checkpoint->fingerprint)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("definition of continuous view \"%s\" is not the one its state was made with",
						get_rel_name(view->view)),
				 errdetail("A type, function or stream it uses was changed."),
				 errhint("Undo the change, or drop the view and create it again.")));
	if (view->server_major != TIDE_SERVER_MAJOR)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("states of continuous view \"%s\" were written by PostgreSQL %d",
						get_rel_name(view->view), view->server_major),
				 errdetail("Aggregate states are not stable across major versions."),
				 errhint("Drop the view and create it again.")));
}

/* Bytes the groups of the batch take. */
static Size
groups_memory(Batch *batch)
{
	Size		bytes = tide_groups_memory(batch->groups) +
		tide_aggregate_memory(batch->aggs) + batch->came_out_bytes;

	if (bytes > batch->counters.v[TIDE_PEAK_MEMORY])
		batch->counters.v[TIDE_PEAK_MEMORY] = bytes;

	return bytes;
}

/*
 * Note that a source row came out of the query.  Without joins it does so
 * once; with joins any number of times and in any order.
 */
static void
count_used(Batch *batch, TupleTableSlot *slot)
{
	bool		isnull;
	int64		ordinal;
	Size		byte;
	uint8		bit;

	if (!batch->query->has_joins)
	{
		batch->counters.v[TIDE_ROWS_USED]++;
		return;
	}

	ordinal = tide_scan_ordinal(slot_getattr(slot, TIDE_INPUT_ORDINAL,
											 &isnull));
	byte = ordinal / 8;
	bit = 1 << (ordinal % 8);
	if (byte >= batch->came_out_bytes)
	{
		Size		size = Max(byte + 1, Max(batch->came_out_bytes * 2, 1024));
		MemoryContext context = GetMemoryChunkContext(batch);
		uint8	   *larger = MemoryContextAllocHuge(context, size);

		memset(larger, 0, size);
		if (batch->came_out != NULL)
		{
			memcpy(larger, batch->came_out, batch->came_out_bytes);
			pfree(batch->came_out);
		}
		batch->came_out = larger;
		batch->came_out_bytes = size;
	}
	if (!(batch->came_out[byte] & bit))
		batch->counters.v[TIDE_ROWS_USED]++;
	batch->came_out[byte] |= bit;
}

/* DestReceiver: a row that came out of the input query. */
static bool
receive_row(TupleTableSlot *slot, DestReceiver *self)
{
	Batch	   *batch = ((Receiver *) self)->batch;
	MemoryContext old_context = MemoryContextSwitchTo(batch->row_context);
	uint64		ngroups = tide_groups_count(batch->groups);
	int64		start = 0;
	int64		end = 0;
	TideGroup  *group;
	bool		isnull;
	Datum		event_time;

	TIDE_FAULT("batch: row");
	slot_getallattrs(slot);
	count_used(batch, slot);
	event_time = slot_getattr(slot, TIDE_INPUT_EVENT_TIME, &isnull);
	if (batch->query->window.kind != TIDE_WINDOW_NONE &&
		!tide_window_assign(&batch->query->window, DatumGetInt64(event_time),
							&start, &end))
		elog(ERROR, "row was judged to have a window but has none");

	group = tide_groups_lookup(batch->groups, start, end, slot);
	tide_aggregate_advance(batch->aggs, group->states, slot);

	/* a new group takes memory, and so may any row */
	if ((tide_groups_count(batch->groups) > ngroups ||
		 ++batch->rows_received % MEMORY_CHECK_ROWS == 0) &&
		groups_memory(batch) > (Size) tide_batch_memory * 1024)
		flush_groups(batch);

	MemoryContextSwitchTo(old_context);
	MemoryContextReset(batch->row_context);

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

/* Write the groups out and start with none. */
static void
flush_groups(Batch *batch)
{
	instr_time	start;
	instr_time	end;

	if (tide_groups_count(batch->groups) == 0)
		return;
	INSTR_TIME_SET_CURRENT(start);
	(void) groups_memory(batch);
	TIDE_FAULT("batch: before flush");
	tide_storage_merge(batch->storage, batch->groups, &batch->counters);
	tide_groups_reset(batch->groups);
	tide_aggregate_reset(batch->aggs);
	TIDE_FAULT("batch: after flush");
	INSTR_TIME_SET_CURRENT(end);
	INSTR_TIME_ACCUM_DIFF(batch->merge_time, end, start);
}

/*
 * Fix what is read: S2 and the position it stands for, which the rows are
 * held against.  All locks are held.
 */
static void
take_snapshot(Batch *batch)
{
	TideCheckpoint *checkpoint = batch->checkpoint;
	TideScanRequest *request = &batch->request;
	TidePosition position;

	request->snapshot = RegisterSnapshot(GetLatestSnapshot());
	position = tide_position_capture(request->snapshot);
	check_position(batch, &position);

	batch->is_history = checkpoint->position.xmax == 0;
	if (checkpoint->has_target && batch->is_history &&
		!pieces_are_valid(batch))
		restart_history(batch);
	if (!checkpoint->has_target)
		start_logical_batch(batch, &position);

	request->leaves = whole_leaves(batch);
	request->to = checkpoint->has_target ? checkpoint->target : position;
	if (!batch->is_history)
		next_stamps(batch);
	else if (checkpoint->has_target)
		request->leaves = next_blocks(batch);
	batch->is_last = !checkpoint->has_target ||
		(batch->is_history ? batch->pieces == NIL :
		 request->to.xmax == checkpoint->target.xmax);
}

/* The whole plan is the stream scan: read it without the executor. */
static void
run_directly(Batch *batch)
{
	TupleTableSlot *slot;

	while ((slot = tide_scan_next(&batch->request)) != NULL)
		(void) receive_row(slot, &batch->receiver.pub);
}

/* Run the planned input query into the groups, and write them out. */
static void
run_input(Batch *batch, PlannedStmt *planned)
{
	TideScanRequest *request = &batch->request;
	QueryDesc  *query_desc;
	int			no_flags = 0;

	batch->receiver.pub.receiveSlot = receive_row;
	batch->receiver.pub.rStartup = receiver_startup;
	batch->receiver.pub.rShutdown = receiver_noop;
	batch->receiver.pub.rDestroy = receiver_noop;
	batch->receiver.pub.mydest = DestNone;
	batch->receiver.batch = batch;

	PushActiveSnapshot(request->snapshot);
	batch->aggs = tide_aggregate_begin(batch->query->aggs);
	batch->groups = tide_groups_begin(batch->query, batch->aggs);
	batch->storage = tide_storage_begin(batch->query, batch->view->storage,
										batch->aggs);

	query_desc = CreateQueryDesc(planned, "", request->snapshot,
								 InvalidSnapshot, &batch->receiver.pub,
								 NULL, NULL, no_flags);
	ExecutorStart(query_desc, no_flags);
	if (tide_fast_path && !batch->query->has_joins &&
		tide_scan_is_plan(request, query_desc->planstate))
		run_directly(batch);
	else
		TIDE_EXECUTOR_RUN(query_desc);
	tide_scan_drain(request);
	ExecutorFinish(query_desc);
	ExecutorEnd(query_desc);
	FreeQueryDesc(query_desc);

	flush_groups(batch);
	PopActiveSnapshot();
}

/* Every source row has one fate: the rest was filtered by the joins. */
static void
settle_fates(Batch *batch)
{
	int64	   *v = batch->counters.v;
	int64		sum = 0;
	int			i;

	v[TIDE_ROWS_FILTERED] += batch->request.passed - v[TIDE_ROWS_USED];
	for (i = TIDE_ROWS_NULL_TIME; i <= TIDE_ROWS_USED; i++)
		sum += v[i];
	if (sum != v[TIDE_ROWS_IN])
		elog(ERROR, "fates of the rows of a batch sum up to " INT64_FORMAT
			 " instead of " INT64_FORMAT, sum, v[TIDE_ROWS_IN]);
}

/* Plan, read, merge.  The caller has become the view's owner. */
static void
read_rows(Batch *batch)
{
	TideScanRequest *request = &batch->request;
	TideCheckpoint *checkpoint = batch->checkpoint;
	PlannedStmt *planned;
	instr_time	start;

	batch->row_context = AllocSetContextCreate(CurrentMemoryContext,
											   "tidemark row",
											   ALLOCSET_SMALL_SIZES);
	INSTR_TIME_SET_ZERO(batch->merge_time);
	INSTR_TIME_SET_CURRENT(start);
	PushActiveSnapshot(GetLatestSnapshot());
	analyze_view(batch);

	memset(request, 0, sizeof(*request));
	request->query = batch->query;
	request->judge = &batch->judge;
	batch->late = tide_late_begin(batch->view->view);
	request->counters = &batch->counters;
	request->late = batch->late;
	request->estimate = batch->checkpoint->batch_id == 0 ? 1000000 : 10000;
	tide_scan_set_request(request);
	PG_TRY();
	{
		planned = tide_analyze_plan_input(batch->query);
		PopActiveSnapshot();
		TIDE_FAULT("batch: planned");
		take_snapshot(batch);
		TIDE_FAULT("batch: snapshot taken");
		tide_watermark_begin(&batch->judge, &batch->query->window,
							 batch->stream, batch->view, batch->checkpoint,
							 batch->query->event_type == TIMESTAMPOID);
		batch->counters.v[TIDE_TIME_PLAN] = elapsed_usec(start);

		INSTR_TIME_SET_CURRENT(start);
		run_input(batch, planned);
	}
	PG_FINALLY();
	{
		tide_scan_clear_request();
	}
	PG_END_TRY();

	UnregisterSnapshot(request->snapshot);
	settle_fates(batch);
	batch->counters.v[TIDE_TIME_MERGE] =
		INSTR_TIME_GET_MICROSEC(batch->merge_time);
	batch->counters.v[TIDE_TIME_READ] = elapsed_usec(start) -
		batch->counters.v[TIDE_TIME_MERGE];

	checkpoint->max_event_time = Max(checkpoint->max_event_time,
									 batch->judge.max_event_time);
	checkpoint->batch_max_event_time = Max(checkpoint->batch_max_event_time,
										   batch->judge.max_event_time);
}

/* --------------------------------------------------------------------------
 * Watermark and finality
 * --------------------------------------------------------------------------
 */

/* Append a time on the event axis to JSON; null for -infinity. */
static void
append_json_time(StringInfo json, Batch *batch, int64 event_time)
{
	char		buffer[MAXDATELEN + 1];

	if (TIMESTAMP_IS_NOBEGIN(event_time))
	{
		appendStringInfoString(json, "null");
		return;
	}
	JsonEncodeDateTime(buffer, Int64GetDatum(event_time),
					   batch->query->event_type, NULL);
	appendStringInfo(json, "\"%s\"", buffer);
}

/* Say on the channel that the windows with from < end <= to became final. */
static void
notify_final(Batch *batch, int64 from, int64 to)
{
	StringInfoData json;
	Oid			view = batch->view->view;
	float8		usage;

	usage = DatumGetFloat8(OidFunctionCall0(F_PG_NOTIFICATION_QUEUE_USAGE));
	if (usage > NOTIFY_QUEUE_LIMIT)
	{
		batch->counters.v[TIDE_NOTIFIES_SKIPPED]++;
		return;
	}

	initStringInfo(&json);
	appendStringInfoString(&json, "{\"view\": ");
	escape_json(&json,
				quote_qualified_identifier(get_namespace_name(get_rel_namespace(view)),
										   get_rel_name(view)));
	appendStringInfo(&json, ", \"batch\": " INT64_FORMAT ", \"from\": ",
					 batch->checkpoint->batch_id);
	append_json_time(&json, batch, from);
	appendStringInfoString(&json, ", \"to\": ");
	append_json_time(&json, batch, to);
	appendStringInfoChar(&json, '}');
	TIDE_FAULT("batch: before notify");
	Async_Notify("tidemark", json.data);
	TIDE_FAULT("batch: after notify");
	batch->counters.v[TIDE_NOTIFIES]++;
}

/* Close windows; are there stored ones that the new watermark makes final? */
static bool
close_windows(Batch *batch, int64 watermark)
{
	TideWindow *window = &batch->query->window;
	int64		from = batch->judge.late_before;
	int64		to;

	if (window->kind == TIDE_WINDOW_NONE)
		return false;
	to = tide_window_boundary(window, watermark);
	batch->checkpoint->final_before = to;

	return from < to && tide_storage_has_windows(batch->storage, from, to);
}

/*
 * The view is about to move on.  Leaves that vanished keep the position that
 * they were read to, for when they come back; those that are there move with
 * the view.  But those that came after the first piece of a history were not
 * read at all: they stand nowhere, and the next batch reads them.
 */
static void
write_leaves(Batch *batch)
{
	TideCheckpoint *checkpoint = batch->checkpoint;
	bool		has_pieces = batch->is_history && checkpoint->has_target;
	Oid			view = batch->view->view;
	ListCell   *lc;

	foreach(lc, checkpoint->leaves)
	{
		TideLeaf	leaf;

		if (list_member_oid(batch->leaves, lfirst_oid(lc)))
			continue;
		leaf.leaf = lfirst_oid(lc);
		leaf.position = has_pieces ? checkpoint->target : checkpoint->position;
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(leaf.leaf)))
		{
			TIDE_FAULT("batch: leaf left");
			tide_catalog_put_leaf(view, &leaf);
		}
		checkpoint->leaves = foreach_delete_current(checkpoint->leaves, lc);
	}
	foreach(lc, tide_catalog_read_leaves(view))
	{
		TideLeaf   *leaf = lfirst(lc);

		if (list_member_oid(batch->leaves, leaf->leaf) ||
			!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(leaf->leaf)))
			tide_catalog_delete_leaf(view, leaf->leaf);
	}
	if (!has_pieces)
		checkpoint->leaves = batch->leaves;
}

/* The view stands where the batch ended. */
static void
advance_position(Batch *batch)
{
	TIDE_FAULT("batch: before leaves");
	write_leaves(batch);
	TIDE_FAULT("batch: after leaves");
	batch->checkpoint->position = batch->request.to;
}

/*
 * All rows of the logical batch are merged: advance the watermark, and say
 * which windows are final.
 */
static void
finish_logical_batch(Batch *batch)
{
	TideCheckpoint *checkpoint = batch->checkpoint;
	int64		old_watermark = checkpoint->watermark;

	checkpoint->batch_id++;
	checkpoint->has_target = false;

	/* the pieces before this one may have seen a later event */
	batch->judge.max_event_time = checkpoint->batch_max_event_time;
	checkpoint->watermark = tide_watermark_advance(&batch->judge);
	if (close_windows(batch, checkpoint->watermark))
	{
		notify_final(batch, old_watermark, checkpoint->watermark);
		/* who acts on a final window must find it after a crash */
		ForceSyncCommit();
	}
}

/* --------------------------------------------------------------------------
 * Checkpoint
 * --------------------------------------------------------------------------
 */

/* Add the batch's counters to others. */
static void
add_counters(TideCounters *sum, const TideCounters *counters)
{
	int			i;

	for (i = 0; i < TIDE_NCOUNTERS; i++)
		sum->v[i] += counters->v[i];
	sum->v[TIDE_PEAK_MEMORY] = Max(sum->v[TIDE_PEAK_MEMORY] -
								   counters->v[TIDE_PEAK_MEMORY],
								   counters->v[TIDE_PEAK_MEMORY]);
}

/* Write what the batch has come to. */
static void
write_checkpoint(Batch *batch)
{
	TideCheckpoint *checkpoint = batch->checkpoint;
	Oid			view = batch->view->view;

	tide_late_end(batch->late);
	tide_storage_end(batch->storage);
	tide_groups_end(batch->groups);
	tide_aggregate_end(batch->aggs);

	batch->counters.v[TIDE_BATCHES] = batch->is_last;
	if (last_committed_view == view)
		batch->counters.v[TIDE_TIME_COMMIT] = last_commit_usec;
	add_counters(&checkpoint->totals, &batch->counters);
	add_counters(&checkpoint->last, &batch->counters);
	checkpoint->updated_at = GetCurrentTimestamp();
	/* sampled_at is -infinity before the first: no difference can be taken */
	if (batch->is_last &&
		checkpoint->sampled_at <= checkpoint->updated_at - SAMPLE_INTERVAL)
	{
		checkpoint->sampled_at = checkpoint->updated_at;
		TIDE_FAULT("batch: before history");
		tide_catalog_append_batch(checkpoint);
	}
	TIDE_FAULT("batch: before checkpoint");
	tide_catalog_update_checkpoint(checkpoint);
	TIDE_FAULT("batch: after checkpoint");
	/* the scheduler knows the failure, too, and would wait for the next try */
	if (tide_catalog_delete_failure(view))
		tide_shmem_wake_catalog_at_commit();
	TIDE_FAULT("batch: end");
}
