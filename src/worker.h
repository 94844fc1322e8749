/*
 * worker.h
 *		Batch workers: one process, one batch at a time.
 */
#ifndef TIDE_WORKER_H
#define TIDE_WORKER_H

#include "postmaster/bgworker.h"

#include "shmem.h"

/* what all our processes have in common; kind: "scheduler", ... */
extern void tide_worker_describe(BackgroundWorker *worker, const char *kind,
								 const char *function, Oid dboid);

/* register a batch worker; false: max_worker_processes is reached */
extern bool tide_worker_register(const TideWorkerArgs *args,
								 BackgroundWorkerHandle **handle);

/* the transactions of our processes: READ COMMITTED, whatever is the default */
extern void tide_worker_begin(void);
extern void tide_worker_commit(void);

#endif							/* TIDE_WORKER_H */
