/*
 * analyze.c
 *		Query -> continuous query: input, window, keys, aggregates.
 *
 * A defining query is taken apart into what PostgreSQL plans and runs for each
 * batch (the input query: FROM, WHERE, and every expression below the
 * aggregates) and what is kept between batches (the groups).  Nothing here
 * runs anything, and nothing remembers: a TideQuery is made anew from the
 * stored definition, so that a renamed column or a new view body needs no
 * migration of ours.  What is not supported is refused here and in refuse.c,
 * before anything is made.
 *
 * The parse tree comes from parse analysis or from the rule of the definition
 * view.  The latter has two entries in its range table up to 15 that stand for
 * the view itself, and 18 has one for GROUP BY; entries that FROM does not
 * reach are made empty, so that range table indexes stay what they are.
 *
 * LOCKING: the query's own relations were locked by whoever made it; views it
 * uses, and the stream's definition, are locked AccessShare until the end of
 * the transaction.
 * MEMORY: everything is allocated in the caller's context.
 *
 * INVARIANTS
 * I1 after take_window there is no set-returning function of ours left (the
 *	  walk in refuse.c refuses one; sql/refusals.sql)
 * I2 every Var in output and having is one of TIDE_OUTPUT_* (replace_output
 *	  refuses any other)
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/parsetree.h"
#include "rewrite/rewriteDefine.h"
#include "rewrite/rewriteHandler.h"
#include "rewrite/rewriteManip.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "analyze.h"
#include "compat.h"
#include "refuse.h"

/* what was found in FROM */
typedef struct FromContext
{
	Query	   *query;
	Bitmapset  *reached;		/* range table indexes */
	Index		stream_rti;
	TideStream *stream;
	Index		tumble_rti;
	bool		has_others;
} FromContext;

/* replacing grouping expressions and aggregates by columns of storage */
typedef struct OutputContext
{
	Query	   *query;
	TideQuery  *result;
	List	   *group_exprs;	/* grouping expressions ... */
	List	   *group_vars;		/* ... and the Vars they become */
	List	   *aggrefs;		/* as they stand in the query */
	List	   *input_aggrefs;	/* over the columns of the input row */
} OutputContext;

static void walk_from(Node *node, bool is_nullable, FromContext *context);
static void visit_stream(Index rti, RangeTblEntry *rte, TideStream *stream,
						 bool is_nullable, FromContext *context);
static FuncExpr *get_tumble(RangeTblEntry *rte);
static bool is_tumble_function(Oid funcid, const char *name);
static RangeTblEntry *make_empty_rte(void);
static void take_window(Query *query, Index rti);
static Oid	find_sibling(Oid funcid, const char *name);
static List *expand_arguments(FuncExpr *func);
static void split_groups(OutputContext *context, bool has_tumble);
static bool split_window(OutputContext *context, Node *expr, FuncExpr **found);
static void map_group(OutputContext *context, Node *expr, AttrNumber attno);
static AttrNumber add_input(TideQuery *result, Expr *expr);
static Node *replace_output(Node *node, OutputContext *context);
static Aggref *make_input_aggref(TideQuery *result, Aggref *aggref);
static Expr *guard_argument(Expr *arg, Expr *filter);
static Node *make_input_var(TideQuery *result, Expr *expr);
static void make_plain(OutputContext *context);
static void finish_input(TideQuery *result);
static void plan_aggregates(TideQuery *result, List *aggrefs);
static int64 make_fingerprint(TideQuery *result);
static void describe_type(Oid type, int32 typmod, Oid collation,
						  StringInfo out);
static char *get_output_name(TideQuery *query, AttrNumber attno);

/*
 * Take an analyzed, not rewritten defining query apart, or refuse it.
 */
