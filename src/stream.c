/*
 * stream.c
 *		Acts on streams: create, alter, drop.
 *
 * Making a table a stream adds to it a column, an index and a trigger, makes a
 * definition view and writes our catalog row.  All of it is catalog-only,
 * whatever the size of the table:
 *
 * - the column gets its value for existing rows as a missing value, and only
 *	 then the default that stamps new ones;
 * - the index is made without reading the table.  A BRIN index in which no
 *	 range is summarized is valid, only of no use yet: a scan reads the ranges
 *	 that it does not know.  So the index consists of its metapage, as one of
 *	 an unlogged table after a crash does, and VACUUM or brin_summarize fills
 *	 it like any other.
 *
 * The definition view tidemark_data.stream_N holds the event time.  It makes
 * Postgres follow renames, refuse to drop or retype the columns, and dump the
 * expression as text.  The expression is analyzed as the caller, and the view
 * is made of the resulting tree by the extension's owner: were it deparsed
 * and parsed again, type input functions and the domain constraints they
 * check would run as the extension's owner.
 *
 * The view depends on the table AUTOmatically, so that DROP TABLE takes it
 * along.  An INTERNAL dependency would do the same, but also make DROP
 * EXTENSION ... CASCADE drop the user's tables.
 *
 * LOCKING: the table and its partitions first, in the mode of the strongest
 * thing that will be done to them (ACCESS EXCLUSIVE to create and drop); then
 * user's views, definition, our rows.
 *
 * TRANSACTIONS: everything is part of the caller's.
 */
#include "postgres.h"

#include "access/brin.h"
#include "access/brin_page.h"
#include "access/brin_pageops.h"
#include "access/genam.h"
#include "access/relation.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_subscription_rel.h"
#include "catalog/pg_trigger.h"
#include "catalog/pg_type.h"
#include "commands/defrem.h"
#include "commands/tablecmds.h"
#include "commands/trigger.h"
#include "commands/view.h"
#include "common/int.h"
#include "executor/spi.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parse_coerce.h"
#include "parser/parser.h"
#include "pgtime.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "compat.h"
#include "definition.h"
#include "security.h"
#include "shmem.h"
#include "stamp.h"
#include "stream.h"
#include "watermark.h"

#define GUARD_TRIGGER "tidemark_guard_update"
#define STRICT_TRIGGER "tidemark_strict_stamp"
#define EVENT_TIME_COLUMN "event_time"
#define PAGES_PER_RANGE "128"

/* what the error context callback needs */
typedef struct EventTimeContext
{
	const char *text;
	const char *table;
} EventTimeContext;

static bool skip_existing(Oid relid);
static void check_owner(Oid relid);
static void lock_table(Oid relid, LOCKMODE lockmode);
static void check_table(Relation rel);
static char *why_no_stream(Relation rel, char **hint);
static char *why_no_storage(Relation rel, char **hint);
static void check_partitions(Relation rel);
static void check_stamp_column(Relation rel);
static void refuse_joined(Relation rel);
static void read_max_future(text *value, TideStream *stream);
static char *read_timezone(text *value);
static Query *analyze_event_time(Relation rel, const char *text);
static Node *parse_event_time(Relation rel, const char *text);
static void report_event_time(void *arg);
static void check_event_time(Relation rel, Query *query, const char *text);
static char *why_no_event_time(Relation rel, Query *query);
static void check_event_type(Query *query, const char *text);
static Oid	create_definition(Query *query);
static void bind_definition(Oid definition, Oid relid);
static Oid	create_index(Oid relid);
static void build_empty_index(Oid indexid);
static void create_guard(Oid relid);
static void create_strict_stamp(Oid relid);
static void drop_trigger(Oid relid, const char *name);
static void check_subscription(Oid relid, bool is_strict);
static void run_ddl(const char *format,...) pg_attribute_printf(1, 2);
static char *qualified_name(Oid relid);
static void drop_views(Oid relid, bool cascade);

PG_FUNCTION_INFO_V1(tide_create_stream);
PG_FUNCTION_INFO_V1(tide_alter_stream);
PG_FUNCTION_INFO_V1(tide_drop_stream);
PG_FUNCTION_INFO_V1(tide_guard_update);
PG_FUNCTION_INFO_V1(tide_stamp_row);

/* --------------------------------------------------------------------------
 * SQL functions
 * --------------------------------------------------------------------------
 */

/* Refuse a NULL for a parameter that has no meaning for it. */
static void
refuse_null(FunctionCallInfo fcinfo, int argno, const char *parameter)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", parameter)));
}

/*
 * tidemark.create_stream(relation, event_time, watermark_delay, max_future,
 * timezone, allow_update, if_not_exists)
 */
