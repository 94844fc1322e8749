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

/* a stretch of instants [from, to) in which a zone keeps one offset */
typedef struct TideZoneSpan
{
	int64		from;
	int64		to;				/* from = to: nothing is known */
	int64		offset;			/* microseconds east of UTC */
} TideZoneSpan;

typedef struct TideWindow
{
	TideWindowKind kind;
	Oid			type;			/* of window_start: TIMESTAMPTZOID or
								 * TIMESTAMPOID */
	TideWindowShift shift;
	pg_tz	   *shift_zone;		/* when shift is not NONE */
	int64		size;			/* microseconds; FIXED, and TRUNC to a unit
								 * below the day; else 0 */
	int64		origin;			/* FIXED: on the window axis */
	char	   *unit;			/* TRUNC: lower case, as date_trunc knows it */
	pg_tz	   *zone;			/* TRUNC of a timestamptz: the zone it cuts in */
	int			days;			/* TRUNC: days from a Monday, or 0 */
	int			months;			/* TRUNC: months from January, or 0 */
	int			first_year;		/* TRUNC: year the months count from, 0 or 1 */
	/* the last window found, as most rows fall into the one before them */
	bool		has_last;
	int64		last_from;		/* event times [from, to) of it */
	int64		last_to;
	int64		last_start;
	int64		last_end;
	TideZoneSpan shift_span;	/* the same for the offsets of the zones */
	TideZoneSpan zone_span;
} TideWindow;

/*
 * Is the expression (of a defining query, over the event time) a window?
 * Fills *window and returns true for a call of tidemark.tumble or
 * tidemark.tumble_start, date_bin, date_trunc, and the event time itself
 * (INSTANT); false when it is something else; ereports when it is a window
 * that cannot work (size not positive, months in date_bin, unknown unit or
 * zone, argument that is not constant).  event_time is compared with equal().
 */
extern bool tide_window_recognise(Node *expr, Node *event_time,
								  TideWindow *window);

/*
 * The window of a finite event time; false: it cannot be represented.  An
 * instant starts and ends at its time; without a window both are 0.
 */
extern bool tide_window_assign(TideWindow *window, int64 event_time,
							   int64 *start, int64 *end);

/*
 * The start of the first window that is not final at the watermark: a window
 * is final, a row late, exactly when its start is below it.  Never falls when
 * the watermark rises.  PG_INT64_MIN when the watermark is DT_NOBEGIN or there
 * is no window.
 */
extern int64 tide_window_boundary(TideWindow *window, int64 watermark);

/*
 * The end of the window that starts there, on the window axis: the start of
 * the next one (of an instant: itself).  May lie outside the range of
 * timestamps when start is no window's.
 */
extern int64 tide_window_end(TideWindow *window, int64 start);

/* the wall clock of a zone at an instant */
extern int64 tide_window_local_time(pg_tz *zone, int64 instant);

/* "tumble(5 minutes, origin ...)", the same on every server; for fingerprints
 * and explain */
extern void tide_window_describe(const TideWindow *window, StringInfo out);

#endif							/* TIDE_WINDOW_H */