TideQuery *
tide_analyze(Query *query)
{
	TideQuery  *result = palloc0(sizeof(TideQuery));
	FromContext from;
	OutputContext output;
	Query	   *input = copyObject(query);
	Node	   *having;
	ListCell   *lc;

	tide_refuse_clauses(input);
	tide_refuse_columns(input);

	input->targetList = (List *)
		TIDE_FLATTEN_GROUP_EXPRS(input, (Node *) input->targetList);
	input->havingQual = TIDE_FLATTEN_GROUP_EXPRS(input, input->havingQual);
	TIDE_FORGET_GROUP_RTE(input);

	memset(&from, 0, sizeof(from));
	from.query = input;
	walk_from((Node *) input->jointree, false, &from);
	foreach(lc, input->rtable)
	{
		if (!bms_is_member(foreach_current_index(lc) + 1, from.reached))
			lfirst(lc) = make_empty_rte();
	}
	if (from.tumble_rti != 0)
		take_window(input, from.tumble_rti);
	/* refuses a query without a stream, too */
	result->uses_now = tide_refuse_contents(input, from.stream_rti);
	Assert(from.stream != NULL);

	input->targetList = (List *)
		TIDE_FLATTEN_JOIN_ALIAS_VARS(input, (Node *) input->targetList);
	having = TIDE_FLATTEN_JOIN_ALIAS_VARS(input, input->havingQual);

	result->stream = from.stream->relation;
	result->stream_rti = from.stream_rti;
	rt_fetch(from.stream_rti, input->rtable)->inh = false;
	result->event_time = tide_analyze_event_time(from.stream, from.stream_rti);
	result->event_type = exprType((Node *) result->event_time);
	result->has_joins = from.has_others;

	/* the input row */
	result->input = makeNode(Query);
	(void) add_input(result, result->event_time);
	(void) add_input(result, (Expr *)
					 makeVar(from.stream_rti, SelfItemPointerAttributeNumber,
							 TIDOID, -1, InvalidOid, 0));

	memset(&output, 0, sizeof(output));
	output.query = input;
	output.result = result;
	split_groups(&output, from.tumble_rti != 0);

	/* the user's view */
	foreach(lc, input->targetList)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);
		Node	   *expr;

		if (tle->resjunk)
			continue;
		expr = replace_output((Node *) tle->expr, &output);
		tide_refuse_output(expr);
		result->output = lappend(result->output,
								 makeTargetEntry((Expr *) expr,
												 list_length(result->output) + 1,
												 pstrdup(tle->resname), false));
	}
	if (having != NULL)
	{
		result->having = replace_output(having, &output);
		tide_refuse_output(result->having);
	}

	make_plain(&output);

	/* the query that gives the input row */
	input->targetList = result->input->targetList;
	result->input = input;
	finish_input(result);

	plan_aggregates(result, output.input_aggrefs);
	result->fingerprint = make_fingerprint(result);
	return result;
}

/*
 * Find stream and window function in FROM.  is_nullable: below the side of an
 * outer join that may be replaced by nulls.
 */
static void
walk_from(Node *node, bool is_nullable, FromContext *context)
{
	if (node == NULL)
		return;
	if (IsA(node, FromExpr))
	{
		ListCell   *lc;

		foreach(lc, ((FromExpr *) node)->fromlist)
			walk_from((Node *) lfirst(lc), is_nullable, context);
	}
	else if (IsA(node, JoinExpr))
	{
		JoinExpr   *join = (JoinExpr *) node;

		context->reached = bms_add_member(context->reached, join->rtindex);
		walk_from(join->larg,
				  is_nullable || join->jointype == JOIN_RIGHT ||
				  join->jointype == JOIN_FULL,
				  context);
		walk_from(join->rarg,
				  is_nullable || join->jointype == JOIN_LEFT ||
				  join->jointype == JOIN_FULL,
				  context);
	}
	else if (IsA(node, RangeTblRef))
	{
		Index		rti = ((RangeTblRef *) node)->rtindex;
		RangeTblEntry *rte = rt_fetch(rti, context->query->rtable);
		TideStream *stream = NULL;

		context->reached = bms_add_member(context->reached, rti);
		if (rte->rtekind == RTE_RELATION)
			stream = tide_catalog_read_stream(rte->relid);

		if (stream != NULL)
			visit_stream(rti, rte, stream, is_nullable, context);
		else if (get_tumble(rte) != NULL)
		{
			if (context->tumble_rti != 0)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("a continuous view cannot have two windows"),
						 errdetail("There is more than one tidemark.tumble in FROM."),
						 errhint("Make one continuous view for each window.")));
			if (is_nullable)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("tidemark.tumble is on the nullable side of an outer join"),
						 errdetail("Every event is in a window."),
						 errhint("Write it after a comma, or with CROSS JOIN.")));
			context->tumble_rti = rti;
		}
		else
			context->has_others = true;
	}
	else
		elog(ERROR, "unrecognized node type in FROM: %d", (int) nodeTag(node));
}

