/*
 * window.c
 *		Window functions and assignment; calendar arithmetic.
 *
 * What a defining query says with tumble, date_bin or date_trunc must come out
 * of a batch exactly as it comes out of plain SQL, for every unit and zone,
 * and faster: most rows fall into the window of the row before.  So the
 * arithmetic of date_trunc is done here, on what a zone says about an instant,
 * and the last window is kept as a range of event times.
 *
 * A zone is a function from instants to offsets that is constant on stretches
 * (TideZoneSpan).  On a stretch everything is integer arithmetic; between
 * stretches the wall clock jumps, and may go back: then the window of a later
 * event may lie before the window of an earlier one.  Hence the two rules:
 *
 * - a cached range never reaches beyond the stretch it was found in;
 * - the end of a window is never before the last instant that falls into it,
 *	 and tide_window_boundary looks at the jumps that follow the watermark.
 *
 * Windows of a day and more tile the axis: each ends where the next begins.
 * Those below a day, cut in a zone whose offset is not a multiple of the unit
 * for ever, may overlap where it changes; each is [start, start + unit).
 *
 * INVARIANTS:
 * I1 assignment = the SQL function, wherever that does not fail.
 * I2 no instant at or after W has a window whose start is below
 *	  tide_window_boundary(W); where zones are not involved, that is an
 *	  equivalence with end <= W.  Guarded by regress test calendar.
 *
 * MEMORY: recognition allocates in the caller's context; the rest nothing.
 * Zones live as long as the process.
 */
#include "postgres.h"

#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "parser/scansup.h"
#include "utils/builtins.h"
#include "utils/datetime.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "compat.h"
#include "window.h"

PG_FUNCTION_INFO_V1(tide_tumble_start);
PG_FUNCTION_INFO_V1(tide_tumble_end);

/* seconds between the epochs of pg_time_t and of timestamps */
#define EPOCH_SHIFT \
	((int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) * SECS_PER_DAY)

/*
 * How far from an instant a jump of the wall clock can matter: offsets lie
 * between -16 and +16 hours, so no jump is longer than that, nor a chain of
 * jumps in practice.
 */
#define JUMP_REACH (2 * USECS_PER_DAY)

/* what a stretch of a zone may span, so that sums with it cannot overflow */
#define SPAN_MIN (MIN_TIMESTAMP - 3 * USECS_PER_DAY)
#define SPAN_MAX (END_TIMESTAMP + 3 * USECS_PER_DAY)

/* the first Monday, counted in days from 2000-01-01 */
#define FIRST_MONDAY 2

/* ---------------------------------------------------------------------------
 * Integer arithmetic
 * ---------------------------------------------------------------------------
 */

/*
 * The largest multiple of size that is not above value.  size > 0; value is
 * far from the ends of the range or size is small.
 */
static inline int64
floor_to(int64 value, int64 size)
{
	int64		rest = value % size;

	return value - (rest < 0 ? rest + size : rest);
}

/*
 * Start of the window of a fixed size that holds at; false when it is not an
 * int64.  Right for every size and origin: origin + n * size is never built
 * from the difference at - origin, which may overflow.
 */
static inline bool
cut_fixed(int64 at, int64 size, int64 origin, int64 *start)
{
	int64		at_rest = at % size;
	int64		origin_rest = origin % size;
	int64		past;

	if (at_rest < 0)
		at_rest += size;
	if (origin_rest < 0)
		origin_rest += size;
	past = at_rest - origin_rest;
	if (past < 0)
		past += size;
	return !pg_sub_s64_overflow(at, past, start);
}

/* ---------------------------------------------------------------------------
 * Zones
 * ---------------------------------------------------------------------------
 */

/*
 * The second of pg_time_t in which an instant lies.
 */
static inline pg_time_t
instant_second(int64 instant)
{
	return (pg_time_t) (floor_to(instant, USECS_PER_SEC) / USECS_PER_SEC +
						EPOCH_SHIFT);
}

/*
 * The first jump of the zone's clock after an instant; false: there is none
 * within the range of timestamps.
 */
