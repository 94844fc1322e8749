/*
 * aggregate.c
 *		Aggregate states: init, advance, combine, serialise, finalise.
 *
 * The aggregates are PostgreSQL's own, and so is the machinery that calls
 * them: two real Agg nodes, initialised by ExecInitAgg, whose compiled
 * transition expression is run group by group instead of by ExecAgg.  That
 * keeps right what a fabricated AggState gets wrong: privilege checks,
 * AggCheckCallContext and AggGetAggref, temporary contexts, shared states,
 * strictness, FILTER, expanded objects.
 *
 * - the partial node (AGGSPLIT_INITIAL_SERIAL) advances the states of a
 *	 batch's groups;
 * - the combining node (AGGSPLIT_FINAL_DESERIAL) merges such a state with the
 *	 stored one and computes the value.
 *
 * Common transitions are done in line, and other transition functions called
 * directly, when arguments and filters are columns of the input row, which
 * they are.  tidemark.fast_path = off runs the compiled expression instead.
 *
 * This is what a parallel aggregate does, with the storage table between the
 * halves: any aggregate that PostgreSQL can run in parallel can be maintained,
 * and a state that is stored is one that PostgreSQL itself would send to
 * another process.
 *
 * States of type internal are stored in the type tidemark.state, which carries
 * a format number and a tag of the aggregate it belongs to, so that a state
 * of something else is refused instead of misread.  Other states are stored in
 * their own type, and not at all when the value is the state.
 *
 * MEMORY: the nodes live in an EState of their own, to tide_aggregate_end.
 * States of a batch's groups are in the partial node's aggregate context, to
 * tide_aggregate_reset.  The combining node's contexts hold what one merge
 * gives, to tide_aggregate_release.
 *
 * SECURITY: ExecInitAgg checks EXECUTE for the current user, so begin as the
 * view's owner.  A crafted state can hang or crash a deserialise function: the
 * type's input functions accept one only from a superuser or the extension's
 * owner, for restores.
 */
#include "postgres.h"

#include "catalog/pg_aggregate.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "common/int.h"
#include "executor/execExpr.h"
#include "executor/executor.h"
#include "executor/nodeAgg.h"
#include "libpq/pqformat.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "nodes/pathnodes.h"
#include "optimizer/planner.h"
#include "optimizer/prep.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/expandeddatum.h"
#include "utils/float.h"
#include "utils/fmgroids.h"
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "aggregate.h"
#include "catalog.h"
#include "guc.h"

/* format of tidemark.state; another one is refused */
#define STATE_FORMAT 1

/* a value of type tidemark.state */
typedef struct State
{
	int32		vl_len_;
	uint32		format;
	uint32		tag;			/* of the aggregate */
	char		data[FLEXIBLE_ARRAY_MEMBER];	/* what the serialise function
												 * gave, without its header */
} State;

/* the plan nodes; TideAggPlan.planned */
typedef struct AggNodes
{
	Agg		   *partial;
	Agg		   *combining;
	uint32	   *tags;			/* per transition state */
	bool	   *copy_state;		/* per transition state: a final function may
								 * write to it */
} AggNodes;

/*
 * A transition that is called without the executor's expression: its
 * arguments and filter are columns of the input row.
 */
typedef enum TransitionKind
{
	TRANSITION_CALL,			/* the transition function, as core calls it */
	TRANSITION_COUNT,			/* count(*) */
	TRANSITION_COUNT_ANY,		/* count(x) */
	TRANSITION_SUM_INT2,		/* into int8 */
	TRANSITION_SUM_INT4,
	TRANSITION_SUM_FLOAT8,
	TRANSITION_MIN_INT4,
	TRANSITION_MAX_INT4,
	TRANSITION_MIN_INT8,		/* timestamps, too */
	TRANSITION_MAX_INT8
} TransitionKind;

typedef struct Transition
{
	TransitionKind kind;
	AggStatePerTrans pertrans;
	int			filter;			/* column of the input row from 0, or -1 */
	int			nargs;
	int		   *args;			/* columns from 0 */
} Transition;

struct TideAggExec
{
	TideAggPlan *plan;
	AggNodes   *nodes;
	EState	   *estate;
	AggState   *partial;
	AggState   *combining;
	Transition *transitions;	/* per transition state, or NULL: general */
	Oid		   *combine_in_line;	/* combine functions that are done in line */
	int			natts_used;		/* columns of the input row they need */
	TupleTableSlot *input_slot; /* input rows that are not virtual */
	TupleTableSlot *state_slot; /* input of the combining node */
	AggStatePerGroup merged;	/* the group being merged */
};

static Transition *make_transitions(TideAggExec *exec);
static void advance_directly(TideAggExec *exec, AggStatePerGroup group,
							 TupleTableSlot *input);
static Form_pg_aggregate read_aggregate(Oid aggfnoid, HeapTuple *tuple);
static Agg *make_agg_node(List *aggrefs, AggSplit split, List *types,
						  List *typmods, List *collations);
static void merge_directly(TideAggExec *exec, AggStatePerGroup group,
						   const Datum *stored, const bool *stored_nulls);
static void combine_state(TideAggExec *exec, const Datum *states,
						  const bool *nulls);
static void finalize_value(AggState *aggstate, AggStatePerAgg peragg,
						   AggStatePerGroup group, Datum *value, bool *isnull);