Datum
tide_create_stream(PG_FUNCTION_ARGS)
{
	TideStream *stream = palloc0(sizeof(TideStream));
	Oid			relid;
	char	   *event_time;
	bool		is_strict;
	bool		if_not_exists;
	Relation	rel;
	Query	   *query;
	Oid			indexid;

	refuse_null(fcinfo, 0, "relation");
	refuse_null(fcinfo, 1, "event_time");
	refuse_null(fcinfo, 2, "watermark_delay");
	refuse_null(fcinfo, 3, "max_future");
	refuse_null(fcinfo, 5, "allow_update");
	refuse_null(fcinfo, 6, "strict_stamp");
	refuse_null(fcinfo, 7, "if_not_exists");
	relid = PG_GETARG_OID(0);
	event_time = text_to_cstring(PG_GETARG_TEXT_PP(1));
	stream->relation = relid;
	stream->watermark_delay = tide_watermark_read_delay(PG_GETARG_INTERVAL_P(2),
										 "watermark_delay");
	read_max_future(PG_GETARG_TEXT_PP(3), stream);
	stream->timezone = read_timezone(PG_ARGISNULL(4) ? NULL :
									 PG_GETARG_TEXT_PP(4));
	stream->allow_update = PG_GETARG_BOOL(5);
	is_strict = PG_GETARG_BOOL(6);
	if_not_exists = PG_GETARG_BOOL(7);

	/* without the right to, or for nothing, not even wait for the lock */
	PreventCommandIfReadOnly("tidemark.create_stream()");
	check_owner(relid);
	if (if_not_exists && skip_existing(relid))
		PG_RETURN_VOID();
	(void) tide_stream_repair();
	lock_table(relid, AccessExclusiveLock);
	if (if_not_exists && skip_existing(relid))
		PG_RETURN_VOID();

	rel = relation_open(relid, NoLock);
	check_table(rel);
	check_stamp_column(rel);
	check_subscription(relid, is_strict);
	refuse_joined(rel);
	query = analyze_event_time(rel, event_time);
	relation_close(rel, NoLock);

	stream->definition = create_definition(query);
	run_ddl("ALTER TABLE %s ADD COLUMN %s tidemark.stamp DEFAULT '" INT64_FORMAT "'",
			qualified_name(relid), TIDE_STAMP_COLUMN, TIDE_STAMP_HISTORY);
	run_ddl("ALTER TABLE %s ALTER COLUMN %s SET DEFAULT tidemark.txid_stamp()",
			qualified_name(relid), TIDE_STAMP_COLUMN);
	bind_definition(stream->definition, relid);
	indexid = create_index(relid);
	if (!stream->allow_update)
		create_guard(relid);
	if (is_strict)
		create_strict_stamp(relid);
	stream->created_at = GetCurrentTransactionStartTimestamp();
	tide_catalog_insert_stream(stream);
	tide_shmem_wake_catalog_at_commit();

	ereport(NOTICE,
			(errmsg("table \"%s\" is now a stream", get_rel_name(relid)),
			 stream->allow_update ?
			 errdetail("Column \"%s\" and index \"%s\" were added to it.",
					   TIDE_STAMP_COLUMN, get_rel_name(indexid)) :
			 errdetail("Column \"%s\", index \"%s\" and trigger \"%s\" were added to it.",
					   TIDE_STAMP_COLUMN, get_rel_name(indexid),
					   GUARD_TRIGGER)));

	PG_RETURN_VOID();
}

/* If the table is a stream, say that nothing is done and return true. */
static bool
skip_existing(Oid relid)
{
	if (tide_catalog_read_stream(relid) == NULL)
		return false;
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_OBJECT),
			 errmsg("\"%s\" is already a stream, skipping",
					get_rel_name(relid))));

	return true;
}

/*
 * tidemark.alter_stream(relation, watermark_delay, max_future, timezone,
 * allow_update)
 */
Datum
tide_alter_stream(PG_FUNCTION_ARGS)
{
	Oid			relid;
	TideStream *stream;
	LOCKMODE	lockmode = ShareUpdateExclusiveLock;

	refuse_null(fcinfo, 0, "relation");
	relid = PG_GETARG_OID(0);
	PreventCommandIfReadOnly("tidemark.alter_stream()");
	check_owner(relid);

	/* only to make or drop the trigger, a strong lock */
	if (!PG_ARGISNULL(4))
	{
		stream = tide_catalog_read_stream(relid);
		if (stream != NULL && stream->allow_update != PG_GETARG_BOOL(4))
			lockmode = AccessExclusiveLock;
	}
	if (!PG_ARGISNULL(5))
		lockmode = AccessExclusiveLock;
	lock_table(relid, lockmode);

	tide_catalog_lock_stream(relid);
	stream = tide_catalog_read_stream(relid);
	if (stream == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 errmsg("\"%s\" is not a stream", get_rel_name(relid))));

	if (!PG_ARGISNULL(1))
		stream->watermark_delay = tide_watermark_read_delay(PG_GETARG_INTERVAL_P(1),
											 "watermark_delay");
	if (!PG_ARGISNULL(2))
		read_max_future(PG_GETARG_TEXT_PP(2), stream);
	if (!PG_ARGISNULL(3))
		stream->timezone = read_timezone(PG_GETARG_TEXT_PP(3));
	if (!PG_ARGISNULL(4) && stream->allow_update != PG_GETARG_BOOL(4))
	{
		stream->allow_update = PG_GETARG_BOOL(4);
		if (stream->allow_update)
			drop_trigger(relid, GUARD_TRIGGER);
		else
			create_guard(relid);
	}
	if (!PG_ARGISNULL(5))
	{
		check_subscription(relid, PG_GETARG_BOOL(5));
		drop_trigger(relid, STRICT_TRIGGER);
		if (PG_GETARG_BOOL(5))
			create_strict_stamp(relid);
	}
	tide_catalog_update_stream(stream);
	tide_shmem_wake_catalog_at_commit();

	PG_RETURN_VOID();
}

