/*
 * launcher.h
 *		The launcher: one for the cluster, starts the schedulers.
 */
#ifndef TIDE_LAUNCHER_H
#define TIDE_LAUNCHER_H

/* from _PG_init */
extern void tide_launcher_register(void);

#endif							/* TIDE_LAUNCHER_H */