/*
 * A stream in FROM: refuse it unless it is the first, whole, and preserved.
 */
static void
visit_stream(Index rti, RangeTblEntry *rte, TideStream *stream,
			 bool is_nullable, FromContext *context)
{
	char	   *name = get_rel_name(rte->relid);

	if (context->stream != NULL && context->stream->relation == rte->relid)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" occurs more than once in FROM", name),
				 errdetail("An event would have to meet events of other batches."),
				 errhint("Aggregate the stream alone, and join the results in a view on top.")));
	if (context->stream != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("joins between the streams \"%s\" and \"%s\" are not supported",
						get_rel_name(context->stream->relation), name),
				 errdetail("An event would have to meet events of other batches."),
				 errhint("Make one continuous view of each, and join them in a view on top.")));
	if (is_nullable)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("stream \"%s\" is on the nullable side of an outer join", name),
				 errdetail("A row without partner would have to be taken back when an event for it arrives."),
				 errhint("Use an inner join, or a join that keeps every row of the stream.")));
	if (rte->tablesample != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("TABLESAMPLE is not supported in a continuous view"),
				 errdetail("Which rows a sample contains depends on when it is taken."),
				 errhint("Sample by an expression over the row, in WHERE.")));
	if (!rte->inh)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("ONLY is not supported for the stream \"%s\"", name),
				 errdetail("A batch reads all partitions of a stream."),
				 errhint("Leave ONLY out.")));

	context->stream = stream;
	context->stream_rti = rti;
}

/*
 * The call of tidemark.tumble that is all of a FROM entry, or NULL.
 */
static FuncExpr *
get_tumble(RangeTblEntry *rte)
{
	RangeTblFunction *function;

	if (rte->rtekind != RTE_FUNCTION || rte->funcordinality ||
		list_length(rte->functions) != 1)
		return NULL;
	function = linitial_node(RangeTblFunction, rte->functions);
	if (!IsA(function->funcexpr, FuncExpr) ||
		!is_tumble_function(((FuncExpr *) function->funcexpr)->funcid, "tumble"))
		return NULL;
	return (FuncExpr *) function->funcexpr;
}

/*
 * Is it the function of that name in our schema?
 */
static bool
is_tumble_function(Oid funcid, const char *name)
{
	return get_func_namespace(funcid) == tide_catalog_schema() &&
		strcmp(get_func_name(funcid), name) == 0;
}

/*
 * An entry of FROM with one row and no columns.
 */
static RangeTblEntry *
make_empty_rte(void)
{
	RangeTblEntry *rte = makeNode(RangeTblEntry);

	rte->rtekind = RTE_RESULT;
	rte->eref = makeAlias("*RESULT*", NIL);
	return rte;
}

/*
 * Replace the columns of the window function at rti by scalar calls, wherever
 * they occur in the query, and the function by an empty entry.
 */
static void
take_window(Query *query, Index rti)
{
	RangeTblEntry *rte = rt_fetch(rti, query->rtable);
	FuncExpr   *tumble = get_tumble(rte);
	List	   *args = expand_arguments(tumble);
	static const char *const names[] = {"tumble_start", "tumble_end"};
	List	   *columns = NIL;
	Query	   *replaced;
	int			i;

	for (i = 0; i < lengthof(names); i++)
	{
		Oid			funcid = find_sibling(tumble->funcid, names[i]);
		FuncExpr   *column = makeFuncExpr(funcid, get_func_rettype(funcid),
										  copyObject(args), InvalidOid,
										  tumble->inputcollid,
										  COERCE_EXPLICIT_CALL);

		columns = lappend(columns,
						  makeTargetEntry((Expr *) column, i + 1,
										  pstrdup(names[i]), false));
	}

	replaced = (Query *) TIDE_REPLACE_VARS((Node *) query, rti, rte, columns);
	*query = *replaced;
	list_nth_cell(query->rtable, rti - 1)->ptr_value = make_empty_rte();
}

