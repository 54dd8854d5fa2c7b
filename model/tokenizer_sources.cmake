# Sources and libraries of the tokenizer.
find_package(PkgConfig REQUIRED)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)

set(COLIBRI_TOKENIZER_SOURCES
  added_tokens.cc
  bpe.cc
  decoder.cc
  detokenizer.cc
  normalizer.cc
  normalizer_unicode.cc
  pretokenizer.cc
  token_table.cc
  tokenizer.cc
  tokenizer_json.cc
  tokenizer_json_config.cc
  tokenizer_json_parts.cc
  tokenizer_json_reader.cc
  tokenizer_json_scan.cc
  tokenizer_regex.cc
  tokenizer_regex_syntax.cc
  tokenizer_utf8.cc)
set(COLIBRI_TOKENIZER_LIBRARIES PkgConfig::pcre2 PkgConfig::utf8proc)