static void serialize_state(TideAggExec *exec, int transno,
							AggStatePerGroup group, Datum *state,
							bool *isnull);

PG_FUNCTION_INFO_V1(tide_state_in);
PG_FUNCTION_INFO_V1(tide_state_out);
PG_FUNCTION_INFO_V1(tide_state_recv);
PG_FUNCTION_INFO_V1(tide_state_send);

/* --------------------------------------------------------------------------
 * Planning
 * --------------------------------------------------------------------------
 */

/* The type tidemark.state. */
Oid
tide_aggregate_state_type(void)
{
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
						   CStringGetDatum("state"),
						   ObjectIdGetDatum(tide_catalog_schema()));
}

/*
 * Why an aggregate cannot be maintained, as an errdetail sentence; NULL when
 * it can.  What the call adds (ORDER BY, DISTINCT) is the caller's business.
 */
char *
tide_aggregate_unsupported(Aggref *aggref)
{
	HeapTuple	tuple;
	Form_pg_aggregate form = read_aggregate(aggref->aggfnoid, &tuple);
	char	   *name = format_procedure(aggref->aggfnoid);
	char	   *reason = NULL;

	if (!OidIsValid(form->aggcombinefn))
		reason = psprintf(_("Aggregate %s has no combine function, so results of different batches cannot be merged."),
						  name);
	else if (form->aggtranstype == INTERNALOID &&
			 (!OidIsValid(form->aggserialfn) ||
			  !OidIsValid(form->aggdeserialfn)))
		reason = psprintf(_("Aggregate %s has an internal state without serialize and deserialize functions, so its state cannot be stored."),
						  name);
	ReleaseSysCache(tuple);

	return reason;
}

/* The pg_aggregate row; the caller releases the tuple. */
static Form_pg_aggregate
read_aggregate(Oid aggfnoid, HeapTuple *tuple)
{
	*tuple = SearchSysCache1(AGGFNOID, ObjectIdGetDatum(aggfnoid));
	if (!HeapTupleIsValid(*tuple))
		elog(ERROR, "cache lookup failed for aggregate %u", aggfnoid);

	return (Form_pg_aggregate) GETSTRUCT(*tuple);
}

/*
 * The aggregate's name and argument types without schemas, which a user may
 * change.
 */
static char *
describe_signature(Aggref *aggref)
{
	StringInfoData out;
	ListCell   *lc;

	initStringInfo(&out);
	appendStringInfo(&out, "%s(", get_func_name(aggref->aggfnoid));
	foreach(lc, aggref->aggargtypes)
	{
		HeapTuple	tuple = SearchSysCache1(TYPEOID,
											ObjectIdGetDatum(lfirst_oid(lc)));

		if (!HeapTupleIsValid(tuple))
			elog(ERROR, "cache lookup failed for type %u", lfirst_oid(lc));
		appendStringInfo(&out, "%s,",
						 NameStr(((Form_pg_type) GETSTRUCT(tuple))->typname));
		ReleaseSysCache(tuple);
	}
	appendStringInfoChar(&out, ')');

	return out.data;
}

/*
 * Fill the description of an aggregate and of its transition state, of which
 * it may be the first user or a further one.
 */
static void
describe_aggregate(TideAggPlan *plan, AggNodes *nodes, int aggno,
				   Aggref *aggref)
{
	TideAgg    *agg = &plan->aggs[aggno];
	TideTrans  *trans = &plan->trans[aggref->aggtransno];
	bool		is_internal = aggref->aggtranstype == INTERNALOID;
	HeapTuple	tuple;
	Form_pg_aggregate form = read_aggregate(aggref->aggfnoid, &tuple);
	char	   *signature;

	agg->aggref = aggref;
	agg->type = aggref->aggtype;
	agg->typmod = exprTypmod((Node *) aggref);
	agg->collation = aggref->aggcollid;
	agg->transno = aggref->aggtransno;

	if (!OidIsValid(trans->type))
	{
		trans->type = aggref->aggtranstype;
		trans->stored_type = is_internal ?
			tide_aggregate_state_type() : aggref->aggtranstype;
		trans->value_agg = -1;
		signature = describe_signature(aggref);
		nodes->tags[agg->transno] =
			DatumGetUInt32(hash_any((unsigned char *) signature,
									strlen(signature)));
	}
	if (!OidIsValid(form->aggfinalfn) && trans->type == agg->type &&
		trans->value_agg < 0)
		trans->value_agg = aggno;
	if (form->aggfinalmodify != AGGMODIFY_READ_ONLY)
		nodes->copy_state[agg->transno] = true;
	ReleaseSysCache(tuple);
}

/*
 * Plan the aggregates of a view.  The Aggrefs' arguments are Vars (1, n) of
 * an input row with the given column types; equal Aggrefs share an entry only
 * if the caller passes them once.  The result is in the current context.
 */
