/*
 * position.h
 *		Positions in a stream: capture, consumed(), comparison.
 */
#ifndef TIDE_POSITION_H
#define TIDE_POSITION_H

#include "utils/snapshot.h"

#include "catalog.h"

/* everything that is visible to the snapshot; own transaction excluded */
extern TidePosition tide_position_capture(Snapshot snapshot);
extern TidePosition tide_position_copy(const TidePosition *position);
extern bool tide_position_covers(const TidePosition *position,
								 const TidePosition *other);
extern TidePosition tide_position_below(const TidePosition *position,
										int64 stamp);
extern int	tide_position_compare_stamps(const void *a, const void *b);
extern char *tide_position_out(const TidePosition *position);

/*
 * Was a row with this stamp consumed by a batch that ended at the position?
 * Hot: once or twice a row.
 */
static inline bool
tide_position_consumed(const TidePosition *position, int64 stamp)
{
	int			low = 0;
	int			high = position->nin_progress;

	if (stamp >= position->xmax)
		return false;
	if (high == 0 || stamp < position->in_progress[0])
		return true;
	while (low < high)
	{
		int			middle = (low + high) / 2;

		if (position->in_progress[middle] == stamp)
			return false;
		if (position->in_progress[middle] < stamp)
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}

#endif							/* TIDE_POSITION_H */
