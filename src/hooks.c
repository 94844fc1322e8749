/*
 * hooks.c
 *		Hooks of the server that are not a module's own.
 *
 * object_access_hook: when a stream's table or a continuous view is dropped,
 * by whatever command, its rows in our tables go in the same transaction.
 * The hook runs for every dropped object of every kind, so what costs nothing
 * is tested first.
 *
 * LOCKING: the object being dropped is locked ACCESS EXCLUSIVE by the command;
 * our rows come after it, as everywhere.
 */
#include "postgres.h"

#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "commands/extension.h"
#include "utils/lsyscache.h"

#include "catalog.h"
#include "compat.h"
#include "hooks.h"
#include "shmem.h"
#include "stream.h"

static object_access_hook_type previous_object_access = NULL;

static void object_access(ObjectAccessType access, Oid class_id, Oid object_id,
						  int sub_id, void *arg);
static void forget_relation(Oid relid);
static bool tables_exist(void);

/* Install the hooks.  Called once, from _PG_init. */
void
tide_hooks_install(void)
{
	previous_object_access = object_access_hook;
	object_access_hook = object_access;
}

/* An object is created, altered or dropped. */
static void
object_access(ObjectAccessType access, Oid class_id, Oid object_id,
			  int sub_id, void *arg)
{
	if (previous_object_access)
		previous_object_access(access, class_id, object_id, sub_id, arg);

	if (access == OAT_DROP && class_id == RelationRelationId && sub_id == 0)
		forget_relation(object_id);
}

/*
 * A relation is about to be dropped: forget the stream or continuous view that
 * it is.
 */
static void
forget_relation(Oid relid)
{
	char		relkind = get_rel_relkind(relid);

	if (relkind != RELKIND_RELATION && relkind != RELKIND_PARTITIONED_TABLE &&
		relkind != RELKIND_VIEW)
		return;
	if (creating_extension || !tables_exist())
		return;

	if (relkind == RELKIND_VIEW)
	{
		if (get_rel_namespace(relid) == tide_catalog_data_schema())
			tide_stream_forget_definition(relid);
		else if (tide_catalog_read_view(relid) != NULL)
			tide_catalog_delete_view(relid);
		else
			return;
	}
	else
	{
		if (tide_catalog_read_stream(relid) == NULL)
			return;
		tide_catalog_delete_stream(relid);
	}
	tide_shmem_wake_catalog_at_commit();
}

/*
 * Are our tables there?  They are not while DROP EXTENSION is at work: it
 * drops them before or after the objects that depend on the extension.
 */
static bool
tables_exist(void)
{
	static const char *const tables[] = {
		"stream", "continuous_view", "checkpoint", "leaf", "piece", "batch",
		"failure"
	};
	int			i;

	if (!tide_catalog_exists())
		return false;
	for (i = 0; i < lengthof(tables); i++)
	{
		if (!OidIsValid(get_relname_relid(tables[i], tide_catalog_schema())))
			return false;
	}

	return true;
}
