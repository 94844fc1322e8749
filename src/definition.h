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

#endif							/* TIDE_DEFINITION_H */
