/*
 * groups.c
 *		Hash table of a batch's groups.
 *
 * A group is a window and the values of the keys.  Keys are compared as GROUP
 * BY compares them: by the query's own equality operators, with their
 * collations, NULLs equal.  They are hashed by the extended hash functions of
 * their types, which PostgreSQL keeps stable because hash partitions depend on
 * them: the hash is also the stored key_hash.  A type without a hash function,
 * or whose values are hashed by OID, adds nothing to the hash, so that its
 * groups are told apart by comparison alone: slow with many groups, but right.
 *
 * Common types are compared and hashed in the table without a function call:
 * where their equality is that of the bits, or of the bytes.
 *
 * The table is PostgreSQL's simplehash; tuplehash would do, but cannot group
 * by a type that has no hash function.
 *
 * MEMORY: groups, their keys and the table are in a context that is reset at
 * every flush; what their states point to is aggregate.c's.
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "groups.h"
#include "guc.h"

/* how keys of a type are compared and hashed in the table */
typedef enum KeyKind
{
	KEY_GENERAL,				/* by the type's functions */
	KEY_BITWISE,				/* by value: equal when the Datum is */
	KEY_BYTES					/* varlena: equal when the bytes are */
} KeyKind;

/* one key */
typedef struct Key
{
	AttrNumber	input_attno;
	KeyKind		kind;
	Oid			collation;
	FmgrInfo	equal;
	bool		is_hashable;
	bool		is_portable;	/* hashed the same after a restore */
	bool		is_extended;	/* 64 bits with a seed, else 32 bits */
	FmgrInfo	hash;
} Key;

struct TideGroups
{
	TideQuery  *query;
	TideAggExec *aggs;
	int			nkeys;
	Key		   *keys;
	AttrNumber	max_input_attno;
	TupleDesc	key_desc;
	Datum	   *probe_values;	/* keys of the row being looked up */
	bool	   *probe_nulls;
	MemoryContext row_memory;	/* what comparing and hashing leave */
	MemoryContext memory;
	struct grouphash_hash *table;
};

static bool keys_are_equal(TideGroups *groups, const TideGroupKey *a,
						   const TideGroupKey *b);

/* The hash by which the table finds a group. */
static inline uint32
hash_group_key(const TideGroupKey *key)
{
	uint64		hash = hash_combine64(key->quick_hash, key->window_start);

	return murmurhash32((uint32) (hash ^ (hash >> 32)));
}

#define SH_PREFIX grouphash
#define SH_ELEMENT_TYPE TideGroup
#define SH_KEY_TYPE TideGroupKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) hash_group_key(&(k))
#define SH_EQUAL(tb, a, b) \
	((a).window_start == (b).window_start && \
	 (a).quick_hash == (b).quick_hash && \
	 keys_are_equal((tb)->private_data, &(a), &(b)))
#define SH_SCOPE static inline
#define SH_STORE_HASH
#define SH_GET_HASH(tb, a) (a)->table_hash
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

/* groups a new table has room for */
#define INITIAL_GROUPS 256

/*
 * Is a value of this type hashed the same in another database?  Enums and
 * names of objects are hashed by OID, and a dump does not keep OIDs: what was
 * stored before it would not be found after it.
 */
static bool
hash_is_portable(Oid type)
{
	TypeCacheEntry *entry;
	Oid			element;
	int			i;

	type = getBaseType(type);
	element = get_base_element_type(type);
	if (OidIsValid(element))
		return hash_is_portable(element);

	switch (type)
	{
		case REGCLASSOID:
		case REGCOLLATIONOID:
		case REGCONFIGOID:
		case REGDICTIONARYOID:
		case REGNAMESPACEOID:
		case REGOPEROID:
		case REGOPERATOROID:
		case REGPROCOID:
		case REGPROCEDUREOID:
		case REGROLEOID:
		case REGTYPEOID:
			return false;
		default:
			break;
	}

	entry = lookup_type_cache(type, TYPECACHE_TUPDESC |
							  TYPECACHE_RANGE_INFO |
							  TYPECACHE_MULTIRANGE_INFO);
	if (entry->typtype == TYPTYPE_ENUM)
		return false;
	if (entry->typtype == TYPTYPE_MULTIRANGE)
		entry = entry->rngtype;
	if (entry->rngelemtype != NULL)
		return hash_is_portable(entry->rngelemtype->type_id);
	for (i = 0; entry->tupDesc != NULL && i < entry->tupDesc->natts; i++)
	{
		Form_pg_attribute attribute = TupleDescAttr(entry->tupDesc, i);

		if (!attribute->attisdropped &&
			!hash_is_portable(attribute->atttypid))
			return false;
	}

	return true;
}

