/*
 * storage.c
 *		The storage table of a view: its columns, and merging groups into it.
 *
 * One row a window and group.  Columns, in this order: window_start and
 * window_end (views with a window), _key_hash, the keys k1.., the value of
 * every aggregate v1.., and the states s1.. that are not a value.  The user's
 * view reads values only, so a read is a plain scan.
 *
 * The index on (window_start, _key_hash) is not unique: keys may be of any
 * length and type, so a group is found by its hash and compared again.  That
 * there is one row a group comes from the checkpoint lock: whoever merges
 * holds it.
 *
 * A merge runs in the middle of the batch's query when the groups have become
 * too many.  It reads with a snapshot of its own, taken after a
 * CommandCounterIncrement, so that groups flushed earlier in the batch are
 * found; the running query's snapshot is not changed by it.
 *
 * LOCKING: RowExclusive on the storage table, to the end of the transaction.
 * SECURITY: rows are written through the table AM, without privilege checks:
 * the table belongs to the extension's owner and nobody else writes it.
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relscan.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_collation.h"
#include "catalog/pg_type.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "compat.h"
#include "fault.h"
#include "security.h"
#include "storage.h"

#define MAX_INDEX_KEYS 2

/* rows that are inserted together */
#define MAX_WAITING 128

struct TideStorage
{
	TideQuery  *query;
	TideStorageLayout *layout;
	TideAggExec *aggs;
	Relation	rel;
	Relation	index;			/* on (window_start, _key_hash) */
	EState	   *estate;
	ResultRelInfo *result_info;
	TupleTableSlot *old_slot;	/* the row found */
	TupleTableSlot *new_slot;	/* the row to write */
	TupleTableSlot *key_slot;	/* the keys of the row found */
	TupleTableSlot *group_slot; /* the keys of the group */
	TupleTableSlot *waiting[MAX_WAITING];	/* rows to insert together */
	int			nwaiting;
	ExprState  *equality;
	Datum	   *states;			/* of one group: stored, then merged */
	bool	   *state_nulls;
};

/* --------------------------------------------------------------------------
 * The table
 * --------------------------------------------------------------------------
 */

/* The columns of the storage table of a query, in the current context. */
TideStorageLayout *
tide_storage_layout(TideQuery *query)
{
	TideStorageLayout *layout = palloc0(sizeof(TideStorageLayout));
	TideAggPlan *aggs = query->aggs;
	AttrNumber	attno = 1;
	int			i;

	if (query->window.kind != TIDE_WINDOW_NONE)
	{
		layout->window_start = attno++;
		layout->window_end = attno++;
	}
	layout->key_hash = attno++;
	layout->first_key = attno;
	attno += query->nkeys;
	layout->first_value = attno;
	attno += aggs->naggs;
	layout->state = palloc(sizeof(AttrNumber) * Max(aggs->ntrans, 1));
	for (i = 0; i < aggs->ntrans; i++)
		layout->state[i] = aggs->trans[i].value_agg >= 0 ?
			layout->first_value + aggs->trans[i].value_agg : attno++;
	layout->natts = attno - 1;

	return layout;
}

/* The qualified name of a collation. */
static char *
qualified_collation(Oid collation)
{
	HeapTuple	tuple = SearchSysCache1(COLLOID, ObjectIdGetDatum(collation));
	Form_pg_collation form;
	char	   *name;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for collation %u", collation);
	form = (Form_pg_collation) GETSTRUCT(tuple);
	name = quote_qualified_identifier(get_namespace_name(form->collnamespace),
									  NameStr(form->collname));
	ReleaseSysCache(tuple);

	return name;
}

/* Add a column definition to a CREATE TABLE. */
static void
append_column(StringInfo sql, const char *name, Oid type, int32 typmod,
			  Oid collation)
{
	appendStringInfo(sql, ",\n%s %s", name,
					 format_type_extended(type, typmod,
										  FORMAT_TYPE_TYPEMOD_GIVEN |
										  FORMAT_TYPE_FORCE_QUALIFY));
	if (OidIsValid(collation) && collation != get_typcollation(type))
		appendStringInfo(sql, " COLLATE %s", qualified_collation(collation));
}

