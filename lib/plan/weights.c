/* SPDX-License-Identifier: Apache-2.0
 *
 * weights.c - parameters, gradients and states of a graph on one device.
 *
 * Order and offsets follow from the graph alone, so gradients of any two devices can be added
 * word by word. Buckets are filled from the last parameter to the first, because backward makes
 * gradients in that order. So the first bucket is complete early and can be reduced while
 * backward computes the rest. Parameters that are frozen for good have buckets and pools of their
 * own behind the others, with values alone: nothing sums, sends or updates them.
 */
#include <string.h>

#include "plan/plan.h"

static const uint64_t BUCKET_SIZE = 4u << 20;
/* Bytes of a pool with several buckets: kernels count its floats with ints. */
static const uint64_t POOL_SIZE = (uint64_t)INT32_MAX / YKI_WEIGHT_ALIGN * YKI_WEIGHT_ALIGN * 4;

static uint64_t
aligned(uint64_t size)
{
    return (size + YKI_WEIGHT_ALIGN - 1) / YKI_WEIGHT_ALIGN * YKI_WEIGHT_ALIGN;
}

static bool
is_elsewhere(const yki_weights *w, const yoke_node *node)
{
    return w->placed && yki_home_of(w->placed, node) != w->home;
}

bool
yki_weights_has(const yki_weights *w, size_t bucket)
{
    return w->buckets[bucket].home == w->home;
}

bool
yki_weights_trains(const yki_weights *w, const yki_weight *weight)
{
    return w->training && weight->bucket < w->bucket_count && yki_weights_has(w, weight->bucket);
}

/* Whether a parameter has a bucket with gradients: it is not frozen, or backward computes its
 * gradient because it was frozen later. A borrower's memory is the lender's, whose graph may not be
 * differentiated, or is another copy of the graph. */
static bool
is_trained(const yki_weights *w, size_t index)
{
    const yoke_node *node = w->weights[index].node;

    if (w->lender)
        return w->lender->weights[index].bucket < w->lender->bucket_count;
    return !node->frozen || node->gradient;
}

/* Puts the parameters that are trained, or those that are not, into buckets of their own. */
static yoke_status
fill_buckets(yki_weights *w, uint64_t bucket_size, bool trained, size_t *capacity, size_t *count)
{
    const size_t first = *count;

    for (size_t i = w->weight_count; i-- > 0;) {
        yki_weight *weight = &w->weights[i];
        uint32_t home = w->placed ? yki_home_of(w->placed, weight->node) : w->home;

        if (is_trained(w, i) != trained)
            continue;
        if (*count == first || w->buckets[*count - 1].home != home ||
            w->buckets[*count - 1].size + weight->size > bucket_size) {
            YKI_TRY(yki_grow((void **)&w->buckets, capacity, *count + 1, sizeof *w->buckets,
                             "buckets"));
            w->buckets[(*count)++] = (yki_bucket){.home = home};
        }
        weight->bucket = (uint32_t)*count - 1;
        weight->offset = w->buckets[weight->bucket].size;
        w->buckets[weight->bucket].size += aligned(weight->size);
    }
    return YOKE_OK;
}

/* Decides offsets and buckets; makes no memory. */
static yoke_status
lay_out(yki_weights *w, uint64_t bucket_size)
{
    size_t capacity = 0, count = 0, parameters = 0, states = 0;

    for (size_t i = 0; i < w->graph->node_count; i++) {
        parameters += w->graph->nodes[i]->role == YKI_ROLE_PARAMETER;
        states += w->graph->nodes[i]->role == YKI_ROLE_STATE;
    }
    w->weights = yki_alloc(parameters, sizeof *w->weights, "weights");
    w->states = yki_alloc(states, sizeof *w->states, "states");
    if (!w->weights || !w->states)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < w->graph->node_count; i++) {
        yoke_node *node = w->graph->nodes[i];
        uint64_t size = (uint64_t)yki_shape_count(node->shape) * 4;

        if (node->role == YKI_ROLE_PARAMETER)
            w->weights[w->weight_count++] = (yki_weight){.node = node, .size = size};
        if (node->role == YKI_ROLE_STATE && is_elsewhere(w, node))
            w->states[w->state_count++] = (yki_weight){.node = node, .size = size};
        else if (node->role == YKI_ROLE_STATE) {
            w->states[w->state_count++] =
                (yki_weight){.node = node, .size = size, .offset = w->state_bucket.size};
            w->state_bucket.size += aligned(size);
        }
    }
    YKI_TRY(fill_buckets(w, bucket_size, true, &capacity, &count));
    w->bucket_count = count;
    YKI_TRY(fill_buckets(w, bucket_size, false, &capacity, &count));
    w->frozen_buckets = count - w->bucket_count;
    return YOKE_OK;
}