/* How keys that are compared by a function can be compared. */
static KeyKind
classify_key(Oid equal_function, Oid collation)
{
	if (!tide_fast_path)
		return KEY_GENERAL;
	switch (equal_function)
	{
		case F_BOOLEQ:
		case F_CHAREQ:
		case F_DATE_EQ:
		case F_INT2EQ:
		case F_INT4EQ:
		case F_INT8EQ:
		case F_OIDEQ:
		case F_TIMESTAMPTZ_EQ:
		case F_TIMESTAMP_EQ:
			return KEY_BITWISE;
		case F_BYTEAEQ:
			return KEY_BYTES;
		case F_TEXTEQ:
			return OidIsValid(collation) &&
				get_collation_isdeterministic(collation) ?
				KEY_BYTES : KEY_GENERAL;
		default:
			return KEY_GENERAL;
	}
}

/* Prepare one key. */
static void
init_key(Key *key, const TideKey *query_key)
{
	TypeCacheEntry *type = lookup_type_cache(query_key->type,
											 TYPECACHE_EQ_OPR |
											 TYPECACHE_HASH_PROC |
											 TYPECACHE_HASH_EXTENDED_PROC);
	Oid			equal = get_opcode(query_key->eq_operator);
	Oid			hash = type->hash_extended_proc;

	key->input_attno = query_key->input_attno;
	key->collation = query_key->collation;
	key->kind = classify_key(equal, key->collation);
	fmgr_info(equal, &key->equal);

	key->is_extended = OidIsValid(hash);
	if (!key->is_extended)
		hash = type->hash_proc;
	/* the hash function must agree with the operator that groups */
	key->is_hashable = OidIsValid(hash) &&
		type->eq_opr == query_key->eq_operator;
	if (key->is_hashable)
		fmgr_info(hash, &key->hash);
	key->is_portable = key->is_hashable && hash_is_portable(query_key->type);
}

/* A table for the groups of a batch, in the current context. */
TideGroups *
tide_groups_begin(TideQuery *query, TideAggExec *aggs)
{
	TideGroups *groups = palloc0(sizeof(TideGroups));
	int			n = Max(query->nkeys, 1);
	int			i;

	groups->query = query;
	groups->aggs = aggs;
	groups->nkeys = query->nkeys;
	groups->keys = palloc0(sizeof(Key) * n);
	groups->key_desc = CreateTemplateTupleDesc(query->nkeys);
	for (i = 0; i < query->nkeys; i++)
	{
		TideKey    *key = &query->keys[i];

		groups->max_input_attno = Max(groups->max_input_attno,
									  key->input_attno);
		TupleDescInitEntry(groups->key_desc, i + 1, NULL, key->type,
						   key->typmod, 0);
		TupleDescInitEntryCollation(groups->key_desc, i + 1, key->collation);
		init_key(&groups->keys[i], key);
	}
	groups->probe_values = palloc0(sizeof(Datum) * n);
	groups->probe_nulls = palloc0(sizeof(bool) * n);
	groups->row_memory = AllocSetContextCreate(CurrentMemoryContext,
											   "tidemark group lookup",
											   ALLOCSET_SMALL_SIZES);
	groups->memory = AllocSetContextCreate(CurrentMemoryContext,
										   "tidemark groups",
										   ALLOCSET_DEFAULT_SIZES);
	groups->table = grouphash_create(groups->memory, INITIAL_GROUPS, groups);

	return groups;
}

/* An expression that compares the keys of two slots; see groups.h. */
ExprState *
tide_groups_key_equality(TideGroups *groups)
{
	int			n = groups->nkeys;
	AttrNumber *columns = palloc(sizeof(AttrNumber) * Max(n, 1));
	Oid		   *functions = palloc(sizeof(Oid) * Max(n, 1));
	Oid		   *collations = palloc(sizeof(Oid) * Max(n, 1));
	PlanState  *no_parent = NULL;
	int			i;

	for (i = 0; i < n; i++)
	{
		columns[i] = i + 1;
		functions[i] = get_opcode(groups->query->keys[i].eq_operator);
		collations[i] = groups->query->keys[i].collation;
	}

	return ExecBuildGroupingEqual(groups->key_desc, groups->key_desc,
								  &TTSOpsVirtual, &TTSOpsMinimalTuple,
								  n, columns, functions, collations,
								  no_parent);
}

