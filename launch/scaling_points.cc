#include "launch/scaling_points.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "launch/bench_report.h"
#include "launch/standard_out.h"
#include "topology/svg.h"

namespace colibri {
namespace {

using nlohmann::json;

constexpr uintmax_t kMaxFileBytes = uintmax_t{64} << 20;

class Reader {
 public:
  explicit Reader(const std::string& where) : where_(where) {}

  const json& member(const json& object, const char* key) const {
    if (!object.is_object() || !object.contains(key)) {
      fail(ErrorKind::kInput, where_, ": '", key,
           "' is missing; want the report of colibri bench --format json");
    }
    return object.at(key);
  }
  std::string text(const json& object, const char* key) const {
    const json& value = member(object, key);
    if (!value.is_string()) wrong(key, value, "a text");
    return value.get<std::string>();
  }
  double number(const json& object, const char* key) const {
    const json& value = member(object, key);
    if (!value.is_number() || !(value.get<double>() >= 0) || value.get<double>() > 1e15) {
      wrong(key, value, "a number from 0 to 1e15");
    }
    return value.get<double>();
  }
  int count(const json& object, const char* key) const {
    const json& value = member(object, key);
    if (!value.is_number_integer() || number(object, key) > 1e9) wrong(key, value, "a count");
    return value.get<int>();
  }
  [[noreturn]] void wrong(const char* key, const json& value, const char* wanted) const {
    fail(ErrorKind::kInput, where_, ": '", key, "' is ",
         value.dump(-1, ' ', false, json::error_handler_t::replace).substr(0, 60), ", want ",
         wanted);
  }

 private:
  const std::string& where_;
};

ScalingPoint point_of(const Reader& reader, const json& facts, const json& result) {
  ScalingPoint point{.model = reader.text(facts, "model"),
                     .placement = reader.text(facts, "placement"),
                     .transport = reader.text(facts, "transport"),
                     .routing = reader.text(facts, "routing"),
                     .weights = reader.text(facts, "weights"),
                     .ranks = reader.count(facts, "ranks"),
                     .threads = reader.count(facts, "threads_per_rank"),
                     .batch = reader.count(result, "batch"),
                     .is_prefill = reader.text(result, "kind") == "prefill",
                     .tokens = reader.count(result, "tokens"),
                     .tokens_per_s = reader.number(result, "tokens_per_s"),
                     .ms_per_step = reader.number(result, "ms_per_step"),
                     .deviation = reader.number(result, "tokens_per_s_deviation"),
                     .predicted_ms_per_step = {}};
  if (result.contains("predicted_ms_per_step")) {
    point.predicted_ms_per_step = reader.number(result, "predicted_ms_per_step");
  }
  return point;
}

std::string read_file(const std::filesystem::path& path) {
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error || bytes > kMaxFileBytes) {
    fail(ErrorKind::kInput, path.string(), ": ",
         error ? error.message() : std::to_string(bytes) + " bytes", ", want a file of at most ",
         kMaxFileBytes, " bytes");
  }
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string test_name(const ScalingPoint& point) {
  return (point.is_prefill ? "pp" : "tg") + std::to_string(point.tokens);
}

std::string percent(const std::optional<double>& share) {
  return share ? fmt::format("{:+.1f} %", *share * 100) : "";
}

std::vector<double> errors_of(const std::vector<ScalingPoint>& points) {
  std::vector<double> errors;
  for (const ScalingPoint& point : points) {
    if (const auto error = point.error()) errors.push_back(std::abs(*error));
  }
  return errors;
}

// All that a curve has in common.
std::string curve_name(const ScalingPoint& p) {
  return fmt::format("{} b{} {} {} {}", test_name(p), p.batch, p.placement, p.routing, p.transport);
}

}  // namespace

std::optional<double> ScalingPoint::error() const {
  if (!predicted_ms_per_step || ms_per_step <= 0) return std::nullopt;
  return *predicted_ms_per_step / ms_per_step - 1;
}

std::vector<ScalingPoint> parse_points(const std::string& text, const std::string& where) {
  const json document = json::parse(text, nullptr, false);
  if (document.is_discarded()) fail(ErrorKind::kInput, where, ": is no JSON");
  const Reader reader(where);
  const json& facts = reader.member(document, "facts");
  const json& results = reader.member(document, "results");
  if (!results.is_array()) reader.wrong("results", results, "a list");
  std::vector<ScalingPoint> points;
  for (const json& result : results) points.push_back(point_of(reader, facts, result));
  return points;
}

std::vector<ScalingPoint> read_points(const std::filesystem::path& directory) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(directory, error)) {
    if (entry.path().extension() == ".json") files.push_back(entry.path());
  }
  if (error || files.empty()) {
    fail(ErrorKind::kInput, "--points ", directory.string(), ": ",
         error ? error.message() : "holds no *.json",
         "; want a directory of reports of colibri bench --format json");
  }
  std::sort(files.begin(), files.end());
  std::vector<ScalingPoint> points;
  for (const std::filesystem::path& file : files) {
    const std::vector<ScalingPoint> more = parse_points(read_file(file), file.string());
    points.insert(points.end(), more.begin(), more.end());
  }
  return points;
}

