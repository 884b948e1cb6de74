/* SPDX-License-Identifier: Apache-2.0
 *
 * checkpoint.c - saves everything that training needs to go on, and goes on from it.
 *
 * A checkpoint is a file of weights (data/weights_file.c) and can be used as one. Beside each
 * parameter it has the optimizer's state ("NAME#m", "NAME#v"). A text "yoke.state" has the rest:
 * step, epoch, position, seed, shares, and which plans computed. Any number of devices and
 * processes can go on from it; shares and losses by device are taken only where they fit.
 *
 * The first process reads and writes; it sends what it reads to all others. Everything is read, and
 * all checksums compared, before anything changes.
 *
 * Random numbers are counter-based: they need no state but seed, step and epoch.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/graph_json.h"
#include "train/checkpoint.h"
#include "train/history.h"
#include "train/save.h"
#include "train/saved_tensors.h"

enum { VERSION = 1, KEEP = 3, DEVICE_NAME = 256 };

/* Beside the shares, the bits of results depend on these. */
typedef struct identity {
    char plans[33];
    json_t *devices;  /* their names */
    char weights[33]; /* with granules: a hash of them, for those who look at the file */
} identity;

/* The state of a checkpoint, on its way to all processes. */
typedef struct found {
    uint64_t length; /* of the state with its final 0; 0: no checkpoint */
    char *state;
} found;

/* ---- what there is ---- */

static bool
is_first(const yoke_trainer *t)
{
    return !t->crew.comm || t->crew.comm->rank == 0;
}

/* A hash of the solvers that compute, over all processes. Every process must call it. */
static yoke_status
plan_identity(yoke_trainer *t, char hex[33])
{
    yoke_comm *comm = t->crew.comm;
    yoke_status status = YOKE_OK;
    yki_hash hash;
    char *all;

    yki_hash_start(&hash);
    for (size_t k = 0; k < t->crew.count; k++) {
        const yki_plan *plan = t->crew.members[k].replica->training;

        for (size_t i = 0; i < plan->task_count; i++) {
            uint32_t tuning = plan->tasks[i].tuning;

            yki_hash_string(&hash, plan->tasks[i].solver ? plan->tasks[i].solver->name : "");
            yki_hash_add(&hash, &tuning, sizeof tuning);
        }
    }
    yki_hash_hex(&hash, hex);
    if (!comm)
        return YOKE_OK;
    all = yki_alloc((size_t)comm->ranks, 33, "what plans are");
    if (!all)
        return YOKE_ERROR_OUT_OF_MEMORY;
    status = comm->allgather(comm, hex, 33, all);
    if (status == YOKE_OK) {
        yki_hash_start(&hash);
        yki_hash_add(&hash, all, 33 * (size_t)comm->ranks);
        yki_hash_hex(&hash, hex);
    }
    yki_free(all);
    return status;
}

/* Names of the devices that compute: "cpu:0 (name, driver)" for each of the whole team. */
static yoke_status
device_names(const yoke_trainer *t, json_t **out)
{
    const yoke_team *team = t->team;
    char *rows = yki_alloc(team->total, DEVICE_NAME, "names of devices");
    yoke_device_info info;
    yoke_status status = rows ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t k = 0; k < team->count && status == YOKE_OK; k++) {
        status = yoke_device_get_info(yoke_team_get_device((yoke_team *)team, k), &info);
        if (status == YOKE_OK)
            snprintf(rows + (team->first + k) * DEVICE_NAME, DEVICE_NAME, "%s (%.80s, %.80s)",
                     info.id, info.name, info.driver);
    }
    if (status == YOKE_OK)
        status = yki_team_share_rows(team, NULL, DEVICE_NAME, rows);
    *out = status == YOKE_OK ? json_array() : NULL;
    for (size_t k = 0; k < team->total && status == YOKE_OK; k++)
        json_array_append_new(*out, json_string(rows + k * DEVICE_NAME));
    yki_free(rows);
    return status;
}

