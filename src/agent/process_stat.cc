#include "agent/process_stat.h"

#include <fmt/format.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

namespace trireme {

std::optional<ProcessStat> stat_of_process(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // the name may contain spaces and parentheses
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  std::string skipped;
  fields >> stat.state;  // field 3
  for (int field = 4; field < 14; ++field) fields >> skipped;
  int64_t user = 0, system = 0;
  fields >> user >> system;
  stat.cpu_ns = (user + system) * (1'000'000'000 / ::sysconf(_SC_CLK_TCK));
  for (int field = 16; field < 22; ++field) fields >> skipped;  // field 22 is the start
  if (!(fields >> stat.start)) return std::nullopt;
  return stat;
}

}  // namespace trireme
