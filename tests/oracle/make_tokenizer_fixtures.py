"""Makes tests/data/tokenizers/: small tokenizers and what the `tokenizers` package says about them.

    python3 -m venv VENV && VENV/bin/pip install -r tests/oracle/requirements-tokenizers.txt
    VENV/bin/python tests/oracle/make_tokenizer_fixtures.py

The first five carry the normalizer, split patterns, decoder and post-processor of a released family
over a small vocabulary trained here; the mixed ones cover the components those families do not use.

fragments.json   pieces of text; string i of a tokenizer is made of 1 to 12 of them (see `make_string`,
                 which tests/model/tokenizer_oracle_test.cc repeats)
NAME/hashes.bin  3 bytes a string: 16 bits of the hash of its ids (specials included), 8 bits of the hash
                 of decode(ids) and decode(ids, skip_special_tokens=True)
demo_ids.json    texts and their ids by the demo model's tokenizer
"""

import json
import random
import sys
import unicodedata
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers import processors, trainers

ROOT = Path(__file__).resolve().parents[2]
OUT = ROOT / "tests/data/tokenizers"
MASK64 = (1 << 64) - 1

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
GLM = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
            r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]

WORDS = """the of and to in is that it was for on are as with his they at be this from have or by one had
not but what all were when we there can an your which their said if do will each about how up out them then
she many some so these would other into has more her two like him see time could no make than first been its
who now people my made over did down only way find use may water long little very after words called just
where most know Hello World HELLO naïve café Straße ÉCOLE don't I'm you'll we've they're he'd it's IT'S
DON'T I'LL 'Re ſ's tokenization antidisestablishmentarianism quixotic e-mail""".split()
CODE = ["def f(x):\n    return x + 1\n", "for (int i = 0; i < n; ++i) {\n\t", "if x == None:", "std::vector<int>",
        "#include <stdio.h>\n", "a[i] = b[j]->c;", "==", "!=", "=>", "->", "...", "/* c */", "// x\n", "$x", "@y",
        "{}", "()", "[]", "\\n", "\"q\"", "'s", "`", "~", "^", "|", "||", "&&", "%d", "0x1F", "1e-5", "3.14159",
        "_x_", "camelCase", "snake_case", "http://a.b/c?d=e&f=g#h", "a@b.org", "<b>", "</b>", "<0x41>", "<0xE4>"]
SPACES = [" ", "  ", "   ", "    ", "        ", "\t", "\t\t", "\n", "\n\n", "\r\n", "\r", " \n ", "\n  ", "\u00a0",
          "\u3000", "\u2003", "\u200b", "\u2028", "\u0085", "\x0b", "\x0c", "\u1680", "\u180e", "\u202f", "\ufeff",
          " " * 15, " " * 24, " " * 40, "\n" * 7]
DIGITS = ["0", "7", "42", "123", "2024", "1234567890", "１２３", "٣٤٥", "Ⅷ", "½", "²", "१२", "①", "3,141.59"]
EMOJI = ["😀", "👨‍👩‍👧‍👦", "👩🏽‍💻", "🏳️‍🌈", "🇩🇪", "❤️", "⚙", "🧑‍🚀", "🤷🏿‍♀️", "☕️", "🫠"]
CJK = ["你好", "世界", "的", "一二三", "漢字とかな", "カタカナ", "ひらがな", "ﾊﾝｶｸ", "한국어", "안녕하세요", "，", "。", "「」",
       "龥", "龦", "𠮷", "ー", "ｶﾞ", "が", "が"]
SCRIPTS = ["สวัสดีชาวโลก", "ภาษาไทย", "مرحبا بالعالم", "السَّلامُ", "שלום", "שָׁלוֹם", "Привет, мир", "Ёлка", "Ελληνικά",
           "नमस्ते दुनिया", "हिन्दी", "தமிழ்", "ខ្មែរ", "မြန်မာ", "Tiếng Việt", "Türkçe İstanbul ı", "ქართული", "አማርኛ", "각", "각"]
