/* SPDX-License-Identifier: Apache-2.0
 *
 * selection.c - turns a selector into logical devices and holds them.
 *
 * It takes three steps. First it matches the items of the selector with the roots,
 * which needs no lock. Then, under the context's lock, each root gets the split that
 * is asked for, or the call fails because somebody holds the root under another
 * split; who asks for the same split shares it. New spaces whose roots may share a
 * memory get one (memory.c). Last, still under the lock, it takes
 * the devices one by one.
 *
 * A quota belongs to a logical device. The first selection that takes the device sets
 * it. A later one that names no quota shares the device with the first; one that names
 * another quota fails until the device is free.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device/internal.h"

/* What a selector wants of one root. */
typedef struct want {
    const yki_selector_item *part; /* the first item that takes the root; NULL: none does */
    yki_space *space;              /* with a reference of this call */
} want;

/* One item of the selector, and one root that it takes. */
typedef struct pick {
    const yki_selector_item *part;
    yki_root *root;
} pick;

typedef struct plan {
    yoke_context *context;
    const char *text;
    const char *holder;
    want *wants; /* one for each root */
    pick *picks;
    size_t pick_count, pick_capacity;
} plan;

/* ---- matching items with roots ---- */

static bool
name_matches(const yki_selector_item *part, const char *name)
{
    for (; strlen(name) >= part->name_length; name++)
        if (strncasecmp(name, part->name, part->name_length) == 0)
            return true;
    return false;
}

static bool
has_real_driver(const yoke_context *context)
{
    for (size_t i = 0; i < context->root_count; i++)
        if (context->roots[i].rank != YKI_DRIVER_SIMULATOR)
            return true;
    return false;
}

bool
yki_selector_item_names(const yoke_context *context, const yki_selector_item *part,
                        const yki_root *root)
{
    char id[64];

    switch (part->base) {
    case YKI_BASE_ALL: /* a simulator would only slow a real driver down */
        return root->rank != YKI_DRIVER_SIMULATOR || !has_real_driver(context);
    case YKI_BASE_NAME:
        return name_matches(part, root->info.name);
    case YKI_BASE_TYPE:
        if (!part->has_index)
            return root->info.type == part->type;
        snprintf(id, sizeof id, "%s:%u", yki_type_name(part->type), part->index);
        return strcmp(id, root->info.id) == 0;
    }
    return false;
}

/* Whether the item takes the root. `all` and bare types take one driver for each piece of hardware,
 * the best that they name. */
static bool
part_takes(const yoke_context *context, const yki_selector_item *part, const yki_root *root)
{
    if (!yki_selector_item_names(context, part, root))
        return false;
    if (part->base == YKI_BASE_NAME || part->has_index)
        return true;
    for (size_t i = 0; i < context->root_count; i++) {
        const yki_root *other = &context->roots[i];

        if (other != root && strcmp(other->info.hardware, root->info.hardware) == 0 &&
            yki_root_better(other, root) && yki_selector_item_names(context, part, other))
            return false;
    }
    return true;
}

/* The type as people write it, for messages. */
static const char *
type_word(yoke_device_type type)
{
    static const char *const words[] = {
        [YOKE_DEVICE_GPU] = "GPU",
        [YOKE_DEVICE_CPU] = "CPU",
        [YOKE_DEVICE_ACCELERATOR] = "accelerator",
    };

    return words[type];
}

yoke_status
yki_selector_fail_unmatched(const yoke_context *context, const char *text,
                            const yki_selector_item *part)
{
    size_t count = 0;

    if (part->base == YKI_BASE_NAME)
        return yki_selector_fail(text, part->start, part->length, "no device has this in its name");
    for (size_t i = 0; i < context->root_count; i++)
        count += part->base == YKI_BASE_TYPE && context->roots[i].info.type == part->type;
    if (!count)
        return yki_selector_fail(text, part->start, part->length, "no %s was found",
                                 type_word(part->type));
    return yki_selector_fail(text, part->start, part->length,
                             "%zu %s%s found, and the first has the number 0", count,
                             type_word(part->type), count == 1 ? " was" : "s were");
}