TideAggPlan *
tide_aggregate_plan(List *aggrefs, List *input_types, List *input_typmods,
					List *input_collations)
{
	TideAggPlan *plan = palloc0(sizeof(TideAggPlan));
	AggNodes   *nodes = palloc0(sizeof(AggNodes));
	PlannerInfo *root = makeNode(PlannerInfo);
	List	   *types = NIL;
	List	   *typmods = NIL;
	List	   *collations = NIL;
	int			transno;
	int			aggno = 0;
	ListCell   *lc;

	plan->planned = nodes;
	plan->naggs = list_length(aggrefs);
	if (plan->naggs == 0)
		return plan;

	/* core finds out which aggregates can share a transition state */
	root->parse = makeNode(Query);
	aggrefs = copyObject(aggrefs);
	preprocess_aggrefs(root, (Node *) aggrefs);
	foreach(lc, aggrefs)
		plan->ntrans = Max(plan->ntrans,
						   lfirst_node(Aggref, lc)->aggtransno + 1);

	plan->aggs = palloc0(sizeof(TideAgg) * plan->naggs);
	plan->trans = palloc0(sizeof(TideTrans) * plan->ntrans);
	nodes->tags = palloc0(sizeof(uint32) * plan->ntrans);
	nodes->copy_state = palloc0(sizeof(bool) * plan->ntrans);
	foreach(lc, aggrefs)
	{
		describe_aggregate(plan, nodes, aggno, lfirst_node(Aggref, lc));
		aggno++;
	}

	nodes->partial = make_agg_node(aggrefs, AGGSPLIT_INITIAL_SERIAL,
								   input_types, input_typmods,
								   input_collations);

	for (transno = 0; transno < plan->ntrans; transno++)
	{
		Oid			type = plan->trans[transno].type;

		types = lappend_oid(types, type == INTERNALOID ? BYTEAOID : type);
		typmods = lappend_int(typmods, -1);
		collations = lappend_oid(collations, get_typcollation(type));
	}
	nodes->combining = make_agg_node(aggrefs, AGGSPLIT_FINAL_DESERIAL,
									 types, typmods, collations);

	return plan;
}

/* Mutator: let the Vars of an input row be those of the outer plan. */
static Node *
make_vars_outer(Node *node, void *context)
{
	if (node == NULL)
		return NULL;
	if (IsA(node, Var))
	{
		Var		   *var = copyObject((Var *) node);

		Assert(var->varno == 1 && var->varlevelsup == 0);
		var->varno = OUTER_VAR;
		return (Node *) var;
	}

	return expression_tree_mutator(node, make_vars_outer, context);
}

/*
 * One Agg node over all rows, whose input has the given columns.  A combining
 * node's aggregates get the column of their transition state as argument.
 */
static Agg *
make_agg_node(List *aggrefs, AggSplit split, List *types, List *typmods,
			  List *collations)
{
	Agg		   *agg = makeNode(Agg);
	Result	   *input = makeNode(Result);
	AttrNumber	resno = 1;
	ListCell   *lc;
	ListCell   *lc2;
	ListCell   *lc3;

	/* never run: it only says what the input rows look like */
	forthree(lc, types, lc2, typmods, lc3, collations)
	{
		Const	   *null = makeNullConst(lfirst_oid(lc), lfirst_int(lc2),
										 lfirst_oid(lc3));

		input->plan.targetlist = lappend(input->plan.targetlist,
										 makeTargetEntry((Expr *) null,
														 resno++, NULL,
														 false));
	}

	resno = 1;
	foreach(lc, aggrefs)
	{
		Aggref	   *aggref;

		aggref = (Aggref *) make_vars_outer(lfirst(lc), NULL);
		if (DO_AGGSPLIT_COMBINE(split))
		{
			AttrNumber	attno = aggref->aggtransno + 1;
			Var		   *state = makeVar(OUTER_VAR, attno,
										list_nth_oid(types, attno - 1), -1,
										list_nth_oid(collations, attno - 1),
										0);

			aggref->args = list_make1(makeTargetEntry((Expr *) state, 1, NULL,
													  false));
			aggref->aggfilter = NULL;
		}
		mark_partial_aggref(aggref, split);
		agg->plan.targetlist = lappend(agg->plan.targetlist,
									   makeTargetEntry((Expr *) aggref,
													   resno++, NULL, false));
	}

	agg->aggstrategy = AGG_PLAIN;
	agg->aggsplit = split;
	agg->numGroups = 1;
	agg->plan.lefttree = (Plan *) input;

	return agg;
}

/* --------------------------------------------------------------------------
 * Running
 * --------------------------------------------------------------------------
 */

/*
 * Make the aggregates ready to run, as the current user.  Needs an active
 * snapshot.  An error leaves nothing that the end of the transaction does not
 * clean up.
 */
TideAggExec *
tide_aggregate_begin(TideAggPlan *plan)
{
	TideAggExec *exec = palloc0(sizeof(TideAggExec));
	AggNodes   *nodes = plan->planned;
	MemoryContext old_context;
	TupleDesc	desc;
	int			no_flags = 0;

	exec->plan = plan;
	exec->nodes = nodes;
	if (plan->naggs == 0)
		return exec;

	exec->estate = CreateExecutorState();
	exec->estate->es_snapshot = GetActiveSnapshot();
	old_context = MemoryContextSwitchTo(exec->estate->es_query_cxt);

	exec->partial = castNode(AggState,
							 ExecInitNode((Plan *) nodes->partial,
										  exec->estate, no_flags));
	exec->combining = castNode(AggState,
							   ExecInitNode((Plan *) nodes->combining,
											exec->estate, no_flags));

	desc = ExecGetResultType(outerPlanState(exec->partial));
	exec->input_slot = MakeTupleTableSlot(desc, &TTSOpsVirtual);
	desc = ExecGetResultType(outerPlanState(exec->combining));
	exec->state_slot = MakeTupleTableSlot(desc, &TTSOpsVirtual);
	exec->merged = palloc0(tide_aggregate_group_size(exec));
	if (tide_fast_path)
		exec->transitions = make_transitions(exec);

	MemoryContextSwitchTo(old_context);

	return exec;
}

