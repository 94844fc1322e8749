/*
 * loss.h
 *		Refusing to remove rows that views have not consumed.
 */
#ifndef TIDE_LOSS_H
#define TIDE_LOSS_H

#include "nodes/nodes.h"

/* before a utility command runs; locks what it is about to remove */
extern void tide_loss_check_command(Node *statement);

/* before a table is truncated */
extern void tide_loss_check_truncate(Oid relid);

#endif							/* TIDE_LOSS_H */
