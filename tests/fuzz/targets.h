/* SPDX-License-Identifier: Apache-2.0
 *
 * targets.h - a line for everything that is fuzzed; included where FUZZ_TARGET(name, words) is
 * defined. The words are what a format is made of.
 */
FUZZ_TARGET(idx, "\x08\x03", "\x0D\x01", "\x1f\x8b\x08")
FUZZ_TARGET(npy, "'descr'", "'<f8'", "'|O'", "'fortran_order'", "True", "'shape'", "(2147483648,")
FUZZ_TARGET(cifar, "\x09", "\x63")
FUZZ_TARGET(csv, "\"", ",", ";", "\n", "nan", "1e39", "label", "\xEF\xBB\xBF")
FUZZ_TARGET(safetensors, "{", "\"dtype\":\"F32\"", "\"shape\":[", "\"data_offsets\":[0,",
            "__metadata__")
FUZZ_TARGET(tokenizer, "{", "}", "[", "]", "\"vocab\":", "\"merges\":", "a b", "-1", "1048576",
            "\"type\":\"ByteLevel\"", "\xC4\xA0", "\"added_tokens\":", "null")
FUZZ_TARGET(merges, "#version", "\n", " ", "a b", "\xC4\xA0")
FUZZ_TARGET(tokens, "\x48\x18\x34\x01", "\xc1\x1c\x35\x01", "\x07", "\xff\xff\xff\xff")
FUZZ_TARGET(graph_json, "{", "}", "[", "]", "\"op\":", "null", "1e400", "-1", "\"shape\":")
FUZZ_TARGET(adapter_config, "{", "}", "[", "]",
            "\"r\":", "\"lora_alpha\":", "\"alpha_pattern\":", "\"LORA\"", "true", "null", "1e400",
            "-1", "2147483648")
FUZZ_TARGET(model_config, "{", "}", "[", "]", "null", "true", "1e400", "-1", "65536", "16777216",
            "\"gpt2\"", "\"llama\"", "\"rope_parameters\":", "\"n_inner\":")
FUZZ_TARGET(shard_index, "{", "}", "\"weight_map\":", "\"..\"", "/", "null")
FUZZ_TARGET(onnx, "Conv", "MatMul", "Reshape", "Slice", "Concat", "Add", "\x0a\x00", "\x22\x04",
            "\x2a\x04", "\xff\xff\xff\xff\x07", "axes", "perm", "pads", "../x", "\x4a\x08")
FUZZ_TARGET(image, "\x89PNG\r\n\x1a\n", "IHDR", "IDAT", "PLTE", "IEND", "\xff\xd8\xff", "\xff\xc0",
            "\xff\xc4", "\xff\xda", "\xff\xd9", "\x7f\xff\xff\xff")
FUZZ_TARGET(encoding, "{", "}", "[", "]", "\"columns\":", "\"kind\":", "\"one-hot\"", "\"hash\"",
            "\"texts\":", "\"buckets\":", "\"median\":", "1e400", "-1", "null")
