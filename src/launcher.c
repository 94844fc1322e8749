/*
 * launcher.c
 *		The launcher: one for the cluster, starts the schedulers.
 *
 * The launcher reads shared catalogs only, so it cannot know which databases
 * have the extension.  It starts a scheduler once in every database that can
 * be connected to; one that finds nothing ends at once and says so, and is
 * started again when somebody there asks for it (shmem.c), or after a long
 * while.  Databases are probed a few at a time; those that asked go first.
 *
 * Not: templates, databases that do not allow connections, invalid ones (a
 * DROP DATABASE was interrupted).  A database that was made from a template
 * that has the extension is an ordinary new one, and is probed.
 *
 * Schedulers outlive the launcher: a new launcher finds them in their slots.
 * One that ended unexpectedly is started again with back-off.
 *
 * decide() is a pure function of the database's slot, what the launcher
 * remembers of it, and the clock.
 *
 * LOCKING	none of its own; shmem.c locks inside.  Processes are registered
 *			without a lock.
 * MEMORY	launcher context: what is remembered of databases; cycle context:
 *			reset at the loop's head.
 * TRANSACTIONS	one short one for reading pg_database, without a transaction
 *			id; none while sleeping.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
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

#include "compat.h"
#include "guc.h"
#include "launcher.h"
#include "scheduler.h"
#include "worker.h"

/* the launcher is restarted by the postmaster after that many seconds */
#define TIDE_LAUNCHER_RESTART_S 5

/* look at pg_database at least that often */
#define TIDE_LAUNCHER_SLEEP_MS 60000

/* look into a database where nothing was found again after that time */
#define TIDE_PROBE_MS (15 * 60 * 1000)

/* databases that are probed at the same time */
#define TIDE_MAX_PROBES 2

/* back-off after a scheduler ended, reset when it had lived long enough */
#define TIDE_RELAUNCH_MS 1000
#define TIDE_RELAUNCH_MAX_MS 60000
#define TIDE_HEALTHY_MS 60000

/*
 * When no scheduler could be registered; logged after a while.  A process that
 * has just ended keeps its place with the postmaster for some milliseconds.
 */
#define TIDE_FULL_RETRY_MS 1000
#define TIDE_FULL_REPORT_MS 5000

/* what is remembered of a database */
typedef struct Memory
{
	Oid			dboid;			/* hash key */
	bool		is_listed;		/* in pg_database, and may be connected to */
	bool		is_probed;		/* nothing was found there ... */
	TimestampTz probed_at;		/* ... then */
	TimestampTz not_before;		/* start nothing before */
	int			nfailures;
	TideWorkerArgs args;		/* of the scheduler that was registered */
	BackgroundWorkerHandle *handle; /* NULL: none, or it has its place */
} Memory;

typedef struct Launcher
{
	MemoryContext context;
	MemoryContext cycle;
	HTAB	   *memories;
	TimestampTz full_since;		/* nothing could be registered since; or 0 */
	TimestampTz full_until;		/* register nothing before */
	bool		has_reported_full;

	/* of one cycle */
	TideDatabase *databases;
	int			ndatabases;
	int			nprobes;		/* under way */
	TimestampTz wake_at;
} Launcher;

typedef enum Decision
{
	LEAVE_ALONE,
	START,						/* somebody wants a scheduler there */
	PROBE						/* nobody does, but who knows */
} Decision;

PGDLLEXPORT void tide_launcher_main(Datum main_arg);

static void run_cycle(Launcher *self);
static void list_databases(Launcher *self);
static void check_handle(Memory *memory, TideDatabase *database);
static void note_end(Launcher *self, Memory *memory, TideDatabase *database,
					 TimestampTz now);
static Decision decide(const Memory *memory, const TideDatabase *database,
					   TimestampTz now);
static void start_scheduler(Launcher *self, Memory *memory, TimestampTz now);
static void forget_databases(Launcher *self);

/*
 * Register the launcher with the postmaster; from _PG_init.
 */
void
tide_launcher_register(void)
{
	BackgroundWorker worker;

	/* pg_upgrade wants nobody else in the databases */
	if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
		return;

	tide_worker_describe(&worker, "launcher", "tide_launcher_main",
						 InvalidOid);
	worker.bgw_restart_time = TIDE_LAUNCHER_RESTART_S;
	RegisterBackgroundWorker(&worker);
}

/*
 * Main function of the launcher.
 */
