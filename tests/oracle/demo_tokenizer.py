"""The demo model's tokenizer: byte-level BPE trained on ASCII text, and its Hugging Face files."""

import re
from collections import Counter, defaultdict

SPECIAL_TOKENS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]

# The Qwen2 split pattern. The corpus is reduced to ASCII so that Python's `re`, which lacks the
# Unicode classes, can stand in for it during training.
HF_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
ASCII_PATTERN = re.compile(
    HF_PATTERN.replace(r"\p{L}", "A-Za-z")
    .replace(r"\p{N}", "0-9")
    .replace("]?A-Za-z+", "]?[A-Za-z]+")
    .replace("|0-9|", "|[0-9]|")
)

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def byte_alphabet():
    """Maps each byte to the printable character that stands for it in a byte-level BPE vocabulary."""
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, num_extra = {}, 0
    for byte in range(256):
        if byte in printable:
            table[byte] = chr(byte)
        else:
            table[byte] = chr(256 + num_extra)
            num_extra += 1
    return table


def to_alphabet(word, table):
    return "".join(table[byte] for byte in word.encode())


class PairCounts:
    """How often each pair of neighbouring symbols occurs, kept up to date while words are merged."""

    def __init__(self, words):
        self.words = words
        self.split = {word: list(word) for word in words}
        self.counts = Counter()
        self.where = defaultdict(set)
        for word in words:
            self._add(word)

    def _add(self, word):
        symbols = self.split[word]
        for pair in zip(symbols, symbols[1:]):
            self.counts[pair] += self.words[word]
            self.where[pair].add(word)

    def _remove(self, word):
        symbols = self.split[word]
        for pair in zip(symbols, symbols[1:]):
            self.counts[pair] -= self.words[word]
            self.where[pair].discard(word)

    def most_frequent(self):
        return max(self.counts.items(), key=lambda item: (item[1], item[0]))[0]

    def merge(self, pair):
        for word in list(self.where[pair]):
            self._remove(word)
            self.split[word] = merged(self.split[word], pair)
            self._add(word)
        self.counts.pop(pair, None)


def merged(symbols, pair):
    """The symbols with each occurrence of the pair, from the left, replaced by their concatenation."""
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(pair[0] + pair[1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


def train_bpe(docs, vocab_size):
    """Returns (vocabulary in id order, merges in rank order, an encoder for words of the corpus)."""
    table = byte_alphabet()
    vocab = sorted(table.values(), key=ord)
    words = Counter(
        to_alphabet(word, table) for text in docs for word in ASCII_PATTERN.findall(text)
    )
    pairs = PairCounts(words)
    merges = []
    while len(vocab) + len(SPECIAL_TOKENS) < vocab_size:
        best = pairs.most_frequent()
        merges.append(best)
        vocab.append(best[0] + best[1])
        pairs.merge(best)
    ids = {token: i for i, token in enumerate(vocab)}
    word_ids = {word: [ids[t] for t in symbols] for word, symbols in pairs.split.items()}

    def encode(text):
        found = ASCII_PATTERN.findall(text)
        return [i for word in found for i in word_ids[to_alphabet(word, table)]]

    return vocab, merges, encode


def added_token(idx, content):
    return {
        "id": idx,
        "content": content,
        "single_word": False,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "special": True,
    }


def tokenizer_json(vocab, merges):
    byte_level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": False,
        "use_regex": False,
    }
    split = {
        "type": "Split",
        "pattern": {"Regex": HF_PATTERN},
        "behavior": "Isolated",
        "invert": False,
    }
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [added_token(len(vocab) + i, s) for i, s in enumerate(SPECIAL_TOKENS)],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, byte_level]},
        "post_processor": byte_level,
        "decoder": byte_level,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": "",
            "end_of_word_suffix": "",
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(vocab)},
            "merges": [" ".join(pair) for pair in merges],
        },
    }


def tokenizer_config():
    return {
        "tokenizer_class": "Qwen2Tokenizer",
        "add_prefix_space": False,
        "add_bos_token": False,
        "bos_token": None,
        "eos_token": SPECIAL_TOKENS[0],
        "pad_token": SPECIAL_TOKENS[0],
        "unk_token": None,
        "model_max_length": 2048,
        "clean_up_tokenization_spaces": False,
        "split_special_tokens": False,
        "errors": "replace",
        "chat_template": CHAT_TEMPLATE,
    }
