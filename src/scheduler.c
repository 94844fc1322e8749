/*
 * scheduler.c
 *		Schedulers: one in each database that has continuous views.
 *
 * The scheduler knows the views of its database, decides which are due, and
 * hands each to a batch worker.  It runs nothing itself, so it answers a
 * commit at once, whatever the workers are at.
 *
 * Deciding is next_start(), a pure function of what is known of a view and of
 * the commit generation: it gives the time at which the view is to be run.
 * The loop collects reports, starts what is due, and sleeps until the next of
 * these times; a commit, a report or a change of our tables wakes it earlier.
 * When nothing is committed, it sleeps until the fallback poll.
 *
 * The scheduler is asked for a latch only when a commit would change something
 * (is_waiting_for_commit): under load it is woken once a batch, not once a
 * commit.
 *
 * A view is never with two workers: it is marked running until its report
 * comes or its worker is gone.  Beyond that the checkpoint's row lock keeps
 * two runners apart (batch.c).
 *
 * LOCKING	none of its own; shmem.c locks inside.
 * MEMORY	scheduler context: the views, while the process lives; cycle context:
 *			reset at the loop's head.
 * TRANSACTIONS	one short one for reading our tables; none while sleeping.
 *
 * INVARIANTS
 *	I1 The commit generation that a run starts with is read before the run is
 *	   handed over, so a commit that the batch's snapshot may have missed makes
 *	   the view due again.
 *	I2 The same of the catalog generation and the reading of our tables.
 */
#include "postgres.h"

#include <limits.h>

#include "access/xact.h"
#include "libpq/pqsignal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "catalog.h"
#include "compat.h"
#include "guc.h"
#include "restore.h"
#include "scheduler.h"
#include "stream.h"
#include "view.h"
#include "worker.h"

/* a worker more than one leaves after that long without work */
#define TIDE_IDLE_WORKER_MS 10000

/* a registered worker that has not started by then is given up */
#define TIDE_WORKER_START_MS 30000

/* look again while a position has transactions in progress */
#define TIDE_WRITER_POLL_MS 1000

/* a restore is going on, or something to make good is locked */
#define TIDE_REPAIR_MS 1000

/* between two looks after the stamp index of a view's stream */
#define TIDE_MAINTAIN_MS 10000

/*
 * When no worker could be registered: doubled up to the longest wait, and
 * logged after a while.  A process that has just ended keeps its place with
 * the postmaster for some milliseconds.
 */
#define TIDE_REGISTER_RETRY_MS 20
#define TIDE_REGISTER_RETRY_MAX_MS 2000
#define TIDE_REGISTER_REPORT_MS 5000

/* another runner holds the view: wait that long, doubled up to the second */
#define TIDE_BUSY_MS 10
#define TIDE_BUSY_MAX_MS 1000

/* with too many databases for the workers, each keeps its last one so long */
#define TIDE_WORKER_SHARE_MS 1000

/* what is known of a view */
typedef struct Schedule
{
	Oid			view;			/* hash key */
	bool		is_listed;		/* seen by the last reading of the catalog */
	int64		trigger_usec;
	bool		is_paused;

	bool		is_running;
	int			slot;			/* of the worker it runs in, or ran in last */
	uint32		worker_generation;

	bool		is_new;			/* never run by this scheduler */
	bool		has_more;		/* the last run left pieces to read */
	bool		waits_for_writers;
	bool		has_failed;		/* there is a failure row */
	uint64		seen_commits;	/* commit generation at the last start */
	TimestampTz started_at;		/* of the last run */
	TimestampTz noticed_at;		/* commits since then: first seen when; or 0 */
	TimestampTz not_before;		/* after a failure, or when held by others */
	int			nbusy;			/* runs in a row that came to nothing */

	bool		is_maintained;	/* maintenance is running */
	bool		wants_maintenance;
	TimestampTz maintain_at;
} Schedule;

