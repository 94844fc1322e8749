/*
 * view.c
 *		Continuous views: making, dropping and steering them.
 *
 * A continuous view is four objects: the view that the user reads, which
 * computes expressions over aggregates and HAVING from the storage table; the
 * storage table; the definition view, which holds the user's query; and the
 * rows in our tables.  Storage and definition depend internally on the user's
 * view, so that PostgreSQL drops the whole whichever part it begins with: DROP
 * VIEW, or DROP TABLE ... CASCADE of a table that the query uses.  Our rows
 * are deleted by the object access hook (hooks.c), or, when the library was
 * not loaded, found orphaned by tide_view_repair.
 *
 * SECURITY: the user's view is made by the caller and read with its owner's
 * rights, who has SELECT on the storage.  Definition and storage belong to the
 * extension's owner.  Steering a view takes its owner.
 *
 * LOCKING: pausing takes the checkpoint lock, so that no batch of the view is
 * running when the pause commits.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "commands/tablecmds.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/analyze.h"
#include "parser/parse_func.h"
#include "parser/parse_node.h"
#include "parser/parse_oper.h"
#include "parser/parse_relation.h"
#include "parser/parser.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/varlena.h"

#include "compat.h"
#include "analyze.h"
#include "catalog.h"
#include "definition.h"
#include "fault.h"
#include "position.h"
#include "scan.h"
#include "security.h"
#include "shmem.h"
#include "storage.h"
#include "view.h"
#include "watermark.h"

PG_FUNCTION_INFO_V1(tide_create_continuous_view);
PG_FUNCTION_INFO_V1(tide_drop_continuous_view);
PG_FUNCTION_INFO_V1(tide_pause);
PG_FUNCTION_INFO_V1(tide_resume);
PG_FUNCTION_INFO_V1(tide_watermark);
PG_FUNCTION_INFO_V1(tide_final_before);
PG_FUNCTION_INFO_V1(tide_explain);

/* replacing Vars of TideQuery.output by those of the storage table */
typedef struct OutputContext
{
	TideQuery  *query;
	TideStorageLayout *layout;
	Relation	storage;
} OutputContext;

static RangeVar *find_name(text *name, bool if_not_exists, Oid *existing);
static Query *parse_query(const char *string);
static void read_trigger(text *value, TideView *view);
static void read_emit(text *value, TideView *view);
static bool read_start(text *value, TideView *view);
static void skip_history(TideCheckpoint *checkpoint);
static void check_privileges(TideQuery *query);
static Query *make_output_query(TideQuery *query, TideView *view);
static void record_parts(TideView *view);

/* --------------------------------------------------------------------------
 * Creating
 * --------------------------------------------------------------------------
 */

/* Refuse NULL where it means nothing. */
static void
refuse_null(FunctionCallInfo fcinfo, int argno, const char *parameter)
{
	if (PG_ARGISNULL(argno))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("%s must not be null", parameter)));
}

/*
 * tidemark.create_continuous_view(name, query, trigger, emit,
 * watermark_delay, start, if_not_exists)
 */
