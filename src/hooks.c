/*
 * hooks.c
 *		Hooks of the server that are not a module's own.
 *
 * object_access_hook: when a stream's table or a continuous view is dropped,
 * by whatever command, its rows in our tables go in the same transaction; when
 * a database is dropped, our processes leave it first; TRUNCATE is refused when
 * rows would be lost.
 * The hook runs for every dropped object of every kind, so what costs nothing
 * is tested first.
 *
 * planner_hook: an INSERT that gives a stamp column something else than its
 * default has this checked row by row: a stamp from elsewhere is refused, a
 * NULL, as rows of a row type bring along, becomes the transaction's stamp.
 * The query is changed before it is planned, when the rewriter has put in the
 * defaults and resolved views, so that the ordinary INSERT costs nothing.  An
 * UPDATE of the column is refused, where updates are allowed at all: a row with
 * a new stamp would be read a second time.
 *
 * ProcessUtility_hook: COPY without a column list means the user's columns;
 * DROP and DETACH are refused when rows would be lost; a new owner of a view
 * can read it at once, not only after its next batch.
 *
 * All of them only work in a session that has loaded the library, so reliably
 * only when it is preloaded.
 *
 * LOCKING: the object being dropped is locked ACCESS EXCLUSIVE by the command;
 * our rows come after it, as everywhere.
 */
#include "postgres.h"

#include "access/relation.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/planner.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "tcop/utility.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "catalog.h"
#include "compat.h"
#include "hooks.h"
#include "loss.h"
#include "shmem.h"
#include "stamp.h"
#include "stream.h"
#include "view.h"

static object_access_hook_type previous_object_access = NULL;
static planner_hook_type previous_planner = NULL;
static ProcessUtility_hook_type previous_utility = NULL;

static void object_access(ObjectAccessType access, Oid class_id, Oid object_id,
						  int sub_id, void *arg);
static void forget_relation(Oid relid);
static bool tables_exist(void);
static PlannedStmt *plan_query(Query *query, const char *query_string,
							   int cursor_options, ParamListInfo params);
static void guard_inserts(Query *query);
static void guard_updates(Query *query);
static void refuse_stamp_update(List *target_list, AttrNumber attno, Oid relid);
static List *guard_target_list(List *target_list, Oid relid);
static AttrNumber find_stamp_column(Oid relid);
static Expr *make_guard(Expr *expr, Oid relid);
static Oid	find_function(const char *name, int nargs, const Oid *argtypes);
static void run_utility(PlannedStmt *pstmt, const char *query_string,
						bool read_only_tree, ProcessUtilityContext context,
						ParamListInfo params, QueryEnvironment *query_env,
						DestReceiver *dest, QueryCompletion *qc);
static bool gives_away(Node *statement);
static List *copy_columns(CopyStmt *stmt);

/* Install the hooks.  Called once, from _PG_init. */
void
tide_hooks_install(void)
{
	previous_object_access = object_access_hook;
	object_access_hook = object_access;
	previous_planner = planner_hook;
	planner_hook = plan_query;
	previous_utility = ProcessUtility_hook;
	ProcessUtility_hook = run_utility;
}

/* An object is created, altered or dropped. */
static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id,
			  int sub_id, void *arg)
{
	if (previous_object_access)
		previous_object_access(access, class_id, object_id, sub_id, arg);

	if (access == OAT_DROP && class_id == RelationRelationId && sub_id == 0)
		forget_relation(object_id);
	else if (access == OAT_TRUNCATE)
		tide_loss_check_truncate(object_id);
	else if (class_id == DatabaseRelationId)
	{
		/* the rights were checked; our processes must not be in the way */
		if (access == OAT_DROP)
			tide_shmem_release_database(object_id);
		else if (access == OAT_POST_CREATE || access == OAT_POST_ALTER)
			tide_shmem_wake_launcher_at_commit();
	}
	else if (access == OAT_DROP && class_id == ExtensionRelationId)
		tide_shmem_wake_catalog_at_commit();
}

/*
 * A relation is about to be dropped: forget the stream or continuous view that
 * it is.
 */
static void
forget_relation(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		relkind != RELKIND_VIEW)
		return;
	if (creating_extension || !tables_exist())
		return;

	if (relkind == RELKIND_VIEW)
	{
		if (get_rel_namespace(relid) == tide_catalog_data_schema())
			tide_stream_forget_definition(relid);
		else if (tide_catalog_read_view(relid) != NULL)
			tide_catalog_delete_view(relid);
		else
			return;
	}
	else
	{
		if (tide_catalog_read_stream(relid) == NULL)
			return;
		tide_catalog_delete_stream(relid);
	}
	tide_shmem_wake_catalog_at_commit();
}

