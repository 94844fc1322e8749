/*
 * shmem.h
 *		Shared state: databases, worker slots, latches, generations.
 *
 * Everything is a no-op when the library was not preloaded.
 */
#ifndef TIDE_SHMEM_H
#define TIDE_SHMEM_H

#include "datatype/timestamp.h"
#include "postmaster/bgworker.h"

extern void tide_shmem_init(void);	/* from _PG_init, installs the hooks */
extern bool tide_shmem_available(void);

/*
 * Called at commit by whoever committed rows into a stream of this database:
 * bumps the database's generation and sets its scheduler's latch.  No error,
 * no allocation, no lock that can wait long.
 */
extern void tide_shmem_wake(void);

/* the same, and the scheduler re-reads the catalog: streams or views changed */
extern void tide_shmem_wake_catalog(void);

/* call tide_shmem_wake_catalog() when the current transaction commits */
extern void tide_shmem_wake_catalog_at_commit(void);

/* the same for the launcher: a database was made or altered */
extern void tide_shmem_wake_launcher_at_commit(void);

/* a transaction that stamped rows was prepared in this database */
extern void tide_shmem_note_prepared(void);

/*
 * Our processes in the database leave, and none is started there before the
 * current transaction ends, however it ends.  Waits for them, for some seconds
 * at most; interruptible.  The caller has checked the user's rights.
 */
extern void tide_shmem_release_database(Oid dboid);

/* ---- below: for the processes only ---- */

typedef enum TideWaitEvent
{
	TIDE_WAIT_LAUNCHER,
	TIDE_WAIT_SCHEDULER,
	TIDE_WAIT_WORKER,
	TIDE_WAIT_RELEASE,
	TIDE_NWAIT_EVENTS
} TideWaitEvent;

typedef enum TideDatabaseState
{
	TIDE_DATABASE_WANTED,		/* a scheduler is to be started */
	TIDE_DATABASE_STARTING,		/* it is registered */
	TIDE_DATABASE_RUNNING,		/* it has taken its place */
	TIDE_DATABASE_EMPTY,		/* it found nothing to do and left */
	TIDE_DATABASE_DEAD			/* it ended otherwise */
} TideDatabaseState;

/* what the launcher is told about a database */
typedef struct TideDatabase
{
	Oid			dboid;
	TideDatabaseState state;
	uint32		generation;		/* of the scheduler */
	bool		is_held;		/* released by a backend: start nothing */
	bool		is_connected;	/* the scheduler is at work */
	TimestampTz started_at;		/* the scheduler, if it has ever been */
} TideDatabase;

typedef enum TideTaskKind
{
	TIDE_TASK_NONE,
	TIDE_TASK_BATCH,
	TIDE_TASK_MAINTAIN
} TideTaskKind;

/* what a batch worker is asked to do */
typedef struct TideTask
{
	TideTaskKind kind;
	Oid			view;
	bool		has_failed;		/* there is a failure row to remove */
} TideTask;

/* what a batch worker answers */
typedef struct TideReport
{
	bool		is_failed;
	bool		is_busy;		/* another runner holds the view */
	bool		is_gone;		/* view or extension */
	bool		is_done;		/* something was read */
	bool		has_more;
	bool		waits_for_writers;
	TimestampTz next_try;		/* when failed */
} TideReport;

typedef enum TideWorkerState
{
	TIDE_WORKER_FREE,
	TIDE_WORKER_STARTING,		/* registered; the task waits for it */
	TIDE_WORKER_IDLE,
	TIDE_WORKER_ASSIGNED,
	TIDE_WORKER_RUNNING,
	TIDE_WORKER_DONE			/* the report waits for the scheduler */
} TideWorkerState;

/* one batch worker, as it is kept in shared memory */
typedef struct TideWorker
{
	int			slot;
	uint32		generation;		/* a new one whenever the slot is taken */
	TideWorkerState state;
	Oid			dboid;
	pid_t		pid;			/* 0: has not started yet */
	int			procno;
	bool		is_connected;
	bool		must_leave;
	Oid			last_view;
	TimestampTz started_at;		/* slot taken */
	TimestampTz since;			/* last change of state */
	TideTask	task;
	TideReport	report;
} TideWorker;

/* what a dynamic worker of ours is started with: bgw_extra */
typedef struct TideWorkerArgs
{
	int			slot;
	Oid			dboid;
	uint32		generation;
} TideWorkerArgs;

extern uint32 tide_shmem_wait_event(TideWaitEvent event);
extern void tide_shmem_sleep(long timeout_ms, TideWaitEvent event);

/* launcher */
extern void tide_shmem_attach_launcher(void);
extern bool tide_shmem_take_rescan(void);
extern int	tide_shmem_copy_databases(TideDatabase **databases);
extern bool tide_shmem_start_scheduler(Oid dboid, TideWorkerArgs *args);
extern void tide_shmem_cancel_scheduler(const TideWorkerArgs *args);
extern void tide_shmem_dismiss_scheduler(Oid dboid);
extern void tide_shmem_forget_database(Oid dboid);
extern void tide_shmem_forget_empty(Oid dboid);
extern void tide_shmem_want_again(Oid dboid);

/* scheduler */
extern bool tide_shmem_attach_scheduler(const TideWorkerArgs *args);
extern void tide_shmem_scheduler_connected(void);
extern bool tide_shmem_leave_empty(uint64 catalog_generation);
extern uint64 tide_shmem_commit_generation(void);
extern uint64 tide_shmem_catalog_generation(void);
extern void tide_shmem_arm(bool wants_latch);
extern int	tide_shmem_collect(TideWorker *workers, bool *must_leave,
							   bool *is_slot_wanted);
extern bool tide_shmem_assign(const TideWorker *worker, const TideTask *task);
extern bool tide_shmem_start_worker(const TideTask *task,
									TideWorkerArgs *args);
extern void tide_shmem_cancel_worker(const TideWorkerArgs *args);
extern void tide_shmem_dismiss_worker(const TideWorker *worker);
extern void tide_shmem_want_worker(bool is_wanted);

/* batch worker */
extern bool tide_shmem_attach_worker(const TideWorkerArgs *args);
extern void tide_shmem_worker_connected(void);
extern bool tide_shmem_next_task(TideTask *task, bool *must_leave);
extern void tide_shmem_report(const TideReport *report);

#endif							/* TIDE_SHMEM_H */
