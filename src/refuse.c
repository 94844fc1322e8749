/*
 * refuse.c
 *		What a defining query may not contain, and why.
 *
 * Everything here either returns or ends in ereport(ERROR) with the construct
 * in the primary message, the reason in the detail and what to write instead
 * in the hint.  One function per place in the query: clauses of its top level,
 * contents at any depth (views included), output columns, aggregates, keys,
 * expressions above the aggregates.
 *
 * Tests are made on parse trees, in which defaults of function arguments are
 * not filled in yet: see check_node for volatile ones.
 *
 * LOCKING: views are locked AccessShare before they are looked into, until the
 * end of the transaction; other relations were locked by whoever made the
 * query.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "catalog/pg_aggregate.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteHandler.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "aggregate.h"
#include "catalog.h"
#include "compat.h"
#include "refuse.h"

/* the walk over all that a query contains */
typedef struct ContentsContext
{
	RangeTblEntry *stream_rte;	/* allowed where it stands */
	Index		stream_rti;
	int			level;			/* of the query we are in, 0: top */
	List	   *views;			/* OIDs of views that were looked into */
	Oid			view;			/* we are in its query, or InvalidOid */
	Oid			schema;			/* tidemark */
	bool		uses_now;
} ContentsContext;

static bool walk_contents(Node *node, ContentsContext *context);
static void check_query(Query *query, ContentsContext *context);
static void check_rte(RangeTblEntry *rte, ContentsContext *context);
static void check_view(Oid relid, ContentsContext *context);
static void check_node(Node *node, ContentsContext *context);
static bool check_function(Oid funcid, void *context);
static bool is_clock_function(Oid funcid, Oid schema);
static bool find_mutable(Node *node, Oid *funcid);
static bool find_mutable_function(Oid funcid, void *context);

/*
 * Refuse the clauses of the top level that cannot be maintained.
 */
void
tide_refuse_clauses(Query *query)
{
	if (query->commandType != CMD_SELECT || query->utilityStmt != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a continuous view must be defined by a SELECT"),
				 errdetail("Its query is run over each batch of events and may not change data."),
				 errhint("Write SELECT ... FROM stream ... GROUP BY ...")));

	if (query->cteList != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("WITH is not supported in a continuous view"),
				 errdetail("A WITH query may be computed once for the whole statement, not for each event."),
				 errhint("Write it as a subquery in FROM, or make it a view.")));

	if (query->setOperations != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("UNION, INTERSECT and EXCEPT are not supported in a continuous view"),
				 errdetail("A continuous view maintains the groups of one query."),
				 errhint("Make one continuous view of each part, and combine them in a view on top.")));

	if (query->hasWindowFuncs)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("window functions are not supported in a continuous view"),
				 errdetail("A new event could change the result of any other row."),
				 errhint("Use the window function in a view on top of the continuous view.")));

	if (query->hasTargetSRFs)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("set-returning functions in the select list are not supported in a continuous view"),
				 errdetail("One group would become several rows."),
				 errhint("Call the function in FROM.")));

	if (query->hasDistinctOn)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DISTINCT ON is not supported in a continuous view"),
				 errdetail("A new event could replace the row that was chosen before."),
				 errhint("Use GROUP BY with an aggregate such as min or max.")));

	if (query->distinctClause != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DISTINCT is not supported in a continuous view"),
				 errdetail("A continuous view has one row for each group."),
				 errhint("Put the columns into GROUP BY.")));

	if (query->groupingSets != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("GROUPING SETS, CUBE and ROLLUP are not supported in a continuous view"),
				 errdetail("A continuous view maintains one set of groups."),
				 errhint("Make one continuous view for each grouping; leave GROUP BY out for one group of all rows.")));

	if (query->sortClause != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ORDER BY is not supported in a continuous view"),
				 errdetail("The rows of a view have no order."),
				 errhint("Use ORDER BY when you read the view.")));

	if (query->limitCount != NULL || query->limitOffset != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("LIMIT and OFFSET are not supported in a continuous view"),
				 errdetail("A new event could change which rows are within the limit."),
				 errhint("Use LIMIT when you read the view.")));

	if (query->rowMarks != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("FOR UPDATE and FOR SHARE are not supported in a continuous view"),
				 errdetail("A batch does not lock the rows it reads."),
				 errhint("Leave the locking clause out.")));

	if (!query->hasAggs && query->groupClause == NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a query without aggregate and without GROUP BY is not supported as a continuous view"),
				 errdetail("It would have one row for each event."),
				 errhint("Add an aggregate or GROUP BY; use an ordinary view to filter events.")));
}

