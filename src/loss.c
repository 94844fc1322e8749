/*
 * loss.c
 *		Refusing to remove rows that views have not consumed.
 *
 * DELETE is retention, and its author names the rows.  DROP and DETACH of a
 * partition and TRUNCATE take whatever is there, rows included that were
 * committed a moment ago and that no batch has read.  So they are refused,
 * with the views and the number of rows, unless
 * tidemark.allow_unconsumed_drop is on; then the rows are counted as lost.
 *
 * A stream that goes as a whole takes its views along: there is nothing to
 * check.  What goes is found out before the command runs, as afterwards the
 * index on the stamps is gone, and every table would have to be read whole.
 *
 * LOCKING: what is removed is locked before it is counted, as the command
 * itself would a moment later: ACCESS EXCLUSIVE, the parent of a partition
 * before it.  So no batch is reading the rows and no writer is adding any, and
 * the checkpoint lock of a view, which is taken to count lost rows, comes
 * after the tables, as everywhere.  DETACH CONCURRENTLY locks nobody out, here
 * neither.  Nothing is locked for somebody who may not do what he asks for.
 */
#include "postgres.h"

#include "access/table.h"
#include "access/xact.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/extension.h"
#include "miscadmin.h"
#include "nodes/makefuncs.h"
#include "nodes/parsenodes.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"

#include "catalog.h"
#include "compat.h"
#include "guc.h"
#include "loss.h"
#include "position.h"
#include "scan.h"
#include "stamp.h"

/* what a view would lose */
typedef struct Loss
{
	TideView   *view;
	int64		rows;
} Loss;

static void check_drop(DropStmt *stmt);
static void check_drop_schemas(DropStmt *stmt);
static void check_drop_owned(DropOwnedStmt *stmt);
static void check_detach(AlterTableStmt *stmt);
static void check_removed(List *removed, LOCKMODE lockmode);
static void check_leaves(Oid removed, List *leaves, List *all_removed);
static int64 count_unconsumed(const TideView *view, Oid leaf);

/* --------------------------------------------------------------------------
 * What goes
 * --------------------------------------------------------------------------
 */

/* A utility command is about to run. */
void
tide_loss_check_command(Node *statement)
{
	/* the command itself is refused, or it restores what was so before */
	if (XactReadOnly || creating_extension || IsBinaryUpgrade)
		return;
	if (IsA(statement, DropStmt))
	{
		DropStmt   *stmt = (DropStmt *) statement;

		if (stmt->removeType == OBJECT_TABLE)
			check_drop(stmt);
		else if (stmt->removeType == OBJECT_SCHEMA &&
				 stmt->behavior == DROP_CASCADE)
			check_drop_schemas(stmt);
	}
	else if (IsA(statement, DropOwnedStmt))
		check_drop_owned((DropOwnedStmt *) statement);
	else if (IsA(statement, AlterTableStmt))
		check_detach((AlterTableStmt *) statement);
}

/*
 * Is a table, or are its partitions, part of a stream?  They have the stamp
 * column then.
 */
static bool
has_stamps(Oid relid)
{
	AttrNumber	attno = get_attnum(relid, TIDE_STAMP_COLUMN);

	return attno != InvalidAttrNumber && tide_catalog_exists() &&
		get_atttype(relid, attno) == tide_stamp_type();
}

/*
 * A table that a command names, when it concerns us and the user owns it; else
 * invalid.  The name may come to mean another table until the command looks
 * itself; that is a race of two DDL commands.
 */
static Oid
find_named(RangeVar *name)
{
	bool		missing_ok = true;
	Oid			relid = RangeVarGetRelid(name, NoLock, missing_ok);

	if (!OidIsValid(relid) || !has_stamps(relid) ||
		!TIDE_RELATION_OWNERCHECK(relid, GetUserId()))
		return InvalidOid;

	return relid;
}

/* DROP TABLE */
static void
check_drop(DropStmt *stmt)
{
	List	   *removed = NIL;
	ListCell   *lc;

	foreach(lc, stmt->objects)
	{
		Oid			relid = find_named(makeRangeVarFromNameList(lfirst(lc)));

		if (OidIsValid(relid))
			removed = lappend_oid(removed, relid);
	}
	check_removed(removed, AccessExclusiveLock);
}

/* Of which schema is a relation, or of which owner? */
static Oid
get_container(Oid relid, bool is_schema)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			container = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		container = is_schema ? form->relnamespace : form->relowner;
		ReleaseSysCache(tuple);
	}

	return container;
}

/*
 * Schemas, or what roles own, are dropped: check the partitions in them whose
 * stream is elsewhere.
 */
static void
check_containers(List *containers, bool is_schema)
{
	List	   *removed = NIL;
	ListCell   *lc;

	if (containers == NIL || !tide_catalog_exists())
		return;
	foreach(lc, tide_catalog_read_streams())
	{
		Oid			stream = lfirst_oid(lc);
		ListCell   *lc2;

		if (list_member_oid(containers, get_container(stream, is_schema)))
			continue;
		foreach(lc2, find_all_inheritors(stream, NoLock, NULL))
		{
			Oid			relid = lfirst_oid(lc2);

			if (list_member_oid(containers, get_container(relid, is_schema)) &&
				TIDE_RELATION_OWNERCHECK(relid, GetUserId()))
				removed = list_append_unique_oid(removed, relid);
		}
	}
	check_removed(removed, AccessExclusiveLock);
}

