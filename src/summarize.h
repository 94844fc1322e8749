/*
 * summarize.h
 *		Keeping the stamp indexes summarised.
 */
#ifndef TIDE_SUMMARIZE_H
#define TIDE_SUMMARIZE_H

extern void tide_summarize_run(Oid viewid);

#endif							/* TIDE_SUMMARIZE_H */