/*
 * Refuse what may not stand anywhere in the query, looking into subqueries and
 * views: streams but the one at stream_rti (0: there is none, which is refused
 * last), continuous views, window functions of ours outside FROM, volatile
 * functions, parameters, locking, samples, temporary tables.  Returns whether
 * the query uses the clock of the batch.
 */
bool
tide_refuse_contents(Query *query, Index stream_rti)
{
	ContentsContext context;

	memset(&context, 0, sizeof(context));
	context.stream_rti = stream_rti;
	if (stream_rti != 0)
		context.stream_rte = rt_fetch(stream_rti, query->rtable);
	context.schema = tide_catalog_schema();
	check_query(query, &context);

	if (stream_rti == 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the query of a continuous view reads no stream"),
				 errdetail("None of the tables in its outermost FROM was registered as a stream."),
				 errhint("Register the event table with tidemark.create_stream; of a partitioned table, name the parent.")));
	return context.uses_now;
}

/*
 * Check one query and all that is in it.
 */
static void
check_query(Query *query, ContentsContext *context)
{
	if (query->commandType != CMD_SELECT || query->hasModifyingCTE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("data-modifying subqueries are not supported in a continuous view"),
				 errdetail("A batch may only read."),
				 errhint("Change data in a statement of its own.")));
	if (query->hasForUpdate)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("FOR UPDATE and FOR SHARE are not supported in a continuous view"),
				 errdetail("A batch does not lock the rows it reads."),
				 errhint("Leave the locking clause out.")));

	(void) query_tree_walker(query, walk_contents, (void *) context,
							 QTW_EXAMINE_RTES_BEFORE);
}

/*
 * Walker of check_query.
 */
static bool
walk_contents(Node *node, ContentsContext *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeTblEntry))
	{
		check_rte((RangeTblEntry *) node, context);
		return false;			/* the walker goes on into it */
	}
	if (IsA(node, Query))
	{
		context->level++;
		check_query((Query *) node, context);
		context->level--;
		return false;
	}
	check_node(node, context);
	return expression_tree_walker(node, walk_contents, (void *) context);
}

/*
 * Check one entry of FROM, at any depth.
 */
static void
check_rte(RangeTblEntry *rte, ContentsContext *context)
{
	if (rte->tablesample != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("TABLESAMPLE is not supported in a continuous view"),
				 errdetail("Which rows a sample contains depends on when it is taken."),
				 errhint("Sample by an expression over the row, in WHERE.")));

	if (rte->rtekind != RTE_RELATION || rte == context->stream_rte)
		return;

	if (get_rel_persistence(rte->relid) == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("temporary table \"%s\" cannot be used in a continuous view",
						get_rel_name(rte->relid)),
				 errdetail("Batches run in other sessions, which do not see it."),
				 errhint("Use an ordinary table.")));

	if (tide_catalog_read_stream(rte->relid) != NULL)
	{
		if (OidIsValid(context->view))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("view \"%s\" contains the stream \"%s\"",
							get_rel_name(context->view),
							get_rel_name(rte->relid)),
					 errdetail("A batch reads the new events of a stream only where the stream itself stands in FROM."),
					 errhint("Write the view's query out in the continuous view.")));
		if (context->level > 0)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("stream \"%s\" is used in a subquery",
							get_rel_name(rte->relid)),
					 errdetail("A batch reads the new events of a stream only where the stream itself stands in the outermost FROM."),
					 errhint("Write the stream into FROM, and its conditions into WHERE.")));
		/* the outermost FROM was looked at before */
		elog(ERROR, "stream %u was not found in FROM", rte->relid);
	}

	if (rte->relkind == RELKIND_VIEW)
		check_view(rte->relid, context);
}

/*
 * Check what a view contains.  Those of its entries that stand for the view
 * itself (OLD and NEW, up to 15) are in the list of views by then.
 */
static void
check_view(Oid relid, ContentsContext *context)
{
	Relation	rel;
	Query	   *query;
	Oid			outer_view = context->view;

	if (list_member_oid(context->views, relid))
		return;
	if (tide_catalog_read_view(relid) != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("continuous view \"%s\" is used in a continuous view",
						get_rel_name(relid)),
				 errdetail("A batch would see it as it is at that moment, with windows that are not final."),
				 errhint("Join them in an ordinary view on top of both.")));
	context->views = lappend_oid(context->views, relid);

	rel = table_open(relid, AccessShareLock);
	query = copyObject(get_view_query(rel));
	table_close(rel, NoLock);

	context->view = relid;
	context->level++;
	check_query(query, context);
	context->level--;
	context->view = outer_view;
}

