/*
 * late.c
 *		The tally of late rows by window.
 *
 * A view leaves late rows out, and says how many each window missed: verify
 * tells by it a window that is smaller than its rows from one that is wrong.
 * The rows of one batch are counted in memory and written with its checkpoint,
 * because a batch has many late rows in few windows; when they are in many,
 * they are written before the end.
 *
 * LOCKING: the caller holds the view's checkpoint lock.
 * MEMORY: in the context that was current in tide_late_begin.
 */
#include "postgres.h"

#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "catalog.h"
#include "late.h"

/* windows that are counted in memory */
#define MAX_WINDOWS 10000

typedef struct LateWindow
{
	int64		start;			/* on the window axis */
	int64		rows;
} LateWindow;

struct TideLate
{
	Oid			view;
	MemoryContext context;
	HTAB	   *windows;		/* NULL: no late row so far */
};

static void write_windows(TideLate *late);

/* An empty tally. */
TideLate *
tide_late_begin(Oid view)
{
	TideLate   *late = palloc0(sizeof(TideLate));

	late->view = view;
	late->context = CurrentMemoryContext;

	return late;
}

/* Make the table for the windows of late rows. */
static void
create_windows(TideLate *late)
{
	HASHCTL		control = {0};

	control.keysize = sizeof(int64);
	control.entrysize = sizeof(LateWindow);
	control.hcxt = late->context;
	late->windows = hash_create("tidemark late windows", 16, &control,
								HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
}

/* Count a late row. */
void
tide_late_add(TideLate *late, int64 window_start)
{
	LateWindow *window;
	bool		found;

	if (late == NULL)
		return;
	if (late->windows == NULL)
		create_windows(late);
	window = hash_search(late->windows, &window_start, HASH_ENTER, &found);
	if (!found)
		window->rows = 0;
	window->rows++;
	if (hash_get_num_entries(late->windows) >= MAX_WINDOWS)
		write_windows(late);
}

/* Add the windows to the table and forget them. */
static void
write_windows(TideLate *late)
{
	HASH_SEQ_STATUS status;
	LateWindow *window;
	MemoryContext context;
	MemoryContext old_context;

	if (late->windows == NULL)
		return;
	context = AllocSetContextCreate(late->context, "tidemark late window",
									ALLOCSET_SMALL_SIZES);
	old_context = MemoryContextSwitchTo(context);
	hash_seq_init(&status, late->windows);
	while ((window = hash_seq_search(&status)) != NULL)
	{
		tide_catalog_add_late(late->view, window->start, window->rows);
		MemoryContextReset(context);
	}
	MemoryContextSwitchTo(old_context);
	MemoryContextDelete(context);
	hash_destroy(late->windows);
	late->windows = NULL;
}

/* Write the tally and forget it. */
void
tide_late_end(TideLate *late)
{
	write_windows(late);
	pfree(late);
}