static yoke_status
fail_piece(const plan *p, const yki_selector_item *part, size_t pieces)
{
    return yki_selector_fail(p->text, part->start, part->length,
                             "this split has %zu part%s, and the first has the number 0", pieces,
                             pieces == 1 ? "" : "s");
}

/* Sub-devices together cannot have more compute units than the device. Slices have no limit. */
static yoke_status
check_units(const plan *p, const yki_selector_item *part, const yki_root *root)
{
    const yki_split *split = &part->split;
    uint32_t offered = root->info.partition;
    uint64_t units = 0;

    if (split->kind == YKI_SPLIT_EQUAL &&
        (offered & (YOKE_PARTITION_EQUALLY | YOKE_PARTITION_BY_COUNTS)))
        units = split->count;
    else if (split->kind == YKI_SPLIT_COUNTS && (offered & YOKE_PARTITION_BY_COUNTS))
        for (uint32_t i = 0; i < split->count; i++)
            units += split->units[i];
    if (units <= root->info.compute_units)
        return YOKE_OK;
    return yki_selector_fail(p->text, part->start, part->length,
                             "%s has %u compute units, this split needs %llu", root->info.id,
                             root->info.compute_units, (unsigned long long)units);
}

static yoke_status
check_part(const plan *p, const yki_selector_item *part, const yki_root *root)
{
    const yki_selector_item *first = p->wants[root - p->context->roots].part;
    char size[24];

    if (part->split.kind == YKI_SPLIT_NUMA && !(root->info.partition & YOKE_PARTITION_NUMA))
        return yki_fail(YOKE_ERROR_UNSUPPORTED,
                        "%s (%s, %s) cannot be split by NUMA domain, which its driver does not "
                        "offer; split it by compute units",
                        root->info.id, root->info.name, root->info.platform);
    YKI_TRY(check_units(p, part, root));
    if (part->has_piece && part->split.count && part->piece >= part->split.count)
        return fail_piece(p, part, part->split.count);
    if (part->quota > root->info.memory)
        return yki_selector_fail(p->text, part->quota_start, part->quota_length,
                                 "this quota is larger than the memory of %s, %s", root->info.id,
                                 yki_size_text(root->info.memory, size));
    if (first && strcmp(first->split.text, part->split.text) != 0)
        return yki_selector_fail(p->text, part->start, part->length,
                                 "%s is split in another way before, by \"%.*s\"; one selector "
                                 "can split a device once",
                                 root->info.id, (int)first->length, p->text + first->start);
    return YOKE_OK;
}

static yoke_status
add_pick(plan *p, const yki_selector_item *part, yki_root *root)
{
    want *w = &p->wants[root - p->context->roots];
    void *picks = p->picks;

    YKI_TRY(check_part(p, part, root));
    YKI_TRY(
        yki_grow(&picks, &p->pick_capacity, p->pick_count + 1, sizeof *p->picks, "a selection"));
    p->picks = picks;
    p->picks[p->pick_count++] = (pick){part, root};
    if (!w->part)
        w->part = part;
    return YOKE_OK;
}

static yoke_status
match_parts(plan *p, const yki_selector *selector)
{
    for (size_t i = 0; i < selector->count; i++) {
        const yki_selector_item *part = &selector->parts[i];
        size_t before = p->pick_count;

        for (size_t r = 0; r < p->context->root_count; r++)
            if (part_takes(p->context, part, &p->context->roots[r]))
                YKI_TRY(add_pick(p, part, &p->context->roots[r]));
        if (p->pick_count == before)
            return yki_selector_fail_unmatched(p->context, p->text, part);
    }
    return YOKE_OK;
}

/* ---- holding ---- */

/* Writes the names of the holders, as in "\"team 1\", \"predictor\"". Without any, it names the
 * last one, whose objects still use the space. */