void
tide_launcher_main(Datum main_arg)
{
	Launcher   *self;
	MemoryContext context;
	HASHCTL		control = {0};

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	tide_shmem_attach_launcher();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	pgstat_report_activity(STATE_IDLE, NULL);

	context = AllocSetContextCreate(TopMemoryContext, "tidemark launcher",
									ALLOCSET_DEFAULT_SIZES);
	self = MemoryContextAllocZero(context, sizeof(Launcher));
	self->context = context;
	self->cycle = AllocSetContextCreate(context, "tidemark launcher cycle",
										ALLOCSET_DEFAULT_SIZES);
	control.keysize = sizeof(Oid);
	control.entrysize = sizeof(Memory);
	control.hcxt = context;
	self->memories = hash_create("tidemark databases", 64, &control,
								 HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	for (;;)
	{
		TimestampTz now;

		MemoryContextReset(self->cycle);
		MemoryContextSwitchTo(self->cycle);

		run_cycle(self);

		now = GetCurrentTimestamp();
		tide_shmem_sleep(self->wake_at <= now ? 0 :
						 (long) ((self->wake_at - now + 999) / 1000),
						 TIDE_WAIT_LAUNCHER);
	}
}

/* what the slots say of a database, or NULL */
static TideDatabase *
find_database(Launcher *self, Oid dboid)
{
	int			i;

	for (i = 0; i < self->ndatabases; i++)
	{
		if (self->databases[i].dboid == dboid)
			return &self->databases[i];
	}
	return NULL;
}

/* sleep no longer than until then */
static void
wake_not_after(Launcher *self, TimestampTz at)
{
	self->wake_at = Min(self->wake_at, at);
}

/*
 * Look at every database once, and start what is to be started.
 */
static void
run_cycle(Launcher *self)
{
	HASH_SEQ_STATUS scan;
	Memory	   *memory;
	TimestampTz now;
	Decision	wanted;
	bool		forgets = tide_shmem_take_rescan();

	self->ndatabases = tide_shmem_copy_databases(&self->databases);
	list_databases(self);
	forget_databases(self);

	now = GetCurrentTimestamp();
	self->wake_at = TimestampTzPlusMilliseconds(now, TIDE_LAUNCHER_SLEEP_MS);
	self->nprobes = 0;
	hash_seq_init(&scan, self->memories);
	while ((memory = hash_seq_search(&scan)) != NULL)
	{
		TideDatabase *database = find_database(self, memory->dboid);

		if (forgets)
			memory->is_probed = false;
		check_handle(memory, database);
		note_end(self, memory, database, now);
		if (memory->handle != NULL)
			self->nprobes++;
	}

	/* first where somebody asked, then where somebody might have */
	for (wanted = START; wanted <= PROBE; wanted++)
	{
		hash_seq_init(&scan, self->memories);
		while ((memory = hash_seq_search(&scan)) != NULL)
		{
			TideDatabase *database = find_database(self, memory->dboid);

			if (decide(memory, database, now) != wanted)
				continue;
			if (memory->not_before > now)
				wake_not_after(self, memory->not_before);
			else if (self->full_until > now)
				wake_not_after(self, self->full_until);
			else if (wanted == START || self->nprobes < TIDE_MAX_PROBES)
				start_scheduler(self, memory, now);
		}
	}
}

/*
 * Mark the databases of pg_database that may have a scheduler, and remember
 * new ones.
 */
static void
list_databases(Launcher *self)
{
	HASH_SEQ_STATUS scan;
	Memory	   *memory;
	Relation	rel;
	TableScanDesc table_scan;
	HeapTuple	tuple;

	hash_seq_init(&scan, self->memories);
	while ((memory = hash_seq_search(&scan)) != NULL)
		memory->is_listed = false;

	tide_worker_begin();
	(void) GetTransactionSnapshot();
	rel = table_open(DatabaseRelationId, AccessShareLock);
	table_scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(table_scan,
												 ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);
		bool		found;

		if (form->datistemplate || !form->datallowconn ||
			database_is_invalid_form(form))
			continue;
		memory = hash_search(self->memories, &form->oid, HASH_ENTER, &found);
		if (!found)
		{
			memset(memory, 0, sizeof(*memory));
			memory->dboid = form->oid;
		}
		memory->is_listed = true;
	}
	table_endscan(table_scan);
	table_close(rel, AccessShareLock);
	tide_worker_commit();
}

/*
 * Let go of databases that are gone or not to be touched any more.
 */
static void
forget_databases(Launcher *self)
{
	HASH_SEQ_STATUS scan;
	Memory	   *memory;
	int			i;

	hash_seq_init(&scan, self->memories);
	while ((memory = hash_seq_search(&scan)) != NULL)
	{
		if (memory->is_listed)
			continue;
		if (memory->handle != NULL)
			pfree(memory->handle);
		hash_search(self->memories, &memory->dboid, HASH_REMOVE, NULL);
	}

	for (i = 0; i < self->ndatabases; i++)
	{
		TideDatabase *database = &self->databases[i];

		if (hash_search(self->memories, &database->dboid, HASH_FIND, NULL))
			continue;
		tide_shmem_dismiss_scheduler(database->dboid);
		tide_shmem_forget_database(database->dboid);
	}
}

