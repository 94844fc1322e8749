/*
 * definition.c
 *		Queries kept as views.
 *
 * Definitions and event times are kept as ordinary views, so that PostgreSQL
 * itself tracks what they depend on, follows renames, guards types, and dumps
 * them as text.  A view is made from a query that is analyzed already, not
 * from its text: the text would be parsed a second time, by another user with
 * another search_path, and could come to mean something else.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/dependency.h"
#include "catalog/indexing.h"
#include "catalog/pg_class.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_rewrite.h"
#include "commands/tablecmds.h"
#include "commands/view.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "rewrite/rewriteSupport.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"

#include "compat.h"
#include "definition.h"

/*
 * Make a view with the columns of a query's target list; the current user
 * needs CREATE on the schema.  It has no query yet, so that the query may
 * refer to what is made after it.  Ends with CommandCounterIncrement.
 */
Oid
tide_definition_create(RangeVar *name, Query *query, Oid owner)
{
	CreateStmt *create = makeNode(CreateStmt);
	ObjectAddress view;
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *entry = lfirst_node(TargetEntry, lc);
		Oid			type = exprType((Node *) entry->expr);
		Oid			collation = exprCollation((Node *) entry->expr);

		if (entry->resjunk)
			continue;
		if (type_is_collatable(type) && !OidIsValid(collation))
			ereport(ERROR,
					(errcode(ERRCODE_INDETERMINATE_COLLATION),
					 errmsg("could not determine which collation to use for view column \"%s\"",
							entry->resname),
					 errhint("Use the COLLATE clause to set the collation explicitly.")));
		create->tableElts =
			lappend(create->tableElts,
					makeColumnDef(entry->resname, type,
								  exprTypmod((Node *) entry->expr),
								  collation));
	}
	create->relation = name;
	create->oncommit = ONCOMMIT_NOOP;
	view = DefineRelation(create, RELKIND_VIEW, owner, NULL, NULL);
	CommandCounterIncrement();

	return view.objectId;
}

/* Give the view its query.  Ends with CommandCounterIncrement. */
void
tide_definition_store(Oid view, Query *query)
{
	bool		replace = false;

	StoreViewQuery(view, query, replace);
	CommandCounterIncrement();
}

/*
 * The relations that the query of a view names, without those that views among
 * them name.  The view need not be locked: the result is what it was a moment
 * ago, and empty when the view is gone.
 */
List *
tide_definition_relations(Oid view)
{
	bool		missing_ok = true;
	bool		use_index = true;
	Oid			rule = get_rewrite_oid(view, ViewSelectRuleName, missing_ok);
	List	   *relations = NIL;
	ScanKeyData keys[2];
	Relation	depend;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!OidIsValid(rule))
		return NIL;

	depend = table_open(DependRelationId, AccessShareLock);
	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RewriteRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(rule));
	scan = systable_beginscan(depend, DependDependerIndexId, use_index, NULL,
							  lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == RelationRelationId && form->refobjid != view)
			relations = list_append_unique_oid(relations, form->refobjid);
	}
	systable_endscan(scan);
	table_close(depend, AccessShareLock);

	return relations;
}

/* Does a relation depend in this way on another one as a whole? */
bool
tide_definition_depends(Oid relid, Oid on, char deptype)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	bool		use_index = true;
	bool		found = false;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_classid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_objid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, DependDependerIndexId, use_index, NULL,
							  lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->refclassid == RelationRelationId && form->refobjid == on &&
			form->refobjsubid == 0 && form->deptype == deptype)
			found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	return found;
}

/*
 * Do other objects than parts of a relation, as indexes are, depend on it?  A
 * view depends on itself by its rule.
 */
bool
tide_definition_is_used(Oid relid)
{
	Relation	rel = table_open(DependRelationId, AccessShareLock);
	bool		missing_ok = true;
	Oid			rule = get_rewrite_oid(relid, ViewSelectRuleName, missing_ok);
	bool		use_index = true;
	bool		found = false;
	ScanKeyData keys[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&keys[0], Anum_pg_depend_refclassid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(RelationRelationId));
	ScanKeyInit(&keys[1], Anum_pg_depend_refobjid, BTEqualStrategyNumber,
				F_OIDEQ, ObjectIdGetDatum(relid));
	scan = systable_beginscan(rel, DependReferenceIndexId, use_index, NULL,
							  lengthof(keys), keys);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		Form_pg_depend form = (Form_pg_depend) GETSTRUCT(tuple);

		if (form->deptype == DEPENDENCY_NORMAL &&
			!(form->classid == RewriteRelationId && form->objid == rule))
			found = true;
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);

	return found;
}

/* Does a view read a relation, itself or by views that it reads? */
bool
tide_definition_reads(Oid view, Oid relid)
{
	ListCell   *lc;

	check_stack_depth();
	foreach(lc, tide_definition_relations(view))
	{
		Oid			read = lfirst_oid(lc);

		if (read == relid ||
			(get_rel_relkind(read) == RELKIND_VIEW &&
			 tide_definition_reads(read, relid)))
			return true;
	}

	return false;
}