static const char *
holders_text(const yki_space *space, char *text, size_t size)
{
    size_t length = 0;

    if (!space->holders) {
        snprintf(text, size, "what \"%s\" left behind and still uses it",
                 space->last_holder ? space->last_holder : "a selection");
        return text;
    }
    for (const yki_holder *h = space->holders; h && length < size; h = h->next)
        length += (size_t)snprintf(text + length, size - length, "%s\"%s\"",
                                   h == space->holders ? "" : ", ", h->name);
    return text;
}

static yoke_status
fail_busy(const yki_space *space, const char *asked)
{
    char holders[512];

    return yki_fail(
        YOKE_ERROR_BUSY, "%s is held as \"%s\" by %s; destroy that before you select \"%s\"",
        space->root->info.id, space->layout, holders_text(space, holders, sizeof holders), asked);
}

static yoke_status
fail_other_quota(const yoke_device *device, uint64_t asked)
{
    char holders[512], size[24], own[24];

    return yki_fail(
        YOKE_ERROR_BUSY,
        "%s is held with %s%s by %s; destroy that before you select it with a quota of %s",
        device->id, device->quota ? "a quota of " : "no quota",
        device->quota ? yki_size_text(device->quota, own) : "",
        holders_text(device->space, holders, sizeof holders), yki_size_text(asked, size));
}

/* Gives the new spaces memories. Those of roots that may share one have one. */
static yoke_status
open_spaces(const plan *p)
{
    const size_t roots = p->context->root_count;
    yki_space **together = yki_alloc(roots, sizeof(yki_space *), "a selection");
    yoke_status status = together ? YOKE_OK : YOKE_ERROR_OUT_OF_MEMORY;

    for (size_t i = 0; i < roots && status == YOKE_OK; i++) {
        size_t count = 0;

        for (size_t k = i; k < roots; k++) {
            yki_space *space = p->wants[k].space;
            bool joins = space && !space->memory && (count > 0 || k == i);

            for (size_t t = 0; t < count && joins; t++)
                joins = yki_roots_share(together[t]->root, space->root);
            if (joins)
                together[count++] = space;
        }
        if (count)
            status = yki_memory_create(together, count);
    }
    yki_free(together);
    return status;
}

/* After a failure: spaces without a memory are of no use to anybody. */
static void
drop_unopened(const plan *p)
{
    for (size_t i = 0; i < p->context->root_count; i++)
        if (p->wants[i].space && !p->wants[i].space->memory)
            yki_space_drop(p->wants[i].space);
}

/* Whether the memory of this root's space may become that of another wanted one, too. */
static bool
may_join(const plan *p, const yki_root *root)
{
    for (size_t i = 0; i < p->context->root_count; i++)
        if (p->wants[i].part && &p->context->roots[i] != root &&
            yki_roots_share(&p->context->roots[i], root))
            return true;
    return false;
}

static yoke_status
pin_space(const plan *p, yki_root *root, want *w)
{
    const yki_split *split = &w->part->split;
    yki_space *space = root->space;
    char asked[64];

    if (!space)
        YKI_TRY(yki_space_create(root, split, !may_join(p, root), &space));
    if (strcmp(space->split.text, split->text) != 0) {
        snprintf(asked, sizeof asked, "%.*s", (int)YKI_MIN(w->part->length, sizeof asked - 1),
                 p->text + w->part->start);
        return fail_busy(space, asked);
    }
    space->references++;
    w->space = space;
    return YOKE_OK;
}

static yoke_status
take_device(yoke_selection *selection, const plan *p, const yki_selector_item *part,
            yoke_device *device)
{
    void *devices = selection->devices;

    for (size_t i = 0; i < selection->count; i++)
        if (selection->devices[i] == device)
            return yki_selector_fail(p->text, part->start, part->length, "%s is there twice",
                                     device->id);
    if (device->references && part->quota && part->quota != device->quota)
        return fail_other_quota(device, part->quota);
    YKI_TRY(yki_grow(&devices, &selection->capacity, selection->count + 1,
                     sizeof *selection->devices, "a selection"));
    selection->devices = devices;
    if (!device->references) {
        device->quota = part->quota;
        device->traits.memory = part->quota ? part->quota : device->root->info.memory;
        atomic_store(&device->peak, atomic_load(&device->used));
    }
    yki_device_retain_locked(device);
    selection->devices[selection->count++] = device;
    return YOKE_OK;
}