/* a dynamic worker that was registered by this scheduler */
typedef struct Registration
{
	TideWorkerArgs args;
	BackgroundWorkerHandle *handle; /* NULL: none, or it runs */
} Registration;

typedef struct Scheduler
{
	MemoryContext context;
	MemoryContext cycle;
	HTAB	   *schedules;
	Registration *registrations;	/* one a slot */
	uint64		catalog_generation; /* that was read */
	TimestampTz read_at;		/* our tables were read */
	TimestampTz register_at;	/* no worker is registered before */
	TimestampTz full_since;		/* none could be registered since; or 0 */
	int			nfull;			/* times in a row */
	bool		has_reported_full;
	bool		must_read;
	TimestampTz repair_at;		/* something is left to be made good; or 0 */
	bool		wants_worker;	/* waits for a slot */

	/* of one cycle */
	TideWorker *workers;
	int			nworkers;
	int			nstarted;		/* more of them, registered in this cycle */
	bool		is_slot_wanted; /* by another database */
	uint64		commits;
} Scheduler;

PGDLLEXPORT void tide_scheduler_main(Datum main_arg);

static Scheduler *make_scheduler(void);
static bool run_cycle(Scheduler *self);
static bool read_catalog(Scheduler *self);
static void collect_reports(Scheduler *self, TimestampTz now);
static void start_due_views(Scheduler *self, TimestampTz now);
static void start_maintenance(Scheduler *self, TimestampTz now);
static void release_workers(Scheduler *self, TimestampTz now);
static long time_to_sleep(Scheduler *self, TimestampTz now);

/*
 * Register a scheduler for a database.  *handle is allocated in the current
 * memory context.
 */
