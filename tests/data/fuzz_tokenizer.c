/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tokenizer.c - one input for the readers of tokenizers and of files of tokens.
 *
 * What holds for every input: a refusal has a status of its kind and a sentence that names
 * the file; an accepted tokenizer encodes and decodes a text to the same text, or refuses it,
 * and what it writes is read again as the same tokenizer.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "data/token_file.h"
#include "data/tokenizer.h"

static void
check_text(const yoke_tokenizer *t, const char *text, size_t length)
{
    size_t count, size;
    int32_t *tokens;
    char *again;

    if (yoke_tokenizer_encode(t, text, length, &tokens, &count) != YOKE_OK) {
        require(*yoke_last_error() != 0, "a text is refused without a reason");
        return;
    }
    require(yoke_tokenizer_decode(t, tokens, count, &again, &size) == YOKE_OK, "not decoded");
    yoke_free(tokens);
    yoke_free(again);
}

static void
check_tokenizer(yoke_tokenizer *t, const uint8_t *data, size_t size)
{
    yoke_tokenizer *again = NULL;
    char *text = NULL, *second = NULL;

    check_text(t, "The oxen's yoke, 1234 \n\n\t it<|endoftext|>!", 43);
    check_text(t, (const char *)data, size);
    require(yki_tokenizer_write(t, &text) == YOKE_OK, "cannot be written");
    if (yki_tokenizer_read(text, strlen(text), "again", &again) == YOKE_OK) {
        require(yki_tokenizer_write(again, &second) == YOKE_OK, "cannot be written again");
        require(strcmp(text, second) == 0, "another text now");
    }
    yoke_tokenizer_destroy(again);
    yoke_tokenizer_destroy(t);
    yki_free(second);
    yki_free(text);
}

int
fuzz_tokenizer(const uint8_t *data, size_t size)
{
    yoke_tokenizer *t = NULL;
    yoke_status status = yki_tokenizer_read((const char *)data, size, "input", &t);

    if (status == YOKE_OK)
        check_tokenizer(t, data, size);
    else
        check_refusal(status);
    return 0;
}

int
fuzz_merges(const uint8_t *data, size_t size)
{
    static const char words[] = "{\"a\": 0, \"b\": 1, \"ab\": 2, \"abb\": 3, \"\\u0120\": 4}";
    yoke_tokenizer *t = NULL;
    yoke_status status =
        yki_tokenizer_read_pair(words, sizeof words - 1, (const char *)data, size, "input", &t);

    if (status == YOKE_OK)
        check_tokenizer(t, data, size);
    else
        check_refusal(status);
    return 0;
}

int
fuzz_tokens(const uint8_t *data, size_t size)
{
    yki_column column = {0};
    yki_bytes *bytes = NULL;
    yoke_status status;
    int32_t token;

    require(yki_bytes_of_memory(data, size, "input", &bytes) == YOKE_OK, "no memory");
    status = yki_token_file_parse(bytes, &column);
    if (status != YOKE_OK)
        check_refusal(status);
    for (int64_t i = 0; i < column.count; i++)
        if (yki_column_read_numbers(&column, i, 1, &token) != YOKE_OK)
            break;
    yki_column_clear(&column);
    yki_bytes_release(bytes);
    return 0;
}