/*
 * A scheduler that was registered and ended without ever taking its place
 * (could not be forked, or found the place taken): there is none.
 */
static void
check_handle(Memory *memory, TideDatabase *database)
{
	pid_t		pid;

	if (memory->handle == NULL)
		return;
	if (database != NULL && database->state == TIDE_DATABASE_STARTING &&
		database->generation == memory->args.generation)
	{
		if (GetBackgroundWorkerPid(memory->handle, &pid) != BGWH_STOPPED)
			return;
		tide_shmem_cancel_scheduler(&memory->args);
		database->state = TIDE_DATABASE_DEAD;
	}
	else if (database != NULL && database->state == TIDE_DATABASE_RUNNING &&
			 !database->is_connected)
		return;
	pfree(memory->handle);
	memory->handle = NULL;
}

/*
 * Draw the conclusions from a scheduler that has ended.  Its slot then says
 * that another one is wanted, or is given back.
 */
static void
note_end(Launcher *self, Memory *memory, TideDatabase *database,
		 TimestampTz now)
{
	int64		wait_ms;

	if (database == NULL)
		return;

	if (database->state == TIDE_DATABASE_EMPTY)
	{
		memory->is_probed = true;
		memory->probed_at = now;
		memory->nfailures = 0;
		tide_shmem_forget_empty(memory->dboid);
	}
	else if (database->state == TIDE_DATABASE_DEAD)
	{
		if (TimestampDifferenceExceeds(database->started_at, now,
									   TIDE_HEALTHY_MS))
			memory->nfailures = 0;
		wait_ms = Min((int64) TIDE_RELAUNCH_MS << Min(memory->nfailures, 10),
					  TIDE_RELAUNCH_MAX_MS);
		memory->nfailures++;
		memory->not_before = TimestampTzPlusMilliseconds(now, wait_ms);
		tide_shmem_want_again(memory->dboid);
		database->state = TIDE_DATABASE_WANTED;
		ereport(LOG,
				(errmsg("tidemark's scheduler of database %u ended, another one is started in %d s",
						memory->dboid, (int) (wait_ms / 1000))));
	}
}

/*
 * What is to be done with a database now, apart from waiting?
 */
static Decision
decide(const Memory *memory, const TideDatabase *database, TimestampTz now)
{
	if (database != NULL)
	{
		if (database->is_held)
			return LEAVE_ALONE;
		if (database->state == TIDE_DATABASE_RUNNING)
			return LEAVE_ALONE;
		if (database->state == TIDE_DATABASE_WANTED)
			return START;
		/* registered by a launcher that died: it may never come */
		if (database->state == TIDE_DATABASE_STARTING)
			return memory->handle == NULL ? START : LEAVE_ALONE;
	}
	if (memory->is_probed &&
		!TimestampDifferenceExceeds(memory->probed_at, now, TIDE_PROBE_MS))
		return LEAVE_ALONE;
	return memory->handle == NULL ? PROBE : LEAVE_ALONE;
}

/*
 * No scheduler could be registered: wait, and tell the log once if that lasts.
 */
static void
note_full(Launcher *self, TimestampTz now)
{
	if (self->full_since == 0)
		self->full_since = now;
	self->full_until = TimestampTzPlusMilliseconds(now, TIDE_FULL_RETRY_MS);
	wake_not_after(self, self->full_until);

	if (self->has_reported_full ||
		!TimestampDifferenceExceeds(self->full_since, now,
									TIDE_FULL_REPORT_MS))
		return;
	self->has_reported_full = true;
	ereport(LOG,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("could not register a scheduler of tidemark"),
			 errdetail("All background worker slots are in use."),
			 errhint("Consider increasing max_worker_processes.")));
}

/*
 * Register a scheduler for a database.
 */
static void
start_scheduler(Launcher *self, Memory *memory, TimestampTz now)
{
	MemoryContext context;
	bool		is_registered;

	if (!tide_shmem_start_scheduler(memory->dboid, &memory->args))
		return;

	context = MemoryContextSwitchTo(self->context);
	is_registered = tide_scheduler_register(&memory->args, &memory->handle);
	MemoryContextSwitchTo(context);

	if (!is_registered)
	{
		memory->handle = NULL;
		tide_shmem_cancel_scheduler(&memory->args);
		note_full(self, now);
		return;
	}
	self->full_since = 0;
	self->has_reported_full = false;
	self->nprobes++;
}
