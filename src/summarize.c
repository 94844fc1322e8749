/*
 * summarize.c
 *		Keeping the stamp indexes summarised.
 *
 * A BRIN index sends a scan to every range that is not summarised yet, so that
 * without this a batch would read all that was inserted since the last VACUUM.
 * Only ranges that are full are summarised: the last one is still written to,
 * and every insert would have to look at its summary.
 *
 * brin_summarize_range locks as VACUUM does and would wait behind it, so we
 * take that lock first, if it is to be had at once.
 *
 * How far a leaf was done is remembered in the process; a new process looks at
 * all ranges once, which is cheap for those that are done.
 *
 * SECURITY: summarising is for the table's owner, who we become.
 */
#include "postgres.h"

#include "access/brin.h"
#include "access/genam.h"
#include "access/table.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "catalog.h"
#include "fault.h"
#include "scan.h"
#include "stamp.h"
#include "summarize.h"

/* blocks of a leaf that are summarised in one go */
#define MAX_BLOCKS 65536

/* how far a leaf's index is done */
typedef struct Progress
{
	Oid			index;			/* hash key */
	Oid			relfilenode;	/* of the index: it may be rebuilt */
	BlockNumber next_block;
} Progress;

static HTAB *progress_table = NULL;

/* The progress of an index. */
static Progress *
find_progress(Relation index)
{
	Progress   *progress;
	Oid			relid = RelationGetRelid(index);
	bool		found;

	if (progress_table == NULL)
	{
		HASHCTL		control = {0};

		control.keysize = sizeof(Oid);
		control.entrysize = sizeof(Progress);
		/* in TopMemoryContext: as long as the process */
		progress_table = hash_create("tidemark summarised ranges", 16,
									 &control, HASH_ELEM | HASH_BLOBS);
	}
	progress = hash_search(progress_table, &relid, HASH_ENTER, &found);
	if (!found || progress->relfilenode != TIDE_RELFILENUMBER(index))
	{
		progress->relfilenode = TIDE_RELFILENUMBER(index);
		progress->next_block = 0;
	}

	return progress;
}

/*
 * Summarise the full ranges of a leaf that are not done, up to a limit; true:
 * more are left.
 */
static bool
summarize_leaf(Relation leaf, Oid indexid)
{
	Relation	index = index_open(indexid, AccessShareLock);
	Progress   *progress = find_progress(index);
	BlockNumber range = BrinGetPagesPerRange(index);
	BlockNumber nblocks = RelationGetNumberOfBlocks(leaf);
	BlockNumber done = 0;

	index_close(index, NoLock);
	if (progress->next_block > nblocks)
		progress->next_block = 0;	/* truncated */
	if (progress->next_block + range > nblocks ||
		!ConditionalLockRelation(leaf, ShareUpdateExclusiveLock))
		return false;

	while (progress->next_block + range <= nblocks && done < MAX_BLOCKS)
	{
		CHECK_FOR_INTERRUPTS();
		TIDE_FAULT("summarize: before range");
		(void) DirectFunctionCall2(brin_summarize_range,
								   ObjectIdGetDatum(indexid),
								   Int64GetDatum((int64) progress->next_block));
		TIDE_FAULT("summarize: after range");
		progress->next_block += range;
		done += range;
	}

	return progress->next_block + range <= nblocks;
}

/*
 * Summarise the stamp indexes of a view's stream as far as needed.  In a
 * transaction of its own, as it takes locks that a batch does without; quietly
 * nothing when the view is gone.  True: it stopped at its limit.
 */
bool
tide_summarize_run(Oid viewid)
{
	bool		has_more = false;
	TideView   *view = tide_catalog_read_view(viewid);
	ListCell   *lc;

	if (view == NULL ||
		!ConditionalLockRelationOid(view->stream, AccessShareLock) ||
		!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(view->stream)))
		return false;

	PushActiveSnapshot(GetLatestSnapshot());
	foreach(lc, tide_scan_source_leaves(view->stream))
	{
		Relation	leaf = table_open(lfirst_oid(lc), NoLock);
		Oid			indexid = tide_stamp_index(leaf);
		Oid			userid;
		int			sec_context;

		GetUserIdAndSecContext(&userid, &sec_context);
		SetUserIdAndSecContext(leaf->rd_rel->relowner,
							   sec_context | SECURITY_RESTRICTED_OPERATION);
		if (OidIsValid(indexid))
			has_more |= summarize_leaf(leaf, indexid);
		SetUserIdAndSecContext(userid, sec_context);
		table_close(leaf, NoLock);
	}
	PopActiveSnapshot();

	return has_more;
}
