/*
 * shmem.c
 *		Shared state: databases, worker slots, latches, generations.
 *
 * Two arrays.  A database slot says whether a scheduler is wanted, starting or
 * running in a database, and carries the two generations by which everybody
 * else tells it that there is work: commits into streams, and changes of our
 * tables.  A worker slot is the letter box between a scheduler and one batch
 * worker: task in, report out.
 *
 * A slot is never named by pid alone.  Whoever is started for a slot is given
 * the slot's generation and finds its place only while that is still the
 * slot's generation: a process that comes late (its launcher died, or gave
 * up) finds the slot taken or free, and ends.
 *
 * LOCKING
 *	shared->lock (LWLock, one tranche "tidemark") protects everything but the
 *	atomics.  It is held for a look at the arrays, never across a wait, an
 *	ereport, an allocation, or the registering of a process, and nothing is
 *	locked while it is held.  Latches are set and signals are sent under it on
 *	purpose: a slot with a pid is given up by its process under the lock, so
 *	the pid is that of our process as long as the lock is held.
 *
 *	The atomics are for the hot path, tide_shmem_wake(), which takes no lock:
 *	the slot of the own database is cached and found again only when the
 *	layout counter moved.  A slot that is freed at the same time costs a
 *	needless wake-up, nothing else.
 *
 *	Sleep protocol (I1): the scheduler stores armed = 1, then reads the commit
 *	generation, then sleeps; a committer adds to the commit generation, then
 *	reads armed.  Both are full barriers, so one of the two sees the other.
 *	A committer that finds no slot committed before the scheduler started,
 *	and a scheduler that starts looks at every view.
 *
 * I2 A process leaves its slot in an on_shmem_exit callback that it registered
 *	before it connected, so it runs after the process has left the array of
 *	backends: a slot without a pid means that DROP DATABASE does not see the
 *	process any more.
 *
 * MEMORY	shared memory only, sized by max_worker_processes and
 *			tidemark.max_workers; a list of released databases in
 *			TopTransactionContext.
 * TRANSACTIONS	none is started here.
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "compat.h"
#include "guc.h"
#include "shmem.h"

#define TIDE_TRANCHE "tidemark"

/* databases that wait for a scheduler have a slot too */
#define TIDE_SPARE_DATABASES 32

#define TIDE_NO_PROC PG_UINT32_MAX

/* how long a release waits: by asking, then after terminating */
#define TIDE_RELEASE_ASK_MS 1000
#define TIDE_RELEASE_WAIT_MS 5000

typedef struct DatabaseSlot
{
	pg_atomic_uint32 dboid;		/* InvalidOid: free */
	pg_atomic_uint32 scheduler; /* number of its PGPROC, or TIDE_NO_PROC */
	pg_atomic_uint32 armed;		/* it wants its latch set at the next commit */
	pg_atomic_uint64 commit_generation;
	pg_atomic_uint64 catalog_generation;

	/* the rest: under the lock */
	TideDatabaseState state;
	uint32		generation;		/* of the scheduler */
	pid_t		pid;			/* of the scheduler, 0: none */
	bool		is_connected;
	bool		must_leave;
	bool		wants_worker;	/* has none, and all slots are taken */
	int			holds;			/* backends that released the database */
	TimestampTz since;			/* last change of state */
} DatabaseSlot;

typedef struct SharedState
{
	LWLock	   *lock;
	pg_atomic_uint32 layout;	/* moves when a database slot changes hands */
	pg_atomic_uint32 launcher;	/* number of its PGPROC, or TIDE_NO_PROC */
	pid_t		launcher_pid;
	TimestampTz launcher_since;
	bool		rescan;			/* a wish found no slot: look everywhere */
	ConditionVariable left;		/* broadcast when a process leaves */
	int			ndatabases;
	int			nworkers;
	DatabaseSlot *databases;
	TideWorker *workers;
} SharedState;

static shmem_request_hook_type previous_request_hook = NULL;
static shmem_startup_hook_type previous_startup_hook = NULL;

static SharedState *shared = NULL;

/* the own database's slot, for the hot path; -1: it has none */
static int	own_database = -1;
static uint32 own_layout = 0;

/* this process's place */
static DatabaseSlot *my_database = NULL;
static TideWorker *my_worker = NULL;
static uint32 my_generation = 0;
static bool leaves_empty = false;
static uint64 empty_generation = 0;

/* what the current transaction has to do at its end */
static bool has_xact_callback = false;
static bool wakes_catalog = false;
static bool wakes_launcher = false;
static List *released = NIL;

static void request_memory(void);
static void start_memory(void);
static Size memory_size(void);

PG_FUNCTION_INFO_V1(tide_worker_slots);

/*
 * Install the hooks that make the shared memory.  Without preloading there is
 * none, and everything here is a no-op.
 */
void
tide_shmem_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;

	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request_memory;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = start_memory;
}