/* Shut the nodes down. */
void
tide_aggregate_end(TideAggExec *exec)
{
	if (exec->estate != NULL)
	{
		ExecEndNode((PlanState *) exec->partial);
		ExecEndNode((PlanState *) exec->combining);
		FreeExecutorState(exec->estate);
	}
	pfree(exec);
}

/* Bytes of the states of one group; what they point to is counted apart. */
Size
tide_aggregate_group_size(TideAggExec *exec)
{
	return sizeof(AggStatePerGroupData) * Max(exec->plan->ntrans, 1);
}

/* The column of the input row that an argument or filter is, from 0; or -1. */
static int
input_column(Node *node)
{
	return IsA(node, Var) ? ((Var *) node)->varattno - 1 : -1;
}

/* Which transition functions are done in line. */
static TransitionKind
classify_transition(Oid transfn)
{
#ifndef USE_FLOAT8_BYVAL
	return TRANSITION_CALL;
#endif
	switch (transfn)
	{
		case F_INT8INC:
			return TRANSITION_COUNT;
		case F_INT8INC_ANY:
			return TRANSITION_COUNT_ANY;
		case F_INT2_SUM:
			return TRANSITION_SUM_INT2;
		case F_INT4_SUM:
			return TRANSITION_SUM_INT4;
		case F_FLOAT8PL:
			return TRANSITION_SUM_FLOAT8;
		case F_INT4SMALLER:
			return TRANSITION_MIN_INT4;
		case F_INT4LARGER:
			return TRANSITION_MAX_INT4;
		case F_INT8SMALLER:
		case F_TIMESTAMP_SMALLER:
		case F_TIMESTAMPTZ_SMALLER:
			return TRANSITION_MIN_INT8;
		case F_INT8LARGER:
		case F_TIMESTAMP_LARGER:
		case F_TIMESTAMPTZ_LARGER:
			return TRANSITION_MAX_INT8;
		default:
			return TRANSITION_CALL;
	}
}

/*
 * The combine function that a transition function done in line has in
 * PostgreSQL's own aggregates; a user's aggregate may have another one.
 */
static Oid
expected_combine(TransitionKind kind, Oid transfn)
{
	switch (kind)
	{
		case TRANSITION_CALL:
			return InvalidOid;
		case TRANSITION_COUNT:
		case TRANSITION_COUNT_ANY:
		case TRANSITION_SUM_INT2:
		case TRANSITION_SUM_INT4:
			return F_INT8PL;
		default:
			return transfn;
	}
}

/*
 * How to advance each state directly, in the current context; NULL when an
 * argument is something else than a column.
 */
static Transition *
make_transitions(TideAggExec *exec)
{
	int			ntrans = exec->plan->ntrans;
	Transition *transitions = palloc0(sizeof(Transition) * ntrans);
	int			transno;
	ListCell   *lc;

	exec->combine_in_line = palloc0(sizeof(Oid) * ntrans);
	for (transno = 0; transno < ntrans; transno++)
	{
		AggStatePerTrans pertrans = &exec->partial->pertrans[transno];
		Aggref	   *aggref = pertrans->aggref;
		Transition *transition = &transitions[transno];

		if (pertrans->numSortCols > 0 || aggref->aggdirectargs != NIL ||
			pertrans->numTransInputs != list_length(aggref->args))
			return NULL;
		transition->pertrans = pertrans;
		transition->kind = classify_transition(pertrans->transfn_oid);
		exec->combine_in_line[transno] = expected_combine(transition->kind,
														  pertrans->transfn_oid);
		transition->filter = aggref->aggfilter == NULL ? -1 :
			input_column((Node *) aggref->aggfilter);
		if (aggref->aggfilter != NULL && transition->filter < 0)
			return NULL;
		exec->natts_used = Max(exec->natts_used, transition->filter + 1);
		transition->nargs = list_length(aggref->args);
		transition->args = palloc(sizeof(int) * Max(transition->nargs, 1));
		foreach(lc, aggref->args)
		{
			TargetEntry *entry = lfirst_node(TargetEntry, lc);
			int			column = input_column((Node *) entry->expr);

			if (column < 0)
				return NULL;
			transition->args[foreach_current_index(lc)] = column;
			exec->natts_used = Max(exec->natts_used, column + 1);
		}
	}

	return transitions;
}

/*
 * Call the transition function of a node, or its combine function, with the
 * arguments in its fcinfo from 1, as the executor does it: a strict one is not
 * called with NULL, and the first value may be the first state; a state by
 * reference belongs to the aggregate context.
 */
