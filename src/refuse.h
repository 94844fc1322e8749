/*
 * refuse.h
 *		What a defining query may not contain, and why.
 */
#ifndef TIDE_REFUSE_H
#define TIDE_REFUSE_H

#include "nodes/parsenodes.h"

extern void tide_refuse_clauses(Query *query);
extern bool tide_refuse_contents(Query *query, Index stream_rti);
extern void tide_refuse_columns(Query *query);
extern void tide_refuse_aggregate(Aggref *aggref);
extern void tide_refuse_key(Node *expr, Oid stream);
extern void tide_refuse_output(Node *expr);

#endif							/* TIDE_REFUSE_H */