MARKS = ["e\u0301", "e\u0301\u0323", "e\u0323\u0301", "\u0301", "\u0323\u0301\u0323", "A\u030a", "\u212b", "ﬁ", "ﬀ", "ǆ",
         "q\u0307\u0323", "\u1e0b\u0323", "ệ", "\u0344", "\u0958", "\u2126", "\uff21", "ẛ̣", "o\u0328\u0304", "i\u0307", "İ", "ŉ",
         "\u0f71\u0f72\u0f74", "\u0f73", "\u09c7\u09be", "\U0001d15e", "\ufdfa", "\u1100\u1161\u11a8", "\uac00\u11a8"]
CONTROL = ["\x00", "\x01", "\x07", "\x08", "\x1b[0m", "\x1c", "\x1f", "\x7f", "\u0080", "\u009f", "\u200d", "\u200e", "\ufffd",
           "\ufffe", "\U0010ffff", "\ue000", "\u2060"]
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<tool_call>", "<｜begin▁of▁sentence｜>",
            "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>",
            "<|padding|>", "|||IP_ADDRESS|||", "<s>", "</s>", "<unk>", "[INST]", "<|im_", "<|endoftext|", "<s", "▁", "▁▁",
            "[left]", "[right]", "[word]", "[WORD]", "[both]", "ＮＯＲＭ", "norm", "<mask>"]


def random_characters(count):
    """Characters of Unicode 14, so that a library of that version or a later one agrees on them."""
    source = random.Random(20240607)
    out = []
    while len(out) < count:
        c = source.choice([source.randrange(0x80, 0x3000), source.randrange(0x80, 0x10000), source.randrange(0x10000, 0x20000)])
        if unicodedata.category(chr(c)) not in ("Cn", "Cs"):
            out.append(chr(c))
    return out


def make_fragments():
    words = WORDS + [" " + w for w in WORDS]
    rest = CODE + SPACES + DIGITS + EMOJI + CJK + SCRIPTS + MARKS + CONTROL + SPECIALS
    return words + rest + random_characters(400)


class Generator:
    def __init__(self, index):
        self.state = ((index + 1) * 0x9E3779B97F4A7C15) & MASK64

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) & MASK64
        return (self.state >> 33) % n


def make_string(index, fragments):
    generator = Generator(index)
    count = 1 + generator.below(12)
    return "".join(fragments[generator.below(len(fragments))] for _ in range(count))


def fnv(data, value=0x811C9DC5):
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def record(ids, plain, skipped):
    of_ids = fnv(b"".join(i.to_bytes(4, "little") for i in ids))
    of_text = fnv(skipped.encode(), fnv(plain.encode()))
    of_text ^= of_text >> 16
    return (((of_ids >> 16) ^ of_ids) & 0xFFFF).to_bytes(2, "little") + bytes([(of_text ^ (of_text >> 8)) & 0xFF])


def byte_level(**options):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, **options)


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def added(content, **flags):
    special = flags.pop("special", True)
    return AddedToken(content, special=special, normalized=flags.pop("normalized", False), **flags)


def train(tokenizer, corpus, size, specials=(), **options):
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(specials), show_progress=False, **options)
    tokenizer.train_from_iterator(corpus, trainer)


