/*
 * watermark.c
 *		Event time against the clock: advance, lateness.
 *
 * W0 is in force during a whole batch and W1 comes after it, so judging a row
 * is a comparison with one number, late_before: the start of the first window
 * that is not final at W0 (window.h).  The order of the rows of a batch never
 * matters.
 *
 * The clock caps what a row can do to the watermark: a device whose clock runs
 * a day ahead must not make every other row late.  The cap is per row, min
 * (event time, clock); as the clock is read once a batch, the largest capped
 * time is the capped largest time, and only the largest need be kept.
 *
 * All times are on the event axis.  Differences are checked for overflow: near
 * the ends of the range a sum saturates and a watermark stays where it was.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/int.h"
#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/timestamp.h"

#include "compat.h"
#include "watermark.h"

/*
 * A time of the clock on the event axis.  For event times without zone it is
 * the wall clock of the stream's timezone.
 */
static int64
to_event_axis(const TideStream *stream, bool event_time_is_local,
			  TimestampTz time)
{
	pg_tz	   *zone;

	if (!event_time_is_local)
		return time;

	zone = pg_tzset(stream->timezone);
	if (zone == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" of stream %u is not known to this server",
						stream->timezone, stream->relation),
				 errhint("Set another one with tidemark.alter_stream.")));
	return tide_window_local_time(zone, time);
}

/*
 * The start of a view on the window axis: windows that start earlier are left
 * out, so that no window is partial.
 */
static int64
find_start(const TideWindow *window, const TideStream *stream,
		   const TideView *view, bool event_time_is_local)
{
	if (!view->has_start_at)
		return DT_NOBEGIN;
	if (window->kind != TIDE_WINDOW_NONE &&
		window->shift == TIDE_SHIFT_TO_LOCAL)
		return tide_window_local_time(window->shift_zone, view->start_at);
	if (window->kind != TIDE_WINDOW_NONE && window->shift == TIDE_SHIFT_TO_UTC)
		return view->start_at;

	return to_event_axis(stream, event_time_is_local, view->start_at);
}

/*
 * Fill *judge for one batch of the view over the stream.  window: the view's,
 * used by the judge until the batch ends.  The clock is that of the logical
 * batch's beginning.  max_event_time starts at DT_NOBEGIN: the caller merges
 * it with what earlier pieces of the logical batch saw.
 */
void
tide_watermark_begin(TideJudge *judge, TideWindow *window,
					 const TideStream *stream, const TideView *view,
					 const TideCheckpoint *checkpoint,
					 bool event_time_is_local)
{
	judge->window = window;
	judge->clock = to_event_axis(stream, event_time_is_local,
								 checkpoint->batch_clock);
	judge->delay = view->has_watermark_delay ?
		view->watermark_delay : stream->watermark_delay;
	judge->has_max_future = stream->has_max_future;
	judge->max_future = stream->max_future;
	judge->watermark = checkpoint->watermark;
	judge->late_before = tide_window_boundary(window, checkpoint->watermark);
	judge->not_before = find_start(window, stream, view, event_time_is_local);
	judge->max_event_time = DT_NOBEGIN;
}

/*
 * Is an event time more than max_future ahead of the clock?
 */
static inline bool
is_future(const TideJudge *judge, int64 event_time)
{
	int64		limit;

	if (!judge->has_max_future || event_time <= judge->clock)
		return false;
	if (pg_add_s64_overflow(judge->clock, judge->max_future, &limit))
		return false;
	return event_time > limit;
}

/*
 * Judge one source row and keep the largest event time.  Counts the mark
 * rows_future, but no fate.  A row without a usable event time does not touch
 * the watermark.
 */
TideVerdict
tide_watermark_judge(TideJudge *judge, bool isnull, int64 event_time,
					 TideCounters *counters)
{
	int64		start;
	int64		end;

	if (isnull || TIMESTAMP_NOT_FINITE(event_time))
		return TIDE_VERDICT_NULL_TIME;
	if (!tide_window_assign(judge->window, event_time, &start, &end))
		return TIDE_VERDICT_NULL_TIME;

	if (event_time > judge->max_event_time)
		judge->max_event_time = event_time;
	if (is_future(judge, event_time))
		counters->v[TIDE_ROWS_FUTURE]++;

	if (judge->window->kind == TIDE_WINDOW_NONE)
		start = event_time;
	judge->window_start = start;
	if (start < judge->not_before)
		return TIDE_VERDICT_BEFORE_START;
	return start < judge->late_before ?
		TIDE_VERDICT_LATE : TIDE_VERDICT_ON_TIME;
}

/*
 * W1: never below W0, never above clock - delay unless the cap is lifted.
 */
int64
tide_watermark_advance(const TideJudge *judge)
{
	int64		reached = judge->max_event_time;
	int64		watermark;

	if (TIMESTAMP_IS_NOBEGIN(reached))
		return judge->watermark;
	if (judge->has_max_future && reached > judge->clock)
		reached = judge->clock;
	if (pg_sub_s64_overflow(reached, judge->delay, &watermark) ||
		!IS_VALID_TIMESTAMP(watermark))
		return judge->watermark;
	return Max(watermark, judge->watermark);
}

/*
 * A span of time given as a parameter, in microseconds; a day has 24 hours.
 * Ereports what is infinite, negative, or has months.
 */
int64
tide_watermark_read_delay(const Interval *interval, const char *parameter)
{
	int64		usec;

	if (!TIDE_INTERVAL_IS_FINITE(interval))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must be finite", parameter)));
	if (interval->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not have months or years", parameter),
				 errdetail("They are not of equal length."),
				 errhint("Use days: a day counts as 24 hours.")));
	if (pg_mul_s64_overflow(interval->day, USECS_PER_DAY, &usec) ||
		pg_add_s64_overflow(usec, interval->time, &usec) ||
		usec > PG_INT64_MAX / 2)
		ereport(ERROR,
				(errcode(ERRCODE_DATETIME_FIELD_OVERFLOW),
				 errmsg("%s is too long", parameter)));
	if (usec < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s must not be negative", parameter)));

	return usec;
}

/*
 * A time on the event axis of a stream as a time on the clock: the same, or,
 * when event times are of type timestamp, its wall clock in the stream's zone.
 */
TimestampTz
tide_watermark_to_timestamptz(const TideStream *stream, int64 event_time)
{
	AttrNumber	event_time_column = 1;

	if (TIMESTAMP_NOT_FINITE(event_time) ||
		get_atttype(stream->definition, event_time_column) != TIMESTAMPOID)
		return event_time;

	return DatumGetTimestampTz(DirectFunctionCall2(timestamp_zone,
												   CStringGetTextDatum(stream->timezone),
												   TimestampGetDatum(event_time)));
}
