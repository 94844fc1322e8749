/*
 * fault.h
 *		Fault and wait points.  See fault.c.
 */
#ifndef TIDE_FAULT_H
#define TIDE_FAULT_H

#ifdef TIDE_FAULTS

extern void tide_fault_init(void);
extern void tide_fault_reach(const char *point);

#define TIDE_FAULT_INIT() tide_fault_init()
#define TIDE_FAULT(point) tide_fault_reach(point)

#else

#define TIDE_FAULT_INIT() ((void) 0)
#define TIDE_FAULT(point) ((void) 0)

#endif

#endif							/* TIDE_FAULT_H */
