#include "coordinator/profile_service.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <nlohmann/json.hpp>

#include "coordinator/api_fields.h"
#include "coordinator/api_request.h"

namespace colibri {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxSteps = 1000000;
constexpr size_t kMaxParts = 8, kMaxPlace = 128;

bool is_safe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

// A client must not choose any place on the server.
void check_place(const std::string& place) {
  constexpr char kWanted[] =
      "a place below the server's --profile-dir: up to 8 words of letters, digits, '_', "
      "'-' and '.', joined by '/', none beginning with '.'";
  size_t num_parts = 0;
  for (size_t begin = 0; begin <= place.size(); ++num_parts) {
    const size_t end = std::min(place.find('/', begin), place.size());
    const std::string part = place.substr(begin, end - begin);
    const bool fits =
        !part.empty() && part.front() != '.' && std::all_of(part.begin(), part.end(), is_safe);
    if (!fits) wrong_field("output_dir", place, kWanted);
    begin = end + 1;
  }
  if (num_parts > kMaxParts || place.size() > kMaxPlace) wrong_field("output_dir", place, kWanted);
}

// "profile-20261130-194418-1".
std::string made_place() {
  static std::atomic<int> number = 0;
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  gmtime_r(&now, &parts);
  char text[40];
  std::strftime(text, sizeof text, "profile-%Y%m%d-%H%M%S-", &parts);
  return text + std::to_string(++number);
}

}  // namespace

ProfileRequest parse_profile_request(std::string_view body) {
  ProfileRequest request{.output_dir = made_place()};
  if (body.empty()) return request;
  const Json object = parsed_body(body);
  ApiFields fields(object);
  if (fields.find("output_dir") != nullptr) {
    request.output_dir = fields.text("output_dir");
    check_place(request.output_dir);
  }
  request.num_steps = fields.integer("num_steps", 1, kMaxSteps).value_or(0);
  fields.refuse_others();
  return request;
}

void check_stop_request(std::string_view body) {
  if (!body.empty()) ApiFields(parsed_body(body)).refuse_others();
}

void ProfileService::check_is_on() const {
  if (!directory_.empty()) return;
  throw ApiError(404, "", "this server keeps no profiles; start it with --profile-dir DIR");
}

std::string ProfileService::start(const ProfileRequest& request) {
  check_is_on();
  if (is_active()) throw ApiError(409, "", "a profile is under way in '" + output_dir_ + "'");
  tracer_->start(directory_ + "/" + request.output_dir);
  output_dir_ = request.output_dir;
  num_steps_left_ = request.num_steps;
  Json body = {{"output_dir", output_dir_}};
  if (request.num_steps > 0) body["num_steps"] = request.num_steps;
  return body.dump();
}

std::string ProfileService::stop() {
  check_is_on();
  if (!is_active()) throw ApiError(409, "", "no profile is under way");
  num_steps_left_ = 0;
  return Json{{"output_dir", output_dir_}, {"files", tracer_->stop()}}.dump();
}

}  // namespace colibri
