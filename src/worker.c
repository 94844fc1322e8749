/*
 * worker.c
 *		Batch workers: one process, one batch at a time.
 *
 * A worker takes a task from its slot (shmem.c), runs it, answers, and waits
 * for the next one.  It decides nothing: what is due is the scheduler's
 * business.  It stays in its database as the bootstrap superuser; the batch
 * itself switches to the view's owner (security.c).
 *
 * There is one error boundary, run_guarded().  Whatever a batch throws,
 * pg_cancel_backend included, ends there: the transaction is aborted, and the
 * failure of the view is recorded in a transaction of its own.  If that fails
 * too (disk full), the error is logged and the scheduler is given the next try
 * all the same, so nothing loops.  FATAL errors and pg_terminate_backend end
 * the process; its slot is freed on exit and the scheduler notices.
 *
 * The log gets one message when a view starts to fail or fails in another way,
 * and one when it works again.
 *
 * LOCKING	none while waiting for a task.
 * MEMORY	task context: reset before every task.
 * TRANSACTIONS	one for a batch, one for recording a failure, one or more for
 *			maintenance; none while waiting.
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "commands/dbcommands.h"
#include "libpq/pqsignal.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "tcop/tcopprot.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "batch.h"
#include "catalog.h"
#include "compat.h"
#include "fault.h"
#include "guc.h"
#include "restamp.h"
#include "shmem.h"
#include "summarize.h"
#include "worker.h"

/* what is kept of an error's texts, in bytes */
#define TIDE_FAILURE_TEXT 1000

/* the view a task is about, for messages and pg_stat_activity */
static char view_name[2 * NAMEDATALEN + 8];
static char database_name[NAMEDATALEN];

/* debug_query_string: read whenever something is logged */
static char activity[sizeof(view_name) + 32];

PGDLLEXPORT void tide_worker_main(Datum main_arg);

static void run_task(const TideTask *task, TideReport *report);
static ErrorData *run_guarded(const TideTask *task, TideReport *report);
static void run_batch(const TideTask *task, TideReport *report);
static void summarize(const TideTask *task);
static void run_maintenance(const TideTask *task, TideReport *report);
static bool find_view(const TideTask *task);
static void handle_failure(const TideTask *task, ErrorData *error,
						   TideReport *report);
static void record_failure(const TideTask *task, ErrorData *error,
						   TideReport *report);

/*
 * Fill in what all our dynamic and static processes have in common.
 */
void
tide_worker_describe(BackgroundWorker *worker, const char *kind,
					 const char *function, Oid dboid)
{
	memset(worker, 0, sizeof(*worker));
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION | BGWORKER_INTERRUPTIBLE;
	worker->bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker->bgw_restart_time = BGW_NEVER_RESTART;
	snprintf(worker->bgw_library_name, BGW_MAXLEN, "tidemark");
	snprintf(worker->bgw_function_name, BGW_MAXLEN, "%s", function);
	snprintf(worker->bgw_type, BGW_MAXLEN, "tidemark %s", kind);
	if (OidIsValid(dboid))
		snprintf(worker->bgw_name, BGW_MAXLEN,
				 "tidemark %s for database %u", kind, dboid);
	else
		snprintf(worker->bgw_name, BGW_MAXLEN, "tidemark %s", kind);
}

/*
 * Register a batch worker for a slot.  *handle is allocated in the current
 * memory context.
 */
bool
tide_worker_register(const TideWorkerArgs *args,
					 BackgroundWorkerHandle **handle)
{
	BackgroundWorker worker;

	StaticAssertStmt(sizeof(TideWorkerArgs) <= BGW_EXTRALEN,
					 "TideWorkerArgs does not fit into bgw_extra");

	tide_worker_describe(&worker, "batch worker", "tide_worker_main",
						 args->dboid);
	memcpy(worker.bgw_extra, args, sizeof(*args));
	worker.bgw_notify_pid = MyProcPid;
	return RegisterDynamicBackgroundWorker(&worker, handle);
}

