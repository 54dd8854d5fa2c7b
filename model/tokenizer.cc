#include "model/tokenizer.h"

#include <fstream>

#include "base/error.h"
#include "model/added_tokens.h"
#include "model/bpe.h"
#include "model/decoder.h"
#include "model/detokenizer.h"
#include "model/normalizer.h"
#include "model/pretokenizer.h"
#include "model/tokenizer_spec.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

constexpr size_t kMaxTextBytes = size_t{1} << 30;
constexpr uintmax_t kMaxFileBytes = uintmax_t{512} << 20;

std::string read_file(const std::filesystem::path& path, const std::string& what_to_do) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error) fail(ErrorKind::kInput, path.string(), ": ", error.message(), "; ", what_to_do);
  if (size > kMaxFileBytes) {
    fail(ErrorKind::kInput, path.string(), " is ", size, " bytes long, want at most ",
         kMaxFileBytes);
  }
  std::string text(static_cast<size_t>(size), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(size))) {
    fail(ErrorKind::kInput, path.string(), ": cannot read its ", size, " bytes; ", what_to_do);
  }
  return text;
}

}  // namespace

struct Tokenizer::Parts {
  explicit Parts(TokenizerSpec spec)
      : normalizer(spec.normalizers),
        added(std::move(spec.added_tokens), normalizer),
        pre_tokenizer(spec.pre_tokenizers),
        bpe(std::move(spec.bpe)),
        decoder(spec.decoders, spec.has_decoder),
        prefix_ids(std::move(spec.prefix_ids)),
        suffix_ids(std::move(spec.suffix_ids)),
        chat_template(std::move(spec.chat_template)),
        tool_chat_template(std::move(spec.tool_chat_template)),
        bos_id(spec.bos_id),
        eos_id(spec.eos_id),
        vocab_size(bpe.vocab().num_ids()) {
    for (const AddedTokenSpec& token : added.all()) {
      vocab_size = std::max(vocab_size, token.id + 1);
    }
  }

  Normalizer normalizer;
  AddedTokens added;
  PreTokenizer pre_tokenizer;
  Bpe bpe;
  Decoder decoder;
  std::vector<int32_t> prefix_ids, suffix_ids;
  std::string chat_template, tool_chat_template;
  std::optional<int32_t> bos_id, eos_id;
  int32_t vocab_size;
};

namespace {

// One call of encode(): the parts it uses and the memory it reuses.
template <class Parts>
class Encoding {
 public:
  Encoding(const Parts& parts, std::vector<int32_t>& ids) : parts_(parts), ids_(ids) {}

  void add(std::string_view text) {
    std::vector<AddedTokenCut> cuts;
    parts_.added.cut(text, AddedTokens::Stage::kRaw, regex_, cuts);
    for (const AddedTokenCut& cut : cuts) {
      if (cut.id != kNoToken) {
        ids_.push_back(cut.id);
      } else {
        add_raw(text.substr(cut.range.begin, cut.range.end - cut.range.begin),
                cut.range.begin == 0);
      }
    }
  }

 private:
  void add_raw(std::string_view text, bool starts_input) {
    std::string normalized;
    if (!parts_.normalizer.is_identity()) {
      bool keeps_start = true;
      normalized = parts_.normalizer.apply(text, regex_, keeps_start);
      starts_input = starts_input && keeps_start;
      text = normalized;
    }
    check_size(text.size());
    std::vector<AddedTokenCut> cuts;
    parts_.added.cut(text, AddedTokens::Stage::kNormalized, regex_, cuts);
    for (const AddedTokenCut& cut : cuts) {
      if (cut.id != kNoToken) {
        ids_.push_back(cut.id);
      } else {
        add_normalized(text.substr(cut.range.begin, cut.range.end - cut.range.begin),
                       starts_input && cut.range.begin == 0);
      }
    }
  }

  void add_normalized(std::string_view text, bool starts_input) {
    Pieces pieces{std::string(text), {{0, static_cast<uint32_t>(text.size())}}, starts_input};
    parts_.pre_tokenizer.apply(pieces, regex_);
    check_size(pieces.text.size());
    for (const ByteRange& range : pieces.ranges) {
      parts_.bpe.encode(std::string_view(pieces.text).substr(range.begin, range.end - range.begin),
                        bpe_, ids_);
    }
  }

