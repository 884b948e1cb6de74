/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_selector.c - one input for the selector parser, as libFuzzer calls it:
 *
 *   clang -std=c11 -D_GNU_SOURCE -g -fsanitize=fuzzer,address,undefined -Ilib -Itests -Ibuild \
 *       tests/device/fuzz_selector.c lib/device/selector.c lib/base/[mls]*.c -lpthread
 *
 * check_selector.c drives it with random mutations. A mistake aborts, which is
 * what a fuzzer and Check both notice.
 *
 * What holds for every text: a refusal says so with YOKE_ERROR_SELECTOR and quotes
 * the selector; what is accepted lies inside the text, and written out again means
 * the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/fuzz_selector.h"

#include "device/internal.h"

static void
require(int holds, const char *what, const char *text)
{
    if (holds)
        return;
    fprintf(stderr, "selector \"%s\": %s\n", text, what);
    abort();
}

size_t
fuzz_write_part(const yki_selector_item *part, char *out, size_t size)
{
    size_t length = 0;

#define ADD(...) length += (size_t)snprintf(out + length, size - length, __VA_ARGS__)
    if (part->base == YKI_BASE_ALL)
        ADD("all");
    else if (part->base == YKI_BASE_NAME)
        ADD("name~%.*s", (int)part->name_length, part->name);
    else
        ADD("%s", yki_type_name(part->type));
    if (part->has_index)
        ADD(":%u", part->index);
    if (part->split.kind != YKI_SPLIT_NONE)
        ADD("/%s", part->split.text);
    if (part->has_piece)
        ADD(".%u", part->piece);
    if (part->quota)
        ADD("@%lluB", (unsigned long long)part->quota);
#undef ADD
    return length;
}

static void
check_part(const char *text, const yki_selector_item *part)
{
    size_t length = strlen(text);
    const yki_split *split = &part->split;

    require(part->start <= length && part->length <= length - part->start, "part outside", text);
    require(part->length > 0, "empty part", text);
    if (part->base == YKI_BASE_NAME)
        require(part->name_length > 0 && part->name >= text + part->start &&
                    part->name + part->name_length <= text + part->start + part->length,
                "name outside", text);
    require(strlen(split->text) < sizeof split->text, "text of the split", text);
    require((split->kind == YKI_SPLIT_NONE) == (split->text[0] == '\0'), "split and text", text);
    require(split->kind != YKI_SPLIT_COUNTS || (split->count > 1 && split->count <= YKI_MAX_COUNTS),
            "number of counts", text);
    require(split->kind != YKI_SPLIT_EQUAL || (split->count > 0 && split->count <= YKI_MAX_PARTS),
            "number of parts", text);
    require(!part->has_piece || split->kind != YKI_SPLIT_NONE, "a piece of nothing", text);
}

/* Written out and read again it is the same. */
static void
check_again(const char *text, const yki_selector *selector)
{
    size_t room = strlen(text) + selector->count * 64 + 64, length = 0;
    char *again = malloc(room);
    yki_selector second;

    if (!again)
        return;
    for (size_t i = 0; i < selector->count; i++) {
        if (i)
            again[length++] = ',';
        length += fuzz_write_part(&selector->parts[i], again + length, room - length);
    }
    require(yki_selector_parse(again, &second) == YOKE_OK, "is not accepted again", again);
    require(second.count == selector->count, "has another number of parts now", again);
    for (size_t i = 0; i < second.count; i++) {
        const yki_selector_item *a = &selector->parts[i], *b = &second.parts[i];

        require(a->base == b->base && a->has_index == b->has_index && a->index == b->index &&
                    a->split.kind == b->split.kind && a->split.count == b->split.count &&
                    strcmp(a->split.text, b->split.text) == 0 && a->has_piece == b->has_piece &&
                    a->piece == b->piece && a->quota == b->quota,
                "means something else now", again);
    }
    yki_selector_free(&second);
    free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    yki_selector selector;
    yoke_status status;

    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    status = yki_selector_parse(text, &selector);
    if (status == YOKE_OK) {
        require(selector.count > 0, "accepted, but nothing is in it", text);
        for (size_t i = 0; i < selector.count; i++)
            check_part(text, &selector.parts[i]);
        check_again(text, &selector);
        yki_selector_free(&selector);
    } else {
        require(status == YOKE_ERROR_SELECTOR, "refused with another status", text);
        require(strncmp(yoke_last_error(), "selector \"", 10) == 0, "refused without a reason",
                text);
    }
    free(text);
    return 0;
}