def byte_level_bpe(corpus, size, normalizer, pre_tokenizer, tokens, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    train(tokenizer, corpus, size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.add_tokens(tokens)
    return tokenizer


def qwen3(corpus):
    tokens = [added(t) for t in ("<|endoftext|>", "<|im_start|>", "<|im_end|>")]
    tokens += [added(t, special=False) for t in ("<tool_call>", "<think>", "</think>")]
    tokenizer = byte_level_bpe(corpus, 1200, normalizers.NFC(), pre_tokenizers.Sequence(
        [split(QWEN), byte_level(use_regex=False)]), tokens)
    config = {"tokenizer_class": "Qwen2Tokenizer", "add_bos_token": False, "add_prefix_space": False, "bos_token": None,
              "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "unk_token": None}
    return tokenizer, config, None


def deepseek_v3(corpus):
    names = ("<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>")
    tokens = [added(t) for t in names] + [added(t, special=False) for t in ("<｜User｜>", "<｜Assistant｜>")]
    tokenizer = byte_level_bpe(corpus, 1400, normalizers.Sequence([]), pre_tokenizers.Sequence(
        [split(p) for p in DEEPSEEK] + [byte_level(use_regex=False)]), tokens)

    def named(content):
        return {"__type": "AddedToken", "content": content, "lstrip": False, "normalized": True, "rstrip": False,
                "single_word": False}
    config = {"tokenizer_class": "LlamaTokenizerFast", "add_bos_token": True, "add_eos_token": False,
              "bos_token": named(names[0]), "eos_token": named(names[1]), "pad_token": named(names[1]), "unk_token": None}
    return tokenizer, config, names[0]


def glm4(corpus):
    names = ("<|endoftext|>", "[gMASK]", "<sop>", "<|user|>", "<|assistant|>")
    tokenizer = byte_level_bpe(corpus, 1000, None, pre_tokenizers.Sequence([split(GLM), byte_level(use_regex=False)]), [],
                               ignore_merges=True)
    data = json.loads(tokenizer.to_str())
    for word in ("Ġantidisestablishmentarianism", "Ġquixotic", "tokenization"):  # whole tokens without merges
        data["model"]["vocab"].setdefault(word, len(data["model"]["vocab"]))
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.add_tokens([added(t) for t in names])
    ids = [(t, tokenizer.token_to_id(t)) for t in ("[gMASK]", "<sop>")]
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="[gMASK] <sop> $A", pair="[gMASK] <sop> $A $B", special_tokens=ids)])
    return tokenizer, {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|endoftext|>"}, None


def olmoe(corpus):
    tokens = [added("<|endoftext|>"), added("<|padding|>")]
    tokens += [added(" " * n, special=False, normalized=True) for n in range(24, 1, -1)]
    tokens += [added("|||IP_ADDRESS|||", special=False, normalized=True)]
    tokenizer = byte_level_bpe(corpus, 1100, normalizers.NFC(), byte_level(use_regex=True), tokens)
    config = {"tokenizer_class": "GPTNeoXTokenizer", "add_bos_token": False, "add_eos_token": False, "add_prefix_space": False,
              "bos_token": None, "eos_token": "<|endoftext|>", "pad_token": "<|padding|>", "unk_token": None}
    return tokenizer, config, None


def mixtral(corpus):
    names = ["<unk>", "<s>", "</s>"]
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")  # for training only
    train(tokenizer, corpus, 1500, names + [f"<0x{b:02X}>" for b in range(256)], limit_alphabet=250)
    data = json.loads(tokenizer.to_str())
    data["pre_tokenizer"] = None
    data["added_tokens"] = [t for t in data["added_tokens"] if t["content"] in names]
    tokenizer = Tokenizer.from_str(json.dumps(data))
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                           decoders.Strip(" ", 1, 0)])
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    config = {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False, "legacy": True, "bos_token": "<s>",
              "eos_token": "</s>", "unk_token": "<unk>", "pad_token": None,
              "added_tokens_decoder": {str(i): {"content": n, "lstrip": False, "normalized": False, "rstrip": False,
                                                "single_word": False, "special": True} for i, n in enumerate(names)}}
    return tokenizer, config, "<s>"


EDGES = [added("[left]", lstrip=True), added("[right]", rstrip=True), added("[both]", lstrip=True, rstrip=True, special=False),
         added("[word]", single_word=True, special=False, normalized=True), added("ＮＯＲＭ", special=False, normalized=True)]


def characters(corpus, normalizer, pre_tokenizer, decoder, size=700, **model):
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", **model))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    train(tokenizer, corpus, size, ["<unk>"], limit_alphabet=220)
    if decoder is not None:
        tokenizer.decoder = decoder
    tokenizer.add_tokens(EDGES)
    return tokenizer, None, None