  static void check_size(size_t num_bytes) {
    if (num_bytes >= 2 * kMaxTextBytes) {
      fail(ErrorKind::kInput, "the text grows to ", num_bytes,
           " bytes before it is split, want less than ", 2 * kMaxTextBytes);
    }
  }

  const Parts& parts_;
  std::vector<int32_t>& ids_;
  RegexScratch regex_;
  BpeScratch bpe_;
};

}  // namespace

Tokenizer::Tokenizer(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

Tokenizer Tokenizer::load(const TextOf& text_of, const std::string& where) {
  const std::optional<std::string> tokenizer_json = text_of("tokenizer.json");
  if (!tokenizer_json) {
    fail(ErrorKind::kInput, where,
         "/tokenizer.json: no such file; the model needs the checkpoint's ",
         "tokenizer: copy it there, or save it with transformers' "
         "AutoTokenizer.from_pretrained(...).save_pretrained(...)");
  }
  try {
    TokenizerSpec spec =
        parse_tokenizer(*tokenizer_json, text_of("tokenizer_config.json").value_or(""));
    if (auto chat_template = text_of("chat_template.jinja")) {
      spec.chat_template = std::move(*chat_template);
      spec.tool_chat_template.clear();
    }
    return Tokenizer(std::make_unique<const Parts>(std::move(spec)));
  } catch (const Error& error) {
    fail(error.kind(), where, ": ", error.what());
  }
}

Tokenizer Tokenizer::load(const std::filesystem::path& model_dir) {
  const auto text_of = [&](const std::string& name) -> std::optional<std::string> {
    if (!std::filesystem::exists(model_dir / name)) return std::nullopt;
    return read_file(model_dir / name, "make it readable or remove it");
  };
  return load(text_of, model_dir.string());
}

Tokenizer Tokenizer::from_json(std::string_view tokenizer_json,
                               std::string_view tokenizer_config_json) {
  return Tokenizer(
      std::make_unique<const Parts>(parse_tokenizer(tokenizer_json, tokenizer_config_json)));
}

std::vector<int32_t> Tokenizer::encode(std::string_view utf8, bool add_special_tokens) const {
  if (utf8.size() >= kMaxTextBytes) {
    fail(ErrorKind::kInput, "the text is ", utf8.size(), " bytes long, want less than ",
         kMaxTextBytes);
  }
  std::string repaired;
  if (!is_valid_utf8(utf8)) {
    repaired = replace_invalid_utf8(utf8);
    utf8 = repaired;
  }
  std::vector<int32_t> ids;
  ids.reserve(utf8.size() / 3 + 8);
  if (add_special_tokens) ids = parts_->prefix_ids;
  Encoding<Parts>(*parts_, ids).add(utf8);
  if (add_special_tokens) {
    ids.insert(ids.end(), parts_->suffix_ids.begin(), parts_->suffix_ids.end());
  }
  return ids;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special_tokens) const {
  Detokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const int32_t id : ids) text += detokenizer.push(id);
  return text + detokenizer.finish();
}

int32_t Tokenizer::vocab_size() const { return parts_->vocab_size; }

std::optional<int32_t> Tokenizer::token_to_id(std::string_view token) const {
  if (const AddedTokenSpec* added = parts_->added.find(token)) return added->id;
  const int32_t id = parts_->bpe.vocab().id_of(token);
  return id == kNoToken ? std::nullopt : std::optional(id);
}

std::optional<std::string_view> Tokenizer::token_text(int32_t id) const {
  if (const AddedTokenSpec* added = parts_->added.find(id)) return added->content;
  const TokenTable& vocab = parts_->bpe.vocab();
  return vocab.has(id) ? std::optional(vocab.text_of(id)) : std::nullopt;
}

std::string Tokenizer::token_bytes(int32_t id) const {
  const auto text = token_text(id);
  if (!text) return {};
  return is_special(id) ? std::string(*text) : parts_->decoder.token_bytes(*text);
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedTokenSpec* added = parts_->added.find(id);
  return added != nullptr && added->special;
}

std::optional<int32_t> Tokenizer::bos_id() const { return parts_->bos_id; }
std::optional<int32_t> Tokenizer::eos_id() const { return parts_->eos_id; }
const std::string& Tokenizer::chat_template() const { return parts_->chat_template; }
const std::string& Tokenizer::tool_chat_template() const { return parts_->tool_chat_template; }
const Decoder& Tokenizer::decoder() const { return parts_->decoder; }

}  // namespace colibri