/* CREATE TABLE for a query's storage. */
static char *
make_create_table(TideQuery *query, const char *qualified_name)
{
	TideAggPlan *aggs = query->aggs;
	StringInfoData columns;
	int			i;

	initStringInfo(&columns);
	if (query->window.kind != TIDE_WINDOW_NONE)
	{
		append_column(&columns, "window_start", query->window.type, -1,
					  InvalidOid);
		append_column(&columns, "window_end", query->window.type, -1,
					  InvalidOid);
	}
	append_column(&columns, "_key_hash", INT8OID, -1, InvalidOid);
	for (i = 0; i < query->nkeys; i++)
		append_column(&columns, psprintf("k%d", i + 1), query->keys[i].type,
					  query->keys[i].typmod, query->keys[i].collation);
	for (i = 0; i < aggs->naggs; i++)
		append_column(&columns, psprintf("v%d", i + 1), aggs->aggs[i].type,
					  aggs->aggs[i].typmod, aggs->aggs[i].collation);
	for (i = 0; i < aggs->ntrans; i++)
		if (aggs->trans[i].value_agg < 0)
			append_column(&columns, psprintf("s%d", i + 1),
						  aggs->trans[i].stored_type, -1, InvalidOid);

	/* room on the page, as open windows are updated over and over */
	return psprintf("CREATE TABLE %s (%s) WITH (fillfactor = 70)",
					qualified_name, columns.data + 1);
}

/* Run a statement of our own, which must succeed as the given kind. */
static void
run_utility(const char *sql)
{
	int			result = SPI_execute(sql, false, 0);

	if (result != SPI_OK_UTILITY)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(result));
}

/*
 * Make tidemark_data.<name> with its index, as the extension's owner.  The
 * caller gives it to the view's owner and records dependencies.
 */
Oid
tide_storage_create(TideQuery *query, const char *name)
{
	Oid			schema = tide_catalog_data_schema();
	char	   *qualified_name =
		quote_qualified_identifier(get_namespace_name(schema), name);
	char	   *create_table = make_create_table(query, qualified_name);
	bool		is_windowed = query->window.kind != TIDE_WINDOW_NONE;
	TideSecurity saved;
	int			natts = tide_storage_layout(query)->natts;

	if (natts > MaxHeapAttributeNumber)
		ereport(ERROR,
				(errcode(ERRCODE_TOO_MANY_COLUMNS),
				 errmsg("continuous view has too many keys and aggregates"),
				 errdetail("Its storage table would have %d columns; the limit is %d.",
						   natts, MaxHeapAttributeNumber),
				 errhint("Divide it into several views.")));

	tide_security_enter_extension(&saved);
	SPI_connect();
	run_utility(create_table);
	run_utility(psprintf("CREATE INDEX ON %s (%s_key_hash)", qualified_name,
						 is_windowed ? "window_start, " : ""));
	SPI_finish();
	tide_security_leave(&saved);
	CommandCounterIncrement();

	return get_relname_relid(name, schema);
}

/*
 * Who else than its owner has a right on the storage table, as a list of OIDs;
 * *can_read: the role given has SELECT.
 */
static List *
find_grantees(Oid storage, Oid role, bool *can_read)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(storage));
	List	   *grantees = NIL;
	Datum		datum;
	Acl		   *acl;
	Oid			owner;
	bool		isnull;
	int			i;

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", storage);
	owner = ((Form_pg_class) GETSTRUCT(tuple))->relowner;
	*can_read = owner == role;
	datum = SysCacheGetAttr(RELOID, tuple, Anum_pg_class_relacl, &isnull);
	acl = isnull ? NULL : DatumGetAclPCopy(datum);
	ReleaseSysCache(tuple);

	for (i = 0; acl != NULL && i < ACL_NUM(acl); i++)
	{
		AclItem    *item = &ACL_DAT(acl)[i];

		if (item->ai_grantee == owner)
			continue;
		if (item->ai_grantee == role &&
			(ACLITEM_GET_PRIVS(*item) & ACL_SELECT) != 0)
			*can_read = true;
		grantees = list_append_unique_oid(grantees, item->ai_grantee);
	}

	return grantees;
}

/*
 * Let the view's owner read the storage table.  When he could not, he is new,
 * and those who could are not the owner any more.
 */