/*
 * Ask for memory and a lock.  max_worker_processes has its final value only
 * here.
 */
static void
request_memory(void)
{
	if (previous_request_hook)
		previous_request_hook();

	RequestAddinShmemSpace(memory_size());
	RequestNamedLWLockTranche(TIDE_TRANCHE, 1);
}

/* a scheduler is a background worker, so there are never more than that */
static int
count_database_slots(void)
{
	return max_worker_processes + TIDE_SPARE_DATABASES;
}

/* what start_memory() allocates */
static Size
memory_size(void)
{
	Size		size = MAXALIGN(sizeof(SharedState));

	size = add_size(size, MAXALIGN(mul_size(count_database_slots(),
											sizeof(DatabaseSlot))));
	size = add_size(size, MAXALIGN(mul_size(tide_max_workers,
											sizeof(TideWorker))));
	return size;
}

/*
 * Make the shared state, or find it (EXEC_BACKEND).
 */
static void
start_memory(void)
{
	bool		found;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("tidemark", memory_size(), &found);
	if (!found)
	{
		char	   *next = (char *) shared + MAXALIGN(sizeof(SharedState));
		int			i;

		memset(shared, 0, memory_size());
		shared->lock = &(GetNamedLWLockTranche(TIDE_TRANCHE))->lock;
		pg_atomic_init_u32(&shared->layout, 1);
		pg_atomic_init_u32(&shared->launcher, TIDE_NO_PROC);
		ConditionVariableInit(&shared->left);
		shared->ndatabases = count_database_slots();
		shared->nworkers = tide_max_workers;
		shared->databases = (DatabaseSlot *) next;
		next += MAXALIGN(mul_size(shared->ndatabases, sizeof(DatabaseSlot)));
		shared->workers = (TideWorker *) next;

		for (i = 0; i < shared->ndatabases; i++)
		{
			DatabaseSlot *slot = &shared->databases[i];

			pg_atomic_init_u32(&slot->dboid, InvalidOid);
			pg_atomic_init_u32(&slot->scheduler, TIDE_NO_PROC);
			pg_atomic_init_u32(&slot->armed, 0);
			pg_atomic_init_u64(&slot->commit_generation, 0);
			pg_atomic_init_u64(&slot->catalog_generation, 0);
		}
		for (i = 0; i < shared->nworkers; i++)
			shared->workers[i].slot = i;
	}
	LWLockRelease(AddinShmemInitLock);
}

/*
 * Was the library preloaded?
 */
bool
tide_shmem_available(void)
{
	return shared != NULL;
}

/* ---------------------------------------------------------------------------
 * Latches and waits
 * ------------------------------------------------------------------------- */

/*
 * Set the latch of a process, named by the number of its PGPROC.  If somebody
 * else has that PGPROC by now, it is woken for nothing.
 */
static void
set_latch_of(uint32 procno)
{
	if (procno != TIDE_NO_PROC)
		SetLatch(&GetPGProcByNumber(procno)->procLatch);
}

/* set the launcher's latch */
static void
wake_launcher(void)
{
	set_latch_of(pg_atomic_read_u32(&shared->launcher));
}

/* set the latch of a slot's scheduler */
static void
wake_scheduler(DatabaseSlot *slot)
{
	set_latch_of(pg_atomic_read_u32(&slot->scheduler));
}

/*
 * The wait event of one of our waits.
 */
uint32
tide_shmem_wait_event(TideWaitEvent event)
{
	static uint32 events[TIDE_NWAIT_EVENTS];
	static const char *const names[TIDE_NWAIT_EVENTS] = {
		"TidemarkLauncherMain",
		"TidemarkSchedulerMain",
		"TidemarkWorkerMain",
		"TidemarkReleaseDatabase"
	};

	if (events[event] == 0)
		events[event] = TIDE_WAIT_EVENT_NEW(names[event]);
	return events[event];
}

/*
 * Sleep until the latch is set or the time is over (negative: no limit), and
 * then do what every process must: interrupts, barriers, configuration.  Not
 * inside a transaction.
 */