static bool
next_jump(pg_tz *zone, int64 instant, int64 *jump)
{
	pg_time_t	second = instant_second(instant);
	pg_time_t	boundary;
	long int	before;
	long int	after;
	int			before_isdst;
	int			after_isdst;
	int			found;

	found = pg_next_dst_boundary(&second, &before, &before_isdst, &boundary,
								 &after, &after_isdst, zone);
	if (found == 0)
	{
		/*
		 * Exactly at the last jump of its table it says "none", even if the
		 * rules go on.  A second later it extrapolates.
		 */
		second++;
		found = pg_next_dst_boundary(&second, &before, &before_isdst,
									 &boundary, &after, &after_isdst, zone);
	}
	if (found <= 0 || boundary > SPAN_MAX / USECS_PER_SEC + EPOCH_SHIFT)
		return false;
	*jump = ((int64) boundary - EPOCH_SHIFT) * USECS_PER_SEC;
	return true;
}

/*
 * Offset of a zone from UTC at an instant, in microseconds, as timestamp2tm
 * has it.  The stretch is kept in *span, so that most calls are two
 * comparisons.
 */
static int64
zone_offset(pg_tz *zone, TideZoneSpan *span, int64 instant)
{
	static const int64 steps[] = {
		60 * USECS_PER_DAY, 7 * USECS_PER_DAY, USECS_PER_DAY
	};
	pg_time_t	second;
	int64		jump;

	if (instant >= span->from && instant < span->to)
		return span->offset;

	second = instant_second(instant);
	span->offset = (int64) pg_localtime(&second, zone)->tm_gmtoff *
		USECS_PER_SEC;
	span->to = SPAN_MAX;
	if (next_jump(zone, instant, &jump) && jump < span->to)
		span->to = jump;

	/* the jump before cannot be asked for, so feel for it */
	span->from = instant;
	for (int i = 0; i < lengthof(steps); i++)
	{
		int64		earlier = instant - steps[i];

		if (earlier < SPAN_MIN)
			continue;
		if (!next_jump(zone, earlier, &jump) || jump > instant)
		{
			span->from = earlier;
			break;
		}
	}
	return span->offset;
}

/*
 * Offset of a zone at an instant, without a cache.
 */
static int64
zone_offset_once(pg_tz *zone, int64 instant)
{
	pg_time_t	second = instant_second(instant);

	return (int64) pg_localtime(&second, zone)->tm_gmtoff * USECS_PER_SEC;
}

/*
 * The wall clock of a zone at an instant.
 */
int64
tide_window_local_time(pg_tz *zone, int64 instant)
{
	return instant + zone_offset_once(zone, instant);
}

/*
 * The instant at which a zone's wall clock shows local, chosen like
 * PostgreSQL where it shows it never or twice; false: it is no timestamp.
 */
static bool
local_to_instant(pg_tz *zone, int64 local, int64 *instant)
{
	struct pg_tm tm;
	fsec_t		fsec;
	int			west;

	if (timestamp2tm(local, NULL, &tm, &fsec, NULL, NULL) != 0)
		return false;
	west = DetermineTimeZoneOffset(&tm, zone);
	return tm2timestamp(&tm, fsec, &west, instant) == 0;
}

/* ---------------------------------------------------------------------------
 * Windows of the calendar
 * ---------------------------------------------------------------------------
 */

/*
 * Midnight of the first day of a month, months counted from January of the
 * year 0 (1 BC); false when it lies before the calendar.
 */
static bool
month_start(int month, int64 *local)
{
	int			year = month / MONTHS_PER_YEAR;
	int			rest = month % MONTHS_PER_YEAR;

	if (rest < 0)
	{
		rest += MONTHS_PER_YEAR;
		year--;
	}
	if (!IS_VALID_JULIAN(year, rest + 1, 1))
		return false;
	*local = ((int64) date2j(year, rest + 1, 1) - POSTGRES_EPOCH_JDATE) *
		USECS_PER_DAY;
	return true;
}

/*
 * The calendar unit [*from, *to) of the wall clock that holds local; false
 * when it does not begin and end in the calendar.
 */