/*
 * The function of another name with the same schema and argument types.
 */
static Oid
find_sibling(Oid funcid, const char *name)
{
	HeapTuple	tuple;
	Form_pg_proc proc;
	Oid			sibling;

	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(funcid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", funcid);
	proc = (Form_pg_proc) GETSTRUCT(tuple);
	sibling = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid,
							  CStringGetDatum(name),
							  PointerGetDatum(&proc->proargtypes),
							  ObjectIdGetDatum(proc->pronamespace));
	if (!OidIsValid(sibling))
		elog(ERROR, "function tidemark.%s is missing", name);
	ReleaseSysCache(tuple);
	return sibling;
}

/*
 * The arguments of a call in order, defaults included.
 */
static List *
expand_arguments(FuncExpr *func)
{
	HeapTuple	tuple;
	List	   *args;

	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(func->funcid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", func->funcid);
	args = expand_function_arguments(copyObject(func->args), false,
									 func->funcresulttype, tuple);
	ReleaseSysCache(tuple);
	return args;
}

/*
 * Split GROUP BY into the window and the keys.  The event time itself is the
 * window when there is no other.
 */
static void
split_groups(OutputContext *context, bool has_tumble)
{
	TideQuery  *result = context->result;
	FuncExpr   *window = NULL;	/* the call that makes the window */
	SortGroupClause *instant = NULL;
	List	   *clauses = NIL;
	ListCell   *lc;

	foreach(lc, context->query->groupClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = get_sortgroupclause_expr(clause, context->query->targetList);

		if (split_window(context, expr, &window))
			continue;
		if (instant == NULL && equal(expr, result->event_time))
			instant = clause;
		clauses = lappend(clauses, clause);
	}

	if (has_tumble &&
		(window == NULL ||
		 !is_tumble_function(window->funcid, "tumble")))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("the window of tidemark.tumble is not in GROUP BY"),
				 errdetail("Each window has groups of its own, which are final when it ends."),
				 errhint("Add window_start or window_end to GROUP BY.")));

	if (window == NULL && instant != NULL)
	{
		result->window.kind = TIDE_WINDOW_INSTANT;
		result->window.type = result->event_type;
		result->window.shift = TIDE_SHIFT_NONE;
		map_group(context, (Node *) result->event_time,
				  TIDE_OUTPUT_WINDOW_START);
		clauses = list_delete_ptr(clauses, instant);
	}

	result->keys = palloc0(sizeof(TideKey) * Max(list_length(clauses), 1));
	foreach(lc, clauses)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		Node	   *expr = get_sortgroupclause_expr(clause, context->query->targetList);
		TideKey    *key = &result->keys[result->nkeys];

		/* names of joined columns can hide that two are the same */
		if (list_member(context->group_exprs, expr))
			continue;
		tide_refuse_key(expr, result->stream);
		key->expr = (Expr *) expr;
		key->input_attno = add_input(result, (Expr *) expr);
		key->type = exprType(expr);
		key->typmod = exprTypmod(expr);
		key->collation = exprCollation(expr);
		key->eq_operator = clause->eqop;
		map_group(context, expr, TIDE_OUTPUT_KEY(result->nkeys));
		result->nkeys++;
	}
}

/*
 * Is this grouping expression the window?  Then it is mapped, and *found is
 * the call that makes it; a second, different one is refused.
 */
