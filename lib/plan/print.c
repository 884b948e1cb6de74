/* SPDX-License-Identifier: Apache-2.0
 *
 * print.c - prints a plan: each task with its solver, layout, work and time, the fraction of
 * the device's limit that it reaches, and the memory map.
 *
 * A task can be no faster than the device's multiply-adds, and no faster than its memory.
 * The limit that it is nearer to is shown. Both limits are measured for the table, because on a
 * shared machine yesterday's figures say little.
 */
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

typedef struct output {
    yki_teller to;
    yoke_peak peak; /* all zeros: unknown */
} output;

/* Writes " 0.83 peak", the fraction of the nearer limit, or "" where no limit is known. */
static void
limit_text(const output *out, double gflops, double gbytes, char *text, size_t size)
{
    double of_peak = 0, of_copy = 0;

    if (out->peak.gflops > 0)
        of_peak = gflops / out->peak.gflops;
    if (out->peak.copy_gbytes > 0)
        of_copy = gbytes / out->peak.copy_gbytes;
    text[0] = '\0';
    if (of_peak > 0 || of_copy > 0)
        snprintf(text, size, " %5.2f %s", YKI_MAX(of_peak, of_copy),
                 of_peak >= of_copy ? "peak" : "copy");
}

static void
print_task(const yki_plan *plan, const output *out, size_t index)
{
    const yki_task *task = &plan->tasks[index];
    const yki_extents max = yki_task_extents(task, plan->options.max);
    double flops = 0, bytes = 0;
    size_t launches = 0;
    char rate[96] = "", limit[32];

    if (!task->solver)
        return;
    if (task->recipe.call) {
        flops += (double)yki_expr_value(task->recipe.call_flops, max);
        bytes += (double)yki_expr_value(task->recipe.call_bytes, max);
        launches++;
    }
    for (size_t k = 0; k < task->recipe.launch_count; k++) {
        flops += (double)yki_expr_value(task->recipe.launches[k].flops, max);
        bytes += (double)yki_expr_value(task->recipe.launches[k].bytes, max);
        launches += task->recipe.launches[k].phase == YKI_PHASE_RUN;
    }
    if (task->seconds > 0) {
        double gflops = flops / task->seconds / 1e9, gbytes = bytes / task->seconds / 1e9;

        limit_text(out, gflops, gbytes, limit, sizeof limit);
        snprintf(rate, sizeof rate, "%9.1f %8.1f %7.1f%s", task->seconds * 1e6, gflops, gbytes,
                 limit);
    }
    yki_tell(&out->to, "%4zu %-8s %-24s %-28s %-8s /%-3u %2zu %10.3f %10.3f %s", index,
             task->again                    ? "again"
             : task->section == YKI_FORWARD ? "forward"
                                            : "backward",
             task->node ? yki_node_title(task->node) : task->problem.op->name, task->solver->name,
             yki_class_name(task->solver->numerical_class), task->problem.out.layout.block,
             launches, flops / 1e6, bytes / 1e6, rate);
}

static const char *
value_title(const yki_value *value)
{
    return value->node       ? yki_node_title(value->node)
           : value->gathered ? "a bucket of weights"
           : value->within   ? "a bucket of gradients"
                             : "";
}

static void
print_memory(const yki_plan *plan, const output *out)
{
    uint64_t packed = 0, unpacked = 0;

    for (size_t i = 0; i < plan->chunks.count; i++)
        packed += plan->chunks.sizes[i];
    yki_tell(&out->to, "memory: %6s %12s %12s  lives", "chunk", "offset", "bytes");
    for (size_t v = 0; v < plan->value_count; v++) {
        const yki_value *value = &plan->values[v];

        if (value->storage != YKI_STORE_ARENA || value->alias >= 0 || value->last < 0)
            continue;
        unpacked += value->size;
        yki_tell(&out->to, "        %6u %12llu %12llu  %d-%d %s", value->chunk,
                 (unsigned long long)value->offset, (unsigned long long)value->size, value->first,
                 value->last, value_title(value));
    }
    yki_tell(&out->to, "packed %.1f MB of %.1f MB; whole plan %.1f MB", (double)packed / 1e6,
             (double)unpacked / 1e6, (double)yki_plan_memory(plan) / 1e6);
    if (plan->halved.values)
        yki_tell(&out->to, "kept for backward in half their bytes: %zu values, in %.1f MB",
                 plan->halved.values, (double)plan->halved.bytes / 1e6);
    if (plan->weights->transient)
        yki_tell(&out->to, "gradients: up to %.1f MB of that at a time",
                 (double)yki_plan_bucket_bytes(plan) / 1e6);
    if (plan->weights->divided)
        yki_tell(&out->to, "weights: up to %.1f MB of that at a time",
                 (double)yki_plan_gathered_bytes(plan) / 1e6);
}

/* Times that were not measured are only good for a fraction. */
const char *
yki_plan_recomputed_text(const yki_plan *plan, char *text, size_t size)
{
    char time[48] = "", halved[64] = "";

    if (plan->halved.values)
        snprintf(halved, sizeof halved, "%zu values in half their bytes, ", plan->halved.values);
    if (plan->recomputed.measured)
        snprintf(time, sizeof time, "%.2f ms, ", 1e3 * plan->recomputed.seconds);
    snprintf(text, size,
             "%s%zu tasks run again, for %s%.1f %% of the time of all others; %.1f MB instead of "
             "%.1f MB; the limit is %.1f MB",
             halved, plan->recomputed.tasks, time,
             100 * plan->recomputed.seconds / YKI_MAX(plan->recomputed.whole, 1e-30),
             (double)yki_plan_memory(plan) / 1e6, (double)plan->recomputed.before / 1e6,
             (double)plan->options.most / 1e6);
    return text;
}

/* Measures the limits only if there are times to compare with. A quota may leave no room for that;
 * the table then has no limits. */
static yoke_status
measure_limits(const yki_plan *plan, output *out)
{
    bool timed = false;

    for (size_t i = 0; i < plan->task_count; i++)
        timed |= plan->tasks[i].solver && plan->tasks[i].seconds > 0;
    if (!timed)
        return YOKE_OK;
    YKI_TRY(yki_queue_finish(plan->queue)); /* so that nothing else runs beside the measurement */
    if (yoke_device_measure_peak(yki_queue_device(plan->queue), &out->peak) == YOKE_OK) {
        yki_tell(&out->to, "limits: peak %.1f GFLOP/s, copy %.1f GB/s", out->peak.gflops,
                 out->peak.copy_gbytes);
        return YOKE_OK;
    }
    memset(&out->peak, 0, sizeof out->peak);
    yki_tell(&out->to, "limits: not measured: %s", yoke_last_error());
    return YOKE_OK;
}

yoke_status
yki_plan_print(const yki_plan *plan, void (*line)(void *, const char *), void *user)
{
    output out = {.to = {line, user}};
    char text[256];

    if (!line)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_replica_print_plan: line is NULL");
    YKI_TRY(measure_limits(plan, &out));
    yki_tell(&out.to, "%4s %-8s %-24s %-28s %-8s %-4s %2s %10s %10s %9s %8s %7s %8s", "#",
             "section", "node", "solver", "class", "lay", "n", "MFLOP", "MB", "us", "GFLOP/s",
             "GB/s", "of limit");
    for (size_t i = 0; i < plan->task_count; i++)
        print_task(plan, &out, i);
    print_memory(plan, &out);
    if (plan->options.most)
        yki_tell(&out.to, "recomputed: %s", yki_plan_recomputed_text(plan, text, sizeof text));
    return YOKE_OK;
}
