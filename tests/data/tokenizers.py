# SPDX-License-Identifier: Apache-2.0
#
# tokenizers.py YOKE SOURCES WORK - compares the tokens of yoke with those of the package
# tokenizers; see tokenizers.sh.
import glob
import os
import random
import subprocess
import sys

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

yoke, sources, work = sys.argv[1:]
llama3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
parts = [" ", "  ", "\n", "\r\n", "\t", "a", "B", "'s", "'LL", "'\u017f", "\u00e9", "\u4e2d",
         "\U0001f600", "\u0301", "\u0661\u0662", "12", "3", "4567", "\u00bd", "\u2167", "\u00a0",
         "\u3000", "!", "...", "-", "<|endoftext|>", "the", "ing", "don't", "I'VE", "\u200b",
         "\u0928\u092e\u0938\u094d", "\u041f\u0440", "\x00", "\x1c", "\x85", "=" * 9, "aaaaaaa"]
own = [open(name, encoding="utf8").read()
       for name in sorted(glob.glob(sources + "/man/*.[137]"))[:12]]
random.seed(1)
made = ["".join(random.choice(parts) for _ in range(random.randint(1, 400))) for _ in range(20)]
made.append("".join(chr(c) for c in range(0x20, 0x3000)))
made.append("a" * 5000 + "=-" * 3000)
failures = 0


def compare(name, path, tokenizer):
    global failures
    for number, text in enumerate(own + made):
        file = work + "/text"
        with open(file, "w", encoding="utf8", newline="") as f:
            f.write(text)
        out = subprocess.run([yoke, "tokenize", "--tokenizer=" + path, file], capture_output=True)
        tokens = [int(line) for line in out.stdout.split()]
        if tokens != tokenizer.encode(text, add_special_tokens=False).ids:
            print(f"FAIL: {name}: text {number} has other tokens; {out.stderr.decode()}")
            failures += 1


def byte_level(cut):
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer = Tokenizer(models.BPE(ignore_merges=cut is not None))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    if cut:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(cut), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(own, trainers.BpeTrainer(
        vocab_size=1000, special_tokens=["<|endoftext|>"], initial_alphabet=alphabet,
        show_progress=False))
    return tokenizer


for name, cut in (("gpt2", None), ("llama3", llama3)):
    path = f"{work}/{name}.json"
    tokenizer = byte_level(cut)
    tokenizer.save(path)
    compare(name, path, tokenizer)
path = work + "/own.json"
subprocess.run([yoke, "tokenize", "--train", "--vocabulary=600", "--out=" + path,
                sources + "/man"], check=True, capture_output=True)
compare("yoke's own", path, Tokenizer.from_file(path))
folder = os.environ.get("YOKE_GPT2")
if folder:
    tokenizer = Tokenizer(models.BPE.from_file(folder + "/vocab.json", folder + "/merges.txt"))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    compare("GPT-2", folder, tokenizer)
sys.exit(failures > 0)
