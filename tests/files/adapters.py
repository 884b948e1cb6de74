# SPDX-License-Identifier: Apache-2.0
#
# adapters.py YOKE WORK DEVICE - adapters of PEFT, there and back, on models of random weights that
# transformers wrote to WORK (hugging_face.py): what yoke merges computes the logits of PEFT, both write
# the same text, and PEFT reads what yoke trains. DEVICE may be "": then nothing is computed by yoke.
# See transformers.sh.
import os
import subprocess
import sys

import numpy
import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

yoke, work, device = sys.argv[1:]
torch.manual_seed(3)
tokens = torch.randint(0, 11, (3, 6))
failures = 0


def run(*arguments):
    done = subprocess.run([yoke, *arguments], capture_output=True)
    if done.returncode:
        raise SystemExit(f"yoke {' '.join(arguments)}: {done.stderr.decode()}")
    return done.stdout.decode()


def logits(model):
    with torch.no_grad():
        return model.double().eval()(tokens).logits


def load(name):
    return AutoModelForCausalLM.from_pretrained(f"{work}/{name}", dtype=torch.float32,
                                                attn_implementation="eager")


def compare(what, got, wanted):
    global failures
    error = ((got - wanted).abs().max() / wanted.abs().max()).item()
    if not error < 2e-6:
        failures += 1
        print(f"FAIL: {what}: the logits differ by {error:g} of the largest")


def merged(name, adapters):
    """The logits of what yoke merges and writes for transformers."""
    run("merge", f"--out={work}/merged.safetensors", f"{work}/{name}", f"{work}/{adapters}")
    run("convert", f"--out={work}/{adapters}-merged", f"{work}/merged.safetensors")
    return logits(load(f"{adapters}-merged"))


def check(name, targets, own, patterns):
    base = logits(load(name))
    config = LoraConfig(r=2, lora_alpha=5, target_modules=targets, task_type="CAUSAL_LM",
                        fan_in_fan_out=name == "gpt2", **patterns)
    model = get_peft_model(load(name), config)
    with torch.no_grad():
        for parameter, p in model.named_parameters():
            if "lora_" in parameter:
                p.copy_(0.3 * torch.randn_like(p))
    model.save_pretrained(f"{work}/{name}-peft")
    wanted = logits(model)
    if not (wanted - base).abs().max() > 0.01:
        raise SystemExit("the adapters change nothing")
    compare(f"{name}: adapters of PEFT, merged by yoke", merged(name, f"{name}-peft"), wanted)
    if not device:
        return
    # The same model goes on writing as transformers does.
    text = run("generate", f"--model={work}/{name}", f"--adapters={work}/{name}-peft", "--tokens",
               f"--devices={device}", "--prompt=1 2", "--length=5", "--temperature=0")
    out = torch.tensor([[1, 2]])
    while out.shape[1] < 7:
        with torch.no_grad():
            out = torch.cat([out, model(out).logits[:, -1].argmax(-1, keepdim=True)], 1)
    if text.split() != [str(t) for t in out[0].tolist()]:
        global failures
        failures += 1
        print(f"FAIL: {name}: yoke writes {text.strip()}, transformers {out[0].tolist()}")
    run("train", f"--model={work}/{name}", f"--data={work}/tokens.npy", "--context=6", "--epochs=1",
        "--batch=4", "--lr=0.1", "--level=estimate", "--core-groups=never", f"--devices={device}",
        f"--lora=rank=2,alpha=3,targets={own}",
        f"--adapters={work}/{name}-yoke")
    trained = PeftModel.from_pretrained(load(name), f"{work}/{name}-yoke")
    if not (logits(trained) - base).abs().max() > 0.001:
        raise SystemExit("yoke trained nothing")
    compare(f"{name}: adapters of yoke, read by PEFT", merged(name, f"{name}-yoke"),
            logits(trained))


numpy.save(f"{work}/tokens.npy", numpy.arange(200, dtype=numpy.int32) * 7 % 11)
check("gpt2", ["c_attn", "c_fc", "mlp.c_proj"], "*c_attn,*c_fc",
      {"alpha_pattern": {"mlp.c_proj": 2}})
check("llama", ["q_proj", "v_proj", "o_proj", "up_proj"], "*qkv_proj,*o_proj,*gate_up_proj",
      {"rank_pattern": {"v_proj": 1}, "alpha_pattern": {"o_proj": 1}})
sys.exit(failures > 0)
