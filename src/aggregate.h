/*
 * aggregate.h
 *		Aggregate states: init, advance, combine, serialise, finalise.
 */
#ifndef TIDE_AGGREGATE_H
#define TIDE_AGGREGATE_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"
#include "nodes/pg_list.h"

/* one transition state; several aggregates may share it */
typedef struct TideTrans
{
	Oid			type;			/* of the state in memory */
	Oid			stored_type;	/* of its column: tidemark.state when internal */
	int			value_agg;		/* the aggregate whose value is the state, or -1 */
} TideTrans;

/* one aggregate */
typedef struct TideAgg
{
	Aggref	   *aggref;			/* arguments: Vars (1, n) of the input row */
	Oid			type;
	int32		typmod;
	Oid			collation;
	int			transno;
} TideAgg;

/* the aggregates of a view; nothing of the executor yet */
typedef struct TideAggPlan
{
	int			naggs;
	TideAgg    *aggs;
	int			ntrans;
	TideTrans  *trans;
	void	   *planned;		/* private: the Agg plan */
} TideAggPlan;

/* the same, ready to run in a batch */
typedef struct TideAggExec TideAggExec;

extern TideAggPlan *tide_aggregate_plan(List *aggrefs, List *input_types,
										List *input_typmods,
										List *input_collations);
/* NULL: can be maintained; else why not, as an errdetail sentence */
extern char *tide_aggregate_unsupported(Aggref *aggref);
extern Oid	tide_aggregate_state_type(void);

extern TideAggExec *tide_aggregate_begin(TideAggPlan *plan);
extern void tide_aggregate_end(TideAggExec *exec);
extern Size tide_aggregate_group_size(TideAggExec *exec);
extern void tide_aggregate_init(TideAggExec *exec, AggStatePerGroup group);
extern void tide_aggregate_advance(TideAggExec *exec, AggStatePerGroup group,
								   TupleTableSlot *input);
extern Size tide_aggregate_memory(TideAggExec *exec);
extern void tide_aggregate_reset(TideAggExec *exec);

/*
 * Merge a group of the batch with what is stored (stored arrays NULL: nothing
 * is), and give the values and states to store.  Results live until
 * tide_aggregate_release.
 */
extern void tide_aggregate_merge(TideAggExec *exec, AggStatePerGroup group,
								 const Datum *stored, const bool *stored_nulls,
								 Datum *values, bool *value_nulls,
								 Datum *states, bool *state_nulls);
extern void tide_aggregate_release(TideAggExec *exec);

#endif							/* TIDE_AGGREGATE_H */
