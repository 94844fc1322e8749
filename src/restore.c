/*
 * restore.c
 *		Restoring a dump of our tables.
 *
 * A dump has the rows of our tables, and a restore copies them in like those
 * of any other table, in no order with the event tables and the storage.  A
 * trigger on our tables sees it; our own writes run no triggers.
 *
 * - A batch must not run before all is there: it would count rows that are
 *	 still to come as consumed, or join tables that are still empty.  What comes
 *	 last in a restore is nothing of ours, but whoever restores stays connected
 *	 to the end, also the processes of pg_restore --jobs.  So the session that
 *	 has restored rows is marked by a lock, which it holds as long as it lives.
 *
 * - The stamps of this installation must be greater than those in the dump.
 *	 They are when the extension was made for the restore.  In an older
 *	 installation the base is moved forward (stamp.c), before the first row of
 *	 its own can be stamped.
 *
 * - The scheduler is to look, or to be started.
 *
 * What a dump does not carry is made good by stream.c and view.c.
 *
 * LOCKING: an advisory lock, as only those outlive an error of their session.
 * Its fourth field tells it from those that users can take.  Restoring
 * sessions take ROW EXCLUSIVE, those that ask take SHARE for a moment: neither
 * kind disturbs its own.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "commands/trigger.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lock.h"
#include "utils/inval.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "catalog.h"
#include "restore.h"
#include "shmem.h"
#include "stamp.h"

/* the users' advisory locks have 1 and 2 */
#define RESTORE_LOCK_KIND 3

/*
 * Stamps a dump may have beyond the positions in it: rows that no batch has
 * read.  A second's worth of the base, more than there can be.
 */
#define STAMPS_BEYOND (INT64CONST(1) << 31)

PG_FUNCTION_INFO_V1(tide_note_restore);

static void move_base(Relation rel);

/* The tag of the lock. */
static void
make_tag(LOCKTAG *tag)
{
	SET_LOCKTAG_ADVISORY(*tag, MyDatabaseId, 0, 0, RESTORE_LOCK_KIND);
}

/* See restore.h. */
bool
tide_restore_is_running(void)
{
	bool		is_session_lock = false;
	bool		dont_wait = true;
	LOCKTAG		tag;

	make_tag(&tag);
	if (LockAcquire(&tag, ShareLock, is_session_lock,
					dont_wait) == LOCKACQUIRE_NOT_AVAIL)
		return true;
	LockRelease(&tag, ShareLock, is_session_lock);

	return false;
}

/*
 * Trigger of our tables, AFTER INSERT for each statement: rows were restored.
 */
Datum
tide_note_restore(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	bool		is_session_lock = true;
	bool		dont_wait = false;
	LOCKTAG		tag;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_AFTER(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_STATEMENT(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function tidemark.note_restore() must be called by an AFTER STATEMENT trigger")));
	/* nobody else is to stop the batches, or to move the base */
	if (RelationGetNamespace(trigdata->tg_relation) != tide_catalog_schema())
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function tidemark.note_restore() is for the tables of tidemark")));

	/* before the rows can be seen */
	make_tag(&tag);
	(void) LockAcquire(&tag, RowExclusiveLock, is_session_lock, dont_wait);
	CacheInvalidateRelcache(trigdata->tg_relation);
	CommandCounterIncrement();
	move_base(trigdata->tg_relation);
	tide_shmem_wake_catalog_at_commit();

	return PointerGetDatum(NULL);
}

/*
 * See to it that this installation's stamps are greater than those restored.
 * Positions tell where the dump's were.  Streams without a view have none; if
 * the installation is older than this session, it may be older than the dump.
 */
static void
move_base(Relation rel)
{
	int64		next = tide_stamp_base() +
		(int64) U64FromFullTransactionId(ReadNextFullTransactionId());

	if (strcmp(RelationGetRelationName(rel), "checkpoint") == 0)
	{
		int64		furthest = tide_catalog_furthest_position();

		if (furthest > next)
			(void) tide_stamp_rebase(furthest + STAMPS_BEYOND);
	}
	else if (strcmp(RelationGetRelationName(rel), "stream") == 0)
	{
		int64		started = (int64) timestamptz_to_time_t(MyStartTimestamp);

		if (started > next >> 31)
			(void) tide_stamp_rebase(0);
	}
}
