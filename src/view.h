/*
 * view.h
 *		Continuous views: making, dropping and steering them.
 */
#ifndef TIDE_VIEW_H
#define TIDE_VIEW_H

#include "catalog.h"

extern TideView *tide_view_get(Oid viewid);
extern TideView *tide_view_get_owned(Oid viewid);

/*
 * Make good what a dump does not carry, and what a session without the library
 * has left: dependencies between the parts of views, their owners and
 * privileges; rows and parts of views that are gone.  Cheap when there is
 * nothing to do; writes only then.  False: something is locked, so try again.
 */
extern bool tide_view_repair(void);
extern void tide_view_follow_owners(void);

#endif							/* TIDE_VIEW_H */
