/*
 * restore.h
 *		Restoring a dump of our tables.
 */
#ifndef TIDE_RESTORE_H
#define TIDE_RESTORE_H

/*
 * Is another session restoring our tables?  As long as it is connected, its
 * event tables may not be complete.  Needs a transaction; takes no
 * transaction id.
 */
extern bool tide_restore_is_running(void);

#endif							/* TIDE_RESTORE_H */
