/*
 * definition.h
 *		Queries kept as views.
 */
#ifndef TIDE_DEFINITION_H
#define TIDE_DEFINITION_H

#include "nodes/parsenodes.h"

/* make a view without a query, which tide_definition_store gives it */
extern Oid	tide_definition_create(RangeVar *name, Query *query, Oid owner);
extern void tide_definition_store(Oid view, Query *query);

/* the relations that the query of a view names */
extern List *tide_definition_relations(Oid view);

/* does a relation depend in this way on another one as a whole? */
extern bool tide_definition_depends(Oid relid, Oid on, char deptype);

/* do views or other objects beside its own parts depend on a relation? */
extern bool tide_definition_is_used(Oid relid);

/* does a view read a relation, itself or by views that it reads? */
extern bool tide_definition_reads(Oid view, Oid relid);

#endif							/* TIDE_DEFINITION_H */