void
tide_storage_give(Oid storage, Oid owner)
{
	char	   *name = quote_qualified_identifier(get_namespace_name(get_rel_namespace(storage)),
												  get_rel_name(storage));
	bool		can_read;
	List	   *grantees = find_grantees(storage, owner, &can_read);
	TideSecurity saved;
	ListCell   *lc;

	if (can_read)
		return;

	tide_security_enter_extension(&saved);
	SPI_connect();
	foreach(lc, grantees)
	{
		Oid			role = lfirst_oid(lc);

		run_utility(psprintf("REVOKE ALL ON %s FROM %s", name,
							 role == ACL_ID_PUBLIC ? "PUBLIC" :
							 quote_identifier(GetUserNameFromId(role, false))));
	}
	run_utility(psprintf("GRANT SELECT ON %s TO %s", name,
						 quote_identifier(GetUserNameFromId(owner, false))));
	SPI_finish();
	tide_security_leave(&saved);
	CommandCounterIncrement();
}

/* Delete all rows.  The caller holds the checkpoint lock. */
void
tide_storage_clear(Oid storage)
{
	char	   *sql = psprintf("DELETE FROM %s",
							   quote_qualified_identifier(get_namespace_name(get_rel_namespace(storage)),
														  get_rel_name(storage)));
	TideSecurity saved;
	int			result;

	tide_security_enter_extension(&saved);
	SPI_connect();
	result = SPI_execute(sql, false, 0);
	if (result != SPI_OK_DELETE)
		elog(ERROR, "\"%s\" failed: %s", sql, SPI_result_code_string(result));
	SPI_finish();
	tide_security_leave(&saved);
	CommandCounterIncrement();
}

/* --------------------------------------------------------------------------
 * Merging
 * --------------------------------------------------------------------------
 */

/*
 * Our index: the first btree that starts with (window_start, _key_hash), or
 * with _key_hash in a view without windows.  The user may have added others.
 */
static Relation
open_own_index(Relation rel, TideStorageLayout *layout)
{
	List	   *indexes = RelationGetIndexList(rel);
	AttrNumber	first = layout->window_start ? layout->window_start :
		layout->key_hash;
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), AccessShareLock);
		Form_pg_index form = index->rd_index;

		if (form->indisvalid && form->indkey.values[0] == first &&
			(first == layout->key_hash ||
			 (form->indnkeyatts > 1 &&
			  form->indkey.values[1] == layout->key_hash)) &&
			RelationGetIndexPredicate(index) == NIL)
			return index;
		index_close(index, AccessShareLock);
	}

	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("storage table \"%s\" has lost its index",
					RelationGetRelationName(rel)),
			 errhint("Create an index on (%s_key_hash).",
					 layout->window_start ? "window_start, " : "")));
	return NULL;				/* keep the compiler quiet */
}

/* Open the storage of a view for a batch; result in the current context. */
TideStorage *
tide_storage_begin(TideQuery *query, Oid storage, TideAggExec *aggs)
{
	TideStorage *result = palloc0(sizeof(TideStorage));
	int			ntrans = query->aggs->ntrans;
	bool		speculative = false;

	result->query = query;
	result->aggs = aggs;
	result->layout = tide_storage_layout(query);
	result->rel = table_open(storage, RowExclusiveLock);
	if (RelationGetNumberOfAttributes(result->rel) != result->layout->natts)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("storage table \"%s\" does not fit its definition",
						RelationGetRelationName(result->rel)),
				 errdetail("It has %d columns, %d are expected.",
						   RelationGetNumberOfAttributes(result->rel),
						   result->layout->natts)));
	result->index = open_own_index(result->rel, result->layout);

	result->estate = CreateExecutorState();
	result->result_info = makeNode(ResultRelInfo);
	InitResultRelInfo(result->result_info, result->rel, 0, NULL, 0);
	ExecOpenIndices(result->result_info, speculative);

	result->old_slot = table_slot_create(result->rel, NULL);
	result->new_slot =
		MakeSingleTupleTableSlot(RelationGetDescr(result->rel),
								 &TTSOpsVirtual);
	result->states = palloc0(sizeof(Datum) * Max(ntrans, 1));
	result->state_nulls = palloc0(sizeof(bool) * Max(ntrans, 1));

	return result;
}