static bool
cut_calendar(const TideWindow *window, int64 local, int64 *from, int64 *to)
{
	int64		day = floor_to(local, USECS_PER_DAY) / USECS_PER_DAY;
	int			year;
	int			month;
	int			mday;
	int			first;

	if (window->days > 0)
	{
		day = floor_to(day - FIRST_MONDAY, window->days) + FIRST_MONDAY;
		*from = day * USECS_PER_DAY;
		*to = *from + window->days * USECS_PER_DAY;
		return true;
	}

	if (day + POSTGRES_EPOCH_JDATE < 0)
		return false;
	j2date((int) day + POSTGRES_EPOCH_JDATE, &year, &month, &mday);
	month += (year - window->first_year) * MONTHS_PER_YEAR - 1;
	first = (int) floor_to(month, window->months) +
		window->first_year * MONTHS_PER_YEAR;
	return month_start(first, from) &&
		month_start(first + window->months, to);
}

/*
 * Instant of a border of cut_calendar on the window axis; false: no timestamp.
 */
static inline bool
border_instant(const TideWindow *window, int64 local, int64 *border)
{
	if (window->zone != NULL)
		return local_to_instant(window->zone, local, border);
	*border = local;
	return IS_VALID_TIMESTAMP(local);
}

/*
 * Is the window a calendar unit of a day or more?
 */
static inline bool
is_calendar(const TideWindow *window)
{
	return window->days > 0 || window->months > 0;
}

/* ---------------------------------------------------------------------------
 * Assignment
 * ---------------------------------------------------------------------------
 */

/*
 * From the event axis to the window axis; false: no timestamp.  [*from, *to)
 * are event times around this one that are moved as far as it is.
 */
static bool
shift_time(TideWindow *window, int64 event_time, int64 *at,
		   int64 *from, int64 *to)
{
	TideZoneSpan *span = &window->shift_span;
	int64		offset;

	switch (window->shift)
	{
		case TIDE_SHIFT_NONE:
			*at = event_time;
			*from = SPAN_MIN;
			*to = SPAN_MAX;
			return true;

		case TIDE_SHIFT_TO_LOCAL:
			offset = zone_offset(window->shift_zone, span, event_time);
			*at = event_time + offset;
			*from = span->from;
			*to = span->to;
			return IS_VALID_TIMESTAMP(*at);

		case TIDE_SHIFT_TO_UTC:
			if (!local_to_instant(window->shift_zone, event_time, at))
				return false;
			/* near a jump the same local time may mean something else */
			offset = zone_offset(window->shift_zone, span, *at);
			*from = span->from + offset + JUMP_REACH;
			*to = span->to + offset - JUMP_REACH;
			return true;
	}
	return false;
}

/*
 * The window of a time on the window axis; false: it cannot be represented.
 * [*from, *to) are times around this one with the same window.
 */
static bool
cut_time(TideWindow *window, int64 at, int64 *start, int64 *end,
		 int64 *from, int64 *to)
{
	int64		offset = 0;

	if (window->kind == TIDE_WINDOW_FIXED)
	{
		if (!cut_fixed(at, window->size, window->origin, start) ||
			pg_add_s64_overflow(*start, window->size, end))
			return false;
		*from = *start;
		*to = *end;
		return IS_VALID_TIMESTAMP(*start) && IS_VALID_TIMESTAMP(*end);
	}

	Assert(window->kind == TIDE_WINDOW_TRUNC);
	if (window->zone != NULL)
		offset = zone_offset(window->zone, &window->zone_span, at);

	if (is_calendar(window))
	{
		if (!cut_calendar(window, at + offset, from, to) ||
			!border_instant(window, *from, start) ||
			!border_instant(window, *to, end))
			return false;
		*from -= offset;
		*to -= offset;
	}
	else
	{
		*start = floor_to(at + offset, window->size) - offset;
		*end = *start + window->size;
		if (!IS_VALID_TIMESTAMP(*start) || !IS_VALID_TIMESTAMP(*end))
			return false;
		*from = *start;
		*to = *end;
	}

	if (window->zone != NULL)
	{
		*from = Max(*from, window->zone_span.from);
		*to = Min(*to, window->zone_span.to);
	}
	return true;
}

/*
 * The window of a finite event time; false: it cannot be represented.
 */