void
tide_shmem_sleep(long timeout_ms, TideWaitEvent event)
{
	int			wake_on = WL_LATCH_SET | WL_EXIT_ON_PM_DEATH;

	Assert(!IsTransactionState());

	if (timeout_ms >= 0)
		wake_on |= WL_TIMEOUT;
	(void) WaitLatch(MyLatch, wake_on, timeout_ms,
					 tide_shmem_wait_event(event));
	ResetLatch(MyLatch);
	CHECK_FOR_INTERRUPTS();

	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* ---------------------------------------------------------------------------
 * What other backends call
 * ------------------------------------------------------------------------- */

/*
 * The slot of a database, or NULL.  Without the lock the answer may be old.
 */
static DatabaseSlot *
find_database(Oid dboid)
{
	int			i;

	for (i = 0; i < shared->ndatabases; i++)
	{
		if (pg_atomic_read_u32(&shared->databases[i].dboid) == dboid)
			return &shared->databases[i];
	}
	return NULL;
}

/*
 * The slot of this backend's database, or NULL: cached, no lock.
 */
static DatabaseSlot *
find_own_database(void)
{
	uint32		layout = pg_atomic_read_u32(&shared->layout);

	if (layout != own_layout)
	{
		DatabaseSlot *slot;

		/* what is read below is at least as new as the counter above */
		pg_read_barrier();
		slot = find_database(MyDatabaseId);
		own_database = slot ? (int) (slot - shared->databases) : -1;
		own_layout = layout;
	}
	return own_database < 0 ? NULL : &shared->databases[own_database];
}

/*
 * Tell this database's scheduler that rows were committed into a stream.
 */
void
tide_shmem_wake(void)
{
	DatabaseSlot *slot;

	if (shared == NULL)
		return;
	slot = find_own_database();
	if (slot == NULL)
		return;

	/* I1: add, full barrier, then look whether it sleeps */
	pg_atomic_fetch_add_u64(&slot->commit_generation, 1);
	if (pg_atomic_read_u32(&slot->armed) != 0 &&
		pg_atomic_exchange_u32(&slot->armed, 0) != 0)
		wake_scheduler(slot);
}

/*
 * Tell this database's scheduler that a transaction which stamped rows was
 * prepared.  A batch is run for it as for a commit: the transaction is found
 * in progress, the report says so, and the scheduler looks once a second from
 * then on.
 */
void
tide_shmem_note_prepared(void)
{
	tide_shmem_wake();
}

/* give a free slot to a database; the lock is held exclusively */
static DatabaseSlot *
take_database_slot(Oid dboid)
{
	DatabaseSlot *slot = find_database(InvalidOid);

	if (slot == NULL)
		return NULL;

	slot->state = TIDE_DATABASE_WANTED;
	slot->pid = 0;
	slot->is_connected = false;
	slot->must_leave = false;
	slot->wants_worker = false;
	slot->holds = 0;
	slot->since = GetCurrentTimestamp();
	pg_atomic_write_u32(&slot->scheduler, TIDE_NO_PROC);
	pg_atomic_write_u32(&slot->armed, 0);
	pg_atomic_write_u32(&slot->dboid, dboid);
	pg_atomic_fetch_add_u32(&shared->layout, 1);
	return slot;
}

/*
 * Ask for a scheduler in a database that has none; the lock is held
 * exclusively.
 */
static void
want_scheduler(DatabaseSlot *slot)
{
	if (slot->state == TIDE_DATABASE_EMPTY)
		slot->state = TIDE_DATABASE_WANTED;
	wake_launcher();
}

/*
 * Streams or views of this database changed: the scheduler is to read our
 * tables again, or to be started.
 */
void
tide_shmem_wake_catalog(void)
{
	DatabaseSlot *slot;

	if (shared == NULL)
		return;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(MyDatabaseId);
	if (slot == NULL)
		slot = take_database_slot(MyDatabaseId);
	if (slot == NULL)
	{
		shared->rescan = true;
		wake_launcher();
	}
	else
	{
		pg_atomic_fetch_add_u64(&slot->catalog_generation, 1);
		if (slot->state == TIDE_DATABASE_RUNNING)
			wake_scheduler(slot);
		else
			want_scheduler(slot);
	}
	LWLockRelease(shared->lock);
}

/*
 * End a release: processes may be started in the database again.  If it was
 * dropped, the launcher finds that out and forgets it.
 */
static void
end_release(Oid dboid)
{
	DatabaseSlot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot != NULL && slot->holds > 0)
	{
		slot->holds--;
		if (slot->holds == 0)
		{
			slot->must_leave = false;
			if (slot->state != TIDE_DATABASE_RUNNING)
				slot->state = TIDE_DATABASE_WANTED;
		}
		wake_launcher();
	}
	LWLockRelease(shared->lock);
}

/*
 * Transaction callback: wake whom the transaction was to wake.  After PREPARE
 * nothing is committed, and COMMIT PREPARED tells nobody: a change of our
 * tables that was prepared is found at the next fallback poll.
 */
static void
at_transaction_end(XactEvent event, void *arg)
{
	ListCell   *cell;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}

	if (wakes_catalog && event == XACT_EVENT_COMMIT)
		tide_shmem_wake_catalog();
	wakes_catalog = false;
	if (wakes_launcher && event == XACT_EVENT_COMMIT)
		wake_launcher();
	wakes_launcher = false;

	foreach(cell, released)
		end_release(lfirst_oid(cell));
	released = NIL;
}

/* see to it that at_transaction_end() is called */
static void
register_xact_callback(void)
{
	if (!has_xact_callback)
	{
		RegisterXactCallback(at_transaction_end, NULL);
		has_xact_callback = true;
	}
}

/*
 * Call tide_shmem_wake_catalog() if the current transaction commits.
 */
