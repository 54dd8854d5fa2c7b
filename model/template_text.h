// Python's operations on strings, over UTF-8; positions count characters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace colibri::jinja {

enum class Side : uint8_t { kLeft = 1, kRight = 2, kBoth = 3 };

bool is_python_space(char32_t code_point);
std::vector<std::string_view> characters(std::string_view text);
int64_t num_characters(std::string_view text);

// str.strip and its kin; without `chars` whitespace goes.
std::string_view strip(std::string_view text, std::optional<std::string_view> chars, Side side);
// str.split at a separator, at most `limit` times (below 0: no limit); `separator` is not empty.
std::vector<std::string_view> split(std::string_view text, std::string_view separator,
                                    int64_t limit);
// str.rsplit at a separator.
std::vector<std::string_view> rsplit(std::string_view text, std::string_view separator,
                                     int64_t limit);
// str.split() at runs of whitespace.
std::vector<std::string_view> split_words(std::string_view text, int64_t limit);
std::vector<std::string_view> split_lines(std::string_view text);
// str.replace; an empty `old` stands between all characters. `limit` below 0: no limit.
std::string replace(std::string_view text, std::string_view old, std::string_view by,
                    int64_t limit);
int64_t count(std::string_view text, std::string_view part);

std::string upper(std::string_view text);
std::string lower(std::string_view text);
std::string capitalize(std::string_view text);
// str.title: letters after anything but a letter.
std::string title(std::string_view text);
// The title filter's: characters after whitespace, '-' or an opening bracket.
std::string title_words(std::string_view text);
// Python's repr of a string.
std::string quoted(std::string_view text);

}  // namespace colibri::jinja