/*
 * Check one node of an expression.
 */
static void
check_node(Node *node, ContentsContext *context)
{
	(void) check_functions_in_node(node, check_function, (void *) context);

	switch (nodeTag(node))
	{
		case T_FuncExpr:
			{
				FuncExpr   *func = (FuncExpr *) node;
				HeapTuple	tuple;
				List	   *args;

				/* defaults of arguments can be volatile, too */
				tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(func->funcid));
				if (!HeapTupleIsValid(tuple))
					elog(ERROR, "cache lookup failed for function %u", func->funcid);
				if (((Form_pg_proc) GETSTRUCT(tuple))->pronargs > list_length(func->args))
				{
					args = expand_function_arguments(copyObject(func->args), false,
													 func->funcresulttype, tuple);
					(void) walk_contents((Node *) args, context);
				}
				ReleaseSysCache(tuple);
				break;
			}
		case T_SQLValueFunction:
			context->uses_now = true;
			break;
		case T_NextValueExpr:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("sequences are not supported in a continuous view"),
					 errdetail("Their values could not be reproduced."),
					 errhint("Store the number in a column of the event table.")));
			break;
		case T_Param:
			if (((Param *) node)->paramkind == PARAM_EXTERN)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("parameters are not supported in a continuous view"),
						 errdetail("The query is stored, and run later without parameters."),
						 errhint("Write the value into the query.")));
			break;
		case T_Var:
			{
				Var		   *var = (Var *) node;

				if (var->varattno < 0 &&
					var->varno == context->stream_rti &&
					!OidIsValid(context->view) &&
					var->varlevelsup == context->level)
					ereport(ERROR,
							(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
							 errmsg("system column \"%s\" of a stream is not supported in a continuous view",
									get_rte_attribute_name(context->stream_rte, var->varattno)),
							 errdetail("Where and how an event is stored is not part of the event."),
							 errhint("Use the columns of the event table.")));
				break;
			}
		default:
			break;
	}
}

/*
 * Check one function that is called, by OID.
 */
static bool
check_function(Oid funcid, void *arg)
{
	ContentsContext *context = (ContentsContext *) arg;
	char		volatility = func_volatile(funcid);

	if (get_func_namespace(funcid) == context->schema &&
		get_func_retset(funcid) &&
		strcmp(get_func_name(funcid), "tumble") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tidemark.tumble must stand by itself in the outermost FROM"),
				 errdetail("Elsewhere it would not be the window of the continuous view."),
				 errhint("Write FROM stream, tidemark.tumble(event_time, size) and group by its columns.")));

	if (volatility == PROVOLATILE_VOLATILE)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("volatile function %s is not supported in a continuous view",
						format_procedure(funcid)),
				 errdetail("Its result could not be reproduced."),
				 errhint("Store its result in a column of the event table, or use a function that is immutable or stable.")));
	if (volatility == PROVOLATILE_STABLE &&
		is_clock_function(funcid, context->schema))
		context->uses_now = true;
	return false;
}

/*
 * May a stable function depend on when the batch runs?  Those of the server
 * are known: the others depend on settings that are pinned, and on tables.
 */
static bool
is_clock_function(Oid funcid, Oid schema)
{
	switch (funcid)
	{
		case F_NOW:
		case F_TRANSACTION_TIMESTAMP:
		case F_STATEMENT_TIMESTAMP:
		case F_AGE_TIMESTAMPTZ:
		case F_AGE_TIMESTAMP:
			return true;
		default:
			return funcid >= FirstNormalObjectId &&
				get_func_namespace(funcid) != schema;
	}
}

/*
 * Refuse output columns that a view or a reader could not have.
 */
void
tide_refuse_columns(Query *query)
{
	ListCell   *lc;

	foreach(lc, query->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Oid			type = exprType((Node *) tle->expr);
		ListCell   *other;

		if (tle->resjunk)
			continue;
		if (tle->resname == NULL || strcmp(tle->resname, "?column?") == 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("output column %d has no name", tle->resno),
					 errdetail("The columns of a continuous view are known by their names."),
					 errhint("Give it a name with AS.")));
		if (type == UNKNOWNOID || get_typtype(type) == TYPTYPE_PSEUDO)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_TABLE_DEFINITION),
					 errmsg("output column \"%s\" has pseudo-type %s",
							tle->resname, format_type_be(type)),
					 errdetail("A table cannot have a column of this type."),
					 errhint("Cast it to another type.")));
		for_each_cell(other, query->targetList, lnext(query->targetList, lc))
		{
			TargetEntry *next = lfirst_node(TargetEntry, other);

			if (!next->resjunk && next->resname != NULL &&
				strcmp(tle->resname, next->resname) == 0)
				ereport(ERROR,
						(errcode(ERRCODE_DUPLICATE_COLUMN),
						 errmsg("output column \"%s\" occurs more than once", tle->resname),
						 errdetail("The columns of a continuous view are known by their names."),
						 errhint("Give one of them another name with AS.")));
		}
	}
}