/* tidemark.drop_stream(relation, cascade, if_exists) */
Datum
tide_drop_stream(PG_FUNCTION_ARGS)
{
	Oid			relid;
	bool		cascade;
	bool		if_exists;
	TideStream *stream;
	ObjectAddress definition;

	refuse_null(fcinfo, 0, "relation");
	refuse_null(fcinfo, 1, "cascade");
	refuse_null(fcinfo, 2, "if_exists");
	relid = PG_GETARG_OID(0);
	cascade = PG_GETARG_BOOL(1);
	if_exists = PG_GETARG_BOOL(2);

	PreventCommandIfReadOnly("tidemark.drop_stream()");
	check_owner(relid);
	if (tide_catalog_read_stream(relid) != NULL)
		lock_table(relid, AccessExclusiveLock);
	stream = tide_catalog_read_stream(relid);
	if (stream == NULL)
	{
		ereport(if_exists ? NOTICE : ERROR,
				(errcode(ERRCODE_UNDEFINED_OBJECT),
				 if_exists ?
				 errmsg("\"%s\" is not a stream, skipping",
						get_rel_name(relid)) :
				 errmsg("\"%s\" is not a stream", get_rel_name(relid))));
		PG_RETURN_VOID();
	}

	(void) tide_stream_repair();
	drop_views(relid, cascade);
	ObjectAddressSet(definition, RelationRelationId, stream->definition);
	if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(stream->definition)))
		performDeletion(&definition, cascade ? DROP_CASCADE : DROP_RESTRICT,
						PERFORM_DELETION_INTERNAL);
	drop_trigger(relid, GUARD_TRIGGER);
	drop_trigger(relid, STRICT_TRIGGER);
	if (get_attnum(relid, TIDE_STAMP_COLUMN) != InvalidAttrNumber)
		run_ddl("ALTER TABLE %s DROP COLUMN %s %s",
				qualified_name(relid), TIDE_STAMP_COLUMN,
				cascade ? "CASCADE" : "RESTRICT");
	tide_catalog_delete_stream(relid);
	tide_shmem_wake_catalog_at_commit();

	PG_RETURN_VOID();
}

/*
 * tidemark.stamp_row(): BEFORE INSERT trigger that gives a row the stamp of
 * its transaction.
 */
Datum
tide_stamp_row(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;
	AttrNumber	attno;
	int			column;
	Datum		stamp;
	bool		isnull = false;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BY_INSERT(trigdata->tg_event) ||
		!TRIGGER_FIRED_FOR_ROW(trigdata->tg_event) ||
		!TRIGGER_FIRED_BEFORE(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function tidemark.stamp_row() must be called by a BEFORE INSERT trigger for each row")));
	attno = tide_stamp_attno(trigdata->tg_relation);
	if (attno == InvalidAttrNumber)
		return PointerGetDatum(trigdata->tg_trigtuple);
	column = attno;
	stamp = Int64GetDatum(tide_stamp_current());

	return PointerGetDatum(heap_modify_tuple_by_cols(trigdata->tg_trigtuple,
													 RelationGetDescr(trigdata->tg_relation),
													 1, &column, &stamp,
													 &isnull));
}

/* Trigger of a stream: refuse an update. */
Datum
tide_guard_update(PG_FUNCTION_ARGS)
{
	TriggerData *trigdata = (TriggerData *) fcinfo->context;

	if (!CALLED_AS_TRIGGER(fcinfo) ||
		!TRIGGER_FIRED_BY_UPDATE(trigdata->tg_event))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function tidemark.guard_update() must be called by an UPDATE trigger")));

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("cannot update rows of stream \"%s\"",
					RelationGetRelationName(trigdata->tg_relation)),
			 errdetail("A row is read once: updating it would not change what was computed from it."),
			 errhint("Insert a new row, or accept this with tidemark.alter_stream(..., allow_update => true).")));

	return PointerGetDatum(NULL);
}

/* --------------------------------------------------------------------------
 * The table
 * --------------------------------------------------------------------------
 */

