/*
 * compat.h
 *		The only tests of PG_VERSION_NUM: PostgreSQL 15 to 18.
 *
 * What is used elsewhere has the newest spelling; older servers are taught it
 * here.
 */
#ifndef TIDE_COMPAT_H
#define TIDE_COMPAT_H

#if PG_VERSION_NUM < 150000
#error "tidemark needs PostgreSQL 15 or later"
#endif

#define TIDE_SERVER_MAJOR (PG_VERSION_NUM / 10000)

#if PG_VERSION_NUM < 160000
#include "utils/acl.h"

/* 16 folded pg_xxx_aclcheck and pg_xxx_ownercheck into one function each */
#define TIDE_RELATION_OWNERCHECK(relid, roleid) \
	pg_class_ownercheck((relid), (roleid))
#else
#include "catalog/pg_class.h"
#include "utils/acl.h"
#include "varatt.h"

#define TIDE_RELATION_OWNERCHECK(relid, roleid) \
	object_ownercheck(RelationRelationId, (relid), (roleid))
#endif

#if PG_VERSION_NUM < 160000
/* 16 gave it the planner's state, which there is none of here */
#define TIDE_FLATTEN_JOIN_ALIAS_VARS(query, node) \
	flatten_join_alias_vars((query), (node))
#else
#define TIDE_FLATTEN_JOIN_ALIAS_VARS(query, node) \
	flatten_join_alias_vars(NULL, (query), (node))
#endif

#if PG_VERSION_NUM < 180000
/* 18 made GROUP BY a range table entry, and RETURNING OLD and NEW */
#define TIDE_FLATTEN_GROUP_EXPRS(query, node) (node)
#define TIDE_FORGET_GROUP_RTE(query) ((void) 0)
#define TIDE_REPLACE_VARS(node, rti, rte, tlist) \
	ReplaceVarsFromTargetList((node), (rti), 0, (rte), (tlist), \
							  REPLACEVARS_REPORT_ERROR, 0, NULL)
#else
#define TIDE_FLATTEN_GROUP_EXPRS(query, node) \
	((query)->hasGroupRTE ? \
	 flatten_group_exprs(NULL, (query), (node)) : (node))
#define TIDE_FORGET_GROUP_RTE(query) ((query)->hasGroupRTE = false)
#define TIDE_REPLACE_VARS(node, rti, rte, tlist) \
	ReplaceVarsFromTargetList((node), (rti), 0, (rte), (tlist), 0, \
							  REPLACEVARS_REPORT_ERROR, 0, NULL)

#endif

#include "postmaster/bgworker.h"

/* 17 took the number of a PGPROC out of it, and has named wait events */
#if PG_VERSION_NUM < 170000
#include "storage/proc.h"

#define TIDE_MY_PROC_NUMBER ((uint32) MyProc->pgprocno)
#define TIDE_WAIT_EVENT_NEW(name) ((void) (name), PG_WAIT_EXTENSION)
#else
#include "storage/procnumber.h"

#define TIDE_MY_PROC_NUMBER ((uint32) MyProcNumber)
#define TIDE_WAIT_EVENT_NEW(name) WaitEventExtensionNew(name)
#endif

/* 19: DROP DATABASE may terminate the worker */
#ifndef BGWORKER_INTERRUPTIBLE
#define BGWORKER_INTERRUPTIBLE 0
#endif

/* 16 added total_parts to DefineIndex */
#if PG_VERSION_NUM < 160000
#define TIDE_DEFINE_INDEX(relid, stmt, is_alter_table, check_rights, \
						  check_not_in_use, skip_build, quiet) \
	DefineIndex((relid), (stmt), InvalidOid, InvalidOid, InvalidOid, \
				(is_alter_table), (check_rights), (check_not_in_use), \
				(skip_build), (quiet))
#else
#define TIDE_DEFINE_INDEX(relid, stmt, is_alter_table, check_rights, \
						  check_not_in_use, skip_build, quiet) \
	DefineIndex((relid), (stmt), InvalidOid, InvalidOid, InvalidOid, -1, \
				(is_alter_table), (check_rights), (check_not_in_use), \
				(skip_build), (quiet))
#endif

/* 17 has infinite intervals */
#if PG_VERSION_NUM < 170000
#define TIDE_INTERVAL_IS_FINITE(interval) true
#else
#define TIDE_INTERVAL_IS_FINITE(interval) (!INTERVAL_NOT_FINITE(interval))
#endif

/* 18 has generated columns that are not stored */
#if PG_VERSION_NUM < 180000
#define TIDE_ATTRIBUTE_IS_VIRTUAL(att) false
#else
#define TIDE_ATTRIBUTE_IS_VIRTUAL(att) \
	((att)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL)
#endif

/*
 * 16 gave build_attrmap_by_name_if_req a third argument, 18 gave
 * index_beginscan_bitmap an instrumentation argument and bitmaps a private
 * iterator that fills the caller's struct.
 */
#if PG_VERSION_NUM < 160000
#define TIDE_ATTRMAP_IF_REQ(in, out) build_attrmap_by_name_if_req((in), (out))
#else
#define TIDE_ATTRMAP_IF_REQ(in, out) \
	build_attrmap_by_name_if_req((in), (out), false)
#endif

#if PG_VERSION_NUM < 180000
#define TIDE_INDEX_BEGINSCAN_BITMAP(index, snapshot, nkeys) \
	index_beginscan_bitmap((index), (snapshot), (nkeys))