/* Close the storage; the lock stays. */
void
tide_storage_end(TideStorage *storage)
{
	int			i;

	ExecDropSingleTupleTableSlot(storage->old_slot);
	ExecDropSingleTupleTableSlot(storage->new_slot);
	for (i = 0; i < MAX_WAITING && storage->waiting[i] != NULL; i++)
		ExecDropSingleTupleTableSlot(storage->waiting[i]);
	if (storage->key_slot != NULL)
	{
		ExecDropSingleTupleTableSlot(storage->key_slot);
		ExecDropSingleTupleTableSlot(storage->group_slot);
	}
	ExecCloseIndices(storage->result_info);
	FreeExecutorState(storage->estate);
	index_close(storage->index, AccessShareLock);
	table_close(storage->rel, NoLock);
	pfree(storage);
}

/* A scan key of our index on the window's start. */
static void
init_window_key(TideStorage *storage, ScanKey key, StrategyNumber strategy,
				int64 start)
{
	Oid			type = storage->query->window.type;
	Oid			opfamily = storage->index->rd_opfamily[0];
	Oid			operator = get_opfamily_member(opfamily, type, type, strategy);

	ScanKeyInit(key, 1, strategy, get_opcode(operator), Int64GetDatum(start));
}

/* Scan keys of our index for a group; the number of keys. */
static int
init_group_keys(TideStorage *storage, ScanKey keys, const TideGroup *group)
{
	int			n = 0;

	if (storage->layout->window_start)
		init_window_key(storage, &keys[n++], BTEqualStrategyNumber,
						group->key.window_start);
	ScanKeyInit(&keys[n], n + 1, BTEqualStrategyNumber, F_INT8EQ,
				Int64GetDatum(group->key_hash));

	return n + 1;
}

/* Are the keys of the row in old_slot those of the group in group_slot? */
static bool
row_matches(TideStorage *storage)
{
	ExprContext *context = GetPerTupleExprContext(storage->estate);
	TupleTableSlot *key_slot = storage->key_slot;
	int			nkeys = storage->query->nkeys;
	int			first = storage->layout->first_key - 1;

	if (nkeys == 0)
		return true;
	ExecClearTuple(key_slot);
	slot_getsomeattrs(storage->old_slot, first + nkeys);
	memcpy(key_slot->tts_values, &storage->old_slot->tts_values[first],
		   sizeof(Datum) * nkeys);
	memcpy(key_slot->tts_isnull, &storage->old_slot->tts_isnull[first],
		   sizeof(bool) * nkeys);
	ExecStoreVirtualTuple(key_slot);
	context->ecxt_innertuple = key_slot;
	context->ecxt_outertuple = storage->group_slot;

	return ExecQualAndReset(storage->equality, context);
}

/* Find the row of the group in group_slot; it is then in old_slot. */
static bool
find_row(TideStorage *storage, IndexScanDesc scan, const TideGroup *group)
{
	ScanKeyData keys[MAX_INDEX_KEYS];
	int			nkeys = init_group_keys(storage, keys, group);

	index_rescan(scan, keys, nkeys, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, storage->old_slot))
	{
		if (row_matches(storage))
			return true;
	}

	return false;
}

/* Fill new_slot with the group's window and keys. */
static void
set_identity(TideStorage *storage, const TideGroup *group)
{
	TideStorageLayout *layout = storage->layout;
	TupleTableSlot *slot = storage->new_slot;
	int			nkeys = storage->query->nkeys;
	int			first = layout->first_key - 1;

	if (layout->window_start)
	{
		slot->tts_values[layout->window_start - 1] =
			Int64GetDatum(group->key.window_start);
		slot->tts_values[layout->window_end - 1] =
			Int64GetDatum(group->window_end);
	}
	slot->tts_values[layout->key_hash - 1] = Int64GetDatum(group->key_hash);
	if (nkeys > 0)
	{
		slot_getallattrs(storage->group_slot);
		memcpy(&slot->tts_values[first], storage->group_slot->tts_values,
			   sizeof(Datum) * nkeys);
		memcpy(&slot->tts_isnull[first], storage->group_slot->tts_isnull,
			   sizeof(bool) * nkeys);
	}
}

/* Put the states of the row in old_slot where a merge wants them. */
static void
read_states(TideStorage *storage)
{
	int			i;

	slot_getallattrs(storage->old_slot);
	for (i = 0; i < storage->query->aggs->ntrans; i++)
	{
		int			column = storage->layout->state[i] - 1;

		storage->states[i] = storage->old_slot->tts_values[column];
		storage->state_nulls[i] = storage->old_slot->tts_isnull[column];
	}
}

/*
 * Fill new_slot with the values and states of a group, merged with the row in
 * old_slot if there is one.
 */
