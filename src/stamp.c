/*
 * stamp.c
 *		Transaction stamps: base, the column, and the wake-up at commit.
 *
 * Every row of a stream carries in its column _txid the transaction that
 * inserted it, as base + top-level full transaction id.  The base makes stamps
 * of this database greater than those in a dump that is restored into it: it
 * is (epoch seconds << 31) - transaction id at CREATE EXTENSION, and is not
 * dumped.  It lives in the body of tidemark.stamp_base(), a member of the
 * extension, because a function's body is read through the syscache: no table
 * is locked by an INSERT, and a changed base reaches other sessions with the
 * invalidation that they process when they lock the table they insert into.
 *
 * The default of the column is evaluated for each row of a COPY, so the stamp
 * is computed once a transaction.
 *
 * LOCKING: tidemark.rebase() locks the function, so that there is one at a
 * time, and holds SHARE ROW EXCLUSIVE on every stream and its partitions to the
 * end of its transaction, so no transaction has stamped rows by the old base
 * and not ended when the new one counts.
 *
 * TRANSACTIONS: what is cached is forgotten when the transaction ends.  The
 * commit callback runs when others can already see the transaction's rows, and
 * must not fail.
 */
#include "postgres.h"

#include <time.h>

#include "access/brin.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_am.h"
#include "catalog/pg_class.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_type.h"
#include "commands/extension.h"
#include "common/int.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/relcache.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "catalog.h"
#include "compat.h"
#include "shmem.h"
#include "stamp.h"

#define BASE_FUNCTION "stamp_base"
#define BASE_BODY "SELECT "		/* and the number */
#define STAMP_TYPE "stamp"

/* the base, as long as pg_proc has not changed */
static int64 base = 0;
static bool base_is_valid = false;

/* the stamp of the current transaction */
static int64 current_stamp = 0;
static bool current_is_valid = false;

/* did the current transaction ask for its stamp? */
static bool has_stamped = false;

static int64 transaction_stamp(void);
static HeapTuple find_base_function(void);
static Oid	base_function(void);
static int64 parse_base(HeapTuple tuple);
static void forget_base(Datum arg, int cacheid, uint32 hashvalue);
static void end_transaction(XactEvent event, void *arg);
static uint64 oldest_running_xid(void);
static void write_base(int64 new_base);
static bool index_is_brin(Oid indexid);

PG_FUNCTION_INFO_V1(tide_txid_stamp);
PG_FUNCTION_INFO_V1(tide_guard_stamp);
PG_FUNCTION_INFO_V1(tide_rebase);

/*
 * The base of this database's stamps.  Needs a transaction; ereports when the
 * extension is not there.
 */
int64
tide_stamp_base(void)
{
	static bool is_registered = false;
	HeapTuple	tuple;

	if (base_is_valid)
		return base;

	if (!is_registered)
	{
		CacheRegisterSyscacheCallback(PROCOID, forget_base, (Datum) 0);
		is_registered = true;
	}

	tuple = find_base_function();
	base = parse_base(tuple);
	base_is_valid = true;
	ReleaseSysCache(tuple);

	return base;
}

/* The pg_proc row of tidemark.stamp_base(), to be released by the caller. */
static HeapTuple
find_base_function(void)
{
	oidvector  *no_arguments = buildoidvector(NULL, 0);
	HeapTuple	tuple;

	tuple = SearchSysCache3(PROCNAMEARGSNSP,
							CStringGetDatum(BASE_FUNCTION),
							PointerGetDatum(no_arguments),
							ObjectIdGetDatum(tide_catalog_schema()));
	if (!HeapTupleIsValid(tuple))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("function tidemark.%s() does not exist",
						BASE_FUNCTION)));
	pfree(no_arguments);

	return tuple;
}

/* The number in the body of the function. */
static int64
parse_base(HeapTuple tuple)
{
	Datum		prosrc;
	bool		isnull;
	char	   *body;
	char	   *end = NULL;
	int64		number = 0;

	prosrc = SysCacheGetAttr(PROCNAMEARGSNSP, tuple, Anum_pg_proc_prosrc,
							 &isnull);
	Assert(!isnull);
	body = TextDatumGetCString(prosrc);
	if (strncmp(body, BASE_BODY, strlen(BASE_BODY)) == 0)
	{
		errno = 0;
		number = strtoll(body + strlen(BASE_BODY), &end, 10);
	}
	if (end == NULL || end == body + strlen(BASE_BODY) || *end != '\0' ||
		errno != 0)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("function tidemark.%s() was changed",
						BASE_FUNCTION),
				 errdetail("Its body is \"%s\".", body)));
	pfree(body);

	return number;
}