Datum
tide_create_continuous_view(PG_FUNCTION_ARGS)
{
	TideView   *view = palloc0(sizeof(TideView));
	TideCheckpoint *checkpoint = palloc0(sizeof(TideCheckpoint));
	int64		number;
	RangeVar   *name;
	RangeVar   *definition_name;
	bool		is_latest;
	Query	   *definition;
	TideQuery  *query;
	TideSecurity saved;

	refuse_null(fcinfo, 0, "name");
	refuse_null(fcinfo, 1, "query");
	refuse_null(fcinfo, 2, "trigger");
	refuse_null(fcinfo, 3, "emit");
	refuse_null(fcinfo, 5, "start");
	refuse_null(fcinfo, 6, "if_not_exists");
	(void) tide_view_repair();
	name = find_name(PG_GETARG_TEXT_PP(0), PG_GETARG_BOOL(6), &view->view);
	if (OidIsValid(view->view))
		PG_RETURN_OID(view->view);
	read_trigger(PG_GETARG_TEXT_PP(2), view);
	read_emit(PG_GETARG_TEXT_PP(3), view);
	view->has_watermark_delay = !PG_ARGISNULL(4);
	if (view->has_watermark_delay)
		view->watermark_delay =
			tide_watermark_read_delay(PG_GETARG_INTERVAL_P(4),
									  "watermark_delay");
	is_latest = read_start(PG_GETARG_TEXT_PP(5), view);

	definition = parse_query(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	query = tide_analyze(definition);
	if (view->emit_final && query->window.kind == TIDE_WINDOW_NONE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("emit => 'final' needs a window"),
				 errdetail("Groups without a window are never final."),
				 errhint("Group by a window, or use emit => 'update'.")));
	if (query->uses_now)
		ereport(WARNING,
				(errmsg("query uses functions that depend on the time or settings of a batch"),
				 errdetail("Run by hand it may give other results than the view.")));
	check_privileges(query);

	/* the parts: definition, storage, then the view that depends on them */
	number = tide_catalog_next_object_id();
	view->stream = query->stream;
	view->server_major = TIDE_SERVER_MAJOR;
	view->created_at = GetCurrentTransactionStartTimestamp();
	view->fingerprint = query->fingerprint;
	view->settings = tide_security_capture_settings();

	definition_name = makeRangeVar(get_namespace_name(tide_catalog_data_schema()),
								   psprintf("definition_" INT64_FORMAT, number),
								   -1);
	tide_security_enter_extension(&saved);
	view->definition = tide_definition_create(definition_name, definition,
											  tide_catalog_owner());
	tide_definition_store(view->definition, definition);
	tide_security_leave(&saved);

	TIDE_FAULT("create view: before storage");
	view->storage = tide_storage_create(query, psprintf("view_" INT64_FORMAT,
														number));
	tide_storage_give(view->storage, GetUserId());
	definition->targetList = query->output;
	view->view = tide_definition_create(name, definition, GetUserId());
	tide_definition_store(view->view, make_output_query(query, view));
	record_parts(view);

	TIDE_FAULT("create view: before catalog");
	tide_catalog_insert_view(view);
	checkpoint->view = view->view;
	checkpoint->source = view->stream;
	checkpoint->fingerprint = view->fingerprint;
	checkpoint->watermark = DT_NOBEGIN;
	checkpoint->max_event_time = DT_NOBEGIN;
	checkpoint->final_before = DT_NOBEGIN;
	checkpoint->batch_clock = DT_NOBEGIN;
	checkpoint->batch_max_event_time = DT_NOBEGIN;
	checkpoint->updated_at = view->created_at;
	checkpoint->sampled_at = DT_NOBEGIN;
	if (is_latest)
		skip_history(checkpoint);
	TIDE_FAULT("create view: before checkpoint");
	tide_catalog_insert_checkpoint(checkpoint);
	tide_storage_seed(query, view->storage);
	TIDE_FAULT("create view: end");
	tide_shmem_wake_catalog_at_commit();

	PG_RETURN_OID(view->view);
}

/*
 * The name of a new view.  *existing is the view that is there already under
 * this name, if if_not_exists allows that.
 */
static RangeVar *
find_name(text *name, bool if_not_exists, Oid *existing)
{
	RangeVar   *rangevar = makeRangeVarFromNameList(textToQualifiedNameList(name));
	Oid			schema;
	Oid			relid;

	schema = RangeVarGetAndCheckCreationNamespace(rangevar, NoLock, &relid);
	if (rangevar->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("continuous view \"%s\" cannot be temporary",
						rangevar->relname),
				 errhint("Background workers do not see temporary objects; choose another schema.")));
	if (schema == tide_catalog_data_schema() || schema == tide_catalog_schema())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("cannot create continuous view \"%s\" in schema \"%s\"",
						rangevar->relname, get_namespace_name(schema)),
				 errdetail("The schema is reserved for tidemark."),
				 errhint("Choose another schema.")));

	*existing = InvalidOid;
	if (!OidIsValid(relid))
		return rangevar;
	if (!if_not_exists || tide_catalog_read_view(relid) == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DUPLICATE_TABLE),
				 errmsg("relation \"%s\" already exists", rangevar->relname)));
	ereport(NOTICE,
			(errcode(ERRCODE_DUPLICATE_TABLE),
			 errmsg("continuous view \"%s\" already exists, skipping",
					rangevar->relname)));
	*existing = relid;

	return rangevar;
}

