/*
 * batch.h
 *		The transaction of one batch.
 */
#ifndef TIDE_BATCH_H
#define TIDE_BATCH_H

#include "catalog.h"

typedef enum TideBatchResult
{
	TIDE_BATCH_NOTHING,			/* nothing to read: nothing was written */
	TIDE_BATCH_DONE,			/* a logical batch was finished */
	TIDE_BATCH_PIECE,			/* a piece was read, more are left */
	TIDE_BATCH_BUSY,			/* another runner holds the view */
	TIDE_BATCH_GONE				/* view dropped or paused meanwhile */
} TideBatchResult;

/*
 * What a runner wants to know after a batch.  waits_for_writers: the position
 * has transactions in progress, so look again within a second: COMMIT
 * PREPARED wakes nobody.
 */
typedef struct TideBatchReport
{
	TideBatchResult result;
	bool		waits_for_writers;
	bool		is_continuation;	/* of a logical batch that was begun */
} TideBatchReport;

/*
 * Run one batch of the view in the current transaction, which must be READ
 * COMMITTED.  The caller commits.  wait: wait for another runner, else BUSY.
 * May write; on error the transaction must be aborted.
 */
extern TideBatchReport tide_batch_run(Oid view, bool wait);

/*
 * Is everything that the position has consumed in the view?  Locks the source
 * and its leaves (AccessShare) without waiting: false when they are locked.
 */
extern bool tide_batch_has_consumed(const TideView *view,
									const TidePosition *position);

/* blocks that the next batches will read; -1: the stream is locked */
extern int64 tide_batch_backlog(const TideView *view);

/* share of the history that is read, 0 to 1; -1: the stream is locked */
extern double tide_batch_history_share(const TideView *view);

/* after the commit of a batch: remember how long it took */
extern void tide_batch_committed(Oid view, int64 commit_usec);

#endif							/* TIDE_BATCH_H */