/* Are two varlenas, which are not toasted, the same bytes? */
static inline bool
bytes_are_equal(Datum a, Datum b)
{
	Size		length = VARSIZE_ANY_EXHDR(DatumGetPointer(a));

	return length == VARSIZE_ANY_EXHDR(DatumGetPointer(b)) &&
		memcmp(VARDATA_ANY(DatumGetPointer(a)),
			   VARDATA_ANY(DatumGetPointer(b)), length) == 0;
}

/* Are the keys of two groups the same, as GROUP BY has it? */
static bool
keys_are_equal(TideGroups *groups, const TideGroupKey *a,
			   const TideGroupKey *b)
{
	int			i;

	for (i = 0; i < groups->nkeys; i++)
	{
		Key		   *key = &groups->keys[i];
		bool		is_equal;

		if (a->nulls[i] != b->nulls[i])
			return false;
		if (a->nulls[i])
			continue;
		if (key->kind == KEY_BITWISE)
			is_equal = a->values[i] == b->values[i];
		else if (key->kind == KEY_BYTES)
			is_equal = bytes_are_equal(a->values[i], b->values[i]);
		else
			is_equal = DatumGetBool(FunctionCall2Coll(&key->equal,
													  key->collation,
													  a->values[i],
													  b->values[i]));
		if (!is_equal)
			return false;
	}

	return true;
}

/* The hash of a value by the hash function of its type; 0: there is none. */
static uint64
hash_by_type(Key *key, Datum value)
{
	if (!key->is_hashable)
		return 0;
	if (key->is_extended)
		return DatumGetUInt64(FunctionCall2Coll(&key->hash, key->collation,
												value, UInt64GetDatum(0)));

	return DatumGetUInt32(FunctionCall1Coll(&key->hash, key->collation,
											value));
}

/* The hash of the probe's keys that is stored; NULLs count as 0. */
static int64
hash_to_store(TideGroups *groups)
{
	uint64		hash = 0;
	int			i;

	for (i = 0; i < groups->nkeys; i++)
	{
		Key		   *key = &groups->keys[i];

		hash = hash_combine64(hash,
							  groups->probe_nulls[i] || !key->is_portable ? 0 :
							  hash_by_type(key, groups->probe_values[i]));
	}

	return (int64) hash;
}

/* The hash under which keys are stored. */
int64
tide_groups_hash(TideGroups *groups, const Datum *keys, const bool *nulls)
{
	MemoryContext old_context = MemoryContextSwitchTo(groups->row_memory);
	int64		hash;

	memcpy(groups->probe_values, keys, sizeof(Datum) * groups->nkeys);
	memcpy(groups->probe_nulls, nulls, sizeof(bool) * groups->nkeys);
	hash = hash_to_store(groups);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(groups->row_memory);

	return hash;
}

/* A hash of the probe's keys that is good for the table. */
static uint64
hash_quickly(TideGroups *groups)
{
	uint64		hash = 0;
	int			i;

	for (i = 0; i < groups->nkeys; i++)
	{
		Key		   *key = &groups->keys[i];
		Datum		value = groups->probe_values[i];
		uint64		key_hash = 0;

		if (groups->probe_nulls[i])
			key_hash = 0;
		else if (key->kind == KEY_BITWISE)
			key_hash = (uint64) value;
		else if (key->kind == KEY_BYTES)
			key_hash = hash_bytes((unsigned char *) VARDATA_ANY(DatumGetPointer(value)),
								  VARSIZE_ANY_EXHDR(DatumGetPointer(value)));
		else
			key_hash = hash_by_type(key, value);
		hash = hash_combine64(hash, key_hash);
	}

	return hash;
}

/* Read the keys of an input row, detoasted where bytes are compared. */
static void
read_probe(TideGroups *groups, TupleTableSlot *input)
{
	int			i;

	slot_getsomeattrs(input, groups->max_input_attno);
	for (i = 0; i < groups->nkeys; i++)
	{
		int			column = groups->keys[i].input_attno - 1;
		Datum		value = input->tts_values[column];

		groups->probe_nulls[i] = input->tts_isnull[column];
		if (groups->keys[i].kind == KEY_BYTES && !groups->probe_nulls[i])
			value = PointerGetDatum(PG_DETOAST_DATUM_PACKED(value));
		groups->probe_values[i] = value;
	}
}

