/*
 * catalog.h
 *		The extension's own tables: layouts, reads, writes.
 *
 * Structs are copies in the caller's memory context; *_read functions return
 * NULL when there is no such row.  Writes follow with CommandCounterIncrement.
 * Column numbers are those of sql/tidemark--1.0.sql.
 */
#ifndef TIDE_CATALOG_H
#define TIDE_CATALOG_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "utils/snapshot.h"

/*
 * Which snapshot a read uses: the catalog snapshot sees what is committed and
 * our own earlier commands.
 */

/* tidemark.stream */
typedef struct TideStream
{
	Oid			relation;
	Oid			definition;		/* view with the one column event_time */
	int64		watermark_delay;	/* microseconds */
	bool		has_max_future; /* false: clock cap lifted */
	int64		max_future;		/* microseconds */
	bool		allow_update;
	char	   *timezone;
	TimestampTz created_at;
	int64		rows_restamped;
} TideStream;

#define TIDE_TRIGGER_COMMIT INT64CONST(0)
#define TIDE_TRIGGER_MANUAL INT64CONST(-1)

/* tidemark.continuous_view */
typedef struct TideView
{
	Oid			view;
	Oid			storage;
	Oid			definition;
	Oid			stream;
	int64		trigger_usec;	/* TIDE_TRIGGER_*, or the interval */
	bool		has_watermark_delay;
	int64		watermark_delay;	/* microseconds */
	bool		has_start_at;
	TimestampTz start_at;		/* windows that start earlier are left out */
	bool		emit_final;
	bool		paused;
	int32		server_major;
	TimestampTz created_at;
	int64		fingerprint;
	List	   *settings;		/* of char *: name, value, ... */
} TideView;

/*
 * A position in the stream: every stamp below xmax is consumed, except those
 * listed.  In stamp space (stamp.h).  xmax 0: nothing is consumed.
 */
typedef struct TidePosition
{
	int64		xmax;
	int			nin_progress;
	int64	   *in_progress;	/* ascending */
} TidePosition;

/*
 * What is counted.  The order is that of the arrays totals, last and counters
 * in the tables, from 1; the views of section 8 of the install script unpack
 * them by these numbers.
 */
typedef enum TideCounter
{
	/* one fate a source row, in the order in which they are tested */
	TIDE_ROWS_IN,
	TIDE_ROWS_NULL_TIME,
	TIDE_ROWS_REJECTED,
	TIDE_ROWS_FILTERED,
	TIDE_ROWS_LATE,
	TIDE_ROWS_DUPLICATE,
	TIDE_ROWS_FAILED,
	TIDE_ROWS_USED,
	/* marks on rows that are counted above */
	TIDE_ROWS_FUTURE,
	TIDE_ROWS_LATE_PARTLY,
	TIDE_ROWS_NULL_ID,
	/* others */
	TIDE_TIME_ARRIVAL,			/* microseconds since the clock of the batch before */
	TIDE_ROWS_LOST,
	TIDE_GROUPS_UPDATED,		/* written to storage, new ones included */
	TIDE_GROUPS_NEW,			/* of these; in totals: rows of state */
	TIDE_FLUSHES,				/* times the groups were written out */
	TIDE_NOTIFIES,
	TIDE_NOTIFIES_SKIPPED,		/* the notification queue was too full */
	TIDE_BATCHES,				/* 1 in a batch; in totals: how many */
	TIDE_BLOCKS_READ,
	/* microseconds */
	TIDE_TIME_PLAN,
	TIDE_TIME_READ,
	TIDE_TIME_MERGE,
	TIDE_TIME_COMMIT,			/* of the batch before, by the same process */
	/* bytes; in totals: the largest so far */
	TIDE_PEAK_MEMORY,
	TIDE_NCOUNTERS
} TideCounter;

typedef struct TideCounters
{
	int64		v[TIDE_NCOUNTERS];
} TideCounters;

