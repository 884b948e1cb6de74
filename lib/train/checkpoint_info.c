/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint_info.c - what a checkpoint contains, for those who want to look at it.
 *
 * It needs neither the graph nor a device. So it can say whether the file is whole, but not whether
 * a training can go on from it.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "data/json.h"
#include "data/safetensors.h"
#include "train/checkpoint.h"

struct yoke_checkpoint {
    yoke_checkpoint_info info;
    char *path;
    json_t *state; /* owns the texts of `info` */
    yki_safetensors *file;
    const char **names;
    int64_t *shares;
    yoke_checkpoint_tensor *tensors;
};

void
yoke_checkpoint_destroy(yoke_checkpoint *c)
{
    if (!c)
        return;
    yki_free(c->tensors);
    yki_free(c->shares);
    yki_free(c->names);
    yki_safetensors_close(c->file);
    json_decref(c->state);
    yki_free(c->path);
    yki_free(c);
}

const yoke_checkpoint_info *
yoke_checkpoint_get_info(const yoke_checkpoint *c)
{
    return c ? &c->info : NULL;
}

const yoke_checkpoint_tensor *
yoke_checkpoint_get_tensor(const yoke_checkpoint *c, size_t index)
{
    return c && index < c->info.tensors ? &c->tensors[index] : NULL;
}

/* Finds the file: `path` itself, or the newest checkpoint in that folder. */
static yoke_status
find_file(yoke_checkpoint *c, const char *path)
{
    struct stat about;
    int64_t *steps = NULL;
    size_t count = 0;

    if (stat(path, &about) != 0)
        return yki_fail(YOKE_ERROR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(about.st_mode)) {
        c->path = yki_strdup(path, "a path");
        return c->path ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    YKI_TRY(yki_checkpoint_list(path, &steps, &count));
    if (count)
        c->path = yki_checkpoint_path(path, steps[0]);
    c->info.others = count ? count - 1 : 0;
    yki_free(steps);
    if (!count)
        return yki_fail(
            YOKE_ERROR_NOT_FOUND,
            "%s is a folder without a checkpoint; must have a file checkpoint-STEP.safetensors",
            path);
    return c->path ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
}

static int64_t
number(const yoke_checkpoint *c, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(c->state, key));
}

static const char *
text(const yoke_checkpoint *c, const char *key)
{
    const char *value = json_string_value(json_object_get(c->state, key));

    return value ? value : "";
}

static yoke_status
take_devices(yoke_checkpoint *c)
{
    const json_t *names = json_object_get(c->state, "devices");
    const json_t *shares = json_object_get(c->state, "shares");
    size_t count = json_array_size(shares);

    c->names = yki_alloc(count + 1, sizeof *c->names, "names of devices");
    c->shares = yki_alloc(count + 1, sizeof *c->shares, "shares");
    if (!c->names || !c->shares)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t k = 0; k < count; k++) {
        const char *name = json_string_value(json_array_get(names, k));

        c->names[k] = name ? name : "";
        c->shares[k] = (int64_t)json_integer_value(json_array_get(shares, k));
    }
    c->info.devices = count;
    c->info.device_names = c->names;
    c->info.shares = c->shares;
    return YOKE_OK;
}

static yoke_status
take_state(yoke_checkpoint *c)
{
    const char *state = yki_safetensors_text(c->file, YKI_STATE_KEY);

    if (!state)
        return yki_fail(YOKE_ERROR_NOT_FOUND, "%s has weights, but is no checkpoint; must be one",
                        c->path);
    c->state = json_loads(state, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(c->state) || !c->file->has_header_sum)
        return yki_fail(YOKE_ERROR_FORMAT, "%s is damaged: its state cannot be read", c->path);
    c->info.path = c->path;
    c->info.step = number(c, "step");
    c->info.epochs = number(c, "epoch");
    c->info.position = number(c, "position");
    c->info.samples = number(c, "count");
    c->info.batch = number(c, "batch");
    c->info.seed = (uint32_t)number(c, "seed");
    c->info.optimizer = (yoke_optimizer_kind)number(c, "optimizer");
    (void)yki_json_get_float(json_object_get(c->state, "learning_rate"), &c->info.learning_rate);
    c->info.history = json_array_size(json_object_get(c->state, "history"));
    c->info.graph = text(c, "graph");
    c->info.plans = text(c, "plans");
    c->info.granule = number(c, "granule");
    c->info.weights = text(c, "weights");
    return take_devices(c);
}

/* Reads every tensor, which compares its checksum. */
static yoke_status
check_tensors(yoke_checkpoint *c)
{
    c->tensors = yki_alloc(c->file->count + 1, sizeof *c->tensors, "parts of a checkpoint");
    if (!c->tensors)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->file->count; i++) {
        const yki_tensor *tensor = &c->file->tensors[i];
        void *values = yki_alloc((size_t)tensor->size + 1, 1, "a tensor of a checkpoint");
        yoke_status status;

        if (!values)
            return YOKE_ERROR_OUT_OF_MEMORY;
        status = yki_safetensors_read(c->file, tensor, values);
        yki_free(values);
        if (status != YOKE_OK && status != YOKE_ERROR_FORMAT && status != YOKE_ERROR_IO)
            return status;
        c->tensors[i] = (yoke_checkpoint_tensor){tensor->name, tensor->size,
                                                 status == YOKE_OK && tensor->has_sum};
        c->info.damaged += !c->tensors[i].good;
    }
    c->info.tensors = c->file->count;
    return YOKE_OK;
}

yoke_status
yoke_checkpoint_open(const char *path, yoke_checkpoint **out)
{
    yoke_checkpoint *c;
    yoke_status status;

    YKI_GIVEN("yoke_checkpoint_open", {"path", path}, {"checkpoint", out});
    c = yki_alloc(1, sizeof *c, "a checkpoint");
    if (!c)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = find_file(c, path);
    if (status == YOKE_OK)
        status = yki_safetensors_open(c->path, &c->file);
    if (status == YOKE_OK)
        status = take_state(c);
    if (status == YOKE_OK)
        status = check_tensors(c);
    if (status != YOKE_OK) {
        yoke_checkpoint_destroy(c);
        return status;
    }
    *out = c;
    return YOKE_OK;
}
