#include "coordinator/json_bounds.h"

#include <nlohmann/json.hpp>
#include <vector>

namespace colibri {
namespace {

class Look : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit Look(const JsonBounds& bounds) : bounds_(bounds) {}

  const std::string& fault() const { return fault_; }

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t&) override {
    if (++keys_.back() <= bounds_.max_keys) return true;
    fault_ = "has an object of more than " + std::to_string(bounds_.max_keys) + " keys";
    return false;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override {
    fault_ = "is not JSON";
    return false;
  }

 private:
  bool open() {
    keys_.push_back(0);
    if (keys_.size() <= bounds_.max_depth) return true;
    fault_ = "is nested deeper than " + std::to_string(bounds_.max_depth);
    return false;
  }
  bool close() {
    keys_.pop_back();
    return true;
  }

  JsonBounds bounds_;
  std::vector<size_t> keys_;  // of each value that is open
  std::string fault_;
};

}  // namespace

std::string json_fault(std::string_view text, const JsonBounds& bounds) {
  Look look(bounds);
  nlohmann::json::sax_parse(text, &look);
  return look.fault();
}

}  // namespace colibri
