/* SPDX-License-Identifier: Apache-2.0
 *
 * opened.h - the devices of the environment as fixtures, for tests that want no more than these.
 */
#ifndef YOKE_TESTS_OPENED_H
#define YOKE_TESTS_OPENED_H

#include "support/devices.h"

extern test_devices devices;

/* Selected. */
void open_devices(void);
void close_devices(void);
/* The same with a scratch folder and the shared cache; and not selected, so that a test may split
 * them. leave_devices ends both. */
void open_devices_in_scratch(void);
void find_devices(void);
void leave_devices(void);

#endif
