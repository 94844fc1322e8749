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
 * The table is PostgreSQL's simplehash; tuplehash would do, but cannot group
 * by a type that has no hash function.
 *
 * MEMORY: groups, their keys and the table are in a context that is reset at
 * every flush; what their states point to is aggregate.c's.
 */
#include "postgres.h"

#include "catalog/pg_type.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/typcache.h"

#include "compat.h"
#include "groups.h"

/* how to hash one key */
typedef struct KeyHash
{
	bool		is_hashable;
	bool		is_extended;	/* 64 bits with a seed, else 32 bits */
	FmgrInfo	function;
	Oid			collation;
} KeyHash;

struct TideGroups
{
	TideQuery  *query;
	TideAggExec *aggs;
	int			nkeys;
	AttrNumber *input_attnos;
	AttrNumber	max_input_attno;
	KeyHash    *hashes;
	TupleDesc	key_desc;
	TupleTableSlot *probe_slot; /* keys of the row being looked up */
	TupleTableSlot *group_slot; /* keys of a group it is compared with */
	ExprState  *equality;
	ExprContext *context;
	MemoryContext memory;
	struct grouphash_hash *table;
};

static bool keys_are_equal(TideGroups *groups, MinimalTuple tuple,
						   MinimalTuple probe);

/* The hash by which the table finds a group. */
static inline uint32
hash_group_key(const TideGroupKey *key)
{
	uint64		hash = hash_combine64(key->hash, key->window_start);

	return murmurhash32((uint32) (hash ^ (hash >> 32)));
}

#define SH_PREFIX grouphash
#define SH_ELEMENT_TYPE TideGroup
#define SH_KEY_TYPE TideGroupKey
#define SH_KEY key
#define SH_HASH_KEY(tb, k) hash_group_key(&(k))
#define SH_EQUAL(tb, a, b) \
	((a).window_start == (b).window_start && (a).hash == (b).hash && \
	 keys_are_equal((tb)->private_data, (a).tuple, (b).tuple))
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

/* Prepare the hashing of one key. */
static void
init_key_hash(KeyHash *hash, const TideKey *key)
{
	TypeCacheEntry *type = lookup_type_cache(key->type, TYPECACHE_EQ_OPR |
											 TYPECACHE_HASH_PROC |
											 TYPECACHE_HASH_EXTENDED_PROC);
	Oid			function = type->hash_extended_proc;

	hash->collation = key->collation;
	hash->is_extended = OidIsValid(function);
	if (!hash->is_extended)
		function = type->hash_proc;
	/* the hash function must agree with the operator that groups */
	hash->is_hashable = OidIsValid(function) &&
		type->eq_opr == key->eq_operator && hash_is_portable(key->type);
	if (hash->is_hashable)
		fmgr_info(function, &hash->function);
}

/* A table for the groups of a batch, in the current context. */
TideGroups *
tide_groups_begin(TideQuery *query, TideAggExec *aggs)
{
	TideGroups *groups = palloc0(sizeof(TideGroups));
	int			i;

	groups->query = query;
	groups->aggs = aggs;
	groups->nkeys = query->nkeys;
	groups->input_attnos = palloc(sizeof(AttrNumber) * Max(query->nkeys, 1));
	groups->hashes = palloc0(sizeof(KeyHash) * Max(query->nkeys, 1));
	groups->key_desc = CreateTemplateTupleDesc(query->nkeys);
	for (i = 0; i < query->nkeys; i++)
	{
		TideKey    *key = &query->keys[i];

		groups->input_attnos[i] = key->input_attno;
		groups->max_input_attno = Max(groups->max_input_attno,
									  key->input_attno);
		TupleDescInitEntry(groups->key_desc, i + 1, NULL, key->type,
						   key->typmod, 0);
		TupleDescInitEntryCollation(groups->key_desc, i + 1, key->collation);
		init_key_hash(&groups->hashes[i], key);
	}
	groups->probe_slot = MakeSingleTupleTableSlot(groups->key_desc,
												  &TTSOpsVirtual);
	groups->group_slot = MakeSingleTupleTableSlot(groups->key_desc,
												  &TTSOpsMinimalTuple);
	groups->equality = tide_groups_key_equality(groups);
	groups->context = CreateStandaloneExprContext();
	groups->memory = AllocSetContextCreate(CurrentMemoryContext,
										   "tidemark groups",
										   ALLOCSET_DEFAULT_SIZES);
	groups->table = grouphash_create(groups->memory, INITIAL_GROUPS, groups);

	return groups;
}

