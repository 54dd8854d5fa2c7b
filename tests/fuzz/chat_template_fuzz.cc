// Bytes before the first zero byte are a template, those after it the messages, in JSON. Whatever
// they are, compiling and rendering either work or throw Error, within small limits.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "model/chat_template.h"
#include "model/tokenizer_utf8.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const size_t end = all.find('\0');
  const std::string_view source = all.substr(0, end);
  colibri::ChatInput input;
  input.messages_json = end == std::string_view::npos
                            ? R"([{"role": "user", "content": "a"}, {"role": "assistant"}])"
                            : all.substr(end + 1);
  input.now.emplace();
  colibri::ChatTemplateLimits limits;
  limits.max_steps = 20'000;
  limits.max_output_bytes = 1 << 16;
  limits.max_made_bytes = 1 << 20;
  try {
    const colibri::ChatTemplate chat_template(source, limits);
    const std::string text = chat_template.render(input);
    if (text.size() > limits.max_output_bytes) __builtin_trap();
    if (!colibri::is_valid_utf8(text)) __builtin_trap();
  } catch (const colibri::Error& error) {
    if (error.kind() == colibri::ErrorKind::kInternal) __builtin_trap();
  }
  return 0;
}
