/* SPDX-License-Identifier: Apache-2.0
 *
 * png_write.h - small images as PNG, without a library.
 */
#ifndef YOKE_TOOLS_PNG_WRITE_H
#define YOKE_TOOLS_PNG_WRITE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Writes pixels of 1 or 3 bytes (height, width, channels), uncompressed. Errors stay in the stream;
 * false: out of memory. */
bool yki_tool_png_write(FILE *stream, const uint8_t *pixels, uint32_t height, uint32_t width,
                        uint32_t channels);
/* Writes the same as the text of a URI, "data:image/png;base64,...". */
bool yki_tool_png_write_uri(FILE *stream, const uint8_t *pixels, uint32_t height, uint32_t width,
                            uint32_t channels);

#endif
