/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_pooled.c - joins a first convolution with the pooling behind it, so that the image between
 * them is never in memory. In training, the gradients of pooling, weights and bias become one task
 * that computes the image again (op/conv/pooled.c).
 *
 * All or nothing: whoever else reads the image, or its gradient, needs it in memory. The first
 * layer's input has no gradient, so that the weights and the bias alone need it is the rule there.
 */
#include <string.h>

#include "plan/fuse.h"

/* Tasks that belong together are near one another. */
enum { NEAR = 6 };

/* Returns the task nearest to `index`, before or behind it (step -1, 1), that has `value` as its
 * result or, behind it, as input `input`; -1: none is near. */
static int32_t
find(const yki_fusion *f, size_t index, int step, int32_t value, int32_t input)
{
    unsigned seen = 0;

    for (size_t t = index + (size_t)step; t < f->plan->task_count && seen < NEAR;
         t += (size_t)step) {
        const yki_task *task = &f->plan->tasks[t];

        f->plan->work++;
        if (task->dropped)
            continue;
        seen++;
        if (step < 0 ? yki_task_result(task) == value
                     : input < (int32_t)task->problem.input_count && task->slots[input] == value)
            return (int32_t)t;
    }
    return -1;
}

static bool
is_2x2(const yki_task *pool)
{
    const yki_pool_attrs a = yki_pool_attrs_get(&pool->problem.attrs);
    const yki_problem *p = &pool->problem;

    if (p->op != &yki_op_maxpool2d && p->op != &yki_op_avgpool2d)
        return false;
    for (int i = 0; i < 2; i++)
        if (a.kernel[i] != 2 || a.stride[i] != 2 || a.pad[i] != 0 ||
            2 * p->out.shape.dim[i + 1] > p->in[0].shape.dim[i + 1])
            return false;
    return true;
}

/* What takes the place of the pooling at `index`; false: no convolution is before it, or no solver
 * takes both. */
static bool
join_forward(const yki_fusion *f, size_t index, int32_t *conv, yki_task *joined)
{
    const yki_task *pool = &f->plan->tasks[index], *layer;
    yki_conv_pooled_attrs attrs;
    uint32_t count;

    *conv = is_2x2(pool) ? find(f, index, -1, pool->slots[0], 0) : -1;
    if (*conv < 0)
        return false;
    layer = &f->plan->tasks[*conv];
    count = layer->problem.input_count;
    if (layer->problem.op != &yki_op_conv2d || layer->section != pool->section ||
        layer->problem.rows != pool->problem.rows ||
        f->plan->values[pool->slots[0]].storage != YKI_STORE_ARENA)
        return false;
    attrs = (yki_conv_pooled_attrs){.conv = yki_conv_attrs_get(&layer->problem.attrs),
                                    .bias = count == 3,
                                    .max = pool->problem.op == &yki_op_maxpool2d};
    *joined = *pool;
    joined->problem.op = &yki_op_conv_pooled;
    yki_conv_pooled_attrs_set(&joined->problem.attrs, &attrs);
    memcpy(joined->problem.in, layer->problem.in, count * sizeof *layer->problem.in);
    memcpy(joined->slots, layer->slots, count * sizeof *layer->slots);
    joined->problem.input_count = count;
    joined->slots[count] = yki_task_result(pool);
    return yki_fusion_solvable(f, &joined->problem);
}

/* No task makes this value any more. */
static void
forget(yki_fusion *f, int32_t value)
{
    if (f->plan->values[value].node)
        f->plan->node_value[f->plan->values[value].node->id] = -1;
}

static void
put_forward(yki_fusion *f, size_t pool, int32_t conv, const yki_task *joined)
{
    forget(f, f->plan->tasks[pool].slots[0]);
    yki_fusion_drop(f, (size_t)conv);
    yki_fusion_replace(f, pool, joined);
}

bool
yki_fuse_pooled(yki_fusion *f, size_t index)
{
    yki_task joined;
    int32_t conv;

    if (!join_forward(f, index, &conv, &joined) ||
        yki_fusion_only_reader(f, f->plan->tasks[index].slots[0]) != (int32_t)index)
        return false;
    put_forward(f, index, conv, &joined);
    return true;
}

/* The tasks of backward, by position. */
typedef struct backward {
    int32_t weight, bias, gate; /* -1: there is none */
    int32_t dy;                 /* the gradient by the pooled result */
} backward;

/* Finds what reads the gradient `dx` of the image, and nothing else does: the gradients of the
 * weights and, if there is one, of the bias. */
