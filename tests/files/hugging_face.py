#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# hugging_face.py FOLDER - writes models of random weights with transformers, and what
# they compute: FOLDER/gpt2, one file of float32; FOLDER/gpt2-sharded, the same in
# float16 in several files; FOLDER/gpt2-io.safetensors, tokens, logits, the loss and its
# gradients; and the same of a llama, whose shards are bfloat16. They are kept in the
# tree: the tests need no Python.
import sys

try:
    import torch
    from safetensors.torch import save_file
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
except ImportError as error:
    print(error)
    sys.exit(77)


def make(folder, name, model, half):
    torch.manual_seed(1)
    model.eval()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_((p + 0.2 * torch.randn_like(p)).to(half).float())
    model.save_pretrained(folder + "/" + name)
    tokens = torch.randint(0, 11, (3, 6))
    following = torch.randint(0, 11, (3, 6))
    following[0, 4:] = -1
    following[2, 0] = -1
    model.double()
    logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), following.flatten(), ignore_index=-1,
                                             reduction="sum")
    loss.backward()
    out = {"tokens": tokens.int(), "next": following.int(), "logits": logits.float().detach(),
           "loss": loss.float().detach().reshape(1)}
    for parameter, p in model.named_parameters():
        out["gradient." + parameter.removeprefix("transformer.")] = p.grad.float().clone()
    save_file(out, folder + "/" + name + "-io.safetensors")
    model.to(half).save_pretrained(folder + "/" + name + "-sharded", max_shard_size="2KB")


torch.manual_seed(2)
make(sys.argv[1], "gpt2", GPT2LMHeadModel(GPT2Config(vocab_size=11, n_positions=7, n_embd=8, n_layer=2, n_head=2)),
     torch.float16)
make(sys.argv[1], "llama", LlamaForCausalLM(LlamaConfig(
    vocab_size=11, max_position_embeddings=7, hidden_size=8, num_hidden_layers=2, num_attention_heads=4,
    num_key_value_heads=2, intermediate_size=12, rms_norm_eps=1e-5, attn_implementation="eager")), torch.bfloat16)
