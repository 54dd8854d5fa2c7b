#include "coordinator/api_fields.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "coordinator/json_bounds.h"

namespace colibri {
namespace {

int64_t checked_integer(const std::string& key, const ApiJson& value, int64_t least, int64_t most) {
  const bool is_large = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || is_large || value.get<int64_t>() < least ||
      value.get<int64_t>() > most) {
    wrong_field(key, value,
                "an integer from " + std::to_string(least) + " to " + std::to_string(most));
  }
  return value.get<int64_t>();
}

}  // namespace

void wrong_field(const std::string& key, const ApiJson& value, const std::string& wanted) {
  std::string came = value.dump(-1, ' ', false, ApiJson::error_handler_t::replace);
  if (came.size() > 60) came = came.substr(0, 60) + "...";
  throw ApiError(400, key, "'" + key + "' is " + came + ", want " + wanted);
}

const ApiJson* ApiFields::find(const std::string& key) {
  read_.insert(key);
  const auto at = object_.find(key);
  return at == object_.end() || at->is_null() ? nullptr : &*at;
}

std::optional<double> ApiFields::number(const std::string& key, double least, double most) {
  const ApiJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number() || value->get<double>() < least || value->get<double>() > most) {
    wrong_field(key, *value,
                "a number from " + ApiJson(least).dump() + " to " + ApiJson(most).dump());
  }
  return value->get<double>();
}

std::optional<int64_t> ApiFields::integer(const std::string& key, int64_t least, int64_t most) {
  const ApiJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  return checked_integer(key, *value, least, most);
}

bool ApiFields::boolean(const std::string& key, bool otherwise) {
  const ApiJson* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) wrong_field(key, *value, "true or false");
  return value->get<bool>();
}

std::string ApiFields::text(const std::string& key) {
  const ApiJson* value = find(key);
  if (value == nullptr) return "";
  if (!value->is_string()) wrong_field(key, *value, "a string");
  return value->get<std::string>();
}

void ApiFields::refuse_others() const {
  for (const auto& [key, value] : object_.items()) {
    if (read_.contains(key)) continue;
    throw ApiError(400, key, "'" + key + "' is not supported here");
  }
}

ApiJson parsed_body(std::string_view body) {
  const std::string fault = json_fault(body);
  if (!fault.empty()) throw ApiError(400, "", "the body " + fault);
  ApiJson object = ApiJson::parse(body);
  if (!object.is_object()) throw ApiError(400, "", "the body is no JSON object");
  return object;
}

std::vector<int32_t> ids_of_field(const std::string& key, const ApiJson& list) {
  std::vector<int32_t> ids;
  for (const ApiJson& id : list) {
    ids.push_back(static_cast<int32_t>(checked_integer(key, id, 0, INT32_MAX)));
  }
  return ids;
}

bool is_list_of(const ApiJson& value, bool (ApiJson::*is_kind)() const noexcept) {
  return value.is_array() && !value.empty() &&
         std::all_of(value.begin(), value.end(),
                     [is_kind](const ApiJson& one) { return (one.*is_kind)(); });
}

}  // namespace colibri
