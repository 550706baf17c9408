#!/usr/bin/env python3
"""Makes tokenizer.json from the pieces of tokenizer.model, so that two implementations can be compared.

spm_train --input=stories.txt --model_prefix=tokenizer --vocab_size=700 --model_type=bpe --byte_fallback \\
    --normalization_rule_name=identity --remove_extra_whitespaces=false --num_threads=1 --random_seed=1
spm_export_vocab --model=tokenizer.model --output=tokenizer.vocab
make.py tokenizer.vocab > tokenizer.json
"""
import json
import sys

pieces = [line.rstrip("\n").split("\t") for line in open(sys.argv[1], encoding="utf-8", newline="\n")]
vocabulary = {piece: number for number, (piece, _) in enumerate(pieces)}
merges = []
for piece, score in pieces:
    if not piece.startswith("<"):
        halves = [(piece[:i], piece[i:]) for i in range(1, len(piece)) if piece[:i] in vocabulary and piece[i:] in vocabulary]
        merges += [(-float(score), left, right) for left, right in sorted(halves, key=lambda h: [vocabulary[x] for x in h])]
merges.sort(key=lambda merge: merge[0])


def added(number):
    flags = dict(single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return dict(id=number, content=pieces[number][0], **flags)


def replace(before, after):
    return {"type": "Replace", "pattern": {"String": before}, "content": after}


json.dump({
    "version": "1.0", "truncation": None, "padding": None, "added_tokens": [added(i) for i in range(3)],
    "normalizer": {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")]},
    "pre_tokenizer": None,
    "post_processor": {"type": "TemplateProcessing",
                       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                       "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": {"type": "Sequence", "decoders": [replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"},
                                                 {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "ignore_merges": False,
              "vocab": vocabulary, "merges": [[left, right] for _, left, right in merges]},
}, sys.stdout, ensure_ascii=False)