void
tide_shmem_wake_catalog_at_commit(void)
{
	if (shared == NULL)
		return;
	register_xact_callback();
	wakes_catalog = true;
}

/*
 * Let the launcher look at the databases if the current transaction commits.
 */
void
tide_shmem_wake_launcher_at_commit(void)
{
	if (shared == NULL)
		return;
	register_xact_callback();
	wakes_launcher = true;
}

/*
 * Ask, or with is_urgent terminate, our processes in a database.  Returns
 * whether there are any.
 *
 * Asking is enough for one that waits for work.  One that is busy or still
 * connecting does not look, and is terminated at once.
 */
static bool
send_away(Oid dboid, bool is_urgent)
{
	DatabaseSlot *slot;
	bool		has_any = false;
	int			i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot != NULL && slot->pid != 0)
	{
		has_any = true;
		slot->must_leave = true;
		if (is_urgent || !slot->is_connected)
			kill(slot->pid, SIGTERM);
		else
			wake_scheduler(slot);
	}
	for (i = 0; i < shared->nworkers; i++)
	{
		TideWorker *worker = &shared->workers[i];

		if (worker->dboid != dboid || worker->pid == 0)
			continue;
		has_any = true;
		worker->must_leave = true;
		if (is_urgent || !worker->is_connected ||
			worker->state == TIDE_WORKER_RUNNING)
			kill(worker->pid, SIGTERM);
		else
			set_latch_of(worker->procno);
	}
	LWLockRelease(shared->lock);

	return has_any;
}

/*
 * Make our processes leave a database until the current transaction ends.
 * Waits for at most some seconds: what is still there then is for the caller
 * to complain about.  On error (cancelled) the abort ends the release.
 */
void
tide_shmem_release_database(Oid dboid)
{
	DatabaseSlot *slot;
	MemoryContext old_context;
	TimestampTz start = GetCurrentTimestamp();
	bool		was_urgent = false;

	if (shared == NULL || !OidIsValid(dboid) ||
		list_member_oid(released, dboid))
		return;

	/* what can fail comes first: a hold without its end would stay */
	register_xact_callback();
	old_context = MemoryContextSwitchTo(TopTransactionContext);
	released = lappend_oid(released, dboid);
	MemoryContextSwitchTo(old_context);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot == NULL)
		slot = take_database_slot(dboid);
	if (slot != NULL)
		slot->holds++;
	LWLockRelease(shared->lock);

	ConditionVariablePrepareToSleep(&shared->left);
	for (;;)
	{
		TimestampTz now = GetCurrentTimestamp();
		bool		is_urgent = !was_urgent &&
			TimestampDifferenceExceeds(start, now, TIDE_RELEASE_ASK_MS);

		if (!send_away(dboid, is_urgent) ||
			TimestampDifferenceExceeds(start, now, TIDE_RELEASE_WAIT_MS))
			break;
		was_urgent |= is_urgent;
		(void) ConditionVariableTimedSleep(&shared->left, 200,
										   tide_shmem_wait_event(TIDE_WAIT_RELEASE));
	}
	ConditionVariableCancelSleep();
}

/* ---------------------------------------------------------------------------
 * Launcher
 * ------------------------------------------------------------------------- */

/* on_shmem_exit: the launcher leaves its place; schedulers stay */
static void
detach_launcher(int code, Datum arg)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (shared->launcher_pid == MyProcPid)
	{
		shared->launcher_pid = 0;
		pg_atomic_write_u32(&shared->launcher, TIDE_NO_PROC);
	}
	LWLockRelease(shared->lock);
}

/*
 * This process is the launcher.
 */
void
tide_shmem_attach_launcher(void)
{
	on_shmem_exit(detach_launcher, (Datum) 0);

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	shared->launcher_pid = MyProcPid;
	shared->launcher_since = GetCurrentTimestamp();
	pg_atomic_write_u32(&shared->launcher, TIDE_MY_PROC_NUMBER);
	LWLockRelease(shared->lock);
}

/*
 * Did a database without a slot ask for a scheduler?  Asked once.
 */
bool
tide_shmem_take_rescan(void)
{
	bool		rescan;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	rescan = shared->rescan;
	shared->rescan = false;
	LWLockRelease(shared->lock);
	return rescan;
}

/*
 * Copy what is known of all databases into the current memory context.
 * Returns how many there are.
 */
int
tide_shmem_copy_databases(TideDatabase **databases)
{
	TideDatabase *copies = palloc0(shared->ndatabases *
									   sizeof(TideDatabase));
	int			n = 0;
	int			i;

	LWLockAcquire(shared->lock, LW_SHARED);
	for (i = 0; i < shared->ndatabases; i++)
	{
		DatabaseSlot *slot = &shared->databases[i];
		Oid			dboid = pg_atomic_read_u32(&slot->dboid);

		if (!OidIsValid(dboid))
			continue;
		copies[n].dboid = dboid;
		copies[n].state = slot->state;
		copies[n].generation = slot->generation;
		copies[n].is_held = slot->holds > 0;
		copies[n].is_connected = slot->is_connected;
		copies[n].started_at = slot->since;
		n++;
	}
	LWLockRelease(shared->lock);

	*databases = copies;
	return n;
}

