/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_onnx.c - one input for the reader of ONNX.
 *
 * What holds for every input: a refusal has a sentence that names the file; what is accepted has a
 * graph without an error, whose weights have values, and is no larger than the input explains.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/onnx.h"

static void
check_graph(const yki_onnx_imported *made)
{
    require(yoke_graph_status(made->graph) == YOKE_OK, "the graph has an error");
    for (size_t i = 0; i < made->graph->node_count; i++)
        if (yki_is_weight(made->graph->nodes[i]))
            require(i < made->count && made->values[i], "a weight has no values");
}

int
fuzz_onnx(const uint8_t *data, size_t size)
{
    yki_onnx model;
    yki_onnx_imported made = {0};
    yoke_status status = yki_onnx_parse(data, size, "input", &model);

    if (status == YOKE_OK)
        status = yki_onnx_import(&model, &made);
    if (status == YOKE_OK)
        check_graph(&made);
    else
        require(strncmp(yoke_last_error(), "input", 5) == 0, "refused without naming the file");
    yki_onnx_imported_clear(&made);
    yki_onnx_clear(&model);
    return 0;
}
