#include "model/checkpoint_files.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "model/container_format.h"
#include "model/json_events.h"
#include "model/printable.h"
#include "model/small_file.h"

namespace colibri {
namespace {

namespace fs = std::filesystem;
constexpr uint64_t kMaxIndexBytes = 100'000'000;
constexpr const char* kIndexName = "model.safetensors.index.json";
constexpr const char* kSingleName = "model.safetensors";
constexpr int kMaxShards = 4096;

// Takes weight_map out of {metadata, weight_map}; passes over everything else.
class IndexReader : public JsonEvents {
 public:
  explicit IndexReader(const std::string& where) : where_(where) {}

  void scalar(JsonScalar& value) override {
    if (depth_ == 0) fail(ErrorKind::kInput, where_, ": want a JSON object");
    if (!in_map_ || depth_ != 2) {
      if (depth_ == 1 && key_ == "weight_map") refuse_map();
      return;
    }
    if (value.kind != JsonKind::kString) refuse_map();
    add(value.text);
  }
  void key(std::string& name) override {
    key_.swap(name);
    if (depth_ == 1 && !top_keys_.insert(key_).second) {
      fail(ErrorKind::kInput, where_, ": key \"", printable(key_), "\" stands twice");
    }
  }
  void begin(JsonKind kind) override {
    const bool is_map = depth_ == 1 && key_ == "weight_map";
    if (depth_ == 0 && kind != JsonKind::kObject) {
      fail(ErrorKind::kInput, where_, ": want a JSON object");
    }
    if (in_map_ || (is_map && kind != JsonKind::kObject)) refuse_map();
    in_map_ = is_map;
    has_map_ = has_map_ || is_map;
    ++depth_;
  }
  void end() override {
    --depth_;
    in_map_ = false;
  }

  bool has_map() const { return has_map_; }
  std::map<std::string, int>& files() { return files_; }
  std::vector<std::pair<std::string, int>>& weight_map() { return weight_map_; }

 private:
  [[noreturn]] void refuse_map() {
    fail(ErrorKind::kInput, where_, ": weight_map must map tensor names to file names (at \"",
         printable(key_), "\")");
  }

  void add(const std::string& file) {
    const bool is_plain = !file.empty() && file.size() <= 255 && file != "." && file != ".." &&
                          file.find('/') == std::string::npos &&
                          file.find('\\') == std::string::npos &&
                          file.find('\0') == std::string::npos;
    if (!is_plain) {
      fail(ErrorKind::kInput, where_, ": weight_map sends \"", printable(key_), "\" to \"",
           printable(file), "\", want the plain name of a file beside the index");
    }
    const auto [at, is_new] = files_.emplace(file, static_cast<int>(files_.size()));
    if (is_new && files_.size() > kMaxShards) {
      fail(ErrorKind::kInput, where_, ": more than ", kMaxShards, " weight files");
    }
    weight_map_.emplace_back(key_, at->second);
  }

