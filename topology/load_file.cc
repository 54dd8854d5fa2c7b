#include "topology/load_file.h"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"

namespace colibri {
namespace {

using nlohmann::json;

constexpr int kVersion = 1;
constexpr uintmax_t kMaxFileBytes = uintmax_t{256} << 20;
// Of a file that is read without its model, which would bound them.
constexpr int kMaxLayers = 4096, kMaxExperts = 16384;
constexpr double kMaxPairBytes = 1e9;
constexpr double kRounding = 1 + 1e-9;  // sums of merged counts
constexpr const char* kPhases[kNumLoadPhases] = {"prefill", "decode"};

// Values of one object, each checked.
class Fields {
 public:
  Fields(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail(ErrorKind::kInput, where_, ": want a JSON object");
  }

  const json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(ErrorKind::kInput, where_, ": key '", key, "' is missing");
    return *found;
  }
  std::string text(const char* key) const {
    const json& value = at(key);
    if (!value.is_string() || value.get_ref<const std::string&>().size() > 4096) {
      wrong(key, value, "a short text");
    }
    return value.get<std::string>();
  }
  int whole(const char* key, int low, int high) const {
    const json& value = at(key);
    if (!value.is_number_integer() || value.get<double>() < low || value.get<double>() > high) {
      wrong(key, value,
            "a whole number from " + std::to_string(low) + " to " + std::to_string(high));
    }
    return value.get<int>();
  }
  double count(const char* key) const { return count_of(key, at(key)); }
  double count_of(const char* key, const json& value) const {
    if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > 1e18) {
      wrong(key, value, "a number from 0 to 1e18");
    }
    return value.get<double>();
  }
  const json& list(const char* key) const {
    const json& value = at(key);
    if (!value.is_array()) wrong(key, value, "a list");
    return value;
  }
  [[noreturn]] void wrong(const char* key, const json& value, const std::string& wanted) const {
    fail(ErrorKind::kInput, where_, ": '", key, "' is ", shown(value), ", want ", wanted);
  }

 private:
  // Lists and objects by name only: nlohmann's dump goes as deep into them as a file nests them.
  static std::string shown(const json& value) {
    if (value.is_structured()) return std::string("of kind ") + value.type_name();
    return value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 60);
  }

  const json& object_;
  std::string where_;
};

json pairs_json(const LayerLoads& layer) {
  json pairs = json::array();
  for (size_t high = 1; high < layer.tokens.size(); ++high) {
    for (size_t low = 0; low < high; ++low) {
      const double count = layer.pairs[pair_index(low, high)];
      if (count > 0) pairs.push_back({low, high, count});
    }
  }
  return pairs;
}

void read_pairs(const Fields& fields, LayerLoads& layer) {
  const auto experts = layer.tokens.size();
  layer.pairs.assign(experts * (experts - 1) / 2, 0);
  for (const json& pair : fields.list("pairs")) {
    const bool is_pair = pair.is_array() && pair.size() == 3 && pair[0].is_number_unsigned() &&
                         pair[1].is_number_unsigned() &&
                         pair[0].get<size_t>() < pair[1].get<size_t>() &&
                         pair[1].get<size_t>() < experts;
    if (!is_pair) fields.wrong("pairs", pair, "[lower expert, higher expert, count]");
    const auto low = pair[0].get<size_t>(), high = pair[1].get<size_t>();
    const double count = fields.count_of("pairs", pair[2]);
    if (count > std::min(layer.tokens[low], layer.tokens[high]) * kRounding) {
      fields.wrong("pairs", pair[2], "at most the tokens of both experts");
    }
    layer.pairs[pair_index(low, high)] = count;
  }
}

void read_layer(const json& object, const std::string& where, const ModelShape& shape,
                ExpertLoads& loads) {
  const Fields fields(object, where);
  const int layer = fields.whole("layer", 0, shape.num_layers - 1);
  const std::string phase = fields.text("phase");
  size_t which = 0;
  while (which < kNumLoadPhases && phase != kPhases[which]) ++which;
  if (which == kNumLoadPhases) fields.wrong("phase", fields.at("phase"), "prefill or decode");
  LayerLoads& into = loads.phases[which][static_cast<size_t>(layer)];
  if (into.tokens.empty()) fail(ErrorKind::kInput, where, ": layer ", layer, " has no experts");
  if (into.num_tokens > 0) fail(ErrorKind::kInput, where, ": layer ", layer, " comes twice");
  into.num_tokens = fields.count("num_tokens");
  const json& tokens = fields.list("tokens");
  if (tokens.size() != into.tokens.size()) {
    fail(ErrorKind::kInput, where, ": tokens of ", tokens.size(), " experts, want ",
         into.tokens.size());
  }
  for (size_t e = 0; e < into.tokens.size(); ++e) {
    into.tokens[e] = fields.count_of("tokens", tokens[e]);
    if (into.tokens[e] > into.num_tokens * kRounding) {
      fields.wrong("tokens", tokens[e], "at most num_tokens");
    }
  }
  if (object.contains("pairs")) read_pairs(fields, into);
  if (into.num_tokens <= 0) into.pairs.clear();  // nothing was counted
}