static void
set_result(TideStorage *storage, const TideGroup *group, bool has_old)
{
	TideStorageLayout *layout = storage->layout;
	TupleTableSlot *slot = storage->new_slot;
	int			ntrans = storage->query->aggs->ntrans;
	Datum	   *values = &slot->tts_values[layout->first_value - 1];
	bool	   *nulls = &slot->tts_isnull[layout->first_value - 1];
	int			i;

	if (has_old)
		read_states(storage);
	tide_aggregate_merge(storage->aggs, group->states,
						 has_old ? storage->states : NULL,
						 has_old ? storage->state_nulls : NULL,
						 values, nulls,
						 storage->states, storage->state_nulls);
	for (i = 0; i < ntrans; i++)
	{
		int			column = layout->state[i] - 1;

		/* where the value is the state it stands there already */
		slot->tts_values[column] = storage->states[i];
		slot->tts_isnull[column] = storage->state_nulls[i];
	}
}

/* Write new_slot over the row in old_slot. */
static void
update_row(TideStorage *storage, Snapshot snapshot, CommandId cid)
{
	bool		wait = true;
	bool		is_update = true;
	TM_FailureData failure;
	LockTupleMode lockmode;
	TideUpdateIndexes update_indexes;
	TM_Result	result;

	result = table_tuple_update(storage->rel, &storage->old_slot->tts_tid,
								storage->new_slot, cid, snapshot,
								InvalidSnapshot, wait, &failure, &lockmode,
								&update_indexes);
	if (result != TM_Ok)
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("storage table \"%s\" was written by another session",
						RelationGetRelationName(storage->rel)),
				 errdetail("Updating a row returned %d.", (int) result)));
	if (!TIDE_UPDATES_NO_INDEX(update_indexes))
		list_free(TIDE_INSERT_INDEX_TUPLES(storage->result_info,
										   storage->new_slot, storage->estate,
										   is_update, update_indexes));
}

/* Insert the rows that wait for it. */
static void
insert_waiting(TideStorage *storage, CommandId cid)
{
	bool		is_update = false;
	int			no_options = 0;
	TideUpdateIndexes update_indexes = 0;
	int			i;

	if (storage->nwaiting == 0)
		return;
	table_multi_insert(storage->rel, storage->waiting, storage->nwaiting, cid,
					   no_options, NULL);
	for (i = 0; i < storage->nwaiting; i++)
	{
		list_free(TIDE_INSERT_INDEX_TUPLES(storage->result_info,
										   storage->waiting[i],
										   storage->estate, is_update,
										   update_indexes));
		ExecClearTuple(storage->waiting[i]);
		ResetPerTupleExprContext(storage->estate);
	}
	(void) update_indexes;
	storage->nwaiting = 0;
}

/* Insert a copy of new_slot, with others or at the latest at the end. */
static void
insert_row(TideStorage *storage, CommandId cid)
{
	MemoryContext old_context;

	if (storage->nwaiting == MAX_WAITING)
		insert_waiting(storage, cid);
	if (storage->waiting[storage->nwaiting] == NULL)
	{
		old_context = MemoryContextSwitchTo(GetMemoryChunkContext(storage));
		storage->waiting[storage->nwaiting] = table_slot_create(storage->rel,
																NULL);
		MemoryContextSwitchTo(old_context);
	}
	ExecCopySlot(storage->waiting[storage->nwaiting], storage->new_slot);
	storage->nwaiting++;
}

/* The last window_start that is stored; PG_INT64_MIN when there is none. */
static int64
last_window(TideStorage *storage, IndexScanDesc scan)
{
	int64		start = PG_INT64_MIN;
	bool		isnull;

	index_rescan(scan, NULL, 0, NULL, 0);
	if (index_getnext_slot(scan, BackwardScanDirection, storage->old_slot))
		start = DatumGetInt64(slot_getattr(storage->old_slot,
										   storage->layout->window_start,
										   &isnull));

	return start;
}

/* Prepare the comparison of keys; it needs the groups' descriptor. */
static void
init_key_slots(TideStorage *storage, TideGroups *groups)
{
	TupleDesc	desc = tide_groups_key_desc(groups);
	MemoryContext old_context;

	if (storage->key_slot != NULL)
		return;
	old_context = MemoryContextSwitchTo(GetMemoryChunkContext(storage));
	storage->key_slot = MakeSingleTupleTableSlot(desc, &TTSOpsVirtual);
	storage->group_slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	storage->equality = tide_groups_key_equality(groups);
	MemoryContextSwitchTo(old_context);
}