/* Parse and analyze a defining query, as the current user. */
static Query *
parse_query(const char *string)
{
	List	   *statements = raw_parser(string, RAW_PARSE_DEFAULT);
	RawStmt    *statement;
	bool		is_into;

	if (list_length(statements) != 1)
		ereport(ERROR,
				(errcode(ERRCODE_SYNTAX_ERROR),
				 errmsg("query of a continuous view must be one statement"),
				 errdetail("It has %d statements.", list_length(statements)),
				 errhint("Create a continuous view for each of them.")));
	statement = linitial_node(RawStmt, statements);
	is_into = IsA(statement->stmt, SelectStmt) &&
		castNode(SelectStmt, statement->stmt)->intoClause != NULL;
	if (is_into)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("SELECT INTO is not supported in a continuous view"),
				 errdetail("A continuous view keeps the rows itself."),
				 errhint("Leave INTO out: the result is the view.")));

	return parse_analyze_fixedparams(statement, string, NULL, 0, NULL);
}

/* Read the trigger of a view. */
static void
read_trigger(text *value, TideView *view)
{
	char	   *string = text_to_cstring(value);
	Datum		interval;

	if (pg_strcasecmp(string, "commit") == 0)
		view->trigger_usec = TIDE_TRIGGER_COMMIT;
	else if (pg_strcasecmp(string, "manual") == 0)
		view->trigger_usec = TIDE_TRIGGER_MANUAL;
	else
	{
		interval = DirectFunctionCall3(interval_in, CStringGetDatum(string),
									   ObjectIdGetDatum(InvalidOid),
									   Int32GetDatum(-1));
		view->trigger_usec =
			tide_watermark_read_delay(DatumGetIntervalP(interval), "trigger");
		if (view->trigger_usec < USECS_PER_SEC / 1000)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("trigger must be at least one millisecond"),
					 errhint("Use trigger => 'commit' to run after every commit.")));
	}
}

/* Read what a view shows. */
static void
read_emit(text *value, TideView *view)
{
	char	   *string = text_to_cstring(value);

	view->emit_final = pg_strcasecmp(string, "final") == 0;
	if (!view->emit_final && pg_strcasecmp(string, "update") != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unrecognized emit \"%s\"", string),
				 errhint("Use 'update' or 'final'.")));
}

/* Read where a view starts; true: it reads no history. */
static bool
read_start(text *value, TideView *view)
{
	char	   *string = text_to_cstring(value);
	Datum		start;

	if (pg_strcasecmp(string, "earliest") == 0)
		return false;
	view->has_start_at = true;
	if (pg_strcasecmp(string, "latest") == 0)
	{
		view->start_at = GetCurrentTimestamp();
		return true;
	}

	start = DirectFunctionCall3(timestamptz_in, CStringGetDatum(string),
								ObjectIdGetDatum(InvalidOid),
								Int32GetDatum(-1));
	view->start_at = DatumGetTimestampTz(start);
	if (TIMESTAMP_NOT_FINITE(view->start_at))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("start must be finite"),
				 errhint("Use 'earliest', 'latest', or a timestamp.")));

	return false;
}

/*
 * Let a new view stand where its stream stands now.  What is in progress is
 * read when it commits, and left out if it is from before the start.
 */
static void
skip_history(TideCheckpoint *checkpoint)
{
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());

	checkpoint->position = tide_position_capture(snapshot);
	checkpoint->leaves = tide_scan_source_leaves(checkpoint->source);
	UnregisterSnapshot(snapshot);
}

/*
 * Let the executor check that the current user may read the tables and call
 * the functions and aggregates of the query, without running it.
 */
static void
check_privileges(TideQuery *query)
{
	PlannedStmt *planned = tide_analyze_plan_input(query);
	QueryDesc  *query_desc;

	query_desc = CreateQueryDesc(planned, "", GetActiveSnapshot(),
								 InvalidSnapshot, None_Receiver, NULL, NULL,
								 0);
	ExecutorStart(query_desc, EXEC_FLAG_EXPLAIN_ONLY);
	ExecutorEnd(query_desc);
	FreeQueryDesc(query_desc);
	tide_aggregate_end(tide_aggregate_begin(query->aggs));
}

/* --------------------------------------------------------------------------
 * The view that the user reads
 * --------------------------------------------------------------------------
 */

