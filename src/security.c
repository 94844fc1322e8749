/*
 * security.c
 *		Running a view's query as its owner, with the settings it was made with.
 *
 * A defining query is its owner's code, whoever runs the batch: a superuser's
 * CALL catch_up or our worker must not lend it any right.  So a batch becomes
 * the owner under SECURITY_RESTRICTED_OPERATION and pins what changes the
 * meaning of an expression: search_path, row_security, and the settings that
 * were stored when the view was created.
 *
 * TRANSACTIONS: enter and leave belong to one (sub)transaction level.  On
 * error nothing need be left: its abort restores user, context and settings.
 *
 * MEMORY: captured settings are allocated in the caller's context.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/guc.h"

#include "catalog.h"
#include "compat.h"
#include "security.h"

/*
 * Settings of the creator that change what text, intervals and timestamps
 * mean.  Stored with the view, so the order is part of the catalog.
 */
static const char *const captured_settings[] = {
	"TimeZone",
	"DateStyle",
	"IntervalStyle",
	"extra_float_digits"
};

/*
 * The session's values of the settings a definition is sensitive to, as List
 * of char *: name, value, ...
 */
List *
tide_security_capture_settings(void)
{
	List	   *settings = NIL;

	for (int i = 0; i < lengthof(captured_settings); i++)
	{
		const char *name = captured_settings[i];

		settings = lappend(settings, pstrdup(name));
		settings = lappend(settings, GetConfigOptionByName(name, NULL, false));
	}
	return settings;
}

/*
 * Set one setting until the nesting level is left.
 */
static void
pin_setting(const char *name, const char *value)
{
	(void) set_config_option(name, value, PGC_USERSET, PGC_S_SESSION,
							 GUC_ACTION_SAVE, true, 0, false);
}

/*
 * Become owner, restricted, with the settings of the view and ours pinned.
 * Needs a transaction; to be undone by tide_security_leave with what is
 * remembered in *saved, or by the abort of the transaction.
 */
void
tide_security_enter(TideSecurity *saved, Oid owner, List *settings)
{
	GetUserIdAndSecContext(&saved->userid, &saved->sec_context);
	SetUserIdAndSecContext(owner,
						   saved->sec_context | SECURITY_RESTRICTED_OPERATION);
	saved->guc_level = NewGUCNestLevel();

	for (int i = 0; i + 1 < list_length(settings); i += 2)
		pin_setting(list_nth(settings, i), list_nth(settings, i + 1));

	pin_setting("search_path", "pg_catalog, pg_temp");
	pin_setting("row_security", "on");
	/* batches are short and many: compiling costs more than it saves */
	pin_setting("jit", "off");
}

/*
 * Become the extension's owner, for our own DDL and our own tables.  Settings
 * stay, so whatever is run must be qualified; it must be our code alone.
 */
void
tide_security_enter_extension(TideSecurity *saved)
{
	GetUserIdAndSecContext(&saved->userid, &saved->sec_context);
	SetUserIdAndSecContext(tide_catalog_owner(),
						   saved->sec_context | SECURITY_LOCAL_USERID_CHANGE);
	saved->guc_level = NewGUCNestLevel();
}

/*
 * Back to the user, context and settings before the matching enter.
 */
void
tide_security_leave(const TideSecurity *saved)
{
	AtEOXact_GUC(false, saved->guc_level);
	SetUserIdAndSecContext(saved->userid, saved->sec_context);
}