static yoke_status
take_pick(yoke_selection *selection, const plan *p, const pick *k)
{
    yki_space *space = k->root->space;
    const yki_selector_item *part = k->part;

    if (part->has_piece && part->piece >= space->device_count)
        return fail_piece(p, part, space->device_count);
    if (part->has_piece)
        return take_device(selection, p, part, &space->devices[part->piece]);
    for (size_t i = 0; i < space->device_count; i++)
        YKI_TRY(take_device(selection, p, part, &space->devices[i]));
    return YOKE_OK;
}

static yoke_status
add_holder(yki_space *space, const yoke_selection *selection, const char *name)
{
    yki_holder *holder = yki_alloc(1, sizeof *holder, "a holder");

    if (!holder)
        return YOKE_ERROR_OUT_OF_MEMORY;
    holder->selection = selection;
    holder->name = yki_strdup(name, "a holder's name");
    if (!holder->name) {
        yki_free(holder);
        return YOKE_ERROR_OUT_OF_MEMORY;
    }
    holder->next = space->holders;
    space->holders = holder;
    return YOKE_OK;
}

static void
remove_holder(yki_space *space, const yoke_selection *selection)
{
    for (yki_holder **at = &space->holders; *at; at = &(*at)->next) {
        yki_holder *holder = *at;

        if (holder->selection == selection) {
            *at = holder->next;
            yki_free(space->last_holder);
            space->last_holder = holder->name;
            yki_free(holder);
            return;
        }
    }
}

/* Tells of roots that may share a memory whether they do. */
static void
tell_memories(const plan *p)
{
    for (size_t i = 0; i < p->context->root_count; i++)
        for (size_t k = i + 1; k < p->context->root_count; k++) {
            const yki_space *a = p->wants[i].space, *b = p->wants[k].space;

            if (!a || !b || !yki_roots_share(a->root, b->root))
                continue;
            if (a->memory == b->memory)
                yki_log(YOKE_LOG_DEBUG, "%s and %s have one memory", a->layout, b->layout);
            else
                yki_log(YOKE_LOG_DEBUG,
                        "%s and %s have no common memory: they were not selected together, or the "
                        "driver makes no context of both",
                        a->layout, b->layout);
        }
}

/* The caller holds context->lock. */
static yoke_status
hold(yoke_selection *selection, plan *p)
{
    for (size_t i = 0; i < p->context->root_count; i++)
        if (p->wants[i].part)
            YKI_TRY(pin_space(p, &p->context->roots[i], &p->wants[i]));
    YKI_TRY(open_spaces(p));
    for (size_t i = 0; i < p->pick_count; i++)
        YKI_TRY(take_pick(selection, p, &p->picks[i]));
    for (size_t i = 0; i < p->context->root_count; i++)
        if (p->wants[i].space)
            YKI_TRY(add_holder(p->wants[i].space, selection, p->holder));
    return YOKE_OK;
}

/* ---- public functions ---- */

yoke_status
yki_context_add_devices(const yoke_context *context, yoke_status status)
{
    char list[4096], hidden[64] = "";
    size_t length = 0;

    for (size_t i = 0; i < context->root_count && length < sizeof list; i++)
        length += (size_t)snprintf(list + length, sizeof list - length, "%s%s (%s)", i ? ", " : "",
                                   context->roots[i].info.id, context->roots[i].info.name);
    if (context->hidden_count)
        snprintf(hidden, sizeof hidden, "; YOKE_VISIBLE_DEVICES hides %zu more",
                 context->hidden_count);
    return yki_fail(status, "%s; there %s: %s%s", yoke_last_error(),
                    context->root_count == 1 ? "is" : "are", list, hidden);
}