/*
 * Merge all groups into the table and count them.  The groups stay as they
 * are; the caller resets them.  Writes, and ends with
 * CommandCounterIncrement.
 */
void
tide_storage_merge(TideStorage *storage, TideGroups *groups,
				   TideCounters *counters)
{
	TideGroup **sorted = tide_groups_sorted(groups);
	uint64		ngroups = tide_groups_count(groups);
	int			nindex_keys = storage->layout->window_start ? 2 : 1;
	int64		last = PG_INT64_MAX;
	bool		should_free = false;
	Snapshot	snapshot;
	IndexScanDesc scan;
	CommandId	cid;
	uint64		i;

	init_key_slots(storage, groups);
	CommandCounterIncrement();
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	PushActiveSnapshot(snapshot);
	cid = GetCurrentCommandId(true);
	if (storage->layout->window_start)
	{
		scan = TIDE_INDEX_BEGINSCAN(storage->rel, storage->index, snapshot, 0);
		last = last_window(storage, scan);
		index_endscan(scan);
	}
	scan = TIDE_INDEX_BEGINSCAN(storage->rel, storage->index, snapshot,
								nindex_keys);

	for (i = 0; i < ngroups; i++)
	{
		TideGroup  *group = sorted[i];
		bool		has_old;

		CHECK_FOR_INTERRUPTS();
		if (storage->query->nkeys > 0)
			ExecStoreMinimalTuple(group->tuple, storage->group_slot,
								  should_free);
		/* most windows are new ones, which need no lookup */
		has_old = group->key.window_start <= last &&
			find_row(storage, scan, group);
		TIDE_FAULT("storage: before row");

		ExecClearTuple(storage->new_slot);
		memset(storage->new_slot->tts_isnull, false,
			   sizeof(bool) * storage->layout->natts);
		set_identity(storage, group);
		set_result(storage, group, has_old);
		ExecStoreVirtualTuple(storage->new_slot);
		if (has_old)
			update_row(storage, snapshot, cid);
		else
		{
			insert_row(storage, cid);
			counters->v[TIDE_GROUPS_NEW]++;
		}
		TIDE_FAULT("storage: after row");
		tide_aggregate_release(storage->aggs);
		ResetPerTupleExprContext(storage->estate);
	}
	insert_waiting(storage, cid);
	TIDE_FAULT("storage: all rows");

	index_endscan(scan);
	ExecClearTuple(storage->old_slot);
	ExecClearTuple(storage->new_slot);
	PopActiveSnapshot();
	UnregisterSnapshot(snapshot);
	CommandCounterIncrement();
	counters->v[TIDE_GROUPS_UPDATED] += ngroups;
	counters->v[TIDE_FLUSHES]++;
}

/*
 * Is there a window with from <= window_start < to?  For a storage with
 * windows.
 */
bool
tide_storage_has_windows(TideStorage *storage, int64 from, int64 to)
{
	ScanKeyData keys[MAX_INDEX_KEYS];
	Snapshot	snapshot = RegisterSnapshot(GetLatestSnapshot());
	IndexScanDesc scan;
	bool		found;

	init_window_key(storage, &keys[0], BTGreaterEqualStrategyNumber, from);
	init_window_key(storage, &keys[1], BTLessStrategyNumber, to);
	scan = TIDE_INDEX_BEGINSCAN(storage->rel, storage->index, snapshot,
								lengthof(keys));
	index_rescan(scan, keys, lengthof(keys), NULL, 0);
	found = index_getnext_slot(scan, ForwardScanDirection, storage->old_slot);
	ExecClearTuple(storage->old_slot);
	index_endscan(scan);
	UnregisterSnapshot(snapshot);

	return found;
}

/* --------------------------------------------------------------------------
 * Monitoring
 * --------------------------------------------------------------------------
 */

/* Lock a relation without waiting; false: it is locked by others, or gone. */
static bool
trylock(Oid relid)
{
	return ConditionalLockRelationOid(relid, AccessShareLock) &&
		SearchSysCacheExists1(RELOID, ObjectIdGetDatum(relid));
}

/* Lock all indexes of a table without waiting. */
static bool
trylock_indexes(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	bool		is_locked = true;
	ListCell   *lc;

	foreach(lc, indexes)
		is_locked &= trylock(lfirst_oid(lc));
	list_free(indexes);

	return is_locked;
}

