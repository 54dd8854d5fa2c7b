#include "topology/placement_file.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/error.h"

namespace colibri {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr int kMaxDepth = 5;  // the form itself is 4 deep
constexpr int kMaxRanks = 1 << 16;
constexpr std::uintmax_t kMaxFileBytes = std::uintmax_t{64} << 20;

std::string clip(const std::string& text) {
  return text.size() <= 80 ? text : text.substr(0, 80) + "...";
}

// Refuses deep nesting and keys that come twice while parsing, before anything is built on them.
class Guard {
 public:
  explicit Guard(const std::string& where) : where_(where) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& value) {
    if (depth > kMaxDepth) {
      fail(ErrorKind::kInput, where_, ": nested deeper than ", kMaxDepth, " levels");
    }
    if (event == Json::parse_event_t::object_start) {
      keys_.resize(static_cast<size_t>(depth) + 2);
      keys_[static_cast<size_t>(depth) + 1].clear();
    }
    if (event == Json::parse_event_t::key) {
      const auto key = value.get<std::string>();
      if (!keys_[static_cast<size_t>(depth)].insert(key).second) {
        fail(ErrorKind::kInput, where_, ": key '", clip(key), "' comes twice");
      }
    }
    return true;
  }

 private:
  const std::string& where_;
  std::vector<std::set<std::string>> keys_;  // of the open object at each depth
};

// A JSON object that knows where it is, for messages, and is read key by key.
class Fields {
 public:
  Fields(const Json& json, std::string where, const std::set<std::string>& known)
      : json_(json), where_(std::move(where)) {
    if (!json_.is_object())
      fail(ErrorKind::kInput, where_, " is ", show(json_), ", want an object");
    for (const auto& [key, value] : json_.items()) {
      if (!known.contains(key)) {
        fail(ErrorKind::kInput, where_, ": unknown key '", clip(key), "'");
      }
    }
  }

  const Json& at(const char* key) const {
    const auto found = json_.find(key);
    if (found == json_.end()) fail(ErrorKind::kInput, where_, ": key '", key, "' is missing");
    return *found;
  }
  int integer(const char* key, int low, int high) const {
    return integer_of(at(key), where_ + ": " + key, low, high);
  }
  std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) {
      fail(ErrorKind::kInput, where_, ": ", key, " is ", show(value), ", want a text");
    }
    return value.get<std::string>();
  }
  const Json& list(const char* key) const {
    const Json& value = at(key);
    if (!value.is_array()) {
      fail(ErrorKind::kInput, where_, ": ", key, " is ", show(value), ", want a list");
    }
    return value;
  }

  static int integer_of(const Json& value, const std::string& where, int low, int high) {
    const bool fits = value.is_number_unsigned()
                          ? value.get<uint64_t>() <= static_cast<uint64_t>(INT32_MAX)
                          : value.is_number_integer() && value.get<int64_t>() >= INT32_MIN;
    if (fits && value.get<int>() >= low && value.get<int>() <= high) return value.get<int>();
    fail(ErrorKind::kInput, where, " is ", show(value), ", want a whole number in [", low, ", ",
         high, "]");
  }

 private:
  static std::string show(const Json& value) {
    return clip(value.dump(-1, ' ', true, Json::error_handler_t::replace));
  }

  const Json& json_;
  std::string where_;
};

void check_model(const Fields& model, const ModelShape& shape, const std::string& where) {
  const std::string family = model.text("family");
  const std::string fingerprint = model.text("fingerprint");
  if (family != shape.family || fingerprint != shape.fingerprint) {
    fail(ErrorKind::kInput, where, ": placement is for model ", clip(family), " (",
         clip(fingerprint), "), this model is ", shape.family, " (", shape.fingerprint,
         "); use a placement made for it, or --placement contiguous");
  }
}

// Fills the lists of one entry of "layers".
void read_layer(const Json& json, const std::string& where, const ModelShape& shape,
                ExpertLists& lists) {
  const Fields fields(json, where, {"layer", "experts"});
  const int layer = fields.integer("layer", 0, shape.num_layers - 1);
  auto& ranks = lists[static_cast<size_t>(layer)];
  if (!shape.layer_is_moe[static_cast<size_t>(layer)]) {
    fail(ErrorKind::kInput, where, ": layer ", layer, " is dense, it has no experts to place");
  }
  for (const auto& experts : ranks) {
    if (!experts.empty()) fail(ErrorKind::kInput, where, ": layer ", layer, " comes twice");
  }
  const Json& of_rank = fields.list("experts");
  if (of_rank.size() != ranks.size()) {
    fail(ErrorKind::kInput, where, ": layer ", layer, " lists ", of_rank.size(), " ranks, want ",
         ranks.size());
  }
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string at =
        where + ": layer " + std::to_string(layer) + " rank " + std::to_string(rank);
    if (!of_rank[rank].is_array()) fail(ErrorKind::kInput, at, " is not a list of experts");
    for (const Json& expert : of_rank[rank]) {
      ranks[rank].push_back(Fields::integer_of(expert, at + " expert", 0, shape.num_experts - 1));
    }
  }
}