static bool
split_window(OutputContext *context, Node *expr, FuncExpr **found)
{
	TideQuery  *result = context->result;
	TideWindow	window;
	FuncExpr   *call;
	AttrNumber	attno = TIDE_OUTPUT_WINDOW_START;

	if (!IsA(expr, FuncExpr))
		return false;
	call = (FuncExpr *) expr;
	if (is_tumble_function(call->funcid, "tumble_start") ||
		is_tumble_function(call->funcid, "tumble_end"))
	{
		if (is_tumble_function(call->funcid, "tumble_end"))
			attno = TIDE_OUTPUT_WINDOW_END;
		call = copyObject(call);
		call->args = expand_arguments(call);
		call->funcid = find_sibling(call->funcid, "tumble");
		call->funcresulttype = get_func_rettype(call->funcid);
		call->funcretset = true;
		if (*found != NULL && equal(call, *found))
		{
			map_group(context, expr, attno);
			return true;
		}
	}

	memset(&window, 0, sizeof(window));
	if (!tide_window_recognise((Node *) call, (Node *) result->event_time,
							   &window))
	{
		/* it says itself what is wrong with a window of ours */
		Assert(!is_tumble_function(call->funcid, "tumble"));
		return false;
	}
	if (*found != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("a continuous view cannot have two windows"),
				 errdetail("GROUP BY cuts the event time in two different ways."),
				 errhint("Make one continuous view for each window, or compute the larger window from the smaller one in a view on top.")));

	Assert(attno == TIDE_OUTPUT_WINDOW_END || exprType(expr) == window.type);
	result->window = window;
	*found = call;
	map_group(context, expr, attno);
	return true;
}

/*
 * From now on, replace_output replaces the expression by that Var.
 */
static void
map_group(OutputContext *context, Node *expr, AttrNumber attno)
{
	context->group_exprs = lappend(context->group_exprs, expr);
	context->group_vars = lappend(context->group_vars,
								  makeVar(1, attno, exprType(expr),
										  exprTypmod(expr),
										  exprCollation(expr), 0));
}

/*
 * The column of the input row for an expression; equal ones share a column.
 */
static AttrNumber
add_input(TideQuery *result, Expr *expr)
{
	TargetEntry *tle;
	ListCell   *lc;
	AttrNumber	attno;

	foreach(lc, result->input->targetList)
	{
		tle = lfirst_node(TargetEntry, lc);
		if (equal(tle->expr, expr))
			return tle->resno;
	}
	attno = list_length(result->input->targetList) + 1;
	tle = makeTargetEntry(copyObject(expr), attno,
						  psprintf("input_%d", attno), false);
	result->input->targetList = lappend(result->input->targetList, tle);
	return attno;
}

/*
 * Mutator: expressions over the query become expressions over storage.
 * Refuses what is neither grouped nor aggregated.
 */
static Node *
replace_output(Node *node, OutputContext *context)
{
	ListCell   *lc;
	ListCell   *lc2;

	if (node == NULL)
		return NULL;

	forboth(lc, context->group_exprs, lc2, context->group_vars)
	{
		if (equal(node, lfirst(lc)))
			return (Node *) copyObject(lfirst(lc2));
	}

	if (IsA(node, Aggref))
	{
		Aggref	   *aggref = (Aggref *) node;
		int			i;

		if (aggref->agglevelsup > 0)
			elog(ERROR, "aggregate of an outer query in the outermost query");
		for (i = 0; i < list_length(context->aggrefs); i++)
		{
			if (equal(aggref, list_nth(context->aggrefs, i)))
				break;
		}
		if (i == list_length(context->aggrefs))
		{
			tide_refuse_aggregate(aggref);
			context->aggrefs = lappend(context->aggrefs, aggref);
			context->input_aggrefs =
				lappend(context->input_aggrefs,
						make_input_aggref(context->result, aggref));
		}
		return (Node *) makeVar(1, TIDE_OUTPUT_AGG(context->result, i),
								aggref->aggtype, -1, aggref->aggcollid, 0);
	}

	if (IsA(node, SubLink))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("subqueries in the select list or in HAVING are not supported in a continuous view"),
				 errdetail("Expressions over groups must not read tables."),
				 errhint("Join the table in FROM, put the subquery into GROUP BY, or use a view on top.")));

	if (IsA(node, GroupingFunc))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("GROUPING is not supported in a continuous view"),
				 errdetail("A continuous view maintains one set of groups."),
				 errhint("Leave it out: without GROUPING SETS it is always 0.")));

	if (IsA(node, Var))
	{
		Var		   *var = (Var *) node;
		RangeTblEntry *rte = rt_fetch(var->varno, context->query->rtable);

		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("column \"%s.%s\" is neither in GROUP BY nor in an aggregate",
						rte->eref->aliasname,
						var->varattno == 0 ? "*" :
						get_rte_attribute_name(rte, var->varattno)),
				 errdetail("A continuous view groups by what GROUP BY names, and does not infer columns from a primary key."),
				 errhint("Add the column to GROUP BY.")));
	}

	return expression_tree_mutator(node, replace_output, (void *) context);
}

