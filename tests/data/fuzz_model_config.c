/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_model_config.c - one input for the reader of Hugging Face's config.json.
 *
 * What holds for every input: a refusal has a sentence that names the file; of what is accepted a
 * graph can be built, or is refused with a sentence.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "../tools/models.h"

enum { MOST_LAYERS = 4 };

int
fuzz_model_config(const uint8_t *data, size_t size)
{
    yki_tool_model model;
    yoke_graph *graph = NULL;
    yoke_status status = yki_tool_parse_config((const char *)data, size, "input", &model);

    if (status != YOKE_OK) {
        require(status == YOKE_ERROR_FORMAT || status == YOKE_ERROR_UNSUPPORTED,
                "refused with another status");
        require(strncmp(yoke_last_error(), "input", 5) == 0, "refused without naming the file");
        return 0;
    }
    if (model.sizes.layers > MOST_LAYERS)
        return 0;
    status = yki_tool_build_model(&model, &graph);
    require(status == YOKE_OK || *yoke_last_error(), "a graph is refused without a reason");
    if (status == YOKE_OK)
        yoke_graph_destroy(graph);
    return 0;
}
