/*
 * summarize.h
 *		Keeping the stamp indexes summarised.
 */
#ifndef TIDE_SUMMARIZE_H
#define TIDE_SUMMARIZE_H

/* true: there is more to do */
extern bool tide_summarize_run(Oid viewid);

#endif							/* TIDE_SUMMARIZE_H */