/*
 * Refuse an aggregate that cannot be maintained.
 */
void
tide_refuse_aggregate(Aggref *aggref)
{
	char	   *reason;

	if (aggref->aggkind != AGGKIND_NORMAL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ordered-set aggregate %s is not supported in a continuous view",
						format_procedure(aggref->aggfnoid)),
				 errdetail("It needs all its input again whenever an event arrives."),
				 errhint("Use an aggregate with a mergeable state, such as an approximate percentile of an extension.")));
	if (aggref->aggdistinct != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("DISTINCT in aggregate %s is not supported in a continuous view",
						format_procedure(aggref->aggfnoid)),
				 errdetail("All values seen so far would have to be kept."),
				 errhint("Put the column into GROUP BY and aggregate in a view on top.")));
	if (aggref->aggorder != NIL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ORDER BY in aggregate %s is not supported in a continuous view",
						format_procedure(aggref->aggfnoid)),
				 errdetail("Events are aggregated in the order in which they arrive."),
				 errhint("Leave ORDER BY out, or sort the result in a view on top.")));

	reason = tide_aggregate_unsupported(aggref);
	if (reason != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("aggregate %s is not supported in a continuous view",
						format_procedure(aggref->aggfnoid)),
				 errdetail_internal("%s", reason),
				 errhint("Use an aggregate with a combine function.")));

	if (get_typtype(aggref->aggtype) == TYPTYPE_PSEUDO)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("aggregate %s is not supported in a continuous view",
						format_procedure(aggref->aggfnoid)),
				 errdetail("A table cannot have a column of its type %s.",
						   format_type_be(aggref->aggtype)),
				 errhint("Aggregate values of another type.")));
}

/*
 * Refuse a group key that cannot be stored, or only at the stream's expense: a
 * column of its row type would forbid changes of the table.
 */
void
tide_refuse_key(Node *expr, Oid stream)
{
	Oid			type = exprType(expr);

	if (get_typ_typrelid(type) == stream)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("GROUP BY whole rows of the stream \"%s\" is not supported",
						get_rel_name(stream)),
				 errdetail("Columns could not be added to the stream any more."),
				 errhint("Group by its columns.")));

	if (type == UNKNOWNOID || get_typtype(type) == TYPTYPE_PSEUDO)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("GROUP BY a value of pseudo-type %s is not supported in a continuous view",
						format_type_be(type)),
				 errdetail("A table cannot have a column of this type."),
				 errhint("Group by its parts, or cast it to another type.")));
}

/*
 * Refuse an expression above aggregates and keys, after these were replaced by
 * Vars, unless it is immutable.  Functions are inlined first, as a wrapper may
 * be declared more cautiously than what it calls.
 */
void
tide_refuse_output(Node *expr)
{
	Oid			funcid = InvalidOid;

	if (!find_mutable((Node *) expression_planner((Expr *) copyObject(expr)),
					  &funcid))
		return;
	if (OidIsValid(funcid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("function %s is not immutable and is applied to groups of a continuous view",
						format_procedure(funcid)),
				 errdetail("Expressions over aggregates and keys, and HAVING, must give every reader the same result."),
				 errhint("Put the expression into GROUP BY, or into a view on top.")));
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("an expression that is not immutable is applied to groups of a continuous view"),
			 errdetail("Expressions over aggregates and keys, and HAVING, must give every reader the same result."),
			 errhint("Put the expression into GROUP BY, or into a view on top.")));
}

/*
 * Walker: is there something not immutable?  *funcid is the function, if it
 * is one.
 */
static bool
find_mutable(Node *node, Oid *funcid)
{
	if (node == NULL)
		return false;
	if (check_functions_in_node(node, find_mutable_function, (void *) funcid))
		return true;
	if (IsA(node, SQLValueFunction) || IsA(node, NextValueExpr))
		return true;
	return expression_tree_walker(node, find_mutable, (void *) funcid);
}

/*
 * Checker of find_mutable.
 */
static bool
find_mutable_function(Oid funcid, void *context)
{
	if (func_volatile(funcid) == PROVOLATILE_IMMUTABLE)
		return false;
	*(Oid *) context = funcid;
	return true;
}
