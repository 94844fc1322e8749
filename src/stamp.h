/*
 * stamp.h
 *		Transaction stamps: base, the column, and the wake-up at commit.
 */
#ifndef TIDE_STAMP_H
#define TIDE_STAMP_H

#include "access/transam.h"
#include "utils/rel.h"

#define TIDE_STAMP_COLUMN "_txid"
#define TIDE_STAMP_HISTORY INT64CONST(0)

/* base + full transaction id; base is cached, read through the syscache */
extern int64 tide_stamp_base(void);

/* the stamp of the current transaction; whoever calls it wakes the workers */
extern int64 tide_stamp_current(void);

/* move the base forward, beyond all stamps there are and the one given */
extern int64 tide_stamp_rebase(int64 beyond);

/* the stamp column of a table, or InvalidAttrNumber */
extern AttrNumber tide_stamp_attno(Relation rel);

/* the valid BRIN index on a leaf's stamp column, or InvalidOid */
extern Oid	tide_stamp_index(Relation leaf);

/* type tidemark.stamp */
extern Oid	tide_stamp_type(void);

#endif							/* TIDE_STAMP_H */
