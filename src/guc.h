/*
 * guc.h
 *		Every setting of tidemark.  The variables' comments give boot value and
 *		unit; README.md has the same list for users.
 */
#ifndef TIDE_GUC_H
#define TIDE_GUC_H

extern bool tide_allow_unconsumed_drop; /* off */
extern bool tide_asynchronous_commit;	/* off */
extern int	tide_batch_memory;	/* 65536 kB */
extern bool tide_fast_path;		/* on */
extern int	tide_max_workers;	/* 4 processes, per cluster */
extern int	tide_min_batch_interval;	/* 10 ms */
extern int	tide_piece_blocks;	/* 16384 blocks */
extern int	tide_piece_delay;	/* 0 ms */
extern int	tide_poll_interval;	/* 10 s */
extern int	tide_retry_interval;	/* 1000 ms */
extern int	tide_retry_max_interval;	/* 300000 ms */

extern void tide_guc_define(void);

#endif							/* TIDE_GUC_H */