static void
call_function(AggState *aggstate, AggStatePerTrans pertrans, int nargs,
			  AggStatePerGroup state)
{
	FunctionCallInfo fcinfo = pertrans->transfn_fcinfo;
	MemoryContext old_context;
	Datum		value;
	int			i;

	if (pertrans->transfn.fn_strict)
	{
		for (i = 1; i <= nargs; i++)
			if (fcinfo->args[i].isnull)
				return;
		if (state->noTransValue)
		{
			old_context =
				MemoryContextSwitchTo(aggstate->aggcontexts[0]->ecxt_per_tuple_memory);
			state->transValue = datumCopy(fcinfo->args[1].value,
										  pertrans->transtypeByVal,
										  pertrans->transtypeLen);
			state->transValueIsNull = false;
			state->noTransValue = false;
			MemoryContextSwitchTo(old_context);
			return;
		}
		if (state->transValueIsNull)
			return;
	}

	aggstate->curaggcontext = aggstate->aggcontexts[0];
	aggstate->current_set = 0;
	aggstate->curpertrans = pertrans;
	fcinfo->args[0].value = state->transValue;
	fcinfo->args[0].isnull = state->transValueIsNull;
	fcinfo->isnull = false;
	old_context =
		MemoryContextSwitchTo(aggstate->tmpcontext->ecxt_per_tuple_memory);
	value = FunctionCallInvoke(fcinfo);
	if (!pertrans->transtypeByVal &&
		DatumGetPointer(value) != DatumGetPointer(state->transValue))
		value = TIDE_COPY_TRANS_VALUE(aggstate, pertrans, value,
									  fcinfo->isnull, state->transValue,
									  state->transValueIsNull);
	state->transValue = value;
	state->transValueIsNull = fcinfo->isnull;
	MemoryContextSwitchTo(old_context);
}

/* Call a transition function with the columns of an input row. */
static void
call_transition(AggState *aggstate, Transition *transition,
				AggStatePerGroup state, TupleTableSlot *input)
{
	NullableDatum *args = transition->pertrans->transfn_fcinfo->args;
	int			i;

	for (i = 0; i < transition->nargs; i++)
	{
		args[i + 1].value = input->tts_values[transition->args[i]];
		args[i + 1].isnull = input->tts_isnull[transition->args[i]];
	}
	call_function(aggstate, transition->pertrans, transition->nargs, state);
}

/* Keep the smaller, or the larger, of two numbers, or the first one. */
static inline void
keep_extreme(AggStatePerGroup state, Datum value, bool is_better)
{
	if (state->noTransValue || is_better)
		state->transValue = value;
	state->transValueIsNull = false;
	state->noTransValue = false;
}

/*
 * Advance one state in line.  The first argument is not NULL.  What the
 * function would check it checks.
 */
static inline void
advance_in_line(TransitionKind kind, AggStatePerGroup state, Datum value)
{
	int64		count;
	float8		sum;

	switch (kind)
	{
		case TRANSITION_COUNT:
		case TRANSITION_COUNT_ANY:
			if (pg_add_s64_overflow(DatumGetInt64(state->transValue), 1,
									&count))
				ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						 errmsg("bigint out of range")));
			state->transValue = Int64GetDatum(count);
			break;
		case TRANSITION_SUM_INT2:
		case TRANSITION_SUM_INT4:
			/* as int4_sum: cannot overflow with less than 2^32 rows */
			count = kind == TRANSITION_SUM_INT2 ?
				(int64) DatumGetInt16(value) : (int64) DatumGetInt32(value);
			if (!state->transValueIsNull)
				count += DatumGetInt64(state->transValue);
			state->transValue = Int64GetDatum(count);
			state->transValueIsNull = false;
			state->noTransValue = false;
			break;
		case TRANSITION_SUM_FLOAT8:
			sum = state->noTransValue ? DatumGetFloat8(value) :
				float8_pl(DatumGetFloat8(state->transValue),
						  DatumGetFloat8(value));
			keep_extreme(state, Float8GetDatum(sum), true);
			break;
		case TRANSITION_MIN_INT4:
			keep_extreme(state, value, DatumGetInt32(value) <
						 DatumGetInt32(state->transValue));
			break;
		case TRANSITION_MAX_INT4:
			keep_extreme(state, value, DatumGetInt32(value) >
						 DatumGetInt32(state->transValue));
			break;
		case TRANSITION_MIN_INT8:
			keep_extreme(state, value, DatumGetInt64(value) <
						 DatumGetInt64(state->transValue));
			break;
		case TRANSITION_MAX_INT8:
			keep_extreme(state, value, DatumGetInt64(value) >
						 DatumGetInt64(state->transValue));
			break;
		case TRANSITION_CALL:
			Assert(false);
	}
}

/* Advance all states of a group without the executor's expression. */
static void
advance_directly(TideAggExec *exec, AggStatePerGroup group,
				 TupleTableSlot *input)
{
	int			ntrans = exec->plan->ntrans;
	bool		has_called = false;
	int			i;

	slot_getsomeattrs(input, exec->natts_used);
	for (i = 0; i < ntrans; i++)
	{
		Transition *transition = &exec->transitions[i];
		int			filter = transition->filter;
		int			arg = transition->nargs > 0 ? transition->args[0] : -1;

		if (filter >= 0 && (input->tts_isnull[filter] ||
							!DatumGetBool(input->tts_values[filter])))
			continue;
		if (transition->kind == TRANSITION_CALL)
		{
			call_transition(exec->partial, transition, &group[i], input);
			has_called = true;
		}
		else if (arg < 0)
			advance_in_line(transition->kind, &group[i], (Datum) 0);
		else if (!input->tts_isnull[arg])
			advance_in_line(transition->kind, &group[i],
							input->tts_values[arg]);
	}
	if (has_called)
		ResetExprContext(exec->partial->tmpcontext);
}