/*
 * The aggregate call over columns of the input row.
 */
static Aggref *
make_input_aggref(TideQuery *result, Aggref *aggref)
{
	Aggref	   *copy = makeNode(Aggref);
	ListCell   *lc;

	*copy = *aggref;
	copy->aggargtypes = list_copy(aggref->aggargtypes);
	copy->args = NIL;
	foreach(lc, aggref->args)
	{
		TargetEntry *arg = flatCopyTargetEntry(lfirst_node(TargetEntry, lc));

		arg->expr = (Expr *)
			make_input_var(result, guard_argument(arg->expr, aggref->aggfilter));
		copy->args = lappend(copy->args, arg);
	}
	if (aggref->aggfilter != NULL)
		copy->aggfilter = (Expr *) make_input_var(result, aggref->aggfilter);
	return copy;
}

/*
 * An argument as the input row has it.  FILTER may be there to keep events
 * away on which the argument fails, and columns of a row are all computed: so
 * it is computed only where the filter is true, as an Agg node does it.
 */
static Expr *
guard_argument(Expr *arg, Expr *filter)
{
	CaseExpr   *guard;
	CaseWhen   *when;

	if (filter == NULL || IsA(arg, Var) || IsA(arg, Const))
		return arg;

	when = makeNode(CaseWhen);
	when->expr = copyObject(filter);
	when->result = arg;
	when->location = -1;
	guard = makeNode(CaseExpr);
	guard->casetype = exprType((Node *) arg);
	guard->casecollid = exprCollation((Node *) arg);
	guard->args = list_make1(when);
	guard->defresult = (Expr *) makeNullConst(guard->casetype,
											  exprTypmod((Node *) arg),
											  guard->casecollid);
	guard->location = -1;
	return (Expr *) guard;
}

/*
 * A Var for the column of the input row with this expression.
 */
static Node *
make_input_var(TideQuery *result, Expr *expr)
{
	return (Node *) makeVar(1, add_input(result, expr), exprType((Node *) expr),
							exprTypmod((Node *) expr),
							exprCollation((Node *) expr), 0);
}

/*
 * The defining query with all that is stored of a group as its columns.
 */
static void
make_plain(OutputContext *context)
{
	TideQuery  *result = context->result;
	Query	   *plain = copyObject(context->query);
	List	   *columns = NIL;
	ListCell   *lc;
	ListCell   *lc2;

	foreach(lc, plain->groupClause)
	{
		SortGroupClause *clause = lfirst_node(SortGroupClause, lc);
		TargetEntry *tle = get_sortgroupclause_tle(clause, plain->targetList);
		AttrNumber	attno = InvalidAttrNumber;
		ListCell   *lc3;

		forboth(lc2, context->group_exprs, lc3, context->group_vars)
		{
			if (equal(tle->expr, lfirst(lc2)))
				attno = lfirst_node(Var, lc3)->varattno;
		}
		tle = flatCopyTargetEntry(tle);
		tle->resno = list_length(columns) + 1;
		tle->resname = psprintf("group_%d", tle->resno);
		tle->resjunk = false;
		columns = lappend(columns, tle);
		result->plain_attnos = lappend_int(result->plain_attnos, attno);
	}
	foreach(lc, context->aggrefs)
	{
		AttrNumber	attno = list_length(columns) + 1;

		columns = lappend(columns,
						  makeTargetEntry(copyObject(lfirst(lc)), attno,
										  psprintf("aggregate_%d", attno),
										  false));
		result->plain_attnos =
			lappend_int(result->plain_attnos,
						TIDE_OUTPUT_AGG(result, foreach_current_index(lc)));
	}

	rt_fetch(result->stream_rti, plain->rtable)->inh = true;
	plain->querySource = QSRC_ORIGINAL;
	plain->canSetTag = true;
	plain->targetList = columns;
	plain->hasAggs = context->aggrefs != NIL;
	/* grouping without keys and aggregates, as HAVING alone makes it */
	plain->havingQual = plain->groupClause == NIL && !plain->hasAggs ?
		makeBoolConst(true, false) : NULL;
	plain->constraintDeps = NIL;
	plain->hasSubLinks = checkExprHasSubLink((Node *) plain);
	result->plain = plain;
}

