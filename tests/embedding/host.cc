// A C++ program that has libcolibri in it, and a global locale that writes 1,234 as "1.234".
#include <colibri.h>

#include <cstdio>
#include <iostream>
#include <locale>
#include <memory>
#include <sstream>
#include <string>
#include <variant>

namespace {

struct German : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

template <class T>
T sized() {
  T made = {};
  made.struct_size = sizeof made;
  return made;
}

int failed(const char* what, const colibri_error& error) {
  std::printf("%s: %s\n", what, error.text);
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::locale::global(std::locale(std::locale::classic(), new German));
  const auto prompt = std::make_shared<std::variant<int, std::string>>("ROMEO:");
  auto options = sized<colibri_options>();
  options.model = argc > 1 ? argv[1] : "";
  options.ranks = 2;
  options.max_context = 1024;
  auto error = sized<colibri_error>();
  colibri_engine* engine = nullptr;
  if (colibri_init(&options, &engine, &error) != COLIBRI_OK) return failed("init", error);
  auto request = sized<colibri_request>();
  request.prompt = std::get<std::string>(*prompt).c_str();
  request.max_tokens = 32;
  auto result = sized<colibri_result>();
  if (colibri_infer(engine, &request, &result, &error) != COLIBRI_OK) {
    return failed("infer", error);
  }
  std::cout << result.text << std::endl;
  colibri_result_free(&result);
  // Numbers in errors are written as everywhere.
  request.max_tokens = -1234567;
  colibri_infer(engine, &request, &result, &error);
  const bool is_plain = std::string(error.text).find("-1234567") != std::string::npos;
  if (!is_plain) return failed("the host's locale shows", error);
  return colibri_free(engine);
}