std::vector<ScalingPoint> merge_rounds(const std::vector<ScalingPoint>& points) {
  const auto key = [](const ScalingPoint& p) {
    return curve_name(p) + fmt::format(" {} {} {} {}", p.model, p.weights, p.ranks, p.threads);
  };
  std::vector<ScalingPoint> merged;
  std::map<std::string, std::vector<ScalingPoint>> rounds;
  for (const ScalingPoint& p : points) {
    std::vector<ScalingPoint>& alike = rounds[key(p)];
    if (alike.empty()) merged.push_back(p);
    alike.push_back(p);
  }
  for (ScalingPoint& p : merged) {
    const std::vector<ScalingPoint>& alike = rounds[key(p)];
    const auto median_of = [&](auto value) {
      std::vector<double> values;
      for (const ScalingPoint& round : alike) values.push_back(value(round));
      return median(values);
    };
    p.num_rounds = static_cast<int>(alike.size());
    p.tokens_per_s = median_of([](const ScalingPoint& r) { return r.tokens_per_s; });
    p.ms_per_step = median_of([](const ScalingPoint& r) { return r.ms_per_step; });
    p.deviation = median_of([](const ScalingPoint& r) { return r.deviation; });
    p.predicted_ms_per_step.reset();
    const bool is_predicted = std::all_of(alike.begin(), alike.end(), [](const ScalingPoint& r) {
      return r.predicted_ms_per_step.has_value();
    });
    if (is_predicted) {
      p.predicted_ms_per_step =
          median_of([](const ScalingPoint& r) { return *r.predicted_ms_per_step; });
    }
  }
  return merged;
}

std::string points_table(const std::vector<ScalingPoint>& points) {
  std::string text =
      "| test | batch | ranks x threads | placement | routing | transport | tokens/s | ms/step | "
      "predicted | error |\n|---|---:|---:|---|---|---|---:|---:|---:|---:|\n";
  for (const ScalingPoint& p : points) {
    const std::string predicted =
        p.predicted_ms_per_step ? fmt::format("{:.3f}", *p.predicted_ms_per_step) : "";
    text +=
        fmt::format("| {} | {} | {} x {} | {} | {} | {} | {:.2f} ± {:.2f} | {:.3f} | {} | {} |\n",
                    test_name(p), p.batch, p.ranks, p.threads, p.placement, p.routing, p.transport,
                    p.tokens_per_s, p.deviation, p.ms_per_step, predicted, percent(p.error()));
  }
  const std::vector<double> errors = errors_of(points);
  if (errors.empty()) return text;
  return text +
         fmt::format("\nOf {} predictions the median error is {:.1f} %, the largest {:.1f} %.\n",
                     errors.size(), 100 * median(errors),
                     100 * *std::max_element(errors.begin(), errors.end()));
}

std::string points_csv(const std::vector<ScalingPoint>& points) {
  std::string text =
      "test,batch,ranks,threads,placement,routing,transport,tokens_per_s,deviation,ms_per_step,"
      "predicted_ms_per_step,error\n";
  for (const ScalingPoint& p : points) {
    text += fmt::format("{},{},{},{},{},{},{},{:.4f},{:.4f},{:.5f},", test_name(p), p.batch,
                        p.ranks, p.threads, p.placement, p.routing, p.transport, p.tokens_per_s,
                        p.deviation, p.ms_per_step);
    if (p.predicted_ms_per_step) {
      text += fmt::format("{:.5f},{:.5f}", *p.predicted_ms_per_step, p.error().value_or(0));
    } else {
      text += ",";
    }
    text += "\n";
  }
  return text;
}

std::string points_svg(const std::vector<ScalingPoint>& points) {
  std::map<std::string, ChartCurve> measured, predicted;
  for (const ScalingPoint& p : points) {
    const std::string name = curve_name(p);
    measured[name].name = name;
    measured[name].points.emplace_back(p.ranks, p.tokens_per_s);
    if (!p.predicted_ms_per_step || *p.predicted_ms_per_step <= 0) continue;
    predicted[name].name = "predicted";
    predicted[name].is_dashed = true;
    predicted[name].points.emplace_back(p.ranks,
                                        p.tokens_per_s * p.ms_per_step / *p.predicted_ms_per_step);
  }
  Chart chart{.title = points.empty() ? "" : points[0].model + ", " + points[0].weights,
              .x_label = "ranks",
              .y_label = "tokens/s",
              .has_log_y = true};
  for (auto& [name, curve] : measured) {
    std::sort(curve.points.begin(), curve.points.end());
    chart.curves.push_back(curve);
    if (!predicted.contains(name)) continue;
    std::sort(predicted[name].points.begin(), predicted[name].points.end());
    chart.curves.push_back(predicted[name]);
  }
  return chart_svg(chart);
}

int compare_points(const SimulateOptions& options) {
  const std::vector<ScalingPoint> points = merge_rounds(read_points(options.points));
  write_out(options.format == "csv" ? points_csv(points) : points_table(points));
  if (options.svg.empty()) return 0;
  std::ofstream file(options.svg, std::ios::binary);
  file << points_svg(points);
  file.close();
  if (!file) fail(ErrorKind::kEnvironment, "--svg ", options.svg, ": cannot be written");
  return 0;
}

}  // namespace colibri
