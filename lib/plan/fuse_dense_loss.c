/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_dense_loss.c - joins the last dense layer with its loss and with the layer's
 * backward, where all of that is less work than the launches cost. The task is in the
 * place of the loss (op/loss/dense_loss.c), so these gradients are there before backward
 * begins.
 */
#include <string.h>

#include "plan/fuse.h"

/* The layer is near its loss. */
enum { NEAR = 6 };

/* Where the layer's backward has its two products: a pair, or that of the weight alone. */
typedef struct backward {
    size_t task;
    yki_matmul_attrs by_input, by_weight;
    uint32_t input, weight; /* first slots of their inputs */
    int32_t dx, dw, db;     /* values; -1: none */
    const yki_operand *dx_is, *dw_is, *db_is;
} backward;

/* Returns the position of the task before `index` whose result is `value`; -1: none is near. */
static int32_t
find_maker(const yki_fusion *f, size_t index, int32_t value)
{
    unsigned seen = 0;

    for (size_t t = index; t-- > 0 && seen < NEAR;) {
        const yki_task *task = &f->plan->tasks[t];

        f->plan->work++;
        if (task->dropped)
            continue;
        seen++;
        if (yki_task_result(task) == value)
            return (int32_t)t;
    }
    return -1;
}

static bool
is_by_weight(yki_matmul_attrs a)
{
    return a.transpose_a && !a.transpose_b && a.sum_batch && !a.act;
}

/* Takes the results of a product, which begin at `slot`. Returns the slot behind them. */
static uint32_t
take_results(const yki_task *task, uint32_t slot, bool by_weight, bool sums, backward *b)
{
    const yki_operand *operand = yki_problem_operand(&task->problem, slot);

    if (!by_weight) {
        b->dx = task->slots[slot];
        b->dx_is = operand;
        return slot + 1;
    }
    b->dw = task->slots[slot];
    b->dw_is = operand;
    if (sums) {
        b->db = task->slots[slot + 1];
        b->db_is = yki_problem_operand(&task->problem, slot + 1);
    }
    return slot + 1 + sums;
}

static bool
split_pair(const yki_task *task, backward *b)
{
    const yki_matmul_pair_attrs pair = yki_matmul_pair_attrs_get(&task->problem.attrs);
    uint32_t input = 0, result = task->problem.input_count;
    bool first_by_weight = is_by_weight(pair.part[0]);

    if (first_by_weight == is_by_weight(pair.part[1]))
        return false;
    for (int i = 0; i < 2; i++) {
        bool by_weight = i == 0 ? first_by_weight : !first_by_weight;

        *(by_weight ? &b->weight : &b->input) = input;
        *(by_weight ? &b->by_weight : &b->by_input) = pair.part[i];
        input += pair.part[i].act == YKI_MATMUL_GATE ? 3 : 2;
        result = take_results(task, result, by_weight, pair.part[i].sums, b);
    }
    return true;
}

/* Finds the one task that reads the gradient of the loss. A pair reads it twice. */
static bool
find_backward(const yki_fusion *f, int32_t dy, backward *b)
{
    const yki_readers *readers = &f->readers[dy];
    const yki_task *task;

    if (f->plan->values[dy].storage != YKI_STORE_ARENA || readers->count < 1 ||
        readers->count > 2 || readers->sum % readers->count != 0)
        return false;
    b->task = (size_t)(readers->sum / readers->count);
    task = &f->plan->tasks[b->task];
    b->dx = b->db = -1;
    if (task->dropped || task->section != YKI_BACKWARD)
        return false;
    if (readers->count == 2)
        return task->problem.op == &yki_op_matmul_pair && task->slots[0] == dy &&
               split_pair(task, b) && task->slots[b->input] == dy && task->slots[b->weight] == dy;
    if (task->problem.op != &yki_op_matmul || task->slots[0] != dy)
        return false;
    b->by_weight = yki_matmul_attrs_get(&task->problem.attrs);
    (void)take_results(task, task->problem.input_count, true, b->by_weight.sums, b);
    return is_by_weight(b->by_weight);
}

/* Whether these are the gradients of that layer: of its weight by its input, and the other way
 * round. */