static void
graph_identity(const yoke_trainer *t, char hex[33])
{
    yki_hash hash;

    yki_graph_hash(t->graph, &hash);
    yki_hash_hex(&hash, hex);
}

/* Every process calls it. The caller calls identity_clear, also after a failure. */
static yoke_status
identify(yoke_trainer *t, identity *own)
{
    memset(own, 0, sizeof *own);
    YKI_TRY(plan_identity(t, own->plans));
    return device_names(t, &own->devices);
}

static void
identity_clear(identity *own)
{
    json_decref(own->devices);
    own->devices = NULL;
}

/* ---- the text ---- */

static json_t *
lists_json(const yoke_trainer *t, const yki_progress *progress)
{
    json_t *shares = json_array();

    yki_shares_divide(t->shares, t->options.batch, t->counts);
    for (size_t k = 0; k < t->team->total; k++)
        json_array_append_new(shares, json_integer(t->counts[k]));
    return json_pack("{s:o, s:o, s:o, s:o, s:o}", "sums",
                     yki_history_numbers(progress->sums, 2 * t->crew.pairs), "device_sums",
                     yki_history_numbers(progress->device_sums, 2 * t->team->total), "seconds",
                     yki_history_numbers(&progress->seconds, 1), "shares", shares, "history",
                     yki_history_json(t));
}

/* What granules add to a state: the units of gradients follow from the exponents. */
static void
add_granules(const yoke_trainer *t, const identity *own, json_t *state)
{
    const yki_exact *e = &t->crew.exact;
    json_t *exponents;

    if (!t->options.granule)
        return;
    exponents = json_array();
    for (size_t i = 0; i < e->weights; i++)
        json_array_append_new(exponents, json_integer(e->exponents[i]));
    json_object_set_new(state, "granule", json_integer(t->options.granule));
    json_object_set_new(state, "wire", json_integer(t->options.wire));
    json_object_set_new(state, "exponents", exponents);
    json_object_set_new(state, "weights", json_string(own->weights));
}

/* A training in float32 has no scale, but keeps the number of the optimizer's steps, too. */
static void
add_loss_scale(const yoke_trainer *t, json_t *state)
{
    const yki_loss_scale *s = &t->loss_scale;
    json_t *kept;

    if (!s->scales && s->skipped == 0)
        return;
    kept = json_pack("{s:I}", "skipped", (json_int_t)s->skipped);
    if (s->scales) {
        json_object_set_new(kept, "scale", yki_json_float(s->scale));
        json_object_set_new(kept, "good", json_integer(s->good));
    }
    json_object_set_new(state, "loss_scale", kept);
}

static json_t *
schedule_json(const yoke_schedule *s)
{
    return json_pack("{s:i, s:o, s:o, s:o, s:I, s:I, s:I}", "kind", (int)s->kind, "factor",
                     yki_json_float(s->factor), "initial", yki_json_float(s->initial),
                     "final_factor", yki_json_float(s->final_factor), "warmup",
                     (json_int_t)s->warmup, "period", (json_int_t)s->period, "steps",
                     (json_int_t)s->steps);
}

static yoke_status
state_text(const yoke_trainer *t, const yki_progress *progress, const identity *own, char **out)
{
    char graph[33];
    json_t *json, *lists = lists_json(t, progress);
    yki_json_text text = {0};

    graph_identity(t, graph);
    json =
        json_pack("{s:i, s:s, s:s, s:O, s:I, s:I, s:I, s:I, s:b, s:I, s:I, s:I, s:i, s:o, s:o}",
                  "version", VERSION, "graph", graph, "plans", own->plans, "devices", own->devices,
                  "step", (json_int_t)t->step, "epoch", (json_int_t)t->epoch, "position",
                  (json_int_t)progress->position, "count", (json_int_t)progress->count,
                  "sequential", (int)progress->sequential, "samples", (json_int_t)progress->samples,
                  "seed", (json_int_t)t->options.seed, "batch", (json_int_t)t->options.batch,
                  "optimizer", (int)t->options.optimizer.kind, "learning_rate",
                  yki_json_float(t->options.optimizer.learning_rate), "schedule",
                  t->has_schedule ? schedule_json(&t->schedule) : json_null());
    if (json && lists)
        json_object_update(json, lists);
    else
        text.failed = true;
    json_decref(lists);
    if (!text.failed) {
        json_object_set_new(json, "accumulate", json_integer(t->options.accumulate));
        add_granules(t, own, json);
        add_loss_scale(t, json);
    }
    yki_json_add_value(&text, json, JSON_COMPACT);
    return yki_json_take(&text, out);
}