/* The storage column of a column of TideQuery.output. */
static AttrNumber
storage_attno(OutputContext *context, AttrNumber attno)
{
	TideStorageLayout *layout = context->layout;
	TideQuery  *query = context->query;

	if (attno == TIDE_OUTPUT_WINDOW_START)
		return layout->window_start;
	if (attno == TIDE_OUTPUT_WINDOW_END)
		return layout->window_end;
	if (attno < TIDE_OUTPUT_AGG(query, 0))
		return layout->first_key + attno - TIDE_OUTPUT_KEY(0);

	return layout->first_value + attno - TIDE_OUTPUT_AGG(query, 0);
}

/* Mutator: Vars of the output become Vars of the storage table. */
static Node *
map_output(Node *node, OutputContext *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = copyObject((Var *) node);

		var->varattno = storage_attno(context, var->varattno);
		var->varnosyn = 0;
		var->varattnosyn = 0;
		return (Node *) var;
	}

	return expression_tree_mutator(node, map_output, context);
}

/*
 * window_start < (SELECT tidemark.final_before(storage)): a scalar subquery,
 * so that it is evaluated once and can use the index.  It names the storage
 * because the view does not exist yet when a dump is restored.
 */
static Node *
make_final_condition(OutputContext *context, Oid storage)
{
	Oid			type = context->query->window.type;
	Oid			argtypes[] = {REGCLASSOID, type};
	Query	   *subquery = makeNode(Query);
	SubLink    *sublink = makeNode(SubLink);
	ParseState *pstate = make_parsestate(NULL);
	Oid			function;
	FuncExpr   *call;
	Var		   *start;

	function = LookupFuncName(list_make2(makeString(get_namespace_name(tide_catalog_schema())),
										 makeString("final_before")),
							  lengthof(argtypes), argtypes, false);
	call = makeFuncExpr(function, type,
						list_make2(makeConst(REGCLASSOID, -1, InvalidOid,
											 sizeof(Oid),
											 ObjectIdGetDatum(storage),
											 false, true),
								   makeNullConst(type, -1, InvalidOid)),
						InvalidOid, InvalidOid, COERCE_EXPLICIT_CALL);
	subquery->commandType = CMD_SELECT;
	subquery->querySource = QSRC_ORIGINAL;
	subquery->canSetTag = true;
	subquery->jointree = makeFromExpr(NIL, NULL);
	subquery->targetList =
		list_make1(makeTargetEntry((Expr *) call, 1,
								   pstrdup("final_before"), false));

	sublink->subLinkType = EXPR_SUBLINK;
	sublink->subselect = (Node *) subquery;
	sublink->location = -1;

	start = makeVar(1, context->layout->window_start, type, -1, InvalidOid, 0);

	return (Node *) make_op(pstate,
							list_make2(makeString("pg_catalog"),
									   makeString("<")),
							(Node *) start, (Node *) sublink, NULL, -1);
}

/* The query of the user's view, over the storage table. */
static Query *
make_output_query(TideQuery *query, TideView *view)
{
	ParseState *pstate = make_parsestate(NULL);
	Query	   *output = makeNode(Query);
	RangeTblRef *ref = makeNode(RangeTblRef);
	OutputContext context;
	Node	   *having;
	List	   *vars;
	ListCell   *lc;

	context.query = query;
	context.layout = tide_storage_layout(query);
	context.storage = table_open(view->storage, AccessShareLock);
	(void) addRangeTableEntryForRelation(pstate, context.storage,
										 AccessShareLock, NULL, true, true);
	table_close(context.storage, NoLock);

	output->commandType = CMD_SELECT;
	output->querySource = QSRC_ORIGINAL;
	output->canSetTag = true;
	output->targetList = (List *) map_output((Node *) query->output, &context);
	having = map_output(query->having, &context);
	vars = pull_var_clause((Node *) list_make2(output->targetList, having), 0);
	foreach(lc, vars)
		markVarForSelectPriv(pstate, lfirst(lc));

	if (view->emit_final)
	{
		Node	   *is_final = make_final_condition(&context, view->storage);

		having = having == NULL ? is_final :
			(Node *) makeBoolExpr(AND_EXPR, list_make2(is_final, having), -1);
		markVarForSelectPriv(pstate,
							 makeVar(1, context.layout->window_start,
									 query->window.type, -1, InvalidOid, 0));
		output->hasSubLinks = true;
	}
	ref->rtindex = 1;
	output->jointree = makeFromExpr(list_make1(ref), having);
	output->rtable = pstate->p_rtable;
	TIDE_COPY_PERMINFOS(output, pstate);

	return output;
}