/* DROP SCHEMA ... CASCADE */
static void
check_drop_schemas(DropStmt *stmt)
{
	bool		missing_ok = true;
	bool		is_schema = true;
	List	   *schemas = NIL;
	ListCell   *lc;

	foreach(lc, stmt->objects)
	{
		Oid			schema = get_namespace_oid(strVal(lfirst(lc)), missing_ok);

		if (OidIsValid(schema))
			schemas = lappend_oid(schemas, schema);
	}
	check_containers(schemas, is_schema);
}

/* DROP OWNED */
static void
check_drop_owned(DropOwnedStmt *stmt)
{
	bool		is_schema = false;
	List	   *roles = NIL;
	ListCell   *lc;

	foreach(lc, stmt->roles)
		roles = lappend_oid(roles, get_rolespec_oid(lfirst(lc), true));
	check_containers(roles, is_schema);
}

/* ALTER TABLE ... DETACH PARTITION */
static void
check_detach(AlterTableStmt *stmt)
{
	ListCell   *lc;

	foreach(lc, stmt->cmds)
	{
		AlterTableCmd *cmd = lfirst(lc);
		PartitionCmd *partition;
		Oid			parent;
		Oid			relid;

		if (!IsA(cmd, AlterTableCmd) || cmd->subtype != AT_DetachPartition)
			continue;
		partition = castNode(PartitionCmd, cmd->def);
		parent = find_named(stmt->relation);
		relid = RangeVarGetRelid(partition->name, NoLock, true);
		if (OidIsValid(parent) && OidIsValid(relid) && has_stamps(relid))
			check_removed(list_make1_oid(relid), partition->concurrent ?
						  AccessShareLock : AccessExclusiveLock);
	}
}

/* Is an ancestor of a table about to go, too? */
static bool
goes_with_ancestor(Oid relid, List *removed)
{
	ListCell   *lc;

	if (!get_rel_relispartition(relid))
		return false;
	foreach(lc, get_partition_ancestors(relid))
	{
		if (list_member_oid(removed, lfirst_oid(lc)))
			return true;
	}

	return false;
}

/* Lock what is about to go, with its parents, and check it. */
static void
check_removed(List *removed, LOCKMODE lockmode)
{
	ListCell   *lc;

	foreach(lc, removed)
	{
		Oid			relid = lfirst_oid(lc);
		bool		missing_ok = true;
		List	   *leaves = NIL;
		ListCell   *lc2;

		if (goes_with_ancestor(relid, removed))
			continue;
		if (get_rel_relispartition(relid))
		{
			Oid			parent = get_partition_parent(relid, missing_ok);

			if (OidIsValid(parent))
				LockRelationOid(parent, lockmode);
		}
		LockRelationOid(relid, lockmode);
		if (get_rel_name(relid) == NULL)
			continue;
		foreach(lc2, find_all_inheritors(relid, lockmode, NULL))
		{
			if (get_rel_relkind(lfirst_oid(lc2)) == RELKIND_RELATION)
				leaves = lappend_oid(leaves, lfirst_oid(lc2));
		}
		check_leaves(relid, leaves, removed);
	}
}

/* A table is about to be truncated; it may be that it is not locked yet. */
void
tide_loss_check_truncate(Oid relid)
{
	if (get_rel_relkind(relid) != RELKIND_RELATION || !has_stamps(relid) ||
		pg_class_aclcheck(relid, GetUserId(), ACL_TRUNCATE) != ACLCHECK_OK)
		return;
	LockRelationOid(relid, AccessExclusiveLock);
	if (get_rel_name(relid) != NULL)
		check_leaves(relid, list_make1_oid(relid), NIL);
}

/* --------------------------------------------------------------------------
 * Who would miss it
 * --------------------------------------------------------------------------
 */

/* Count rows of a leaf for the views of a stream. */
static List *
add_losses(List *losses, Oid stream, Oid leaf)
{
	ListCell   *lc;

	foreach(lc, tide_catalog_read_views_of(stream))
	{
		TideView   *view = lfirst(lc);
		int64		rows;
		ListCell   *lc2;

		/* dropped while the library was not loaded */
		if (get_rel_name(view->view) == NULL)
			continue;
		rows = count_unconsumed(view, leaf);
		if (rows == 0)
			continue;
		foreach(lc2, losses)
		{
			Loss	   *loss = lfirst(lc2);

			if (loss->view->view == view->view)
			{
				loss->rows += rows;
				break;
			}
		}
		if (lc2 == NULL)
		{
			Loss	   *loss = palloc(sizeof(Loss));

			loss->view = view;
			loss->rows = rows;
			losses = lappend(losses, loss);
		}
	}

	return losses;
}