bool
tide_scheduler_register(const TideWorkerArgs *args,
						BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;

	tide_worker_describe(&worker, "scheduler", "tide_scheduler_main",
						 args->dboid);
	memcpy(worker.bgw_extra, args, sizeof(*args));
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

/*
 * Main function of a scheduler.
 */
void
tide_scheduler_main(Datum main_arg)
{
	TideWorkerArgs args;
	Scheduler  *self;

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	if (!tide_shmem_available() || !tide_shmem_attach_scheduler(&args))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(args.dboid, InvalidOid, 0);
	tide_shmem_scheduler_connected();

	self = make_scheduler();
	while (run_cycle(self))
		;
	proc_exit(0);
}

/* a scheduler that knows nothing yet */
static Scheduler *
make_scheduler(void)
{
	MemoryContext context;
	Scheduler  *self;
	HASHCTL		control = {0};

	context = AllocSetContextCreate(TopMemoryContext, "tidemark scheduler",
									ALLOCSET_DEFAULT_SIZES);
	self = MemoryContextAllocZero(context, sizeof(Scheduler));
	self->context = context;
	self->cycle = AllocSetContextCreate(context, "tidemark scheduler cycle",
										ALLOCSET_DEFAULT_SIZES);
	self->registrations =
		MemoryContextAllocZero(context,
							   tide_max_workers * sizeof(Registration));
	self->must_read = true;

	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(Schedule);
	control.hcxt = context;
	self->schedules = hash_create("tidemark views", 64, &control,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return self;
}

/*
 * One turn of the loop: collect, read our tables, start what is due, sleep.
 * False: the scheduler is to end.
 */
static bool
run_cycle(Scheduler *self)
{
	TimestampTz now;
	bool		must_leave;

	MemoryContextReset(self->cycle);
	MemoryContextSwitchTo(self->cycle);

	self->commits = tide_shmem_commit_generation();	/* I1 */
	self->nstarted = 0;
	self->workers = palloc(tide_max_workers * sizeof(TideWorker));
	self->nworkers = tide_shmem_collect(self->workers, &must_leave,
										&self->is_slot_wanted);
	if (must_leave)
		return false;

	now = GetCurrentTimestamp();
	collect_reports(self, now);

	if (self->must_read ||
		self->catalog_generation != tide_shmem_catalog_generation() ||
		(self->repair_at != 0 && self->repair_at <= now) ||
		TimestampDifferenceExceeds(self->read_at, now,
								   tide_poll_interval * 1000))
	{
		if (!read_catalog(self))
		{
			if (tide_shmem_leave_empty(self->catalog_generation))
				return false;
			return true;
		}
		now = GetCurrentTimestamp();
	}

	start_due_views(self, now);
	start_maintenance(self, now);
	release_workers(self, now);

	tide_shmem_sleep(time_to_sleep(self, now), TIDE_WAIT_SCHEDULER);
	return true;
}

/* ---------------------------------------------------------------------------
 * What is due
 * ------------------------------------------------------------------------- */

/*
 * The first point of an interval's grid at or after a time.  The grid is that
 * of multiples of the interval since 1970-01-01 00:00 UTC.
 */
static TimestampTz
grid_at_or_after(TimestampTz time, int64 interval)
{
	int64		epoch = (int64) (POSTGRES_EPOCH_JDATE - UNIX_EPOCH_JDATE) *
		USECS_PER_DAY;
	int64		past = (time + epoch) % interval;

	return past == 0 ? time : time + (interval - past);
}

/*
 * When is the view to be run?  A time that has passed means now; DT_NOEND
 * means not before something happens.  commits is the commit generation.
 *
 * - manual and paused views, and views that are running: never;
 * - a view that is new, has pieces left, or has failed: as soon as it may;
 * - on commit: as soon as it may when there were commits since the last start,
 *	 once a second while its position waits for writers, else at the fallback
 *	 poll;
 * - interval: the same, on the grid.  A run that took longer than the interval
 *	 has passed a point of the grid, so that the next one starts at once and
 *	 the one after it is on the grid again.
 *
 * No sooner than tidemark.min_batch_interval after the last start, and not
 * before a back-off is over.
 */
static TimestampTz
next_start(const Schedule *schedule, uint64 commits)
{
	TimestampTz earliest;
	TimestampTz at;

	if (schedule->is_running || schedule->is_paused ||
		schedule->trigger_usec == TIDE_TRIGGER_MANUAL)
		return DT_NOEND;

	earliest = Max(schedule->not_before,
				   TimestampTzPlusMilliseconds(schedule->started_at,
											   tide_min_batch_interval));
	if (schedule->is_new || schedule->has_more || schedule->has_failed)
		return earliest;

	at = schedule->started_at + tide_poll_interval * USECS_PER_SEC;
	if (schedule->waits_for_writers)
		at = Min(at,
				 TimestampTzPlusMilliseconds(schedule->started_at,
											 TIDE_WRITER_POLL_MS));
	if (schedule->seen_commits != commits)
		at = Min(at, schedule->noticed_at);

	if (schedule->trigger_usec > 0)
	{
		/* after the last start, but its own point of the grid is taken */
		at = Max(at, schedule->started_at + 1);
		at = grid_at_or_after(at, schedule->trigger_usec);
	}
	return Max(at, earliest);
}

/*
 * Would a commit make the view due earlier than it is now?
 */
static bool
is_waiting_for_commit(const Schedule *schedule, uint64 commits)
{
	return !schedule->is_running && !schedule->is_paused &&
		!schedule->has_failed && !schedule->has_more && !schedule->is_new &&
		schedule->trigger_usec != TIDE_TRIGGER_MANUAL &&
		schedule->seen_commits == commits;
}

/* ---------------------------------------------------------------------------
 * Reading our tables
 * ------------------------------------------------------------------------- */

/* take over a view's row and failure */
static void
update_schedule(Scheduler *self, const TideView *view)
{
	Schedule   *schedule;
	TideFailure *failure;
	bool		found;

	schedule = hash_search(self->schedules, &view->view, HASH_ENTER, &found);
	if (!found)
	{
		memset(schedule, 0, sizeof(*schedule));
		schedule->view = view->view;
		schedule->is_new = true;
		schedule->slot = -1;
	}
	schedule->is_listed = true;
	schedule->trigger_usec = view->trigger_usec;
	schedule->is_paused = view->paused;

	/* while it runs, its report will tell */
	if (schedule->is_running)
		return;
	failure = tide_catalog_read_failure(view->view);
	if (failure != NULL)
		schedule->not_before = failure->next_try;
	else if (schedule->has_failed)
	{
		/* the user has reset it, or it could not be recorded */
		schedule->not_before = 0;
		schedule->is_new = true;
	}
	schedule->has_failed = failure != NULL;
}

/* read everything; in a transaction.  False: there is nothing to do here */
static bool
read_views(Scheduler *self)
{
	HASH_SEQ_STATUS scan;
	Schedule   *schedule;
	List	   *views;
	ListCell   *cell;

	if (!tide_catalog_exists())
		return false;
	views = tide_catalog_read_views();

	hash_seq_init(&scan, self->schedules);
	while ((schedule = hash_seq_search(&scan)) != NULL)
		schedule->is_listed = false;

	foreach(cell, views)
		update_schedule(self, lfirst(cell));

	hash_seq_init(&scan, self->schedules);
	while ((schedule = hash_seq_search(&scan)) != NULL)
	{
		if (!schedule->is_listed)
			hash_search(self->schedules, &schedule->view, HASH_REMOVE, NULL);
	}
	return views != NIL;
}

/* does the extension exist?  In a transaction of its own */
static bool
extension_exists(void)
{
	bool		exists;

	tide_worker_begin();
	exists = tide_catalog_exists();
	tide_worker_commit();
	return exists;
}

/*
 * Make good what a restore has left, and collect what is left of what was
 * dropped; when that cannot be done now, again in a while.  An error stops no
 * view: it is logged, and what it concerns is tried again with the next
 * reading of our tables.
 */
static void
repair_catalog(Scheduler *self)
{
	MemoryContext context = CurrentMemoryContext;
	volatile bool is_complete = true;

	PG_TRY();
	{
		tide_worker_begin();
		PushActiveSnapshot(GetTransactionSnapshot());
		if (tide_catalog_exists())
		{
			is_complete = !tide_restore_is_running();
			if (is_complete)
			{
				is_complete = tide_stream_repair();
				is_complete &= tide_view_repair();
			}
		}
		PopActiveSnapshot();
		tide_worker_commit();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		QueryCancelPending = false;
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);

	self->repair_at = is_complete ? 0 :
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(), TIDE_REPAIR_MS);
}

/*
 * Read our tables in a transaction.  False: no extension or no view.
 *
 * DROP EXTENSION may commit while we wait for a lock on one of its tables, in
 * which case the error is no error.  Any other one ends the process; the
 * launcher starts another after a while.
 */
static bool
read_catalog(Scheduler *self)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;
	volatile bool has_views = false;

	self->must_read = false;
	self->catalog_generation = tide_shmem_catalog_generation(); /* I2 */
	repair_catalog(self);

	PG_TRY();
	{
		tide_worker_begin();
		PushActiveSnapshot(GetTransactionSnapshot());
		has_views = read_views(self);
		PopActiveSnapshot();
		tide_worker_commit();
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		QueryCancelPending = false;
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);

	if (error != NULL && extension_exists())
		ReThrowError(error);

	self->read_at = GetCurrentTimestamp();
	pgstat_report_stat(true);
	return error == NULL && has_views;
}