/*
 * Make a place for a scheduler that is about to be registered, and fill in
 * what it must be given.  False: there is no slot, or it must not be started.
 */
bool
tide_shmem_start_scheduler(Oid dboid, TideWorkerArgs *args)
{
	DatabaseSlot *slot;
	bool		can_start = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot == NULL)
		slot = take_database_slot(dboid);
	if (slot != NULL && slot->holds == 0 &&
		slot->state != TIDE_DATABASE_RUNNING)
	{
		can_start = true;
		slot->state = TIDE_DATABASE_STARTING;
		slot->generation++;
		slot->since = GetCurrentTimestamp();
		args->slot = slot - shared->databases;
		args->dboid = dboid;
		args->generation = slot->generation;
	}
	LWLockRelease(shared->lock);
	return can_start;
}

/*
 * The scheduler could not be registered, or ended before it took its place.
 */
void
tide_shmem_cancel_scheduler(const TideWorkerArgs *args)
{
	DatabaseSlot *slot = &shared->databases[args->slot];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (pg_atomic_read_u32(&slot->dboid) == args->dboid &&
		slot->generation == args->generation &&
		slot->state == TIDE_DATABASE_STARTING)
	{
		slot->state = TIDE_DATABASE_WANTED;
		slot->generation++;
	}
	LWLockRelease(shared->lock);
}

/*
 * The database is not to have a scheduler any more (it became a template,
 * say): ask it to leave.
 */
void
tide_shmem_dismiss_scheduler(Oid dboid)
{
	DatabaseSlot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot != NULL && slot->state == TIDE_DATABASE_RUNNING)
	{
		slot->must_leave = true;
		wake_scheduler(slot);
	}
	LWLockRelease(shared->lock);
}

/* free the slot of a database; the lock is held exclusively */
static void
free_database_slot(DatabaseSlot *slot)
{
	/* a scheduler that was registered finds its generation gone */
	slot->generation++;
	pg_atomic_write_u32(&slot->dboid, InvalidOid);
	pg_atomic_fetch_add_u32(&shared->layout, 1);
}

/*
 * The database is gone, or is not to have a scheduler: free its slot, unless
 * one still runs.
 */
void
tide_shmem_forget_database(Oid dboid)
{
	DatabaseSlot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot != NULL && slot->holds == 0 &&
		slot->state != TIDE_DATABASE_RUNNING)
		free_database_slot(slot);
	LWLockRelease(shared->lock);
}

/*
 * Nothing was found in the database: free its slot, unless somebody has asked
 * for a scheduler meanwhile.
 */
void
tide_shmem_forget_empty(Oid dboid)
{
	DatabaseSlot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot != NULL && slot->holds == 0 &&
		slot->state == TIDE_DATABASE_EMPTY)
		free_database_slot(slot);
	LWLockRelease(shared->lock);
}

/*
 * The scheduler has ended unexpectedly and its end is noted: another one is
 * wanted.
 */
void
tide_shmem_want_again(Oid dboid)
{
	DatabaseSlot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(dboid);
	if (slot != NULL && slot->state == TIDE_DATABASE_DEAD)
		slot->state = TIDE_DATABASE_WANTED;
	LWLockRelease(shared->lock);
}

/* ---------------------------------------------------------------------------
 * Scheduler
 * ------------------------------------------------------------------------- */

/* forget whoever had the slot; the lock is held exclusively */
static void
free_worker_slot(TideWorker *worker)
{
	worker->generation++;
	worker->state = TIDE_WORKER_FREE;
	worker->dboid = InvalidOid;
	worker->pid = 0;
	worker->must_leave = false;
	worker->is_connected = false;
	worker->last_view = InvalidOid;
	worker->task.kind = TIDE_TASK_NONE;
	worker->task.view = InvalidOid;
}

/* ask a worker to leave; the lock is held exclusively */
static void
ask_worker_to_leave(TideWorker *worker)
{
	worker->must_leave = true;
	if (worker->pid != 0)
		set_latch_of(worker->procno);
	else
		free_worker_slot(worker);
}

/* tell the schedulers that wait for a worker slot; the lock is held */
static void
wake_waiting_schedulers(void)
{
	int			i;

	for (i = 0; i < shared->ndatabases; i++)
	{
		DatabaseSlot *slot = &shared->databases[i];

		if (slot->wants_worker)
			wake_scheduler(slot);
	}
}

/*
 * on_shmem_exit: the scheduler leaves its place, and its workers follow when
 * they have done what they are at.
 */