bool
tide_window_assign(TideWindow *window, int64 event_time,
				   int64 *start, int64 *end)
{
	int64		at;
	int64		delta;
	int64		shift_from;
	int64		shift_to;
	int64		from;
	int64		to;

	if (window->has_last &&
		event_time >= window->last_from && event_time < window->last_to)
	{
		*start = window->last_start;
		*end = window->last_end;
		return true;
	}

	if (window->kind == TIDE_WINDOW_NONE)
	{
		*start = *end = 0;
		return true;
	}
	if (!shift_time(window, event_time, &at, &shift_from, &shift_to))
		return false;
	if (window->kind == TIDE_WINDOW_INSTANT)
	{
		*start = *end = at;
		return true;
	}
	if (!cut_time(window, at, start, end, &from, &to))
		return false;

	delta = at - event_time;
	window->last_from = Max(from - delta, shift_from);
	window->last_to = Min(to - delta, shift_to);
	window->last_start = *start;
	window->last_end = *end;
	window->has_last = true;
	return true;
}

/* ---------------------------------------------------------------------------
 * Finality
 * ---------------------------------------------------------------------------
 */

/*
 * The smallest time on the window axis that an event at or after the
 * watermark can get.
 */
static int64
shift_least(TideWindow *window, int64 watermark)
{
	pg_tz	   *zone = window->shift_zone;
	int64		least;
	int64		at;
	int64		jump;

	switch (window->shift)
	{
		case TIDE_SHIFT_NONE:
			break;

		case TIDE_SHIFT_TO_LOCAL:
			/* the clock may be turned back soon */
			least = watermark + zone_offset(zone, &window->shift_span,
											watermark);
			for (at = watermark;
				 next_jump(zone, at, &jump) && jump <= watermark + JUMP_REACH;
				 at = jump)
				least = Min(least, jump + zone_offset_once(zone, jump));
			return least;

		case TIDE_SHIFT_TO_UTC:
			if (!local_to_instant(zone, watermark, &least))
				return watermark < 0 ? PG_INT64_MIN : END_TIMESTAMP - 1;

			/*
			 * Local times that the clock leaps over get an instant after the
			 * jump; those that follow the gap get the instants from the jump
			 * on.
			 */
			for (at = least - JUMP_REACH;
				 next_jump(zone, at, &jump) && jump < least;
				 at = jump)
			{
				if (jump + zone_offset_once(zone, jump) >= watermark)
					return jump;
			}
			return least;
	}
	return watermark;
}

/*
 * Boundary of windows below a day that are cut in a zone: the smallest start
 * above at - size of all that there are.  Each stretch of the zone has a grid
 * of its own, and a start of it is one when an instant of the stretch falls
 * into [start, start + size).
 */
static int64
boundary_in_zone(TideWindow *window, int64 at)
{
	int64		size = window->size;
	int64		boundary = PG_INT64_MAX;
	int64		from = at - size;
	int64		jump = 0;
	bool		has_jump;

	do
	{
		int64		offset = zone_offset_once(window->zone, from);
		int64		start;

		has_jump = next_jump(window->zone, from, &jump);
		start = floor_to(Max(at, from) + offset, size) - offset;
		if (start > at - size && (!has_jump || start < jump))
			boundary = Min(boundary, start);
		from = jump;
	} while (has_jump && jump < at + size);

	return boundary;
}

/*
 * Boundary of calendar windows: the start of the one that holds at when they
 * are laid end to end.  Where the wall clock goes back over a border, an
 * instant may be given a window that has not begun yet; so look around.
 */
static int64
boundary_in_calendar(TideWindow *window, int64 at)
{
	int64		local = at;
	int64		from;
	int64		to;
	int64		start;
	int64		next;

	if (window->zone != NULL)
		local += zone_offset(window->zone, &window->zone_span, at);

	do
	{
		if (!cut_calendar(window, local, &from, &to) ||
			!border_instant(window, from, &start))
			return PG_INT64_MIN;
		local = from - 1;
	} while (start > at);

	while (border_instant(window, to, &next) && next <= at)
	{
		start = next;
		if (!cut_calendar(window, to, &from, &to))
			break;
	}
	return start;
}

/*
 * The start of the first window that is not final at the watermark.
 */
