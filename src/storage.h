/*
 * storage.h
 *		The storage table of a view: its columns, and merging groups into it.
 */
#ifndef TIDE_STORAGE_H
#define TIDE_STORAGE_H

#include "analyze.h"
#include "catalog.h"
#include "groups.h"

/* column numbers; 0: there is none */
typedef struct TideStorageLayout
{
	AttrNumber	window_start;
	AttrNumber	window_end;
	AttrNumber	key_hash;
	AttrNumber	first_key;
	AttrNumber	first_value;
	AttrNumber *state;			/* per transition state; the value's column
								 * when the state is the value */
	int			natts;
} TideStorageLayout;

extern TideStorageLayout *tide_storage_layout(TideQuery *query);

/* make tidemark_data.<name>, owned by the extension's owner */
extern Oid	tide_storage_create(TideQuery *query, const char *name);

extern void tide_storage_give(Oid storage, Oid owner);

typedef struct TideStorage TideStorage;

extern TideStorage *tide_storage_begin(TideQuery *query, Oid storage,
									   TideAggExec *aggs);
extern void tide_storage_merge(TideStorage *storage, TideGroups *groups,
							   TideCounters *counters);
extern void tide_storage_end(TideStorage *storage);

/* is a window with from <= window_start < to stored? */
extern bool tide_storage_has_windows(TideStorage *storage, int64 from,
									 int64 to);
extern void tide_storage_clear(Oid storage);

/* open windows that are counted */
#define TIDE_MAX_OPEN_WINDOWS 10000

/* for monitoring, without waiting; -1: locked, or there is nothing to count */
extern int64 tide_storage_size(Oid storage);
extern int64 tide_storage_count_open(Oid storage, int64 final_before);
extern void tide_storage_seed(TideQuery *query, Oid relid);

#endif							/* TIDE_STORAGE_H */
