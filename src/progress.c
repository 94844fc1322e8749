/*
 * progress.c
 *		What the monitoring views show beyond the columns of our tables.
 *
 * The views are plain SQL over the tables (section 8 of the install script);
 * here is what SQL cannot do.  None of it waits for a lock: monitoring must
 * answer when things are stuck.
 */
#include "postgres.h"

#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "batch.h"
#include "catalog.h"
#include "storage.h"
#include "watermark.h"

PG_FUNCTION_INFO_V1(tide_event_clock);
PG_FUNCTION_INFO_V1(tide_backlog_bytes);
PG_FUNCTION_INFO_V1(tide_history_share);
PG_FUNCTION_INFO_V1(tide_may_watch);
PG_FUNCTION_INFO_V1(tide_open_windows);
PG_FUNCTION_INFO_V1(tide_state_bytes);
PG_FUNCTION_INFO_V1(tide_view_status);

/* May the current user see the figures of a relation? */
static bool
may_watch(Oid relid)
{
	return TIDE_RELATION_OWNERCHECK(relid, GetUserId()) ||
		has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
}

/* tidemark.may_watch(relation); false for what was dropped */
Datum
tide_may_watch(PG_FUNCTION_ARGS)
{
	Oid			relid = PG_GETARG_OID(0);

	if (get_rel_name(relid) == NULL)
		PG_RETURN_BOOL(false);

	PG_RETURN_BOOL(may_watch(relid));
}

/* tidemark.event_clock(stream, event_time); NULL when there is no such stream */
Datum
tide_event_clock(PG_FUNCTION_ARGS)
{
	TideStream *stream = tide_catalog_read_stream(PG_GETARG_OID(0));

	if (stream == NULL)
		PG_RETURN_NULL();

	PG_RETURN_TIMESTAMPTZ(tide_watermark_to_timestamptz(stream,
														PG_GETARG_INT64(1)));
}

/* The view whose figures are asked for, or NULL; ereports when one may not. */
static TideView *
get_watched(Oid viewid)
{
	TideView   *view = tide_catalog_read_view(viewid);

	if (view == NULL || get_rel_name(viewid) == NULL)
		return NULL;
	if (!may_watch(viewid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for continuous view \"%s\"",
						get_rel_name(viewid))));

	return view;
}

/* Blocks of backlog; -1 when it cannot be known now. */
static int64
get_backlog(TideView *view)
{
	/* a standby captures no position, and runs no batch */
	return RecoveryInProgress() ? -1 : tide_batch_backlog(view);
}

/* tidemark.backlog_bytes(view); NULL when it cannot be known now */
Datum
tide_backlog_bytes(PG_FUNCTION_ARGS)
{
	TideView   *view = get_watched(PG_GETARG_OID(0));
	int64		blocks = view == NULL ? -1 : get_backlog(view);

	if (blocks < 0)
		PG_RETURN_NULL();

	PG_RETURN_INT64(blocks * BLCKSZ);
}

/* tidemark.history_share(view); NULL when it cannot be known now */
Datum
tide_history_share(PG_FUNCTION_ARGS)
{
	TideView   *view = get_watched(PG_GETARG_OID(0));
	double		share = -1;

	if (view != NULL && !RecoveryInProgress())
		share = tide_batch_history_share(view);
	if (share < 0)
		PG_RETURN_NULL();

	PG_RETURN_FLOAT8(share);
}

/* tidemark.state_bytes(view); NULL when it cannot be known now */
Datum
tide_state_bytes(PG_FUNCTION_ARGS)
{
	TideView   *view = get_watched(PG_GETARG_OID(0));
	int64		size = view == NULL ? -1 : tide_storage_size(view->storage);

	if (size < 0)
		PG_RETURN_NULL();

	PG_RETURN_INT64(size);
}

/* tidemark.open_windows(view); NULL without windows, or when locked */
Datum
tide_open_windows(PG_FUNCTION_ARGS)
{
	TideView   *view = get_watched(PG_GETARG_OID(0));
	TideCheckpoint *checkpoint = NULL;
	int64		n = -1;

	if (view != NULL)
		checkpoint = tide_catalog_read_checkpoint_as_of(view->view,
														view->stream,
														GetActiveSnapshot());
	if (checkpoint != NULL)
		n = tide_storage_count_open(view->storage, checkpoint->final_before);
	if (n < 0)
		PG_RETURN_NULL();

	PG_RETURN_INT64(n);
}

/* Would somebody have come for a backlog by now? */
static bool
is_due(const TideView *view, const TideCheckpoint *checkpoint)
{
	if (view->trigger_usec == TIDE_TRIGGER_MANUAL)
		return false;

	return TIMESTAMP_IS_NOBEGIN(checkpoint->batch_clock) ||
		GetCurrentTimestamp() - checkpoint->batch_clock > view->trigger_usec;
}

/*
 * Did the last batch take longer than its rows had taken to come, and is there
 * more to read than it had?
 */
static bool
is_falling_behind(const TideCheckpoint *checkpoint, int64 backlog)
{
	const int64 *last = checkpoint->last.v;
	int64		worked = last[TIDE_TIME_PLAN] + last[TIDE_TIME_READ] +
		last[TIDE_TIME_MERGE] + last[TIDE_TIME_COMMIT];

	return last[TIDE_TIME_ARRIVAL] > 0 && worked > last[TIDE_TIME_ARRIVAL] &&
		backlog > last[TIDE_BLOCKS_READ];
}

/* Where a view stands, in a word.  The first that holds. */
static const char *
find_status(TideView *view, TideCheckpoint *checkpoint)
{
	int64		backlog;
	bool		has_history = checkpoint->position.xmax == 0;

	if (view->paused)
		return "paused";
	if (tide_catalog_read_failure(view->view) != NULL)
		return "failed";
	if (checkpoint->has_target && has_history)
		return "backfill";

	backlog = get_backlog(view);
	if (has_history && backlog > 0)
		return "backfill";
	if (is_falling_behind(checkpoint, backlog))
		return "falling behind";
	if (checkpoint->has_target)
		return "catching up";
	if (tide_catalog_checkpoint_is_locked(view->view))
		return "running";
	if (backlog > 0 && is_due(view, checkpoint))
		return "catching up";
	if (view->emit_final && backlog <= 0 &&
		tide_storage_count_open(view->storage, checkpoint->final_before) > 0)
		return "waiting for watermark";

	return "idle";
}

/* tidemark.view_status(view); NULL when there is no such view */
Datum
tide_view_status(PG_FUNCTION_ARGS)
{
	TideView   *view = get_watched(PG_GETARG_OID(0));
	TideCheckpoint *checkpoint = NULL;

	if (view != NULL)
		checkpoint = tide_catalog_read_checkpoint(view->view, view->stream);
	if (checkpoint == NULL)
		PG_RETURN_NULL();

	PG_RETURN_TEXT_P(cstring_to_text(find_status(view, checkpoint)));
}