/* Set the states of a group to their initial values. */
static void
init_group(AggState *aggstate, int ntrans, AggStatePerGroup group)
{
	MemoryContext old_context;
	int			transno;

	old_context =
		MemoryContextSwitchTo(aggstate->aggcontexts[0]->ecxt_per_tuple_memory);
	for (transno = 0; transno < ntrans; transno++)
	{
		AggStatePerTrans pertrans = &aggstate->pertrans[transno];
		AggStatePerGroup state = &group[transno];

		/* by reference: the transition function may pfree it */
		state->transValue = pertrans->initValueIsNull ? (Datum) 0 :
			datumCopy(pertrans->initValue, pertrans->transtypeByVal,
					  pertrans->transtypeLen);
		state->transValueIsNull = pertrans->initValueIsNull;
		state->noTransValue = pertrans->initValueIsNull;
	}
	MemoryContextSwitchTo(old_context);
}

/* Set the states of a new group of the batch. */
void
tide_aggregate_init(TideAggExec *exec, AggStatePerGroup group)
{
	if (exec->partial != NULL)
		init_group(exec->partial, exec->plan->ntrans, group);
}

/* Run the compiled transitions of a node for one row and one group. */
static void
advance_group(AggState *aggstate, AggStatePerGroup group, TupleTableSlot *slot)
{
	ExprContext *context = aggstate->tmpcontext;
	bool		isnull;

	aggstate->all_pergroups[0] = group;
	context->ecxt_outertuple = slot;
	(void) ExecEvalExprSwitchContext(aggstate->phase->evaltrans, context,
									 &isnull);
	ResetExprContext(context);
}

/* Advance the states of a group by one input row. */
void
tide_aggregate_advance(TideAggExec *exec, AggStatePerGroup group,
					   TupleTableSlot *input)
{
	if (exec->partial == NULL)
		return;

	if (exec->transitions != NULL)
	{
		advance_directly(exec, group, input);
		return;
	}

	/* the transitions were compiled for virtual tuples */
	if (input->tts_ops != &TTSOpsVirtual)
		input = ExecCopySlot(exec->input_slot, input);
	advance_group(exec->partial, group, input);
}

/* Bytes that the states of the batch's groups point to. */
Size
tide_aggregate_memory(TideAggExec *exec)
{
	bool		recurse = true;

	if (exec->partial == NULL)
		return 0;

	return MemoryContextMemAllocated(exec->partial->aggcontexts[0]->ecxt_per_tuple_memory,
									 recurse);
}

/* Forget the states of all groups of the batch; callbacks are called. */
void
tide_aggregate_reset(TideAggExec *exec)
{
	if (exec->partial != NULL)
		ReScanExprContext(exec->partial->aggcontexts[0]);
}

/*
 * Merge a group's states with the stored ones, which may be NULL as a whole,
 * and give the values and states to store.
 *
 * As in a parallel aggregate, the states are combined one after the other
 * into an initial state.  The first state of a group is left alone: an
 * aggregate over no rows need not be what its combine function makes of that.
 */
void
tide_aggregate_merge(TideAggExec *exec, AggStatePerGroup group,
					 const Datum *stored, const bool *stored_nulls,
					 Datum *values, bool *value_nulls,
					 Datum *states, bool *state_nulls)
{
	int			ntrans = exec->plan->ntrans;
	int			transno;
	int			aggno;

	if (exec->combining == NULL)
		return;

	/* where nothing is stored there is nothing to combine */
	if (stored == NULL)
		memcpy(exec->merged, group, sizeof(AggStatePerGroupData) * ntrans);
	else if (exec->transitions != NULL)
		merge_directly(exec, group, stored, stored_nulls);
	else
	{
		init_group(exec->combining, ntrans, exec->merged);
		combine_state(exec, stored, stored_nulls);
		for (transno = 0; transno < ntrans; transno++)
			serialize_state(exec, transno, group, &states[transno],
							&state_nulls[transno]);
		combine_state(exec, states, state_nulls);
	}

	/*
	 * Combine functions of two NULLs give a NULL pointer that is not marked as
	 * NULL; serialise functions, never called with it by PostgreSQL, crash.
	 */
	for (transno = 0; transno < ntrans; transno++)
	{
		if (exec->plan->trans[transno].type == INTERNALOID &&
			exec->merged[transno].transValue == (Datum) 0)
			exec->merged[transno].transValueIsNull = true;
	}

	/* serialise first: a final function may write to the state */
	for (transno = 0; transno < ntrans; transno++)
		serialize_state(exec, transno, exec->merged, &states[transno],
						&state_nulls[transno]);
	for (aggno = 0; aggno < exec->plan->naggs; aggno++)
	{
		Aggref	   *aggref = exec->plan->aggs[aggno].aggref;
		AggStatePerAgg peragg = &exec->combining->peragg[aggref->aggno];

		finalize_value(exec->combining, peragg,
					   &exec->merged[peragg->transno],
					   &values[aggno], &value_nulls[aggno]);
	}
}

/* Let go of what the last merge gave. */
void
tide_aggregate_release(TideAggExec *exec)
{
	if (exec->combining == NULL)
		return;
	ReScanExprContext(exec->combining->aggcontexts[0]);
	ResetExprContext(exec->combining->ss.ps.ps_ExprContext);
}

