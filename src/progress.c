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
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "batch.h"
#include "catalog.h"
#include "watermark.h"

PG_FUNCTION_INFO_V1(tide_event_clock);
PG_FUNCTION_INFO_V1(tide_backlog_bytes);
PG_FUNCTION_INFO_V1(tide_may_watch);

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

/* tidemark.backlog_bytes(view); NULL when it cannot be known now */
Datum
tide_backlog_bytes(PG_FUNCTION_ARGS)
{
	Oid			viewid = PG_GETARG_OID(0);
	TideView   *view = tide_catalog_read_view(viewid);
	int64		blocks;

	if (view == NULL || get_rel_name(viewid) == NULL)
		PG_RETURN_NULL();
	if (!may_watch(viewid))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied for continuous view \"%s\"",
						get_rel_name(viewid))));
	/* a standby captures no position, and runs no batch */
	if (RecoveryInProgress())
		PG_RETURN_NULL();
	blocks = tide_batch_backlog(view);
	if (blocks < 0)
		PG_RETURN_NULL();

	PG_RETURN_INT64(blocks * BLCKSZ);
}
