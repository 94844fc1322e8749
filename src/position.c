/*
 * position.c
 *		Positions in a stream: capture, comparison.
 *
 * Ids, sequences, timestamps and LSNs are assigned before commit, so a cursor
 * over any of them loses the rows of transactions that commit later with a
 * smaller value, or waits for the oldest writer.  A position is a transaction
 * snapshot instead: it says of every top-level transaction whether its rows
 * are consumed.  Rows carry their transaction's stamp (stamp.c).
 *
 * INVARIANT I1: every committed row is consumed by exactly one batch.  A batch
 * from position P1 to P2 reads the rows that are visible to the snapshot P2
 * was captured from, consumed by P2 and not by P1.  The test on P2 is not
 * redundant: rows of COPY FREEZE, and those of the batch's own transaction,
 * are visible without being consumed, and would be read twice.
 *
 * MEMORY: results are in the caller's context.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "lib/qunique.h"
#include "lib/stringinfo.h"
#include "utils/memutils.h"

#include "compat.h"
#include "position.h"
#include "stamp.h"

/*
 * A snapshot's 32-bit transaction id as a full one.  It cannot be more than
 * 2^31 away from the next one, which was read after the snapshot was taken.
 */
static FullTransactionId
widen_xid(TransactionId xid, FullTransactionId next)
{
	uint32		epoch = EpochFromFullTransactionId(next);

	if (xid > XidFromFullTransactionId(next))
		epoch--;

	return FullTransactionIdFromEpochAndXid(epoch, xid);
}

/* qsort comparator of stamps. */
int
tide_position_compare_stamps(const void *a, const void *b)
{
	int64		left = *(const int64 *) a;
	int64		right = *(const int64 *) b;

	return (left > right) - (left < right);
}

/*
 * The position of everything that is visible to the snapshot, without the
 * current transaction: what it inserted is read after its commit.
 */
TidePosition
tide_position_capture(Snapshot snapshot)
{
	FullTransactionId next = ReadNextFullTransactionId();
	TransactionId own = GetTopTransactionIdIfAny();
	int64		base = tide_stamp_base();
	TidePosition position;
	uint32		i;
	int			n = 0;

	if (snapshot->takenDuringRecovery)
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot run a batch during recovery")));

	position.xmax =
		base + (int64) U64FromFullTransactionId(widen_xid(snapshot->xmax,
														  next));
	position.in_progress =
		MemoryContextAllocHuge(CurrentMemoryContext,
							   sizeof(int64) * (snapshot->xcnt + 1));
	for (i = 0; i < snapshot->xcnt; i++)
		position.in_progress[n++] =
			base + (int64) U64FromFullTransactionId(widen_xid(snapshot->xip[i],
															  next));
	if (TransactionIdIsValid(own) && TransactionIdPrecedes(own, snapshot->xmax))
		position.in_progress[n++] =
			base + (int64) U64FromFullTransactionId(widen_xid(own, next));

	qsort(position.in_progress, n, sizeof(int64),
		  tide_position_compare_stamps);
	position.nin_progress = qunique(position.in_progress, n, sizeof(int64),
									tide_position_compare_stamps);

	return position;
}

/* A copy in the current context. */
TidePosition
tide_position_copy(const TidePosition *position)
{
	TidePosition copy = *position;

	copy.in_progress = palloc(sizeof(int64) * Max(position->nin_progress, 1));
	memcpy(copy.in_progress, position->in_progress,
		   sizeof(int64) * position->nin_progress);

	return copy;
}

/* Has the position consumed everything that the other one has? */
bool
tide_position_covers(const TidePosition *position, const TidePosition *other)
{
	int			i;

	if (position->xmax < other->xmax)
	{
		int64		stamp = position->xmax;

		/* unless all between is in progress there, too */
		if (other->xmax - stamp > other->nin_progress)
			return false;
		for (; stamp < other->xmax; stamp++)
			if (tide_position_consumed(other, stamp))
				return false;
	}
	for (i = 0; i < position->nin_progress; i++)
		if (tide_position_consumed(other, position->in_progress[i]))
			return false;

	return true;
}

/*
 * The part of a position below a stamp, which is a position too: what it has
 * consumed, the whole has.  In the current context.
 */
TidePosition
tide_position_below(const TidePosition *position, int64 stamp)
{
	TidePosition below = tide_position_copy(position);

	below.xmax = Min(below.xmax, stamp);
	while (below.nin_progress > 0 &&
		   below.in_progress[below.nin_progress - 1] >= below.xmax)
		below.nin_progress--;

	return below;
}

/* "xmax:in_progress,...", for messages and explain. */
char *
tide_position_out(const TidePosition *position)
{
	StringInfoData out;
	int			i;

	initStringInfo(&out);
	appendStringInfo(&out, INT64_FORMAT ":", position->xmax);
	for (i = 0; i < position->nin_progress; i++)
		appendStringInfo(&out, "%s" INT64_FORMAT, i > 0 ? "," : "",
						 position->in_progress[i]);

	return out.data;
}
