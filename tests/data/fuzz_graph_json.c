/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_graph_json.c - one input for the reader of graphs in JSON.
 *
 * What holds for every input: a refusal has a sentence; what is accepted can be
 * written, and read again it is the same graph.
 */
#include "fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"

static void
require_of(bool holds, const char *what, const char *text)
{
    if (holds)
        return;
    fprintf(stderr, "graph JSON: %s (%s)\n%s\n", what, yoke_last_error(), text);
    abort();
}

static void
check_again(const yoke_graph *graph)
{
    yki_hash before, after;
    yoke_graph *again = NULL;
    char *text = NULL, *second = NULL;

    require_of(yoke_graph_to_json(graph, &text) == YOKE_OK, "cannot be written", "");
    require_of(yoke_graph_from_json(text, strlen(text), &again) == YOKE_OK, "not read again", text);
    yki_graph_hash(graph, &before);
    yki_graph_hash(again, &after);
    require_of(memcmp(&before, &after, sizeof before) == 0, "another graph now", text);
    require_of(yoke_graph_to_json(again, &second) == YOKE_OK && strcmp(text, second) == 0,
               "another text now", text);
    yoke_graph_destroy(again);
    yoke_free(second);
    yoke_free(text);
}

int
fuzz_graph_json(const uint8_t *data, size_t size)
{
    yoke_graph *graph = NULL;
    yoke_status status = yoke_graph_from_json((const char *)data, size, &graph);

    if (status != YOKE_OK) {
        require_of(!graph && *yoke_last_error(), "refused without a reason", "");
        return 0;
    }
    check_again(graph);
    yoke_graph_destroy(graph);
    return 0;
}