/* Ereport unless the relation exists and is owned by the current user. */
static void
check_owner(Oid relid)
{
	char	   *name = get_rel_name(relid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	if (!TIDE_RELATION_OWNERCHECK(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER,
					   get_relkind_objtype(get_rel_relkind(relid)), name);
}

/*
 * Lock a table and its partitions.  Rights and existence may have changed
 * while we waited, so they are checked again.
 */
static void
lock_table(Oid relid, LOCKMODE lockmode)
{
	LockRelationOid(relid, lockmode);
	check_owner(relid);
	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		(void) find_all_inheritors(relid, lockmode, NULL);
}

/* Ereport with the reason if the table cannot be a stream. */
static void
check_table(Relation rel)
{
	char	   *hint = NULL;
	char	   *reason;

	reason = why_no_storage(rel, &hint);
	if (reason == NULL)
		reason = why_no_stream(rel, &hint);
	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot make \"%s\" a stream",
						RelationGetRelationName(rel)),
				 errdetail_internal("%s", reason),
				 hint ? errhint("%s", hint) : 0));

	if (tide_catalog_read_stream(RelationGetRelid(rel)) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_OBJECT),
				 errmsg("\"%s\" is already a stream",
						RelationGetRelationName(rel)),
				 errhint("Use tidemark.alter_stream to change it.")));
	check_partitions(rel);
}

/*
 * Why rows of this relation cannot be read as events, as a sentence, or NULL.
 * Holds for partitions, too.
 */
static char *
why_no_storage(Relation rel, char **hint)
{
	switch (rel->rd_rel->relkind)
	{
		case RELKIND_RELATION:
		case RELKIND_PARTITIONED_TABLE:
			break;
		case RELKIND_VIEW:
			*hint = _("Make the table that it reads a stream.");
			return _("It is a view.");
		case RELKIND_MATVIEW:
			*hint = _("Make the table that it reads a stream.");
			return _("It is a materialized view.");
		case RELKIND_FOREIGN_TABLE:
			*hint = _("Copy the events into a table of this database.");
			return _("It is a foreign table.");
		default:
			return _("It is not a table.");
	}

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return _("It is a temporary table, which only its own session can read.");
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_UNLOGGED)
	{
		*hint = _("Use ALTER TABLE ... SET LOGGED first.");
		return _("It is an unlogged table: a crash would empty it, but not what was computed from it.");
	}
	if (rel->rd_rel->relkind == RELKIND_RELATION &&
		rel->rd_rel->relam != HEAP_TABLE_AM_OID)
		return _("Its table access method is not \"heap\".");

	return NULL;
}

/* Why a table cannot be the root of a stream, as a sentence, or NULL. */
static char *
why_no_stream(Relation rel, char **hint)
{
	Oid			relid = RelationGetRelid(rel);

	if (IsSystemRelation(rel))
		return _("It is a system table.");
	if (RelationGetNamespace(rel) == tide_catalog_schema() ||
		RelationGetNamespace(rel) == tide_catalog_data_schema())
		return _("It is a table of tidemark.");
	if (rel->rd_rel->relispartition)
	{
		Oid			root = llast_oid(get_partition_ancestors(relid));

		*hint = psprintf(_("Make the partitioned table \"%s\" a stream."),
						 get_rel_name(root));
		return _("It is a partition.");
	}
	if (OidIsValid(rel->rd_rel->reloftype))
		return _("It is a typed table, to which no column can be added.");
	if (rel->rd_rel->relkind == RELKIND_RELATION)
	{
		*hint = _("Use a partitioned table instead of inheritance.");
		if (has_superclass(relid))
			return _("It inherits from another table.");
		if (find_inheritance_children(relid, NoLock) != NIL)
			return _("Other tables inherit from it.");
		*hint = NULL;
	}

	return NULL;
}

/* Ereport if a partition of the table cannot be read; they are locked. */
static void
check_partitions(Relation rel)
{
	ListCell   *lc;

	if (rel->rd_rel->relkind != RELKIND_PARTITIONED_TABLE)
		return;

	foreach(lc, find_all_inheritors(RelationGetRelid(rel), NoLock, NULL))
	{
		Relation	partition = relation_open(lfirst_oid(lc), NoLock);
		char	   *hint = NULL;
		char	   *reason = why_no_storage(partition, &hint);

		if (reason != NULL)
			ereport(ERROR,
					(errcode(ERRCODE_WRONG_OBJECT_TYPE),
					 errmsg("cannot make \"%s\" a stream",
							RelationGetRelationName(rel)),
					 errdetail("Partition \"%s\" cannot be read as events: %s",
							   RelationGetRelationName(partition), reason),
					 errhint("Detach the partition, or make it an ordinary table.")));
		check_stamp_column(partition);
		relation_close(partition, NoLock);
	}
}

