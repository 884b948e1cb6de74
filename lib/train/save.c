/* SPDX-License-Identifier: Apache-2.0
 *
 * save.c - weights of replicas and trainers: to files and from files.
 */
#include <string.h>

#include "data/adapter_file.h"
#include "data/weights_file.h"
#include "replica/model.h"
#include "team/sharding.h"
#include "team/stages.h"
#include "train/save.h"

/* ---- one device ---- */

/* Reads a node's values from a device and waits for them. `user` is the yki_weights of that device.
 */
static yoke_status
get_from_device(void *user, const yoke_node *node, float *values)
{
    yki_weight *weight = yki_weights_find(user, node->name);

    return weight ? yki_buffer_get(weight->value, 0, weight->size, values) : YOKE_ERROR_NOT_FOUND;
}

static yoke_status
put_to_replica(void *user, const yoke_node *node, const float *values)
{
    return yoke_replica_write(user, node->name, values, (size_t)yki_shape_count(node->shape));
}

yoke_status
yoke_replica_save(yoke_replica *r, const char *path)
{
    yki_model_info info = {0};
    yoke_status status;

    YKI_GIVEN("yoke_replica_save", {"replica", r}, {"path", path});
    YKI_TRY(yki_queue_finish(r->queue));
    YKI_TRY(yki_model_default_info(r->weights->graph, &info));
    status = yki_weights_file_save(path, r->weights->graph, &info, get_from_device, r->weights);
    yki_model_info_clear(&info);
    return status;
}

/* Opens the file and passes its values to `put`. */
static yoke_status
load(const char *path, const yoke_graph *graph, const yoke_load_options *options, size_t size,
     yoke_status (*put)(void *, const yoke_node *, const float *), void *user)
{
    yoke_load_options o = {0};
    yki_shards shards;
    yoke_status status;

    if (options)
        memcpy(&o, options, YKI_MIN(size, sizeof o));
    YKI_TRY(yki_shards_open(path, &shards));
    status = yki_weights_file_load(&shards, graph, &o, put, user);
    yki_shards_close(&shards);
    return status;
}

yoke_status
yoke_replica_load_weights_sized(yoke_replica *r, const char *path, const yoke_load_options *options,
                                size_t size)
{
    YKI_GIVEN("yoke_replica_load_weights", {"replica", r}, {"path", path});
    return load(path, r->weights->graph, options, size, put_to_replica, r);
}

/* ---- a team ---- */

/* Where a trainer's weights are read from. */
typedef struct from_crew {
    yoke_trainer *trainer;
    float *gathered;  /* of all processes, bucket after bucket; NULL: they are in this process */
    uint64_t *starts; /* by bucket; with stages by node */
} from_crew;

/* Takes what the data of input `i` are like. The graph's first input comes first. */
static yoke_status
take_field(const yoke_graph *graph, size_t i, const yoke_dataset *data, size_t f,
           yki_model_info *info)
{
    const struct yki_scaling *scaling = &data->scaling[f];
    yoke_field field = data->fields[f];

    field.name = yki_loader_get_input(graph, i)->name;
    if (strcmp(field.name, info->field.name) == 0)
        return yki_model_info_set(info, &field, scaling->mean, scaling->scale, scaling->count,
                                  (const char *const *)data->class_names, data->class_count);
    return yki_model_info_add(info, &field, scaling->mean, scaling->scale, scaling->count);
}

