/*
 * scan.h
 *		The stream scan: block ranges, consumed(), judging source rows.
 */
#ifndef TIDE_SCAN_H
#define TIDE_SCAN_H

#include "nodes/execnodes.h"
#include "utils/snapshot.h"

#include "analyze.h"
#include "catalog.h"
#include "late.h"
#include "watermark.h"

/* one leaf to read: rows consumed by `to` and not by `from` */
typedef struct TideScanLeaf
{
	Oid			relid;
	TidePosition from;
	BlockNumber start_block;	/* pieces: [start_block, end_block) */
	BlockNumber end_block;		/* InvalidBlockNumber: the whole leaf */
} TideScanLeaf;

/* what a batch asks the scan to read, and what the scan gives back */
typedef struct TideScanRequest
{
	TideQuery  *query;
	List	   *leaves;			/* of TideScanLeaf * */
	TidePosition to;
	Snapshot	snapshot;
	TideJudge  *judge;
	TideCounters *counters;		/* fates but USED are counted here */
	TideLate   *late;			/* late rows are tallied here */
	double		estimate;		/* rows, for the planner */
	bool		unstamped;		/* instead: rows without a stamp */
	int64		passed;			/* rows handed to the query */
	struct TideScanState *state;	/* private: the node that reads */
} TideScanRequest;

extern void tide_scan_register(void);

/*
 * Rows of the stream travel through the query with a number from 0 in place of
 * their ctid, by which the receiver tells which source rows came out.
 */
extern int64 tide_scan_ordinal(Datum tid);

/*
 * between set and clear, planning the input query of the request makes the
 * stream scan of its stream
 */
extern void tide_scan_set_request(TideScanRequest *request);
extern void tide_scan_clear_request(void);

/*
 * The next row as the query's target list has it, when the whole plan is the
 * stream scan: without the executor between.  NULL at the end.
 */
extern TupleTableSlot *tide_scan_next(TideScanRequest *request);
extern bool tide_scan_is_plan(TideScanRequest *request, PlanState *planstate);

/* read what the executor left unread (never started, or stopped early) */
extern void tide_scan_drain(TideScanRequest *request);

/* is there any row to read? */
extern bool tide_scan_probe(TideScanRequest *request);

/*
 * Call back for every row without a stamp that the snapshot sees, in the
 * leaf's own slot.  Needs no plan.
 */
typedef void (*TideUnstampedCallback) (Relation leaf, TupleTableSlot *slot,
									   void *arg);
extern void tide_scan_visit_unstamped(List *leaves, Snapshot snapshot,
									  TideUnstampedCallback callback,
									  void *arg);

/* how many rows are there to read? */
extern int64 tide_scan_count_rows(TideScanRequest *request);

/* blocks that the request would read */
extern int64 tide_scan_count_blocks(TideScanRequest *request);

/* a stamp that divides the request; blocks: how many it would read */
extern int64 tide_scan_find_cut(TideScanRequest *request, int64 blocks,
								double share);

/* the leaves of a source: itself, or its leaf partitions; locked AccessShare */
extern List *tide_scan_source_leaves(Oid source);

#endif							/* TIDE_SCAN_H */