/* ---------------------------------------------------------------------------
 * Reports
 * ------------------------------------------------------------------------- */

/* what a batch reported, taken over into the view's schedule */
static void
apply_report(Scheduler *self, Schedule *schedule, const TideReport *report,
			 TimestampTz now)
{
	schedule->is_running = false;

	/*
	 * Commits during the run: for an interval it counts that a point of the
	 * grid has passed since then, if one has.
	 */
	schedule->noticed_at = schedule->seen_commits != self->commits ?
		schedule->started_at : 0;

	if (report->is_failed)
	{
		schedule->has_failed = true;
		schedule->not_before = report->next_try;
		return;
	}
	if (report->is_busy || report->is_gone)
	{
		/* is_new: what it was to look at is still to be looked at */
		schedule->is_new = true;
		schedule->nbusy++;
		schedule->not_before =
			TimestampTzPlusMilliseconds(now,
										Min(TIDE_BUSY_MAX_MS,
											TIDE_BUSY_MS <<
											Min(schedule->nbusy, 10)));
		self->must_read |= report->is_gone;
		return;
	}

	schedule->is_new = false;
	schedule->has_failed = false;
	schedule->nbusy = 0;
	schedule->not_before = report->has_more ?
		TimestampTzPlusMilliseconds(now, tide_piece_delay) : 0;
	schedule->has_more = report->has_more;
	schedule->waits_for_writers = report->waits_for_writers;
	if (report->is_done && !schedule->wants_maintenance)
	{
		schedule->wants_maintenance = true;
		schedule->maintain_at = Max(schedule->maintain_at,
									TimestampTzPlusMilliseconds(now,
																TIDE_MAINTAIN_MS));
	}
}

