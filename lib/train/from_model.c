/* SPDX-License-Identifier: Apache-2.0
 *
 * from_model.c - a trainer of a model, which only predicts: what a predictor does on one device, a
 * team does together.
 */
#include "replica/model.h"
#include "train/trainer.h"

static yoke_status
write_weights(yoke_trainer *t, const yoke_model *m)
{
    for (size_t i = 0; i < m->value_count; i++) {
        const yoke_node *node = m->graph->nodes[i];

        if (yki_is_weight(node))
            YKI_TRY(yoke_trainer_write(t, node->name, m->values[i], yki_shape_count(node->shape)));
    }
    return YOKE_OK;
}

yoke_status
yoke_trainer_from_model_sized(yoke_team *team, yoke_model *model,
                              const yoke_trainer_options *options, size_t size, yoke_trainer **out)
{
    yoke_trainer *t = NULL;
    yoke_graph *graph;
    yoke_status status;

    YKI_GIVEN("yoke_trainer_from_model", {"team", team}, {"model", model}, {"trainer", out});
    YKI_TRY(yki_model_make_predicting(model, &graph));
    status = yoke_trainer_create_sized(team, graph, options, size, &t);
    yoke_graph_destroy(graph);
    YKI_TRY(status);
    status = write_weights(t, model);
    if (status != YOKE_OK) {
        yoke_trainer_destroy(t);
        return status;
    }
    *out = t;
    return YOKE_OK;
}
