/*
 * shmem.h
 *		Shared state: databases, worker slots, latches, generations.
 *
 * Everything is a no-op when the library was not preloaded.
 */
#ifndef TIDE_SHMEM_H
#define TIDE_SHMEM_H

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

/* a transaction that stamped rows was prepared in this database */
extern void tide_shmem_note_prepared(void);

#endif							/* TIDE_SHMEM_H */
