/*
 * scheduler.h
 *		Schedulers: one in each database that has continuous views.
 */
#ifndef TIDE_SCHEDULER_H
#define TIDE_SCHEDULER_H

#include "postmaster/bgworker.h"

#include "shmem.h"

/* register a scheduler; false: max_worker_processes is reached */
extern bool tide_scheduler_register(const TideWorkerArgs *args,
									BackgroundWorkerHandle **handle);

#endif							/* TIDE_SCHEDULER_H */