static void
detach_scheduler(int code, Datum arg)
{
	int			i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (my_database->pid == MyProcPid &&
		my_database->generation == my_generation)
	{
		Oid			dboid = pg_atomic_read_u32(&my_database->dboid);

		if (my_database->must_leave)
			my_database->state = TIDE_DATABASE_WANTED;
		else if (leaves_empty)
			my_database->state =
				pg_atomic_read_u64(&my_database->catalog_generation) ==
				empty_generation ?
				TIDE_DATABASE_EMPTY : TIDE_DATABASE_WANTED;
		else
			my_database->state = TIDE_DATABASE_DEAD;
		my_database->pid = 0;
		my_database->is_connected = false;
		my_database->must_leave = false;
		my_database->wants_worker = false;
		pg_atomic_write_u32(&my_database->armed, 0);
		pg_atomic_write_u32(&my_database->scheduler, TIDE_NO_PROC);

		for (i = 0; i < shared->nworkers; i++)
		{
			if (shared->workers[i].dboid == dboid)
				ask_worker_to_leave(&shared->workers[i]);
		}
		wake_waiting_schedulers();
		wake_launcher();
	}
	LWLockRelease(shared->lock);

	ConditionVariableBroadcast(&shared->left);
}

/*
 * Take the place that was made for this scheduler.  False: it is not ours any
 * more.  Before connecting, see I2.
 */
bool
tide_shmem_attach_scheduler(const TideWorkerArgs *args)
{
	DatabaseSlot *slot = &shared->databases[args->slot];
	bool		is_ours;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	is_ours = pg_atomic_read_u32(&slot->dboid) == args->dboid &&
		slot->generation == args->generation &&
		slot->state == TIDE_DATABASE_STARTING &&
		slot->holds == 0;
	if (is_ours)
	{
		slot->state = TIDE_DATABASE_RUNNING;
		slot->pid = MyProcPid;
		slot->is_connected = false;
		slot->must_leave = false;
		slot->since = GetCurrentTimestamp();
		pg_atomic_write_u32(&slot->armed, 0);
		pg_atomic_write_u32(&slot->scheduler, TIDE_MY_PROC_NUMBER);
	}
	LWLockRelease(shared->lock);

	if (is_ours)
	{
		my_database = slot;
		my_generation = args->generation;
		on_shmem_exit(detach_scheduler, (Datum) 0);
	}
	return is_ours;
}

/*
 * The scheduler looks at its slot from now on: no need to terminate it.  The
 * launcher may go on with the next database.
 */
void
tide_shmem_scheduler_connected(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	my_database->is_connected = true;
	wake_launcher();
	LWLockRelease(shared->lock);
}

/*
 * There is nothing to do in this database.  True: the scheduler is to end.
 * Whoever changes our tables while it does so moves the generation, and it
 * leaves the wish for another scheduler behind.
 */
bool
tide_shmem_leave_empty(uint64 catalog_generation)
{
	leaves_empty = pg_atomic_read_u64(&my_database->catalog_generation) ==
		catalog_generation;
	empty_generation = catalog_generation;
	return leaves_empty;
}

/*
 * How often rows were committed into streams of this database.
 */
uint64
tide_shmem_commit_generation(void)
{
	return pg_atomic_read_u64(&my_database->commit_generation);
}

/*
 * How often our tables in this database were changed.
 */
uint64
tide_shmem_catalog_generation(void)
{
	return pg_atomic_read_u64(&my_database->catalog_generation);
}

/*
 * Want the latch set by the next commit, or not.  The caller reads the commit
 * generation again afterwards (I1).
 */
void
tide_shmem_arm(bool wants_latch)
{
	(void) pg_atomic_exchange_u32(&my_database->armed, wants_latch ? 1 : 0);
}

/*
 * Copy this database's workers into an array of tidemark.max_workers; returns
 * how many there are.  A worker that is DONE in the copy is IDLE afterwards:
 * the report is handed over.  Also tells whether this scheduler is to leave,
 * and whether another database has no worker and needs one.
 */
int
tide_shmem_collect(TideWorker *workers, bool *must_leave,
				   bool *is_slot_wanted)
{
	Oid			dboid = MyDatabaseId;
	int			n = 0;
	int			i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	*must_leave = my_database->must_leave;
	for (i = 0; i < shared->nworkers; i++)
	{
		TideWorker *worker = &shared->workers[i];

		if (worker->state == TIDE_WORKER_FREE || worker->dboid != dboid)
			continue;
		workers[n++] = *worker;
		if (worker->state == TIDE_WORKER_DONE)
			worker->state = TIDE_WORKER_IDLE;
	}
	*is_slot_wanted = false;
	for (i = 0; i < shared->ndatabases; i++)
	{
		DatabaseSlot *slot = &shared->databases[i];

		if (slot != my_database && slot->wants_worker)
			*is_slot_wanted = true;
	}
	LWLockRelease(shared->lock);
	return n;
}