/*
 * Turn the defining query, whose target list is the input row by now, into an
 * ordinary query without groups.
 */
static void
finish_input(TideQuery *result)
{
	Query	   *input = result->input;

	input->querySource = QSRC_ORIGINAL;
	input->canSetTag = true;
	input->hasAggs = false;
	input->groupClause = NIL;
	input->groupDistinct = false;
	input->havingQual = NULL;
	input->constraintDeps = NIL;
	input->hasSubLinks = checkExprHasSubLink((Node *) input);
}

/*
 * Describe the input row to the aggregates, and plan them.
 */
static void
plan_aggregates(TideQuery *result, List *aggrefs)
{
	List	   *types = NIL;
	List	   *typmods = NIL;
	List	   *collations = NIL;
	ListCell   *lc;

	foreach(lc, result->input->targetList)
	{
		Node	   *expr = (Node *) lfirst_node(TargetEntry, lc)->expr;

		types = lappend_oid(types, exprType(expr));
		typmods = lappend_int(typmods, exprTypmod(expr));
		collations = lappend_oid(collations, exprCollation(expr));
	}
	result->aggs = tide_aggregate_plan(aggrefs, types, typmods, collations);
}

/*
 * A number that changes when stored groups would mean something else: window,
 * keys, aggregates.  Made of names, as OIDs differ between servers; without
 * schemas of the user's objects, as these may move.
 */
static int64
make_fingerprint(TideQuery *result)
{
	StringInfoData text;
	int			i;

	initStringInfo(&text);
	appendStringInfo(&text, "event %s;", format_type_be(result->event_type));
	tide_window_describe(&result->window, &text);
	for (i = 0; i < result->nkeys; i++)
	{
		TideKey    *key = &result->keys[i];

		appendStringInfoString(&text, ";key ");
		describe_type(key->type, key->typmod, key->collation, &text);
	}
	for (i = 0; i < result->aggs->naggs; i++)
	{
		Aggref	   *aggref = result->aggs->aggs[i].aggref;
		ListCell   *lc;

		appendStringInfo(&text, ";aggregate %s(",
						 get_func_name(aggref->aggfnoid));
		if (aggref->aggvariadic)
			appendStringInfoString(&text, "variadic ");
		foreach(lc, aggref->args)
		{
			Node	   *arg = (Node *) lfirst_node(TargetEntry, lc)->expr;

			describe_type(exprType(arg), exprTypmod(arg), InvalidOid, &text);
			appendStringInfoChar(&text, ',');
		}
		appendStringInfo(&text, ")%s", aggref->aggfilter ? " filter" : "");
		describe_type(aggref->aggtype, -1, aggref->inputcollid, &text);
	}
	return (int64) hash_bytes_extended((unsigned char *) text.data, text.len, 0);
}

/*
 * A type as text that is the same on every server.
 */
static void
describe_type(Oid type, int32 typmod, Oid collation, StringInfo out)
{
	HeapTuple	tuple;

	tuple = SearchSysCache1(TYPEOID, ObjectIdGetDatum(type));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for type %u", type);
	appendStringInfo(out, "%s(%d)",
					 NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname),
					 typmod);
	ReleaseSysCache(tuple);
	if (OidIsValid(collation))
		appendStringInfo(out, " collate %s", get_collation_name(collation));
}

/*
 * Plan the input query.
 */
PlannedStmt *
tide_analyze_plan_input(TideQuery *query)
{
	return tide_analyze_plan_plain(query->input);
}

/*
 * Plan a query that analysis made.
 */
PlannedStmt *
tide_analyze_plan_plain(Query *plain)
{
	Query	   *input = copyObject(plain);
	List	   *rewritten;

	AcquireRewriteLocks(input, true, false);
	rewritten = QueryRewrite(input);
	if (list_length(rewritten) != 1)
		elog(ERROR, "query was rewritten into %d queries",
			 list_length(rewritten));
	return pg_plan_query(linitial_node(Query, rewritten),
						 "tidemark query", 0, NULL);
}