/*
 * Start a transaction.  The database's or the role's defaults for isolation
 * and read-only do not reach our own work.  The memory context stays: what a
 * task allocates lives as long as the task.
 */
void
tide_worker_begin(void)
{
	MemoryContext context = CurrentMemoryContext;

	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	MemoryContextSwitchTo(context);
	XactIsoLevel = XACT_READ_COMMITTED;
	XactReadOnly = false;
	XactDeferrable = false;
}

/*
 * Commit it.  The memory context stays.
 */
void
tide_worker_commit(void)
{
	MemoryContext context = CurrentMemoryContext;

	CommitTransactionCommand();
	MemoryContextSwitchTo(context);
}

/* error context of everything a worker does for a view */
static void
describe_task(void *arg)
{
	if (view_name[0] != '\0')
		errcontext("continuous view \"%s\" in database \"%s\"",
				   view_name, database_name);
}

/*
 * Main function of a batch worker.
 */
void
tide_worker_main(Datum main_arg)
{
	TideWorkerArgs args;
	MemoryContext task_context;
	ErrorContextCallback callback;

	memcpy(&args, MyBgworkerEntry->bgw_extra, sizeof(args));

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();

	if (!tide_shmem_available() || !tide_shmem_attach_worker(&args))
		proc_exit(0);
	BackgroundWorkerInitializeConnectionByOid(args.dboid, InvalidOid, 0);
	tide_shmem_worker_connected();

	callback.callback = describe_task;
	callback.arg = NULL;
	callback.previous = error_context_stack;
	error_context_stack = &callback;

	task_context = AllocSetContextCreate(TopMemoryContext, "tidemark task",
										 ALLOCSET_DEFAULT_SIZES);
	for (;;)
	{
		TideTask	task;
		bool		must_leave;

		MemoryContextReset(task_context);
		MemoryContextSwitchTo(task_context);

		if (tide_shmem_next_task(&task, &must_leave))
		{
			TideReport	report = {0};

			run_task(&task, &report);
			tide_shmem_report(&report);
			pgstat_report_activity(STATE_IDLE, NULL);
			pgstat_report_stat(false);
			CHECK_FOR_INTERRUPTS();
		}
		else if (must_leave)
			proc_exit(0);
		else
		{
			pgstat_report_stat(true);
			tide_shmem_sleep(-1, TIDE_WAIT_WORKER);
		}
	}
}

/*
 * Run a task and fill in the report, whatever happens.
 */
static void
run_task(const TideTask *task, TideReport *report)
{
	ErrorData  *error = run_guarded(task, report);

	if (error != NULL)
		handle_failure(task, error, report);
	view_name[0] = '\0';
	debug_query_string = NULL;
}

/*
 * The error boundary: run a task and return the error it ended with, or NULL.
 * The error is a copy in the current memory context; there is no transaction
 * any more.
 */