/* pg_proc has changed: read the base again when it is needed. */
static void
forget_base(Datum arg, int cacheid, uint32 hashvalue)
{
	base_is_valid = false;
	current_is_valid = false;
}

/* See stamp.h. */
int64
tide_stamp_current(void)
{
	return transaction_stamp();
}

/* tidemark.txid_stamp(): the stamp of the current transaction. */
Datum
tide_txid_stamp(PG_FUNCTION_ARGS)
{
	PG_RETURN_INT64(transaction_stamp());
}

/*
 * tidemark.guard_stamp(stamp, relation): the stamp of the current transaction,
 * when it or a NULL is given; ereports when another one is.  Put into INSERTs
 * by the planner hook.
 */
Datum
tide_guard_stamp(PG_FUNCTION_ARGS)
{
	int64		stamp = transaction_stamp();
	char	   *table;

	if (PG_ARGISNULL(0) || PG_GETARG_INT64(0) == stamp)
		PG_RETURN_INT64(stamp);

	table = PG_ARGISNULL(1) ? NULL : get_rel_name(PG_GETARG_OID(1));
	ereport(ERROR,
			(errcode(ERRCODE_GENERATED_ALWAYS),
			 errmsg("cannot insert a value into column \"%s\" of \"%s\"",
					TIDE_STAMP_COLUMN, table ? table : "?"),
			 errdetail("The column says which transaction inserted the row."),
			 errhint("List the columns to insert into, without \"%s\".",
					 TIDE_STAMP_COLUMN)));

	PG_RETURN_NULL();
}

/* The stamp of the current transaction.  Assigns a transaction id. */
static int64
transaction_stamp(void)
{
	static bool is_registered = false;
	FullTransactionId xid;

	if (likely(current_is_valid))
		return current_stamp;

	if (!is_registered)
	{
		RegisterXactCallback(end_transaction, NULL);
		is_registered = true;
	}

	/* the top-level one: a subtransaction's rows appear with its parent's */
	xid = GetTopFullTransactionId();
	current_stamp = tide_stamp_base() + (int64) U64FromFullTransactionId(xid);
	current_is_valid = true;
	has_stamped = true;

	return current_stamp;
}

/*
 * Transaction callback: wake the workers when rows were committed, forget what
 * is known about the transaction in any case.
 */
static void
end_transaction(XactEvent event, void *arg)
{
	bool		had_stamped = has_stamped;

	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
			break;
		default:
			return;
	}

	has_stamped = false;
	current_is_valid = false;

	if (had_stamped && event == XACT_EVENT_COMMIT)
		tide_shmem_wake();
	else if (had_stamped && event == XACT_EVENT_PREPARE)
		tide_shmem_note_prepared();
}

/*
 * tidemark.rebase(beyond): called by the install script, which thereby writes
 * the first base; later by whoever was granted it.
 */
Datum
tide_rebase(PG_FUNCTION_ARGS)
{
	PreventCommandIfReadOnly("tidemark.rebase()");
	PG_RETURN_INT64(tide_stamp_rebase(PG_GETARG_INT64(0)));
}

/*
 * Move the base forward, so that every stamp of a transaction that has not
 * stamped yet is greater than beyond and than all stamps of this database.
 * Returns the base.
 */
int64
tide_stamp_rebase(int64 beyond)
{
	int64		new_base;
	int64		needed;
	int64		xid;

	/* one at a time; who waited reads what the other one has written */
	LockDatabaseObject(ProcedureRelationId, base_function(), 0, ExclusiveLock);

	/* while the script runs, there are no streams and no table of them */
	if (!creating_extension)
	{
		List	   *streams = tide_catalog_read_streams();
		ListCell   *lc;

		/* who writes to a partition by its name has not locked its parent */
		foreach(lc, streams)
		{
			LockRelationOid(lfirst_oid(lc), ShareRowExclusiveLock);
			(void) find_all_inheritors(lfirst_oid(lc), ShareRowExclusiveLock,
									   NULL);
		}
	}

	xid = (int64) oldest_running_xid();
	new_base = ((int64) time(NULL) << 31) - xid;
	new_base = Max(new_base, tide_stamp_base());
	if (pg_add_s64_overflow(beyond, 1, &needed) ||
		pg_sub_s64_overflow(needed, xid, &needed) ||
		needed > PG_INT64_MAX / 2)
		ereport(ERROR,
				(errcode(ERRCODE_NUMERIC_VALUE_OUT_OF_RANGE),
				 errmsg("stamp out of range")));
	new_base = Max(new_base, needed);

	write_base(new_base);

	return new_base;
}

