/* SPDX-License-Identifier: Apache-2.0
 *
 * fake_sets.h - a solver of products with sets of parameters, of which the odd ones work: a higher
 * one is faster. Its search begins at 3 and 8.
 */
#ifndef YOKE_TESTS_FAKE_SETS_H
#define YOKE_TESTS_FAKE_SETS_H

#include "plan/plan.h"

enum { FAKE_SETS = 16 };

typedef struct fake_search_options {
    yoke_plan_level level;
    double work;   /* operations of the product */
    bool all_fail; /* no set works */
} fake_search_options;

/* How often each set was measured in the newest search. */
extern unsigned fake_measured[FAKE_SETS];

/* Searches for a plan with one product. Returns the set that the plan takes; FAKE_SETS: none. */
unsigned fake_search(yoke_device *device, const fake_search_options *options);

#endif
