/*
 * restamp.c
 *		Stamping rows that came without a stamp.
 *
 * The stamp column is nullable, so that no insert fails for it: a whole row of
 * the table's type, made by jsonb_populate_record for one, brings a NULL
 * instead of the default.  No position says anything about such a row, and no
 * batch reads it.  It is found through the index, which knows where NULLs are,
 * and given the stamp of the transaction that finds it: from then on it is a
 * row that was just inserted.
 *
 * The update goes through the table AM: it is not the user's, so no trigger of
 * his fires, and the guard against updates does not either.
 *
 * SECURITY: expressions and conditions of indexes are the table owner's code,
 * so a leaf is written to as its owner, whoever runs this.
 *
 * LOCKING: RowExclusive on the leaves, if to be had at once.
 * TRANSACTIONS: the caller's, which must be none of a batch: its own rows are
 * not read by it.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "catalog.h"
#include "fault.h"
#include "restamp.h"
#include "scan.h"
#include "security.h"
#include "stamp.h"

/* what is stamped, and by what */
typedef struct Restamp
{
	Snapshot	snapshot;
	int64		stamp;			/* 0: not known yet */
	int64		rows;
	/* of the leaf at hand */
	Oid			leaf;
	AttrNumber	stamp_attno;
	EState	   *estate;
	ResultRelInfo *result_info;
	TupleTableSlot *new_slot;
	TideSecurity saved;
} Restamp;

/* Leave the leaf at hand. */
static void
end_leaf(Restamp *restamp)
{
	if (!OidIsValid(restamp->leaf))
		return;
	ExecCloseIndices(restamp->result_info);
	ExecDropSingleTupleTableSlot(restamp->new_slot);
	FreeExecutorState(restamp->estate);
	tide_security_leave(&restamp->saved);
	restamp->leaf = InvalidOid;
}

/* Prepare to write to a leaf, which is locked. */
static void
begin_leaf(Restamp *restamp, Relation leaf)
{
	bool		speculative = false;

	end_leaf(restamp);
	if (restamp->stamp == 0)
		restamp->stamp = tide_stamp_base() +
			(int64) U64FromFullTransactionId(GetTopFullTransactionId());
	restamp->leaf = RelationGetRelid(leaf);
	tide_security_enter(&restamp->saved, leaf->rd_rel->relowner, NIL);
	restamp->stamp_attno = tide_stamp_attno(leaf);
	restamp->estate = CreateExecutorState();
	restamp->result_info = makeNode(ResultRelInfo);
	InitResultRelInfo(restamp->result_info, leaf, 0, NULL, 0);
	ExecOpenIndices(restamp->result_info, speculative);
	restamp->new_slot = MakeSingleTupleTableSlot(RelationGetDescr(leaf),
												 &TTSOpsVirtual);
}

/* Stamp a row, unless somebody else is writing to it. */
static void
stamp_row(Relation leaf, TupleTableSlot *slot, void *arg)
{
	Restamp    *restamp = arg;
	bool		wait = true;
	bool		is_update = true;
	int			natts = RelationGetNumberOfAttributes(leaf);
	TupleTableSlot *new_slot;
	TM_FailureData failure;
	LockTupleMode lockmode;
	TideUpdateIndexes update_indexes;

	CHECK_FOR_INTERRUPTS();
	if (restamp->leaf != RelationGetRelid(leaf))
		begin_leaf(restamp, leaf);

	new_slot = ExecClearTuple(restamp->new_slot);
	slot_getallattrs(slot);
	memcpy(new_slot->tts_values, slot->tts_values, sizeof(Datum) * natts);
	memcpy(new_slot->tts_isnull, slot->tts_isnull, sizeof(bool) * natts);
	new_slot->tts_values[restamp->stamp_attno - 1] =
		Int64GetDatum(restamp->stamp);
	new_slot->tts_isnull[restamp->stamp_attno - 1] = false;
	ExecStoreVirtualTuple(new_slot);

	TIDE_FAULT("restamp: before row");
	/* one that is deleted meanwhile needs no stamp */
	if (table_tuple_update(leaf, &slot->tts_tid, new_slot,
						   GetCurrentCommandId(true), restamp->snapshot,
						   InvalidSnapshot, wait, &failure, &lockmode,
						   &update_indexes) != TM_Ok)
		return;
	if (!TIDE_UPDATES_NO_INDEX(update_indexes))
		list_free(TIDE_INSERT_INDEX_TUPLES(restamp->result_info, new_slot,
										   restamp->estate, is_update,
										   update_indexes));
	restamp->rows++;
	TIDE_FAULT("restamp: after row");
}

/* Add to the stream's count. */
static void
count_rows(Oid relid, int64 rows)
{
	TideStream *stream;

	/* two views' workers may do this at a time: one after the other */
	tide_catalog_lock_stream(relid);
	stream = tide_catalog_read_stream(relid);
	if (stream == NULL)
		return;
	stream->rows_restamped += rows;
	tide_catalog_update_stream(stream);
}

/*
 * Stamp the rows of a view's stream that have no stamp; how many there were.
 * Without a transaction id when there are none; quietly nothing when the view
 * is gone or the stream is locked.
 */
int64
tide_restamp_run(Oid viewid)
{
	TideView   *view = tide_catalog_read_view(viewid);
	Restamp		restamp = {0};
	List	   *leaves;
	ListCell   *lc;

	if (view == NULL ||
		!ConditionalLockRelationOid(view->stream, RowExclusiveLock) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(view->stream)))
		return 0;
	leaves = tide_scan_source_leaves(view->stream);
	foreach(lc, leaves)
		if (!ConditionalLockRelationOid(lfirst_oid(lc), RowExclusiveLock))
			return 0;

	restamp.snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(restamp.snapshot);
	tide_scan_visit_unstamped(leaves, restamp.snapshot, stamp_row, &restamp);
	end_leaf(&restamp);
	if (restamp.rows > 0)
	{
		count_rows(view->stream, restamp.rows);
		TIDE_FAULT("restamp: counted");
	}
	PopActiveSnapshot();
	UnregisterSnapshot(restamp.snapshot);

	return restamp.rows;
}