/*
 * Are our tables there?  They are not while DROP EXTENSION is at work: it
 * drops them before or after the objects that depend on the extension.
 */
static bool
tables_exist(void)
{
	static const char *const tables[] = {
		"stream", "continuous_view", "checkpoint", "leaf", "piece", "batch",
		"failure", "late_window"
	};
	int			i;

	if (!tide_catalog_exists())
		return false;
	for (i = 0; i < lengthof(tables); i++)
	{
		if (!OidIsValid(get_relname_relid(tables[i], tide_catalog_schema())))
			return false;
	}

	return true;
}

/* --------------------------------------------------------------------------
 * INSERT
 * --------------------------------------------------------------------------
 */

/* Plan a query, after its INSERTs were guarded. */
static PlannedStmt *
plan_query(Query *query, const char *query_string, int cursor_options,
		   ParamListInfo params)
{
	ListCell   *lc;

	guard_inserts(query);
	guard_updates(query);
	if (query->hasModifyingCTE)
	{
		foreach(lc, query->cteList)
		{
			CommonTableExpr *cte = lfirst_node(CommonTableExpr, lc);

			guard_inserts(castNode(Query, cte->ctequery));
			guard_updates(castNode(Query, cte->ctequery));
		}
	}

	if (previous_planner)
		return previous_planner(query, query_string, cursor_options, params);
	return standard_planner(query, query_string, cursor_options, params);
}

/* Guard the stamp column of what a query inserts into; changes the query. */
static void
guard_inserts(Query *query)
{
	Oid			relid;
	ListCell   *lc;

	if (query->commandType != CMD_INSERT && query->commandType != CMD_MERGE)
		return;
	relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	if (find_stamp_column(relid) == InvalidAttrNumber)
		return;

	if (query->commandType == CMD_INSERT)
		query->targetList = guard_target_list(query->targetList, relid);
	foreach(lc, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, lc);

		if (action->commandType == CMD_INSERT)
			action->targetList = guard_target_list(action->targetList, relid);
	}
}

/* Refuse updates of the stamp column: a row would be read a second time. */
static void
guard_updates(Query *query)
{
	Oid			relid;
	AttrNumber	attno;
	ListCell   *lc;

	if (query->commandType != CMD_UPDATE && query->commandType != CMD_MERGE &&
		query->onConflict == NULL)
		return;
	relid = rt_fetch(query->resultRelation, query->rtable)->relid;
	attno = find_stamp_column(relid);
	if (attno == InvalidAttrNumber)
		return;

	if (query->commandType == CMD_UPDATE)
		refuse_stamp_update(query->targetList, attno, relid);
	if (query->onConflict != NULL)
		refuse_stamp_update(query->onConflict->onConflictSet, attno, relid);
	foreach(lc, query->mergeActionList)
	{
		MergeAction *action = lfirst_node(MergeAction, lc);

		if (action->commandType == CMD_UPDATE)
			refuse_stamp_update(action->targetList, attno, relid);
	}
}

/* Ereport if the column is in the target list of an UPDATE. */
static void
refuse_stamp_update(List *target_list, AttrNumber attno, Oid relid)
{
	ListCell   *lc;

	foreach(lc, target_list)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (!entry->resjunk && entry->resno == attno)
			ereport(ERROR,
					(errcode(ERRCODE_GENERATED_ALWAYS),
					 errmsg("cannot update column \"%s\" of \"%s\"",
							TIDE_STAMP_COLUMN, get_rel_name(relid)),
					 errdetail("The column says which transaction inserted the row."),
					 errhint("Leave it out of the columns to set.")));
	}
}

/*
 * The target list of an INSERT with a guard on the stamp, unless that is the
 * plain default.  A column that the list leaves out, as it has no default in a
 * table that was attached, gets the stamp.
 */
static List *
guard_target_list(List *target_list, Oid relid)
{
	AttrNumber	attno = find_stamp_column(relid);
	Oid			txid_stamp = find_function("txid_stamp", 0, NULL);
	int			position = 0;
	ListCell   *lc;

	foreach(lc, target_list)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);

		if (entry->resno == attno)
		{
			if (!IsA(entry->expr, FuncExpr) ||
				((FuncExpr *) entry->expr)->funcid != txid_stamp)
				entry->expr = make_guard(entry->expr, relid);
			return target_list;
		}
		if (!entry->resjunk && entry->resno < attno)
			position = foreach_current_index(lc) + 1;
	}

	return list_insert_nth(target_list, position,
						   makeTargetEntry(make_guard(NULL, relid), attno,
										   pstrdup(TIDE_STAMP_COLUMN),
										   false));
}

/*
 * The column _txid of a table, when it is of our type; not one of a view that
 * shows it.  Called for every INSERT that is planned: nearly always, a look
 * into the syscache is all.
 */