/* ---- saving ---- */

/* Of floats that are bfloat16. */
static void
upper_halves(const float *values, uint64_t count, uint16_t *out)
{
    for (uint64_t i = 0; i < count; i++) {
        uint32_t bits;

        memcpy(&bits, &values[i], sizeof bits);
        out[i] = (uint16_t)(bits >> 16);
    }
}

/* As the file has it: what is kept as bfloat16 is written so. */
static yoke_status
read_part(void *user, size_t index, void *out)
{
    const yki_saved_tensors *all = user;
    const yki_saved_tensor *p = &all->list[index];
    yki_range part;
    yki_state_place place = {0};

    if (yki_saved_tensor_is_sharded(all->trainer, p)) {
        if (p->small)
            upper_halves(all->gathered + p->start, p->count, out);
        else
            memcpy(out, all->gathered + p->start, p->count * 4);
        return YOKE_OK;
    }
    for (size_t g = 0; g < all->trainer->crew.group_count && !place.buffer; g++)
        place = yki_saved_tensor_find(all->trainer, g, p, &part);
    if (!place.buffer)
        return yki_fail_bug("no device has \"%s\", which a checkpoint needs", p->name);
    return yki_buffer_get(place.buffer, place.start, yki_state_size(place, p->count * 4), out);
}

static yoke_status
write_parts(yki_saved_tensors *all, const char *path, const yki_text *texts, size_t text_count)
{
    yki_tensor_source *sources = yki_alloc(all->count, sizeof *sources, "a checkpoint");
    yoke_status status;

    if (!sources)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < all->count; i++)
        sources[i] = (yki_tensor_source){
            all->list[i].name, all->list[i].small ? YKI_DTYPE_BF16 : YKI_DTYPE_F32,
            (uint32_t)all->list[i].node->shape.rank, all->list[i].node->shape.dim};
    status = yki_safetensors_write(path, texts, text_count, sources, all->count, read_part, all);
    yki_free(sources);
    return status;
}

static yoke_status
save_parts(yoke_trainer *t, yki_saved_tensors *all, const yki_progress *progress,
           const identity *own, const char *path)
{
    yki_text texts[3 + YKI_MODEL_TEXTS] = {{(char *)"format", (char *)"pt"},
                                           {(char *)YKI_GRAPH_KEY, NULL},
                                           {(char *)YKI_STATE_KEY, NULL}};
    yki_model_info info = {0};
    size_t infos = 0;
    yoke_status status = yoke_graph_to_json(t->graph, &texts[1].value);

    if (status == YOKE_OK)
        status = state_text(t, progress, own, &texts[2].value);
    if (status == YOKE_OK)
        status = yki_trainer_info(t, &info);
    if (status == YOKE_OK)
        status = yki_model_info_write(&info, texts + 3, &infos);
    if (status == YOKE_OK)
        status = write_parts(all, path, texts, 3 + infos);
    for (size_t i = 1; i < 3 + infos; i++)
        yki_free(texts[i].value);
    yki_model_info_clear(&info);
    return status;
}

yoke_status
yki_checkpoint_begin(yoke_trainer *t, const char *dir)
{
    int64_t *steps = NULL;
    size_t count = 0;
    yoke_status status = YOKE_OK;

    if (is_first(t)) {
        status = yki_checkpoint_make_folder(dir);
        if (status == YOKE_OK)
            status = yki_checkpoint_list(dir, &steps, &count);
        if (status == YOKE_OK && count && steps[0] > t->step)
            status = yki_fail(YOKE_ERROR_STATE,
                              "%s has a checkpoint of step %lld, this training is at step %lld; "
                              "resume it, or take another folder",
                              dir, (long long)steps[0], (long long)t->step);
        yki_free(steps);
    }
    return yki_trainer_agree(t, status);
}