/* take over the report of one worker */
static void
collect_report(Scheduler *self, TideWorker *worker, TimestampTz now)
{
	Schedule   *schedule;

	worker->state = TIDE_WORKER_IDLE;
	schedule = hash_search(self->schedules, &worker->task.view, HASH_FIND,
						   NULL);
	if (schedule == NULL)
		return;					/* dropped meanwhile */

	if (worker->task.kind == TIDE_TASK_MAINTAIN)
	{
		schedule->is_maintained = false;
		if (worker->report.is_failed)
		{
			schedule->wants_maintenance = true;
			schedule->maintain_at = worker->report.next_try;
		}
	}
	else if (schedule->is_running && schedule->slot == worker->slot &&
			 schedule->worker_generation == worker->generation)
		apply_report(self, schedule, &worker->report, now);
}

/*
 * A worker that was registered and has not taken its place: give it up when it
 * cannot any more, or takes too long.
 */
static void
check_registration(Scheduler *self, Registration *registration,
				   TimestampTz now)
{
	BgwHandleStatus status;
	TideWorker *worker = NULL;
	pid_t		pid;
	int			i;

	for (i = 0; i < self->nworkers; i++)
	{
		if (self->workers[i].slot == registration->args.slot &&
			self->workers[i].generation == registration->args.generation)
			worker = &self->workers[i];
	}

	if (worker != NULL && worker->pid == 0)
	{
		bool		is_late = TimestampDifferenceExceeds(worker->started_at,
														 now,
														 TIDE_WORKER_START_MS);

		status = GetBackgroundWorkerPid(registration->handle, &pid);
		if (status != BGWH_STOPPED && !is_late)
			return;
		if (status != BGWH_STOPPED)
			TerminateBackgroundWorker(registration->handle);
		tide_shmem_cancel_worker(&registration->args);
		worker->state = TIDE_WORKER_FREE;
	}
	pfree(registration->handle);
	registration->handle = NULL;
}

/* is there a worker that looks after the view's stream? */
static bool
has_maintainer(Scheduler *self, const Schedule *schedule)
{
	int			i;

	for (i = 0; i < self->nworkers; i++)
	{
		const TideWorker *worker = &self->workers[i];

		if (worker->task.kind == TIDE_TASK_MAINTAIN &&
			worker->task.view == schedule->view &&
			(worker->state == TIDE_WORKER_ASSIGNED ||
			 worker->state == TIDE_WORKER_RUNNING))
			return true;
	}
	return false;
}

/* is the worker that runs the view still there? */
static bool
has_runner(Scheduler *self, const Schedule *schedule)
{
	int			i;

	for (i = 0; i < self->nworkers; i++)
	{
		const TideWorker *worker = &self->workers[i];

		if (worker->slot == schedule->slot &&
			worker->generation == schedule->worker_generation &&
			worker->state != TIDE_WORKER_FREE)
			return true;
	}
	return false;
}

