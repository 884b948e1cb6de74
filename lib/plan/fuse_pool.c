/* SPDX-License-Identifier: Apache-2.0
 *
 * fuse_pool.c - joins the gradient of relu with the gradient of pooling.
 *
 * After average-pooling, dx is gated as it is written.
 *
 * With max-pooling after relu, dx = gate(x, spread(x, y, dy)), where `spread` adds each dy to
 * the element of x that was the maximum y of its window. That element equals y, so the gate may
 * come first: dx = spread(x, y, gate(y, dy)). The bits are the same, and a pass over x and two
 * over dx are gone.
 */
#include <string.h>

#include "plan/fuse.h"

/* Finds the task that applies relu's gradient to the result of the pooling gradient at `index`, if
 * it is the only reader. Returns its index, or -1 if there is none. */
static int32_t
gate_after(const yki_fusion *f, size_t index, const yki_op *pooling, yki_task *gate)
{
    const yki_task *spread = &f->plan->tasks[index];
    int32_t between = yki_task_result(spread), reader;

    if (spread->problem.op != pooling)
        return -1;
    reader = yki_fusion_only_reader(f, between);
    if (reader < 0)
        return -1;
    *gate = f->plan->tasks[reader];
    return yki_is_relu_gradient(gate) && gate->section == spread->section &&
                   gate->slots[0] != between && gate->slots[1] == between
               ? reader
               : -1;
}

bool
yki_fuse_pooled_gate(yki_fusion *f, size_t index)
{
    yki_task spread = f->plan->tasks[index], gate;
    int32_t between = yki_task_result(&spread);
    int32_t reader = gate_after(f, index, &yki_op_maxpool2d_grad, &gate);
    yki_value *value;

    if (reader < 0 || gate.slots[0] != spread.slots[0])
        return false;
    value = &f->plan->values[between];
    if (value->alias >= 0)
        return false;
    if (spread.node)
        f->plan->node_value[spread.node->id] = -1;
    /* The value between the two has the size of dy now, no longer that of x. */
    spread.slots[3] = yki_task_result(&gate);
    spread.slots[2] = between;
    spread.problem.out = gate.problem.out;
    gate.slots[0] = f->plan->tasks[index].slots[1];
    gate.slots[1] = f->plan->tasks[index].slots[2];
    gate.slots[2] = between;
    gate.problem.in[0] = spread.problem.in[1];
    gate.problem.in[1] = gate.problem.out = spread.problem.in[2];
    value->node = NULL;
    value->operand = gate.problem.out;
    value->size = f->plan->values[gate.slots[1]].size;
    yki_fusion_replace(f, index, &gate);
    yki_fusion_replace(f, (size_t)reader, &spread);
    return true;
}

bool
yki_fuse_averaged_gate(yki_fusion *f, size_t index)
{
    yki_task spread = f->plan->tasks[index], gate;
    int32_t reader = gate_after(f, index, &yki_op_avgpool2d_grad, &gate);

    if (reader < 0 || spread.problem.input_count != 1)
        return false;
    spread.problem.input_count = 2;
    spread.problem.in[1] = spread.problem.in[0];
    spread.problem.in[0] = gate.problem.in[0];
    spread.problem.out = gate.problem.out;
    if (!yki_fusion_solvable(f, &spread.problem))
        return false;
    spread.slots[1] = spread.slots[0];
    spread.slots[0] = gate.slots[0];
    spread.slots[2] = yki_task_result(&gate);
    if (spread.node)
        f->plan->node_value[spread.node->id] = -1;
    yki_fusion_drop(f, index);
    yki_fusion_replace(f, (size_t)reader, &spread);
    return true;
}
