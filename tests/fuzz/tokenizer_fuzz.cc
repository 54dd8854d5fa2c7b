// Bytes before the first zero byte are tokenizer.json, those up to the next tokenizer_config.json,
// the rest is text. Whatever they are, loading and encoding either work or throw Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const auto take = [&rest] {
    const std::string_view part = rest.substr(0, rest.find('\0'));
    rest.remove_prefix(part.size() < rest.size() ? part.size() + 1 : rest.size());
    return part;
  };
  const std::string_view tokenizer_json = take();
  const std::string_view config_json = take();
  try {
    const auto tokenizer = colibri::Tokenizer::from_json(tokenizer_json, config_json);
    const auto ids = tokenizer.encode(rest);
    for (const int32_t id : ids) {
      if (!tokenizer.token_text(id)) __builtin_trap();  // every id encode gives is a token
    }
    tokenizer.decode(ids, false);
    tokenizer.decode(ids, true);
  } catch (const colibri::Error&) {
  }
  return 0;
}
