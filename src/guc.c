/*
 * guc.c
 *		Every setting of tidemark.
 *
 * One place, so that names, units and bounds can be read at a glance and
 * `make lint` can hold them against the README.  Settings that size shared
 * memory are POSTMASTER; whatever a worker re-reads on SIGHUP is SIGHUP; what
 * only concerns the session that runs a batch is USERSET.
 */
#include "postgres.h"

#include <limits.h>

#include "miscadmin.h"
#include "utils/guc.h"

#include "compat.h"
#include "guc.h"

bool		tide_allow_unconsumed_drop = false;
bool		tide_asynchronous_commit = false;
int			tide_batch_memory = 65536;
bool		tide_fast_path = true;
int			tide_max_workers = 4;
int			tide_min_batch_interval = 10;
int			tide_piece_blocks = 16384;
int			tide_piece_delay = 0;
int			tide_poll_interval = 10;
int			tide_retry_interval = 1000;
int			tide_retry_max_interval = 300000;

/*
 * Define the settings.  Called once, from _PG_init.  A session that loads the
 * library by itself may not define a setting of the server's start; there
 * max_workers has no effect, and is defined so that its value in a
 * configuration file is no error.
 */
void
tide_guc_define(void)
{
	DefineCustomBoolVariable("tidemark.allow_unconsumed_drop",
							 "Lets tables be dropped, detached or truncated with rows that views have not consumed.",
							 "The rows are counted as lost.",
							 &tide_allow_unconsumed_drop,
							 false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomBoolVariable("tidemark.asynchronous_commit",
							 "Lets batches that close no window commit asynchronously.",
							 "A lost batch is lost whole and read again.",
							 &tide_asynchronous_commit,
							 false,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.batch_memory",
							"Memory for the groups of a batch before they are written out.",
							NULL,
							&tide_batch_memory,
							65536, 64, MAX_KILOBYTES,
							PGC_USERSET, GUC_UNIT_KB,
							NULL, NULL, NULL);

	DefineCustomBoolVariable("tidemark.fast_path",
							 "Calls common transitions and compares common keys directly.",
							 "Results are the same without; for finding out whether they are.",
							 &tide_fast_path,
							 true,
							 PGC_USERSET, 0,
							 NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.max_workers",
							"Number of batch workers in the cluster.",
							"They count against max_worker_processes.",
							&tide_max_workers,
							4, 1, 64,
							process_shared_preload_libraries_in_progress ?
							PGC_POSTMASTER : PGC_SIGHUP, 0,
							NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.min_batch_interval",
							"Least time between the starts of two batches of one view.",
							NULL,
							&tide_min_batch_interval,
							10, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.piece_blocks",
							"Blocks of existing rows that are read in one transaction.",
							NULL,
							&tide_piece_blocks,
							16384, 1, INT_MAX,
							PGC_USERSET, GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.piece_delay",
							"Pause between two pieces of a history or backlog.",
							"Leaves time to others while a large table is taken in.",
							&tide_piece_delay,
							0, 0, INT_MAX,
							PGC_USERSET, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.poll_interval",
							"Longest time a scheduler sleeps before it looks for work by itself.",
							NULL,
							&tide_poll_interval,
							10, 1, 86400,
							PGC_SIGHUP, GUC_UNIT_S,
							NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.retry_interval",
							"Wait before a view that failed is tried again; doubled at every further failure.",
							NULL,
							&tide_retry_interval,
							1000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	DefineCustomIntVariable("tidemark.retry_max_interval",
							"Upper bound of the wait before a view that failed is tried again.",
							NULL,
							&tide_retry_max_interval,
							300000, 1, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_MS,
							NULL, NULL, NULL);

	MarkGUCPrefixReserved("tidemark");
}
