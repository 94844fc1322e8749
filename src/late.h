/*
 * late.h
 *		The tally of late rows by window.
 */
#ifndef TIDE_LATE_H
#define TIDE_LATE_H

typedef struct TideLate TideLate;

extern TideLate *tide_late_begin(Oid view);
/* one more late row; late NULL: nobody wants to know */
extern void tide_late_add(TideLate *late, int64 window_start);
/* write the tally; the caller holds the checkpoint lock */
extern void tide_late_end(TideLate *late);

#endif							/* TIDE_LATE_H */
