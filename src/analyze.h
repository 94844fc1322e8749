/*
 * analyze.h
 *		Query -> continuous query: input, window, keys, aggregates; or a
 *		refusal with its reason.
 */
#ifndef TIDE_ANALYZE_H
#define TIDE_ANALYZE_H

#include "lib/stringinfo.h"
#include "nodes/parsenodes.h"
#include "nodes/pg_list.h"
#include "nodes/plannodes.h"

#include "aggregate.h"
#include "catalog.h"
#include "window.h"

/* a group key that is not the window */
typedef struct TideKey
{
	Expr	   *expr;			/* over the defining query */
	AttrNumber	input_attno;	/* its column of the input row */
	Oid			type;
	int32		typmod;
	Oid			collation;
	Oid			eq_operator;
} TideKey;

/* columns of the input row that are always there */
#define TIDE_INPUT_EVENT_TIME 1	/* int64 on the event axis, by value; may
								 * serve as a key or an argument, too */
#define TIDE_INPUT_ORDINAL 2	/* tid: which source row (scan.h) */
#define TIDE_INPUT_FIRST_FREE 3

/*
 * A defining query, taken apart.
 *
 * input is an ordinary query without grouping: per row that comes out of WHERE
 * and joins the event time, the ordinal of the source row, the keys and the
 * arguments and filters of the aggregates.  The stream is the range table
 * entry stream_rti with inh = false: the stream scan reads all its leaves.
 *
 * plain is the defining query itself, for whoever checks what batches have come
 * to: ordinary grouping and aggregation over the whole stream (inh = true),
 * without HAVING.  Its columns are the grouping expressions as written, then
 * the aggregates.
 *
 * output is the query of the user's view: target list and HAVING over the
 * storage table, in which Vars have varno 1 and varattno TIDE_OUTPUT_*: the
 * caller maps them to storage columns (storage.h) before it is deparsed.
 */
typedef struct TideQuery
{
	Oid			stream;
	Index		stream_rti;		/* in input */
	Expr	   *event_time;		/* over the stream, Vars with stream_rti */
	Oid			event_type;		/* TIMESTAMPTZOID or TIMESTAMPOID */
	Query	   *input;
	Query	   *plain;
	List	   *plain_attnos;	/* TIDE_OUTPUT_* of the columns of plain */
	TideWindow	window;
	int			nkeys;
	TideKey    *keys;
	TideAggPlan *aggs;
	bool		has_joins;		/* a source row may come out never or twice */
	bool		uses_now;		/* stable functions of the batch's time */
	List	   *output;			/* TargetEntry, see above */
	Node	   *having;			/* see above, or NULL */
	int64		fingerprint;
} TideQuery;

/* varattno of Vars in output and having */
#define TIDE_OUTPUT_WINDOW_START 1
#define TIDE_OUTPUT_WINDOW_END 2
#define TIDE_OUTPUT_KEY(i) (3 + (i))	/* i from 0 */
#define TIDE_OUTPUT_AGG(query, i) (3 + (query)->nkeys + (i))

/*
 * Take an analyzed, not rewritten defining query apart.  query is not changed.
 * Needs a transaction and an active snapshot; ereports ERROR with the
 * construct, the reason and a hint for what is not supported.  The relations
 * of the query must be locked by the caller or are locked here (AccessShare).
 */
extern TideQuery *tide_analyze(Query *query);

/* the Query of a definition view, locked for planning; Vars as stored */
extern Query *tide_analyze_definition(Oid definition);

/*
 * Plan the input query: views expanded, row security applied for the current
 * user, never parallel.  query is not changed and may be planned again.
 * Whoever plans input otherwise has to do on a copy what this does:
 * AcquireRewriteLocks, QueryRewrite, and no CURSOR_OPT_PARALLEL_OK.
 */
extern PlannedStmt *tide_analyze_plan_input(TideQuery *query);

/* the same for plain, in which the stream is read as any table is */
extern PlannedStmt *tide_analyze_plan_plain(Query *plain);

/* what a batch maintains, in words: one line each, for explain */
extern void tide_analyze_describe(TideQuery *query, StringInfo out);

/* the event-time expression of a stream, Vars (rti, n) of its relation */
extern Expr *tide_analyze_event_time(const TideStream *stream, Index rti);

#endif							/* TIDE_ANALYZE_H */