/* The payload of a stored state, as the bytea that deserialise expects. */
static Datum
unwrap_state(TideAggExec *exec, int transno, Datum stored)
{
	State	   *state = (State *) PG_DETOAST_DATUM(stored);
	Size		size = VARSIZE(state);
	bytea	   *payload;

	if (size < offsetof(State, data) || state->format != STATE_FORMAT ||
		state->tag != exec->nodes->tags[transno])
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("stored state does not belong to aggregate %s",
						format_procedure(exec->combining->pertrans[transno].aggref->aggfnoid)),
				 errhint("The storage table was written by something else than tidemark.")));

	payload = palloc(size - offsetof(State, data) + VARHDRSZ);
	SET_VARSIZE(payload, size - offsetof(State, data) + VARHDRSZ);
	memcpy(VARDATA(payload), state->data, size - offsetof(State, data));

	return PointerGetDatum(payload);
}

/* The serialised state in the form in which it is stored. */
static Datum
wrap_state(TideAggExec *exec, int transno, Datum serialized)
{
	bytea	   *payload = DatumGetByteaPP(serialized);
	Size		length = VARSIZE_ANY_EXHDR(payload);
	State	   *state = palloc(offsetof(State, data) + length);

	SET_VARSIZE(state, offsetof(State, data) + length);
	state->format = STATE_FORMAT;
	state->tag = exec->nodes->tags[transno];
	memcpy(state->data, VARDATA_ANY(payload), length);

	return PointerGetDatum(state);
}

/* The state in memory of a stored one, in the current context. */
static Datum
read_state(TideAggExec *exec, int transno, Datum stored)
{
	AggStatePerTrans pertrans = &exec->combining->pertrans[transno];
	FunctionCallInfo fcinfo = pertrans->deserialfn_fcinfo;

	if (!OidIsValid(pertrans->deserialfn_oid))
		return stored;
	fcinfo->args[0].value = unwrap_state(exec, transno, stored);
	fcinfo->args[0].isnull = false;
	fcinfo->isnull = false;

	return FunctionCallInvoke(fcinfo);
}

/* Combine two states of a kind that is done in line; neither is NULL. */
static void
combine_in_line(TransitionKind kind, AggStatePerGroup state, Datum other)
{
	int64		sum;

	switch (kind)
	{
		case TRANSITION_COUNT:
		case TRANSITION_COUNT_ANY:
		case TRANSITION_SUM_INT2:
		case TRANSITION_SUM_INT4:
			if (pg_add_s64_overflow(DatumGetInt64(state->transValue),
									DatumGetInt64(other), &sum))
				ereport(ERROR,
						(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
						 errmsg("bigint out of range")));
			state->transValue = Int64GetDatum(sum);
			break;
		default:
			/* the state is of the type of the argument */
			advance_in_line(kind, state, other);
	}
}

/*
 * Merge without the executor's expression, into exec->merged.  A state of the
 * batch is combined as it is in memory.
 */
static void
merge_directly(TideAggExec *exec, AggStatePerGroup group, const Datum *stored,
			   const bool *stored_nulls)
{
	int			ntrans = exec->plan->ntrans;
	AggState   *aggstate = exec->combining;
	int			transno;

	init_group(aggstate, ntrans, exec->merged);
	for (transno = 0; transno < ntrans; transno++)
	{
		AggStatePerTrans pertrans = &aggstate->pertrans[transno];
		AggStatePerGroup merged = &exec->merged[transno];
		AggStatePerGroup added = &group[transno];
		TransitionKind kind = exec->transitions[transno].kind;
		NullableDatum *arg = &pertrans->transfn_fcinfo->args[1];
		MemoryContext old_context;

		if (kind != TRANSITION_CALL && pertrans->transfn_oid ==
			exec->combine_in_line[transno])
		{
			if (stored_nulls[transno])
				*merged = *added;
			else
			{
				merged->transValue = stored[transno];
				merged->transValueIsNull = false;
				merged->noTransValue = false;
				if (!added->transValueIsNull)
					combine_in_line(kind, merged, added->transValue);
			}
			continue;
		}

		old_context =
			MemoryContextSwitchTo(aggstate->tmpcontext->ecxt_per_tuple_memory);
		arg->isnull = stored_nulls[transno];
		arg->value = arg->isnull ? (Datum) 0 :
			read_state(exec, transno, stored[transno]);
		MemoryContextSwitchTo(old_context);
		call_function(aggstate, pertrans, 1, merged);

		arg->isnull = added->transValueIsNull;
		arg->value = MakeExpandedObjectReadOnly(added->transValue,
												added->transValueIsNull,
												pertrans->transtypeLen);
		call_function(aggstate, pertrans, 1, merged);
	}
	ResetExprContext(aggstate->tmpcontext);
}