def mixed_a(corpus):
    return characters(corpus, normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(),
                                                    normalizers.Replace(Regex(r"\s{2,}"), " ")]),
                      pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Punctuation("contiguous"),
                                               pre_tokenizers.Digits(individual_digits=True)]), None, fuse_unk=True)


def mixed_b(corpus):
    return characters(corpus, normalizers.Sequence([normalizers.NFKD(), normalizers.Strip(True, False)]),
                      pre_tokenizers.Metaspace(prepend_scheme="first"), decoders.Metaspace(prepend_scheme="first"))


def mixed_c(corpus):
    return characters(corpus, normalizers.NFD(), pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), split(r"[aeiou]", "merged_with_previous"), split(r"\d+|\w", "merged_with_next", True)]),
        decoders.Sequence([decoders.Replace(Regex("[xyz]"), "-"), decoders.Strip("e", 2, 0), decoders.Fuse(),
                           decoders.Replace("the", "THE"), decoders.Strip("t", 1, 0)]))


def mixed_d(corpus):
    return characters(corpus, normalizers.Replace("th", "ht"), pre_tokenizers.Sequence(
        [split(r"\b", "removed"), pre_tokenizers.Digits(), split(r"(?<=\p{Lu})\p{Ll}|$", "contiguous"),
         pre_tokenizers.Punctuation(), pre_tokenizers.Metaspace(prepend_scheme="always", split=False)]),
        decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never"), decoders.Fuse()]))


KINDS = {"qwen3": (qwen3, 100000), "deepseek_v3": (deepseek_v3, 100000), "glm4": (glm4, 100000), "olmoe": (olmoe, 100000),
         "mixtral": (mixtral, 100000), "mixed_a": (mixed_a, 15000), "mixed_b": (mixed_b, 15000), "mixed_c": (mixed_c, 15000),
         "mixed_d": (mixed_d, 15000)}


def write_kind(name, fragments, corpus):
    build, count = KINDS[name]
    tokenizer, config, bos = build(corpus)
    folder = OUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False), encoding="utf-8")
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if bos is not None:  # what the Llama classes of transformers do when they load
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{bos}:0 $A:0", special_tokens=[(bos, tokenizer.token_to_id(bos))])
    data = bytearray()
    for i in range(count):
        ids = tokenizer.encode(make_string(i, fragments)).ids
        data += record(ids, tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True))
    (folder / "hashes.bin").write_bytes(data)
    print(name, tokenizer.get_vocab_size(), "tokens,", count, "strings")


def write_demo():
    texts = ["", "ROMEO:", "Hello, world! It's 2024.", "  two  spaces\t\ttabs\n\n\nlines \r\n", "def f(x):\n    return x**2  # square\n",
             "naïve café e\u0301 Å \u212b ﬁ", "你好，世界 漢字とかな 한국어", "😀👨‍👩‍👧‍👦🇩🇪 ❤️", "\x00\x01\x1b[0m\x7f\u0085\u200b\ufeff", "สวัสดี مرحبا שלום नमस्ते",
             "<|im_start|>user\nhi<|im_end|>\n<|endoftext|>", "1234567890 ٣٤٥ ½ Ⅷ", "I'LL don't WE'VE 'sS", " " * 33 + "x" + "\n" * 9]
    tokenizer = Tokenizer.from_file(str(ROOT / "configs/models/demo/tokenizer.json"))
    cases = [{"text": t, "ids": tokenizer.encode(t).ids} for t in texts]
    (OUT / "demo_ids.json").write_text(json.dumps(cases, indent=0) + "\n")


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    fragments = make_fragments()
    (OUT / "fragments.json").write_text(json.dumps(fragments, indent=0) + "\n")
    corpus = [make_string(1000000 + i, fragments) for i in range(4000)] + [" ".join(WORDS)] * 20
    for name in sys.argv[1:] or KINDS:
        write_kind(name, fragments, corpus)
    write_demo()


if __name__ == "__main__":
    main()
