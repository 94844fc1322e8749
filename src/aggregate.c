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
#include "utils/fmgrprotos.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/regproc.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "aggregate.h"
#include "catalog.h"

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

struct TideAggExec
{
	TideAggPlan *plan;
	AggNodes   *nodes;
	EState	   *estate;
	AggState   *partial;
	AggState   *combining;
	TupleTableSlot *input_slot; /* input rows that are not virtual */
	TupleTableSlot *state_slot; /* input of the combining node */
	AggStatePerGroup merged;	/* the group being merged */
};

static Form_pg_aggregate read_aggregate(Oid aggfnoid, HeapTuple *tuple);
static Agg *make_agg_node(List *aggrefs, AggSplit split, List *types,
						  List *typmods, List *collations);
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
		signature = format_procedure_qualified(aggref->aggfnoid);
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
 * into an initial state.
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

	init_group(exec->combining, ntrans, exec->merged);
	if (stored != NULL)
		combine_state(exec, stored, stored_nulls);
	for (transno = 0; transno < ntrans; transno++)
		serialize_state(exec, transno, group, &states[transno],
						&state_nulls[transno]);
	combine_state(exec, states, state_nulls);

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
