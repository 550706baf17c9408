#!/usr/bin/env python3
"""Writes small files into seeds/, for the fuzzer: python3 tests/fuzz/make_seeds.py

Not those of gguf_model and sentencepiece, which are kept as they are."""

import base64
import json
import pathlib
import struct

SEEDS = pathlib.Path(__file__).parent / "seeds"


def write(parser, name, contents):
    folder = SEEDS / parser
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(contents.encode() if isinstance(contents, str) else contents)


def tokenizer_json():
    vocabulary = {text: i for i, text in enumerate(["a", "b", "ab", "▁", "▁a", "1", "c", "<unk>", "é", "bc", "abc", "<s>"])}
    merges = ["a b", ["▁", "a"], "b c", "ab c"]
    begin = {"id": 11, "content": "<s>", "single_word": False, "lstrip": True, "rstrip": False, "normalized": False, "special": True}
    template = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"<s>": {"id": "<s>", "ids": [11], "tokens": ["<s>"]}},
    }
    write("tokenizer_json", "characters", json.dumps({
        "added_tokens": [begin],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "NFC"}, {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            {"type": "Replace", "pattern": {"Regex": "[xyz]+"}, "content": "c"}]},
        "pre_tokenizer": None,
        "post_processor": template,
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "vocab": vocabulary,
                  "merges": merges}}))
    write("tokenizer_json", "marks", json.dumps({
        "added_tokens": [dict(begin, special=False, normalized=True, single_word=True)],
        "pre_tokenizer": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        "decoder": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True},
        "model": {"vocab": vocabulary, "merges": merges, "ignore_merges": True}}))
    spelled = {text: i for i, text in enumerate(["a", "b", "Ġ", "ab", "Ġa", "c", "1", "Ã", "©"])}
    write("tokenizer_json", "bytes", json.dumps({
        "added_tokens": [{"id": 9, "content": "<s>", "special": True}],
        "normalizer": {"type": "NFKD"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": r"\p{N}{1,3}| ?\p{L}+|\s+(?!\S)|\s+"}, "behavior": "Isolated", "invert": False},
            {"type": "Digits", "individual_digits": True},
            {"type": "Split", "pattern": {"String": ","}, "behavior": "Removed", "invert": True},
            {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}]},
        "post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel"}]},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "dropout": None, "vocab": spelled, "merges": ["a b", "Ġ a"]}}))


def tokenizer_ranks():
    tokens = [bytes([letter]) for letter in b"abc 1'\n"] + [b"ab", b" a", b"abc", b"\xc3\xa9"]
    write("tokenizer_ranks", "small",
          "".join(f"{base64.b64encode(token).decode()} {rank}\n" for rank, token in enumerate(tokens)))
    write("tokenizer_ranks", "holes", "YQ== 0\r\nYg== 70\r\nYWI= 300\r\n\r\n")


def safetensors(tensors):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, contents) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(contents)]}
        data += contents
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + data


def all_safetensors():
    write("safetensors", "weights", safetensors({
        "a": ("F32", [2, 3], struct.pack("<6f", 1, -2, 3, 4, 5, 6)), "b": ("BF16", [2], b"\x80\x3f\0\0"),
        "c": ("F16", [1, 1], b"\0\x3c"), "d": ("F64", [], struct.pack("<d", 0.5)), "e": ("F8_E4M3", [3], b"abc"),
        "empty": ("F32", [0, 7], b"")}))
    ids = struct.pack("<6q", 1, 2, 3, 4, 5, 0)
    write("safetensors", "rows", safetensors({
        "input_ids": ("I64", [2, 3], ids), "labels": ("I64", [2, 3], struct.pack("<6q", 1, 2, 3, -100, 5, -100))}))
    write("safetensors", "rows16", safetensors({"input_ids": ("I16", [1, 2], b"\1\0\2\0"), "labels": ("U8", [1, 2], b"\1\2")}))


