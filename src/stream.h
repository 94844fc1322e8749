/*
 * stream.h
 *		Acts on streams: create, alter, drop.
 */
#ifndef TIDE_STREAM_H
#define TIDE_STREAM_H

/*
 * Make good what a dump does not carry: the dependency of definition views on
 * their tables; and remove the rows of streams whose table is gone.  Cheap
 * when there is nothing to do; writes only then.  False: a table is locked, so
 * try again.
 */
extern bool tide_stream_repair(void);

/* a definition view was dropped: its table is no stream any more */
extern void tide_stream_forget_definition(Oid definition);

#endif							/* TIDE_STREAM_H */
