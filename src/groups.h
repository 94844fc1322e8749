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

typedef struct TideGroup
{
	int64		window_start;	/* on the window axis; 0 without a window */
	int64		window_end;
	int64		hash;			/* of the keys, as stored */
	MinimalTuple keys;			/* columns of the keys; NULL without keys */
	AggStatePerGroup states;
	char		status;			/* for simplehash */
} TideGroup;

typedef struct TideGroups TideGroups;

extern TideGroups *tide_groups_begin(TideQuery *query, TideAggExec *aggs);
extern TideGroup *tide_groups_lookup(TideGroups *groups, int64 window_start,
									 int64 window_end, TupleTableSlot *input);
extern uint64 tide_groups_count(TideGroups *groups);
extern Size tide_groups_memory(TideGroups *groups);
/* all groups, sorted by (window_start, hash) */
extern TideGroup **tide_groups_sorted(TideGroups *groups);
extern TupleDesc tide_groups_key_desc(TideGroups *groups);
extern void tide_groups_reset(TideGroups *groups);
extern void tide_groups_end(TideGroups *groups);

#endif							/* TIDE_GROUPS_H */