/*
 * Hand a task to an idle worker.  False: it has left meanwhile.
 */
bool
tide_shmem_assign(const TideWorker *worker, const TideTask *task)
{
	TideWorker *slot = &shared->workers[worker->slot];
	bool		is_assigned = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (slot->generation == worker->generation &&
		slot->state == TIDE_WORKER_IDLE && !slot->must_leave)
	{
		is_assigned = true;
		slot->state = TIDE_WORKER_ASSIGNED;
		slot->task = *task;
		slot->since = GetCurrentTimestamp();
		set_latch_of(slot->procno);
	}
	LWLockRelease(shared->lock);
	return is_assigned;
}

/*
 * Make a place for a worker that is about to be registered for a task.
 * False: all slots are taken.
 */
bool
tide_shmem_start_worker(const TideTask *task, TideWorkerArgs *args)
{
	TideWorker *worker = NULL;
	int			i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	for (i = 0; i < shared->nworkers && worker == NULL; i++)
	{
		if (shared->workers[i].state == TIDE_WORKER_FREE)
			worker = &shared->workers[i];
	}
	if (worker != NULL)
	{
		worker->generation++;
		worker->state = TIDE_WORKER_STARTING;
		worker->dboid = MyDatabaseId;
		worker->pid = 0;
		worker->is_connected = false;
		worker->must_leave = false;
		worker->last_view = InvalidOid;
		worker->started_at = GetCurrentTimestamp();
		worker->since = worker->started_at;
		worker->task = *task;
		args->slot = worker->slot;
		args->dboid = worker->dboid;
		args->generation = worker->generation;
	}
	LWLockRelease(shared->lock);
	return worker != NULL;
}

/*
 * The worker could not be registered, or ended before it took its place.
 */
void
tide_shmem_cancel_worker(const TideWorkerArgs *args)
{
	TideWorker *worker = &shared->workers[args->slot];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (worker->generation == args->generation &&
		worker->state == TIDE_WORKER_STARTING && worker->pid == 0)
	{
		free_worker_slot(worker);
		wake_waiting_schedulers();
	}
	LWLockRelease(shared->lock);
}

/*
 * Ask an idle worker to leave.
 */
void
tide_shmem_dismiss_worker(const TideWorker *worker)
{
	TideWorker *slot = &shared->workers[worker->slot];

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (slot->generation == worker->generation &&
		slot->state == TIDE_WORKER_IDLE)
		ask_worker_to_leave(slot);
	LWLockRelease(shared->lock);
}

/*
 * This database has work and no worker, and all slots are taken (or not any
 * more).  The other schedulers are told, and give one up.
 */
void
tide_shmem_want_worker(bool is_wanted)
{
	int			i;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (my_database->wants_worker != is_wanted)
	{
		my_database->wants_worker = is_wanted;
		for (i = 0; is_wanted && i < shared->ndatabases; i++)
		{
			DatabaseSlot *slot = &shared->databases[i];

			if (slot != my_database)
				wake_scheduler(slot);
		}
		/* whoever stepped back for us may take a slot that is free */
		if (!is_wanted)
			wake_waiting_schedulers();
	}
	LWLockRelease(shared->lock);
}

/* ---------------------------------------------------------------------------
 * Batch worker
 * ------------------------------------------------------------------------- */

/* on_shmem_exit: the worker leaves its slot, whatever it was doing */
static void
detach_worker(int code, Datum arg)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	if (my_worker->pid == MyProcPid && my_worker->generation == my_generation)
	{
		DatabaseSlot *slot = find_database(my_worker->dboid);

		free_worker_slot(my_worker);
		if (slot != NULL)
			wake_scheduler(slot);
		wake_waiting_schedulers();
	}
	LWLockRelease(shared->lock);

	ConditionVariableBroadcast(&shared->left);
}

/*
 * Take the place that was made for this worker.  False: it is not ours any
 * more.  Before connecting, see I2.
 */
bool
tide_shmem_attach_worker(const TideWorkerArgs *args)
{
	TideWorker *worker = &shared->workers[args->slot];
	DatabaseSlot *slot;
	bool		is_ours;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	slot = find_database(args->dboid);
	is_ours = worker->dboid == args->dboid &&
		worker->generation == args->generation &&
		worker->state == TIDE_WORKER_STARTING &&
		slot != NULL && slot->holds == 0 && slot->pid != 0;
	if (is_ours)
	{
		worker->pid = MyProcPid;
		worker->procno = TIDE_MY_PROC_NUMBER;
	}
	LWLockRelease(shared->lock);

	if (is_ours)
	{
		my_worker = worker;
		my_generation = args->generation;
		on_shmem_exit(detach_worker, (Datum) 0);
	}
	return is_ours;
}

/*
 * The worker looks at its slot from now on; its first task may wait there.
 */
void
tide_shmem_worker_connected(void)
{
	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	my_worker->is_connected = true;
	my_worker->state = TIDE_WORKER_ASSIGNED;
	my_worker->since = GetCurrentTimestamp();
	LWLockRelease(shared->lock);
}