/* Bytes on disk, with indexes and TOAST; see storage.h. */
int64
tide_storage_size(Oid storage)
{
	Relation	rel;
	Oid			toast;
	bool		is_locked;

	if (!trylock(storage))
		return -1;
	rel = table_open(storage, NoLock);
	is_locked = trylock_indexes(rel);
	toast = rel->rd_rel->reltoastrelid;
	table_close(rel, NoLock);
	if (is_locked && OidIsValid(toast))
	{
		is_locked = trylock(toast);
		if (is_locked)
		{
			rel = table_open(toast, NoLock);
			is_locked = trylock_indexes(rel);
			table_close(rel, NoLock);
		}
	}
	if (!is_locked)
		return -1;

	return DatumGetInt64(DirectFunctionCall1(pg_total_relation_size,
											 ObjectIdGetDatum(storage)));
}

/* An index that begins with the first column, locked without waiting. */
static Relation
try_first_index(Relation rel)
{
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	foreach(lc, indexes)
	{
		Relation	index;

		if (!trylock(lfirst_oid(lc)))
			continue;
		index = index_open(lfirst_oid(lc), NoLock);
		if (index->rd_index->indisvalid &&
			index->rd_index->indkey.values[0] == 1 &&
			index->rd_rel->relam == BTREE_AM_OID &&
			RelationGetIndexPredicate(index) == NIL)
			return index;
		index_close(index, NoLock);
	}

	return NULL;
}

/*
 * How many windows are stored that start at or after a time, up to
 * TIDE_MAX_OPEN_WINDOWS: a step of the index each.  See storage.h.
 */
int64
tide_storage_count_open(Oid storage, int64 final_before)
{
	AttrNumber	window_start = 1;
	StrategyNumber strategy = BTGreaterEqualStrategyNumber;
	Relation	rel;
	Relation	index;
	IndexScanDesc scan;
	TupleTableSlot *slot;
	Oid			type;
	int64		n = 0;

	if (get_attnum(storage, "window_start") != window_start ||
		!trylock(storage))
		return -1;
	rel = table_open(storage, NoLock);
	index = try_first_index(rel);
	if (index == NULL)
	{
		table_close(rel, NoLock);
		return -1;
	}

	type = TupleDescAttr(RelationGetDescr(rel), window_start - 1)->atttypid;
	slot = table_slot_create(rel, NULL);
	scan = TIDE_INDEX_BEGINSCAN(rel, index, GetActiveSnapshot(), 1);
	while (n < TIDE_MAX_OPEN_WINDOWS)
	{
		Oid			operator = get_opfamily_member(index->rd_opfamily[0], type,
												   type, strategy);
		ScanKeyData key;
		bool		isnull;

		CHECK_FOR_INTERRUPTS();
		ScanKeyInit(&key, 1, strategy, get_opcode(operator),
					Int64GetDatum(final_before));
		index_rescan(scan, &key, 1, NULL, 0);
		if (!index_getnext_slot(scan, ForwardScanDirection, slot))
			break;
		final_before = DatumGetInt64(slot_getattr(slot, window_start,
												  &isnull));
		strategy = BTGreaterStrategyNumber;
		n++;
	}
	index_endscan(scan);
	ExecDropSingleTupleTableSlot(slot);
	index_close(index, NoLock);
	table_close(rel, NoLock);

	return n;
}

/*
 * A view with neither window nor keys has its one row from the start, as its
 * query has one over an empty table.  Nothing for other views.  Needs an
 * active snapshot; runs the aggregates as the current user.
 */
void
tide_storage_seed(TideQuery *query, Oid relid)
{
	TideCounters scratch = {{0}};
	TideAggExec *aggs;
	TideGroups *groups;
	TideStorage *storage;

	if (query->window.kind != TIDE_WINDOW_NONE || query->nkeys > 0)
		return;

	aggs = tide_aggregate_begin(query->aggs);
	groups = tide_groups_begin(query, aggs);
	storage = tide_storage_begin(query, relid, aggs);
	(void) tide_groups_lookup(groups, 0, 0, NULL);
	tide_storage_merge(storage, groups, &scratch);
	tide_storage_end(storage);
	tide_groups_end(groups);
	tide_aggregate_end(aggs);
}
