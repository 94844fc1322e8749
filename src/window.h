/*
 * window.h
 *		Window functions and assignment; calendar arithmetic.
 *
 * A TideWindow says how an event time becomes a window.  Two axes of int64
 * microseconds since 2000-01-01 meet here:
 *
 * - the event axis: the stream's event time as it is stored, a timestamptz
 *	 (UTC) or a timestamp (wall clock of nowhere).  Watermarks are on it.
 * - the window axis: the type of window_start.  It differs from the event
 *	 axis only when the query says "AT TIME ZONE constant".
 */
#ifndef TIDE_WINDOW_H
#define TIDE_WINDOW_H

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"
#include "nodes/primnodes.h"
#include "pgtime.h"

typedef enum TideWindowKind
{
	TIDE_WINDOW_NONE,			/* no window: never late, never final */
	TIDE_WINDOW_INSTANT,		/* the event time itself is a group key */
	TIDE_WINDOW_FIXED,			/* size in microseconds from an origin */
	TIDE_WINDOW_TRUNC			/* date_trunc(unit, ts [, zone]) */
} TideWindowKind;

typedef enum TideWindowShift
{
	TIDE_SHIFT_NONE,			/* window axis = event axis */
	TIDE_SHIFT_TO_LOCAL,		/* timestamptz AT TIME ZONE zone */
	TIDE_SHIFT_TO_UTC			/* timestamp AT TIME ZONE zone */
} TideWindowShift;

typedef struct TideWindow
{
	TideWindowKind kind;
	Oid			type;			/* of window_start: TIMESTAMPTZOID or
								 * TIMESTAMPOID */
	TideWindowShift shift;
	pg_tz	   *shift_zone;		/* when shift is not NONE */
	int64		size;			/* FIXED: microseconds, > 0 */
	int64		origin;			/* FIXED: on the window axis */
	char	   *unit;			/* TRUNC: lower case, as date_trunc knows it */
	pg_tz	   *zone;			/* TRUNC of a timestamptz: the zone it cuts in */
	/* the last window found, as most rows fall into the one before them */
	bool		has_last;
	int64		last_from;		/* event times [from, to) of it */
	int64		last_to;
	int64		last_start;
	int64		last_end;
} TideWindow;

/*
 * Is the expression (of a defining query, over the event time) a window?
 * Fills *window and returns true for tidemark.tumble's columns (the caller
 * passes the function call), date_bin and date_trunc; false when it is
 * something else; ereports when it is a window that cannot work (size not
 * positive, months in date_bin, unknown unit or zone, argument that is not
 * constant).  event_time is compared with equal().
 */
extern bool tide_window_recognise(Node *expr, Node *event_time,
								  TideWindow *window);

/* assignment; false: the window cannot be represented */
extern bool tide_window_assign(TideWindow *window, int64 event_time,
							   int64 *start, int64 *end);

/*
 * The start of the first window that is not final at the watermark: a window
 * is final, a row late, exactly when its start is below it.  PG_INT64_MIN
 * when the watermark is DT_NOBEGIN or there is no window.
 */
extern int64 tide_window_boundary(TideWindow *window, int64 watermark);

/* the first start of the window after; for half-open ranges of windows */
extern int64 tide_window_end(TideWindow *window, int64 start);

/* "tumble(5 minutes, origin ...)", the same on every server; for fingerprints
 * and explain */
extern void tide_window_describe(const TideWindow *window, StringInfo out);

#endif							/* TIDE_WINDOW_H */