yoke_status
yki_trainer_info(const yoke_trainer *t, yki_model_info *info)
{
    const yoke_dataset *data = t->train_loaders.dataset;
    size_t count = yki_loader_input_count(t->graph);
    int *fields;
    yoke_status status;

    YKI_TRY(yki_model_default_info(t->graph, info));
    if (!data)
        return YOKE_OK;
    fields = yki_alloc(count, sizeof *fields, "fields of a dataset");
    if (!fields)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_fields_match(data, t->graph, NULL, fields, count);
    for (size_t i = 0; i < count && status == YOKE_OK; i++)
        if (fields[i] >= 0 && !yki_loader_get_input(t->graph, i)->target)
            status = take_field(t->graph, i, data, (size_t)fields[i], info);
    if (status == YOKE_OK && data->tokenizer) {
        yoke_tokenizer_destroy(info->tokenizer);
        info->tokenizer = yki_tokenizer_retain(data->tokenizer);
    }
    if (status == YOKE_OK && data->encoding) {
        yki_free(info->encoding);
        info->encoding = yki_strdup(data->encoding, "an encoding");
        status = info->encoding ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    yki_free(fields);
    return status;
}

yoke_status
yki_trainer_agree(yoke_trainer *t, yoke_status status)
{
    yoke_comm *comm = t->crew.comm;
    struct told {
        int32_t status;
        char detail[1000];
    } told = {.status = (int32_t)status};

    if (!comm || (status != YOKE_OK && t->failure.status != YOKE_OK))
        return status;
    if (status != YOKE_OK && comm->rank != 0)
        return yki_trainer_failed(t, status);
    if (status != YOKE_OK)
        strncpy(told.detail, yoke_last_error(), sizeof told.detail - 1);
    YKI_TRY(comm->broadcast(comm, &told, sizeof told, 0));
    if (told.status != YOKE_OK && comm->rank != 0)
        yki_set_detail(told.detail);
    return (yoke_status)told.status;
}

/* Reads from the first device that has the node. Works after a failure too. What is divided over
 * processes was gathered before. */
static yoke_status
get_from_crew(void *user, const yoke_node *node, float *values)
{
    const from_crew *from = user;
    yki_weight *weight;
    size_t member;

    YKI_TRY(yki_crew_find(&from->trainer->crew, node->name, &member, &weight));
    if (from->gathered && from->trainer->crew.stages) {
        memcpy(values, from->gathered + from->starts[node->id], weight->size);
        return YOKE_OK;
    }
    if (from->gathered && !weight->value) {
        memcpy(values, from->gathered + from->starts[weight->bucket] + weight->offset / 4,
               weight->size);
        return YOKE_OK;
    }
    return yki_trainer_read_weight(from->trainer, weight, values);
}

static bool
is_weight(const yoke_node *node)
{
    return node->role == YKI_ROLE_PARAMETER || node->role == YKI_ROLE_STATE;
}

/* The same for weights that are in stages of several processes. */
static yoke_status
gather_stages(from_crew *from)
{
    yki_crew *crew = &from->trainer->crew;
    const yoke_graph *graph = crew->graph;
    const bool writes = crew->comm->rank == 0;
    uint64_t floats = 0, largest = 0;
    yoke_status status = YOKE_OK;
    float *one;

    from->starts = yki_alloc(graph->node_count, sizeof *from->starts, "weights to be saved");
    for (size_t i = 0; from->starts && i < graph->node_count; i++) {
        const uint64_t count =
            is_weight(graph->nodes[i]) ? (uint64_t)yki_shape_count(graph->nodes[i]->shape) : 0;

        from->starts[i] = floats;
        floats += count;
        largest = YKI_MAX(largest, count);
    }
    if (writes)
        from->gathered = yki_alloc((size_t)floats, sizeof *from->gathered, "weights to be saved");
    one = yki_alloc((size_t)largest, sizeof *one, "weights to be saved");
    if (!from->starts || !one || (writes && !from->gathered))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    status = yki_trainer_agree(from->trainer, status);
    for (size_t i = 0; i < graph->node_count && status == YOKE_OK; i++) {
        yki_weight *weight;
        size_t member;

        if (!is_weight(graph->nodes[i]) ||
            yki_crew_find(crew, graph->nodes[i]->name, &member, &weight) != YOKE_OK)
            continue;
        status = yki_stages_read(crew, weight, writes ? from->gathered + from->starts[i] : one);
    }
    yki_free(one);
    return status;
}

/* Gathers all weights that are divided over processes, in the first process, which writes. All
 * processes call it. */
static yoke_status
gather_weights(from_crew *from)
{
    yki_crew *crew = &from->trainer->crew;
    const yki_weights *w = crew->members[0].replica->weights;
    const bool writes = crew->comm && crew->comm->rank == 0;
    yoke_status status = YOKE_OK;
    uint64_t floats = 0;

    if (crew->comm && crew->stages)
        return gather_stages(from);
    if (!crew->comm || !crew->sharding.weights)
        return YOKE_OK;
    from->starts = yki_alloc(w->bucket_count, sizeof *from->starts, "weights to be saved");
    for (size_t b = 0; from->starts && b < w->bucket_count; b++) {
        from->starts[b] = floats;
        floats += w->buckets[b].size / 4;
    }
    if (writes)
        from->gathered = yki_alloc((size_t)floats, sizeof *from->gathered, "weights to be saved");
    if (!from->starts || (writes && !from->gathered))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    YKI_TRY(yki_trainer_agree(from->trainer, status));
    for (size_t b = 0; b < w->bucket_count; b++) {
        const float *bucket;

        YKI_TRY(yki_sharding_gather(crew, b, YKI_SHARDED_VALUES, &bucket));
        if (writes)
            memcpy(from->gathered + from->starts[b], bucket, w->buckets[b].size);
    }
    return YOKE_OK;
}

/* Writes the model, or its adapters alone. */
typedef yoke_status write_part(from_crew *from, const char *path);

static yoke_status
write_model(from_crew *from, const char *path)
{
    yki_model_info info = {0};
    yoke_status status = yki_trainer_info(from->trainer, &info);

    if (status == YOKE_OK)
        status = yki_weights_file_save(path, from->trainer->graph, &info, get_from_crew, from);
    yki_model_info_clear(&info);
    return status;
}

static yoke_status
write_adapters(from_crew *from, const char *folder)
{
    return yki_adapters_save(folder, from->trainer->graph, get_from_crew, from);
}

/* As in an evaluation: a trainer that fails here takes no more steps. */
static yoke_status
exchange_average(yoke_trainer *t)
{
    yoke_status status = yki_trainer_exchange_average(t);

    return status == YOKE_OK ? YOKE_OK : yki_trainer_failed(t, status);
}

static yoke_status
save(yoke_trainer *t, const char *path, write_part *write)
{
    from_crew from = {.trainer = t};
    yoke_status status = YOKE_OK;

    /* Works after a failure too: the weights are those of one completed step. */
    YKI_TRY(yki_trainer_is_whole(t, "yoke_trainer_save"));
    if (t->failure.status != YOKE_OK)
        return write(&from, path);
    YKI_TRY(yoke_trainer_wait(t));
    YKI_TRY(exchange_average(t));
    status = gather_weights(&from);
    if (status == YOKE_OK) {
        if (!t->crew.comm || t->crew.comm->rank == 0)
            status = write(&from, path);
        status = yki_trainer_agree(t, status);
    } else if (t->failure.status == YOKE_OK) {
        status = yki_trainer_failed(t, status);
    }
    yki_free(from.gathered);
    yki_free(from.starts);
    YKI_TRY(t->failure.status);
    YKI_TRY(exchange_average(t));
    return status;
}

yoke_status
yoke_trainer_save(yoke_trainer *t, const char *path)
{
    YKI_GIVEN("yoke_trainer_save", {"trainer", t}, {"path", path});
    return save(t, path, write_model);
}

yoke_status
yoke_trainer_save_adapters(yoke_trainer *t, const char *folder)
{
    YKI_GIVEN("yoke_trainer_save_adapters", {"trainer", t}, {"folder", folder});
    return save(t, folder, write_adapters);
}

static yoke_status
put_to_trainer(void *user, const yoke_node *node, const float *values)
{
    return yoke_trainer_write(user, node->name, values, (size_t)yki_shape_count(node->shape));
}

yoke_status
yoke_trainer_load_weights_sized(yoke_trainer *t, const char *path, const yoke_load_options *options,
                                size_t size)
{
    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_load_weights"));
    if (!path)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_load_weights: path is NULL");
    return load(path, t->graph, options, size, put_to_trainer, t);
}

yoke_status
yoke_trainer_load_adapters(yoke_trainer *t, const char *folder)
{
    yki_adapter_file *file = NULL;
    yoke_status status;

    YKI_TRY(yki_trainer_ready(t, "yoke_trainer_load_adapters"));
    if (!folder)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_trainer_load_adapters: folder is NULL");
    YKI_TRY(yki_adapters_open(folder, &file));
    status = yki_adapters_load(file, t->graph, put_to_trainer, t);
    yki_adapters_close(file);
    return status;
}