// The numbers of a model as far as its loads tell them.
ModelShape shape_of(const Fields& file, const std::string& where) {
  const Fields model(file.at("model"), where + ": model");
  ModelShape shape;
  shape.family = model.text("family");
  shape.fingerprint = model.text("fingerprint");
  shape.top_k = file.whole("top_k", 1, kMaxExperts);
  double num_with_pairs = 0;
  for (const json& entry : file.list("layers")) {
    const Fields layer(entry, where + ": layers");
    const auto number = static_cast<size_t>(layer.whole("layer", 0, kMaxLayers - 1));
    if (shape.layer_is_moe.size() <= number) shape.layer_is_moe.resize(number + 1);
    shape.layer_is_moe[number] = true;
    if (shape.num_experts == 0) shape.num_experts = static_cast<int>(layer.list("tokens").size());
    num_with_pairs += entry.contains("pairs") ? 1 : 0;
  }
  shape.num_layers = static_cast<int>(shape.layer_is_moe.size());
  if (shape.num_experts > kMaxExperts) {
    fail(ErrorKind::kInput, where, ": ", shape.num_experts, " experts, want at most ", kMaxExperts);
  }
  const double experts = shape.num_experts;
  if (num_with_pairs * experts * (experts - 1) / 2 * sizeof(double) > kMaxPairBytes) {
    fail(ErrorKind::kInput, where, ": pairs of ", shape.num_experts, " experts in ", num_with_pairs,
         " entries, which is more than ", kMaxPairBytes, " bytes; read it with its model");
  }
  return shape;
}

json parse_document(std::string_view text, const std::string& where) {
  json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) fail(ErrorKind::kInput, where, ": is no JSON");
  return document;
}

void check_version(const Fields& file, const std::string& where) {
  const int version = file.whole("colibri_loads", 0, 1 << 30);
  if (version != kVersion) {
    fail(ErrorKind::kUnsupported, where, ": version ", version, " of the form, want ", kVersion);
  }
}

ExpertLoads read_layers(const Fields& file, const std::string& where, const ModelShape& shape) {
  ExpertLoads loads = empty_loads(shape, false);
  size_t index = 0;
  for (const json& layer : file.list("layers")) {
    read_layer(layer, where + ": layers[" + std::to_string(index++) + "]", shape, loads);
  }
  return loads;
}

std::string text_of(const std::filesystem::path& path) {
  std::error_code code;
  const uintmax_t bytes = std::filesystem::file_size(path, code);
  if (code) {
    fail(ErrorKind::kEnvironment, "loads ", path.string(), ": ", code.message(),
         "; want a file of --record-loads");
  }
  if (bytes > kMaxFileBytes) {
    fail(ErrorKind::kInput, "loads ", path.string(), ": ", bytes, " bytes, want at most ",
         kMaxFileBytes);
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  std::ifstream file(path, std::ios::binary);
  if (!file.read(text.data(), static_cast<std::streamsize>(text.size()))) {
    fail(ErrorKind::kEnvironment, "loads ", path.string(), ": cannot be read");
  }
  return text;
}

}  // namespace

std::string loads_text(const ExpertLoads& loads) {
  std::ostringstream out;
  const json model = {{"family", loads.family}, {"fingerprint", loads.fingerprint}};
  out << "{\n  \"colibri_loads\": " << kVersion << ",\n  \"model\": " << model.dump()
      << ",\n  \"top_k\": " << loads.top_k << ",\n  \"layers\": [";
  const char* separator = "\n";
  for (size_t phase = 0; phase < kNumLoadPhases; ++phase) {
    for (size_t layer = 0; layer < loads.phases[phase].size(); ++layer) {
      const LayerLoads& of = loads.phases[phase][layer];
      if (of.num_tokens <= 0) continue;
      json object = {{"layer", layer},
                     {"phase", kPhases[phase]},
                     {"num_tokens", of.num_tokens},
                     {"tokens", of.tokens}};
      if (!of.pairs.empty()) object["pairs"] = pairs_json(of);
      out << std::exchange(separator, ",\n") << "    " << object.dump();
    }
  }
  out << "\n  ]\n}\n";
  return out.str();
}

ExpertLoads parse_loads(std::string_view text, const std::string& where, const ModelShape& shape) {
  const json document = parse_document(text, where);
  const Fields file(document, where);
  check_version(file, where);
  const Fields model(file.at("model"), where + ": model");
  if (model.text("fingerprint") != shape.fingerprint || model.text("family") != shape.family) {
    fail(ErrorKind::kInput, where, ": loads of model ", model.text("family"), " (",
         model.text("fingerprint"), "), this model is ", shape.family, " (", shape.fingerprint,
         "); record them with this model");
  }
  file.whole("top_k", shape.top_k, shape.top_k);
  return read_layers(file, where, shape);
}

ExpertLoads parse_loads(std::string_view text, const std::string& where) {
  const json document = parse_document(text, where);
  const Fields file(document, where);
  check_version(file, where);
  return read_layers(file, where, shape_of(file, where));
}

ExpertLoads read_loads(const std::filesystem::path& path, const ModelShape& shape) {
  return parse_loads(text_of(path), path.string(), shape);
}

ExpertLoads read_loads(const std::filesystem::path& path) {
  return parse_loads(text_of(path), path.string());
}

void write_loads(const std::filesystem::path& path, const ExpertLoads& loads) {
  std::filesystem::path partial = path;
  partial += ".partial";
  std::ofstream file(partial, std::ios::binary | std::ios::trunc);
  file << loads_text(loads);
  file.close();
  std::error_code code;
  if (file) std::filesystem::rename(partial, path, code);
  if (!file || code) {
    std::filesystem::remove(partial, code);
    fail(ErrorKind::kEnvironment, "cannot write loads ", path.string());
  }
}

}  // namespace colibri
