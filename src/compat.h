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

#endif							/* TIDE_COMPAT_H */