static AttrNumber
find_stamp_column(Oid relid)
{
	AttrNumber	attno = get_attnum(relid, TIDE_STAMP_COLUMN);
	char		relkind;

	if (attno == InvalidAttrNumber || !tide_catalog_exists() ||
		get_atttype(relid, attno) != tide_stamp_type())
		return InvalidAttrNumber;
	relkind = get_rel_relkind(relid);
	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE)
		return InvalidAttrNumber;

	return attno;
}

/* tidemark.guard_stamp(expr, relid); NULL stands for a NULL. */
static Expr *
make_guard(Expr *expr, Oid relid)
{
	Oid			stamp = tide_stamp_type();
	Oid			argtypes[2];
	Const	   *table;

	argtypes[0] = stamp;
	argtypes[1] = REGCLASSOID;
	if (expr == NULL)
		expr = (Expr *) makeNullConst(stamp, -1, InvalidOid);
	table = makeConst(REGCLASSOID, -1, InvalidOid, sizeof(Oid),
					  ObjectIdGetDatum(relid), false, true);

	return (Expr *) makeFuncExpr(find_function("guard_stamp", 2, argtypes),
								 stamp, list_make2(expr, table), InvalidOid,
								 InvalidOid, COERCE_EXPLICIT_CALL);
}

/* OID of a function of ours; ereports when it is not there. */
static Oid
find_function(const char *name, int nargs, const Oid *argtypes)
{
	List	   *qualified = list_make2(makeString("tidemark"),
									   makeString(pstrdup(name)));
	bool		missing_ok = false;

	return LookupFuncName(qualified, nargs, argtypes, missing_ok);
}

/* --------------------------------------------------------------------------
 * COPY
 * --------------------------------------------------------------------------
 */

/* Run a utility command; a COPY of a stream without the stamp column. */
static void
run_utility(PlannedStmt *pstmt, const char *query_string, bool read_only_tree,
			ProcessUtilityContext context, ParamListInfo params,
			QueryEnvironment *query_env, DestReceiver *dest,
			QueryCompletion *qc)
{
	/* decided now: a statement may free what it was made of */
	bool		has_new_owner = gives_away(pstmt->utilityStmt);

	tide_loss_check_command(pstmt->utilityStmt);
	if (IsA(pstmt->utilityStmt, CopyStmt))
	{
		List	   *columns = copy_columns((CopyStmt *) pstmt->utilityStmt);

		if (columns != NIL)
		{
			if (read_only_tree)
				pstmt = copyObject(pstmt);
			read_only_tree = false;
			((CopyStmt *) pstmt->utilityStmt)->attlist = columns;
		}
	}

	if (previous_utility)
		previous_utility(pstmt, query_string, read_only_tree, context, params,
						 query_env, dest, qc);
	else
		standard_ProcessUtility(pstmt, query_string, read_only_tree, context,
								params, query_env, dest, qc);

	if (has_new_owner)
		tide_view_follow_owners();
}

/* Does a statement change the owner of relations? */
static bool
gives_away(Node *statement)
{
	ListCell   *lc;

	if (IsA(statement, ReassignOwnedStmt))
		return true;
	if (!IsA(statement, AlterTableStmt))
		return false;
	foreach(lc, ((AlterTableStmt *) statement)->cmds)
	{
		if (lfirst_node(AlterTableCmd, lc)->subtype == AT_ChangeOwner)
			return true;
	}

	return false;
}

/*
 * The columns that COPY without a column list is to mean, when it concerns a
 * table with a stamp column; else NIL.  The name may mean another table when
 * COPY comes to open it; then a column is missing there.
 */
static List *
copy_columns(CopyStmt *stmt)
{
	bool		missing_ok = true;
	List	   *columns = NIL;
	Oid			relid;
	Relation	rel;
	int			i;

	if (stmt->relation == NULL || stmt->attlist != NIL)
		return NIL;
	relid = RangeVarGetRelid(stmt->relation, NoLock, missing_ok);
	if (!OidIsValid(relid))
		return NIL;
	if (find_stamp_column(relid) == InvalidAttrNumber)
		return NIL;

	rel = try_relation_open(relid, AccessShareLock);
	if (rel == NULL)
		return NIL;
	for (i = 0; i < RelationGetNumberOfAttributes(rel); i++)
	{
		Form_pg_attribute att = TupleDescAttr(RelationGetDescr(rel), i);

		if (!att->attisdropped && att->attgenerated == '\0' &&
			strcmp(NameStr(att->attname), TIDE_STAMP_COLUMN) != 0)
			columns = lappend(columns,
							  makeString(pstrdup(NameStr(att->attname))));
	}
	relation_close(rel, NoLock);

	return columns;
}