/*
 * Take over all reports, and find the views whose worker has gone without one
 * (terminated, say): they are tried again after a wait.
 */
static void
collect_reports(Scheduler *self, TimestampTz now)
{
	HASH_SEQ_STATUS scan;
	Schedule   *schedule;
	int			i;

	for (i = 0; i < self->nworkers; i++)
	{
		if (self->workers[i].state == TIDE_WORKER_DONE)
			collect_report(self, &self->workers[i], now);
	}
	for (i = 0; i < tide_max_workers; i++)
	{
		if (self->registrations[i].handle != NULL)
			check_registration(self, &self->registrations[i], now);
	}

	hash_seq_init(&scan, self->schedules);
	while ((schedule = hash_seq_search(&scan)) != NULL)
	{
		if (schedule->is_running && !has_runner(self, schedule))
		{
			schedule->is_running = false;
			schedule->is_new = true;
			schedule->not_before =
				TimestampTzPlusMilliseconds(now, tide_retry_interval);
		}
		if (schedule->is_maintained && !has_maintainer(self, schedule))
			schedule->is_maintained = false;
		if (!schedule->is_running && schedule->noticed_at == 0 &&
			schedule->seen_commits != self->commits)
			schedule->noticed_at = now;
	}
}

/* ---------------------------------------------------------------------------
 * Starting
 * ------------------------------------------------------------------------- */

/*
 * The idle worker to give a view to, or NULL: the one that ran it last has its
 * caches warm.
 */
static TideWorker *
pick_worker(Scheduler *self, const Schedule *schedule)
{
	TideWorker *pick = NULL;
	int			i;

	for (i = 0; i < self->nworkers; i++)
	{
		TideWorker *worker = &self->workers[i];

		if (worker->state != TIDE_WORKER_IDLE || worker->must_leave)
			continue;
		if (worker->last_view == schedule->view)
			return worker;
		if (pick == NULL || pick->last_view != InvalidOid)
			pick = worker;
	}
	return pick;
}

/*
 * No worker could be registered: wait, and tell the log once if that lasts.
 */
static void
note_full(Scheduler *self, TimestampTz now)
{
	int			wait_ms = Min(TIDE_REGISTER_RETRY_MAX_MS,
							  TIDE_REGISTER_RETRY_MS << Min(self->nfull, 10));

	if (self->nfull++ == 0)
		self->full_since = now;
	self->register_at = TimestampTzPlusMilliseconds(now, wait_ms);

	if (self->has_reported_full ||
		!TimestampDifferenceExceeds(self->full_since, now,
									TIDE_REGISTER_REPORT_MS))
		return;
	self->has_reported_full = true;
	ereport(LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not register a batch worker of tidemark"),
			 errdetail("All background worker slots are in use."),
			 errhint("Consider increasing max_worker_processes, or lower tidemark.max_workers.")));
}

/*
 * Start another worker for a task.  Returns false when there can be none now.
 */
static bool
start_worker(Scheduler *self, const TideTask *task, Schedule *schedule,
			 TimestampTz now)
{
	TideWorkerArgs args;
	Registration *registration;
	MemoryContext context;
	bool		is_registered;

	/* a free slot is for the database that has waited for it */
	if (self->is_slot_wanted && !self->wants_worker)
		return false;
	if (now < self->register_at || !tide_shmem_start_worker(task, &args))
		return false;

	registration = &self->registrations[args.slot];
	if (registration->handle != NULL)
		pfree(registration->handle);
	registration->handle = NULL;
	registration->args = args;

	context = MemoryContextSwitchTo(self->context);
	is_registered = tide_worker_register(&args, &registration->handle);
	MemoryContextSwitchTo(context);

	if (!is_registered)
	{
		tide_shmem_cancel_worker(&args);
		registration->handle = NULL;
		note_full(self, now);
		return false;
	}

	self->full_since = 0;
	self->nfull = 0;
	self->has_reported_full = false;
	self->nstarted++;
	schedule->slot = args.slot;
	schedule->worker_generation = args.generation;
	return true;
}

