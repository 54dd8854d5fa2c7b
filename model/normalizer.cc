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
    if (is_newer_than_unicode_9(next.code_point)) {
      out.push_back(code_point);
      continue;
    }
    utf8proc_int32_t parts[32];  // the longest decomposition of one character is 18
    int boundary = 0;
    const auto count = utf8proc_decompose_char(code_point, parts, 32,
                                               static_cast<utf8proc_option_t>(options), &boundary);
    check(count >= 0 && count <= 32, "decomposition of U+", code_point, " gave ", count);
    out.insert(out.end(), parts, parts + count);
  }
}

int combining_class(utf8proc_int32_t code_point) {
  const int found = utf8proc_get_property(code_point)->combining_class;
  return found != 0 && is_newer_than_unicode_9(static_cast<char32_t>(code_point)) ? 0 : found;
}

// Canonical order by a stable sort: the library's own insertion sort is quadratic in the length of
// a run of marks, which a request could make a megabyte long.
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

// Composes between the characters that take no part; returns the new end.
utf8proc_int32_t* compose(utf8proc_int32_t* begin, utf8proc_int32_t* end) {
  constexpr auto kOptions = static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE);
  const auto is_newer = [](utf8proc_int32_t c) {
    return is_newer_than_unicode_9(static_cast<char32_t>(c));
  };
  utf8proc_int32_t* out = begin;
  while (begin != end) {
    utf8proc_int32_t* stop = std::find_if(begin, end, is_newer);
    const auto count = utf8proc_normalize_utf32(begin, stop - begin, kOptions);
    check(count >= 0, "composition failed with ", count);
    out = std::copy(begin, begin + count, out);
    if (stop != end) *out++ = *stop++;
    begin = stop;
  }
  return out;
}

std::string to_unicode_form(std::string_view text, bool is_compat, bool is_composed) {
  if (is_ascii(text)) return std::string(text);
  std::vector<utf8proc_int32_t> code_points;
  decompose(text, UTF8PROC_DECOMPOSE | (is_compat ? UTF8PROC_COMPAT : 0), code_points);
  order_marks(code_points);
  if (is_composed) {
    auto* begin = code_points.data();
    code_points.resize(static_cast<size_t>(compose(begin, begin + code_points.size()) - begin));
  }
  std::string out;
  out.reserve(text.size());
  for (const utf8proc_int32_t c : code_points) append_utf8(out, static_cast<char32_t>(c));
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

std::string replace(std::string_view text, const std::vector<ByteRange>& matches,
                    const std::string& content) {
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
      step.pattern = std::make_unique<const Regex>(
          p.is_regex ? Regex::from_oniguruma(p.text, p.where) : Regex::literal(p.text, p.where));
    }
    steps_.push_back(std::move(step));
  }
}

std::string Normalizer::apply(std::string_view text, RegexScratch& scratch,
                              bool& keeps_start) const {
  std::string now(text);
  keeps_start = true;
  for (const Step& step : steps_) now = apply_step(step, std::move(now), scratch, keeps_start);
  return now;
}

std::string Normalizer::apply_step(const Step& step, std::string text, RegexScratch& scratch,
                                   bool& keeps_start) {
  const NormalizerSpec& spec = step.spec;
  switch (spec.kind) {
    case NormalizerKind::kNfc:
      return to_unicode_form(text, false, true);
    case NormalizerKind::kNfd:
      return to_unicode_form(text, false, false);
    case NormalizerKind::kNfkc:
      return to_unicode_form(text, true, true);
    case NormalizerKind::kNfkd:
      return to_unicode_form(text, true, false);
    case NormalizerKind::kLowercase:
      return lowercase(text);
    case NormalizerKind::kReplace: {
      std::vector<ByteRange> matches;
      step.pattern->find_all(text, scratch, matches);
      if (!matches.empty() && matches[0].begin == 0) keeps_start = !spec.content.empty();
      return replace(text, matches, spec.content);
    }
    case NormalizerKind::kPrepend:
      if (!text.empty()) text.insert(0, spec.content);
      return text;
    case NormalizerKind::kStrip:
      if (spec.strip_left && !text.empty() && is_white_space(decode_utf8(text, 0).code_point)) {
        keeps_start = false;
      }
      return strip(text, spec.strip_left, spec.strip_right);
  }
  fail(ErrorKind::kInternal, "NormalizerKind value ", static_cast<int>(spec.kind));
}

}  // namespace colibri