/* Let the parts of a view live and die with it. */
static void
record_parts(TideView *view)
{
	ObjectAddresses *types = new_object_addresses();
	Relation	storage = table_open(view->storage, NoLock);
	TupleDesc	desc = RelationGetDescr(storage);
	ObjectAddress whole;
	ObjectAddress part;
	int			i;

	ObjectAddressSet(whole, RelationRelationId, view->view);
	ObjectAddressSet(part, RelationRelationId, view->definition);
	recordDependencyOn(&part, &whole, DEPENDENCY_INTERNAL);
	ObjectAddressSet(part, RelationRelationId, view->storage);
	recordDependencyOn(&part, &whole, DEPENDENCY_INTERNAL);

	/*
	 * DROP TYPE ... CASCADE must come to the view before it comes to a column
	 * of the storage, which it would drop after the storage itself.  Of the
	 * dependents of a type it takes the newest first.
	 */
	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		ObjectAddressSet(part, TypeRelationId, att->atttypid);
		add_exact_object_address(&part, types);
		if (!OidIsValid(att->attcollation))
			continue;
		ObjectAddressSet(part, CollationRelationId, att->attcollation);
		add_exact_object_address(&part, types);
	}
	record_object_address_dependencies(&whole, types, DEPENDENCY_NORMAL);
	free_object_addresses(types);
	table_close(storage, NoLock);
}

/*
 * An owner may have changed: let the owner of each view, and nobody else, read
 * its storage.
 */
void
tide_view_follow_owners(void)
{
	ListCell   *lc;

	CommandCounterIncrement();
	if (!tide_catalog_exists())
		return;
	foreach(lc, tide_catalog_read_views())
	{
		TideView   *view = lfirst(lc);
		HeapTuple	tuple = SearchSysCache1(RELOID,
											ObjectIdGetDatum(view->view));
		Oid			owner;

		if (!HeapTupleIsValid(tuple))
			continue;
		owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
		ReleaseSysCache(tuple);
		if (SearchSysCacheExists1(RELOID, ObjectIdGetDatum(view->storage)))
			tide_storage_give(view->storage, owner);
	}
}

/* --------------------------------------------------------------------------
 * Steering
 * --------------------------------------------------------------------------
 */

/* The row of a view that must be a continuous one; ereports else. */
TideView *
tide_view_get(Oid viewid)
{
	TideView   *view = tide_catalog_read_view(viewid);
	char	   *name = get_rel_name(viewid);

	if (name == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", viewid)));
	if (view == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a continuous view", name),
				 errhint("See the view tidemark.continuous_views.")));

	return view;
}

/* The same, for somebody who wants to change it: only the owner may. */
TideView *
tide_view_get_owned(Oid viewid)
{
	TideView   *view = tide_view_get(viewid);

	if (!TIDE_RELATION_OWNERCHECK(viewid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_VIEW, get_rel_name(viewid));

	return view;
}

/* --------------------------------------------------------------------------
 * Making good
 * --------------------------------------------------------------------------
 */

/* Does a relation exist? */
static bool
relation_exists(Oid relid)
{
	return SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid));
}

/*
 * Lock a relation, if that can be had at once: whoever makes good is not to
 * wait for users.  False: it is locked by somebody else.
 */
static bool
lock_at_once(Oid relid, LOCKMODE lockmode)
{
	return !relation_exists(relid) ||
		ConditionalLockRelationOid(relid, lockmode);
}

/*
 * Drop a part of a view that is gone.  Not one that others have come to
 * depend on, nor what is no part of a view: an OID may be used again.
 */
static bool
drop_part(Oid relid)
{
	ObjectAddress part;

	if (!relation_exists(relid) ||
		get_rel_namespace(relid) != tide_catalog_data_schema())
		return true;
	if (!lock_at_once(relid, AccessExclusiveLock))
		return false;
	if (!relation_exists(relid) || tide_definition_is_used(relid))
		return true;
	ObjectAddressSet(part, RelationRelationId, relid);
	performDeletion(&part, DROP_RESTRICT,
					PERFORM_DELETION_INTERNAL | PERFORM_DELETION_QUIETLY);

	return true;
}