/* Fill a group that is new: the keys of the probe, and initial states. */
static void
init_group(TideGroups *groups, TideGroup *group, int64 window_end)
{
	int			n = groups->nkeys;
	HeapTupleData tuple;

	group->key_hash = hash_to_store(groups);
	MemoryContextSwitchTo(groups->memory);
	group->window_end = window_end;
	group->tuple = NULL;
	if (n > 0)
	{
		/* the values point into the tuple */
		group->tuple = TIDE_FORM_MINIMAL_TUPLE(groups->key_desc,
											   groups->probe_values,
											   groups->probe_nulls);
		group->key.values = palloc(sizeof(Datum) * n);
		group->key.nulls = palloc(sizeof(bool) * n);
		tuple.t_len = group->tuple->t_len + MINIMAL_TUPLE_OFFSET;
		tuple.t_data = (HeapTupleHeader) ((char *) group->tuple -
										  MINIMAL_TUPLE_OFFSET);
		heap_deform_tuple(&tuple, groups->key_desc, group->key.values,
						  group->key.nulls);
	}
	group->states = palloc(tide_aggregate_group_size(groups->aggs));
	tide_aggregate_init(groups->aggs, group->states);
}

/*
 * The group of an input row, made when it is the first one, with its states at
 * their initial values.  input NULL: the one group of a view without keys.
 * Valid until the next call.
 */
TideGroup *
tide_groups_lookup(TideGroups *groups, int64 window_start, int64 window_end,
				   TupleTableSlot *input)
{
	MemoryContext old_context = MemoryContextSwitchTo(groups->row_memory);
	TideGroupKey key;
	TideGroup  *group;
	bool		found;

	if (input != NULL)
		read_probe(groups, input);
	key.window_start = window_start;
	key.quick_hash = hash_quickly(groups);
	key.values = groups->probe_values;
	key.nulls = groups->probe_nulls;
	group = grouphash_insert(groups->table, key, &found);
	if (!found)
		init_group(groups, group, window_end);
	MemoryContextSwitchTo(old_context);
	MemoryContextReset(groups->row_memory);

	return group;
}

/* How many groups there are. */
uint64
tide_groups_count(TideGroups *groups)
{
	return groups->table->members;
}

/* Bytes of the groups, without what their states point to. */
Size
tide_groups_memory(TideGroups *groups)
{
	bool		recurse = true;

	return MemoryContextMemAllocated(groups->memory, recurse);
}

/* qsort comparator: by storage key. */
static int
compare_groups(const void *a, const void *b)
{
	const TideGroup *left = *(TideGroup *const *) a;
	const TideGroup *right = *(TideGroup *const *) b;

	if (left->key.window_start != right->key.window_start)
		return left->key.window_start < right->key.window_start ? -1 : 1;
	if (left->key_hash != right->key_hash)
		return left->key_hash < right->key_hash ? -1 : 1;

	return 0;
}

/* All groups in the order of the storage table's index; no lookups after. */
TideGroup **
tide_groups_sorted(TideGroups *groups)
{
	grouphash_iterator iterator;
	TideGroup **sorted;
	TideGroup  *group;
	uint64		n = 0;

	sorted = MemoryContextAllocHuge(groups->memory, sizeof(TideGroup *) *
									Max(tide_groups_count(groups), 1));
	grouphash_start_iterate(groups->table, &iterator);
	while ((group = grouphash_iterate(groups->table, &iterator)) != NULL)
		sorted[n++] = group;
	qsort(sorted, n, sizeof(TideGroup *), compare_groups);

	return sorted;
}

/* The columns of the keys. */
TupleDesc
tide_groups_key_desc(TideGroups *groups)
{
	return groups->key_desc;
}

/* Forget all groups. */
void
tide_groups_reset(TideGroups *groups)
{
	MemoryContextReset(groups->memory);
	groups->table = grouphash_create(groups->memory, INITIAL_GROUPS, groups);
}

/* Free the table. */
void
tide_groups_end(TideGroups *groups)
{
	MemoryContextDelete(groups->row_memory);
	MemoryContextDelete(groups->memory);
	pfree(groups);
}
