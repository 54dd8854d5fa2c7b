// The members of a JSON body from a client, read one by one. Internal to api_request.cc.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "coordinator/api_request.h"

namespace colibri {

// Templates see the order of keys.
using ApiJson = nlohmann::ordered_json;

// ApiError with 400: what came, shortened, and what was wanted.
[[noreturn]] void wrong_field(const std::string& key, const ApiJson& value,
                              const std::string& wanted);

// Each member is read once; what nobody asked for is refused. An explicit null counts as left out.
// Errors: ApiError with 400, naming the field.
class ApiFields {
 public:
  // `object` outlives it.
  explicit ApiFields(const ApiJson& object) : object_(object) {}

  const ApiJson* find(const std::string& key);
  std::optional<double> number(const std::string& key, double least, double most);
  std::optional<int64_t> integer(const std::string& key, int64_t least, int64_t most);
  bool boolean(const std::string& key, bool otherwise);
  std::string text(const std::string& key);
  // Accepted and of no effect.
  void ignore(std::initializer_list<const char*> keys) { read_.insert(keys.begin(), keys.end()); }
  void refuse_others() const;

 private:
  const ApiJson& object_;
  std::set<std::string> read_;
};

// A JSON object of bounded depth. Errors: ApiError with 400.
ApiJson parsed_body(std::string_view body);

std::vector<int32_t> ids_of_field(const std::string& key, const ApiJson& list);
bool is_list_of(const ApiJson& value, bool (ApiJson::*is_kind)() const noexcept);

}  // namespace colibri