/*
 * Forget a view that was dropped while the library was not loaded.  Its
 * storage and definition went with it, if it was not restored and not seen by
 * us since.
 */
static bool
collect_orphan(TideView *view)
{
	if (!drop_part(view->definition) || !drop_part(view->storage))
		return false;
	tide_catalog_delete_view(view->view);

	return true;
}

/* Does the storage or definition belong to somebody else than us? */
static bool
has_other_owner(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		is_other;

	if (!HeapTupleIsValid(tuple))
		return false;
	is_other = ((Form_pg_class) GETSTRUCT(tuple))->relowner !=
		tide_catalog_owner();
	ReleaseSysCache(tuple);

	return is_other;
}

/* Give a part of a view to the extension's owner. */
static bool
take_part(Oid relid)
{
	bool		skip_checks = true;

	if (!has_other_owner(relid))
		return true;
	if (!lock_at_once(relid, AccessExclusiveLock))
		return false;
	if (!has_other_owner(relid))
		return true;
	ATExecChangeOwner(relid, tide_catalog_owner(), skip_checks,
					  AccessExclusiveLock);
	CommandCounterIncrement();

	return true;
}

/*
 * Bind the parts of a restored view together, and let its owner read the
 * storage.
 */
static bool
repair_view(TideView *view)
{
	if (!tide_definition_depends(view->storage, view->view,
								 DEPENDENCY_INTERNAL) ||
		!tide_definition_depends(view->definition, view->view,
								 DEPENDENCY_INTERNAL))
	{
		if (!lock_at_once(view->view, AccessShareLock) ||
			!lock_at_once(view->definition, AccessShareLock) ||
			!lock_at_once(view->storage, AccessShareLock))
			return false;
		if (!relation_exists(view->view) ||
			!relation_exists(view->definition) ||
			!relation_exists(view->storage))
			return true;
		record_parts(view);
		CommandCounterIncrement();
	}

	return take_part(view->definition) && take_part(view->storage);
}

/* See view.h. */
bool
tide_view_repair(void)
{
	bool		is_complete = true;
	ListCell   *lc;

	foreach(lc, tide_catalog_read_views())
	{
		TideView   *view = lfirst(lc);

		is_complete &= relation_exists(view->view) ? repair_view(view) :
			collect_orphan(view);
	}
	tide_view_follow_owners();

	return is_complete;
}

/* --------------------------------------------------------------------------
 * Dropping, pausing
 * --------------------------------------------------------------------------
 */

/* tidemark.drop_continuous_view(view, cascade) */
Datum
tide_drop_continuous_view(PG_FUNCTION_ARGS)
{
	Oid			viewid;
	bool		cascade;
	ObjectAddress address;

	refuse_null(fcinfo, 0, "view");
	refuse_null(fcinfo, 1, "cascade");
	viewid = PG_GETARG_OID(0);
	cascade = PG_GETARG_BOOL(1);
	(void) tide_view_get_owned(viewid);
	(void) tide_view_repair();

	ObjectAddressSet(address, RelationRelationId, viewid);
	performDeletion(&address, cascade ? DROP_CASCADE : DROP_RESTRICT, 0);
	tide_catalog_delete_view(viewid);
	tide_shmem_wake_catalog_at_commit();

	PG_RETURN_VOID();
}

/* Set whether a view is paused. */
static void
set_paused(Oid viewid, bool paused)
{
	TideView   *view;

	(void) tide_view_get_owned(viewid);
	tide_catalog_lock_checkpoint(viewid);
	view = tide_view_get(viewid);
	if (view->paused == paused)
		return;
	view->paused = paused;
	tide_catalog_update_view(view);
	/* a view that is resumed is tried at once */
	if (!paused)
		(void) tide_catalog_delete_failure(viewid);
	tide_shmem_wake_catalog_at_commit();
}

/* tidemark.pause(view) */
Datum
tide_pause(PG_FUNCTION_ARGS)
{
	bool		paused = true;

	set_paused(PG_GETARG_OID(0), paused);
	PG_RETURN_VOID();
}

/* tidemark.resume(view) */
Datum
tide_resume(PG_FUNCTION_ARGS)
{
	bool		paused = false;

	set_paused(PG_GETARG_OID(0), paused);
	PG_RETURN_VOID();
}