/* Ereport if there is a column of the name that we want to give. */
static void
check_stamp_column(Relation rel)
{
	if (get_attnum(RelationGetRelid(rel),
				   TIDE_STAMP_COLUMN) == InvalidAttrNumber)
		return;

	ereport(ERROR,
			(errcode(ERRCODE_DUPLICATE_COLUMN),
			 errmsg("column \"%s\" of relation \"%s\" already exists",
					TIDE_STAMP_COLUMN, RelationGetRelationName(rel)),
			 errdetail("A stream needs a column of this name for its stamps."),
			 tide_stamp_attno(rel) != InvalidAttrNumber ?
			 errhint("It is left from an earlier stream: use ALTER TABLE ... DROP COLUMN.") :
			 errhint("Use ALTER TABLE ... RENAME COLUMN.")));
}

/*
 * Ereport if a continuous view joins the table, or a partition of it, as an
 * ordinary one: its query would become a join of two streams.
 */
static void
refuse_joined(Relation rel)
{
	List	   *tables = find_all_inheritors(RelationGetRelid(rel), NoLock, NULL);
	ListCell   *lc;

	foreach(lc, tide_catalog_read_views())
	{
		TideView   *view = (TideView *) lfirst(lc);
		ListCell   *table;

		foreach(table, tables)
		{
			if (!tide_definition_reads(view->definition, lfirst_oid(table)) ||
				!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(view->view)))
				continue;
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot make \"%s\" a stream",
							RelationGetRelationName(rel)),
					 errdetail("Continuous view %s joins \"%s\" as an ordinary table.",
							   qualified_name(view->view),
							   get_rel_name(lfirst_oid(table))),
					 errhint("Drop the view first, or keep the events in another table.")));
		}
	}
}

/* --------------------------------------------------------------------------
 * Parameters
 * --------------------------------------------------------------------------
 */

/*
 * Set max_future of a stream from text, as there is no infinite interval
 * before PostgreSQL 17.
 */
static void
read_max_future(text *value, TideStream *stream)
{
	char	   *string = text_to_cstring(value);
	Datum		interval;

	stream->has_max_future = pg_strcasecmp(string, "infinity") != 0;
	stream->max_future = 0;
	if (!stream->has_max_future)
		return;

	interval = DirectFunctionCall3(interval_in, CStringGetDatum(string),
								   ObjectIdGetDatum(InvalidOid),
								   Int32GetDatum(-1));
	stream->max_future = tide_watermark_read_delay(DatumGetIntervalP(interval), "max_future");
}

/* The name of a time zone that exists; NULL: the session's. */
static char *
read_timezone(text *value)
{
	char	   *name;
	pg_tz	   *zone;

	if (value == NULL)
		return pstrdup(pg_get_timezone_name(session_timezone));

	name = text_to_cstring(value);
	zone = pg_tzset(name);
	if (zone == NULL || !pg_tz_acceptable(zone))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" not recognized", name),
				 errhint("See the view pg_timezone_names.")));

	return pstrdup(pg_get_timezone_name(zone));
}

/* --------------------------------------------------------------------------
 * Event time
 * --------------------------------------------------------------------------
 */

/*
 * The analyzed query SELECT <text> AS event_time FROM <table>; ereports if the
 * text is not an event time.
 */
static Query *
analyze_event_time(Relation rel, const char *text)
{
	EventTimeContext context;
	ErrorContextCallback callback;
	SelectStmt *select = makeNode(SelectStmt);
	ResTarget  *target = makeNode(ResTarget);
	RawStmt    *raw = makeNode(RawStmt);
	Query	   *query;

	context.text = text;
	context.table = RelationGetRelationName(rel);
	callback.callback = report_event_time;
	callback.arg = &context;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	target->name = EVENT_TIME_COLUMN;
	target->val = parse_event_time(rel, text);
	target->location = -1;
	select->targetList = list_make1(target);
	select->fromClause =
		list_make1(makeRangeVar(get_namespace_name(RelationGetNamespace(rel)),
								pstrdup(RelationGetRelationName(rel)), -1));
	raw->stmt = (Node *) select;
	query = parse_analyze_fixedparams(raw, text, NULL, 0, NULL);

	error_context_stack = callback.previous;

	check_event_type(query, text);
	check_event_time(rel, query, text);

	return query;
}

/*
 * The raw expression: the column of exactly this name, or the text parsed.
 * What plpgsql accepts as an expression is the remainder of a SELECT, so the
 * other clauses must be found missing.
 */