/* An expression that compares the keys of two groups; see groups.h. */
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

/*
 * Are the keys of a group those of the probe, which is in the probe slot?  In
 * simplehash the probe has a NULL tuple, and is the second argument or not.
 */
static bool
keys_are_equal(TideGroups *groups, MinimalTuple tuple, MinimalTuple probe)
{
	bool		should_free = false;

	if (groups->nkeys == 0)
		return true;
	if (tuple == NULL)
		tuple = probe;
	Assert(tuple != NULL);
	ExecStoreMinimalTuple(tuple, groups->group_slot, should_free);
	groups->context->ecxt_innertuple = groups->probe_slot;
	groups->context->ecxt_outertuple = groups->group_slot;

	return ExecQualAndReset(groups->equality, groups->context);
}

/* The hash of the keys in the probe slot. */
static int64
hash_probe(TideGroups *groups)
{
	TupleTableSlot *slot = groups->probe_slot;
	uint64		hash = 0;
	int			i;

	for (i = 0; i < groups->nkeys; i++)
	{
		KeyHash    *key = &groups->hashes[i];
		uint64		key_hash;

		/* NULLs and what cannot be hashed count as 0 */
		if (slot->tts_isnull[i] || !key->is_hashable)
			key_hash = 0;
		else if (key->is_extended)
			key_hash = DatumGetUInt64(FunctionCall2Coll(&key->function,
														key->collation,
														slot->tts_values[i],
														UInt64GetDatum(0)));
		else
			key_hash = DatumGetUInt32(FunctionCall1Coll(&key->function,
														key->collation,
														slot->tts_values[i]));
		hash = hash_combine64(hash, key_hash);
	}
	ResetExprContext(groups->context);

	return (int64) hash;
}

/* Put the keys of an input row into the probe slot. */
static void
store_probe(TideGroups *groups, TupleTableSlot *input)
{
	TupleTableSlot *slot = groups->probe_slot;
	int			i;

	ExecClearTuple(slot);
	slot_getsomeattrs(input, groups->max_input_attno);
	for (i = 0; i < groups->nkeys; i++)
	{
		int			column = groups->input_attnos[i] - 1;

		slot->tts_values[i] = input->tts_values[column];
		slot->tts_isnull[i] = input->tts_isnull[column];
	}
	ExecStoreVirtualTuple(slot);
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
	MemoryContext old_context;
	TideGroupKey key;
	TideGroup  *group;
	bool		found;

	if (input != NULL)
		store_probe(groups, input);
	/* hash and equality functions may leave garbage */
	old_context =
		MemoryContextSwitchTo(groups->context->ecxt_per_tuple_memory);
	key.window_start = window_start;
	key.hash = hash_probe(groups);
	key.tuple = NULL;
	group = grouphash_insert(groups->table, key, &found);
	if (!found)
	{
		MemoryContextSwitchTo(groups->memory);
		if (groups->nkeys > 0)
			group->key.tuple = ExecCopySlotMinimalTuple(groups->probe_slot);
		group->window_end = window_end;
		group->states = palloc(tide_aggregate_group_size(groups->aggs));
		tide_aggregate_init(groups->aggs, group->states);
	}
	MemoryContextSwitchTo(old_context);

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
	const TideGroupKey *left = &(*(TideGroup *const *) a)->key;
	const TideGroupKey *right = &(*(TideGroup *const *) b)->key;

	if (left->window_start != right->window_start)
		return left->window_start < right->window_start ? -1 : 1;
	if (left->hash != right->hash)
		return left->hash < right->hash ? -1 : 1;

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
	ExecClearTuple(groups->group_slot);
	MemoryContextReset(groups->memory);
	groups->table = grouphash_create(groups->memory, INITIAL_GROUPS, groups);
}

/* Free the table. */
void
tide_groups_end(TideGroups *groups)
{
	bool		is_commit = true;

	ExecDropSingleTupleTableSlot(groups->probe_slot);
	ExecDropSingleTupleTableSlot(groups->group_slot);
	FreeExprContext(groups->context, is_commit);
	MemoryContextDelete(groups->memory);
	pfree(groups);
}