/* Lists the tensors, and gathers those that are sharded in the first process, which writes for all.
 */
static yoke_status
gather_shards(yoke_trainer *t, yki_saved_tensors *all, float **gathered)
{
    yoke_status status = yki_saved_tensors_list(t, all);

    *gathered = NULL;
    if (status == YOKE_OK && yki_saved_tensors_are_spread(t) && is_first(t)) {
        *gathered = yki_alloc((size_t)all->floats, sizeof **gathered, "a checkpoint");
        status = *gathered ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (yki_saved_tensors_are_spread(t))
        status = yki_trainer_agree(t, status);
    if (status == YOKE_OK) {
        status = yki_saved_tensors_gather(all, *gathered);
        if (status != YOKE_OK) /* the others wait for this process's part */
            status = yki_trainer_failed(t, status);
    }
    all->gathered = *gathered;
    if (status != YOKE_OK) {
        yki_saved_tensors_clear(all);
        yki_free(*gathered);
    }
    return status;
}

yoke_status
yki_checkpoint_save(yoke_trainer *t, const yki_progress *progress, const char *dir, uint32_t keep)
{
    const yoke_epoch *best = progress->keep_best ? yoke_trainer_best_epoch(t) : NULL;
    yoke_status status;
    yki_saved_tensors all = {0};
    float *gathered;
    identity own;
    char *path;

    YKI_TRY(yoke_trainer_wait(t));
    /* One process writes for all, so all replicas must be the same. */
    YKI_TRY(yki_trainer_compare_weights(t));
    YKI_TRY(gather_shards(t, &all, &gathered));
    status = identify(t, &own);
    if (t->crew.sharding.weights) /* all make the hash, or none */
        status = yki_trainer_agree(t, status);
    if (status == YOKE_OK && t->options.granule && (is_first(t) || t->crew.sharding.weights))
        status = yoke_trainer_hash(t, NULL, own.weights);
    if (status == YOKE_OK && is_first(t)) {
        path = yki_checkpoint_path(dir, t->step);
        status = path ? save_parts(t, &all, progress, &own, path) : YOKE_ERROR_OUT_OF_MEMORY;
        yki_free(path);
        if (status == YOKE_OK)
            yki_checkpoint_prune(dir, t->step, keep ? keep : KEEP, best ? best->step : -1);
    }
    identity_clear(&own);
    yki_saved_tensors_clear(&all);
    yki_free(gathered);
    return yki_trainer_agree(t, status);
}

/* ---- reading ---- */

/* Whether it is the state of an optimizer. */
static bool
is_kept(const yki_saved_tensor *p)
{
    return p->which == 0 || p->which == 1;
}

static yoke_status
read_values(const yki_safetensors *file, const yki_saved_tensors *all, float *values)
{
    for (size_t i = 0; i < all->count; i++) {
        const yki_saved_tensor *p = &all->list[i];
        const yki_tensor *tensor = yki_safetensors_find(file, p->name);

        /* A state may have been kept in another type: it is rounded where it goes to. */
        if (!tensor || tensor->count != p->count ||
            (tensor->dtype != YKI_DTYPE_F32 && !(is_kept(p) && tensor->dtype == YKI_DTYPE_BF16)))
            return yki_fail(YOKE_ERROR_STATE,
                            "%s: \"%.200s\" is missing, or has another shape or type; must be a "
                            "checkpoint of this training",
                            file->path, p->name);
        YKI_TRY(yki_safetensors_read_f32(file, tensor, values));
        values += p->count;
    }
    return YOKE_OK;
}

static const char *
optimizer_name(json_int_t kind)
{
    static const char *const names[] = {[YOKE_OPTIMIZER_SGD] = "sgd",
                                        [YOKE_OPTIMIZER_ADAM] = "adam",
                                        [YOKE_OPTIMIZER_ADAMW] = "adamw",
                                        [YOKE_OPTIMIZER_RMSPROP] = "rmsprop"};

    return kind >= 0 && kind < (json_int_t)YKI_COUNT(names) ? names[kind] : "unknown";
}

/* Checks that the file is a checkpoint of this training. Another training's is an error, but not
 * damage (YOKE_ERROR_FORMAT), so it is not renamed. */
static yoke_status
check_state(const yoke_trainer *t, const yki_progress *asked, const yki_safetensors *file,
            const char *text)
{
    json_t *json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    const char *graph = json_string_value(json_object_get(json, "graph"));
    json_int_t optimizer = json_integer_value(json_object_get(json, "optimizer"));
    json_int_t version = json_integer_value(json_object_get(json, "version"));
    json_int_t seed = json_integer_value(json_object_get(json, "seed"));
    char own[33];
    yoke_status status = YOKE_OK;

    graph_identity(t, own);
    if (!graph)
        status = yki_fail(
            YOKE_ERROR_FORMAT,
            "%s: its state is not that of a checkpoint; must be a file that a trainer wrote as one",
            file->path);
    else if (version != VERSION)
        status = yki_fail(YOKE_ERROR_UNSUPPORTED,
                          "%s is a checkpoint of version %lld; must be %d for this yoke",
                          file->path, (long long)version, VERSION);
    else if (strcmp(graph, own) != 0)
        status = yki_fail(YOKE_ERROR_STATE,
                          "%s is a checkpoint of another graph; go on with the graph that it was "
                          "made of, or train anew in another folder",
                          file->path);
    else if (optimizer != (json_int_t)t->options.optimizer.kind)
        status = yki_fail(YOKE_ERROR_STATE,
                          "%s is a checkpoint of the optimizer %s, whose state does not fit %s; go "
                          "on with %s, or train anew in another folder",
                          file->path, optimizer_name(optimizer),
                          optimizer_name(t->options.optimizer.kind), optimizer_name(optimizer));
    else if (asked->same_seed && seed != (json_int_t)t->options.seed)
        status = yki_fail(YOKE_ERROR_STATE,
                          "%s is a checkpoint of a training with the seed %lld, this one has %u, "
                          "which would split and order the samples in another way; go on with the "
                          "seed %lld, or train anew in another folder",
                          file->path, (long long)seed, t->options.seed, (long long)seed);
    json_decref(json);
    return status;
}

static yoke_status
read_file(const yoke_trainer *t, const yki_progress *asked, const char *path,
          const yki_saved_tensors *all, found *result, float *values)
{
    yki_safetensors *file;
    const char *text;
    yoke_status status;

    YKI_TRY(yki_safetensors_open(path, &file));
    text = yki_safetensors_text(file, YKI_STATE_KEY);
    if (!file->has_header_sum || !text)
        status = yki_fail(YOKE_ERROR_FORMAT, "%s is damaged: it has no state of a training", path);
    else
        status = check_state(t, asked, file, text);
    for (size_t i = 0; i < file->count && status == YOKE_OK; i++)
        if (!file->tensors[i].has_sum)
            status = yki_fail(YOKE_ERROR_FORMAT, "%s is damaged: it has no checksums", path);
    if (status == YOKE_OK)
        status = read_values(file, all, values);
    if (status == YOKE_OK && !(result->state = yki_strdup(text, "a checkpoint's state")))
        status = YOKE_ERROR_OUT_OF_MEMORY;
    if (status == YOKE_OK)
        result->length = strlen(text) + 1;
    yki_safetensors_close(file);
    return status;
}

/* Renames a damaged file, so that it is out of the way and can still be examined. */
static void
set_aside(const char *path)
{
    char *name = yki_format("%s.damaged", path);

    yki_log(YOKE_LOG_WARNING, "%s; the checkpoint before it is used, if there is one",
            yoke_last_error());
    if (name && rename(path, name) != 0)
        yki_log(YOKE_LOG_WARNING, "%s: cannot rename it: %s", path, strerror(errno));
    yki_free(name);
}

/* Reads the newest checkpoint that is not damaged. */
static yoke_status
read_newest(const yoke_trainer *t, const yki_progress *asked, const char *dir,
            const yki_saved_tensors *all, found *result, float *values)
{
    int64_t *steps = NULL;
    size_t count = 0;
    yoke_status status;

    YKI_TRY(yki_checkpoint_list(dir, &steps, &count));
    status = YOKE_OK;
    for (size_t i = 0; i < count; i++) {
        char *path = yki_checkpoint_path(dir, steps[i]);

        status = path ? read_file(t, asked, path, all, result, values) : YOKE_ERROR_OUT_OF_MEMORY;
        if (status == YOKE_ERROR_FORMAT)
            set_aside(path);
        yki_free(path);
        if (status != YOKE_ERROR_FORMAT)
            break;
    }
    yki_free(steps);
    return status;
}

/* ---- going on ---- */

static int64_t
number(const json_t *json, const char *key)
{
    return (int64_t)json_integer_value(json_object_get(json, key));
}

/* Takes the shares of the checkpoint if they follow the speed here, and the number of devices and
 * the batch are the same. Otherwise shares are found anew. */
static yoke_status
take_shares(yoke_trainer *t, const json_t *json)
{
    const json_t *list = json_object_get(json, "shares");
    yki_shares_state state;

    yki_shares_get_state(t->shares, &state);
    if (state.kind != YKI_SHARES_AUTO || json_array_size(list) != t->team->total ||
        number(json, "batch") != t->options.batch)
        return YOKE_OK;
    for (size_t k = 0; k < t->team->total; k++)
        t->counts[k] = (int64_t)json_integer_value(json_array_get(list, k));
    /* Shares that do not fit the plans of these devices are not taken. */
    if (yki_shares_set_counts(t->shares, t->counts) != YOKE_OK)
        yki_log(YOKE_LOG_INFO, "shares of the checkpoint are not taken: %s", yoke_last_error());
    return YOKE_OK;
}

/* Takes the sums of the epoch so far. Only the first process takes those by device, if their number
 * fits, because the sums of all processes are added later. */
static void
take_sums(const yoke_trainer *t, const json_t *json, yki_progress *progress)
{
    const json_t *devices = json_object_get(json, "device_sums");
    size_t count = 2 * t->team->total;

    progress->samples = number(json, "samples");
    (void)yki_history_take_numbers(json_object_get(json, "sums"), progress->sums,
                                   2 * t->crew.pairs);
    (void)yki_history_take_numbers(json_object_get(json, "seconds"), &progress->seconds, 1);
    if (is_first(t) && json_array_size(devices) == count)
        (void)yki_history_take_numbers(devices, progress->device_sums, count);
}

/* Batch norms take the statistics of each micro-batch, whose borders follow from the batch and
 * their number. A checkpoint without that number says nothing of them. */
static void
compare_micro_batches(const yoke_trainer *t, const json_t *json)
{
    const int64_t accumulate = number(json, "accumulate");

    if (number(json, "batch") != t->options.batch)
        yki_log(YOKE_LOG_WARNING,
                "the checkpoint was trained with batches of %lld samples, training goes on with "
                "batches of %lld",
                (long long)number(json, "batch"), (long long)t->options.batch);
    if (accumulate && accumulate != t->options.accumulate && yki_graph_find_statistic(t->graph))
        yki_log(YOKE_LOG_WARNING,
                "the checkpoint was trained with %lld micro-batches in a step (accumulate), "
                "training goes on with %u; batch norms take statistics of each, so results will "
                "be others than without the interruption",
                (long long)accumulate, t->options.accumulate);
}

static yoke_status
take_state(yoke_trainer *t, const json_t *json, yki_progress *progress)
{
    float rate = t->options.optimizer.learning_rate;

    if (number(json, "position") > 0 &&
        (number(json, "count") != progress->count ||
         json_is_true(json_object_get(json, "sequential")) != progress->sequential))
        return yki_fail(
            YOKE_ERROR_STATE,
            "the checkpoint is in the middle of an epoch of %lld samples in %s order, "
            "the data has %lld; resume with the data and the order that it was made with",
            (long long)number(json, "count"),
            json_is_true(json_object_get(json, "sequential")) ? "their" : "random",
            (long long)progress->count);
    if ((int64_t)t->options.seed != number(json, "seed")) {
        /* Feeds draw random numbers by the seed. */
        yki_loaders_clear(&t->train_loaders, t->crew.count);
        yki_loaders_clear(&t->test_loaders, t->crew.count);
    }
    t->options.seed = (uint32_t)number(json, "seed");
    t->step = t->completed = number(json, "step");
    t->epoch = (uint32_t)number(json, "epoch");
    for (size_t k = 0; k < t->crew.count; k++) {
        yoke_replica *r = t->crew.members[k].replica;

        r->seed = t->options.seed;
        r->step = (uint32_t)t->step + 1;
        r->weights->version++;
    }
    progress->position = number(json, "position");
    take_sums(t, json, progress);
    YKI_TRY(yki_history_take(t, json_object_get(json, "history")));
    if (!progress->keep_rate)
        (void)yki_json_get_float(json_object_get(json, "learning_rate"), &rate);
    YKI_TRY(yoke_trainer_set_learning_rate(t, rate));
    compare_micro_batches(t, json);
    return take_shares(t, json);
}

/* Takes the loss scale, if this training has one that is not fixed. What makes no sense is not
 * taken: the scale begins anew. */
static void
take_loss_scale(yoke_trainer *t, const json_t *json)
{
    const json_t *kept = json_object_get(json, "loss_scale");
    yki_loss_scale *s = &t->loss_scale;
    float scale;

    yki_loss_scale_start(t);
    s->skipped = YKI_MIN(YKI_MAX(number(kept, "skipped"), (int64_t)0), t->step);
    if (!s->scales || t->options.loss_scale > 0 ||
        !yki_json_get_float(json_object_get(kept, "scale"), &scale) ||
        !yki_loss_scale_is_valid(scale))
        return;
    s->scale = scale;
    s->good = YKI_MIN(YKI_MAX(number(kept, "good"), (int64_t)0), s->every);
}

/* Takes the exponents of granules. Without them the first step finds its own, and the last bits may
 * be others than without the interruption. */
static yoke_status
take_granules(yoke_trainer *t, const json_t *json)
{
    const json_t *list = json_object_get(json, "exponents");
    const size_t count = t->crew.exact.weights;
    int32_t *exponents;
    yoke_status status;

    if (!t->options.granule)
        return YOKE_OK;
    if (number(json, "granule") != t->options.granule || json_array_size(list) != count) {
        yki_log(YOKE_LOG_WARNING,
                "the checkpoint was made with granules of %lld samples, training goes on with %lld "
                "(0: without granules): results will not have the same bits",
                (long long)number(json, "granule"), (long long)t->options.granule);
        return yki_granules_forget(&t->crew);
    }
    exponents = yki_alloc(count, sizeof *exponents, "units of gradients");
    if (!exponents)
        return YOKE_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++)
        exponents[i] = (int32_t)json_integer_value(json_array_get(list, i));
    if (number(json, "wire") != (int64_t)t->options.wire)
        yki_log(YOKE_LOG_WARNING,
                "the checkpoint was made with gradients in other integers (wire): "
                "results will not have the same bits");
    status = yki_granules_resume(&t->crew, exponents);
    yki_free(exponents);
    return status;
}