static Node *
parse_event_time(Relation rel, const char *text)
{
	List	   *raws;
	SelectStmt *select;
	ResTarget  *target;

	if (get_attnum(RelationGetRelid(rel), text) > 0)
	{
		ColumnRef  *column = makeNode(ColumnRef);

		column->fields = list_make1(makeString(pstrdup(text)));
		column->location = -1;
		return (Node *) column;
	}

	raws = raw_parser(text, RAW_PARSE_PLPGSQL_EXPR);
	select = castNode(SelectStmt, linitial_node(RawStmt, raws)->stmt);
	if (list_length(select->targetList) == 1 &&
		select->distinctClause == NIL && select->intoClause == NULL &&
		select->fromClause == NIL && select->whereClause == NULL &&
		select->groupClause == NIL && select->havingClause == NULL &&
		select->windowClause == NIL && select->valuesLists == NIL &&
		select->sortClause == NIL && select->limitOffset == NULL &&
		select->limitCount == NULL && select->lockingClause == NIL &&
		select->withClause == NULL && select->op == SETOP_NONE)
	{
		target = linitial_node(ResTarget, select->targetList);
		if (target->name == NULL && target->indirection == NIL)
			return target->val;
	}

	ereport(ERROR,
			(errcode(ERRCODE_SYNTAX_ERROR),
			 errmsg("\"%s\" is not an expression", text),
			 errhint("Name a column, or an expression over the columns of one row.")));
	return NULL;				/* keep compiler quiet */
}

/* Error context: positions are those in the text, not in the user's query. */
static void
report_event_time(void *arg)
{
	EventTimeContext *context = (EventTimeContext *) arg;
	int			position = geterrposition();

	if (position > 0)
	{
		errposition(0);
		internalerrposition(position);
		internalerrquery(context->text);
	}
	errcontext("event time of stream \"%s\"", context->table);
}

/*
 * Ereport unless the event time is a timestamp; one of a domain becomes one of
 * the type below it.
 */
static void
check_event_type(Query *query, const char *text)
{
	TargetEntry *entry;
	Oid			type;
	Oid			base;
	char	   *hint;

	entry = linitial_node(TargetEntry, query->targetList);
	type = exprType((Node *) entry->expr);
	base = getBaseType(type);
	if (list_length(query->targetList) == 1 &&
		(base == TIMESTAMPTZOID || base == TIMESTAMPOID))
	{
		if (type != base)
			entry->expr = (Expr *)
				coerce_to_target_type(NULL, (Node *) entry->expr, type, base,
									  -1, COERCION_EXPLICIT,
									  COERCE_IMPLICIT_CAST, -1);
		return;
	}

	if (TypeCategory(base) == TYPCATEGORY_NUMERIC)
		hint = _("If it counts milliseconds since 1970, use to_timestamp(... / 1000.0).");
	else if (base == DATEOID)
		hint = _("Cast it to timestamp.");
	else
		hint = _("Use an immutable expression of one of these types.");
	ereport(ERROR,
			(errcode(ERRCODE_DATATYPE_MISMATCH),
			 errmsg("event time \"%s\" is of type %s", text,
					format_type_be(type)),
			 errdetail("An event time is a timestamp, with or without time zone."),
			 errhint("%s", hint)));
}

/* Ereport with the reason if this can be no event time. */
static void
check_event_time(Relation rel, Query *query, const char *text)
{
	char	   *reason = why_no_event_time(rel, query);
	Expr	   *expr;

	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot use \"%s\" as event time", text),
				 errdetail_internal("%s", reason),
				 errhint("Use a column, or an immutable expression over the columns of one row.")));

	/* planning inlines and folds, as it does for indexes and partition keys */
	expr = linitial_node(TargetEntry, query->targetList)->expr;
	expr = expression_planner(copyObject(expr));
	if (contain_mutable_functions((Node *) expr))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_OBJECT_DEFINITION),
				 errmsg("event time \"%s\" is not immutable", text),
				 errdetail("Its value may depend on settings such as TimeZone, or on when it is computed."),
				 errhint("Name a time zone, for example with AT TIME ZONE 'UTC'.")));
}

/* Why the expression can be no event time, as a sentence, or NULL. */
static char *
why_no_event_time(Relation rel, Query *query)
{
	Expr	   *expr = linitial_node(TargetEntry, query->targetList)->expr;
	Bitmapset  *attnos = NULL;
	int			i = -1;

	if (query->hasSubLinks)
		return _("It contains a subquery.");
	if (query->hasAggs)
		return _("It contains an aggregate.");
	if (query->hasWindowFuncs)
		return _("It contains a window function.");
	if (query->hasTargetSRFs)
		return _("It returns a set.");

	pull_varattnos((Node *) expr, 1, &attnos);
	if (bms_is_empty(attnos))
		return _("It refers to no column of the table.");
	while ((i = bms_next_member(attnos, i)) >= 0)
	{
		AttrNumber	attno = i + FirstLowInvalidHeapAttributeNumber;

		if (attno < 0)
			return _("It refers to a system column.");
		if (attno == 0)
			return _("It refers to the whole row.");
		if (TIDE_ATTRIBUTE_IS_VIRTUAL(TupleDescAttr(RelationGetDescr(rel),
													attno - 1)))
			return _("It refers to a virtual generated column.");
	}

	return NULL;
}

/* --------------------------------------------------------------------------
 * What belongs to a stream
 * --------------------------------------------------------------------------
 */

/*
 * Make the definition view from an analyzed query, owned by the extension's
 * owner.
 */
