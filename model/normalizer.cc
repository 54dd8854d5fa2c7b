#include "model/normalizer.h"

#include <utf8proc.h>

#include <algorithm>

#include "base/error.h"
#include "model/tokenizer_utf8.h"

namespace colibri {
namespace {

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

void decompose(std::string_view text, int options, std::vector<utf8proc_int32_t>& out) {
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = decode_utf8(text, at);
    at += next.num_bytes;
    const auto code_point = static_cast<utf8proc_int32_t>(next.code_point);
    utf8proc_int32_t parts[32];  // the longest decomposition of one character is 18
    int boundary = 0;
    const auto count = utf8proc_decompose_char(
        code_point, parts, 32, static_cast<utf8proc_option_t>(options), &boundary);
    check(count >= 0 && count <= 32, "decomposition of U+", code_point, " gave ", count);
    out.insert(out.end(), parts, parts + count);
  }
}

int combining_class(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Canonical order by a stable sort: the library's own insertion sort is quadratic in the length of a
// run of marks, which a request could make a megabyte long.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  std::vector<std::pair<int, utf8proc_int32_t>> run;
  for (size_t at = 0; at < text.size();) {
    run.clear();
    size_t end = at;
    for (; end < text.size(); ++end) {
      const int mark_class = combining_class(text[end]);
      if (mark_class == 0) break;
      run.emplace_back(mark_class, text[end]);
    }
    std::stable_sort(run.begin(), run.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = 0; i < run.size(); ++i) text[at + i] = run[i].second;
    at = end + (run.empty() ? 1 : 0);
  }
}

std::string to_unicode_form(std::string_view text, bool is_compat, bool is_composed) {
  if (is_ascii(text)) return std::string(text);
  std::vector<utf8proc_int32_t> code_points;
  decompose(text, UTF8PROC_DECOMPOSE | (is_compat ? UTF8PROC_COMPAT : 0), code_points);
  order_marks(code_points);
  auto count = static_cast<utf8proc_ssize_t>(code_points.size());
  if (is_composed) {
    count = utf8proc_normalize_utf32(code_points.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    check(count >= 0, "composition failed with ", count);
  }
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    append_utf8(out, static_cast<char32_t>(code_points[static_cast<size_t>(i)]));
  }
  return out;
}

// Each character by itself, without context.
std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const Utf8Char next = decode_utf8(text, at);
    at += next.num_bytes;
    if (next.code_point == 0x130) {  // the one character whose lower case is two
      out += "i\xcc\x87";
      continue;
    }
    append_utf8(out, static_cast<char32_t>(
                         utf8proc_tolower(static_cast<utf8proc_int32_t>(next.code_point))));
  }
  return out;
}

std::string strip(std::string_view text, bool is_left, bool is_right) {
  size_t begin = 0, end = text.size();
  for (size_t at = 0; is_left && at < text.size();) {
    const Utf8Char next = decode_utf8(text, at);
    if (!is_white_space(next.code_point)) break;
    begin = at += next.num_bytes;
  }
  while (is_right && end > begin) {
    size_t at = end - 1;
    while (at > begin && (static_cast<unsigned char>(text[at]) & 0xc0) == 0x80) --at;
    if (!is_white_space(decode_utf8(text, at).code_point)) break;
    end = at;
  }
  return std::string(text.substr(begin, end - begin));
}

std::string replace(std::string_view text, const Regex& pattern, const std::string& content,
                    RegexScratch& scratch) {
  std::vector<ByteRange> matches;
  pattern.find_all(text, scratch, matches);
  std::string out;
  out.reserve(text.size() + matches.size() * content.size());
  size_t at = 0;
  for (const ByteRange& match : matches) {
    out += text.substr(at, match.begin - at);
    out += content;
    at = match.end;
  }
  out += text.substr(at);
  return out;
}

}  // namespace

Normalizer::Normalizer(const std::vector<NormalizerSpec>& steps) {
  for (const NormalizerSpec& spec : steps) {
    Step step{spec, nullptr};
    if (spec.kind == NormalizerKind::kReplace) {
      const PatternSpec& p = spec.pattern;
      step.pattern = std::make_unique<const Regex>(p.is_regex ? Regex::from_oniguruma(p.text, p.where)
                                                              : Regex::literal(p.text, p.where));
    }
    steps_.push_back(std::move(step));
  }
}

std::string Normalizer::apply(std::string_view text, RegexScratch& scratch) const {
  std::string now(text);
  for (const Step& step : steps_) {
    switch (step.spec.kind) {
      case NormalizerKind::kNfc:
        now = to_unicode_form(now, false, true);
        break;
      case NormalizerKind::kNfd:
        now = to_unicode_form(now, false, false);
        break;
      case NormalizerKind::kNfkc:
        now = to_unicode_form(now, true, true);
        break;
      case NormalizerKind::kNfkd:
        now = to_unicode_form(now, true, false);
        break;
      case NormalizerKind::kLowercase:
        now = lowercase(now);
        break;
      case NormalizerKind::kReplace:
        now = replace(now, *step.pattern, step.spec.content, scratch);
        break;
      case NormalizerKind::kPrepend:
        if (!now.empty()) now.insert(0, step.spec.content);
        break;
      case NormalizerKind::kStrip:
        now = strip(now, step.spec.strip_left, step.spec.strip_right);
        break;
    }
  }
  return now;
}

}  // namespace colibri