/* OID of tidemark.stamp_base(). */
static Oid
base_function(void)
{
	HeapTuple	tuple = find_base_function();
	Oid			function = ((Form_pg_proc) GETSTRUCT(tuple))->oid;

	ReleaseSysCache(tuple);

	return function;
}

/* The least transaction id that may still stamp a row, 64 bits of it. */
static uint64
oldest_running_xid(void)
{
	Snapshot	snapshot = GetLatestSnapshot();
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		age = XidFromFullTransactionId(next) - snapshot->xmin;

	return U64FromFullTransactionId(next) - age;
}

/* Write the body of tidemark.stamp_base(). */
static void
write_base(int64 new_base)
{
	Relation	rel = table_open(ProcedureRelationId, RowExclusiveLock);
	HeapTuple	tuple = find_base_function();
	char	   *body = psprintf(BASE_BODY INT64_FORMAT, new_base);
	Datum		values[Natts_pg_proc] = {0};
	bool		nulls[Natts_pg_proc] = {false};
	bool		replaces[Natts_pg_proc] = {false};
	HeapTuple	new_tuple;

	values[Anum_pg_proc_prosrc - 1] = CStringGetTextDatum(body);
	replaces[Anum_pg_proc_prosrc - 1] = true;
	new_tuple = heap_modify_tuple(tuple, RelationGetDescr(rel), values, nulls,
								  replaces);
	CatalogTupleUpdate(rel, &new_tuple->t_self, new_tuple);
	InvokeObjectPostAlterHook(ProcedureRelationId, base_function(), 0);

	heap_freetuple(new_tuple);
	ReleaseSysCache(tuple);
	table_close(rel, RowExclusiveLock);
	CommandCounterIncrement();
}

/* OID of type tidemark.stamp, or InvalidOid when there is none. */
Oid
tide_stamp_type(void)
{
	return GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid,
						   CStringGetDatum(STAMP_TYPE),
						   ObjectIdGetDatum(tide_catalog_schema()));
}

/*
 * The stamp column of a table, or InvalidAttrNumber: a column of that name and
 * of another type is the user's own.
 */
AttrNumber
tide_stamp_attno(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (!att->attisdropped &&
			strcmp(NameStr(att->attname), TIDE_STAMP_COLUMN) == 0)
			return att->atttypid == tide_stamp_type() ?
				att->attnum : InvalidAttrNumber;
	}

	return InvalidAttrNumber;
}

/*
 * The index a stream scan of this table can use: BRIN, first column the stamp
 * column, over all rows, and valid.  InvalidOid when there is none.  The table
 * is locked by the caller.
 */
Oid
tide_stamp_index(Relation leaf)
{
	AttrNumber	attno = tide_stamp_attno(leaf);
	List	   *indexes;
	ListCell   *lc;
	Oid			found = InvalidOid;

	if (attno == InvalidAttrNumber)
		return InvalidOid;

	indexes = RelationGetIndexList(leaf);
	foreach(lc, indexes)
	{
		Oid			indexid = lfirst_oid(lc);
		HeapTuple	tuple = SearchSysCache1(INDEXRELID,
											ObjectIdGetDatum(indexid));
		Form_pg_index index;
		bool		is_usable;

		if (!HeapTupleIsValid(tuple))
			continue;
		index = (Form_pg_index) GETSTRUCT(tuple);
		is_usable = index->indisvalid && index->indisready &&
			index->indkey.values[0] == attno &&
			heap_attisnull(tuple, Anum_pg_index_indpred, NULL) &&
			index_is_brin(indexid);
		ReleaseSysCache(tuple);
		if (is_usable)
		{
			found = indexid;
			break;
		}
	}
	list_free(indexes);

	return found;
}

/* Is this an index of access method BRIN?  False when it is gone. */
static bool
index_is_brin(Oid indexid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(indexid));
	bool		is_brin;

	if (!HeapTupleIsValid(tuple))
		return false;
	is_brin = ((Form_pg_class) GETSTRUCT(tuple))->relam == BRIN_AM_OID;
	ReleaseSysCache(tuple);

	return is_brin;
}
