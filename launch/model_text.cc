#include "launch/model_text.h"

#include <fstream>
#include <sstream>

#include "base/error.h"

namespace colibri {

std::string read_text_of(const std::string& path, const std::string& option) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad() || !file.is_open()) {
    fail(ErrorKind::kInput, option, " ", path, ": cannot be read; want a text file");
  }
  return text.str();
}

std::shared_ptr<const Tokenizer> load_tokenizer(const Checkpoint& checkpoint) {
  const auto text_of = [&](const std::string& name) { return checkpoint.text(name); };
  auto tokenizer =
      std::make_shared<const Tokenizer>(Tokenizer::load(text_of, checkpoint.path().string()));
  if (tokenizer->vocab_size() > checkpoint.config().vocab_size) {
    fail(ErrorKind::kInput, (checkpoint.path() / "tokenizer.json").string(), " has ids up to ",
         tokenizer->vocab_size() - 1, ", but config.json says vocab_size ",
         checkpoint.config().vocab_size, "; do they belong to one model?");
  }
  return tokenizer;
}

}  // namespace colibri