#define TideBitmapIterator TBMIterator
#define TIDE_BITMAP_BEGIN(tbm) tbm_begin_iterate(tbm)
#define TIDE_BITMAP_END(iterator) tbm_end_iterate(iterator)
#define TIDE_BITMAP_NEXT(iterator, result) \
	(((result) = tbm_iterate(iterator)) != NULL)
#define TIDE_BITMAP_RESULT(name) TBMIterateResult *name
#else
#define TIDE_INDEX_BEGINSCAN_BITMAP(index, snapshot, nkeys) \
	index_beginscan_bitmap((index), (snapshot), NULL, (nkeys))
#define TideBitmapIterator TBMPrivateIterator
#define TIDE_BITMAP_BEGIN(tbm) tbm_begin_private_iterate(tbm)
#define TIDE_BITMAP_END(iterator) tbm_end_private_iterate(iterator)
#define TIDE_BITMAP_NEXT(iterator, result) \
	tbm_private_iterate((iterator), (result))
#define TIDE_BITMAP_RESULT(name) \
	TBMIterateResult name##_data; \
	TBMIterateResult *name = &name##_data
#endif

/*
 * Index maintenance: 16 knows updates that touch summarizing indexes only, 18
 * has instrumentation in index scans.
 */
#if PG_VERSION_NUM < 160000
#define TideUpdateIndexes bool
#define TIDE_UPDATES_NO_INDEX(update) (!(update))
#define TIDE_INSERT_INDEX_TUPLES(info, slot, estate, is_update, update) \
	ExecInsertIndexTuples((info), (slot), (estate), (is_update), false, \
						  NULL, NIL)
#else
#define TideUpdateIndexes TU_UpdateIndexes
#define TIDE_UPDATES_NO_INDEX(update) ((update) == TU_None)
#define TIDE_INSERT_INDEX_TUPLES(info, slot, estate, is_update, update) \
	ExecInsertIndexTuples((info), (slot), (estate), (is_update), false, \
						  NULL, NIL, (update) == TU_Summarizing)
#endif

#if PG_VERSION_NUM < 180000
#define TIDE_INDEX_BEGINSCAN(rel, index, snapshot, nkeys) \
	index_beginscan((rel), (index), (snapshot), (nkeys), 0)
#else
#define TIDE_INDEX_BEGINSCAN(rel, index, snapshot, nkeys) \
	index_beginscan((rel), (index), (snapshot), NULL, (nkeys), 0)
#endif

/* 17 renamed what copies a by-reference transition value */
#if PG_VERSION_NUM < 170000
#define TIDE_COPY_TRANS_VALUE ExecAggTransReparent
#else
#define TIDE_COPY_TRANS_VALUE ExecAggCopyTransValue
#endif

/* 16 renamed relfilenodes to relfilenumbers, 18 took execute_once away */
#if PG_VERSION_NUM < 160000
#define TIDE_RELFILENUMBER(rel) ((rel)->rd_node.relNode)
#else
#define TIDE_RELFILENUMBER(rel) ((rel)->rd_locator.relNumber)
#endif

#if PG_VERSION_NUM < 180000
#define TIDE_EXECUTOR_RUN(query_desc) \
	ExecutorRun((query_desc), ForwardScanDirection, 0, true)
#else
#define TIDE_EXECUTOR_RUN(query_desc) \
	ExecutorRun((query_desc), ForwardScanDirection, 0)
#endif

/* 16 keeps the permissions of range table entries in a list of their own */
#if PG_VERSION_NUM < 160000
#define TIDE_COPY_PERMINFOS(query, pstate) ((void) 0)
#else
#define TIDE_COPY_PERMINFOS(query, pstate) \
	((query)->rteperminfos = (pstate)->p_rteperminfos)
#endif

#include "utils/datetime.h"

#if PG_VERSION_NUM < 160000
#include "parser/scansup.h"

#define TZNAME_FIXED_OFFSET 0
#define TZNAME_DYNTZ 1
#define TZNAME_ZONE 2

/*
 * What a time zone name means: a fixed offset, an abbreviation whose offset
 * changed over time, or a zone.  Ereports when it is none of these.
 */
static inline int
DecodeTimezoneName(const char *tzname, int *offset, pg_tz **tz)
{
	char	   *lowzone = downcase_truncate_identifier(tzname, strlen(tzname),
													   false);
	int			type = DecodeTimezoneAbbrev(0, lowzone, offset, tz);

	if (type == TZ || type == DTZ)
		return TZNAME_FIXED_OFFSET;
	if (type == DYNTZ)
		return TZNAME_DYNTZ;
	*tz = pg_tzset(tzname);
	if (*tz == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("time zone \"%s\" not recognized", tzname)));
	return TZNAME_ZONE;
}
#endif

#if PG_VERSION_NUM < 160000
#define TIDE_DATABASE_OWNERCHECK(dboid, roleid) \
	pg_database_ownercheck((dboid), (roleid))
#else
#include "catalog/pg_database.h"

#define TIDE_DATABASE_OWNERCHECK(dboid, roleid) \
	object_ownercheck(DatabaseRelationId, (dboid), (roleid))
#endif

/* 18 leaves room before the tuple, if asked */
#if PG_VERSION_NUM < 180000
#define TIDE_FORM_MINIMAL_TUPLE(desc, values, nulls) \
	heap_form_minimal_tuple((desc), (values), (nulls))
#else
#define TIDE_FORM_MINIMAL_TUPLE(desc, values, nulls) \
	heap_form_minimal_tuple((desc), (values), (nulls), 0)
#endif

#endif							/* TIDE_COMPAT_H */