Json parse_json(std::string_view text, const std::string& where) {
  try {
    return Json::parse(text, Guard(where));
  } catch (const Json::exception& error) {
    fail(ErrorKind::kInput, where, ": not JSON: ", clip(error.what()));
  }
}

}  // namespace

std::string placement_text(const Placement& placement, const ModelShape& shape,
                           const std::string& notes) {
  std::ostringstream out;
  const Json model = {{"family", shape.family}, {"fingerprint", shape.fingerprint}};
  out << "{\n  \"colibri_placement\": " << kVersion << ",\n  \"model\": " << model.dump()
      << ",\n  \"num_ranks\": " << placement.num_ranks();
  if (!notes.empty()) out << ",\n  \"plan\": " << notes;
  out << ",\n  \"layers\": [";
  const char* separator = "\n";
  for (int layer = 0; layer < placement.num_layers(); ++layer) {
    if (!placement.has_experts(layer)) continue;
    Json ranks = Json::array();
    for (int rank = 0; rank < placement.num_ranks(); ++rank) {
      ranks.push_back(placement.experts_of(layer, rank));
    }
    out << std::exchange(separator, ",\n") << "    {\"layer\": " << layer
        << ", \"experts\": " << ranks.dump() << "}";
  }
  out << "\n  ]\n}\n";
  return out.str();
}

Placement parse_placement(std::string_view text, const std::string& where,
                          const ModelShape& shape) {
  const Json json = parse_json(text, where);
  const Fields file(json, where, {"colibri_placement", "model", "num_ranks", "plan", "layers"});
  file.integer("colibri_placement", kVersion, kVersion);
  check_model(Fields(file.at("model"), where + ": model", {"family", "fingerprint"}), shape, where);
  const int num_ranks = file.integer("num_ranks", 1, kMaxRanks);
  if (json.contains("plan") && !json.at("plan").is_object()) {
    fail(ErrorKind::kInput, where, ": plan is no object");
  }
  const Json& layers = file.list("layers");
  if (layers.size() != static_cast<size_t>(shape.num_moe_layers())) {
    fail(ErrorKind::kInput, where, ": ", layers.size(), " layers, the model has ",
         shape.num_moe_layers(), " with experts");
  }
  ExpertLists lists(static_cast<size_t>(shape.num_layers));
  for (size_t i = 0; i < layers.size(); ++i) {
    // A layer's own list bounds the ranks, so a large num_ranks alone takes no memory.
    const auto ranks = layers[i].is_object() ? layers[i].value("experts", Json()) : Json();
    if (ranks.size() != static_cast<size_t>(num_ranks)) {
      fail(ErrorKind::kInput, where, ": layers[", i, "] lists ", ranks.size(), " ranks, want ",
           num_ranks);
    }
  }
  for (auto& ranks : lists) ranks.resize(static_cast<size_t>(num_ranks));
  for (size_t i = 0; i < layers.size(); ++i) {
    read_layer(layers[i], where + ": layers[" + std::to_string(i) + "]", shape, lists);
  }
  try {
    return Placement(shape, num_ranks, lists);
  } catch (const Error& error) {
    throw Error(error.kind(), where + ": " + error.what());
  }
}

Placement read_placement(const std::filesystem::path& path, const ModelShape& shape) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) {
    fail(ErrorKind::kEnvironment, "placement file ", path.string(),
         code ? ": " + code.message() : " is not a file",
         "; want contiguous, round-robin, random:SEED or a file");
  }
  const std::uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code || bytes > kMaxFileBytes) {
    fail(ErrorKind::kInput, "placement file ", path.string(), " has ", bytes,
         " bytes, want at most ", kMaxFileBytes);
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    fail(ErrorKind::kEnvironment, "cannot read placement file ", path.string());
  }
  return parse_placement(text, path.string(), shape);
}

void write_placement(const std::filesystem::path& path, const Placement& placement,
                     const ModelShape& shape, const std::string& notes) {
  std::filesystem::path partial = path;
  partial += ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << placement_text(placement, shape, notes);
  file.close();
  std::error_code code;
  if (file) std::filesystem::rename(partial, path, code);
  if (!file || code) {
    std::filesystem::remove(partial, code);
    fail(ErrorKind::kEnvironment, "cannot write placement file ", path.string());
  }
}

}  // namespace colibri