int64
tide_window_boundary(TideWindow *window, int64 watermark)
{
	int64		at;
	int64		start;

	if (window->kind == TIDE_WINDOW_NONE || TIMESTAMP_IS_NOBEGIN(watermark))
		return PG_INT64_MIN;
	if (!IS_VALID_TIMESTAMP(watermark))
		return watermark < 0 ? PG_INT64_MIN : PG_INT64_MAX;

	/* an instant is final when it is at the watermark, and not only before */
	if (window->kind == TIDE_WINDOW_INSTANT)
		return shift_least(window, watermark + 1);

	at = shift_least(window, watermark);
	if (at == PG_INT64_MIN)
		return at;
	if (window->kind == TIDE_WINDOW_FIXED)
		return cut_fixed(at, window->size, window->origin, &start) ?
			start : PG_INT64_MIN;
	if (is_calendar(window))
		return boundary_in_calendar(window, at);
	if (window->zone != NULL)
		return boundary_in_zone(window, at);
	return floor_to(at, window->size);
}

/*
 * The end of the window that starts there.
 */
int64
tide_window_end(TideWindow *window, int64 start)
{
	int64		offset = 0;
	int64		from;
	int64		to;
	int64		end;

	if (window->kind == TIDE_WINDOW_NONE || window->kind == TIDE_WINDOW_INSTANT)
		return start;
	if (window->size > 0)
		return pg_add_s64_overflow(start, window->size, &end) ?
			PG_INT64_MAX : end;

	if (window->zone != NULL)
		offset = zone_offset(window->zone, &window->zone_span, start);
	if (!cut_calendar(window, start + offset, &from, &to) ||
		!border_instant(window, to, &end))
		return start < 0 ? start : PG_INT64_MAX;
	return end;
}

/* ---------------------------------------------------------------------------
 * Recognition
 * ---------------------------------------------------------------------------
 */

/*
 * The value of an argument that must be constant; what names it in messages.
 * Only immutable expressions are folded: now() must not become an origin.
 */
static Const *
constant_argument(Node *arg, const char *function, const char *what)
{
	Node	   *folded = eval_const_expressions(NULL, copyObject(arg));

	if (!IsA(folded, Const))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("argument \"%s\" of %s must be constant", what, function),
				 errdetail("All rows of a continuous view share one kind of window."),
				 errhint("Write it as a literal.")));
	if (castNode(Const, folded)->constisnull)
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument \"%s\" of %s must not be null", what, function)));
	return castNode(Const, folded);
}

/*
 * Microseconds of the size of a fixed window; ereports when it is none.
 */
static int64
interval_size(const Interval *size, const char *function)
{
	int64		usecs;

	if (size->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("size of %s must not contain months or years", function),
				 errdetail("Months differ in length."),
				 errhint("Use date_trunc('month', ...) or another unit of the calendar, or a size in weeks, days (of 24 hours) or less.")));
	if (pg_mul_s64_overflow(size->day, USECS_PER_DAY, &usecs) ||
		pg_add_s64_overflow(usecs, size->time, &usecs))
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
				 errmsg("size of %s is out of range", function)));
	if (usecs <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("size of %s must be positive", function),
				 errhint("For example: interval '5 minutes'.")));
	return usecs;
}

/*
 * Refuse an origin that is not a time.
 */
static void
check_origin(Timestamp origin, const char *function)
{
	if (TIMESTAMP_NOT_FINITE(origin))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("origin of %s must be finite", function)));
}

/*
 * The zone of a constant name.  For AT TIME ZONE an abbreviation whose offset
 * changed over time is not a zone: it means the offset that it had then.
 */
static pg_tz *
zone_argument(Node *arg, const char *function, bool is_at_time_zone)
{
	Const	   *name = constant_argument(arg, function, "zone");
	char		tzname[TZ_STRLEN_MAX + 1];
	int			east;
	pg_tz	   *zone;

	text_to_cstring_buffer(DatumGetTextPP(name->constvalue),
						   tzname, sizeof(tzname));
	switch (DecodeTimezoneName(tzname, &east, &zone))
	{
		case TZNAME_FIXED_OFFSET:
			zone = pg_tzset_offset(-east);
			break;
		case TZNAME_DYNTZ:
			if (is_at_time_zone)
				ereport(ERROR,
						(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
						 errmsg("time zone abbreviation \"%s\" cannot be used for windows",
								tzname),
						 errdetail("Its offset from UTC has changed over time."),
						 errhint("Use the full name of a time zone, such as 'Europe/Moscow'.")));
			break;
		default:
			break;
	}
	if (zone == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" cannot be used for windows", tzname)));
	return zone;
}

