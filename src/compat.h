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

#endif							/* TIDE_COMPAT_H */
