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
/* Not selected, so that a test may split them; with a scratch folder and the shared cache. */
void find_devices(void);
void leave_devices(void);

#endif