/* Gives the buckets that are here their places in pools: those of the lender, if there is one. */
static yoke_status
lay_out_pools(yki_weights *w)
{
    const yoke_device *device = w->lender ? w->lender->device : w->device;
    uint64_t most = YKI_MIN(yki_device_get_traits(device)->max_allocation, POOL_SIZE);
    size_t capacity = 0, count = 0, first = 0;

    for (size_t b = 0; b < w->bucket_count + w->frozen_buckets; b++) {
        yki_bucket *bucket = &w->buckets[b];

        if (b == w->bucket_count)
            first = w->pool_count = count;
        if (!yki_weights_has(w, b))
            continue;
        if (count == first || w->pools[count - 1].size + bucket->size > most) {
            YKI_TRY(yki_grow((void **)&w->pools, &capacity, count + 1, sizeof *w->pools,
                             "pools of weights"));
            w->pools[count++] = (yki_pool){0};
        }
        bucket->pool = (uint32_t)count - 1;
        bucket->start = w->pools[bucket->pool].size;
        w->pools[bucket->pool].size += bucket->size;
    }
    if (!w->frozen_buckets)
        w->pool_count = count;
    w->frozen_pools = count - w->pool_count;
    return YOKE_OK;
}

static yoke_status
zeroed(yki_weights *w, yki_queue *queue, uint64_t size, const char *what, yki_buffer **buffer)
{
    YKI_TRY(yki_buffer_create(w->device, size, 0, what, buffer));
    return yki_buffer_touch(queue, *buffer);
}

static yoke_status
allocate_pools(yki_weights *w, yki_queue *queue)
{
    for (size_t i = 0; i < w->pool_count + w->frozen_pools; i++) {
        yki_pool *pool = &w->pools[i];

        if (w->lender)
            pool->values = w->lender->pools[i].values;
        else if (!w->divided || i >= w->pool_count)
            YKI_TRY(zeroed(w, queue, pool->size, "parameters", &pool->values));
        if (w->training && !w->transient && i < w->pool_count)
            YKI_TRY(zeroed(w, queue, pool->size, "gradients", &pool->gradients));
    }
    for (size_t b = 0; b < w->bucket_count + w->frozen_buckets; b++) {
        yki_bucket *bucket = &w->buckets[b];
        const yki_pool *pool;

        if (!yki_weights_has(w, b))
            continue;
        pool = &w->pools[bucket->pool];
        if (pool->values)
            YKI_TRY(yki_buffer_view(pool->values, bucket->start, bucket->size, &bucket->values));
        if (pool->gradients)
            YKI_TRY(
                yki_buffer_view(pool->gradients, bucket->start, bucket->size, &bucket->gradients));
    }
    return YOKE_OK;
}

static bool
lends_states(const yki_weights *w)
{
    return w->lender && w->lender->state_count > 0;
}

static yoke_status
allocate(yki_weights *w, yki_queue *queue)
{
    if (w->bare)
        return YOKE_OK;
    YKI_TRY(allocate_pools(w, queue));
    if (lends_states(w))
        w->state_bucket.values = w->lender->state_bucket.values;
    else if (w->state_bucket.size)
        YKI_TRY(zeroed(w, queue, w->state_bucket.size, "states", &w->state_bucket.values));
    for (size_t i = 0; i < w->weight_count; i++) {
        yki_weight *weight = &w->weights[i];
        const yki_bucket *bucket = &w->buckets[weight->bucket];
        uint64_t start = bucket->start + weight->offset;
        const yki_pool *pool;

        if (!bucket->values)
            continue;
        pool = &w->pools[bucket->pool];
        YKI_TRY(yki_buffer_view(pool->values, start, weight->size, &weight->value));
        if (pool->gradients)
            YKI_TRY(yki_buffer_view(pool->gradients, start, weight->size, &weight->gradient));
    }
    for (size_t i = 0; i < w->state_count; i++)
        if (!is_elsewhere(w, w->states[i].node))
            YKI_TRY(yki_buffer_view(w->state_bucket.values, w->states[i].offset, w->states[i].size,
                                    &w->states[i].value));
    return yki_queue_finish(queue);
}

/* What of the weights has no memory of its own. */
typedef struct kind {
    bool transient, divided, bare;
} kind;