def gguf_text(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf():
    values = [
        ("general.architecture", 8, gguf_text("llama")), ("general.alignment", 4, struct.pack("<I", 32)),
        ("a.u8", 0, b"\1"), ("a.i16", 3, b"\xff\xff"), ("a.f32", 6, struct.pack("<f", 1e-5)), ("a.bool", 7, b"\1"),
        ("a.u64", 10, struct.pack("<Q", 7)), ("a.f64", 12, struct.pack("<d", 0.1)),
        ("t.tokens", 9, struct.pack("<IQ", 8, 2) + gguf_text("a") + gguf_text("b")),
        ("t.scores", 9, struct.pack("<IQ2f", 6, 2, 0, -1)), ("t.flags", 9, struct.pack("<IQ", 7, 2) + b"\0\1"),
        ("t.none", 9, struct.pack("<IQ", 5, 0))]
    tensors = [("wide", [3, 2], 30, 12), ("flat", [5], 0, 20), ("deep", [2, 1, 2, 1], 1, 8), ("packed", [32], 8, 34)]
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(values))
    header += b"".join(gguf_text(key) + struct.pack("<I", kind) + value for key, kind, value in values)
    data = b""
    for name, shape, kind, size in tensors:
        header += gguf_text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += b"\x3f" * size + b"\0" * (-size % 32)
    write("gguf", "tensors", header + b"\0" * (-len(header) % 32) + data)
    write("gguf", "metadata", b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + gguf_text("k") + struct.pack("<Ii", 5, -1))


def jsonl():
    lines = [{"text": "one é\n"}, {"prompt": "a", "completion": "b"}, {"text": ""},
             {"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "u"},
                           {"role": "assistant", "content": "a\ud83d\ude00"}]}]
    write("jsonl", "good", "\ufeff" + "\r\n".join(json.dumps(line) for line in lines))
    write("jsonl", "bad", '{"text": 1}\n\nnot json\n[]\n{"messages": []}\n{"messages": [{"role": "cook"}]}\n{"text": "good"}\n')
    write("jsonl", "deep", '{"text": "a", "more": ' + "[" * 1000 + "]" * 1000 + "}\n")
    write("jsonl", "numbers", '{"text": "a", "n": 1e308}\n{"text": "b", "n": 1e309}\n{"text": "c", "n": -1e-999}\n')


def bin_files():
    write("bin", "plain", struct.pack("<4H", 1, 2, 50256, 3))
    write("bin", "wide", struct.pack("<3I", 1, 70000, 3))
    for name, magic, version, letter in [("llmc16", 20240520, 1, "H"), ("llmc32", 20240801, 7, "I")]:
        write("bin", name, struct.pack("<256i", magic, version, 5, *[0] * 253) + struct.pack(f"<5{letter}", 1, 2, 3, 4, 5))


def model_config():
    for model in ["gpt2", "llama3-rope", "qwen2", "qwen3"]:
        write("model_config", model, (SEEDS.parents[1] / "golden" / model / "config.json").read_text())


def chat_template():
    turn = "{{ '<|im_start|>' + message['role'] + '\\n' + message.content | trim + '<|im_end|>\\n' }}"
    write("chat_template", "loop", "{%- for message in messages %}\n" + turn + "\n{%- endfor %}\n")
    write("chat_template", "rest", "{# all else #}{% set n = namespace(x=0, y=[1, 'a']) %}{% macro m() %}{% endmacro %}"
          "{% for m in messages[1:][::-1] %}{% if not loop.first and (n.x % 2 == 0 or m is defined) %}{% set n.x = n.x + 1 %}"
          "{{ (bos_token if 'r' in m.role else none) ~ m['content'].strip() ~ {'k': 1}['k'] }}{% elif tools %}x{% else %}"
          "{{ range(0, messages | length) | last }}{% endif %}{% endfor %}")


def token_cache():
    records = [(40, 20, 1, 2, 9, 0, 3), (60, 20, 3, 4, 5, 0, 0), (100, 10, 5, 6, 7, 1, 39)]
    write("token_cache", "documents", b"".join(struct.pack("<qqQQiIq", *record) for record in records))


def ledger():
    records = struct.pack("<dfB", 1.5, 0.5, 1) + struct.pack("<dfB", 2.5, 0.25, 0)
    grains = [struct.pack("<qdq", number, 3.5, 7) + records for number in [0, 2]]
    write("ledger", "two", b"gledger1" + struct.pack("<3q", 3, 2, len(grains)) + b"".join(grains))


