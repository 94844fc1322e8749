/*
 * hooks.h
 *		Hooks of the server that are not a module's own.
 */
#ifndef TIDE_HOOKS_H
#define TIDE_HOOKS_H

extern void tide_hooks_install(void);	/* from _PG_init */

#endif							/* TIDE_HOOKS_H */