static yoke_status
create(yoke_device *device, yoke_graph *graph, bool training, const kind *without,
       uint64_t bucket_size, yki_weights *lender, const yki_placed *placed, uint32_t home,
       yki_weights **out)
{
    yki_weights *w = NULL;
    yki_queue *queue = NULL;
    yoke_status status;

    YKI_TRY(yki_graph_complete(graph, training));
    w = yki_alloc(1, sizeof *w, "weights");
    if (!w)
        return YOKE_ERROR_OUT_OF_MEMORY;
    atomic_store(&w->references, 1);
    w->device = yki_device_retain(device);
    w->graph = yki_graph_retain(graph);
    w->training = training;
    w->transient = without->transient || (lender && lender->transient);
    w->divided = without->divided || (lender && lender->divided);
    w->bare = without->bare;
    w->version = 1;
    w->lender = lender ? yki_weights_retain(lender) : NULL;
    w->placed = placed;
    w->home = home;
    status = lay_out(w, bucket_size ? bucket_size : BUCKET_SIZE);
    if (status == YOKE_OK)
        status = lay_out_pools(w);
    if (w->lender)
        w->gather_order = w->lender->gather_order;
    else if (status == YOKE_OK && w->divided)
        status = yki_weights_order_gathers(w);
    if (status == YOKE_OK)
        status = yki_queue_create(device, false, &queue);
    if (status == YOKE_OK)
        status = allocate(w, queue);
    yki_queue_destroy(queue);
    if (status != YOKE_OK) {
        yki_weights_release(w);
        return status;
    }
    *out = w;
    return YOKE_OK;
}

yoke_status
yki_weights_create(yoke_device *device, yoke_graph *graph, bool training, uint64_t bucket_size,
                   yki_weights *lender, yki_weights **out)
{
    return create(device, graph, training, &(kind){0}, bucket_size, lender, NULL, 0, out);
}

yoke_status
yki_weights_create_transient(yoke_device *device, yoke_graph *graph, uint64_t bucket_size,
                             yki_weights *lender, bool divided, yki_weights **out)
{
    return create(device, graph, true, &(kind){.transient = true, .divided = divided}, bucket_size,
                  lender, NULL, 0, out);
}

yoke_status
yki_weights_create_placed(yoke_device *device, yoke_graph *graph, bool training,
                          uint64_t bucket_size, const yki_placed *placed, uint32_t home,
                          yki_weights **out)
{
    return create(device, graph, training, &(kind){0}, bucket_size, NULL, placed, home, out);
}

yoke_status
yki_weights_create_bare(yoke_device *device, yoke_graph *graph, yki_weights **out)
{
    return create(device, graph, true, &(kind){.bare = true}, 0, NULL, NULL, 0, out);
}

yki_weights *
yki_weights_retain(yki_weights *weights)
{
    atomic_fetch_add(&weights->references, 1);
    return weights;
}

void
yki_weights_release(yki_weights *w)
{
    if (!w || atomic_fetch_sub(&w->references, 1) != 1)
        return;
    for (size_t i = 0; i < w->weight_count; i++) {
        yki_buffer_destroy(w->weights[i].value);
        yki_buffer_destroy(w->weights[i].gradient);
    }
    for (size_t i = 0; i < w->state_count; i++)
        yki_buffer_destroy(w->states[i].value);
    for (size_t b = 0; b < w->bucket_count + w->frozen_buckets; b++) {
        yki_buffer_destroy(w->buckets[b].values);
        yki_buffer_destroy(w->buckets[b].gradients);
    }
    for (size_t i = 0; i < w->pool_count + w->frozen_pools; i++) {
        if (!w->lender)
            yki_buffer_destroy(w->pools[i].values);
        yki_buffer_destroy(w->pools[i].gradients);
    }
    yki_free(w->pools);
    if (!lends_states(w))
        yki_buffer_destroy(w->state_bucket.values);
    if (!w->lender)
        yki_free(w->gather_order);
    yki_weights_release(w->lender);
    yki_free(w->weights);
    yki_free(w->states);
    yki_free(w->buckets);
    yoke_graph_destroy(w->graph);
    yki_device_release(w->device);
    yki_free(w);
}

yki_weight *
yki_weights_find(yki_weights *w, const char *name)
{
    for (size_t i = 0; i < w->weight_count; i++)
        if (strcmp(w->weights[i].node->name, name) == 0)
            return &w->weights[i];
    for (size_t i = 0; i < w->state_count; i++)
        if (strcmp(w->states[i].node->name, name) == 0)
            return &w->states[i];
    yki_graph_no_weight(w->graph, name);
    return NULL;
}

static yoke_status
initialize_one(const yki_weight *weight, uint32_t seed, uint32_t index)
{
    float *values;
    yoke_status status;

    if (!weight->value)
        return YOKE_OK;
    values = yki_alloc(weight->size, 1, "initial values");
    if (!values)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_initialize(weight->node, seed, index, values);
    status = yki_buffer_put(weight->value, 0, weight->size, values);
    yki_free(values);
    return status;
}

yoke_status
yki_weights_initialize(yki_weights *w, uint32_t seed)
{
    for (size_t i = 0; i < w->weight_count; i++)
        YKI_TRY(initialize_one(&w->weights[i], seed, (uint32_t)i));
    for (size_t i = 0; i < w->state_count; i++)
        YKI_TRY(initialize_one(&w->states[i], seed, (uint32_t)(w->weight_count + i)));
    w->version++;
    return YOKE_OK;
}