/*
 * The zone of a constant interval: a fixed offset.
 */
static pg_tz *
zone_interval_argument(Node *arg, const char *function)
{
	Const	   *value = constant_argument(arg, function, "zone");
	Interval   *interval = DatumGetIntervalP(value->constvalue);
	pg_tz	   *zone = NULL;

	if (interval->month == 0 && interval->day == 0 &&
		interval->time > -USECS_PER_DAY && interval->time < USECS_PER_DAY)
		zone = pg_tzset_offset(-(interval->time / USECS_PER_SEC));
	if (zone == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("interval time zone of a window must be less than a day")));
	return zone;
}

/*
 * Is the expression the event time, bare or AT TIME ZONE a constant?  Fills
 * the shift and the type of *window.
 */
static bool
recognise_time(Node *expr, Node *event_time, TideWindow *window)
{
	const char *name = "AT TIME ZONE";
	FuncExpr   *call;
	bool		is_interval = false;

	window->shift = TIDE_SHIFT_NONE;
	window->type = exprType(expr);
	if (equal(expr, event_time))
		return window->type == TIMESTAMPTZOID || window->type == TIMESTAMPOID;
	if (!IsA(expr, FuncExpr))
		return false;

	call = (FuncExpr *) expr;
	switch (call->funcid)
	{
		case F_TIMEZONE_INTERVAL_TIMESTAMPTZ:
			is_interval = true;
			/* FALLTHROUGH */
		case F_TIMEZONE_TEXT_TIMESTAMPTZ:
			window->shift = TIDE_SHIFT_TO_LOCAL;
			break;
		case F_TIMEZONE_INTERVAL_TIMESTAMP:
			is_interval = true;
			/* FALLTHROUGH */
		case F_TIMEZONE_TEXT_TIMESTAMP:
			window->shift = TIDE_SHIFT_TO_UTC;
			break;
		default:
			return false;
	}
	if (!equal(lsecond(call->args), event_time))
		return false;
	window->shift_zone = is_interval ?
		zone_interval_argument(linitial(call->args), name) :
		zone_argument(linitial(call->args), name, true);
	return true;
}

/*
 * Fill *window from date_trunc's unit.
 */
static void
recognise_unit(Node *arg, TideWindow *window)
{
	Const	   *value = constant_argument(arg, "date_trunc", "unit");
	text	   *given = DatumGetTextPP(value->constvalue);
	char	   *unit = downcase_truncate_identifier(VARDATA_ANY(given),
													VARSIZE_ANY_EXHDR(given),
													false);
	int			code;
	int			type = DecodeUnits(0, unit, &code);

	if (type != UNITS)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unit \"%s\" not recognized for type %s",
						unit, format_type_be(window->type))));

	switch (code)
	{
		case DTK_MICROSEC:
			window->unit = "microseconds";
			window->size = 1;
			break;
		case DTK_MILLISEC:
			window->unit = "milliseconds";
			window->size = 1000;
			break;
		case DTK_SECOND:
			window->unit = "second";
			window->size = USECS_PER_SEC;
			break;
		case DTK_MINUTE:
			window->unit = "minute";
			window->size = USECS_PER_MINUTE;
			break;
		case DTK_HOUR:
			window->unit = "hour";
			window->size = USECS_PER_HOUR;
			break;
		case DTK_DAY:
			window->unit = "day";
			window->days = 1;
			break;
		case DTK_WEEK:
			window->unit = "week";
			window->days = 7;
			break;
		case DTK_MONTH:
			window->unit = "month";
			window->months = 1;
			break;
		case DTK_QUARTER:
			window->unit = "quarter";
			window->months = 3;
			break;
		case DTK_YEAR:
			window->unit = "year";
			window->months = MONTHS_PER_YEAR;
			break;
		case DTK_DECADE:
			window->unit = "decade";
			window->months = 10 * MONTHS_PER_YEAR;
			break;
		case DTK_CENTURY:
			window->unit = "century";
			window->months = 100 * MONTHS_PER_YEAR;
			window->first_year = 1;
			break;
		case DTK_MILLENNIUM:
			window->unit = "millennium";
			window->months = 1000 * MONTHS_PER_YEAR;
			window->first_year = 1;
			break;
		default:
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("unit \"%s\" not supported for type %s",
							unit, format_type_be(window->type))));
	}
}