static yoke_status
take_all(plan *p, const yki_selector *selector, yoke_selection *selection)
{
    yoke_context *context = p->context;
    yoke_status status = match_parts(p, selector);

    for (size_t i = 0; status == YOKE_OK && i < context->root_count; i++)
        if (p->wants[i].part)
            yki_root_probe(&context->roots[i]);
    for (size_t i = 0; status == YOKE_OK && i < context->root_count; i++)
        for (size_t k = i + 1; k < context->root_count; k++)
            if (p->wants[i].part && p->wants[k].part)
                yki_sharing_probe(&context->roots[i], &context->roots[k]);
    if (status != YOKE_OK)
        return status;
    pthread_mutex_lock(&context->lock);
    status = hold(selection, p);
    if (status != YOKE_OK)
        drop_unopened(p);
    pthread_mutex_unlock(&context->lock);
    if (status == YOKE_OK)
        tell_memories(p);
    for (size_t i = 0; i < context->root_count; i++)
        if (p->wants[i].space)
            yki_space_release(p->wants[i].space);
    return status;
}

static yoke_status
create_from_text(yoke_context *context, const char *text, const char *holder,
                 yoke_selection *selection)
{
    plan p = {.context = context, .text = text, .holder = holder};
    yki_selector selector = {0};
    yoke_status status = yki_selector_parse(text, &selector);

    if (status == YOKE_OK) {
        p.wants = yki_alloc(context->root_count, sizeof *p.wants, "a selection");
        status = p.wants ? take_all(&p, &selector, selection) : YOKE_ERROR_OUT_OF_MEMORY;
    }
    yki_free(p.picks);
    yki_free(p.wants);
    yki_selector_free(&selector);
    return status == YOKE_ERROR_SELECTOR ? yki_context_add_devices(context, status) : status;
}

yoke_status
yoke_selection_create_sized(yoke_context *context, const char *selector,
                            const yoke_selection_options *given, size_t size,
                            yoke_selection **selection)
{
    yoke_selection_options options = {0};
    const char *environment = selector ? NULL : getenv("YOKE_DEVICES");
    yoke_selection *result;
    yoke_status status;

    if (!context || !selection)
        return yki_fail(YOKE_ERROR_INVALID_ARGUMENT, "yoke_selection_create: %s is NULL",
                        context ? "selection" : "context");
    if (given)
        memcpy(&options, given, YKI_MIN(size, sizeof options));
    if (environment && !*environment)
        environment = NULL;
    if (!selector)
        selector = environment ? environment : "all";
    result = yki_alloc(1, sizeof *result, "a selection");
    if (!result)
        return YOKE_ERROR_OUT_OF_MEMORY;
    yki_context_retain(context);
    result->context = context;
    status = create_from_text(context, selector, options.holder ? options.holder : "a selection",
                              result);
    if (status != YOKE_OK) {
        yoke_selection_destroy(result);
        return environment ? yki_fail_in(status, "YOKE_DEVICES") : status;
    }
    *selection = result;
    return YOKE_OK;
}

void
yoke_selection_destroy(yoke_selection *selection)
{
    yoke_context *context;

    if (!selection)
        return;
    context = selection->context;
    pthread_mutex_lock(&context->lock);
    for (size_t i = 0; i < selection->count; i++)
        remove_holder(selection->devices[i]->space, selection);
    pthread_mutex_unlock(&context->lock);
    for (size_t i = 0; i < selection->count; i++)
        yki_device_release(selection->devices[i]);
    yki_free(selection->devices);
    yki_free(selection);
    yki_context_release(context);
}

size_t
yoke_selection_count(const yoke_selection *selection)
{
    return selection ? selection->count : 0;
}

yoke_device *
yoke_selection_get(const yoke_selection *selection, size_t index)
{
    return selection && index < selection->count ? selection->devices[index] : NULL;
}