/* Refuse to lose rows. */
static void
refuse_losses(Oid removed, List *losses)
{
	StringInfoData detail;
	ListCell   *lc;

	initStringInfo(&detail);
	foreach(lc, losses)
	{
		Loss	   *loss = lfirst(lc);

		appendStringInfo(&detail, "%s\"%s\" (" INT64_FORMAT ")",
						 detail.len > 0 ? ", " : "",
						 get_rel_name(loss->view->view), loss->rows);
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("table \"%s\" has rows that continuous views have not consumed",
					get_rel_name(removed)),
			 errdetail("Views and numbers of rows: %s.", detail.data),
			 errhint("Wait for the views with tidemark.wait_for, or CALL tidemark.catch_up. To give the rows up, set tidemark.allow_unconsumed_drop.")));
}

/* Count the rows as lost. */
static void
count_losses(List *losses)
{
	ListCell   *lc;

	foreach(lc, losses)
	{
		Loss	   *loss = lfirst(lc);
		TideCheckpoint *checkpoint;

		tide_catalog_lock_checkpoint(loss->view->view);
		checkpoint = tide_catalog_read_checkpoint(loss->view->view,
												  loss->view->stream);
		if (checkpoint == NULL)
			continue;
		checkpoint->totals.v[TIDE_ROWS_LOST] += loss->rows;
		tide_catalog_update_checkpoint(checkpoint);
	}
}

/*
 * Leaves of a table are about to be removed, with all_removed: refuse it, or
 * count what is lost.
 */
static void
check_leaves(Oid removed, List *leaves, List *all_removed)
{
	List	   *losses = NIL;
	ListCell   *lc;

	foreach(lc, leaves)
	{
		Oid			leaf = lfirst_oid(lc);
		List	   *ancestors = NIL;
		int			i;

		if (!has_stamps(leaf))
			continue;
		if (get_rel_relispartition(leaf))
			ancestors = get_partition_ancestors(leaf);
		ancestors = lcons_oid(leaf, ancestors);
		for (i = list_length(ancestors) - 1; i >= 0; i--)
		{
			Oid			stream = list_nth_oid(ancestors, i);

			/* what is below goes as a whole, with its views */
			if (list_member_oid(all_removed, stream))
				break;
			if (tide_catalog_read_stream(stream) != NULL)
				losses = add_losses(losses, stream, leaf);
		}
	}
	if (losses == NIL)
		return;
	if (!tide_allow_unconsumed_drop)
		refuse_losses(removed, losses);
	count_losses(losses);
}

/* --------------------------------------------------------------------------
 * Counting
 * --------------------------------------------------------------------------
 */

/* The rows of [start, end) of a leaf that a position has not consumed. */
static int64
count_rows(Oid relid, const TidePosition *from, int64 start, int64 end,
		   bool unstamped)
{
	TideScanRequest request = {0};
	TideScanLeaf leaf = {0};
	TideCounters scratch = {{0}};
	int64		rows;

	leaf.relid = relid;
	leaf.from = *from;
	leaf.start_block = start;
	leaf.end_block = end;
	request.leaves = list_make1(&leaf);
	request.snapshot = RegisterSnapshot(GetLatestSnapshot());
	request.to = tide_position_capture(request.snapshot);
	request.counters = &scratch;
	request.unstamped = unstamped;
	rows = tide_scan_count_rows(&request);
	UnregisterSnapshot(request.snapshot);

	return rows;
}

/*
 * How many rows of a leaf, which is locked, a view has not consumed; those
 * that wait for a stamp included.  What the own transaction has inserted was
 * never in the stream.
 */
static int64
count_unconsumed(const TideView *view, Oid leaf)
{
	TidePosition nowhere = {0, 0, NULL};
	TidePosition position = nowhere;
	TideCheckpoint *checkpoint;
	ListCell   *lc;
	int64		rows;

	checkpoint = tide_catalog_read_checkpoint(view->view, view->stream);
	if (checkpoint == NULL)
		return 0;
	if (list_member_oid(checkpoint->leaves, leaf))
		position = checkpoint->position;
	foreach(lc, tide_catalog_read_leaves(view->view))
	{
		TideLeaf   *own = lfirst(lc);

		if (own->leaf == leaf)
			position = own->position;
	}
	rows = count_rows(leaf, &nowhere, 0, InvalidBlockNumber, true);

	/* a history that is read in pieces is consumed up to a block */
	if (checkpoint->has_target && checkpoint->position.xmax == 0 &&
		list_member_oid(checkpoint->leaves, leaf))
	{
		position = checkpoint->target;
		foreach(lc, tide_catalog_read_pieces(view->view))
		{
			TidePiece  *piece = lfirst(lc);

			if (piece->leaf != leaf)
				continue;
			rows += count_rows(leaf, &nowhere, piece->next_block,
							   InvalidBlockNumber, false);
			if (piece->next_block > 0)
				rows += count_rows(leaf, &position, 0, piece->next_block,
								   false);
			return rows;
		}
	}

	return rows + count_rows(leaf, &position, 0, InvalidBlockNumber, false);
}
