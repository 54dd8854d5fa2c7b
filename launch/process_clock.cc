#include "launch/process_clock.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

namespace colibri {

double seconds_since_process_start() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  if (!std::getline(file, text)) return 0;
  const size_t end_of_name = text.rfind(')');  // the name may hold blanks and brackets
  if (end_of_name == std::string::npos) return 0;
  std::istringstream fields(text.substr(end_of_name + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  double start_ticks = 0;
  if (!(fields >> start_ticks)) return 0;
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9 -
         start_ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

}  // namespace colibri