static bool
belongs(const yki_fusion *f, const yki_task *layer, const backward *b)
{
    const yki_task *task = &f->plan->tasks[b->task];
    yki_matmul_attrs attrs = b->by_input;

    if (task->slots[b->weight + 1] != layer->slots[0])
        return false;
    if (b->dx < 0)
        return true;
    return !attrs.transpose_a && !attrs.transpose_b && !attrs.sum_batch && !attrs.bias &&
           task->slots[b->input + 1] == layer->slots[1] &&
           (attrs.act != YKI_MATMUL_GATE || task->slots[b->input + 2] == layer->slots[0]);
}

static void
add_result(yki_task *task, int32_t value, const yki_operand *operand)
{
    yki_problem *p = &task->problem;

    task->slots[yki_problem_operands(p)] = value;
    p->extra[p->extra_count++] = *operand;
}

static void
join(const yki_task *layer, const yki_task *loss, const backward *b, yki_task *joined)
{
    const yki_problem *from = &loss->problem;
    yki_dense_loss_attrs attrs = {.loss = yki_fused_loss_attrs_get(&from->attrs),
                                  .bias = layer->problem.input_count == 3,
                                  .gate = b->by_input.act == YKI_MATMUL_GATE,
                                  .input = b->dx >= 0};
    yki_problem *p = &joined->problem;
    uint32_t count = layer->problem.input_count;

    *joined = *loss;
    p->op = &yki_op_dense_loss;
    memset(&p->attrs, 0, sizeof p->attrs);
    yki_dense_loss_attrs_set(&p->attrs, &attrs);
    memcpy(p->in, layer->problem.in, count * sizeof *p->in);
    memcpy(joined->slots, layer->slots, count * sizeof *joined->slots);
    p->in[count] = from->in[1];
    p->valid[count] = from->valid[1];
    joined->slots[count] = loss->slots[1];
    p->input_count = count + 1;
    p->extra_count = 0;
    joined->slots[count + 1] = yki_task_result(loss);
    for (int32_t i = 0; i < attrs.loss.metrics; i++)
        add_result(joined, loss->slots[3 + i], &from->extra[i]);
    add_result(joined, yki_task_result(layer), &layer->problem.out);
    add_result(joined, b->dw, b->dw_is);
    if (b->db >= 0)
        add_result(joined, b->db, b->db_is);
    if (b->dx >= 0)
        add_result(joined, b->dx, b->dx_is);
}

bool
yki_fuse_dense_loss(yki_fusion *f, size_t index)
{
    const yki_task *loss = &f->plan->tasks[index], *layer;
    yki_fused_loss_attrs attrs;
    yki_matmul_attrs product;
    backward b = {0};
    yki_task joined;
    int32_t at, dy, y = loss->slots[0];

    if (loss->problem.op != &yki_op_fused_loss)
        return false;
    attrs = yki_fused_loss_attrs_get(&loss->problem.attrs);
    if (!attrs.gradient || f->readers[y].count != 1)
        return false;
    at = find_maker(f, index, y);
    dy = loss->slots[3 + attrs.metrics];
    if (at < 0 || f->plan->tasks[at].problem.op != &yki_op_matmul || !find_backward(f, dy, &b))
        return false;
    layer = &f->plan->tasks[at];
    /* The joined task multiplies in float32, and other devices may not join them. */
    if (layer->rounds && (f->plan->options.strict || yki_plan_agrees(f->plan)))
        return false;
    product = yki_matmul_attrs_get(&layer->problem.attrs);
    if (layer->section != loss->section || product.transpose_a || !product.transpose_b ||
        product.sum_batch || product.act || product.sums || product.bias != (b.db >= 0) ||
        !layer->problem.in[0].batched || layer->problem.in[1].batched || !belongs(f, layer, &b))
        return false;
    join(layer, loss, &b, &joined);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    if (f->plan->values[dy].node)
        f->plan->node_value[f->plan->values[dy].node->id] = -1;
    yki_fusion_drop(f, (size_t)at);
    yki_fusion_drop(f, b.task);
    yki_fusion_replace(f, index, &joined);
    return true;
}
