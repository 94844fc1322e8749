/*
 * tidemark.c
 *		Where the library begins.
 *
 * Preloaded, tidemark has shared memory and background workers.  Loaded by a
 * session it works without them: CALL tidemark.catch_up runs the views.
 */
#include "postgres.h"

#include "fmgr.h"

#include "compat.h"
#include "fault.h"
#include "guc.h"
#include "hooks.h"
#include "launcher.h"
#include "scan.h"
#include "shmem.h"

PG_MODULE_MAGIC;

void		_PG_init(void);

/* Called once when the library is loaded. */
void
_PG_init(void)
{
	tide_guc_define();
	TIDE_FAULT_INIT();
	tide_shmem_init();
	tide_scan_register();
	tide_hooks_install();
	tide_launcher_register();
}
