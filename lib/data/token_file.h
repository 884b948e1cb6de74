/* SPDX-License-Identifier: Apache-2.0
 *
 * token_file.h - a text as tokens in a file beside it.
 */
#ifndef YKI_TOKEN_FILE_H
#define YKI_TOKEN_FILE_H

#include "data/files.h"
#include "data/tokenizer.h"

/* Describes llm.c's file of tokens as a column of them (token_file.c). */
bool yki_is_token_file(const unsigned char *head, size_t size);
yoke_status yki_token_file_parse(yki_bytes *bytes, yki_column *column);

/* Makes a text to tokens, unless the file of it is up to date, and appends them to a column. The
 * file is FILE.tokens, or yoke.tokens in a folder; without the right to write it, the tokens stay
 * in memory. */
yoke_status yki_text_to_tokens(const char *path, const yoke_tokenizer *tokenizer,
                               yki_column *column);

#endif