/*
 * date_trunc(unit, time [, zone]).
 */
static bool
recognise_trunc(FuncExpr *call, Node *event_time, TideWindow *window)
{
	if (!recognise_time(lsecond(call->args), event_time, window))
		return false;
	window->kind = TIDE_WINDOW_TRUNC;
	recognise_unit(linitial(call->args), window);
	if (list_length(call->args) == 3)
		window->zone = zone_argument(lthird(call->args), "date_trunc", false);
	else if (window->type == TIMESTAMPTZOID)
		window->zone = session_timezone;
	return true;
}

/*
 * Size and origin of a fixed window.
 */
static void
recognise_fixed(Node *size, Node *origin, const char *function,
				TideWindow *window)
{
	Const	   *value;

	window->kind = TIDE_WINDOW_FIXED;
	value = constant_argument(size, function, "size");
	window->size = interval_size(DatumGetIntervalP(value->constvalue),
								 function);
	value = constant_argument(origin, function, "origin");
	window->origin = DatumGetTimestamp(value->constvalue);
	check_origin(window->origin, function);
}

/*
 * date_bin(size, time, origin).
 */
static bool
recognise_bin(FuncExpr *call, Node *event_time, TideWindow *window)
{
	if (!recognise_time(lsecond(call->args), event_time, window))
		return false;
	recognise_fixed(linitial(call->args), lthird(call->args), "date_bin",
					window);
	return true;
}

/*
 * Is the function tidemark.tumble or tidemark.tumble_start?
 */
static bool
is_tumble(Oid function)
{
	char	   *name;

	if (get_func_namespace(function) != tide_catalog_schema())
		return false;
	name = get_func_name(function);
	return name != NULL &&
		(strcmp(name, "tumble") == 0 || strcmp(name, "tumble_start") == 0);
}

/*
 * tidemark.tumble(time, size, origin), in which defaults may be left out and
 * arguments named.
 */
static bool
recognise_tumble(FuncExpr *call, Node *event_time, TideWindow *window)
{
	HeapTuple	tuple;
	List	   *args;

	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(call->funcid));
	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for function %u", call->funcid);
	args = expand_function_arguments(copyObject(call->args), false,
									 call->funcresulttype, tuple);
	ReleaseSysCache(tuple);

	if (!recognise_time(linitial(args), event_time, window))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("tidemark.tumble must be called with the event time of the stream"),
				 errdetail("Whether a row is late is decided by the event time alone."),
				 errhint("Use the event time as it was given to create_stream, bare or AT TIME ZONE a constant.")));
	recognise_fixed(lsecond(args), lthird(args), "tidemark.tumble", window);
	return true;
}

/*
 * Is the expression a window over the event time?  See window.h.
 */
bool
tide_window_recognise(Node *expr, Node *event_time, TideWindow *window)
{
	memset(window, 0, sizeof(TideWindow));
	if (recognise_time(expr, event_time, window))
	{
		window->kind = TIDE_WINDOW_INSTANT;
		return true;
	}
	if (!IsA(expr, FuncExpr))
		return false;

	switch (((FuncExpr *) expr)->funcid)
	{
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ:
		case F_DATE_TRUNC_TEXT_TIMESTAMPTZ_TEXT:
		case F_DATE_TRUNC_TEXT_TIMESTAMP:
			return recognise_trunc((FuncExpr *) expr, event_time, window);
		case F_DATE_BIN_INTERVAL_TIMESTAMP_TIMESTAMP:
		case F_DATE_BIN_INTERVAL_TIMESTAMPTZ_TIMESTAMPTZ:
			return recognise_bin((FuncExpr *) expr, event_time, window);
		default:
			if (is_tumble(((FuncExpr *) expr)->funcid))
				return recognise_tumble((FuncExpr *) expr, event_time, window);
			return false;
	}
}

/* ---------------------------------------------------------------------------
 * Description
 * ---------------------------------------------------------------------------
 */

/*
 * Append a size in the largest unit that divides it.
 */