/* --------------------------------------------------------------------------
 * Looking
 * --------------------------------------------------------------------------
 */

/*
 * tidemark.watermark(view): as the statement's snapshot sees it, so that it
 * fits the rows of the view that the same statement reads.
 */
Datum
tide_watermark(PG_FUNCTION_ARGS)
{
	TideView   *view = tide_view_get(PG_GETARG_OID(0));
	TideStream *stream = tide_catalog_read_stream(view->stream);
	TideCheckpoint *checkpoint;

	checkpoint = tide_catalog_read_checkpoint_as_of(view->view, view->stream,
													GetActiveSnapshot());
	if (stream == NULL || checkpoint == NULL)
		PG_RETURN_NULL();

	PG_RETURN_TIMESTAMPTZ(tide_watermark_to_timestamptz(stream,
														checkpoint->watermark));
}

/*
 * tidemark.final_before(storage, NULL): the start of the first window that is
 * not final, as the statement's snapshot sees it.  For the views themselves;
 * the second argument only chooses the type.
 */
Datum
tide_final_before(PG_FUNCTION_ARGS)
{
	Oid			storage = PG_GETARG_OID(0);
	ListCell   *lc;

	if (PG_ARGISNULL(0))
		PG_RETURN_NULL();
	foreach(lc, tide_catalog_read_views())
	{
		TideView   *view = lfirst(lc);
		TideCheckpoint *checkpoint;

		if (view->storage != storage)
			continue;
		checkpoint = tide_catalog_read_checkpoint_as_of(view->view,
														view->stream,
														GetActiveSnapshot());
		if (checkpoint != NULL)
			PG_RETURN_INT64(checkpoint->final_before);
	}

	PG_RETURN_NULL();
}

/* The trigger of a view, in words. */
static char *
describe_trigger(int64 trigger_usec)
{
	Interval	interval = {0};

	if (trigger_usec == TIDE_TRIGGER_COMMIT)
		return pstrdup("commit");
	if (trigger_usec == TIDE_TRIGGER_MANUAL)
		return pstrdup("manual");
	interval.time = trigger_usec;

	return DatumGetCString(DirectFunctionCall1(interval_out,
											   IntervalPGetDatum(&interval)));
}

/* Describe a view, a line each for what matters. */
static void
describe_view(TideView *view, StringInfo out)
{
	TideStream *stream = tide_catalog_read_stream(view->stream);
	TideCheckpoint *checkpoint;
	TideSecurity saved;
	ListCell   *lc;

	/* the definition means what it means with these settings */
	tide_security_enter(&saved, GetUserId(), view->settings);
	tide_analyze_describe(tide_analyze(tide_analyze_definition(view->definition)),
						  out);
	tide_security_leave(&saved);

	appendStringInfo(out, "\ntrigger: %s\nemit: %s\n",
					 describe_trigger(view->trigger_usec),
					 view->emit_final ? "final" : "update");
	appendStringInfoString(out, "settings:");
	foreach(lc, view->settings)
	{
		bool		is_name = foreach_current_index(lc) % 2 == 0;

		appendStringInfo(out, is_name ? " %s" : " '%s'", (char *) lfirst(lc));
	}
	appendStringInfo(out, "\nstorage: %s, definition: %s\n",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(view->storage)),
												get_rel_name(view->storage)),
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(view->definition)),
												get_rel_name(view->definition)));

	checkpoint = tide_catalog_read_checkpoint(view->view, view->stream);
	if (checkpoint != NULL && stream != NULL)
		appendStringInfo(out, "position: %s%s, watermark: %s\n",
						 tide_position_out(&checkpoint->position),
						 checkpoint->has_target ? " (reading history)" : "",
						 timestamptz_to_str(tide_watermark_to_timestamptz(stream,
																		  checkpoint->watermark)));
}

/* tidemark.explain(view): lines of text */
Datum
tide_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	TideView   *view = tide_view_get_owned(PG_GETARG_OID(0));
	StringInfoData out;
	char	   *line;
	char	   *rest;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	initStringInfo(&out);
	describe_view(view, &out);
	rest = out.data;
	while ((line = strsep(&rest, "\n")) != NULL)
	{
		Datum		value = CStringGetTextDatum(line);
		bool		isnull = false;

		if (*line != '\0')
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, &value,
								 &isnull);
	}

	return (Datum) 0;
}