  const std::string& where_;
  std::string key_;
  std::set<std::string> top_keys_;
  std::map<std::string, int> files_;
  std::vector<std::pair<std::string, int>> weight_map_;
  int depth_ = 0;
  bool in_map_ = false, has_map_ = false;
};

std::vector<std::string> names_in(const fs::path& dir) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

// Downloads that were cut leave *.incomplete in the directory or in its download cache.
std::string unfinished_download(const fs::path& dir) {
  for (const fs::path& place : {dir, dir / ".cache" / "huggingface" / "download"}) {
    for (const std::string& name : names_in(place)) {
      if (name.ends_with(".incomplete")) return (place / name).string();
    }
  }
  return "";
}

[[noreturn]] void fail_missing_shard(const fs::path& path, const std::string& index) {
  std::error_code error;
  const bool is_link = fs::is_symlink(path, error);
  const std::string unfinished = unfinished_download(path.parent_path());
  fail(ErrorKind::kInput, path.string(), ": ",
       is_link ? "a link to a file that is not there" : "no such file", ", but ", index,
       " names it", unfinished.empty() ? "" : "; the download is not finished (" + unfinished + ")",
       "; download the missing file");
}

[[noreturn]] void fail_no_weights(const fs::path& dir) {
  const std::string unfinished = unfinished_download(dir);
  if (!unfinished.empty()) {
    fail(ErrorKind::kInput, dir.string(), ": no ", kSingleName, " and no ", kIndexName,
         "; the download is not finished (", unfinished, "); finish it");
  }
  std::string held;
  bool has_bin = false;
  for (const std::string& name : names_in(dir)) {
    has_bin = has_bin || name.ends_with(".bin") || name.ends_with(".pt");
    if (held.size() < 300) held += (held.empty() ? "" : ", ") + name;
  }
  fail(ErrorKind::kInput, dir.string(), ": no ", kSingleName, " and no ", kIndexName,
       "; the directory holds: ", held.empty() ? "nothing" : held,
       has_bin ? ". PyTorch .bin files are not read; use the safetensors form of the release"
               : ". Want a Hugging Face model directory with safetensors weights");
}

bool looks_like_hub_name(const std::string& text) {
  const size_t slash = text.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == text.size()) return false;
  const bool is_plain = text.find_first_not_of(
                            "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./") ==
                        std::string::npos;
  return is_plain && text.find('/', slash + 1) == std::string::npos && text[0] != '.';
}

// Renumbers files by name order, so that the order in the index does not matter.
WeightFiles sorted_files(const fs::path& dir, IndexReader& reader) {
  WeightFiles files;
  std::vector<int> new_idx(reader.files().size());
  for (const auto& [name, old_idx] : reader.files()) {
    new_idx[static_cast<size_t>(old_idx)] = static_cast<int>(files.paths.size());
    files.paths.push_back(dir / name);
  }
  files.weight_map.swap(reader.weight_map());
  for (auto& [name, idx] : files.weight_map) idx = new_idx[static_cast<size_t>(idx)];
  std::sort(files.weight_map.begin(), files.weight_map.end());
  return files;
}

WeightFiles read_index(const fs::path& dir) {
  const std::string where = (dir / kIndexName).string();
  const std::string text = read_small_file(where, kMaxIndexBytes, "the index of the weight files");
  const WeightFiles files = parse_weight_index(text, dir, where);
  for (const fs::path& path : files.paths) {
    std::error_code error;
    if (!fs::exists(path, error)) fail_missing_shard(path, kIndexName);
  }
  return files;
}

}  // namespace

bool is_container_file(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return false;
  if (path.string().ends_with(".colibri")) return true;
  std::string first(8, '\0');
  std::ifstream(path, std::ios::binary).read(first.data(), 8);
  return has_container_magic(first);
}

void require_model_directory(const fs::path& dir) {
  std::error_code error;
  if (fs::is_directory(dir, error)) return;
  const std::string text = dir.string();
  if (fs::exists(dir, error)) {
    fail(ErrorKind::kInput, text,
         ": a file, want a Hugging Face model directory or a .colibri file");
  }
  if (text.ends_with(".colibri")) {
    const bool is_begun = fs::exists(text + ".partial", error);
    fail(ErrorKind::kEnvironment, text, ": no such file",
         is_begun ? "; its conversion is not finished: run the same `colibri convert` again" : "");
  }
  if (looks_like_hub_name(text)) {
    const std::string name = text.substr(text.find('/') + 1);
    fail(ErrorKind::kEnvironment, text,
         ": no such directory. To download this model: "
         "huggingface-cli download ",
         text, " --local-dir ", name, " and then give --model ", name);
  }
  fail(ErrorKind::kEnvironment, text, ": no such directory; want a Hugging Face model directory");
}

WeightFiles parse_weight_index(std::string_view text, const fs::path& dir,
                               const std::string& where) {
  IndexReader reader(where);
  parse_json_events(text, where, reader);
  if (!reader.has_map() || reader.weight_map().empty()) {
    fail(ErrorKind::kInput, where, ": no weight_map, or an empty one");
  }
  WeightFiles files = sorted_files(dir, reader);
  for (size_t i = 1; i < files.weight_map.size(); ++i) {
    if (files.weight_map[i].first == files.weight_map[i - 1].first) {
      fail(ErrorKind::kInput, where, ": weight_map names \"", printable(files.weight_map[i].first),
           "\" twice");
    }
  }
  return files;
}

WeightFiles find_weight_files(const fs::path& dir) {
  std::error_code error;
  if (fs::exists(dir / kIndexName, error)) return read_index(dir);
  if (fs::exists(dir / kSingleName, error)) return {{dir / kSingleName}, {}};
  fail_no_weights(dir);
}

}  // namespace colibri