/*
 * Take the task that was assigned.  False: there is none; must_leave tells
 * whether to end then.
 */
bool
tide_shmem_next_task(TideTask *task, bool *must_leave)
{
	bool		has_task = false;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	*must_leave = my_worker->must_leave;
	if (!my_worker->must_leave && my_worker->state == TIDE_WORKER_ASSIGNED)
	{
		has_task = true;
		*task = my_worker->task;
		my_worker->state = TIDE_WORKER_RUNNING;
		my_worker->since = GetCurrentTimestamp();
	}
	LWLockRelease(shared->lock);
	return has_task;
}

/*
 * The task is done: hand over the report, and wake the scheduler.
 */
void
tide_shmem_report(const TideReport *report)
{
	DatabaseSlot *slot;

	LWLockAcquire(shared->lock, LW_EXCLUSIVE);
	my_worker->state = TIDE_WORKER_DONE;
	my_worker->report = *report;
	my_worker->last_view = my_worker->task.view;
	my_worker->since = GetCurrentTimestamp();
	slot = find_database(my_worker->dboid);
	if (slot != NULL)
		wake_scheduler(slot);
	LWLockRelease(shared->lock);
}

/* ---------------------------------------------------------------------------
 * Watching
 * ------------------------------------------------------------------------- */

/* one row of tidemark.worker_slots() */
typedef struct ProcessRow
{
	pid_t		pid;
	const char *kind;
	Oid			dboid;
	Oid			view;
	const char *state;
	TimestampTz since;
} ProcessRow;

/* what a worker is shown to be doing */
static const char *
worker_state_name(const TideWorker *worker)
{
	switch (worker->state)
	{
		case TIDE_WORKER_STARTING:
			return "starting";
		case TIDE_WORKER_ASSIGNED:
		case TIDE_WORKER_RUNNING:
			return "running";
		case TIDE_WORKER_FREE:
		case TIDE_WORKER_IDLE:
		case TIDE_WORKER_DONE:
			break;
	}
	return "idle";
}

/* copy all processes into rows, which has room for them; returns how many */
static int
copy_processes(ProcessRow *rows)
{
	int			n = 0;
	int			i;

	LWLockAcquire(shared->lock, LW_SHARED);
	if (shared->launcher_pid != 0)
	{
		rows[n].pid = shared->launcher_pid;
		rows[n].kind = "launcher";
		rows[n].dboid = InvalidOid;
		rows[n].view = InvalidOid;
		rows[n].state = "running";
		rows[n].since = shared->launcher_since;
		n++;
	}
	for (i = 0; i < shared->ndatabases; i++)
	{
		DatabaseSlot *slot = &shared->databases[i];

		if (slot->pid == 0)
			continue;
		rows[n].pid = slot->pid;
		rows[n].kind = "scheduler";
		rows[n].dboid = pg_atomic_read_u32(&slot->dboid);
		rows[n].view = InvalidOid;
		rows[n].state = slot->is_connected ? "running" : "starting";
		rows[n].since = slot->since;
		n++;
	}
	for (i = 0; i < shared->nworkers; i++)
	{
		TideWorker *worker = &shared->workers[i];

		if (worker->pid == 0)
			continue;
		rows[n].pid = worker->pid;
		rows[n].kind = "batch worker";
		rows[n].dboid = worker->dboid;
		rows[n].state = worker_state_name(worker);
		rows[n].view = worker->state == TIDE_WORKER_RUNNING ?
			worker->task.view : InvalidOid;
		rows[n].since = worker->since;
		n++;
	}
	LWLockRelease(shared->lock);
	return n;
}

/*
 * tidemark.worker_slots(): the processes of the whole cluster.
 */
Datum
tide_worker_slots(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;
	ProcessRow *rows;
	int			n;
	int			i;

	InitMaterializedSRF(fcinfo, 0);
	if (shared == NULL)
		return (Datum) 0;

	rows = palloc0((1 + shared->ndatabases + shared->nworkers) *
				   sizeof(ProcessRow));
	n = copy_processes(rows);
	for (i = 0; i < n; i++)
	{
		Datum		values[6];
		bool		nulls[6] = {false};

		values[0] = Int32GetDatum((int32) rows[i].pid);
		values[1] = CStringGetTextDatum(rows[i].kind);
		values[2] = ObjectIdGetDatum(rows[i].dboid);
		nulls[2] = !OidIsValid(rows[i].dboid);
		values[3] = ObjectIdGetDatum(rows[i].view);
		nulls[3] = !OidIsValid(rows[i].view);
		values[4] = CStringGetTextDatum(rows[i].state);
		values[5] = TimestampTzGetDatum(rows[i].since);
		tuplestore_putvalues(result->setResult, result->setDesc,
							 values, nulls);
	}
	return (Datum) 0;
}
