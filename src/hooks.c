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
 * can read it at once, not only after its next batch; what would make a stream
 * unreadable, or a view show something else, is refused; our processes leave a
 * database that is renamed, moved or copied.
 *
 * All of them only work in a session that has loaded the library, so reliably
 * only when it is preloaded.
 *
 * LOCKING: the object being dropped is locked ACCESS EXCLUSIVE by the command;
 * our rows come after it, as everywhere.
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/objectaccess.h"
#include "catalog/partition.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "optimizer/planner.h"
#include "parser/parse_func.h"
#include "parser/parsetree.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "catalog.h"
#include "compat.h"
#include "definition.h"
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
static void prepare_statement(Node *statement);
static void bind_before_drop(void);
static void refuse_replace(ViewStmt *stmt);
static void refuse_alter(AlterTableStmt *stmt);
static void refuse_child(CreateStmt *stmt, bool is_foreign);
static void release_database(const char *dbname, bool needs_createdb);
static char *template_of(CreatedbStmt *stmt);
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

	prepare_statement(pstmt->utilityStmt);
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

/* --------------------------------------------------------------------------
 * Statements that are refused, or need something before they run
 * --------------------------------------------------------------------------
 */

/* What is to be done before a statement runs. */
static void
prepare_statement(Node *statement)
{
	ListCell   *lc;

	switch (nodeTag(statement))
	{
		case T_DropStmt:
			switch (((DropStmt *) statement)->removeType)
			{
				case OBJECT_TABLE:
				case OBJECT_VIEW:
				case OBJECT_SCHEMA:
					bind_before_drop();
					break;
				default:
					break;
			}
			break;
		case T_DropOwnedStmt:
			bind_before_drop();
			break;
		case T_ViewStmt:
			refuse_replace((ViewStmt *) statement);
			break;
		case T_AlterTableStmt:
			refuse_alter((AlterTableStmt *) statement);
			break;
		case T_CreateStmt:
			refuse_child((CreateStmt *) statement, false);
			break;
		case T_CreateForeignTableStmt:
			refuse_child(&((CreateForeignTableStmt *) statement)->base, true);
			break;
		case T_RenameStmt:
			if (((RenameStmt *) statement)->renameType == OBJECT_DATABASE)
				release_database(((RenameStmt *) statement)->subname, true);
			break;
		case T_AlterDatabaseStmt:
			foreach(lc, ((AlterDatabaseStmt *) statement)->options)
			{
				if (strcmp(lfirst_node(DefElem, lc)->defname, "tablespace") == 0)
					release_database(((AlterDatabaseStmt *) statement)->dbname,
									 false);
			}
			break;
		case T_CreatedbStmt:
			release_database(template_of((CreatedbStmt *) statement), true);
			break;
		default:
			break;
	}
}

/*
 * A view that was restored a moment ago may not be bound to its parts yet; then
 * DROP would leave them.
 */
static void
bind_before_drop(void)
{
	if (creating_extension || RecoveryInProgress() || XactReadOnly ||
		!tables_exist())
		return;
	(void) tide_stream_repair();
	(void) tide_view_repair();
}

/* The relation of a name, which may be none; not locked. */
static Oid
find_relation(RangeVar *name)
{
	bool		missing_ok = true;

	return RangeVarGetRelid(name, NoLock, missing_ok);
}

/*
 * Refuse to replace a continuous view.  A restore does replace it, as the dump
 * makes a stand-in first, which does not read the storage.
 */
static void
refuse_replace(ViewStmt *stmt)
{
	Oid			relid;
	TideView   *view;

	if (!stmt->replace)
		return;
	relid = find_relation(stmt->view);
	if (!OidIsValid(relid) || get_rel_relkind(relid) != RELKIND_VIEW ||
		!tables_exist())
		return;
	view = tide_catalog_read_view(relid);
	if (view == NULL ||
		!list_member_oid(tide_definition_relations(relid), view->storage))
		return;

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("cannot replace continuous view \"%s\"",
					get_rel_name(relid)),
			 errdetail("It would not show any more what is kept for it."),
			 errhint("Create another continuous view and rename it, or drop this one first.")));
}

