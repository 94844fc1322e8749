/*
 * watermark.h
 *		Event time against the clock: advance, lateness.
 */
#ifndef TIDE_WATERMARK_H
#define TIDE_WATERMARK_H

#include "catalog.h"
#include "window.h"

/*
 * How the source rows of one batch are judged.  Times are on the event axis
 * (window.h).
 */
typedef struct TideJudge
{
	TideWindow *window;
	int64		clock;			/* at the batch's snapshot, on the event axis */
	int64		delay;			/* microseconds */
	bool		has_max_future;
	int64		max_future;
	int64		watermark;		/* W0 */
	int64		late_before;	/* windows that start earlier are final at W0 */
	int64		not_before;		/* windows that start earlier are left out */
	int64		max_event_time; /* of all rows so far, not capped */
	int64		window_start;	/* of the row that was judged last */
} TideJudge;

typedef enum TideVerdict
{
	TIDE_VERDICT_NULL_TIME,
	TIDE_VERDICT_BEFORE_START,	/* of the view: filtered */
	TIDE_VERDICT_LATE,
	TIDE_VERDICT_ON_TIME
} TideVerdict;

extern void tide_watermark_begin(TideJudge *judge, TideWindow *window,
								 const TideStream *stream,
								 const TideView *view,
								 const TideCheckpoint *checkpoint,
								 bool event_time_is_local);

/*
 * Judge one source row and keep the largest event time.  Counts marks
 * (rows_future) but no fate: WHERE is tested between NULL_TIME and LATE, and
 * the fates are the caller's.
 */
extern TideVerdict tide_watermark_judge(TideJudge *judge, bool isnull,
										int64 event_time,
										TideCounters *counters);

/* a span of time parameter in microseconds; ereports what cannot be one */
extern int64 tide_watermark_read_delay(const Interval *interval,
									   const char *parameter);

/* a time on the event axis of a stream, for people */
extern TimestampTz tide_watermark_to_timestamptz(const TideStream *stream,
												 int64 event_time);

/* W1: never below W0, never above clock - delay unless the cap is lifted */
extern int64 tide_watermark_advance(const TideJudge *judge);

#endif							/* TIDE_WATERMARK_H */
