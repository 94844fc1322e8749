/*
 * fault.c
 *		Fault and wait points of test builds (-DTIDE_FAULTS).
 *
 * That no row is lost or doubled is shown by stopping the work at every place
 * where it could be: TIDE_FAULT("point") stands before and after each durable
 * step.  In other builds it is nothing.
 *
 * A point is armed by the SQL function tide_fault_set, which the extension's
 * script does not have: the test creates it.  An armed point acts once, in the
 * first process (of the given kind) that reaches it for the given time, and says so in the log,
 * which survives what shared memory does not.
 *
 *	 error		ereport(ERROR)
 *	 cancel		what pg_cancel_backend does
 *	 terminate	what pg_terminate_backend does
 *	 kill		SIGKILL, so that the whole server recovers from the crash
 *	 wait		until the point is set to "off"
 *
 * Preloaded, points are the cluster's and every process counts its hits; else
 * they are the session's.
 *
 * LOCKING: a spinlock, for a few instructions.
 */
#include "postgres.h"

#ifdef TIDE_FAULTS

#include <signal.h>

#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "fault.h"

#define MAX_POINTS 128
#define MAX_TEXT 64

/* a point that was reached or armed */
typedef struct Point
{
	char		name[MAX_TEXT];
	char		action[MAX_TEXT];	/* "off": not armed */
	char		who[MAX_TEXT];	/* "worker", "session", or anybody */
	int			countdown;		/* acts when it comes to 0 */
	int64		hits;
	int64		fired;
	int			waiting;
} Point;

typedef struct Points
{
	slock_t		mutex;
	ConditionVariable released;
	int			npoints;
	Point		points[MAX_POINTS];
} Points;

static Points *all_points = NULL;
static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

PG_FUNCTION_INFO_V1(tide_fault_set);
PG_FUNCTION_INFO_V1(tide_fault_points);

/* Ask for memory. */
static void
request_memory(void)
{
	if (previous_request_hook)
		previous_request_hook();
	RequestAddinShmemSpace(sizeof(Points));
}

/* Nothing is known yet. */
static void
init_points(Points *points)
{
	memset(points, 0, sizeof(*points));
	SpinLockInit(&points->mutex);
	ConditionVariableInit(&points->released);
}

/* Find the memory, or set it up. */
static void
start_memory(void)
{
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();
	all_points = ShmemInitStruct("tidemark fault points", sizeof(Points),
								 &found);
	if (!found)
		init_points(all_points);
}

/* Called when the library is loaded. */
void
tide_fault_init(void)
{
	if (process_shared_preload_libraries_in_progress)
	{
		previous_request_hook = shmem_request_hook;
		shmem_request_hook = request_memory;
		previous_startup_hook = shmem_startup_hook;
		shmem_startup_hook = start_memory;
		return;
	}

	/* in TopMemoryContext: as long as the session */
	all_points = MemoryContextAlloc(TopMemoryContext, sizeof(Points));
	init_points(all_points);
}

/* The point of a name, made if need be; the spinlock is held. */
static Point *
find_point(const char *name)
{
	Point	   *point;
	int			i;

	for (i = 0; i < all_points->npoints; i++)
		if (strcmp(all_points->points[i].name, name) == 0)
			return &all_points->points[i];
	if (all_points->npoints == MAX_POINTS)
		return NULL;
	point = &all_points->points[all_points->npoints++];
	strlcpy(point->name, name, MAX_TEXT);
	strlcpy(point->action, "off", MAX_TEXT);

	return point;
}

/* Is the point armed with a wait still?  Adds to the number of who waits. */
static bool
count_waiting(Point *point, int change)
{
	bool		is_armed;

	SpinLockAcquire(&all_points->mutex);
	point->waiting += change;
	is_armed = strcmp(point->action, "wait") == 0;
	SpinLockRelease(&all_points->mutex);

	return is_armed;
}

/* Wait until the point is set to something else. */
static void
wait_at(Point *point)
{
	(void) count_waiting(point, 1);
	PG_TRY();
	{
		ConditionVariablePrepareToSleep(&all_points->released);
		while (count_waiting(point, 0))
			ConditionVariableSleep(&all_points->released, PG_WAIT_EXTENSION);
		ConditionVariableCancelSleep();
	}
	PG_FINALLY();
	{
		(void) count_waiting(point, -1);
	}
	PG_END_TRY();
}