/*
 * Hand a view to a worker, an idle one or a new one.
 */
static bool
start_view(Scheduler *self, Schedule *schedule, TimestampTz now)
{
	TideTask	task;
	TideWorker *worker;
	bool		is_started = false;

	task.kind = TIDE_TASK_BATCH;
	task.view = schedule->view;
	task.has_failed = schedule->has_failed;

	while (!is_started &&
		   (worker = pick_worker(self, schedule)) != NULL)
	{
		/* it is taken, or on its way out */
		worker->state = TIDE_WORKER_ASSIGNED;
		is_started = tide_shmem_assign(worker, &task);
		schedule->slot = worker->slot;
		schedule->worker_generation = worker->generation;
	}
	if (!is_started)
		is_started = start_worker(self, &task, schedule, now);
	if (!is_started)
		return false;

	schedule->is_running = true;
	schedule->started_at = now;
	schedule->seen_commits = self->commits;
	schedule->noticed_at = 0;
	return true;
}

/* which of two due views has waited longer, for qsort */
static int
compare_due(const void *left, const void *right)
{
	const Schedule *a = *(Schedule *const *) left;
	const Schedule *b = *(Schedule *const *) right;

	if (a->started_at != b->started_at)
		return a->started_at < b->started_at ? -1 : 1;
	return a->view < b->view ? -1 : a->view > b->view;
}

/*
 * Give up an idle worker to a database that has none: one of several at once,
 * the only one after its share of time.
 */
static void
share_worker(Scheduler *self, TimestampTz now)
{
	TideWorker *idle = NULL;
	int			i;

	if (!self->is_slot_wanted)
		return;
	for (i = 0; i < self->nworkers; i++)
	{
		if (self->workers[i].state == TIDE_WORKER_IDLE)
			idle = &self->workers[i];
	}
	if (idle == NULL ||
		(self->nworkers == 1 &&
		 !TimestampDifferenceExceeds(idle->started_at, now,
									 TIDE_WORKER_SHARE_MS)))
		return;

	tide_shmem_dismiss_worker(idle);
	idle->state = TIDE_WORKER_FREE;
}

/*
 * Start what is due, the view that has waited longest first.
 */
static void
start_due_views(Scheduler *self, TimestampTz now)
{
	HASH_SEQ_STATUS scan;
	Schedule   *schedule;
	Schedule  **due;
	int			ndue = 0;
	int			i;

	share_worker(self, now);

	due = palloc(Max(1, hash_get_num_entries(self->schedules)) *
				 sizeof(Schedule *));
	hash_seq_init(&scan, self->schedules);
	while ((schedule = hash_seq_search(&scan)) != NULL)
	{
		if (next_start(schedule, self->commits) <= now)
			due[ndue++] = schedule;
	}
	qsort(due, ndue, sizeof(Schedule *), compare_due);

	for (i = 0; i < ndue; i++)
	{
		if (!start_view(self, due[i], now))
			break;
	}

	/* also when the processes run out: others' idle workers are processes */
	self->wants_worker = i < ndue && self->nworkers + self->nstarted == 0;
	tide_shmem_want_worker(self->wants_worker);
}

/*
 * Let an idle worker look after the stamp index of one stream.  Never starts
 * a worker for it.
 */