def window_record():
    record = {"step": 3, "epoch": 1, "place": 28, "samples": 5, "grain_samples": 2, "ends_epoch": True, "is_short": True,
              "replay": 1, "rate": 0.01, "beta2": 0.95, "rounding_seed": 2**64 - 1, "units": [-40, -24]}
    write("window_record", "plain", json.dumps(record))
    write("window_record", "tokens", json.dumps(dict(record, counted_tokens=60)))


def packet_bytes(words, contents=b""):
    text = json.dumps(words, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + contents


def packet():
    window = {"first": {"epoch": 1, "place": 28}, "samples": 5, "grain_samples": 2, "ends_epoch": True, "is_short": True}
    write("packet", "window", packet_bytes(window))
    write("packet", "question", packet_bytes({"window": window, "grains": [0, 2]}))
    write("packet", "position", packet_bytes({"epoch": 1, "place": 28}))
    write("packet", "tokens", packet_bytes({"tokens": 60}))
    rows = struct.pack("<5i5i5i5Q", 5, 6, 7, 8, 9, 6, 7, -1, 9, -1, 0, 1, 2, 0, 1, 11, 12, 13, 14, 2**64 - 1)
    parts = struct.pack("<4q6q", 0, 3, 3, 2, 4, 0, 3, 7, 3, 2)
    write("packet", "batch", packet_bytes({"rows": 5, "segments": 2, "grains": 2}, rows + parts))
    write("packet", "report", packet_bytes({
        "step": 3, "window": window, "tokens": 60, "rate": 0.01, "beta2": 0.95, "clipped": False, "norm_mean": 1.5,
        "norm_variance": None, "skipped": True, "skip_reason": "not finite", "lowers_loss_scale": True, "replays": 1,
        "loss": 2.5, "grad_norm": 0.5, "noise_scale": 7.5, "bad_grain": 2, "loss_scale": 1024}))


def wire_number(number):
    """A variable-length number of protobuf; negative ones have ten bytes."""
    number %= 2**64
    out = b""
    while number > 127:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def wire_fields(*fields):
    """Fields of a message: numbers, or bytes that stand for text, bytes and messages."""
    out = b""
    for place, value in fields:
        if isinstance(value, int):
            out += wire_number(place * 8) + wire_number(value)
        else:
            out += wire_number(place * 8 + 2) + wire_number(len(value)) + value
    return out


def wire_message():
    caller = wire_fields((1, b"0.1.0"), (2, b"runs/1"), (3, b"secret"), (4, b"worker"), (5, 1), (6, 2), (7, 9), (8, 2000))
    record = {"step": 3, "epoch": 1, "place": 28, "samples": 5, "grain_samples": 2, "ends_epoch": True, "is_short": True,
              "replay": 1, "rate": 0.01, "beta2": 0.95, "rounding_seed": 7, "units": [-40, -24]}
    records = struct.pack("<dfB", 1.5, 0.5, 1) + struct.pack("<dfB", 2.5, 0.25, 0)
    grains = [struct.pack("<qdq", number, 3.5, 7) + records for number in [0, 2]]
    finished = b"gledger1" + struct.pack("<3q", 3, 2, len(grains)) + b"".join(grains)
    mine = wire_fields((1, 3), (2, 2), (3, finished))
    write("wire_message", "caller", b"\0" + caller)
    write("wire_message", "begin", b"\1" + wire_fields((1, caller), (2, json.dumps(record).encode()), (3, mine)))
    write("wire_message", "agreed", b"\2" + wire_fields((2, wire_fields((1, mine), (2, 1)))))
    write("wire_message", "roster", b"\3" + wire_fields(
        (1, 1), (2, 4), (3, 1), (4, b"a"), (4, b"b"), (5, wire_number(3) + wire_number(-1)), (6, 1)))
    write("wire_message", "vote", b"\4" + wire_fields(
        (1, caller), (2, 1), (3, struct.pack("<2Q", 5, 2**64 - 1)), (4, struct.pack("<2Q", 1, 2))))
    write("wire_message", "refusal", b"\5" + wire_fields((2, b"the run has ended")))


for make in [tokenizer_json, tokenizer_ranks, all_safetensors, gguf, jsonl, bin_files, model_config, chat_template, token_cache,
             ledger, window_record, packet, wire_message]:
    make()
