/*
 * security.h
 *		Running a view's query as its owner, with the settings it was made with.
 */
#ifndef TIDE_SECURITY_H
#define TIDE_SECURITY_H

#include "nodes/pg_list.h"

typedef struct TideSecurity
{
	Oid			userid;
	int			sec_context;
	int			guc_level;
} TideSecurity;

/* the settings a definition is sensitive to, as List of char *: name, value... */
extern List *tide_security_capture_settings(void);

extern void tide_security_enter(TideSecurity *saved, Oid owner, List *settings);
extern void tide_security_leave(const TideSecurity *saved);

/* become the extension's owner, for our own DDL; settings stay */
extern void tide_security_enter_extension(TideSecurity *saved);

#endif							/* TIDE_SECURITY_H */