static Oid
create_definition(Query *query)
{
	char	   *name = psprintf("stream_" INT64_FORMAT,
								tide_catalog_next_object_id());
	RangeVar   *rangevar =
		makeRangeVar(get_namespace_name(tide_catalog_data_schema()), name, -1);
	Oid			definition;
	TideSecurity saved;

	tide_security_enter_extension(&saved);
	definition = tide_definition_create(rangevar, query, tide_catalog_owner());
	tide_definition_store(definition, query);
	tide_security_leave(&saved);

	return definition;
}

/*
 * Let the definition go with its table, and the stamp column only with the
 * definition.
 */
static void
bind_definition(Oid definition, Oid relid)
{
	ObjectAddress view;
	ObjectAddress table;

	ObjectAddressSet(view, RelationRelationId, definition);
	ObjectAddressSet(table, RelationRelationId, relid);
	recordDependencyOn(&view, &table, DEPENDENCY_AUTO);
	table.objectSubId = get_attnum(relid, TIDE_STAMP_COLUMN);
	if (table.objectSubId != InvalidAttrNumber)
		recordDependencyOn(&view, &table, DEPENDENCY_NORMAL);
}

/*
 * Make the index on the stamp column, without reading the table; on a
 * partitioned table one for each partition.  The table is locked ACCESS
 * EXCLUSIVE, so that nobody sees an index without its metapage.
 */
static Oid
create_index(Oid relid)
{
	IndexStmt  *stmt = makeNode(IndexStmt);
	IndexElem  *column = makeNode(IndexElem);
	bool		is_alter_table = false;
	bool		check_rights = true;
	bool		check_not_in_use = true;
	bool		skip_build = true;
	bool		quiet = true;
	ObjectAddress index;
	ListCell   *lc;

	column->name = TIDE_STAMP_COLUMN;
	column->ordering = SORTBY_DEFAULT;
	column->nulls_ordering = SORTBY_NULLS_DEFAULT;
	stmt->relation =
		makeRangeVar(get_namespace_name(get_rel_namespace(relid)),
					 get_rel_name(relid), -1);
	stmt->accessMethod = "brin";
	stmt->indexParams = list_make1(column);
	stmt->options =
		list_make2(makeDefElem("pages_per_range",
							   (Node *) makeString(PAGES_PER_RANGE), -1),
				   makeDefElem("autosummarize",
							   (Node *) makeString("off"), -1));
	stmt->transformed = true;

	index = TIDE_DEFINE_INDEX(relid, stmt, is_alter_table, check_rights,
							  check_not_in_use, skip_build, quiet);
	CommandCounterIncrement();

	foreach(lc, find_all_inheritors(index.objectId, AccessExclusiveLock, NULL))
	{
		if (get_rel_relkind(lfirst_oid(lc)) == RELKIND_INDEX)
			build_empty_index(lfirst_oid(lc));
	}

	return index.objectId;
}

/*
 * Write the metapage of a BRIN index that has no pages yet.  What brinbuild
 * and brinbuildempty do for it.
 */
static void
build_empty_index(Oid indexid)
{
	Relation	index = index_open(indexid, AccessExclusiveLock);
	Buffer		buffer;

	if (RelationGetNumberOfBlocks(index) != 0)
		elog(ERROR, "index \"%s\" already contains data",
			 RelationGetRelationName(index));

	buffer = ReadBuffer(index, P_NEW);
	Assert(BufferGetBlockNumber(buffer) == BRIN_METAPAGE_BLKNO);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);

	START_CRIT_SECTION();
	brin_metapage_init(BufferGetPage(buffer), BrinGetPagesPerRange(index),
					   BRIN_CURRENT_VERSION);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(index))
		(void) log_newpage_buffer(buffer, true);
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
	index_close(index, NoLock);
}

/* Make the trigger that refuses updates. */
static void
create_guard(Oid relid)
{
	run_ddl("CREATE OR REPLACE TRIGGER %s BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION tidemark.guard_update()",
			GUARD_TRIGGER, qualified_name(relid));
}

/*
 * Make the trigger that stamps every row, whatever stamp it brings, also those
 * that logical replication applies.
 */
static void
create_strict_stamp(Oid relid)
{
	char	   *name = qualified_name(relid);

	run_ddl("CREATE TRIGGER %s BEFORE INSERT ON %s FOR EACH ROW EXECUTE FUNCTION tidemark.stamp_row()",
			STRICT_TRIGGER, name);
	run_ddl("ALTER TABLE %s ENABLE ALWAYS TRIGGER %s", name, STRICT_TRIGGER);
}

/* Drop one of our triggers, if it is there. */
static void
drop_trigger(Oid relid, const char *name)
{
	bool		missing_ok = true;

	if (OidIsValid(get_trigger_oid(relid, name, missing_ok)))
		run_ddl("DROP TRIGGER %s ON %s", name, qualified_name(relid));
}

/*
 * Rows that come from a publisher bring its stamps, which mean nothing here,
 * or none: such a table, or partition, needs the strict trigger.
 */
