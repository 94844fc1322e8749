/*
 * catchup.c
 *		Running a view by hand, and waiting for it.
 *
 * CALL tidemark.catch_up(view) is the trigger "available now": it needs no
 * background worker, so that any cron can run a view.  Called outside of a
 * transaction block it runs batches in transactions of its own until all that
 * was committed before the call is in the view; inside of one it runs one
 * batch, which commits or aborts with the block.
 *
 * LOCKING: a batch holds the view's checkpoint lock to the end of its
 * transaction.  Waiting holds AccessShare on the stream.
 */
#include "postgres.h"

#include "access/xact.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "portability/instr_time.h"
#include "storage/latch.h"
#include "utils/acl.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "batch.h"
#include "catalog.h"
#include "fault.h"
#include "guc.h"
#include "position.h"
#include "restamp.h"
#include "stream.h"
#include "summarize.h"
#include "view.h"
#include "watermark.h"

/* first and longest pause between two looks of wait_for, milliseconds */
#define FIRST_PAUSE 2
#define LONGEST_PAUSE 50

PG_FUNCTION_INFO_V1(tide_catch_up);
PG_FUNCTION_INFO_V1(tide_wait_for);

/* Refuse to act on a view that is paused. */
static void
refuse_paused(const TideView *view)
{
	if (view->paused)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("continuous view \"%s\" is paused",
						get_rel_name(view->view)),
				 errhint("Use tidemark.resume.")));
}

/* One batch of catch_up; the view may be dropped or paused meanwhile. */
static TideBatchReport
run_batch(Oid viewid)
{
	bool		wait = true;
	TideBatchReport report = tide_batch_run(viewid, wait);

	if (report.result == TIDE_BATCH_GONE)
	{
		refuse_paused(tide_view_get(viewid));
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("stream of continuous view \"%s\" does not exist",
						get_rel_name(viewid))));
	}

	return report;
}

/*
 * Commit, and begin a transaction in which a batch can run, whatever the
 * session's default isolation level is.
 */
static void
start_next_transaction(void)
{
	SPI_commit();
	XactIsoLevel = XACT_READ_COMMITTED;
}

/* Sleep, or until interrupted. */
static void
pause_for(long milliseconds)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 milliseconds, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();
}

/*
 * Run batches, a transaction each, until what was committed before the call is
 * in the view: after one that began here, or others by a worker beside us.
 * First what makes them complete and quick.
 */
static void
run_batches(Oid viewid)
{
	TidePosition position;
	Snapshot	snapshot;
	TideBatchReport report;
	bool		is_done;

	snapshot = RegisterSnapshot(GetLatestSnapshot());
	position = tide_position_capture(snapshot);
	UnregisterSnapshot(snapshot);
	do
		start_next_transaction();
	while (tide_summarize_run(viewid));
	start_next_transaction();
	(void) tide_restamp_run(viewid);
	do
	{
		instr_time	start;
		instr_time	end;

		CHECK_FOR_INTERRUPTS();
		start_next_transaction();
		(void) tide_view_get_owned(viewid);
		report = run_batch(viewid);
		TIDE_FAULT("catch_up: before commit");
		INSTR_TIME_SET_CURRENT(start);
		start_next_transaction();
		INSTR_TIME_SET_CURRENT(end);
		TIDE_FAULT("catch_up: after commit");
		INSTR_TIME_SUBTRACT(end, start);
		if (report.result != TIDE_BATCH_NOTHING)
			tide_batch_committed(viewid, INSTR_TIME_GET_MICROSEC(end));
		if (report.result == TIDE_BATCH_PIECE && tide_piece_delay > 0)
			pause_for(tide_piece_delay);
		is_done = report.result == TIDE_BATCH_NOTHING ||
			(report.result == TIDE_BATCH_DONE &&
			 (!report.is_continuation ||
			  tide_batch_has_consumed(tide_view_get(viewid), &position)));
	} while (!is_done);
}

/* CALL tidemark.catch_up(view) */
Datum
tide_catch_up(PG_FUNCTION_ARGS)
{
	CallContext *context = (CallContext *) fcinfo->context;
	bool		is_atomic = context == NULL ||
		!IsA(context, CallContext) || context->atomic;
	Oid			viewid;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("view must not be null")));
	PreventCommandIfReadOnly("tidemark.catch_up()");
	viewid = PG_GETARG_OID(0);
	refuse_paused(tide_view_get_owned(viewid));
	(void) tide_stream_repair();
	(void) tide_view_repair();

	if (is_atomic)
	{
		(void) run_batch(viewid);
		PG_RETURN_VOID();
	}

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	run_batches(viewid);
	SPI_finish();

	PG_RETURN_VOID();
}

/* Refuse to wait for what will not come by itself. */
static void
check_is_running(const TideView *view)
{
	TideFailure *failure = tide_catalog_read_failure(view->view);

	refuse_paused(view);
	if (view->trigger_usec == TIDE_TRIGGER_MANUAL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("continuous view \"%s\" runs only by hand",
						get_rel_name(view->view)),
				 errhint("Use CALL tidemark.catch_up.")));
	if (failure != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("continuous view \"%s\" has failed",
						get_rel_name(view->view)),
				 errdetail("%s: %s", failure->sqlstate, failure->message),
				 errhint("See the view tidemark.failures.")));
}

/*
 * tidemark.wait_for(view, timeout): true when all that was committed before
 * the call is in the view, false when the time is over.
 */
Datum
tide_wait_for(PG_FUNCTION_ARGS)
{
	Oid			viewid = PG_GETARG_OID(0);
	int64		timeout = tide_watermark_read_delay(PG_GETARG_INTERVAL_P(1),
													"timeout");
	TimestampTz end = GetCurrentTimestamp() + timeout;
	long		pause = FIRST_PAUSE;
	TidePosition position;
	Snapshot	snapshot;

	PreventCommandDuringRecovery("tidemark.wait_for()");
	(void) tide_view_get(viewid);
	if (pg_class_aclcheck(viewid, GetUserId(), ACL_SELECT) != ACLCHECK_OK)
		aclcheck_error(ACLCHECK_NO_PRIV, OBJECT_VIEW, get_rel_name(viewid));
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	position = tide_position_capture(snapshot);
	UnregisterSnapshot(snapshot);

	for (;;)
	{
		TideView   *view = tide_view_get(viewid);
		int64		left;

		check_is_running(view);
		if (tide_batch_has_consumed(view, &position))
			PG_RETURN_BOOL(true);
		left = (end - GetCurrentTimestamp()) / 1000;
		if (left <= 0)
			PG_RETURN_BOOL(false);

		pause_for(Min(pause, left));
		pause = Min(pause * 2, LONGEST_PAUSE);
	}
}
