/*
 * view.h
 *		Continuous views: making, dropping and steering them.
 */
#ifndef TIDE_VIEW_H
#define TIDE_VIEW_H

#include "catalog.h"

extern TideView *tide_view_get(Oid viewid);
extern TideView *tide_view_get_owned(Oid viewid);
extern void tide_view_collect_orphans(void);
extern void tide_view_follow_owners(void);

#endif							/* TIDE_VIEW_H */
