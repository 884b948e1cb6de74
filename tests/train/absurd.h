/* SPDX-License-Identifier: Apache-2.0
 *
 * absurd.h - how check_absurd judges a call: what its macros check, and count.
 */
#ifndef YOKE_TESTS_ABSURD_H
#define YOKE_TESTS_ABSURD_H

#include <math.h>

#include "support/support.h"

#define MARK "nobody said what is wrong"

/* Tests are processes of their own: they count together. */
extern int *absurd_calls;

/* Before each call: a sentence that is still there afterwards was not the call's. */
void absurd_mark(void);
/* The status is an error, and the sentence one that a person can use; it has `part` in it. */
void absurd_judge(const char *call, yoke_status status, const char *part);

/* absurd_graphs.c: its tests. */
void absurd_add_graphs(TCase *tc);

#define REFUSED(part, call)                                                                        \
    do {                                                                                           \
        yoke_status refused_status;                                                                \
                                                                                                   \
        absurd_mark();                                                                             \
        refused_status = (call);                                                                   \
        absurd_judge(#call, refused_status, part);                                                 \
    } while (0)
/* Calls whose contract lets them do nothing, or give nothing. */
#define HARMLESS(call)                                                                             \
    do {                                                                                           \
        ++*absurd_calls;                                                                           \
        (void)(call);                                                                              \
    } while (0)
#define NOTHING(call)                                                                              \
    do {                                                                                           \
        ++*absurd_calls;                                                                           \
        ck_assert_msg(!(call), "%s gives something", #call);                                       \
    } while (0)

static const int64_t absurd_sizes[] = {-1, INT64_MIN, INT64_MAX, INT64_C(1) << 40};
static const float no_numbers[] = {NAN, INFINITY, -INFINITY};

/* .clang-format knows it as a loop. */
#define EACH(i, array) for (size_t i = 0; i < sizeof(array) / sizeof(array)[0]; i++)

#endif