static void
start_maintenance(Scheduler *self, TimestampTz now)
{
	HASH_SEQ_STATUS scan;
	Schedule   *schedule;

	hash_seq_init(&scan, self->schedules);
	while ((schedule = hash_seq_search(&scan)) != NULL)
	{
		TideTask	task;
		TideWorker *worker;

		if (!schedule->wants_maintenance || schedule->is_maintained ||
			schedule->is_running || schedule->maintain_at > now)
			continue;
		worker = pick_worker(self, schedule);
		if (worker == NULL)
		{
			hash_seq_term(&scan);
			break;
		}
		task.kind = TIDE_TASK_MAINTAIN;
		task.view = schedule->view;
		task.has_failed = false;
		worker->state = TIDE_WORKER_ASSIGNED;
		if (tide_shmem_assign(worker, &task))
		{
			schedule->is_maintained = true;
			schedule->wants_maintenance = false;
			schedule->maintain_at =
				TimestampTzPlusMilliseconds(now, TIDE_MAINTAIN_MS);
		}
	}
}

/*
 * Send away workers that had nothing to do for a while, all but one: that the
 * first batch after a pause starts at once.
 */
static void
release_workers(Scheduler *self, TimestampTz now)
{
	int			nleft = 0;
	int			i;

	for (i = 0; i < self->nworkers; i++)
		nleft += self->workers[i].state != TIDE_WORKER_FREE;
	for (i = 0; i < self->nworkers && nleft > 1; i++)
	{
		TideWorker *worker = &self->workers[i];

		if (worker->state == TIDE_WORKER_IDLE &&
			TimestampDifferenceExceeds(worker->since, now,
									   TIDE_IDLE_WORKER_MS))
		{
			tide_shmem_dismiss_worker(worker);
			worker->state = TIDE_WORKER_FREE;
			nleft--;
		}
	}
}

/* ---------------------------------------------------------------------------
 * Sleeping
 * ------------------------------------------------------------------------- */

/* the earlier of until and just after since + wait_ms, if that is to come */
static TimestampTz
earlier(TimestampTz until, TimestampTz now, TimestampTz since, int wait_ms)
{
	TimestampTz at = TimestampTzPlusMilliseconds(since, wait_ms + 1);

	return at > now && at < until ? at : until;
}

/*
 * How long to sleep, in milliseconds; and ask for the latch at the next commit
 * if that would change anything.
 *
 * A view that is due and was not started waits for a worker: a report, or the
 * end of one, sets the latch, so its time does not count.
 */
static long
time_to_sleep(Scheduler *self, TimestampTz now)
{
	HASH_SEQ_STATUS scan;
	Schedule   *schedule;
	TimestampTz until;
	bool		wants_latch = false;
	int			i;

	until = self->read_at + tide_poll_interval * USECS_PER_SEC + 1000;
	if (self->register_at > now)
		until = Min(until, self->register_at);
	if (self->repair_at != 0)
		until = Min(until, self->repair_at);
	if (self->must_read)
		until = now;

	hash_seq_init(&scan, self->schedules);
	while ((schedule = hash_seq_search(&scan)) != NULL)
	{
		TimestampTz at = next_start(schedule, self->commits);

		if (at > now)
			until = Min(until, at);
		if (schedule->wants_maintenance && schedule->maintain_at > now)
			until = Min(until, schedule->maintain_at);
		wants_latch |= is_waiting_for_commit(schedule, self->commits);
	}
	for (i = 0; i < self->nworkers; i++)
	{
		TideWorker *worker = &self->workers[i];

		if (worker->state == TIDE_WORKER_STARTING)
			until = earlier(until, now, worker->started_at,
							TIDE_WORKER_START_MS);
		else if (worker->state == TIDE_WORKER_IDLE)
		{
			if (self->nworkers > 1)
				until = earlier(until, now, worker->since,
								TIDE_IDLE_WORKER_MS);
			if (self->is_slot_wanted)
				until = earlier(until, now, worker->started_at,
								TIDE_WORKER_SHARE_MS);
		}
	}

	/* a commit before we armed is seen here, one after it sets the latch */
	tide_shmem_arm(wants_latch);
	if (wants_latch && self->commits != tide_shmem_commit_generation())
		until = now;

	if (until <= now)
		return 0;
	/* rounded up: a wake-up too early would only be a turn for nothing */
	return (long) Min((until - now + 999) / 1000, INT_MAX);
}