/* The same bits need the same solvers. With `reproducible`, other solvers on the same devices are
 * an error. On other devices the bits differ in any case, which is only logged. */
static yoke_status
compare_plans(yoke_trainer *t, const json_t *json)
{
    const char *plans = json_string_value(json_object_get(json, "plans"));
    identity own;
    yoke_status status = identify(t, &own);
    bool any_split = t->options.reproducible == YOKE_REPRODUCIBLE_ANY_SPLIT;
    bool same = status == YOKE_OK && plans && strcmp(plans, own.plans) == 0;
    bool at_home =
        status == YOKE_OK && json_equal(own.devices, json_object_get(json, "devices")) == 1;

    identity_clear(&own);
    if (status != YOKE_OK || (same && at_home) || any_split)
        return status;
    if (at_home && t->options.reproducible == YOKE_REPRODUCIBLE_RUNS)
        return yki_fail(YOKE_ERROR_STATE,
                        "the checkpoint was made with other plans on these devices, so results "
                        "would not have the same bits, which `reproducible` asks for; give it the "
                        "wisdom that it was made with, or go on without `reproducible`");
    yki_log(t->options.reproducible ? YOKE_LOG_WARNING : YOKE_LOG_INFO,
            "the %s are not those of the checkpoint: results will not have the same bits",
            at_home ? "plans" : "devices");
    return YOKE_OK;
}