static bool
find_readers(const yki_fusion *f, size_t index, int32_t dx, const yki_task *layer, backward *b)
{
    const yki_task *tasks = f->plan->tasks;
    const yki_readers *readers = &f->readers[dx];
    bool bias = layer->problem.input_count == 3;

    b->weight = find(f, index, 1, dx, 1);
    b->bias = bias ? find(f, index, 1, dx, 0) : -1;
    if (b->weight < 0 || f->plan->values[dx].storage != YKI_STORE_ARENA ||
        tasks[b->weight].problem.op != &yki_op_conv2d_grad_weight ||
        tasks[b->weight].slots[0] != layer->slots[0] || tasks[b->weight].section != YKI_BACKWARD)
        return false;
    if (!bias)
        return readers->count == 1;
    return b->bias >= 0 && readers->count == 2 && tasks[b->bias].section == YKI_BACKWARD &&
           tasks[b->bias].problem.op == &yki_op_reduce_bias;
}

/* The gate of a maximum is before its gradient; the joined task has a gate of its own. */
static void
find_gate(const yki_fusion *f, size_t index, int32_t y, bool relu, backward *b)
{
    const yki_task *spread = &f->plan->tasks[index], *gate;

    b->dy = spread->slots[spread->problem.input_count - 1];
    b->gate = -1;
    if (spread->problem.op != &yki_op_maxpool2d_grad || !relu ||
        yki_fusion_only_reader(f, b->dy) != (int32_t)index)
        return;
    b->gate = find(f, index, -1, b->dy, 0);
    gate = &f->plan->tasks[YKI_MAX(b->gate, 0)];
    if (b->gate >= 0 && yki_is_relu_gradient(gate) && gate->slots[0] == y)
        b->dy = gate->slots[1];
    else
        b->gate = -1;
}

static void
join_backward(const yki_fusion *f, size_t index, const yki_task *forward, const backward *b,
              yki_task *joined)
{
    const yki_task *weight = &f->plan->tasks[b->weight];
    const yki_task *from = &f->plan->tasks[b->gate < 0 ? (int32_t)index : b->gate];
    yki_problem *p = &joined->problem;
    uint32_t count = forward->problem.input_count;

    *joined = *weight;
    p->op = &yki_op_conv_pooled_grad;
    p->attrs = forward->problem.attrs;
    memcpy(p->in, forward->problem.in, count * sizeof *p->in);
    memcpy(joined->slots, forward->slots, count * sizeof *joined->slots);
    p->in[count] = from->problem.in[from->problem.input_count - 1];
    joined->slots[count] = b->dy;
    p->input_count = count + 1;
    joined->slots[count + 1] = yki_task_result(weight);
    if (b->bias >= 0) {
        p->extra[p->extra_count++] = f->plan->tasks[b->bias].problem.out;
        joined->slots[count + 2] = yki_task_result(&f->plan->tasks[b->bias]);
    }
}

/* At the gradient of the pooling, which reads the image as the pooling does. */
bool
yki_fuse_pooled_grad(yki_fusion *f, size_t index)
{
    const yki_task *spread = &f->plan->tasks[index], *layer;
    bool max = spread->problem.op == &yki_op_maxpool2d_grad;
    yki_conv_pooled_attrs attrs;
    yki_task forward, joined;
    int32_t image, pool, conv;
    size_t last;
    backward b;

    if (!max && (spread->problem.op != &yki_op_avgpool2d_grad || spread->problem.input_count != 2))
        return false;
    image = spread->slots[0];
    if (f->readers[image].count != 2)
        return false;
    pool = (int32_t)(f->readers[image].sum - (int64_t)index);
    if (!join_forward(f, (size_t)pool, &conv, &forward) || f->plan->tasks[pool].slots[0] != image)
        return false;
    layer = &f->plan->tasks[conv];
    attrs = yki_conv_pooled_attrs_get(&forward.problem.attrs);
    if (attrs.max != max || (!max && !attrs.conv.act) ||
        !find_readers(f, index, yki_task_result(spread), layer, &b))
        return false;
    find_gate(f, index, yki_task_result(&forward), attrs.conv.act, &b);
    join_backward(f, index, &forward, &b, &joined);
    if (!yki_fusion_solvable(f, &joined.problem))
        return false;
    last = (size_t)YKI_MAX(b.weight, b.bias);
    forget(f, yki_task_result(spread));
    if (b.gate >= 0) {
        forget(f, yki_task_result(&f->plan->tasks[b.gate]));
        yki_fusion_drop(f, (size_t)b.gate);
    }
    yki_fusion_drop(f, index);
    if (b.bias >= 0)
        yki_fusion_drop(f, (size_t)YKI_MIN(b.weight, b.bias));
    yki_fusion_replace(f, last, &joined);
    put_forward(f, (size_t)pool, conv, &forward);
    return true;
}
