/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_graph_json.h - one input for the reader of graphs in JSON.
 */
#ifndef YOKE_TESTS_FUZZ_GRAPH_JSON_H
#define YOKE_TESTS_FUZZ_GRAPH_JSON_H

#include <stddef.h>
#include <stdint.h>

/* As libFuzzer calls it; a mistake aborts. */
int fuzz_graph_json(const uint8_t *data, size_t size);

#endif