/*
 * The Query of a definition view, checked as the current user, its relations
 * locked.
 */
Query *
tide_analyze_definition(Oid definition)
{
	Relation	rel = table_open(definition, AccessShareLock);
	Query	   *query = copyObject(get_view_query(rel));

	table_close(rel, NoLock);

	/* rules are checked as their owner; a batch is its view's owner already */
	setRuleCheckAsUser((Node *) query, InvalidOid);
	AcquireRewriteLocks(query, true, false);
	return query;
}

/*
 * The event-time expression of a stream, with Vars of range table entry rti.
 */
Expr *
tide_analyze_event_time(const TideStream *stream, Index rti)
{
	Relation	rel = table_open(stream->definition, AccessShareLock);
	Query	   *query = get_view_query(rel);
	RangeTblRef *from = linitial_node(RangeTblRef, query->jointree->fromlist);
	Node	   *expr;

	if (rt_fetch(from->rtindex, query->rtable)->relid != stream->relation)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("definition \"%s\" of a stream is not over the stream",
						RelationGetRelationName(rel))));
	expr = copyObject((Node *) linitial_node(TargetEntry, query->targetList)->expr);
	ChangeVarNodes(expr, from->rtindex, rti, 0);
	table_close(rel, NoLock);
	return (Expr *) expr;
}

/*
 * Say what a batch maintains: one line each, without a newline at the end.
 */
void
tide_analyze_describe(TideQuery *query, StringInfo out)
{
	TideAggPlan *aggs = query->aggs;
	int			i;

	appendStringInfo(out, "stream: %s",
					 quote_qualified_identifier(get_namespace_name(get_rel_namespace(query->stream)),
												get_rel_name(query->stream)));
	appendStringInfo(out, "\nevent time: %s", format_type_be(query->event_type));
	appendStringInfoString(out, "\nwindow: ");
	if (query->window.kind == TIDE_WINDOW_NONE)
		appendStringInfoString(out, "none");
	else
		tide_window_describe(&query->window, out);
	if (query->has_joins)
		appendStringInfoString(out, "\njoins: other tables as they are when the batch runs");
	if (query->uses_now)
		appendStringInfoString(out, "\ndepends on when the batch runs: results are not comparable with the query");

	for (i = 0; i < query->nkeys; i++)
	{
		char	   *name = get_output_name(query, TIDE_OUTPUT_KEY(i));

		appendStringInfo(out, "\nkey %d: %s%s%s", i + 1,
						 name ? quote_identifier(name) : "",
						 name ? " " : "",
						 format_type_with_typemod(query->keys[i].type,
												  query->keys[i].typmod));
	}
	for (i = 0; i < aggs->naggs; i++)
	{
		TideAgg    *agg = &aggs->aggs[i];
		TideTrans  *trans = &aggs->trans[agg->transno];
		char	   *name = get_output_name(query, TIDE_OUTPUT_AGG(query, i));

		appendStringInfo(out, "\naggregate %d: %s%s%s%s, ", i + 1,
						 name ? quote_identifier(name) : "",
						 name ? " = " : "",
						 agg->aggref->aggstar ?
						 psprintf("%s(*)", get_func_name(agg->aggref->aggfnoid)) :
						 format_procedure(agg->aggref->aggfnoid),
						 agg->aggref->aggfilter ? " filter" : "");
		if (trans->value_agg == i)
			appendStringInfoString(out, "state is its value");
		else if (trans->value_agg >= 0)
			appendStringInfo(out, "state is the value of aggregate %d",
							 trans->value_agg + 1);
		else
			appendStringInfo(out, "state is %s",
							 format_type_be(trans->stored_type));
	}
	if (query->window.kind == TIDE_WINDOW_NONE)
		appendStringInfoString(out, "\nunbounded: groups without a window are kept for ever");
}

/*
 * The name of the output column that is just this column of storage, or NULL.
 */
static char *
get_output_name(TideQuery *query, AttrNumber attno)
{
	ListCell   *lc;

	foreach(lc, query->output)
	{
		TargetEntry *tle = lfirst_node(TargetEntry, lc);

		if (IsA(tle->expr, Var) && ((Var *) tle->expr)->varattno == attno)
			return tle->resname;
	}
	return NULL;
}