static void
describe_size(int64 size, StringInfo out)
{
	static const struct
	{
		int64		usecs;
		const char *name;
	}			units[] = {
		{USECS_PER_DAY, "day"},
		{USECS_PER_HOUR, "hour"},
		{USECS_PER_MINUTE, "minute"},
		{USECS_PER_SEC, "second"},
		{1000, "millisecond"},
		{1, "microsecond"}
	};

	for (int i = 0; i < lengthof(units); i++)
	{
		if (size % units[i].usecs == 0)
		{
			int64		count = size / units[i].usecs;

			appendStringInfo(out, INT64_FORMAT " %s%s", count, units[i].name,
							 count == 1 ? "" : "s");
			return;
		}
	}
}

/*
 * Append a time of the window axis, ISO and UTC whatever the settings.
 */
static void
describe_time(int64 at, bool has_zone, StringInfo out)
{
	struct pg_tm tm;
	fsec_t		fsec;
	char		buffer[MAXDATELEN + 1];

	if (timestamp2tm(at, NULL, &tm, &fsec, NULL, NULL) != 0)
		elog(ERROR, "timestamp out of range: " INT64_FORMAT, at);
	tm.tm_isdst = 0;
	EncodeDateTime(&tm, fsec, has_zone, 0, NULL, USE_ISO_DATES, buffer);
	appendStringInfoString(out, buffer);
}

/*
 * Append what kind of window it is: the same text on every server.
 */
void
tide_window_describe(const TideWindow *window, StringInfo out)
{
	switch (window->kind)
	{
		case TIDE_WINDOW_NONE:
			appendStringInfoString(out, "none");
			return;
		case TIDE_WINDOW_INSTANT:
			appendStringInfoString(out, "event time");
			break;
		case TIDE_WINDOW_FIXED:
			appendStringInfoString(out, "tumble(");
			describe_size(window->size, out);
			appendStringInfoString(out, ", origin ");
			describe_time(window->origin, window->type == TIMESTAMPTZOID, out);
			appendStringInfoChar(out, ')');
			break;
		case TIDE_WINDOW_TRUNC:
			appendStringInfo(out, "date_trunc(%s", window->unit);
			if (window->zone != NULL)
				appendStringInfo(out, ", time zone %s",
								 pg_get_timezone_name(window->zone));
			appendStringInfoChar(out, ')');
			break;
	}

	if (window->shift == TIDE_SHIFT_TO_LOCAL)
		appendStringInfo(out, " on the wall clock of %s",
						 pg_get_timezone_name(window->shift_zone));
	else if (window->shift == TIDE_SHIFT_TO_UTC)
		appendStringInfo(out, " on times taken from the wall clock of %s",
						 pg_get_timezone_name(window->shift_zone));
}

/* ---------------------------------------------------------------------------
 * SQL functions
 * ---------------------------------------------------------------------------
 */

/*
 * The window of tumble_start and tumble_end; false when it cannot be
 * represented or the time is infinite.
 */
static bool
tumble(FunctionCallInfo fcinfo, Timestamp *start, Timestamp *end)
{
	Timestamp	at = PG_GETARG_TIMESTAMP(0);
	Interval   *size = PG_GETARG_INTERVAL_P(1);
	Timestamp	origin = PG_GETARG_TIMESTAMP(2);
	int64		usecs = interval_size(size, "tidemark.tumble");

	check_origin(origin, "tidemark.tumble");
	return !TIMESTAMP_NOT_FINITE(at) &&
		cut_fixed(at, usecs, origin, start) &&
		!pg_add_s64_overflow(*start, usecs, end) &&
		IS_VALID_TIMESTAMP(*start) && IS_VALID_TIMESTAMP(*end);
}

/*
 * tidemark.tumble_start(ts, size, origin): start of the window that holds ts;
 * timestamp and timestamptz alike.  NULL when there is no such window.
 */
Datum
tide_tumble_start(PG_FUNCTION_ARGS)
{
	Timestamp	start;
	Timestamp	end;

	if (!tumble(fcinfo, &start, &end))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMP(start);
}

/*
 * tidemark.tumble_end(ts, size, origin): end of the window that holds ts;
 * timestamp and timestamptz alike.  NULL when there is no such window.
 */
Datum
tide_tumble_end(PG_FUNCTION_ARGS)
{
	Timestamp	start;
	Timestamp	end;

	if (!tumble(fcinfo, &start, &end))
		PG_RETURN_NULL();
	PG_RETURN_TIMESTAMP(end);
}