/* tidemark.checkpoint */
typedef struct TideCheckpoint
{
	Oid			view;
	Oid			source;
	int64		fingerprint;
	int64		batch_id;
	TimestampTz watermark;		/* DT_NOBEGIN: none yet */
	TimestampTz max_event_time; /* DT_NOBEGIN: none yet */
	int64		final_before;	/* windows that start earlier are final */
	TimestampTz batch_clock;	/* when the logical batch was begun */
	int64		batch_max_event_time;	/* of its pieces so far */
	TimestampTz updated_at;
	TimestampTz sampled_at;		/* of the last row in tidemark.batch */
	TidePosition position;
	bool		has_target;
	TidePosition target;
	List	   *leaves;			/* OIDs */
	TideCounters totals;
	TideCounters last;
} TideCheckpoint;

/* tidemark.leaf */
typedef struct TideLeaf
{
	Oid			leaf;
	TidePosition position;
} TideLeaf;

/* tidemark.piece */
typedef struct TidePiece
{
	Oid			leaf;
	Oid			relfilenode;
	int64		next_block;
	int64		end_block;
} TidePiece;

/* tidemark.failure; the strings may be NULL where the table allows it */
typedef struct TideFailure
{
	Oid			view;
	int32		attempts;
	TimestampTz first_failed_at;
	TimestampTz last_failed_at;
	TimestampTz next_try;
	char	   *sqlstate;
	char	   *message;
	char	   *detail;
	char	   *hint;
	char	   *context;
} TideFailure;

/* schemas, existence */
extern bool tide_catalog_exists(void);
extern Oid	tide_catalog_schema(void);
extern Oid	tide_catalog_data_schema(void);
extern Oid	tide_catalog_owner(void);
extern Oid	tide_catalog_table(const char *name);
extern int64 tide_catalog_next_object_id(void);

/* streams */
extern TideStream *tide_catalog_read_stream(Oid relation);
/* OIDs of all streams, ascending: the order in which to lock them */
extern List *tide_catalog_read_streams(void);
extern void tide_catalog_lock_stream(Oid relation);
extern void tide_catalog_insert_stream(const TideStream *stream);
extern void tide_catalog_update_stream(const TideStream *stream);
extern void tide_catalog_delete_stream(Oid relation);

/* continuous views */
extern TideView *tide_catalog_read_view(Oid view);
extern List *tide_catalog_read_views(void);
extern List *tide_catalog_read_views_of(Oid stream);
extern void tide_catalog_insert_view(const TideView *view);
extern void tide_catalog_update_view(const TideView *view);
extern void tide_catalog_delete_view(Oid view);

/* checkpoints: lock first, then read */
extern void tide_catalog_lock_checkpoint(Oid view);
extern bool tide_catalog_trylock_checkpoint(Oid view);
extern bool tide_catalog_checkpoint_is_locked(Oid view);
extern TideCheckpoint *tide_catalog_read_checkpoint(Oid view, Oid source);
extern TideCheckpoint *tide_catalog_read_checkpoint_as_of(Oid view, Oid source,
														  Snapshot snapshot);
extern int64 tide_catalog_furthest_position(void);
extern void tide_catalog_insert_checkpoint(const TideCheckpoint *checkpoint);
extern void tide_catalog_update_checkpoint(const TideCheckpoint *checkpoint);
extern void tide_catalog_append_batch(const TideCheckpoint *checkpoint);

extern List *tide_catalog_read_leaves(Oid view);
extern List *tide_catalog_read_leaves_as_of(Oid view, Snapshot snapshot);
extern void tide_catalog_put_leaf(Oid view, const TideLeaf *leaf);
extern void tide_catalog_delete_leaf(Oid view, Oid leaf);

extern List *tide_catalog_read_pieces(Oid view);
extern void tide_catalog_put_piece(Oid view, const TidePiece *piece);
extern void tide_catalog_delete_piece(Oid view, Oid leaf);

/* tally of late rows by the start of their window, on the window axis */
extern void tide_catalog_add_late(Oid view, int64 window_start, int64 rows);
extern int64 tide_catalog_read_late(Oid view, int64 window_start,
									Snapshot snapshot);
extern int64 tide_catalog_sum_late(Oid view, Snapshot snapshot);

/* failures */
extern TideFailure *tide_catalog_read_failure(Oid view);
extern void tide_catalog_put_failure(const TideFailure *failure);
extern bool tide_catalog_delete_failure(Oid view);

#endif							/* TIDE_CATALOG_H */
