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

#endif							/* TIDE_COMPAT_H */