/* Combine states, in their stored form, into the group being merged. */
static void
combine_state(TideAggExec *exec, const Datum *states, const bool *nulls)
{
	TupleTableSlot *slot = exec->state_slot;
	ExprContext *context = exec->combining->ss.ps.ps_ExprContext;
	MemoryContext old_context;
	int			transno;

	old_context = MemoryContextSwitchTo(context->ecxt_per_tuple_memory);
	ExecClearTuple(slot);
	for (transno = 0; transno < exec->plan->ntrans; transno++)
	{
		bool		is_internal = exec->plan->trans[transno].type == INTERNALOID;

		slot->tts_isnull[transno] = nulls[transno];
		if (nulls[transno])
			slot->tts_values[transno] = (Datum) 0;
		else if (is_internal)
			slot->tts_values[transno] = unwrap_state(exec, transno,
													 states[transno]);
		else
			slot->tts_values[transno] = states[transno];
	}
	ExecStoreVirtualTuple(slot);
	MemoryContextSwitchTo(old_context);

	advance_group(exec->combining, exec->merged, slot);
}

/*
 * The stored form of a state, until tide_aggregate_release.  The partial node
 * has the serialise functions; both nodes number the states alike.
 */
static void
serialize_state(TideAggExec *exec, int transno, AggStatePerGroup group,
				Datum *state, bool *isnull)
{
	AggStatePerTrans pertrans = &exec->partial->pertrans[transno];
	AggStatePerGroup pergroup = &group[transno];
	ExprContext *context = exec->combining->ss.ps.ps_ExprContext;
	MemoryContext old_context;
	Datum		value;

	old_context = MemoryContextSwitchTo(context->ecxt_per_tuple_memory);
	value = MakeExpandedObjectReadOnly(pergroup->transValue,
									   pergroup->transValueIsNull,
									   pertrans->transtypeLen);
	*isnull = pergroup->transValueIsNull;
	if (OidIsValid(pertrans->serialfn_oid))
	{
		FunctionCallInfo fcinfo = pertrans->serialfn_fcinfo;

		if (!(*isnull && pertrans->serialfn.fn_strict))
		{
			fcinfo->args[0].value = value;
			fcinfo->args[0].isnull = *isnull;
			fcinfo->isnull = false;
			value = FunctionCallInvoke(fcinfo);
			*isnull = fcinfo->isnull;
		}
		if (!*isnull)
			value = wrap_state(exec, transno, value);
	}
	else if (!*isnull && exec->nodes->copy_state[transno])
		value = datumCopy(value, pertrans->transtypeByVal,
						  pertrans->transtypeLen);
	*state = *isnull ? (Datum) 0 : value;
	MemoryContextSwitchTo(old_context);
}

/*
 * The value of an aggregate from its state, until tide_aggregate_release; as
 * the executor does it for aggregates without direct arguments.
 */
static void
finalize_value(AggState *aggstate, AggStatePerAgg peragg,
			   AggStatePerGroup group, Datum *value, bool *isnull)
{
	LOCAL_FCINFO(fcinfo, FUNC_MAX_ARGS);
	AggStatePerTrans pertrans = &aggstate->pertrans[peragg->transno];
	ExprContext *context = aggstate->ss.ps.ps_ExprContext;
	MemoryContext old_context;
	bool		has_null = group->transValueIsNull;
	int			i;

	if (!OidIsValid(peragg->finalfn_oid))
	{
		*value = group->transValue;
		*isnull = group->transValueIsNull;
		return;
	}

	old_context = MemoryContextSwitchTo(context->ecxt_per_tuple_memory);
	aggstate->curperagg = peragg;	/* for AggGetAggref */
	InitFunctionCallInfoData(*fcinfo, &peragg->finalfn, peragg->numFinalArgs,
							 pertrans->aggCollation, (void *) aggstate, NULL);
	fcinfo->args[0].value =
		MakeExpandedObjectReadOnly(group->transValue, group->transValueIsNull,
								   pertrans->transtypeLen);
	fcinfo->args[0].isnull = group->transValueIsNull;

	/* polymorphic final functions get NULLs of the argument types */
	for (i = 1; i < peragg->numFinalArgs; i++)
	{
		fcinfo->args[i].value = (Datum) 0;
		fcinfo->args[i].isnull = true;
		has_null = true;
	}

	if (fcinfo->flinfo->fn_strict && has_null)
	{
		*value = (Datum) 0;
		*isnull = true;
	}
	else
	{
		*value = FunctionCallInvoke(fcinfo);
		*isnull = fcinfo->isnull;
	}
	aggstate->curperagg = NULL;
	MemoryContextSwitchTo(old_context);
}

/* --------------------------------------------------------------------------
 * The type tidemark.state: a bytea that only a restore may bring in
 * --------------------------------------------------------------------------
 */

/* Refuse states from anybody's hand but a restore's. */
static void
check_may_input_state(void)
{
	if (!superuser() && GetUserId() != tide_catalog_owner())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("permission denied to input a value of type %s",
						"tidemark.state"),
				 errdetail("Only superusers and the owner of the extension may restore aggregate states.")));
}

/* Input function: bytea's text form. */
Datum
tide_state_in(PG_FUNCTION_ARGS)
{
	check_may_input_state();
	return byteain(fcinfo);
}

/* Output function: bytea's text form. */
Datum
tide_state_out(PG_FUNCTION_ARGS)
{
	return byteaout(fcinfo);
}

/* Binary input function. */
Datum
tide_state_recv(PG_FUNCTION_ARGS)
{
	check_may_input_state();
	return bytearecv(fcinfo);
}

/* Binary output function. */
Datum
tide_state_send(PG_FUNCTION_ARGS)
{
	return byteasend(fcinfo);
}