static void
check_subscription(Oid relid, bool is_strict)
{
	ListCell   *lc;

	if (is_strict)
		return;
	foreach(lc, find_all_inheritors(relid, NoLock, NULL))
	{
		Relation	rel = table_open(SubscriptionRelRelationId,
									 AccessShareLock);
		ScanKeyData key;
		SysScanDesc scan;
		bool		found;

		ScanKeyInit(&key, Anum_pg_subscription_rel_srrelid,
					BTEqualStrategyNumber, F_OIDEQ,
					ObjectIdGetDatum(lfirst_oid(lc)));
		scan = systable_beginscan(rel, InvalidOid, false, NULL, 1, &key);
		found = HeapTupleIsValid(systable_getnext(scan));
		systable_endscan(scan);
		table_close(rel, AccessShareLock);
		if (found)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("table \"%s\" is the target of a subscription",
							get_rel_name(lfirst_oid(lc))),
					 errdetail("Its rows come without stamps of this server."),
					 errhint("Use strict_stamp => true.")));
	}
}

/* Run a utility command as the current user. */
static void
run_ddl(const char *format,...)
{
	StringInfoData command;
	bool		read_only = false;
	int			result;

	initStringInfo(&command);
	for (;;)
	{
		va_list		args;
		int			needed;

		va_start(args, format);
		needed = appendStringInfoVA(&command, format, args);
		va_end(args);
		if (needed == 0)
			break;
		enlargeStringInfo(&command, needed);
	}

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	result = SPI_execute(command.data, read_only, 0);
	if (result != SPI_OK_UTILITY)
		elog(ERROR, "SPI_execute returned %d for \"%s\"", result,
			 command.data);
	SPI_finish();
	pfree(command.data);
}

/* The name of a relation as it stands in a command. */
static char *
qualified_name(Oid relid)
{
	return quote_qualified_identifier(get_namespace_name(get_rel_namespace(relid)),
									  get_rel_name(relid));
}

/* --------------------------------------------------------------------------
 * Dropping
 * --------------------------------------------------------------------------
 */

/* Order of names, for list_sort. */
static int
compare_names(const ListCell *a, const ListCell *b)
{
	return strcmp(lfirst(a), lfirst(b));
}

/*
 * Drop the continuous views that read a stream; without cascade, ereport if
 * there are any.
 */
static void
drop_views(Oid relid, bool cascade)
{
	ObjectAddresses *objects = new_object_addresses();
	List	   *names = NIL;
	ListCell   *lc;

	foreach(lc, tide_catalog_read_views_of(relid))
	{
		TideView   *view = (TideView *) lfirst(lc);
		ObjectAddress object;

		if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(view->view)))
			continue;
		ObjectAddressSet(object, RelationRelationId, view->view);
		add_exact_object_address(&object, objects);
		names = lappend(names, qualified_name(view->view));
	}

	if (names != NIL && !cascade)
	{
		StringInfoData list;

		initStringInfo(&list);
		list_sort(names, compare_names);
		foreach(lc, names)
			appendStringInfo(&list, "%s%s", list.len > 0 ? ", " : "",
							 (char *) lfirst(lc));
		ereport(ERROR,
				(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
				 errmsg("cannot drop stream \"%s\" because continuous views read it",
						get_rel_name(relid)),
				 errdetail("They are: %s.", list.data),
				 errhint("Use cascade => true to drop them, too.")));
	}

	if (names != NIL)
		performMultipleDeletions(objects, DROP_CASCADE, 0);
	free_object_addresses(objects);
}

/*
 * A view of our schema was dropped: if it defined a stream, for example
 * because a column was dropped with CASCADE, the table is a stream no more.
 * Its stamp column stays.
 */
void
tide_stream_forget_definition(Oid definition)
{
	ListCell   *lc;

	foreach(lc, tide_catalog_read_streams())
	{
		TideStream *stream = tide_catalog_read_stream(lfirst_oid(lc));

		if (stream != NULL && stream->definition == definition)
			tide_catalog_delete_stream(stream->relation);
	}
}

/* See stream.h. */
bool
tide_stream_repair(void)
{
	bool		is_complete = true;
	ListCell   *lc;

	foreach(lc, tide_catalog_read_streams())
	{
		Oid			relid = lfirst_oid(lc);
		TideStream *stream = tide_catalog_read_stream(relid);

		if (stream == NULL ||
			tide_definition_depends(stream->definition, relid,
									DEPENDENCY_AUTO))
			continue;

		/* whoever makes good is not to wait for users */
		if (!ConditionalLockRelationOid(relid, AccessShareLock))
			is_complete = false;
		else if (!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid)) ||
				 !SearchSysCacheExists1(RELOID,
										ObjectIdGetDatum(stream->definition)))
			tide_catalog_delete_stream(relid);
		else
			bind_definition(stream->definition, relid);
	}
	CommandCounterIncrement();

	return is_complete;
}