/* Do what the point is armed with. */
static void
act(const char *name, const char *action)
{
	/* to the server's log, for the test; a session is told by the error */
	ereport(LOG_SERVER_ONLY,
			(errmsg("fault point \"%s\" acts: %s", name, action)));
	if (strcmp(action, "error") == 0)
		ereport(ERROR,
				(errcode(ERRCODE_EXTERNAL_ROUTINE_EXCEPTION),
				 errmsg("error at fault point \"%s\"", name)));
	else if (strcmp(action, "kill") == 0)
		kill(MyProcPid, SIGKILL);
	else if (strcmp(action, "cancel") == 0)
		kill(MyProcPid, SIGINT);
	else if (strcmp(action, "terminate") == 0)
		kill(MyProcPid, SIGTERM);
	CHECK_FOR_INTERRUPTS();
}

/* Does the point act in this kind of process? */
static bool
is_meant(const Point *point)
{
	bool		is_worker = MyBackendType == B_BG_WORKER;

	if (strcmp(point->who, "worker") == 0)
		return is_worker;
	if (strcmp(point->who, "session") == 0)
		return !is_worker;

	return true;
}

/* A point is reached. */
void
tide_fault_reach(const char *name)
{
	Point	   *point;
	char		action[MAX_TEXT] = "off";

	if (all_points == NULL)
		return;
	SpinLockAcquire(&all_points->mutex);
	point = find_point(name);
	if (point != NULL)
	{
		point->hits++;
		if (point->countdown > 0 && is_meant(point) &&
			--point->countdown == 0)
		{
			strlcpy(action, point->action, MAX_TEXT);
			point->fired++;
			if (strcmp(action, "wait") != 0)
				strlcpy(point->action, "off", MAX_TEXT);
		}
	}
	SpinLockRelease(&all_points->mutex);

	if (point == NULL)
		elog(ERROR, "too many fault points");
	if (strcmp(action, "wait") == 0)
		wait_at(point);
	else if (strcmp(action, "off") != 0)
		act(name, action);
}

/*
 * tide_fault_set(point, action, nth, who): arm a point to act when such a
 * process reaches it for the nth time from now; "off" disarms it and lets who
 * waits there go on.
 */
Datum
tide_fault_set(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	char	   *action = text_to_cstring(PG_GETARG_TEXT_PP(1));
	int			nth = PG_GETARG_INT32(2);
	char	   *who = text_to_cstring(PG_GETARG_TEXT_PP(3));
	Point	   *point;

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to set a fault point")));
	SpinLockAcquire(&all_points->mutex);
	point = find_point(name);
	if (point != NULL)
	{
		strlcpy(point->action, action, MAX_TEXT);
		strlcpy(point->who, who, MAX_TEXT);
		point->countdown = strcmp(action, "off") == 0 ? 0 : nth;
	}
	SpinLockRelease(&all_points->mutex);
	ConditionVariableBroadcast(&all_points->released);

	PG_RETURN_VOID();
}

/* tide_fault_points(): rows (point, countdown, hits, fired, waiting) */
Datum
tide_fault_points(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Points	   *copy = palloc(sizeof(Points));
	int			i;

	InitMaterializedSRF(fcinfo, MAT_SRF_USE_EXPECTED_DESC);
	SpinLockAcquire(&all_points->mutex);
	memcpy(copy, all_points, sizeof(Points));
	SpinLockRelease(&all_points->mutex);
	for (i = 0; i < copy->npoints; i++)
	{
		Point	   *point = &copy->points[i];
		Datum		values[5];
		bool		nulls[5] = {false};

		values[0] = CStringGetTextDatum(point->name);
		values[1] = Int32GetDatum(point->countdown);
		values[2] = Int64GetDatum(point->hits);
		values[3] = Int64GetDatum(point->fired);
		values[4] = Int32GetDatum(point->waiting);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}

	return (Datum) 0;
}

#endif							/* TIDE_FAULTS */
