/*
 * restamp.h
 *		Stamping rows that came without a stamp.
 */
#ifndef TIDE_RESTAMP_H
#define TIDE_RESTAMP_H

extern int64 tide_restamp_run(Oid viewid);

#endif							/* TIDE_RESTAMP_H */