static ErrorData *
run_guarded(const TideTask *task, TideReport *report)
{
	MemoryContext context = CurrentMemoryContext;
	ErrorData  *volatile error = NULL;

	PG_TRY();
	{
		if (task->kind == TIDE_TASK_BATCH)
			run_batch(task, report);
		else
			run_maintenance(task, report);
	}
	PG_CATCH();
	{
		HOLD_INTERRUPTS();
		QueryCancelPending = false;
		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		debug_query_string = NULL;
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();

	MemoryContextSwitchTo(context);
	return error;
}

/*
 * Is the task's view still there?  Keeps its name for messages.  In a
 * transaction.
 */
static bool
find_view(const TideTask *task)
{
	char	   *name;
	char	   *schema;
	char	   *database;

	if (!tide_catalog_exists())
		return false;
	name = get_rel_name(task->view);
	schema = name ? get_namespace_name(get_rel_namespace(task->view)) : NULL;
	database = get_database_name(MyDatabaseId);
	if (schema == NULL || database == NULL)
		return false;

	strlcpy(view_name, quote_qualified_identifier(schema, name),
			sizeof(view_name));
	strlcpy(database_name, database, sizeof(database_name));
	return true;
}

/*
 * Is there a transaction that has a transaction id and is newer than all that
 * have ended?  It is not in a snapshot's list of those in progress, but beyond
 * its xmax.  If it is prepared already, nobody will tell when it commits.
 * Before the own transaction has an id.
 *
 * The next id is read first: one that is assigned in between is not prepared
 * yet, and PREPARE tells (tide_shmem_note_prepared).
 */
static bool
has_newest_writer(void)
{
	TransactionId next = ReadNextTransactionId();

	Assert(!TransactionIdIsValid(GetTopTransactionIdIfAny()));
	return TransactionIdPrecedes(GetTransactionSnapshot()->xmax, next);
}

/*
 * Run one batch of a view in a transaction of its own.
 */
static void
run_batch(const TideTask *task, TideReport *report)
{
	TideBatchReport batch;
	instr_time	start;
	instr_time	duration;
	bool		has_writer;
	bool		was_failing = false;

	tide_worker_begin();
	if (!find_view(task))
	{
		tide_worker_commit();
		report->is_gone = true;
		return;
	}

	snprintf(activity, sizeof(activity), "batch of %s", view_name);
	debug_query_string = activity;
	pgstat_report_activity(STATE_RUNNING, activity);
	pgstat_report_appname(view_name);

	has_writer = has_newest_writer();
	batch = tide_batch_run(task->view, false);

	report->waits_for_writers = batch.waits_for_writers || has_writer;
	report->is_busy = batch.result == TIDE_BATCH_BUSY;
	report->is_gone = batch.result == TIDE_BATCH_GONE;
	report->has_more = batch.result == TIDE_BATCH_PIECE;
	report->is_done = batch.result == TIDE_BATCH_PIECE ||
		batch.result == TIDE_BATCH_DONE;

	/* the failure is over together with the batch; no look without one */
	if (task->has_failed && !report->is_busy && !report->is_gone)
		was_failing = tide_catalog_delete_failure(task->view);

	TIDE_FAULT("worker: before commit");
	INSTR_TIME_SET_CURRENT(start);
	tide_worker_commit();
	TIDE_FAULT("worker: after commit");
	INSTR_TIME_SET_CURRENT(duration);
	INSTR_TIME_SUBTRACT(duration, start);
	debug_query_string = NULL;

	if (report->is_done)
		tide_batch_committed(task->view, INSTR_TIME_GET_MICROSEC(duration));
	/* the next piece would read all that is not summarised again */
	if (report->has_more)
		summarize(task);
	if (was_failing)
		ereport(LOG,
				(errmsg("continuous view \"%s\" is maintained again",
						view_name)));
}

/* Summarise the stamp index, in a transaction of its own. */
static void
summarize(const TideTask *task)
{
	tide_worker_begin();
	(void) tide_summarize_run(task->view);
	tide_worker_commit();
}

/*
 * Look after the view's stream outside of a batch.
 */
static void
run_maintenance(const TideTask *task, TideReport *report)
{
	tide_worker_begin();
	if (!find_view(task))
	{
		tide_worker_commit();
		report->is_gone = true;
		return;
	}

	snprintf(activity, sizeof(activity), "maintenance for %s", view_name);
	debug_query_string = activity;
	pgstat_report_activity(STATE_RUNNING, activity);
	pgstat_report_appname(view_name);

	tide_worker_commit();
	summarize(task);

	tide_worker_begin();
	if (tide_restamp_run(task->view) > 0)
		tide_shmem_wake_catalog_at_commit();
	tide_worker_commit();
	debug_query_string = NULL;
}

/*
 * A task ended with an error: record it, and say when to try again.
 */
static void
handle_failure(const TideTask *task, ErrorData *error, TideReport *report)
{
	MemoryContext context = CurrentMemoryContext;

	memset(report, 0, sizeof(*report));
	report->is_failed = true;
	report->next_try = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												   tide_retry_interval);

	PG_TRY();
	{
		record_failure(task, error, report);
	}
	PG_CATCH();
	{
		/* not recorded, then; the log has both */
		HOLD_INTERRUPTS();
		QueryCancelPending = false;
		EmitErrorReport();
		FlushErrorState();
		AbortCurrentTransaction();
		RESUME_INTERRUPTS();

		ereport(LOG,
				(errcode(error->sqlerrcode),
				 errmsg("could not record the failure of continuous view \"%s\": %s",
						view_name, error->message)));
		report->next_try =
			TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
										tide_retry_max_interval);
	}
	PG_END_TRY();

	MemoryContextSwitchTo(context);
}