static yoke_status
apply(yoke_trainer *t, const yki_saved_tensors *all, const found *result, const float *values,
      yki_progress *progress)
{
    json_t *json = json_loads(result->state, 0, NULL);
    yoke_status status;

    if (!json)
        return yki_fail(YOKE_ERROR_OUT_OF_MEMORY, "no host memory for a checkpoint's state");
    status = compare_plans(t, json);
    if (status == YOKE_OK)
        status = take_state(t, json, progress);
    if (status == YOKE_OK) {
        take_loss_scale(t, json);
        status = take_granules(t, json);
    }
    yki_trainer_forget_states(t);
    if (status == YOKE_OK)
        status = yki_saved_tensors_put(all, values);
    json_decref(json);
    return status;
}

/* Sends what the first process has read to the others. */
static yoke_status
hand_out(yoke_trainer *t, const yki_saved_tensors *all, found *result, float *values,
         yki_progress *progress)
{
    yoke_comm *comm = t->crew.comm;
    uint64_t left = all->floats;

    if (!comm)
        return YOKE_OK;
    YKI_TRY(comm->broadcast(comm, &result->length, sizeof result->length, 0));
    /* The first process's choice holds for all, so that they go on with one learning rate. */
    YKI_TRY(comm->broadcast(comm, &progress->keep_rate, sizeof progress->keep_rate, 0));
    if (result->length && !is_first(t) &&
        !(result->state = yki_alloc((size_t)result->length, 1, "a checkpoint's state")))
        return YOKE_ERROR_OUT_OF_MEMORY;
    if (result->length)
        YKI_TRY(comm->broadcast(comm, result->state, (size_t)result->length, 0));
    while (result->length && left > 0) {
        size_t some = (size_t)YKI_MIN(left, (uint64_t)1 << 24);

        YKI_TRY(comm->broadcast(comm, values, some * sizeof *values, 0));
        values += some;
        left -= some;
    }
    return YOKE_OK;
}