/* The stream that a table, or a partition, belongs to; or InvalidOid. */
static Oid
find_stream(Oid relid)
{
	Oid			root = relid;

	if (!OidIsValid(relid) || find_stamp_column(relid) == InvalidAttrNumber ||
		!tables_exist())
		return InvalidOid;
	if (get_rel_relispartition(relid))
		root = llast_oid(get_partition_ancestors(relid));

	return tide_catalog_read_stream(root) == NULL ? InvalidOid : root;
}

/* Refuse inheritance from a stream, or of one. */
static void
refuse_inheritance(Oid relid)
{
	Oid			stream = find_stream(relid);

	if (OidIsValid(stream))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" cannot be a parent or child in table inheritance",
						get_rel_name(stream)),
				 errhint("Use a partitioned table instead of inheritance.")));
}

/* Refuse a partition that a crash empties, or that is elsewhere. */
static void
refuse_partition(Oid parent, bool is_foreign, bool is_unlogged)
{
	Oid			stream;

	if (!is_foreign && !is_unlogged)
		return;
	stream = find_stream(parent);
	if (!OidIsValid(stream))
		return;
	if (is_foreign)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" cannot have a foreign table as partition",
						get_rel_name(stream)),
				 errhint("Copy the events into a table of this database.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("stream \"%s\" cannot be unlogged, nor a partition of it",
					get_rel_name(stream)),
			 errdetail("A crash would empty the table, but not what was computed from it.")));
}

/* Refuse what makes a stream unreadable. */
static void
refuse_alter(AlterTableStmt *stmt)
{
	ListCell   *lc;

	if (stmt->objtype != OBJECT_TABLE && stmt->objtype != OBJECT_FOREIGN_TABLE)
		return;
	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst_node(AlterTableCmd, lc);
		bool		is_foreign = false;
		bool		is_unlogged = true;
		Oid			partition;

		switch (cmd->subtype)
		{
			case AT_SetUnLogged:
				refuse_partition(find_relation(stmt->relation), is_foreign,
								 is_unlogged);
				break;
			case AT_AddInherit:
				refuse_inheritance(find_relation(stmt->relation));
				refuse_inheritance(find_relation(castNode(RangeVar,
														  cmd->def)));
				break;
			case AT_AttachPartition:
				partition = find_relation(castNode(PartitionCmd,
												   cmd->def)->name);
				if (!OidIsValid(partition))
					break;
				is_foreign = get_rel_relkind(partition) == RELKIND_FOREIGN_TABLE;
				is_unlogged = get_rel_persistence(partition) ==
					RELPERSISTENCE_UNLOGGED;
				refuse_partition(find_relation(stmt->relation), is_foreign,
								 is_unlogged);
				break;
			default:
				break;
		}
	}
}

/* Refuse a new table that is to be a child of a stream. */
static void
refuse_child(CreateStmt *stmt, bool is_foreign)
{
	bool		is_unlogged =
		stmt->relation->relpersistence == RELPERSISTENCE_UNLOGGED;
	ListCell   *lc;

	foreach(lc, stmt->inhRelations)
	{
		Oid			parent = find_relation(lfirst_node(RangeVar, lc));

		if (stmt->partbound != NULL)
			refuse_partition(parent, is_foreign, is_unlogged);
		else
			refuse_inheritance(parent);
	}
}

/* May the current user make databases? */
static bool
can_create_databases(void)
{
	HeapTuple	tuple = SearchSysCache1(AUTHOID,
										ObjectIdGetDatum(GetUserId()));
	bool		can = superuser();

	if (HeapTupleIsValid(tuple))
	{
		can |= ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
		ReleaseSysCache(tuple);
	}

	return can;
}

/*
 * Our processes leave a database that its owner is about to rename, move or
 * copy.  Without the right to, the statement fails by itself.
 */
static void
release_database(const char *dbname, bool needs_createdb)
{
	bool		missing_ok = true;
	Oid			dboid = get_database_oid(dbname, missing_ok);

	if (OidIsValid(dboid) && dboid != MyDatabaseId &&
		TIDE_DATABASE_OWNERCHECK(dboid, GetUserId()) &&
		(!needs_createdb || can_create_databases()))
		tide_shmem_release_database(dboid);
}

/* The database that a new one is copied from. */
static char *
template_of(CreatedbStmt *stmt)
{
	char	   *template = "template1";
	ListCell   *lc;

	foreach(lc, stmt->options)
	{
		DefElem    *option = lfirst_node(DefElem, lc);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			template = defGetString(option);
	}

	return template;
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