/* a copy of at most TIDE_FAILURE_TEXT bytes, or NULL */
static char *
truncate_text(const char *text)
{
	int			length;

	if (text == NULL)
		return NULL;
	length = strlen(text);
	if (length > TIDE_FAILURE_TEXT)
		length = pg_mbcliplen(text, length, TIDE_FAILURE_TEXT);
	return pnstrdup(text, length);
}

/*
 * The wait after that many failures in a row: doubled each time, capped.
 */
static int64
retry_wait_ms(int32 attempts)
{
	int64		wait = tide_retry_interval;

	while (--attempts > 0 && wait < tide_retry_max_interval)
		wait *= 2;
	return Min(wait, tide_retry_max_interval);
}

/*
 * Write the failure row of a view, and log when it is news.
 *
 * The view, or the whole extension, may have been dropped while the batch ran,
 * in which case the error is of no interest to anybody.
 */
static void
record_failure(const TideTask *task, ErrorData *error, TideReport *report)
{
	TideFailure *last;
	TideFailure failure = {0};
	bool		is_news = true;
	char	   *name;

	tide_worker_begin();
	PushActiveSnapshot(GetTransactionSnapshot());
	if (!find_view(task) || tide_catalog_read_view(task->view) == NULL)
	{
		PopActiveSnapshot();
		tide_worker_commit();
		report->is_failed = false;
		report->is_gone = true;
		return;
	}

	failure.view = task->view;
	failure.attempts = 1;
	failure.last_failed_at = GetCurrentTimestamp();
	failure.first_failed_at = failure.last_failed_at;
	failure.sqlstate = pstrdup(unpack_sql_state(error->sqlerrcode));
	failure.message = truncate_text(error->message ? error->message :
									"missing error text");
	failure.detail = truncate_text(error->detail);
	failure.hint = truncate_text(error->hint);
	failure.context = truncate_text(error->context);

	if (task->kind == TIDE_TASK_BATCH)
	{
		last = tide_catalog_read_failure(task->view);
		if (last != NULL)
		{
			failure.attempts = last->attempts < PG_INT32_MAX ?
				last->attempts + 1 : last->attempts;
			failure.first_failed_at = last->first_failed_at;
			is_news = strcmp(last->sqlstate, failure.sqlstate) != 0 ||
				strcmp(last->message, failure.message) != 0;
		}
		failure.next_try =
			TimestampTzPlusMilliseconds(failure.last_failed_at,
										retry_wait_ms(failure.attempts));
		TIDE_FAULT("worker: before failure");
		tide_catalog_put_failure(&failure);
		TIDE_FAULT("worker: after failure");
	}
	else
		failure.next_try =
			TimestampTzPlusMilliseconds(failure.last_failed_at,
										tide_retry_max_interval);
	PopActiveSnapshot();
	tide_worker_commit();

	report->next_try = failure.next_try;

	/* the error's context names the view already */
	name = pstrdup(view_name);
	view_name[0] = '\0';
	ereport(is_news ? LOG : DEBUG1,
			(errcode(error->sqlerrcode),
			 errmsg("maintaining continuous view \"%s\" failed: %s",
					name, failure.message),
			 failure.detail ? errdetail_internal("%s", failure.detail) : 0,
			 failure.hint ? errhint("%s", failure.hint) : 0,
			 failure.context ? errcontext("%s", failure.context) : 0));
}