static yoke_status
resume(yoke_trainer *t, const char *dir, yki_saved_tensors *all, found *result, float *values,
       yki_progress *progress)
{
    yoke_status status = YOKE_OK;

    if (is_first(t))
        status = read_newest(t, progress, dir, all, result, values);
    YKI_TRY(yki_trainer_agree(t, status));
    YKI_TRY(hand_out(t, all, result, values, progress));
    return result->length ? apply(t, all, result, values, progress) : YOKE_OK;
}

yoke_status
yki_checkpoint_resume(yoke_trainer *t, const char *dir, yki_progress *progress, bool *found_one)
{
    yki_saved_tensors all = {0};
    found result = {0};
    float *values = NULL;
    yoke_status status = yki_saved_tensors_list(t, &all);

    if (status == YOKE_OK) {
        values = yki_alloc((size_t)all.floats, sizeof *values, "a checkpoint");
        status = values ? yoke_trainer_wait(t) : YOKE_ERROR_OUT_OF_MEMORY;
    }
    if (status == YOKE_OK)
        status = resume(t, dir, &all, &result, values, progress);
    if (status == YOKE_OK)
        *found_one = result.length != 0;
    yki_free(values);
    yki_free(result.state);
    yki_saved_tensors_clear(&all);
    return status;
}
