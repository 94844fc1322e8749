/*
 * groups.h
 *		Hash table of a batch's groups.
 */
#ifndef TIDE_GROUPS_H
#define TIDE_GROUPS_H

#include "executor/tuptable.h"
#include "nodes/execnodes.h"

#include "aggregate.h"
#include "analyze.h"

/*
 * What makes two groups the same: the window, whose end follows from its
 * start, and the keys.
 */
typedef struct TideGroupKey
{
	int64		window_start;	/* on the window axis; 0 without a window */
	uint64		quick_hash;		/* of the keys, for this table alone */
	Datum	   *values;
	bool	   *nulls;
} TideGroupKey;

typedef struct TideGroup
{
	TideGroupKey key;
	int64		window_end;
	int64		key_hash;		/* of the keys, as stored */
	MinimalTuple tuple;			/* the keys; NULL without keys */
	AggStatePerGroup states;
	uint32		table_hash;
	char		status;			/* for simplehash */
} TideGroup;

typedef struct TideGroups TideGroups;

extern TideGroups *tide_groups_begin(TideQuery *query, TideAggExec *aggs);
extern TideGroup *tide_groups_lookup(TideGroups *groups, int64 window_start,
									 int64 window_end, TupleTableSlot *input);
extern uint64 tide_groups_count(TideGroups *groups);
extern Size tide_groups_memory(TideGroups *groups);
/* all groups, sorted by (window_start, key_hash) */
extern TideGroup **tide_groups_sorted(TideGroups *groups);
extern TupleDesc tide_groups_key_desc(TideGroups *groups);
/* the hash under which keys are stored */
extern int64 tide_groups_hash(TideGroups *groups, const Datum *keys,
							  const bool *nulls);

/*
 * An expression that compares the keys of two slots of the key desc as GROUP
 * BY does: a virtual one (inner) with a minimal one (outer).
 */
extern ExprState *tide_groups_key_equality(TideGroups *groups);
extern void tide_groups_reset(TideGroups *groups);
extern void tide_groups_end(TideGroups *groups);

#endif							/* TIDE_GROUPS_H */
