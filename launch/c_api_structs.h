// The structs of colibri.h on their way in and out: sizes of older and newer programs, defaults,
// and what of them becomes options and requests.
#pragma once

#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "coordinator/answer.h"
#include "coordinator/request.h"
#include "launch/colibri.h"
#include "launch/run_config.h"
#include "launch/served_model.h"

namespace colibri {

// The name of a struct, and the size of its shortest form: what a program needs at the least.
template <class T>
struct StructForm;
template <>
struct StructForm<colibri_options> {
  static constexpr const char* kName = "colibri_options";
  static constexpr size_t kLeast = offsetof(colibri_options, ranks);
};
template <>
struct StructForm<colibri_request> {
  static constexpr const char* kName = "colibri_request";
  static constexpr size_t kLeast = offsetof(colibri_request, prompt_ids);
};
template <>
struct StructForm<colibri_result> {
  static constexpr const char* kName = "colibri_result";
  static constexpr size_t kLeast = offsetof(colibri_result, text);
};
template <>
struct StructForm<colibri_info> {
  static constexpr const char* kName = "colibri_info";
  static constexpr size_t kLeast = offsetof(colibri_info, max_context);
};
template <>
struct StructForm<colibri_error> {
  static constexpr const char* kName = "colibri_error";
  static constexpr size_t kLeast = offsetof(colibri_error, text) + 64;
};

// Of the struct at `given`. Errors: kInput where it is null or its size is none that a program can
// mean.
size_t checked_size(const void* given, const char* name, size_t least, size_t ours);

// Fails with kUnsupported where bytes beyond `ours` are not zero: a field this version lacks.
void check_unknown_fields(const void* given, const char* name, size_t ours);

// The caller's struct, over `values` where it is shorter. Errors: those of both above.
template <class T>
T read_struct(const T* given, T values) {
  const size_t size =
      checked_size(given, StructForm<T>::kName, StructForm<T>::kLeast, sizeof values);
  check_unknown_fields(given, StructForm<T>::kName, sizeof values);
  std::memcpy(&values, given, size < sizeof values ? size : sizeof values);
  return values;
}

// Writes what the caller's struct has room for, zero where it is longer; its size stays. Errors:
// those of checked_size.
template <class T>
void write_struct(T* out, T values) {
  const size_t size = checked_size(out, StructForm<T>::kName, StructForm<T>::kLeast, sizeof values);
  values.struct_size = size;
  std::memcpy(out, &values, size < sizeof values ? size : sizeof values);
  if (size > sizeof values) {
    std::memset(reinterpret_cast<char*>(out) + sizeof values, 0, size - sizeof values);
  }
}

colibri_request default_request();

int code_of(ErrorKind kind);

// The text cut to what fits, in whole characters.
void write_error(colibri_error* out, int code, std::string_view text);

// Errors: kInput and kUnsupported naming the command line's flag of the field, or the field.
CommonOptions common_options_of(const colibri_options& options);
// Hands lines to options.log, each call inside `around`; null: says nothing.
Logger make_logger_of(const colibri_options& options,
                      const std::function<void(const std::function<void()>&)>& around);

// The prompt alone. Errors: kInput where not exactly one form is given, or it is no prompt of this
// model; those of the tokenizer and the chat template.
std::vector<int32_t> prompt_ids_of(const colibri_request& request, const ServedFacts& facts);
// All but callbacks. Errors: those of the prompt; kInput naming a field out of range.
Request request_of(const colibri_request& request, const ServedFacts& facts);
std::vector<std::string> stops_of(const colibri_request& request, const ServedFacts& facts);

// A result with memory of its own for text (null: none) and ids. Fails with std::bad_alloc.
colibri_result make_result(const std::string* text, const std::vector<int32_t>& ids);

}  // namespace colibri
